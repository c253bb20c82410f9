package idempotency_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/nearjob/nearjob/api/idempotency"
)

func Example() {
	guard, err := idempotency.New(idempotency.Config{
		Store: new(idempotency.Memory),
		User:  func(*http.Request) string { return "42" }, // as auth.User tells it
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs := 0
	problem := func(w http.ResponseWriter, _ *http.Request, status int, detail string) { http.Error(w, detail, status) }
	handler := guard.Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		jobs++
		fmt.Fprintf(w, "job %d\n", jobs)
	}))
	for _, body := range []string{"walk my dog", "walk my dog", "walk my cat"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %q %s", w.Code, w.Header().Get("Idempotency-Replayed"), w.Body)
	}
	// Output:
	// 200 "" job 1
	// 200 "true" job 1
	// 422 "" This Idempotency-Key was used with another request. Take a new key for a new request.
}
