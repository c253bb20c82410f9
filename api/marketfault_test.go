package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/api/ratelimit"
	"github.com/nearjob/nearjob/store"
)

// faulty is a market whose actions fail while there is a fault; where it is done
// all the same, they are carried out before.
type faulty struct {
	api.Market
	fault func() (done bool, err error)
}

func try[T any](f faulty, do func() (T, error)) (T, error) {
	done, err := f.fault()
	if err == nil {
		return do()
	}
	var none T
	if done {
		if _, err := do(); err != nil {
			return none, err
		}
	}
	return none, err
}

func (f faulty) Post(ctx context.Context, j store.Job) (store.Outcome, error) {
	return try(f, func() (store.Outcome, error) { return f.Market.Post(ctx, j) })
}

func (f faulty) Edit(ctx context.Context, e store.Edit) (store.Outcome, error) {
	return try(f, func() (store.Outcome, error) { return f.Market.Edit(ctx, e) })
}

func (f faulty) Act(ctx context.Context, c store.Command) (store.Outcome, error) {
	return try(f, func() (store.Outcome, error) { return f.Market.Act(ctx, c) })
}

// broken returns a market and a switch for its faults.
func broken(t *testing.T) (m *market, fail func(err error, done bool)) {
	var fault error
	var andDone bool
	m = newMarket(t, func(d *api.Deps, _ *api.Options) {
		d.Market = faulty{d.Market, func() (bool, error) { return andDone, fault }}
	})
	return m, func(err error, done bool) { fault, andDone = err, done }
}

func TestFaults(t *testing.T) {
	m, fail := broken(t)
	job := m.post("owner")
	application := m.apply("kim", job)
	for _, tt := range []struct {
		err     error
		status  int
		detail  string
		outcome string
		retry   bool
	}{
		{fmt.Errorf("x: %w", store.ErrBusy), 503, "busy", "busy", true},
		{fmt.Errorf("x: %w", store.ErrUnknownOutcome), 503, "same Idempotency-Key", "unknown", true},
		{fmt.Errorf("x: %w", store.ErrPlaces), 503, "/readyz", "failed", true},
		{fmt.Errorf("x: %w", store.ErrTimeout), 504, "nothing was done", "timeout", false},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 504, "same Idempotency-Key", "timeout", false},
		{errors.New("password is hunter2"), 500, "Internal error", "failed", false},
		{store.Invalid("reason", "is odd"), 422, "reason", "invalid", false},
		{fmt.Errorf("x: %w", store.ErrNotFound), 404, "no such", "not_found", false},
	} {
		fail(tt.err, false)
		for _, ask := range [][3]string{
			{"POST", "/v1/jobs", sofa}, {"PATCH", job, `{"title":"x"}`}, {"POST", job + "/cancel", ""}, {"POST", application + "/accept", ""},
		} {
			if tt.status == 404 && ask[1] == "/v1/jobs" {
				continue // there is nothing that could be missing
			}
			w := m.call("owner", ask[0], ask[1], ask[2], map[string][]string{"PATCH": {"If-Match", `"1"`}}[ask[0]]...)
			p := wantProblem(t, w, tt.status)
			if !strings.Contains(p.Detail, tt.detail) || strings.Contains(w.Body.String(), "hunter2") || (w.Header().Get("Retry-After") != "") != tt.retry {
				t.Errorf("%v at %s %s: %s %v", tt.err, ask[0], ask[1], w.Body, w.Header())
			}
		}
		fail(nil, false)
		text := m.call("", "GET", "/metrics", "").Body.String()
		for _, action := range []string{"edit", "cancel", "accept"} {
			if want := fmt.Sprintf("nearjob_transitions_total{action=%q,outcome=%q}", action, tt.outcome); !strings.Contains(text, want) {
				t.Errorf("no %s", want)
			}
		}
	}

	// It was done, but nobody knows: the same request with the same key finds it.
	fail(store.ErrUnknownOutcome, true)
	key := []string{"Idempotency-Key", "once"}
	m.must(503, "new", "POST", "/v1/jobs", sofa, key...)
	fail(nil, false)
	again := m.must(201, "new", "POST", "/v1/jobs", sofa, key...)
	mine := m.must(200, "new", "GET", "/v1/me/jobs", "")["jobs"].([]any)
	if len(mine) != 1 || mine[0].(object)["id"] != again["id"] {
		t.Errorf("posted again: %v, have %v", again, mine)
	}
	fail(store.ErrUnknownOutcome, true)
	m.must(503, "owner", "POST", application+"/accept", "", key...)
	fail(nil, false)
	if p := m.must(409, "owner", "POST", application+"/accept", "", key...); p["application_state"] != "accepted" {
		t.Errorf("accepted again: %v", p)
	}
}

