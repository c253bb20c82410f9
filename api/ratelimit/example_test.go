package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nearjob/nearjob/api/ratelimit"
)

func Example() {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	limiter, err := ratelimit.New(ratelimit.Config{
		PerAddress: ratelimit.Limit{Requests: 2, Window: time.Minute},
		Now:        func() time.Time { return noon }, // leave it out for the real time
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	problem := func(w http.ResponseWriter, _ *http.Request, status int, detail string) { http.Error(w, detail, status) }
	handler := limiter.Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Print(w.Code, " ", w.Header().Get("RateLimit"), " ", w.Body)
	}
	// Output:
	// 200 "address";a=1;w=30;r=1;t=30 hello
	// 200 "address";a=0;w=30;r=0;t=30 hello
	// 429 "address";a=0;w=30;r=0;t=30 Too many requests: the limit is 2 in 1m0s. Try again in 30 seconds.
}
