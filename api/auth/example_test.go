package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nearjob/nearjob/api/auth"
)

func Example() {
	const secret = auth.Secret("not a secret any more, since it is here")
	verifier, err := auth.New(context.Background(), auth.Config{Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	problem := func(w http.ResponseWriter, _ *http.Request, status int, detail string) { http.Error(w, detail, status) }
	handler := verifier.Require(problem, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s\n", auth.User(r.Context()))
	}))

	token, err := auth.Mint(secret, "42", time.Hour, "", "", time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, header := range []string{"", "Bearer " + token} {
		r := httptest.NewRequest(http.MethodGet, "/v1/me", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	fmt.Println(secret)
	// Output:
	// 401 This needs a user: send a token as Authorization: Bearer.
	// 200 hello 42
	// [secret]
}
