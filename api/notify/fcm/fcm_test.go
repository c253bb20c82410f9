package fcm_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/fcm"
	"github.com/nearjob/nearjob/store"
)

const user = store.UserID("u")

// devices are tokens in memory.
type devices struct {
	mu     sync.Mutex
	tokens []string
	err    error
}

func (d *devices) Devices(context.Context, store.UserID) ([]store.Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []store.Device
	for _, t := range d.tokens {
		out = append(out, store.Device{Token: t, User: user})
	}
	return out, d.err
}

func (d *devices) DeleteDevice(_ context.Context, of store.UserID, token string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if of == user {
		d.tokens = slices.DeleteFunc(d.tokens, func(t string) bool { return t == token })
	}
	return d.err
}

// google is a server that speaks FCM's HTTP v1 protocol, and the OAuth 2.0 token
// endpoint of service accounts, as far as sending needs them.
type google struct {
	*httptest.Server
	key []byte // of the service account

	mu     sync.Mutex
	grants int                               // access tokens given out
	sent   []map[string]any                  // the messages that were taken
	answer func(token string) (answer, bool) // instead of success
	oauth  func(w http.ResponseWriter) bool  // instead of an access token
}

type answer struct {
	status     int
	retryAfter string
	body       string
}

// signingKey is made once, for that takes long.
var signingKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newGoogle(t *testing.T) *google {
	t.Helper()
	private, err := signingKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	g := &google{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.oauth != nil && g.oauth(w) {
			return
		}
		if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(r.FormValue("assertion"), ".") != 2 {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		g.grants++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"secret-access","token_type":"Bearer","expires_in":3600}`)
	})
	mux.HandleFunc("POST /v1/projects/demo/messages:send", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		if r.Header.Get("Authorization") != "Bearer secret-access" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}`)
			return
		}
		var request struct {
			Message map[string]any `json:"message"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Errorf("the request is no JSON: %v", err)
		}
		token, _ := request.Message["token"].(string)
		if g.answer != nil {
			if a, ok := g.answer(token); ok {
				if a.retryAfter != "" {
					w.Header().Set("Retry-After", a.retryAfter)
				}
				w.WriteHeader(a.status)
				io.WriteString(w, a.body)
				return
			}
		}
		g.sent = append(g.sent, request.Message)
		fmt.Fprintf(w, `{"name":"projects/demo/messages/%d"}`, len(g.sent))
	})
	g.Server = httptest.NewServer(mux)
	t.Cleanup(g.Close)
	g.key, err = json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "private_key_id": "1",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": "nearjob@demo.iam.gserviceaccount.com", "client_id": "1",
		"token_uri": g.URL + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *google) channel(t *testing.T, d *devices, change func(*fcm.Options)) *fcm.Channel {
	t.Helper()
	opts := fcm.Options{Key: g.key, Endpoint: g.URL + "/"}
	if change != nil {
		change(&opts)
	}
	c, err := fcm.New(t.Context(), d, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func note() notify.Note {
	return notify.Note{
		ID: 77, Recipient: user, Role: store.RoleWorker, Action: store.ActAccept, Job: 5, JobTitle: "Fence", JobState: store.Matched,
		Application: 6, At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), Language: "ko", Title: "지원이 수락되었어요", Body: "B <&>",
	}
}

// send sends the note to the user's only device.
func send(t *testing.T, c *fcm.Channel) error {
	t.Helper()
	targets, err := c.Targets(t.Context(), user)
	if err != nil || len(targets) != 1 {
		t.Fatalf("targets %v, %v", targets, err)
	}
	return targets[0].Send(t.Context(), note())
}

func TestSend(t *testing.T) {
	g := newGoogle(t)
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	d := &devices{tokens: []string{"phone", "tablet"}}
	c := g.channel(t, d, func(o *fcm.Options) { o.Now = func() time.Time { return at } })
	targets, err := c.Targets(t.Context(), user)
	if err != nil || len(targets) != 2 || targets[0].Key != "phone" {
		t.Fatalf("targets %v, %v", targets, err)
	}
	for _, target := range targets {
		if err := target.Send(t.Context(), note()); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.sent) != 2 || g.grants != 1 {
		t.Fatalf("%d messages by %d access tokens, want 2 by 1", len(g.sent), g.grants)
	}
	got, err := json.MarshalIndent(g.sent[1], "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "android": {
    "notification": {
      "tag": "77"
    },
    "priority": "HIGH",
    "ttl": "86400s"
  },
  "apns": {
    "headers": {
      "apns-collapse-id": "77",
      "apns-expiration": "1767398400",
      "apns-priority": "10"
    }
  },
  "data": {
    "action": "accept",
    "application_id": "6",
    "at": "2026-01-02T03:04:05.006Z",
    "id": "77",
    "job_id": "5",
    "job_state": "matched",
    "role": "worker"
  },
  "notification": {
    "body": "B \u003c\u0026\u003e",
    "title": "지원이 수락되었어요"
  },
  "token": "tablet",
  "webpush": {
    "headers": {
      "TTL": "86400",
      "Urgency": "high"
    },
    "notification": {
      "tag": "77"
    }
  }
}`
	if string(got) != want {
		t.Errorf("the message is\n%s", got)
	}
}

// failure is an answer in the form of FCM's errors.
func failure(status int, rpc, code, field string) answer {
	details := []map[string]any{}
	if code != "" {
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code})
	}
	if field != "" {
		details = append(details, map[string]any{
			"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []map[string]any{{"field": field, "description": "Invalid"}},
		})
	}
	b, err := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": "It failed.", "status": rpc, "details": details}})
	if err != nil {
		panic(err)
	}
	return answer{status: status, body: string(b)}
}

