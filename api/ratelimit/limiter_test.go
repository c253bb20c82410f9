package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func problem(w http.ResponseWriter, _ *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "detail": detail})
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// userOf takes the user from a header, for these tests only.
func userOf(r *http.Request) string { return r.Header.Get("X-Test-User") }

func newLimiter(t testing.TB, c Config) *Limiter {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a request from an address, with a user that may be "".
func ask(h http.Handler, from, user string, forwarded ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from
	if user != "" {
		r.Header.Set("X-Test-User", user)
	}
	for _, f := range forwarded {
		r.Header.Add("X-Forwarded-For", f)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFields(t *testing.T) {
	clock := newClock()
	var seen []string
	l := newLimiter(t, Config{
		User: userOf, PerUser: Limit{3, 30 * time.Second}, PerAddress: Limit{1, time.Hour}, Now: clock.Now,
		Observe: func(policy string, limited bool) { seen = append(seen, fmt.Sprint(policy, limited)) },
	})
	h := l.Handler(problem, ok)
	for i, step := range []struct {
		wait   time.Duration
		user   string
		status int
		policy string
		field  string
		retry  string
		detail string
	}{
		{0, "42", 204, `"user";q=3;w=30`, `"user";a=2;w=10;r=2;t=10`, "", ""},
		{0, "42", 204, `"user";q=3;w=30`, `"user";a=1;w=20;r=1;t=20`, "", ""},
		{0, "42", 204, `"user";q=3;w=30`, `"user";a=0;w=10;r=0;t=10`, "", ""}, // 10 s to the next
		{0, "42", 429, `"user";q=3;w=30`, `"user";a=0;w=10;r=0;t=10`, "10", "Too many requests: the limit is 3 in 30s. Try again in 10 seconds."},
		{9500 * time.Millisecond, "42", 429, `"user";q=3;w=30`, `"user";a=0;w=1;r=0;t=1`, "1", "Too many requests: the limit is 3 in 30s. Try again in 1 second."},
		{500 * time.Millisecond, "42", 204, `"user";q=3;w=30`, `"user";a=0;w=10;r=0;t=10`, "", ""},
		{0, "43", 204, `"user";q=3;w=30`, `"user";a=2;w=10;r=2;t=10`, "", ""}, // another user
		{0, "", 204, `"address";q=1;w=3600`, `"address";a=0;w=3600;r=0;t=3600`, "", ""},
		{time.Second, "", 429, `"address";q=1;w=3600`, `"address";a=0;w=3599;r=0;t=3599`, "3599", "Too many requests: the limit is 1 in 1h0m0s. Try again in 3599 seconds."},
		{30 * time.Second, "42", 204, `"user";q=3;w=30`, `"user";a=2;w=10;r=2;t=10`, "", ""}, // full again, not fuller
	} {
		clock.advance(step.wait)
		w := ask(h, "192.0.2.1:1234", step.user)
		got := w.Header()
		if w.Code != step.status || got.Get("RateLimit-Policy") != step.policy || got.Get("RateLimit") != step.field || got.Get("Retry-After") != step.retry {
			t.Errorf("step %d: %d %s, %s, retry %s; want %d %s, %s, retry %s", i, w.Code, got.Get("RateLimit-Policy"), got.Get("RateLimit"), got.Get("Retry-After"),
				step.status, step.policy, step.field, step.retry)
		}
		if step.status == 429 && (!strings.Contains(w.Body.String(), step.detail) || got.Get("Content-Type") != "application/problem+json") {
			t.Errorf("step %d: %s, want %q", i, w.Body, step.detail)
		}
	}
	if len(seen) != 10 || seen[0] != "userfalse" || seen[3] != "usertrue" || seen[8] != "addresstrue" {
		t.Errorf("observed %v", seen)
	}
}

// TestRetryAfterHolds: whoever waits as long as they were told gets through, and
// over any time no more gets through than the bucket grants.
func TestRetryAfterHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newClock()
		limit := Limit{rapid.IntRange(1, 2000).Draw(t, "requests"), time.Duration(rapid.IntRange(1, 7200).Draw(t, "window")) * time.Second}
		l, err := New(Config{PerAddress: limit, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		h := l.Handler(problem, ok)
		passed, start := 0, clock.Now()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(1, 100).Draw(t, "burst") {
				w := ask(h, "192.0.2.1:1", "")
				if w.Code == 204 {
					passed++
					continue
				}
				seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
				if err != nil || seconds < 1 {
					t.Fatalf("Retry-After %q", w.Header().Get("Retry-After"))
				}
				clock.advance(time.Duration(seconds) * time.Second)
				if w := ask(h, "192.0.2.1:1", ""); w.Code != 204 {
					t.Fatalf("still %d after %d s", w.Code, seconds)
				}
				passed++
			}
			clock.advance(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond)
		}
		most := float64(limit.Requests)*(1+clock.Now().Sub(start).Seconds()/limit.Window.Seconds()) + 0.001
		if float64(passed) > most {
			t.Fatalf("%d passed, at most %.3f should", passed, most)
		}
	})
}

func TestAddresses(t *testing.T) {
	l := newLimiter(t, Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string // "" is none
	}{
		"peer":                           {"192.0.2.1:5", nil, "192.0.2.1"},
		"stranger's header is a lie":     {"192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1"},
		"proxy":                          {"10.0.0.1:5", []string{"198.51.100.7"}, "198.51.100.7"},
		"v6 proxy":                       {"[fd00::1]:5", []string{"198.51.100.7"}, "198.51.100.7"},
		"proxy, mapped":                  {"[::ffff:10.0.0.1]:5", []string{"198.51.100.7"}, "198.51.100.7"},
		"client made up a hop":           {"10.0.0.1:5", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"client made up a trusted hop":   {"10.0.0.1:5", []string{"10.9.9.9, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":                    {"10.0.0.1:5", []string{"203.0.113.9, 198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		"two lines":                      {"10.0.0.1:5", []string{"203.0.113.9", "198.51.100.7 ,10.0.0.2"}, "198.51.100.7"},
		"only proxies":                   {"10.0.0.1:5", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"proxy without a header":         {"10.0.0.1:5", nil, "10.0.0.1"},
		"empty header":                   {"10.0.0.1:5", []string{""}, "10.0.0.1"},
		"not an address":                 {"10.0.0.1:5", []string{"198.51.100.7, unknown"}, "10.0.0.1"},
		"not an address behind a proxy":  {"10.0.0.1:5", []string{"198.51.100.7, x, 10.0.0.2"}, "10.0.0.2"},
		"empty hop":                      {"10.0.0.1:5", []string{"198.51.100.7,,10.0.0.2"}, "10.0.0.2"},
		"with a port":                    {"10.0.0.1:5", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		"v6":                             {"10.0.0.1:5", []string{"2001:db8::7"}, "2001:db8::7"},
		"v6 in brackets":                 {"10.0.0.1:5", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"v6 with a port":                 {"10.0.0.1:5", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"mapped":                         {"10.0.0.1:5", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		"zone":                           {"[fe80::1%eth0]:5", nil, "fe80::1"},
		"Unix socket":                    {"@", nil, ""},
		"Unix socket, header not looked": {"", []string{"198.51.100.7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.peer
			for _, f := range c.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			got := l.Address(r)
			if got.IsValid() != (c.want != "") || got.IsValid() && got.String() != c.want {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

func TestWhoSharesABucket(t *testing.T) {
	for name, c := range map[string]struct {
		a, b   string
		shared bool
	}{
		"ports of one address":  {"192.0.2.1:1", "192.0.2.1:2", true},
		"neighbours":            {"192.0.2.1:1", "192.0.2.2:1", false},
		"one v6 subscriber":     {"[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff::2]:1", true},
		"two v6 subscribers":    {"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", false},
		"mapped v4":             {"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		"mapped v4, neighbours": {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false},
		"without an address":    {"@", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLimiter(t, Config{PerAddress: Limit{1, time.Hour}, Now: newClock().Now}).Handler(problem, ok)
			if w := ask(h, c.a, ""); w.Code != 204 {
				t.Fatal(w.Code)
			}
			if w := ask(h, c.b, ""); (w.Code == 429) != c.shared {
				t.Errorf("%d, shared should be %v", w.Code, c.shared)
			}
		})
	}
	t.Run("a user is not an address", func(t *testing.T) {
		one := Limit{1, time.Hour}
		h := newLimiter(t, Config{User: userOf, PerUser: one, PerAddress: one, Now: newClock().Now}).Handler(problem, ok)
		for _, c := range []struct {
			from, user string
			status     int
		}{{"192.0.2.1:1", "", 204}, {"192.0.2.1:1", "192.0.2.1/32", 204}, {"192.0.2.1:1", "42", 204}, {"192.0.2.9:1", "42", 429}, {"192.0.2.1:1", "", 429}} {
			if w := ask(h, c.from, c.user); w.Code != c.status {
				t.Errorf("%v: %d", c, w.Code)
			}
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	clock := newClock()
	l := newLimiter(t, Config{MaxKeys: 100, PerAddress: Limit{1, time.Minute}, Now: clock.Now})
	h := l.Handler(problem, ok)
	from := func(i int) string { return fmt.Sprintf("[2001:db8:%x:%x::1]:1", i>>16, i&0xffff) }
	const kept = 70_000
	for i := range 5000 {
		ask(h, from(i), "")
		if i%10 == 0 {
			ask(h, from(kept), "") // comes again and again, so it is not forgotten
		}
		if n := l.Keys(); n > 100 {
			t.Fatalf("%d keys after %d addresses", n, i)
		}
	}
	if n := l.Keys(); n != 100 {
		t.Errorf("%d keys, want 100", n)
	}
	if w := ask(h, from(kept), ""); w.Code != 429 {
		t.Errorf("the busiest client was forgotten: %d", w.Code)
	}
	// What has been idle for a window goes as others come.
	clock.advance(2 * time.Minute)
	for i := range 100 {
		ask(h, from(100_000+i%3), "")
	}
	for i := range 97 {
		ask(h, from(200_000+i), "")
	}
	clock.advance(2 * time.Minute)
	for i := range 60 {
		ask(h, from(300_000+i), "")
	}
	if n := l.Keys(); n > 100 {
		t.Errorf("%d keys", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buckets) != l.order.Len() {
		t.Errorf("%d buckets in the map, %d in the order", len(l.buckets), l.order.Len())
	}
}

func TestIdleKeysGo(t *testing.T) {
	clock := newClock()
	l := newLimiter(t, Config{Now: clock.Now})
	h := l.Handler(problem, ok)
	for i := range 200 {
		ask(h, fmt.Sprintf("192.0.2.%d:1", i), "")
	}
	clock.advance(61 * time.Second)
	for i := range 100 {
		ask(h, fmt.Sprintf("198.51.100.%d:1", i), "")
	}
	if n := l.Keys(); n != 100 {
		t.Errorf("%d keys, want the 100 of the last minute", n)
	}
}

func TestClockGoesBack(t *testing.T) {
	clock := newClock()
	h := newLimiter(t, Config{PerAddress: Limit{2, time.Minute}, Now: clock.Now}).Handler(problem, ok)
	ask(h, "192.0.2.1:1", "")
	clock.advance(-time.Hour)
	if w := ask(h, "192.0.2.1:1", ""); w.Code != 204 {
		t.Errorf("%d", w.Code)
	}
	if w := ask(h, "192.0.2.1:1", ""); w.Code != 429 || w.Header().Get("Retry-After") != "30" {
		t.Errorf("%d, retry after %s", w.Code, w.Header().Get("Retry-After"))
	}
}

// TestTwoLimiters: the inner one's fields stand beside the outer one's.
func TestTwoLimiters(t *testing.T) {
	clock := newClock()
	inner := newLimiter(t, Config{User: userOf, UserPolicy: "posts", AddressPolicy: "posts-address", PerUser: Limit{5, time.Hour}, Now: clock.Now})
	outer := newLimiter(t, Config{User: userOf, Now: clock.Now})
	w := ask(outer.Handler(problem, inner.Handler(problem, ok)), "192.0.2.1:1", "42")
	if got := w.Header().Values("RateLimit-Policy"); !slices.Equal(got, []string{`"user";q=600;w=60`, `"posts";q=5;w=3600`}) {
		t.Error(got)
	}
	if got := w.Header().Values("RateLimit"); !slices.Equal(got, []string{`"user";a=599;w=1;r=599;t=1`, `"posts";a=4;w=720;r=4;t=720`}) {
		t.Error(got)
	}
}

// TestConcurrent: of many requests at once exactly as many pass as may.
func TestConcurrent(t *testing.T) {
	h := newLimiter(t, Config{User: userOf, PerUser: Limit{100, time.Hour}, MaxKeys: 50, Now: newClock().Now}).Handler(problem, ok)
	var wg sync.WaitGroup
	codes := make(chan int, 1000)
	for range 20 {
		wg.Go(func() {
			for range 50 {
				codes <- ask(h, "192.0.2.1:1", "42").Code
			}
		})
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	if count[204] != 100 || count[429] != 900 {
		t.Errorf("%v", count)
	}
}

func TestConfig(t *testing.T) {
	prefix := netip.MustParsePrefix
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"zero":    {Config{}, nil},
		"proxies": {Config{TrustedProxies: []netip.Prefix{prefix("10.0.0.0/8"), prefix("::1/128")}}, nil},
		"all at once": {
			Config{
				PerUser: Limit{-1, time.Millisecond}, PerAddress: Limit{maxRequests + 1, 25 * time.Hour}, UserPolicy: `a"b`, AddressPolicy: `a"b`,
				TrustedProxies: []netip.Prefix{{}, prefix("0.0.0.0/0"), prefix("::/0"), netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), 104)}, MaxKeys: -1,
			},
			[]string{"per_user.requests", "per_user.window", "per_address.requests", "per_address.window", "user_policy", "address_policy", "address_policy",
				"trusted_proxies[0]", "trusted_proxies[1]", "trusted_proxies[2]", "trusted_proxies[3]", "max_keys"},
		},
		"part of a second": {Config{PerUser: Limit{1, 1500 * time.Millisecond}}, []string{"per_user.window"}},
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

// FuzzAddress: whatever the header says, the address of somebody who is no proxy
// is that of the connection, and behind a proxy it is the last that is no proxy.
// Run: go test -fuzz FuzzAddress ./api/ratelimit
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"", ",", "198.51.100.7", "10.0.0.9,198.51.100.7", "[::1]:80", "[", "]", "a,b", "1.2.3.4:99999", " \t1.2.3.4\t ", "::ffff:10.0.0.1"} {
		f.Add(s)
	}
	l := newLimiter(f, Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Forwarded-For"] = []string{header}
		r.RemoteAddr = "192.0.2.1:1"
		if got := l.Address(r); got != netip.MustParseAddr("192.0.2.1") {
			t.Fatalf("%v", got)
		}
		r.RemoteAddr = "10.0.0.1:1"
		if got := l.Address(r); !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%v", got)
		}
		r.Header["X-Forwarded-For"] = []string{header + ",198.51.100.7, 10.1.2.3"}
		if got := l.Address(r); got != netip.MustParseAddr("198.51.100.7") {
			t.Fatalf("%v", got)
		}
	})
}

func BenchmarkHandler(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("addresses=%d", keys), func(b *testing.B) {
			l := newLimiter(b, Config{PerAddress: Limit{maxRequests, time.Hour}})
			var prefixes []netip.Prefix
			for i := range keys {
				a := netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
				prefixes = append(prefixes, netip.PrefixFrom(a, 32))
			}
			i := 0
			for b.Loop() {
				if s := l.take(key{net: prefixes[i%keys]}, l.address); !s.ok {
					b.Fatal("limited")
				}
				i++
			}
			b.ReportMetric(float64(l.Keys()), "keys")
		})
	}
}
