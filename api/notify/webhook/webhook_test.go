package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hooks are webhooks in memory.
type hooks struct {
	mu  sync.Mutex
	all []store.Webhook
	err error
}

func (h *hooks) Webhooks(_ context.Context, user store.UserID) ([]store.Webhook, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []store.Webhook
	for _, w := range h.all {
		if w.User == user {
			out = append(out, w)
		}
	}
	return out, h.err
}

func (h *hooks) PutWebhook(_ context.Context, w store.Webhook) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.all {
		if h.all[i].ID == w.ID {
			h.all[i] = w
		}
	}
	return h.err
}

const user = store.UserID("u")

func secret(t testing.TB) string {
	t.Helper()
	s, err := webhook.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func note() notify.Note {
	return notify.Note{
		ID: 77, Recipient: user, Role: store.RoleWorker, Action: store.ActAccept, Job: 5, JobTitle: "Fence <&>", JobState: store.Matched,
		Application: 6, At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), Language: "en", Title: "T", Body: "B",
	}
}

// loopback lets tests call this machine, by plain HTTP.
func loopback() webhook.Options {
	return webhook.Options{
		AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
}

// call sends the note to one webhook at url.
func call(t testing.TB, url string, opts webhook.Options, h *hooks) error {
	t.Helper()
	if h == nil {
		h = &hooks{}
	}
	if h.all == nil {
		h.all = []store.Webhook{{ID: 1, User: user, URL: url, Secret: secret(t)}}
	}
	c := webhook.New(h, opts)
	defer c.Close()
	targets, err := c.Targets(t.Context(), user)
	if err != nil || len(targets) != 1 {
		t.Fatalf("targets %v, %v", targets, err)
	}
	return targets[0].Send(t.Context(), note())
}

func TestCall(t *testing.T) {
	s := secret(t)
	type received struct {
		header http.Header
		body   []byte
		method string
	}
	var got []received
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, received{r.Header, body, r.Method})
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	h := &hooks{all: []store.Webhook{{ID: 1, User: user, URL: server.URL + "/hook?a=b", Secret: s}}}
	for range 2 {
		if err := call(t, "", loopback(), h); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 2 {
		t.Fatalf("%d calls arrived", len(got))
	}
	verifier, err := standardwebhooks.NewWebhook(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		if err := verifier.Verify(g.body, g.header); err != nil {
			t.Errorf("the library does not verify: %v", err)
		}
		// The same by the specification's own words, without the library.
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", g.header.Get("webhook-id"), g.header.Get("webhook-timestamp"), g.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); g.header.Get("webhook-signature") != want {
			t.Errorf("the signature is %s, want %s", g.header.Get("webhook-signature"), want)
		}
		if g.header.Get("webhook-id") != "msg_77" || g.header.Get("Content-Type") != "application/json" || g.method != http.MethodPost {
			t.Errorf("the call is %s with %v", g.method, g.header)
		}
		var e webhook.Event
		if err := json.Unmarshal(g.body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != "nearjob.accept" || e.Data != note() || !e.Timestamp.Equal(note().At) {
			t.Errorf("the event is %+v", e)
		}
		changed := bytes.Replace(g.body, []byte(`"B"`), []byte(`"C"`), 1)
		if err := verifier.Verify(changed, g.header); err == nil {
			t.Error("a changed body is verified")
		}
	}
	if !bytes.Contains(got[0].body, []byte(`"id":"77"`)) || !bytes.Contains(got[0].body, []byte(`"job_id":"5"`)) {
		t.Errorf("ids are not strings: %s", got[0].body)
	}
}

// TestTimestamp: the time is that of the attempt, not of the event.
func TestTimestamp(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	opts := loopback()
	opts.Now = func() time.Time { return at }
	h := &hooks{all: []store.Webhook{{ID: 1, User: user, URL: server.URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}
	if err := call(t, "", opts, h); err != nil {
		t.Fatal(err)
	}
	if got.Get("webhook-timestamp") != "1767323045" {
		t.Errorf("the timestamp is %s", got.Get("webhook-timestamp"))
	}
}

func TestAnswers(t *testing.T) {
	const retry, refused, gone, later = "retry", "refused", "gone", "later"
	for _, test := range []struct {
		status int
		header string // Retry-After
		want   string
		after  time.Duration
	}{
		{200, "", "", 0}, {201, "", "", 0}, {299, "", "", 0},
		{301, "", retry, 0}, {302, "", retry, 0}, {307, "", retry, 0}, {400, "", retry, 0}, {401, "", retry, 0}, {404, "", retry, 0},
		{410, "", gone, 0}, {429, "", retry, 0}, {429, "120", later, 2 * time.Minute}, {500, "", retry, 0}, {503, "5", later, 5 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d %s", test.status, test.header), func(t *testing.T) {
			followed := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					followed = true
					return
				}
				w.Header().Set("Location", "/elsewhere")
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(test.status)
			}))
			defer server.Close()
			h := &hooks{}
			err := call(t, server.URL, loopback(), h)
			got, after := outcome(err)
			if got != test.want || after != test.after {
				t.Errorf("%v, want %s after %v", err, test.want, test.after)
			}
			if followed {
				t.Error("the redirect was followed")
			}
			if disabled := h.all[0].Disabled != ""; disabled != (test.want == gone) {
				t.Errorf("the webhook is now %+v", h.all[0])
			}
		})
	}
}

