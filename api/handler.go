package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/api/idempotency"
)

const (
	headerRequestID = "X-Request-Id"

	// noRoute is the route of requests that none matches.
	noRoute = "none"
)

type requestIDKey struct{}

// requestID returns the id of the request that a context belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// saneID is what a client's own request id must look like, so that it can
// neither fill the log nor forge lines in it.
var saneID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ServeHTTP does what every request needs: an id, a time limit, a log line,
// metrics, and an answer even where the handler panics.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	a.metrics.inFlight.Inc()
	defer a.metrics.inFlight.Dec()

	id := r.Header.Get(headerRequestID)
	if !saneID.MatchString(id) {
		id = a.deps.NewRequestID()
	}
	ctx := context.WithValue(r.Context(), requestIDKey{}, id)
	r = r.WithContext(ctx)
	out := &response{ResponseWriter: w, head: r.Method == http.MethodHead}
	h := out.Header()
	h.Set(headerRequestID, id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")

	route := noRoute
	defer func() {
		p := recover()
		aborted := p == http.ErrAbortHandler
		if p != nil && !aborted {
			a.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("request_id", id), slog.String("route", route),
				slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
			if aborted = out.sent; !aborted {
				writeProblem(out, newProblem(ctx, http.StatusInternalServerError, detailInternal))
			}
		}
		if !aborted {
			out.send()
		}
		a.done(ctx, r, route, out, time.Since(start), aborted)
		if aborted {
			panic(http.ErrAbortHandler) // net/http cuts the connection, so that nobody takes the answer for whole
		}
	}()

	if a.cors(out, r) {
		return
	}
	if r.ContentLength > a.opts.MaxBodyBytes {
		writeProblem(out, newProblem(ctx, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The body is larger than %d bytes.", a.opts.MaxBodyBytes)))
		return
	}
	r.Body = http.MaxBytesReader(out, r.Body, a.opts.MaxBodyBytes)
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.unrouted(out, r, handler)
		return
	}
	_, route, _ = strings.Cut(pattern, " ")
	if route != streamPath {
		timed, cancel := context.WithTimeout(ctx, a.opts.RequestTimeout)
		defer cancel()
		r = r.WithContext(timed)
	}
	a.chains.handler(pattern, a.mux).ServeHTTP(out, r)
}

// done writes the log line and counts the request.
func (a *api) done(ctx context.Context, r *http.Request, route string, out *response, took time.Duration, aborted bool) {
	status := out.status
	level := slog.LevelInfo
	switch {
	case status >= 500:
		level = slog.LevelError
	case route == "/healthz" || route == "/readyz" || route == "/metrics":
		level = slog.LevelDebug // asked every few seconds
	}
	attrs := []slog.Attr{
		slog.String("request_id", requestID(ctx)),
		slog.String("method", fmt.Sprintf("%.16s", r.Method)),
		slog.String("route", route),
		slog.Int("status", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes", out.bytes),
	}
	if aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if out.err != nil {
		attrs = append(attrs, slog.Any("write_error", out.err))
	}
	a.log.LogAttrs(ctx, level, "request", attrs...)
	a.metrics.answered(route, r.Method, status, took)
}

// unrouted answers what no route matches: an unknown path, or a method that a
// path does not have, which fallback tells by its status and Allow header.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request, fallback http.Handler) {
	probe := &response{ResponseWriter: nowhere{http.Header{}}}
	fallback.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		writeProblem(w, newProblem(r.Context(), http.StatusNotFound, "There is nothing at this path. /docs shows what there is."))
		return
	}
	allow := probe.Header().Get("Allow") + ", OPTIONS"
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	p := newProblem(r.Context(), http.StatusMethodNotAllowed, "This path allows only "+allow+".")
	p.header = http.Header{"Allow": {allow}}
	writeProblem(w, p)
}

// nowhere is a ResponseWriter that keeps nothing but headers.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// cors lets pages of the allowed origins read answers. It reports true when the
// request was a preflight, which it answered.
func (a *api) cors(w http.ResponseWriter, r *http.Request) bool {
	if len(a.opts.CORSOrigins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return false
	case slices.Contains(a.opts.CORSOrigins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	case slices.Contains(a.opts.CORSOrigins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	default:
		return false
	}
	h.Set("Access-Control-Expose-Headers", headerRequestID+", Retry-After, ETag, Location, WWW-Authenticate, RateLimit, RateLimit-Policy, "+
		idempotency.HeaderReplayed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	methods, headers := "GET, HEAD", "Accept, "+headerRequestID
	if a.deps.Auth != nil {
		headers += ", Authorization"
	}
	if a.deps.Market != nil {
		methods += ", POST, PUT, PATCH, DELETE"
		headers += ", Content-Type, If-Match, " + idempotency.HeaderKey
	}
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// response counts what is written, and holds the status back until the first
// byte, so that a handler which fails before it can still be answered for.
type response struct {
	http.ResponseWriter
	head   bool // the answer to a HEAD request, whose bytes go nowhere
	status int  // 0 until it is set
	sent   bool
	bytes  int64
	err    error // the first write that failed
}

func (w *response) WriteHeader(status int) {
	if status < 200 { // informational: another one follows
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if !w.sent {
		w.status = status
	}
}

func (w *response) send() {
	if w.sent {
		return
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.sent = true
	w.ResponseWriter.WriteHeader(w.status)
}

func (w *response) Write(b []byte) (int, error) {
	w.send()
	n, err := w.ResponseWriter.Write(b)
	if !w.head {
		w.bytes += int64(n)
	}
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	w.send()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
