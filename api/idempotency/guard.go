package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

// The header fields of a request and of its answer.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotency-Replayed"
)

const (
	maxKey       = 255 // bytes
	maxOperation = 200 // bytes; a longer one is hashed

	storeTimeout = 5 * time.Second // to keep or free a claim when the request's own time is up

	firstPoll, lastPoll = 10 * time.Millisecond, 250 * time.Millisecond

	statusClientGone = 499 // nginx's number for a client that went away before the answer
)

// Store keeps the answers to requests, as store.Idempotency says.
type Store interface {
	Begin(ctx context.Context, k store.OperationKey, bodyHash [32]byte, now time.Time, lease time.Duration) (store.Answer, error)
	Finish(ctx context.Context, k store.OperationKey, token int64, status int, header map[string][]string, body []byte) error
	Forget(ctx context.Context, k store.OperationKey, token int64) error
	SweepAnswers(ctx context.Context, before time.Time, limit int) (int, error)
}

var _ Store = store.Idempotency(nil)

// Problem answers a request with a problem document (RFC 9457) of a status and a
// text for people. Headers of the answer that are already set must stay.
type Problem func(w http.ResponseWriter, r *http.Request, status int, detail string)

// Outcome is what became of a request with a key.
type Outcome string

// The outcomes.
const (
	Ran         Outcome = "ran"         // by this request
	Replayed    Outcome = "replayed"    // the answer of an earlier one
	Refused     Outcome = "refused"     // 400, 401, 413: not looked up
	Mismatch    Outcome = "mismatch"    // 422: the key belongs to another request
	Busy        Outcome = "busy"        // 409: the earlier one still runs
	Unavailable Outcome = "unavailable" // 503: the store does not answer
)

// Config adjusts a Guard. Store and User are needed.
type Config struct {
	Store Store

	// User tells the user of a request. A request with a key whose user is "" is
	// answered with 401: strangers could get each other's answers.
	User func(r *http.Request) string

	Required bool // whether a POST without a key is answered with 400

	TTL     time.Duration // how long answers are kept; 0: 24 h
	Lease   time.Duration // after which the key of a process that died is free; 0: 1 min
	MaxWait time.Duration // for a request that runs already; 0: 3 s

	MaxBodyBytes   int64 // largest body of a request; 0: 64 KiB
	MaxAnswerBytes int   // largest answer that is kept; 0: 256 KiB

	// Headers are the fields of an answer that are kept with it. nil: those that
	// describe the answer. Never those of a connection or a session, such as
	// Set-Cookie.
	Headers []string

	Observe func(Outcome)    // told of every request with a key, for metrics; nil: nobody is
	Log     *slog.Logger     // nil: nothing is logged
	Now     func() time.Time // nil: time.Now
}

