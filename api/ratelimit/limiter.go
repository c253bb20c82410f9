package ratelimit

import (
	"cmp"
	"container/list"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/nearjob/nearjob/store"
)

// Problem answers a request with a problem document (RFC 9457) of a status and a
// text for people. Headers of the answer that are already set must stay.
type Problem func(w http.ResponseWriter, r *http.Request, status int, detail string)

// Limit is a number of requests in a time.
type Limit struct {
	Requests int           // 1 to 1,000,000
	Window   time.Duration // whole seconds, 1 s to 24 h
}

const (
	maxRequests = 1_000_000
	maxWindow   = 24 * time.Hour
	maxKeys     = 10_000_000
)

// Config adjusts a Limiter. The zero Config limits by address only.
type Config struct {
	// User tells the user of a request; "" is nobody that is known. nil: all are
	// limited by address.
	User func(r *http.Request) string

	PerUser    Limit // of a user; 0: 600 a minute
	PerAddress Limit // of an address whose requests have no user; 0: 120 a minute

	// UserPolicy and AddressPolicy name the two limits in the header fields. They
	// differ where two Limiters stand before one handler. "": "user", "address".
	UserPolicy, AddressPolicy string

	// TrustedProxies are the addresses of the proxies that may say, in
	// X-Forwarded-For, whom they speak for. nil: none may.
	TrustedProxies []netip.Prefix

	MaxKeys int // most users and addresses that are kept count of; 0: 100,000

	Observe func(policy string, limited bool) // told of every request, for metrics; nil: nobody is
	Now     func() time.Time                  // nil: time.Now
}