func (a answer) after(s string) answer {
	a.retryAfter = s
	return a
}

func TestErrors(t *testing.T) {
	const retry, refused, gone, later = "retry", "refused", "gone", "later"
	for name, test := range map[string]struct {
		answer answer
		want   string
		after  time.Duration
	}{
		"unregistered":             {failure(404, "NOT_FOUND", "UNREGISTERED", ""), gone, 0},
		"no such project":          {failure(404, "NOT_FOUND", "", ""), retry, 0},
		"a page that is not FCM":   {answer{status: 404, body: "<html>no</html>"}, retry, 0},
		"bad token":                {failure(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.token"), gone, 0},
		"bad message":              {failure(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.android.ttl"), refused, 0},
		"bad request":              {failure(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", ""), refused, 0},
		"bad request, no code":     {failure(400, "INVALID_ARGUMENT", "", ""), refused, 0},
		"another sender's token":   {failure(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", ""), refused, 0},
		"APNs certificate":         {failure(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", ""), refused, 0},
		"account without rights":   {failure(403, "PERMISSION_DENIED", "", ""), retry, 0},
		"access token is refused":  {failure(401, "UNAUTHENTICATED", "", ""), retry, 0},
		"quota":                    {failure(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", ""), later, time.Minute},
		"quota, with a wait":       {failure(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "").after("300"), later, 5 * time.Minute},
		"unavailable":              {failure(503, "UNAVAILABLE", "UNAVAILABLE", ""), later, time.Second},
		"unavailable, with a wait": {failure(503, "UNAVAILABLE", "UNAVAILABLE", "").after("42"), later, 42 * time.Second},
		"internal":                 {failure(500, "INTERNAL", "INTERNAL", ""), later, time.Second},
		"a gateway":                {answer{status: 502, body: "bad gateway"}, later, time.Second},
		"details of other kinds":   {answer{status: 404, body: `{"error":{"code":404,"details":[7,{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[1]}]}}`}, retry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t)
			calls := 0
			g.answer = func(string) (answer, bool) {
				calls++
				return test.answer, true
			}
			d := &devices{tokens: []string{"phone"}}
			err := send(t, g.channel(t, d, nil))
			later_, isLater := errors.AsType[*notify.LaterError](err)
			_, isRefused := errors.AsType[*notify.RefusedError](err)
			got, after := retry, time.Duration(0)
			switch {
			case err == nil:
				got = ""
			case errors.Is(err, notify.ErrGone):
				got = gone
			case isRefused:
				got = refused
			case isLater:
				got, after = later, later_.After
			}
			if got != test.want || after != test.after {
				t.Errorf("%v: %s after %v, want %s after %v", err, got, after, test.want, test.after)
			}
			if calls != 1 {
				t.Errorf("it was sent %d times: when to try again is the dispatcher's to say", calls)
			}
			if kept := len(d.tokens) == 1; kept == (test.want == gone) {
				t.Errorf("the tokens are now %v", d.tokens)
			}
			if err != nil && (strings.Contains(err.Error(), "secret-access") || strings.Contains(err.Error(), "phone")) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestRemovalFails(t *testing.T) {
	g := newGoogle(t)
	g.answer = func(string) (answer, bool) { return failure(404, "NOT_FOUND", "UNREGISTERED", ""), true }
	d := &devices{tokens: []string{"phone"}}
	targets, err := g.channel(t, d, nil).Targets(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	d.err = store.ErrBusy
	if err := targets[0].Send(t.Context(), note()); !errors.Is(err, store.ErrBusy) || errors.Is(err, notify.ErrGone) {
		t.Errorf("the error is %v", err)
	}
}

// TestAccess has the token endpoint refuse, and then answer again.
func TestAccess(t *testing.T) {
	g := newGoogle(t)
	down := true
	g.oauth = func(w http.ResponseWriter) bool {
		if down {
			http.Error(w, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`, http.StatusBadRequest)
		}
		return down
	}
	c := g.channel(t, &devices{tokens: []string{"phone"}}, nil)
	err := send(t, c)
	if _, refused := errors.AsType[*notify.RefusedError](err); err == nil || refused || errors.Is(err, notify.ErrGone) {
		t.Errorf("the error is %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("the error shows the key: %v", err)
	}
	g.mu.Lock()
	down = false
	g.mu.Unlock()
	if err := send(t, c); err != nil {
		t.Errorf("with access again: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	g := newGoogle(t)
	release := make(chan struct{})
	g.answer = func(string) (answer, bool) {
		<-release
		return answer{}, false
	}
	err := send(t, g.channel(t, &devices{tokens: []string{"phone"}}, func(o *fcm.Options) { o.Timeout = 100 * time.Millisecond }))
	close(release)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestNew(t *testing.T) {
	g := newGoogle(t)
	for name, opts := range map[string]fcm.Options{
		"no key":         {},
		"no JSON":        {Key: []byte("PRIVATE KEY")},
		"another type":   {Key: []byte(`{"type":"external_account","project_id":"demo"}`)},
		"no project":     {Key: []byte(`{"type":"service_account"}`)},
		"too long a TTL": {Key: g.key, TTL: 29 * 24 * time.Hour},
	} {
		_, err := fcm.New(t.Context(), &devices{}, opts)
		if _, invalid := errors.AsType[*store.InvalidError](err); !invalid || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := &devices{err: store.ErrBusy}
	if _, err := g.channel(t, d, nil).Targets(t.Context(), user); !errors.Is(err, store.ErrBusy) {
		t.Errorf("the error is %v", err)
	}
}