// EnsureDefaults fills in what is not stated.
func (c *Config) EnsureDefaults() {
	c.TTL = cmp.Or(c.TTL, 24*time.Hour)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.MaxWait = cmp.Or(c.MaxWait, 3*time.Second)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 64<<10)
	c.MaxAnswerBytes = cmp.Or(c.MaxAnswerBytes, 256<<10)
	if c.Headers == nil {
		c.Headers = []string{"Content-Type", "Content-Language", "Content-Location", "Location", "ETag", "Last-Modified", "Link", "Cache-Control", "Vary"}
	}
	if c.Observe == nil {
		c.Observe = func(Outcome) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
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
	if c.Store == nil {
		add("store", "is missing: want what keeps the answers")
	}
	if c.User == nil {
		add("user", "is missing: want a function that tells the user of a request")
	}
	if c.Lease < time.Second || c.Lease > time.Hour {
		add("lease", "%v is not 1s..1h", c.Lease)
	}
	if c.TTL <= c.Lease {
		add("ttl", "%v is not longer than the lease, %v", c.TTL, c.Lease)
	}
	if c.MaxWait < 0 || c.MaxWait > time.Minute {
		add("max_wait", "%v is not 0s..1m", c.MaxWait)
	}
	if c.MaxBodyBytes < 1 || c.MaxBodyBytes > 64<<20 {
		add("max_body_bytes", "%d is not 1..67108864", c.MaxBodyBytes)
	}
	if c.MaxAnswerBytes < 1 || c.MaxAnswerBytes > 16<<20 {
		add("max_answer_bytes", "%d is not 1..16777216", c.MaxAnswerBytes)
	}
	for _, h := range c.Headers {
		if http.CanonicalHeaderKey(h) == "Set-Cookie" {
			add("headers", "Set-Cookie is of a session, and is not kept")
		}
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

// Guard is the middleware. It is safe for concurrent use.
type Guard struct {
	config Config
}

// New returns a Guard. The error is a *store.InvalidError.
func New(c Config) (*Guard, error) {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	return &Guard{c}, nil
}

// sweepBatch bounds the rows that one statement removes, and so locks.
const sweepBatch = 500

// Sweep removes the answers that were kept for the TTL, in small batches, and
// returns how many. Any number of processes may call it.
func (g *Guard) Sweep(ctx context.Context) (int, error) {
	before := g.config.Now().Add(-g.config.TTL)
	total := 0
	for {
		n, err := g.config.Store.SweepAnswers(ctx, before, sweepBatch)
		total += n
		if err != nil {
			return total, fmt.Errorf("idempotency: sweep: %w", err)
		}
		if n < sweepBatch {
			return total, nil
		}
	}
}

// Handler stands before next, whose POSTs with a key run once. Other requests pass.
func (g *Guard) Handler(problem Problem, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := r.Header.Values(HeaderKey)
		if r.Method != http.MethodPost || len(lines) == 0 && !g.config.Required {
			next.ServeHTTP(w, r)
			return
		}
		g.config.Observe(g.serve(w, r, lines, problem, next))
	})
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, lines []string, problem Problem, next http.Handler) Outcome {
	key, fault := parseKey(lines)
	if fault != "" {
		problem(w, r, http.StatusBadRequest, fault)
		return Refused
	}
	user := g.config.User(r)
	if user == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		problem(w, r, http.StatusUnauthorized, HeaderKey+" needs a user: send a token as Authorization: Bearer.")
		return Refused
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.config.MaxBodyBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			problem(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than %d bytes.", tooLarge.Limit))
		} else {
			problem(w, r, http.StatusBadRequest, "The body cannot be read to its end.")
		}
		return Refused
	}
	k := store.OperationKey{User: store.UserID(user), Operation: operation(r), Key: key}
	hash := hashOf(r, body)
	a, err := g.claim(r.Context(), k, hash)
	switch {
	case err != nil:
		g.config.Log.LogAttrs(r.Context(), slog.LevelError, "idempotency store", slog.Any("error", err))
		w.Header().Set("Retry-After", "1")
		problem(w, r, http.StatusServiceUnavailable, "Whether this request was carried out before cannot be told now. Send it again with the same "+HeaderKey+".")
		return Unavailable
	case a.State == store.AnswerNew:
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		g.run(w, r, k, a.Token, problem, next)
		return Ran
	case a.BodyHash != hash:
		problem(w, r, http.StatusUnprocessableEntity, "This "+HeaderKey+" was used with another request. Take a new key for a new request.")
		return Mismatch
	case a.State == store.AnswerKnown:
		h := w.Header()
		for name, values := range a.Header {
			h[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
		h.Set(HeaderReplayed, "true")
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body) // a client that is gone needs no answer
		return Replayed
	}
	w.Header().Set("Retry-After", "1")
	problem(w, r, http.StatusConflict, "The same request is being carried out. Send it again with the same "+HeaderKey+" to get its answer.")
	return Busy
}

// claim begins a request. While another holds it, claim asks again for MaxWait.
func (g *Guard) claim(ctx context.Context, k store.OperationKey, hash [32]byte) (store.Answer, error) {
	enough := time.NewTimer(g.config.MaxWait)
	defer enough.Stop()
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		a, err := g.config.Store.Begin(ctx, k, hash, g.config.Now(), g.config.Lease)
		if err != nil || a.State != store.AnswerRunning || a.BodyHash != hash {
			return a, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-enough.C:
			again.Stop()
			return a, nil
		case <-ctx.Done():
			again.Stop()
			return store.Answer{}, ctx.Err()
		}
	}
}

