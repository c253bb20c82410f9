package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func writeFile(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// client fetches without leaving connections behind.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// provider is an identity provider's key endpoint.
type provider struct {
	url string

	mu      sync.Mutex
	status  int
	body    []byte
	hold    chan struct{} // answers wait until it is closed
	fetches int
}

func newProvider(t testing.TB, body []byte) *provider {
	p := &provider{status: http.StatusOK, body: body}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.url = s.URL + "/jwks"
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.fetches++
	status, body, hold := p.status, p.body, p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if status/100 == 3 {
		w.Header().Set("Location", "http://evil.example.com/jwks")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (p *provider) answer(status int, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.body = status, body
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// eventually waits for what a background refresh brings about.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestRotation(t *testing.T) {
	a, b := newKeys(t), newKeys(t)
	p := newProvider(t, set(jwk(t, &a.p256.PublicKey, "a", nil)))
	v := newVerifier(t, Config{JWKSURL: p.url, UnknownKeyInterval: time.Hour, Client: client(t)})
	tokenA := sign(t, jwt.SigningMethodES256, a.p256, claims(), "kid", "a")
	tokenB := sign(t, jwt.SigningMethodES256, b.p256, claims(), "kid", "b")
	if _, err := v.User(request(tokenA)); err != nil {
		t.Fatal(err)
	}

	// The provider changes its key. Many requests bring the new one at once: all
	// get in, and the provider is asked once.
	p.answer(200, set(jwk(t, &b.p256.PublicKey, "b", nil)))
	hold := make(chan struct{})
	p.mu.Lock()
	p.hold = hold
	p.mu.Unlock()
	errs := make(chan error, 50)
	for range cap(errs) {
		go func() {
			_, err := v.User(request(tokenB))
			errs <- err
		}()
	}
	eventually(t, "a fetch for the new key", func() bool { return p.count() == 2 })
	close(hold)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("a token of the new key: %v", err)
		}
	}
	if n := p.count(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	// What was withdrawn is good no more, and neither it nor made-up ids make the
	// provider be asked again.
	for _, token := range []string{tokenA, sign(t, jwt.SigningMethodES256, a.p256, claims(), "kid", "x1"), sign(t, jwt.SigningMethodES256, a.p256, claims(), "kid", "x2")} {
		if _, err := v.User(request(token)); !errors.Is(err, ErrBadToken) {
			t.Errorf("error %v, want ErrBadToken", err)
		}
	}
	if n := p.count(); n != 2 {
		t.Errorf("%d fetches after unknown ids, want 2", n)
	}
}

func TestRegularRefresh(t *testing.T) {
	a, b := newKeys(t), newKeys(t)
	p := newProvider(t, set(jwk(t, a.ed.Public(), "k", nil)))
	v := newVerifier(t, Config{JWKSURL: p.url, RefreshInterval: 5 * time.Millisecond, Client: client(t)})
	p.answer(200, set(jwk(t, b.ed.Public(), "k", nil)))
	// Same key id, other key: only the clock can bring it.
	token := sign(t, jwt.SigningMethodEdDSA, b.ed, claims(), "kid", "k")
	eventually(t, "the new key of the old id", func() bool { _, err := v.User(request(token)); return err == nil })
}

func TestFailures(t *testing.T) {
	keys := newKeys(t)
	good := set(jwk(t, &keys.p256.PublicKey, "a", nil))
	token := sign(t, jwt.SigningMethodES256, keys.p256, claims(), "kid", "a")
	for name, c := range map[string]struct {
		status int
		body   []byte
		log    string
	}{
		"error":         {500, []byte("oops"), "500"},
		"not JSON":      {200, []byte("<html>sign in</html>"), "invalid character"},
		"no keys":       {200, []byte(`{"error":"maintenance"}`), errNoUsableKey.Error()},
		"empty":         {200, []byte(`{"keys":[]}`), errNoUsableKey.Error()},
		"symmetric":     {200, set(jwk(t, []byte(strings.Repeat("k", 32)), "a", nil)), "symmetric"},
		"broken key":    {200, []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"a"}]}`), "curve"},
		"too large":     {200, append(bytes.Repeat([]byte(" "), 4096), good...), "larger than 2048 bytes"},
		"redirect":      {302, nil, "redirect"},
		"not the right": {404, good, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, good)
			var log safeBuffer
			v := newVerifier(t, Config{JWKSURL: strings.Replace(p.url, "http://", "http://me:hunter2@", 1) + "?key=hunter3", MaxKeySetBytes: 2048,
				RefreshInterval: 3 * time.Millisecond, Client: client(t), Log: slog.New(slog.NewTextHandler(&log, nil))})
			p.answer(c.status, c.body)
			before := p.count()
			eventually(t, "refreshes that fail", func() bool { return p.count() > before+2 && strings.Contains(log.String(), "the key set failed") })
			if _, err := v.User(request(token)); err != nil {
				t.Errorf("the keys before the failure are lost: %v", err)
			}
			if shown := log.String(); !strings.Contains(shown, c.log) {
				t.Errorf("the log does not say %q: %.600s", c.log, shown)
			} else if strings.Contains(shown, "hunter") {
				t.Errorf("the log shows the password of the URL: %.600s", shown)
			}
		})
	}
}

func TestProviderDownAtStart(t *testing.T) {
	keys := newKeys(t)
	for name, header := range map[string][]any{"kid": {"kid", "a"}, "no kid": nil} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, nil)
			p.answer(503, nil)
			v := newVerifier(t, Config{JWKSURL: p.url, UnknownKeyInterval: time.Millisecond, RefreshInterval: time.Hour, Client: client(t)})
			if err := v.Ready(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("ready: %v", err)
			}
			token := sign(t, jwt.SigningMethodES256, keys.p256, claims(), header...)
			w := httptest.NewRecorder()
			v.Require(problem, http.NotFoundHandler()).ServeHTTP(w, request(token))
			// 401 would make clients throw good tokens away.
			if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%d %v", w.Code, w.Header())
			}
			p.answer(200, set(jwk(t, &keys.p256.PublicKey, "a", nil)))
			eventually(t, "the provider is back", func() bool { _, err := v.User(request(token)); return err == nil })
			if err := v.Ready(t.Context()); err != nil {
				t.Errorf("ready: %v", err)
			}
		})
	}
}

// TestSlowProvider: a request waits no longer than its own time for a key, and
// its end does not take the fetch from the others.
func TestSlowProvider(t *testing.T) {
	keys := newKeys(t)
	p := newProvider(t, set(jwk(t, keys.ed.Public(), "old", nil)))
	v := newVerifier(t, Config{JWKSURL: p.url, UnknownKeyInterval: time.Hour, RefreshTimeout: 20 * time.Second, Client: client(t)})
	hold := make(chan struct{})
	p.mu.Lock()
	p.hold, p.body = hold, set(jwk(t, &keys.p256.PublicKey, "a", nil))
	p.mu.Unlock()
	token := sign(t, jwt.SigningMethodES256, keys.p256, claims(), "kid", "a")
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := v.User(request(token).WithContext(ctx))
		gone <- err
	}()
	eventually(t, "a fetch", func() bool { return p.count() == 2 })
	go func() {
		_, err := v.User(request(token))
		stays <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that went away: %v", err)
	}
	close(hold)
	if err := <-stays; err != nil {
		t.Errorf("the one that stayed: %v", err)
	}
}

func TestFile(t *testing.T) {
	a, b := newKeys(t), newKeys(t)
	file := t.TempDir() + "/jwks.json"
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"missing":   {nil, "no such file"},
		"not JSON":  {[]byte("PEM"), "not a JWK Set"},
		"empty":     {[]byte("{}"), errNoUsableKey.Error()},
		"symmetric": {set(jwk(t, []byte(strings.Repeat("k", 32)), "a", nil)), errNoUsableKey.Error()},
		"private":   {set(jwk(t, a.p256, "a", nil)), errNoUsableKey.Error()},
		"broken":    {[]byte(`{"keys":[{"kty":"RSA","n":"AA"}]}`), "key 0"},
		"large":     {bytes.Repeat([]byte(" "), 257<<10), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/jwks.json"
			if c.text != nil {
				writeFile(t, file, c.text)
			}
			_, err := New(t.Context(), Config{JWKSFile: file, Issuer: issuer, Audience: audience})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("error %v, want %q and the file", err, c.want)
			}
		})
	}
	writeFile(t, file, set(jwk(t, a.ed.Public(), "a", nil)))
	var log safeBuffer
	v := newVerifier(t, Config{JWKSFile: file, RefreshInterval: 3 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	tokenA := sign(t, jwt.SigningMethodEdDSA, a.ed, claims(), "kid", "a")
	tokenB := sign(t, jwt.SigningMethodEdDSA, b.ed, claims(), "kid", "b")
	if _, err := v.User(request(tokenA)); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, []byte("half wri"))
	eventually(t, "the broken file is noticed", func() bool { return strings.Contains(log.String(), "not a JWK Set") })
	if _, err := v.User(request(tokenA)); err != nil {
		t.Errorf("the keys before are lost: %v", err)
	}
	writeFile(t, file, set(jwk(t, b.ed.Public(), "b", nil)))
	eventually(t, "the new file is read", func() bool { _, err := v.User(request(tokenB)); return err == nil })
}