// TestMarketMetrics: conflicts, replays and limits are counted.
func TestMarketMetrics(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) {
		d.Limits = &api.Limits{PerUser: ratelimit.Limit{Requests: 8, Window: time.Hour}}
		r := api.NewRetries()
		r.Observe("accept", fmt.Errorf("deadlock: %w", store.ErrBusy))
		d.Collectors = append(d.Collectors, r)
	})
	job, application := m.post("owner"), ""
	application = m.apply("kim", job)
	for range 2 {
		m.call("owner", "POST", application+"/accept", "", "Idempotency-Key", "a")
	}
	m.must(409, "owner", "POST", application+"/accept", "")
	m.must(412, "owner", "POST", job+"/cancel", "", "If-Match", `"1"`)
	var limited *httptest.ResponseRecorder
	for range 9 {
		if limited = m.call("owner", "GET", "/v1/me/jobs", ""); limited.Code != 200 {
			break
		}
	}
	wantProblem(t, limited, 429)
	if limited.Header().Get("Retry-After") == "" || len(limited.Header().Values("RateLimit")) != 2 {
		t.Errorf("%v", limited.Header())
	}
	m.must(200, "kim", "GET", "/v1/me/jobs", "") // has a budget of his own
	text := m.call("", "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`nearjob_transitions_total{action="post",outcome="done"} 1`,
		`nearjob_transitions_total{action="accept",outcome="done"} 1`,
		`nearjob_transitions_total{action="accept",outcome="conflict"} 1`,
		`nearjob_transition_conflicts_total{status="409"} 1`,
		`nearjob_transition_conflicts_total{status="412"} 1`,
		`nearjob_transition_retries_total{action="accept",cause="busy"} 1`,
		`nearjob_idempotency_total{outcome="replayed"} 1`,
		`nearjob_idempotency_total{outcome="ran"} 1`,
		`nearjob_rate_limit_total{outcome="limited",policy="user"} 1`,
		`nearjob_http_requests_in_flight 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, grep(text, "nearjob_(trans|idem|rate)"))
		}
	}
}

func grep(text, pattern string) string {
	re := regexp.MustCompile(pattern)
	var out []string
	for line := range strings.Lines(text) {
		if re.MatchString(line) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// TestTokens: who one is, is told by the token only.
func TestTokens(t *testing.T) {
	m := newMarket(t, nil)
	for _, header := range []string{"Bearer x", "Basic eDp5", "Bearer " + m.token("a") + "x"} {
		for _, target := range []string{"/v1/me/jobs", "/v1/jobs/nearby?lat=1&lng=2", "/v1/me/stream"} {
			if strings.HasPrefix(header, "Basic") && !strings.Contains(target, "/me/") {
				continue // for another door: as good as none
			}
			w := m.call("", "GET", target, "", "Authorization", header)
			if w.Code != 401 && w.Code != 400 {
				t.Errorf("%s with %q: %d %s", target, header, w.Code, w.Body)
			}
			wantProblem(t, w, w.Code)
			if w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: no challenge", target, header)
			}
		}
	}
	old := m.token("a")
	m.pass(25 * time.Hour)
	if w := m.call("", "GET", "/v1/me/jobs", "", "Authorization", "Bearer "+old); w.Code != 401 || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := m.call("", "GET", "/v1/me/jobs?access_token="+m.token("a"), ""); w.Code != 401 {
		t.Errorf("a token in the URL: %d", w.Code)
	}

	private := newMarket(t, func(_ *api.Deps, o *api.Options) { o.PrivateRead = true })
	for _, target := range []string{"/v1/jobs/nearby?lat=1&lng=2", "/v1/jobs/in-box?west=1&south=1&east=2&north=2", "/v1/jobs/7", "/v1/strategies"} {
		private.must(401, "", "GET", target, "")
		if w := private.call("u", "GET", target, ""); w.Code == 401 {
			t.Errorf("%s as a user: %d", target, w.Code)
		}
	}
	private.must(200, "", "GET", "/healthz", "")
}

// TestNeedsAuth: nothing that needs users starts without what tells them.
func TestNeedsAuth(t *testing.T) {
	m := newMarket(t, nil)
	for name, change := range map[string]func(*api.Deps, *api.Options){
		"market":  func(d *api.Deps, _ *api.Options) { d.Market = m.engine },
		"stream":  func(d *api.Deps, _ *api.Options) { d.Stream = http.NotFoundHandler() },
		"private": func(_ *api.Deps, o *api.Options) { o.PrivateRead = true },
		"limits":  func(d *api.Deps, _ *api.Options) { d.Limits = &api.Limits{MaxKeys: -1} },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: New does not panic", name)
				}
			}()
			fakeAPI(fake{}, change)
		}()
	}
	var invalid *store.InvalidError
	l := api.Limits{MaxKeys: -1, Network: ratelimit.Limit{Requests: -1, Window: time.Second}, PerUser: ratelimit.Limit{Requests: 1}}
	if err := l.Validate(); !errors.As(err, &invalid) || len(invalid.Faults) < 3 {
		t.Errorf("%v", err)
	}
	if err := new(api.Limits).Validate(); err != nil {
		t.Error(err)
	}
	// Without a market there is nothing of it.
	h := fakeAPI(fake{}, nil)
	for _, p := range api.Patterns(h) {
		if !strings.HasPrefix(p, "GET ") || strings.Contains(p, "/me/") {
			t.Errorf("%s without a market", p)
		}
	}
}

// TestStream: a stream outlives the time limit of a request, and can be flushed.
func TestStream(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, o *api.Options) {
		o.RequestTimeout = time.Millisecond
		d.Stream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := r.Context().Deadline(); ok {
				t.Error("a stream has a deadline")
			}
			_, _ = fmt.Fprint(w, "data: 1\n\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		})
	})
	if w := m.call("u", "GET", "/v1/me/stream", ""); w.Code != 200 || w.Body.String() != "data: 1\n\n" || !w.Flushed {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	m.must(401, "", "GET", "/v1/me/stream", "")
}

func TestMarketCORS(t *testing.T) {
	m := newMarket(t, nil)
	w := m.call("", "OPTIONS", "/v1/jobs", "", "Origin", "https://example.com", "Access-Control-Request-Method", "POST")
	for _, want := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if !strings.Contains(w.Header().Get("Access-Control-Allow-Methods"), want) {
			t.Errorf("no %s: %v", want, w.Header())
		}
	}
	for _, want := range []string{"Authorization", "Idempotency-Key", "If-Match", "Content-Type"} {
		if !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), want) {
			t.Errorf("no %s: %v", want, w.Header())
		}
	}
	w = m.call("u", "POST", "/v1/jobs", sofa, "Origin", "https://example.com")
	for _, want := range []string{"RateLimit", "RateLimit-Policy", "Idempotency-Replayed", "ETag"} {
		if !slices.Contains(strings.Split(w.Header().Get("Access-Control-Expose-Headers"), ", "), want) {
			t.Errorf("%s is not exposed: %v", want, w.Header())
		}
	}
}

// TestOneWins: of many accepts at once one wins, and all others are told why not.
func TestOneWins(t *testing.T) { onEngines(t, testOneWins) }

func testOneWins(t *testing.T, engine string) {
	m := newMarketOn(t, engine, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	job := m.post("owner")
	var paths []string
	for i := range 16 {
		paths = append(paths, m.apply(fmt.Sprintf("w%d", i), job))
	}
	var wg sync.WaitGroup
	codes := make([]int, len(paths))
	for i, p := range paths {
		wg.Go(func() { codes[i] = m.call("owner", "POST", p+"/accept", "").Code })
	}
	wg.Wait()
	won := 0
	for _, c := range codes {
		switch c {
		case 200:
			won++
		case 409:
		default:
			t.Errorf("status %d", c)
		}
	}
	if won != 1 {
		t.Errorf("%d won: %v", won, codes)
	}
}

// TestExpiry: a job whose time has passed is expired for everybody, swept or not.
func TestExpiry(t *testing.T) {
	m := newMarket(t, nil)
	body := strings.TrimSuffix(sofa, "}") + `,"expires":"` + today.Add(time.Hour).Format(time.RFC3339) + `"}`
	job := "/v1/jobs/" + m.must(201, "owner", "POST", "/v1/jobs", body)["id"].(string)
	if !m.found(job) {
		t.Fatal("not found")
	}
	m.pass(time.Hour)
	if o := m.must(200, "owner", "GET", job, ""); o["state"] != "expired" || len(o["actions"].([]any)) != 0 || m.found(job) {
		t.Errorf("%v", o)
	}
	if p := m.must(409, "kim", "POST", job+"/applications", ""); p["job_state"] != "expired" {
		t.Errorf("%v", p)
	}
}