// EnsureDefaults fills in what is not stated.
func (c *Config) EnsureDefaults() {
	c.PerUser = cmp.Or(c.PerUser, Limit{600, time.Minute})
	c.PerAddress = cmp.Or(c.PerAddress, Limit{120, time.Minute})
	c.UserPolicy = cmp.Or(c.UserPolicy, "user")
	c.AddressPolicy = cmp.Or(c.AddressPolicy, "address")
	c.MaxKeys = cmp.Or(c.MaxKeys, 100_000)
	if c.User == nil {
		c.User = func(*http.Request) string { return "" }
	}
	if c.Observe == nil {
		c.Observe = func(string, bool) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Validate reports every fault at once, after EnsureDefaults; the error is a
// *store.InvalidError.
func (c *Config) Validate() error {
	var f []store.Fault
	add := func(field, format string, args ...any) {
		f = append(f, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	for _, l := range []struct {
		field string
		limit Limit
	}{{"per_user", c.PerUser}, {"per_address", c.PerAddress}} {
		if n := l.limit.Requests; n < 1 || n > maxRequests {
			add(l.field+".requests", "%d is not 1..%d", n, maxRequests)
		}
		if w := l.limit.Window; w < time.Second || w > maxWindow || w%time.Second != 0 {
			add(l.field+".window", "%v is not whole seconds from 1s to %v", w, maxWindow)
		}
	}
	for _, p := range []struct{ field, name string }{{"user_policy", c.UserPolicy}, {"address_policy", c.AddressPolicy}} {
		if !isPolicy(p.name) {
			add(p.field, "%.40q is not 1 to 32 letters, digits, dots, hyphens and underscores", p.name)
		}
	}
	if c.UserPolicy == c.AddressPolicy {
		add("address_policy", "%.40q is user_policy's name too", c.AddressPolicy)
	}
	for i, p := range c.TrustedProxies {
		switch {
		case !p.IsValid():
			add(fmt.Sprintf("trusted_proxies[%d]", i), "is not an address range such as 10.0.0.0/8")
		case p.Addr().Is4In6():
			add(fmt.Sprintf("trusted_proxies[%d]", i), "%v is IPv4 written as IPv6: want it as IPv4", p)
		case p.Bits() == 0:
			add(fmt.Sprintf("trusted_proxies[%d]", i), "%v trusts everybody, and so whatever address a client makes up", p)
		}
	}
	if c.MaxKeys < 1 || c.MaxKeys > maxKeys {
		add("max_keys", "%d is not 1..%d", c.MaxKeys, maxKeys)
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

// isPolicy reports whether a name needs no escape in a structured field's string.
func isPolicy(s string) bool {
	return s != "" && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// class is one of the two kinds of clients.
type class struct {
	name   string
	limit  Limit
	policy string // the RateLimit-Policy item
}

func newClass(name string, l Limit) *class {
	return &class{name, l, fmt.Sprintf("%q;q=%d;w=%d", name, l.Requests, l.Window/time.Second)}
}

// key is a client. The zero address stands for those that have none, such as the
// clients of a Unix socket, who share a bucket.
type key struct {
	user string
	net  netip.Prefix
}

type bucket struct {
	key
	*class
	tokens *rate.Limiter
	used   time.Time
}

// Limiter counts requests. It is safe for concurrent use.
type Limiter struct {
	config        Config
	user, address *class

	mu      sync.Mutex
	buckets map[key]*list.Element
	order   *list.List // of *bucket, the last used first
}

// New returns a Limiter. The error is a *store.InvalidError.
func New(c Config) (*Limiter, error) {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return &Limiter{
		config:  c,
		user:    newClass(c.UserPolicy, c.PerUser),
		address: newClass(c.AddressPolicy, c.PerAddress),
		buckets: make(map[key]*list.Element),
		order:   list.New(),
	}, nil
}

// Keys returns how many users and addresses are kept count of.
func (l *Limiter) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len()
}

// Handler lets through to next what is within the limits, and answers the rest.
func (l *Limiter) Handler(problem Problem, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k, c := l.client(r)
		s := l.take(k, c)
		h := w.Header()
		// Added, not set: another Limiter may stand before this one.
		h.Add("RateLimit-Policy", c.policy)
		h.Add("RateLimit", s.field(c.name))
		l.config.Observe(c.name, !s.ok)
		if s.ok {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Retry-After", strconv.FormatInt(s.seconds, 10))
		unit := "seconds"
		if s.seconds == 1 {
			unit = "second"
		}
		problem(w, r, http.StatusTooManyRequests,
			fmt.Sprintf("Too many requests: the limit is %d in %v. Try again in %d %s.", c.limit.Requests, c.limit.Window, s.seconds, unit))
	})
}

// client tells whose budget a request is on.
func (l *Limiter) client(r *http.Request) (key, *class) {
	if user := l.config.User(r); user != "" {
		return key{user: user}, l.user
	}
	addr := l.Address(r)
	if !addr.IsValid() {
		return key{}, l.address
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	net, _ := addr.Prefix(bits) // fails only for bits that the address does not have
	return key{net: net}, l.address
}

// state is what is left of a budget.
type state struct {
	ok        bool  // whether the request is within it
	available int   // requests that are
	seconds   int64 // until there are all again or, if there is none, one more
}

func (s state) field(name string) string {
	return fmt.Sprintf("%q;a=%d;w=%d;r=%d;t=%d", name, s.available, s.seconds, s.available, s.seconds)
}

// take takes a token from a client's bucket.
func (l *Limiter) take(k key, c *class) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.config.Now()
	b := l.bucket(k, c, now)
	ok := b.tokens.AllowN(now, 1)
	left := max(0, b.tokens.TokensAt(now))
	s := state{ok: ok, available: int(left)}
	missing := float64(c.limit.Requests) - left
	if s.available == 0 {
		missing = 1 - left
	}
	s.seconds = max(1, int64(math.Ceil(missing*c.limit.Window.Seconds()/float64(c.limit.Requests))))
	return s
}

// bucket finds or makes a client's bucket.
func (l *Limiter) bucket(k key, c *class, now time.Time) *bucket {
	if e, ok := l.buckets[k]; ok {
		l.order.MoveToFront(e)
		b := e.Value.(*bucket)
		b.used = now
		return b
	}
	// One comes, so two may go: those that are full again, which are as good as
	// new, and one in any case where there is no room.
	for range 2 {
		last := l.order.Back()
		if last == nil {
			break
		}
		if b := last.Value.(*bucket); len(l.buckets) >= l.config.MaxKeys || now.Sub(b.used) > b.limit.Window {
			l.order.Remove(last)
			delete(l.buckets, b.key)
		}
	}
	b := &bucket{k, c, rate.NewLimiter(rate.Limit(float64(c.limit.Requests)/c.limit.Window.Seconds()), c.limit.Requests), now}
	l.buckets[k] = l.order.PushFront(b)
	return b
}
