package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func problem(w http.ResponseWriter, _ *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "detail": detail})
}

// userOf takes the user from a header, for these tests only.
func userOf(r *http.Request) string { return r.Header.Get("X-Test-User") }

func newGuard(t testing.TB, c Config) *Guard {
	t.Helper()
	if c.Store == nil {
		c.Store = new(Memory)
	}
	if c.User == nil {
		c.User = userOf
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// post is a request; its fields that are "" have usual values.
type post struct{ method, target, user, key, body, ifMatch string }

func (p post) request() *http.Request {
	or := func(a, b string) string {
		if a == "" {
			return b
		}
		return a
	}
	r := httptest.NewRequest(or(p.method, http.MethodPost), or(p.target, "/v1/jobs"), strings.NewReader(or(p.body, `{"title":"x"}`)))
	r.Header.Set("X-Test-User", or(p.user, "42"))
	r.Header.Set(HeaderKey, or(p.key, "k1"))
	if p.ifMatch != "" {
		r.Header.Set("If-Match", p.ifMatch)
	}
	return r
}

func (p post) to(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, p.request())
	return w
}

// counter makes something new each time it is asked.
type counter struct{ made atomic.Int64 }

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n := c.made.Add(1)
	h := w.Header()
	h.Set("Location", fmt.Sprintf("/v1/jobs/%d", n))
	h.Set("Content-Type", "application/json")
	h.Set("ETag", `"1"`)
	h.Set("Set-Cookie", "session=secret")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%d,"of":%q}`, n, body)
}

func TestReplay(t *testing.T) {
	made := new(counter)
	var outcomes []Outcome
	g := newGuard(t, Config{Observe: func(o Outcome) { outcomes = append(outcomes, o) }})
	inner := g.Handler(problem, made)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as the API does around it
		w.Header().Set("X-Request-Id", r.Header.Get("X-Test-Request"))
		inner.ServeHTTP(w, r)
	})
	first := post{}.to(h)
	if first.Code != 201 || first.Body.String() != `{"id":1,"of":"{\"title\":\"x\"}"}` || first.Header().Get(HeaderReplayed) != "" || first.Header().Get("Set-Cookie") == "" {
		t.Fatalf("first: %d %s %v", first.Code, first.Body, first.Header())
	}
	for _, key := range []string{"k1", `"k1"`} { // the quotes of the draft
		r := post{key: key}.request()
		r.Header.Set("X-Test-Request", "another id")
		again := httptest.NewRecorder()
		h.ServeHTTP(again, r)
		got := again.Header()
		if again.Code != 201 || again.Body.String() != first.Body.String() || got.Get("Location") != "/v1/jobs/1" || got.Get("Content-Type") != "application/json" ||
			got.Get("ETag") != `"1"` || got.Get(HeaderReplayed) != "true" {
			t.Errorf("again: %d %s %v", again.Code, again.Body, got)
		}
		if got.Get("Set-Cookie") != "" || got.Get("X-Request-Id") != "another id" {
			t.Errorf("headers of the first request are replayed: %v", got)
		}
	}
	// Each of these is another request under the same key.
	for name, p := range map[string]post{"body": {body: "{}"}, "query": {target: "/v1/jobs?x=1"}, "condition": {ifMatch: `"2"`}} {
		if w := p.to(h); w.Code != 422 || !strings.Contains(w.Body.String(), "another request") {
			t.Errorf("other %s: %d %s", name, w.Code, w.Body)
		}
	}
	if n := made.made.Load(); n != 1 {
		t.Fatalf("%d made, want 1", n)
	}
	// These have nothing to do with it.
	for name, p := range map[string]post{
		"user": {user: "43"}, "path": {target: "/v1/jobs/7/apply"}, "key": {key: "k2"}, "key's case": {key: "K1"}, "key with one quote": {key: `"k1`},
		"long path": {target: "/" + strings.Repeat("x", 300)}, "other long path": {target: "/" + strings.Repeat("x", 299) + "y"},
	} {
		if w := p.to(h); w.Code != 201 || w.Header().Get(HeaderReplayed) != "" {
			t.Errorf("other %s: %d %v", name, w.Code, w.Header())
		}
	}
	if n := made.made.Load(); n != 8 {
		t.Errorf("%d made, want 8", n)
	}
	if want := []Outcome{Ran, Replayed, Replayed, Mismatch, Mismatch, Mismatch}; !slices.Equal(outcomes[:6], want) {
		t.Errorf("outcomes %v, want %v", outcomes[:6], want)
	}
}

