package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/store"
)

// A receiver verifies what it gets with a library of the Standard Webhooks project.
func Example() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil || verifier.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Println("got", r.Header.Get("webhook-id"))
	}))
	defer receiver.Close()

	hooks := &hooks{all: []store.Webhook{{ID: 1, User: "lee", URL: receiver.URL, Secret: secret}}}
	channel := webhook.New(hooks, webhook.Options{AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer channel.Close()
	targets, err := channel.Targets(context.Background(), "lee")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range targets {
		if err := t.Send(context.Background(), notify.Note{ID: 77, Recipient: "lee", Job: 5, Title: "You got the job"}); err != nil {
			fmt.Println(err)
		}
	}
	// Output: got msg_77
}
