package sse_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/sse"
)

func ExampleHub() {
	texts, err := notify.NewTexts()
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := sse.New(sse.Deps{
		Inbox: &inbox{}, Profiles: profiles{}, Texts: texts,
		User: func(r *http.Request) (string, bool) { return "lee", true }, // of a verified token, in earnest
	}, sse.Options{MaxAge: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /v1/me/stream", hub)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/me/stream", nil))
	fmt.Printf("%d %s\n%s", w.Code, w.Header().Get("Content-Type"), w.Body)
	// Output:
	// 200 text/event-stream
	// retry: 2000
}