// outcome says what a dispatcher makes of an error.
func outcome(err error) (string, time.Duration) {
	refused, isRefused := errors.AsType[*notify.RefusedError](err)
	later, isLater := errors.AsType[*notify.LaterError](err)
	switch {
	case err == nil:
		return "", 0
	case errors.Is(err, notify.ErrGone):
		return "gone", 0
	case isRefused && refused != nil:
		return "refused", 0
	case isLater:
		return "later", later.After
	}
	return "retry", 0
}

// TestGoneKeepsChanges has the user change the address while the old one is called.
func TestGoneKeepsChanges(t *testing.T) {
	h := &hooks{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		h.all[0].URL = "https://example.com/new"
		h.mu.Unlock()
		w.WriteHeader(http.StatusGone)
	}))
	defer server.Close()
	if err := call(t, server.URL, loopback(), h); !errors.Is(err, notify.ErrGone) {
		t.Errorf("the error is %v", err)
	}
	if w := h.all[0]; w.Disabled != "" || w.URL != "https://example.com/new" {
		t.Errorf("the changed webhook is %+v", w)
	}
}

func TestDisabledIsNotCalled(t *testing.T) {
	h := &hooks{all: []store.Webhook{{ID: 1, User: user, URL: "https://example.com", Disabled: "410"}, {ID: 2, User: "another", URL: "https://example.com"}}}
	targets, err := webhook.New(h, webhook.Options{}).Targets(t.Context(), user)
	if err != nil || len(targets) != 0 {
		t.Errorf("%v, %v", targets, err)
	}
	h.err = store.ErrBusy
	if _, err := webhook.New(h, webhook.Options{}).Targets(t.Context(), user); !errors.Is(err, store.ErrBusy) {
		t.Errorf("the error is %v", err)
	}
}

// TestGuard calls this machine without being allowed to, by address and by name:
// localhost is a name that leads inside, as a rebound name does.
func TestGuard(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{server.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port} {
		err := call(t, url, webhook.Options{AllowHTTP: true}, nil)
		if got, _ := outcome(err); got != "refused" || !strings.Contains(err.Error(), "public internet") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if called {
		t.Error("the guard let a call through")
	}
	// The same calls, allowed: it was the guard that stopped them.
	for _, url := range []string{server.URL, "http://localhost:" + port} {
		called = false
		if err := call(t, url, loopback(), nil); err != nil || !called {
			t.Errorf("%s: %v, called %v", url, err, called)
		}
	}
}

// TestNoProxy has a proxy in the environment, which would dial past the guard.
func TestNoProxy(t *testing.T) {
	asked := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if err := call(t, server.URL, loopback(), nil); err != nil || asked {
		t.Errorf("%v, the proxy was asked: %v", err, asked)
	}
}

// TestTLS refuses a certificate that nobody knows.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the handshake
	server.StartTLS()
	defer server.Close()
	err := call(t, server.URL, loopback(), nil)
	var unknown x509.UnknownAuthorityError
	var verification *tls.CertificateVerificationError
	if !errors.As(err, &unknown) && !errors.As(err, &verification) {
		t.Errorf("the error is %v", err)
	}
}