func TestHashPartsDoNotRunTogether(t *testing.T) {
	seen := make(map[[32]byte]string)
	for _, parts := range [][3]string{{"", "", ""}, {"a", "", ""}, {"", "a", ""}, {"", "", "a"}, {"ab", "", ""}, {"a", "b", ""}, {"a", "", "b"}} {
		r := httptest.NewRequest(http.MethodPost, "/?"+parts[0], nil)
		r.Header.Set("If-Match", parts[1])
		sum := hashOf(r, []byte(parts[2]))
		if other, ok := seen[sum]; ok {
			t.Errorf("%q hashes as %s", parts, other)
		}
		seen[sum] = fmt.Sprintf("%q", parts)
	}
}

// TestWhatIsKept: of every status, whether it is an answer or a call to try again.
func TestWhatIsKept(t *testing.T) {
	again := map[int]bool{408: true, 425: true, 429: true, 499: true}
	for status := 200; status < 600; status++ {
		if http.StatusText(status) == "" && status != 499 {
			continue
		}
		var ran int
		h := newGuard(t, Config{}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ran++
			w.WriteHeader(status)
		}))
		want := 1
		if again[status] || status >= 500 {
			want = 2
		}
		for range 2 {
			if w := (post{}).to(h); w.Code != status {
				t.Errorf("status %d became %d", status, w.Code)
			}
		}
		if ran != want {
			t.Errorf("status %d: ran %d times, want %d", status, ran, want)
		}
	}
}

func TestSilentHandler(t *testing.T) {
	ran := 0
	h := newGuard(t, Config{}).Handler(problem, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
	for range 2 {
		if w := (post{}).to(h); w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}

// TestAtOnce: of many at once one runs, and all get its answer.
func TestAtOnce(t *testing.T) {
	const senders, rounds = 64, 20
	made := new(counter)
	h := newGuard(t, Config{MaxWait: time.Minute}).Handler(problem, made)
	for round := range rounds {
		var wg sync.WaitGroup
		answers := make(chan string, senders)
		replayed := new(atomic.Int64)
		for range senders {
			wg.Go(func() {
				w := post{key: fmt.Sprint("round-", round)}.to(h)
				if w.Header().Get(HeaderReplayed) == "true" {
					replayed.Add(1)
				}
				answers <- fmt.Sprint(w.Code, w.Header().Get("Location"), w.Body)
			})
		}
		wg.Wait()
		close(answers)
		var all []string
		for a := range answers {
			all = append(all, a)
		}
		slices.Sort(all)
		if all = slices.Compact(all); len(all) != 1 || !strings.HasPrefix(all[0], "201") {
			t.Fatalf("round %d: answers %q", round, all)
		}
		if n := replayed.Load(); n != senders-1 {
			t.Errorf("round %d: %d replayed, want %d", round, n, senders-1)
		}
	}
	if n := made.made.Load(); n != rounds {
		t.Errorf("%d made, want %d", n, rounds)
	}
}

// TestAtOnceWithFailures: an attempt that fails hands the key to one that waits,
// until one succeeds; none of the senders is left without an answer.
func TestAtOnceWithFailures(t *testing.T) {
	var tries, done atomic.Int64
	h := newGuard(t, Config{MaxWait: time.Minute}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) <= 5 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		done.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	codes := make(chan int, 40)
	var wg sync.WaitGroup
	for range cap(codes) {
		wg.Go(func() { codes <- post{}.to(h).Code })
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	if done.Load() != 1 || count[503] != 5 || count[201] != 35 {
		t.Errorf("done %d times, answers %v", done.Load(), count)
	}
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var ran int
		h := newGuard(t, Config{MaxWait: 3 * time.Second, Lease: time.Minute}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			ran++
			<-release
			w.WriteHeader(http.StatusCreated)
		}))
		first := make(chan int)
		go func() { first <- post{}.to(h).Code }()
		synctest.Wait()

		// Another body need not wait to be refused.
		start := time.Now()
		if w := (post{body: "{}"}).to(h); w.Code != 422 || time.Since(start) != 0 {
			t.Errorf("other body: %d after %v", w.Code, time.Since(start))
		}
		w := post{}.to(h)
		if took := time.Since(start); w.Code != 409 || w.Header().Get("Retry-After") != "1" || took != 3*time.Second {
			t.Errorf("%d %v after %v", w.Code, w.Header(), took)
		}
		// A waiting client that goes away is not held.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		gone := httptest.NewRecorder()
		h.ServeHTTP(gone, post{}.request().WithContext(ctx))
		if took := time.Since(start); took != time.Second {
			t.Errorf("held for %v after its time of 1 s", took)
		}
		// One that waits gets the answer as soon as it is there.
		second := make(chan *httptest.ResponseRecorder)
		go func() { second <- post{}.to(h) }()
		synctest.Wait()
		time.Sleep(time.Second)
		close(release)
		start = time.Now()
		if w := <-second; w.Code != 201 || w.Header().Get(HeaderReplayed) != "true" || time.Since(start) > lastPoll {
			t.Errorf("%d %v after %v", w.Code, w.Header(), time.Since(start))
		}
		if code := <-first; code != 201 || ran != 1 {
			t.Errorf("%d, ran %d times", code, ran)
		}
	})
}