// run carries a claimed request out and keeps its answer.
func (g *Guard) run(w http.ResponseWriter, r *http.Request, k store.OperationKey, token int64, problem Problem, next http.Handler) {
	// The handler has to end well before the lease does.
	ctx, cancel := context.WithTimeout(r.Context(), g.config.Lease*3/4)
	defer cancel()
	out := &recorder{ResponseWriter: w, max: g.config.MaxAnswerBytes}
	returned := false
	defer func() {
		if !returned { // a panic, which goes on
			g.forget(r.Context(), k, token)
		}
	}()
	next.ServeHTTP(out, r.WithContext(ctx))
	returned = true

	silent := out.status == 0
	status := cmp.Or(out.status, http.StatusOK)
	switch {
	case transient(status), silent && ctx.Err() != nil:
		g.forget(r.Context(), k, token)
	case out.spilled:
		substitute := &recorder{ResponseWriter: nowhere{http.Header{}}, max: math.MaxInt}
		problem(substitute, r, http.StatusConflict, "This request was carried out, but its answer was too large to keep. Read what it made.")
		g.finish(r.Context(), k, token, cmp.Or(substitute.status, http.StatusConflict), substitute.Header(), substitute.body.Bytes())
	default:
		// Before the client sees it: what it has seen it gets again.
		g.finish(r.Context(), k, token, status, w.Header(), out.body.Bytes())
	}
	out.send()
}

// transient reports whether a status asks the client to try again.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, statusClientGone:
		return true
	}
	return status >= 500
}

func (g *Guard) finish(ctx context.Context, k store.OperationKey, token int64, status int, header http.Header, body []byte) {
	kept := make(map[string][]string)
	for _, name := range g.config.Headers {
		if values := header.Values(name); len(values) > 0 {
			kept[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	// The request may be at its end, but what it did is done.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := g.config.Store.Finish(late, k, token, status, kept, body); err != nil {
		// The client gets its answer all the same. The key stays taken until the
		// lease ends.
		g.config.Log.LogAttrs(ctx, slog.LevelError, "idempotency: an answer is not kept",
			slog.String("operation", k.Operation), slog.Any("error", err))
	}
}

func (g *Guard) forget(ctx context.Context, k store.OperationKey, token int64) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := g.config.Store.Forget(late, k, token); err != nil {
		g.config.Log.LogAttrs(ctx, slog.LevelWarn, "idempotency: a key is not freed before its lease ends",
			slog.String("operation", k.Operation), slog.Any("error", err))
	}
}

// parseKey reads the header's lines; fault says what is wrong with them. A key in
// quotes, as the draft has it, is the same as without them.
func parseKey(lines []string) (key, fault string) {
	switch len(lines) {
	case 0:
		return "", "This request needs an " + HeaderKey + " header: a random UUID, the same whenever it is sent again."
	case 1:
		key = lines[0]
	default:
		return "", "The request has more than one " + HeaderKey + " header."
	}
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' {
		if inner := key[1 : n-1]; !strings.ContainsAny(inner, `"\`) {
			key = inner
		}
	}
	if key == "" || len(key) > maxKey {
		return "", fmt.Sprintf("The %s has %d characters: want 1 to %d, such as a random UUID.", HeaderKey, len(key), maxKey)
	}
	if i := strings.IndexFunc(key, func(r rune) bool { return r < '!' || r > '~' }); i >= 0 {
		return "", fmt.Sprintf("The %s has a character that is not visible ASCII, after %d that are.", HeaderKey, i)
	}
	return key, ""
}

// operation is the method and path of a request, short enough to be a key.
func operation(r *http.Request) string {
	op := r.Method + " " + r.URL.EscapedPath()
	if len(op) > maxOperation {
		sum := sha256.Sum256([]byte(op))
		op = r.Method + " sha256:" + hex.EncodeToString(sum[:])
	}
	return op
}

// hashOf tells two requests of an operation apart: by the body, the query and the
// condition. Each part is preceded by its length, so that no two split alike.
func hashOf(r *http.Request, body []byte) (sum [32]byte) {
	h := sha256.New()
	var size [8]byte
	for _, part := range [][]byte{[]byte(r.URL.RawQuery), []byte(r.Header.Get("If-Match")), body} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}