func TestLongAndSlowAnswers(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long": // more than fits in any buffer on the way
			chunk := make([]byte, 1<<20)
			for range 200 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			t.Error("the whole answer was read")
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		case "/slow":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer close(stop)
	if err := call(t, server.URL+"/long", loopback(), nil); err != nil {
		t.Errorf("a long answer: %v", err)
	}
	if err := call(t, server.URL+"/header", loopback(), nil); err == nil {
		t.Error("a header of a megabyte is taken")
	}
	opts := loopback()
	opts.Timeout = 50 * time.Millisecond
	if err := call(t, server.URL+"/slow", opts, nil); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("a slow answer: %v", err)
	}
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// TestErrorsHideURLs, for these may hold secrets, and errors are stored.
func TestErrorsHideURLs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody listens
	for _, url := range []string{"http://user:hunter2@" + addr + "/hunter2?k=hunter2", "http://%zz/hunter2", "https://10.0.0.1/hunter2", "ftp://x/hunter2"} {
		err := call(t, url, loopback(), nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	h := &hooks{all: []store.Webhook{{ID: 1, User: user, URL: "https://example.com", Secret: "whsec_hunter2"}}}
	err = call(t, "", webhook.Options{}, h)
	if got, _ := outcome(err); got != "refused" || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a bad secret: %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	for _, test := range []struct {
		url  string
		opts webhook.Options
		ok   bool
	}{
		{"https://example.com/hook?a=b", webhook.Options{}, true},
		{"https://example.com:8443", webhook.Options{}, true},
		{"https://93.184.216.34/", webhook.Options{}, true},
		{"https://[2606:2800:220:1:248:1893:25c8:1946]/", webhook.Options{}, true},
		{"http://example.com", webhook.Options{AllowHTTP: true}, true},
		{"http://127.0.0.1:8080", loopback(), true},
		{"http://example.com", webhook.Options{}, false},
		{"HTTPS://example.com", webhook.Options{}, true},
		{"", webhook.Options{}, false}, {"example.com", webhook.Options{}, false}, {"https://", webhook.Options{}, false}, {"https:///x", webhook.Options{}, false},
		{"https://:443/x", webhook.Options{}, false}, {"https://example.com/#f", webhook.Options{}, false}, {"https://%zz", webhook.Options{}, false},
		{"https://example.com:0", webhook.Options{}, false}, {"https://example.com:65536", webhook.Options{}, false},
		{"https://127.0.0.1", webhook.Options{}, false}, {"https://[::1]", webhook.Options{}, false}, {"https://169.254.169.254/latest", webhook.Options{}, false},
		{"https://[fe80::1%25eth0]/", webhook.Options{}, false}, {"javascript:alert(1)", webhook.Options{AllowHTTP: true}, false},
	} {
		err := webhook.New(&hooks{}, test.opts).CheckURL(test.url)
		if (err == nil) != test.ok {
			t.Errorf("CheckURL(%q): %v", test.url, err)
		}
		if _, invalid := errors.AsType[*store.InvalidError](err); err != nil && !invalid {
			t.Errorf("CheckURL(%q) is a %T", test.url, err)
		}
	}
}

func TestSecret(t *testing.T) {
	if err := webhook.CheckSecret(secret(t)); err != nil {
		t.Error(err)
	}
	if one, two := secret(t), secret(t); one == two {
		t.Error("two secrets are the same")
	}
	if _, err := webhook.NewSecret(strings.NewReader("short")); err == nil {
		t.Error("a secret was made of too little")
	}
	of := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for s, ok := range map[string]bool{
		of(24): true, of(64): true, of(23): false, of(65): false, "": false, "whsec_": false, "whsec_!!!": false, of(24)[6:]: false,
		"WHSEC_" + of(24)[6:]: false,
	} {
		if err := webhook.CheckSecret(s); (err == nil) != ok {
			t.Errorf("CheckSecret(%q): %v", s, err)
		}
	}
}

// Run: go test -fuzz FuzzCheckURL ./api/notify/webhook
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"https://example.com", "http://127.0.0.1", "https://[::ffff:10.0.0.1]:443/x", "https://a@b:1/?#"} {
		f.Add(s)
	}
	c := webhook.New(&hooks{}, webhook.Options{})
	f.Fuzz(func(t *testing.T, s string) {
		if err := c.CheckURL(s); err != nil {
			return
		}
		// What is taken can be asked for, and by https.
		r, err := http.NewRequest(http.MethodPost, s, nil)
		if err != nil || r.URL.Scheme != "https" || r.URL.Hostname() == "" {
			t.Errorf("%q was taken: %v", s, err)
		}
	})
}