// TestCrash: a process that dies in the middle frees the key when its lease ends.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, made := new(Memory), new(counter)
		h := newGuard(t, Config{Store: memory, Lease: time.Minute, MaxWait: time.Second}).Handler(problem, made)
		r := post{}.request()
		k := store.OperationKey{User: "42", Operation: "POST /v1/jobs", Key: "k1"}
		a, err := memory.Begin(t.Context(), k, hashOf(r, []byte(`{"title":"x"}`)), time.Now(), time.Minute) // and then it dies
		if err != nil || a.State != store.AnswerNew {
			t.Fatal(a, err)
		}
		if w := (post{}).to(h); w.Code != 409 {
			t.Errorf("within the lease: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := (post{}).to(h); w.Code != 201 || made.made.Load() != 1 {
			t.Errorf("after the lease: %d, %d made", w.Code, made.made.Load())
		}
		if w := (post{}).to(h); w.Header().Get(HeaderReplayed) != "true" {
			t.Errorf("then: %v", w.Header())
		}
		// The dead one wakes: it can neither answer nor free what is not its own.
		if err := memory.Finish(t.Context(), k, a.Token, 500, nil, nil); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("finish after the lease: %v", err)
		}
		if err := memory.Forget(t.Context(), k, a.Token); err != nil {
			t.Error(err)
		}
		if w := (post{}).to(h); w.Code != 201 || made.made.Load() != 1 {
			t.Errorf("in the end: %d, %d made", w.Code, made.made.Load())
		}
	})
}

// TestLateHandler: one that works on past its lease is told to end before it, gets
// its answer out, and does not overwrite that of its successor.
func TestLateHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var n atomic.Int64
		h := newGuard(t, Config{Lease: 40 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}).Handler(problem,
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				me := n.Add(1)
				if me == 1 {
					start := time.Now()
					<-r.Context().Done()
					if took := time.Since(start); took != 30*time.Second {
						t.Errorf("told to end after %v of a lease of 40 s", took)
					}
					time.Sleep(time.Minute) // does not care
				}
				fmt.Fprint(w, me)
			}))
		late := make(chan string)
		go func() { late <- post{}.to(h).Body.String() }()
		time.Sleep(41 * time.Second)
		if w := (post{}).to(h); w.Body.String() != "2" {
			t.Errorf("successor: %s", w.Body)
		}
		if got := <-late; got != "1" {
			t.Errorf("the late one: %s", got)
		}
		if w := (post{}).to(h); w.Body.String() != "2" || n.Load() != 2 {
			t.Errorf("kept: %s after %d runs", w.Body, n.Load())
		}
		if !strings.Contains(log.String(), store.ErrLeaseLost.Error()) {
			t.Errorf("log: %s", log.String())
		}
	})
}

func TestPanic(t *testing.T) {
	n := 0
	h := newGuard(t, Config{}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(201)
			panic("ouch")
		}
		w.WriteHeader(202)
	}))
	func() {
		defer func() {
			if p := recover(); p != "ouch" {
				t.Errorf("recovered %v: the panic must go on to who logs it", p)
			}
		}()
		post{}.to(h)
	}()
	if w := (post{}).to(h); w.Code != 202 || w.Header().Get(HeaderReplayed) != "" {
		t.Errorf("after a panic: %d", w.Code)
	}
}

// TestClientGoesAway: what was done is kept though nobody waits for the answer; a
// handler that ended because of it is not.
func TestClientGoesAway(t *testing.T) {
	for name, c := range map[string]struct {
		status int // 0: nothing is written
		ran    int
	}{"done": {201, 1}, "refused": {409, 1}, "given up": {499, 2}, "timed out": {504, 2}, "nothing written": {0, 2}} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			ctx, cancel := context.WithCancel(t.Context())
			h := newGuard(t, Config{Store: strict{new(Memory)}}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if ran++; ran == 1 {
					cancel()
					<-r.Context().Done()
				}
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
			}))
			h.ServeHTTP(httptest.NewRecorder(), post{}.request().WithContext(ctx))
			post{}.to(h)
			if ran != c.ran {
				t.Errorf("ran %d times, want %d", ran, c.ran)
			}
		})
	}
}

// strict does nothing for a context that has ended, as a database.
type strict struct{ Store }

func (s strict) Finish(ctx context.Context, k store.OperationKey, token int64, status int, header map[string][]string, body []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Store.Finish(ctx, k, token, status, header, body)
}

func (s strict) Forget(ctx context.Context, k store.OperationKey, token int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Store.Forget(ctx, k, token)
}

// broken fails where it is told to.
type broken struct {
	Store
	begin, end error
}

func (b broken) Begin(ctx context.Context, k store.OperationKey, hash [32]byte, now time.Time, lease time.Duration) (store.Answer, error) {
	if b.begin != nil {
		return store.Answer{}, b.begin
	}
	return b.Store.Begin(ctx, k, hash, now, lease)
}

func (b broken) Finish(context.Context, store.OperationKey, int64, int, map[string][]string, []byte) error {
	return b.end
}

func (b broken) Forget(context.Context, store.OperationKey, int64) error { return b.end }

func TestBrokenStore(t *testing.T) {
	made := new(counter)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	h := newGuard(t, Config{Store: broken{begin: store.ErrBusy}, Log: logger}).Handler(problem, made)
	if w := (post{}).to(h); w.Code != 503 || w.Header().Get("Retry-After") == "" || made.made.Load() != 0 || strings.Contains(w.Body.String(), store.ErrBusy.Error()) {
		t.Errorf("begin fails: %d %s, %d made", w.Code, w.Body, made.made.Load())
	}
	h = newGuard(t, Config{Store: broken{Store: new(Memory), end: store.ErrBusy}, MaxWait: time.Millisecond, Log: logger}).Handler(problem, made)
	if w := (post{}).to(h); w.Code != 201 || made.made.Load() != 1 {
		t.Errorf("finish fails: %d, %d made: the client needs its answer", w.Code, made.made.Load())
	}
	if w := (post{}).to(h); w.Code != 409 || made.made.Load() != 1 {
		t.Errorf("then: %d, %d made: it must not run again within the lease", w.Code, made.made.Load())
	}
	if n := strings.Count(log.String(), store.ErrBusy.Error()); n != 2 {
		t.Errorf("%d log lines have the cause, want 2: %s", n, log.String())
	}
}

func TestLargeAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		kept bool
	}{"as large as may be": {100, true}, "one byte more": {101, false}} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			h := newGuard(t, Config{MaxAnswerBytes: 100}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				ran++
				w.WriteHeader(201)
				for range c.size {
					_, _ = w.Write([]byte("x"))
				}
			}))
			if w := (post{}).to(h); w.Code != 201 || w.Body.Len() != c.size {
				t.Errorf("first: %d with %d bytes", w.Code, w.Body.Len())
			}
			w := post{}.to(h)
			if c.kept && (w.Code != 201 || w.Body.Len() != c.size) {
				t.Errorf("again: %d with %d bytes", w.Code, w.Body.Len())
			}
			if !c.kept && (w.Code != 409 || !strings.Contains(w.Body.String(), "too large to keep") || w.Header().Get("Content-Type") != "application/problem+json" ||
				w.Header().Get("Retry-After") != "" || w.Header().Get(HeaderReplayed) != "true") {
				t.Errorf("again: %d %s %v", w.Code, w.Body, w.Header())
			}
			if ran != 1 {
				t.Errorf("ran %d times", ran)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	made := new(counter)
	key := func(keys ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[HeaderKey] = keys }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
		detail string
	}{
		"longest key":       {key(strings.Repeat("k", 255)), 201, ""},
		"all visible ASCII": {key("!\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"), 201, ""},
		"too long":          {key(strings.Repeat("k", 256)), 400, "256 characters"},
		"empty":             {key(""), 400, "0 characters"},
		"empty in quotes":   {key(`""`), 400, "0 characters"},
		"space":             {key("a b"), 400, "visible ASCII"},
		"control":           {key("a\x7f"), 400, "visible ASCII"},
		"not ASCII":         {key("schlüssel"), 400, "visible ASCII"},
		"broken UTF-8":      {key("a\xff"), 400, "visible ASCII"},
		"two":               {key("a", "a"), 400, "more than one"},
		"missing":           {key(), 400, "needs an Idempotency-Key"},
		"nobody":            {func(r *http.Request) { r.Header.Del("X-Test-User") }, 401, "needs a user"},
		"large body":        {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 65))) }, 413, "larger than 64"},
		"body breaks off":   {func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }, 400, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			made.made.Store(0)
			h := newGuard(t, Config{Required: true, MaxBodyBytes: 64}).Handler(problem, made)
			r := post{}.request()
			c.change(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			ran := int64(0)
			if c.status == 201 {
				ran = 1
			}
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.detail) || made.made.Load() != ran {
				t.Errorf("%d %s, %d made; want %d %q", w.Code, w.Body, made.made.Load(), c.status, c.detail)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("challenge %q", w.Header().Get("WWW-Authenticate"))
			}
		})
	}
}

// TestPassing: what is no POST, and without Required a POST without a key, is none
// of the guard's business, whatever it looks like.
func TestPassing(t *testing.T) {
	made := new(counter)
	h := newGuard(t, Config{MaxBodyBytes: 1}).Handler(problem, made)
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for range 2 {
			if w := (post{method: method}).to(h); w.Code != 201 || w.Header().Get(HeaderReplayed) != "" {
				t.Errorf("%s: %d %v", method, w.Code, w.Header())
			}
		}
	}
	r := post{}.request()
	r.Header.Del(HeaderKey)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 201 || made.made.Load() != 13 {
		t.Errorf("POST without a key: %d, %d made", w.Code, made.made.Load())
	}
}

func TestSweep(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	memory, made := new(Memory), new(counter)
	g := newGuard(t, Config{Store: memory, Now: func() time.Time { return now }})
	h := g.Handler(problem, made)
	for i := range 2*sweepBatch + 7 {
		post{key: fmt.Sprint(i)}.to(h)
	}
	now = now.Add(23 * time.Hour)
	post{key: "young"}.to(h)
	if n, err := g.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("before the TTL: %d, %v", n, err)
	}
	now = now.Add(2 * time.Hour)
	if n, err := g.Sweep(t.Context()); n != 2*sweepBatch+7 || err != nil {
		t.Errorf("after the TTL: %d, %v", n, err)
	}
	before := made.made.Load()
	post{key: "young"}.to(h)
	post{key: "0"}.to(h)
	if n := made.made.Load() - before; n != 1 {
		t.Errorf("%d ran again, want only the expired one", n)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"defaults": {Config{Store: new(Memory), User: userOf}, nil},
		"nothing":  {Config{}, []string{"store", "user"}},
		"all at once": {
			Config{Lease: 2 * time.Hour, TTL: time.Hour, MaxWait: time.Hour, MaxBodyBytes: -1, MaxAnswerBytes: -1, Headers: []string{"set-cookie"}},
			[]string{"store", "user", "lease", "ttl", "max_wait", "max_body_bytes", "max_answer_bytes", "headers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.config)
			var got []string
			var invalid *store.InvalidError
			if errors.As(err, &invalid) {
				for _, f := range invalid.Faults {
					got = append(got, f.Field)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("faults in %v, want %v: %v", got, c.want, err)
			}
		})
	}
}

// TestRecorderHidesTheConnection: a handler cannot write past the recorder.
func TestRecorderHidesTheConnection(t *testing.T) {
	h := newGuard(t, Config{}).Handler(problem, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flush: %v", err)
		}
		if _, ok := w.(io.ReaderFrom); ok {
			t.Error("the recorder reads from files itself")
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(201)
		w.WriteHeader(500) // superfluous, as for net/http
	}))
	s := httptest.NewServer(h)
	defer s.Close()
	for _, replayed := range []string{"", "true"} {
		r := post{}.request()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/jobs", r.Body)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(req.Header, r.Header)
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 201 || resp.Header.Get(HeaderReplayed) != replayed {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
}

// TestMemorySharesNothing: what a caller does to an answer stays with the caller.
func TestMemorySharesNothing(t *testing.T) {
	m, k := new(Memory), store.OperationKey{User: "42", Key: "k"}
	now := time.Now()
	a, err := m.Begin(t.Context(), k, [32]byte{1}, now, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	header, body := map[string][]string{"A": {"1"}}, []byte("body")
	if err := m.Finish(t.Context(), k, a.Token, 201, header, body); err != nil {
		t.Fatal(err)
	}
	header["A"][0], body[0] = "x", 'x'
	for range 2 {
		a, err := m.Begin(t.Context(), k, [32]byte{1}, now, time.Minute)
		if err != nil || a.State != store.AnswerKnown || a.Header["A"][0] != "1" || string(a.Body) != "body" {
			t.Fatalf("%+v %v", a, err)
		}
		a.Header["A"][0], a.Body[0] = "y", 'y'
	}
	if err := m.Finish(t.Context(), k, a.Token, 500, nil, nil); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("a second finish: %v", err)
	}
}

// FuzzKey: a key that is taken is 1 to 255 visible ASCII characters, and means the
// same with quotes around it.
// Run: go test -fuzz FuzzKey ./api/idempotency
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "a", `"a"`, `"`, `""`, `"""`, "a b", "\x00", "é", `"a\"b"`, strings.Repeat("x", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, fault := parseKey([]string{s})
		if fault != "" {
			if key != "" {
				t.Fatalf("key %q and fault %q", key, fault)
			}
			return
		}
		if key == "" || len(key) > 255 || strings.Trim(s, `"`) != strings.Trim(key, `"`) {
			t.Fatalf("key %q of %q", key, s)
		}
		for i := range len(key) {
			if key[i] <= ' ' || key[i] >= 0x7f {
				t.Fatalf("key %q", key)
			}
		}
		if strings.ContainsAny(key, `"\`) {
			return
		}
		if quoted, fault := parseKey([]string{`"` + key + `"`}); quoted != key || fault != "" {
			t.Fatalf("quoted, %q is %q, %s", key, quoted, fault)
		}
	})
}
