package sse

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

// Deps is what a [Hub] works with. Inbox, Profiles, Texts and User are needed.
type Deps struct {
	Inbox    store.Inbox
	Profiles notify.Profiles
	Texts    *notify.Texts

	// User says whose request it is; false: nobody's, which is answered by 401.
	User func(r *http.Request) (string, bool)

	Log  *slog.Logger     // nil: nothing is logged
	Now  func() time.Time // nil: time.Now
	Rand func() float64   // 0 <= r < 1, safe for concurrent use; nil: math/rand/v2
}

// Options adjusts a [Hub].
type Options struct {
	PerUser   int           // streams of one user; 0: 5
	Total     int           // streams in all; 0: 10,000
	Poll      time.Duration // between looks at the store, give or take a fifth; 0: 3 s
	Heartbeat time.Duration // after this much silence a comment is sent; 0: 15 s
	Write     time.Duration // for the client to take what is sent; 0: 10 s
	MaxAge    time.Duration // after which a stream ends, so that the client logs in again; 0: 1 h
	Lookback  time.Duration // how much later than one with a higher id a message may become visible; 0: 10 s
	Page      int           // messages read and written at a time, at most store.MaxKeys; 0: 100
}

func (o *Options) setDefaults() {
	o.PerUser = cmp.Or(o.PerUser, 5)
	o.Total = cmp.Or(o.Total, 10_000)
	o.Poll = cmp.Or(o.Poll, 3*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.Write = cmp.Or(o.Write, 10*time.Second)
	o.MaxAge = cmp.Or(o.MaxAge, time.Hour)
	o.Lookback = cmp.Or(o.Lookback, 10*time.Second)
	o.Page = cmp.Or(o.Page, 100)
}

// Hub serves users' streams. It is an http.Handler for GET /v1/me/stream, a
// [notify.Channel] that wakes the streams of this process, and a Prometheus
// collector.
type Hub struct {
	deps Deps
	opts Options
	log  *slog.Logger

	mu      sync.Mutex
	streams map[store.UserID]map[*stream]bool
	total   int
	closed  chan struct{}

	open   prometheus.GaugeFunc
	events prometheus.Counter
	ended  *prometheus.CounterVec
}

var (
	_ http.Handler         = (*Hub)(nil)
	_ notify.Channel       = (*Hub)(nil)
	_ prometheus.Collector = (*Hub)(nil)
)

// New returns a hub. The error is an *[store.InvalidError].
func New(deps Deps, opts Options) (*Hub, error) {
	opts.setDefaults()
	var faults []store.Fault
	bad := func(field, reason string) { faults = append(faults, store.Fault{Field: field, Reason: reason}) }
	if deps.Inbox == nil || deps.Profiles == nil || deps.Texts == nil || deps.User == nil {
		bad("deps", "Inbox, Profiles, Texts and User are needed")
	}
	if opts.PerUser < 0 || opts.Total < 0 {
		bad("total", "a limit is negative")
	}
	if min(opts.Poll, opts.Heartbeat, opts.Write, opts.MaxAge, opts.Lookback) < 0 {
		bad("poll", "a duration is negative")
	}
	if opts.Page < 1 || opts.Page > store.MaxKeys {
		bad("page", fmt.Sprintf("%d is not 1..%d", opts.Page, store.MaxKeys))
	}
	if len(faults) > 0 {
		return nil, &store.InvalidError{Faults: faults}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Rand == nil {
		deps.Rand = rand.Float64
	}
	h := &Hub{
		deps: deps, opts: opts, log: deps.Log,
		streams: make(map[store.UserID]map[*stream]bool), closed: make(chan struct{}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nearjob_notify_stream_events_total", Help: "Messages written to streams, each time that they are.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nearjob_notify_streams_ended_total",
			Help: "Streams that ended, by reason: left (the client), slow, age, closed (the server), refused_user, refused_total.",
		}, []string{"reason"}),
	}
	h.open = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nearjob_notify_streams", Help: "Streams that are open.",
	}, func() float64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return float64(h.total)
	})
	return h, nil
}

// Describe implements prometheus.Collector.
func (h *Hub) Describe(ch chan<- *prometheus.Desc) {
	h.open.Describe(ch)
	h.events.Describe(ch)
	h.ended.Describe(ch)
}

// Collect implements prometheus.Collector.
func (h *Hub) Collect(ch chan<- prometheus.Metric) {
	h.open.Collect(ch)
	h.events.Collect(ch)
	h.ended.Collect(ch)
}

// Close ends all streams and refuses new ones; their clients come back, to
// another node. Give it to http.Server.RegisterOnShutdown, for Shutdown waits for
// streams and would wait for ever.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
}

// Wake makes the user's streams in this process look at the store at once.
func (h *Hub) Wake(user store.UserID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams[user] {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Targets makes the hub a channel for dispatchers: one target for who has a
// stream in this process. Sending is only a wake, and never fails, since the
// streams read the store themselves.
func (h *Hub) Targets(_ context.Context, user store.UserID) ([]notify.Target, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams[user]) == 0 {
		return nil, nil
	}
	return []notify.Target{{Key: "here", Send: func(context.Context, notify.Note) error {
		h.Wake(user)
		return nil
	}}}, nil
}

// stream is one client that listens.
type stream struct {
	user     store.UserID
	language string
	wake     chan struct{}

	cursor store.ID // the highest id that was written or is known to the client
	floor  store.ID // nothing becomes visible any more at this id or below it
	// seen are the ids above floor that were written, or were there before
	// a stream that does not resume.
	seen map[store.ID]bool
	past []mark // the cursor's way from floor on, the oldest first
}

// mark says where the cursor was at a time.
type mark struct {
	at     time.Time
	cursor store.ID
}

// behind is how many ids before its beginning a stream looks for what may become visible
// late. Ids are the store's counter of all users' messages, so it is for what the whole service
// writes within Options.Lookback.
const behind = 10_000

// Why a hub takes no more.
var (
	errFullUser = errors.New("this user has too many streams open: close one")
	errFull     = errors.New("too many streams are open")
	errClosed   = errors.New("the server is stopping")
)

func (h *Hub) add(s *stream) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.closed:
		return errClosed
	default:
	}
	if h.total >= h.opts.Total {
		return errFull
	}
	if len(h.streams[s.user]) >= h.opts.PerUser {
		return errFullUser
	}
	if h.streams[s.user] == nil {
		h.streams[s.user] = make(map[*stream]bool)
	}
	h.streams[s.user][s] = true
	h.total++
	return nil
}

func (h *Hub) remove(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams[s.user], s)
	if len(h.streams[s.user]) == 0 {
		delete(h.streams, s.user)
	}
	h.total--
}

// ServeHTTP answers with the stream of the request's user, until the client
// leaves, is too slow, the stream has its age, or the hub is closed.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		problem(w, http.StatusMethodNotAllowed, "A stream is read with GET.")
		return
	}
	name, ok := h.deps.User(r)
	user := store.UserID(name)
	if !ok || user.Validate() != nil {
		problem(w, http.StatusUnauthorized, "Log in: the stream is that of a user.")
		return
	}
	after, resumes, err := lastEventID(r)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	s := &stream{user: user, wake: make(chan struct{}, 1), seen: make(map[store.ID]bool)}
	switch err := h.add(s); {
	case errors.Is(err, errFullUser):
		h.ended.WithLabelValues("refused_user").Inc()
		w.Header().Set("Retry-After", "60")
		problem(w, http.StatusTooManyRequests, err.Error())
		return
	case err != nil:
		h.ended.WithLabelValues("refused_total").Inc()
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer h.remove(s)

	ctx, cancel := context.WithTimeout(r.Context(), h.opts.MaxAge)
	defer cancel()
	if err := h.begin(ctx, s, r, after, resumes); err != nil {
		h.log.Error("stream: cannot begin", "user", user, "error", err)
		w.Header().Set("Retry-After", "5")
		problem(w, http.StatusServiceUnavailable, "The messages cannot be read now.")
		return
	}

	out := &writer{w: w, c: http.NewResponseController(w), limit: h.opts.Write}
	// A server's ReadTimeout would end the stream, as its WriteTimeout would.
	if err := out.c.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		h.log.Error("stream: cannot lift the read deadline", "error", err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for a full buffer
	w.WriteHeader(http.StatusOK)
	reason := h.follow(ctx, s, out)
	h.ended.WithLabelValues(reason).Inc()
	// For the end of the answer: the deadline of the last write may have passed.
	_ = out.c.SetWriteDeadline(time.Now().Add(h.opts.Write))
}

// lastEventID reads from where a client resumes: from the header that an
// EventSource sends when it comes back, or from the query, for its first request.
// 0 is from the oldest message that is kept.
func lastEventID(r *http.Request) (store.ID, bool, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("last_event_id")
	}
	switch text {
	case "":
		return 0, false, nil
	case "0":
		return 0, true, nil
	}
	id, err := store.ParseID(text)
	if err != nil {
		return 0, false, fmt.Errorf("Last-Event-ID: %.40q is not the id of an event, or 0 for all messages", text)
	}
	return id, true, nil
}

// begin finds out where a stream starts.
func (h *Hub) begin(ctx context.Context, s *stream, r *http.Request, after store.ID, resumes bool) error {
	settings, err := h.deps.Profiles.Settings(ctx, s.user)
	if err != nil {
		return fmt.Errorf("read the user's settings: %w", err)
	}
	s.language = h.deps.Texts.Language(settings.Language, r.Header.Get("Accept-Language"))
	last, err := h.deps.Inbox.LastMessage(ctx, s.user)
	if err != nil {
		return fmt.Errorf("find the last message: %w", err)
	}
	s.cursor = last
	if resumes {
		s.cursor = min(after, last) // an id beyond all there are would hide every message to come
	}
	s.floor = max(0, s.cursor-behind)
	var there []store.Message
	if err := h.read(ctx, s, func(m store.Message) error {
		if resumes && m.ID > s.cursor {
			return errMissed
		}
		there = append(there, m)
		return nil
	}); err != nil && !errors.Is(err, errMissed) {
		return err
	}
	if resumes {
		// Of those before its last one, the client may lack what is about as new as that.
		if n := len(there); n > 0 {
			since := there[n-1].At.Add(-h.opts.Lookback)
			there = slices.DeleteFunc(there, func(m store.Message) bool { return m.ID != s.cursor && m.At.After(since) })
		}
		s.seen[s.cursor] = true
	}
	for _, m := range there {
		s.saw(m.ID)
	}
	return nil
}

// errMissed ends a read at the first message that the client has missed.
var errMissed = errors.New("missed by the client")

// saw notes that the client has a message, or does not want it.
func (s *stream) saw(id store.ID) {
	s.seen[id] = true
	s.cursor = max(s.cursor, id)
}

// read hands the messages that a stream has not seen to use, the oldest first.
func (h *Hub) read(ctx context.Context, s *stream, use func(store.Message) error) error {
	began := h.deps.Now()
	for from := s.floor; ; {
		page, err := h.deps.Inbox.Messages(ctx, s.user, store.Keys{After: int64(from), Limit: h.opts.Page})
		if err != nil {
			return fmt.Errorf("read the messages: %w", err)
		}
		for _, m := range page {
			from = max(from, m.ID)
			if s.seen[m.ID] {
				continue
			}
			if err := use(m); err != nil {
				return err
			}
		}
		if len(page) < h.opts.Page {
			break
		}
	}
	s.raise(began, h.deps.Now(), h.opts.Lookback)
	return nil
}

// raise moves floor up, after a read that has begun and ended at some times: what has an id
// below one that was seen a lookback before the read was there for the read.
func (s *stream) raise(began, ended time.Time, lookback time.Duration) {
	old := s.floor
	for len(s.past) > 0 && began.Sub(s.past[0].at) >= lookback {
		s.floor = s.past[0].cursor
		s.past = s.past[1:]
	}
	if s.floor > old {
		for id := range s.seen {
			if id <= s.floor {
				delete(s.seen, id)
			}
		}
	}
	last := s.floor
	if n := len(s.past); n > 0 {
		last = s.past[n-1].cursor
	}
	if s.cursor > last {
		s.past = append(s.past, mark{ended, s.cursor})
	}
}

// follow writes what comes until the stream ends, and says why it ended.
func (h *Hub) follow(ctx context.Context, s *stream, out *writer) string {
	// Where the client should wait before it comes back; also the first bytes,
	// which tell it that it is connected.
	out.buf.WriteString("retry: 2000\n\n")
	if err := out.flush(); err != nil {
		return h.why(ctx, s, err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	quiet := time.NewTicker(h.opts.Heartbeat)
	defer quiet.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return h.why(ctx, s, ctx.Err())
		case <-h.closed:
			return "closed"
		case <-quiet.C:
			out.buf.WriteString(":\n\n")
			if err := out.flush(); err != nil {
				return h.why(ctx, s, err)
			}
			continue
		case <-timer.C:
		case <-s.wake:
		}
		wrote, err := h.write(ctx, s, out)
		if wrote > 0 {
			quiet.Reset(h.opts.Heartbeat)
		}
		if we, ok := errors.AsType[*writeError](err); ok {
			return h.why(ctx, s, we.err)
		}
		// The client keeps its stream: the next look may do better. It is said
		// once, for all streams fail with the store.
		if err != nil && ctx.Err() == nil && !failing {
			h.log.Error("stream: cannot read on", "user", s.user, "error", err)
		}
		failing = err != nil
		timer.Reset(time.Duration(float64(h.opts.Poll) * (0.8 + 0.4*h.deps.Rand())))
	}
}

// write sends the messages that the stream has not seen, a page at a time.
func (h *Hub) write(ctx context.Context, s *stream, out *writer) (int, error) {
	wrote, waiting := 0, 0
	flush := func() error {
		if waiting == 0 {
			return nil
		}
		if err := out.flush(); err != nil {
			return &writeError{err}
		}
		h.events.Add(float64(waiting))
		wrote, waiting = wrote+waiting, 0
		return nil
	}
	err := h.read(ctx, s, func(m store.Message) error {
		late := m.ID < s.cursor
		s.saw(m.ID)
		n, err := h.deps.Texts.Note(m, s.language)
		if err != nil {
			h.log.Error("stream: a message is left out", "error", err)
			return nil
		}
		data, err := json.Marshal(n)
		if err != nil {
			h.log.Error("stream: a message is left out", "message", m.ID, "error", err)
			return nil
		}
		if !late { // else the client would resume from too early, and get much again
			out.buf.WriteString("id: " + m.ID.String() + "\n")
		}
		out.buf.WriteString("data: ")
		out.buf.Write(data) // has no line breaks
		out.buf.WriteString("\n\n")
		if waiting++; waiting >= h.opts.Page {
			return flush()
		}
		return nil
	})
	if ferr := flush(); err == nil {
		err = ferr
	}
	return wrote, err
}

func (h *Hub) why(ctx context.Context, s *stream, err error) string {
	// First, for the server ends ctx too when it could not write.
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.log.Warn("stream: the client does not read", "user", s.user)
		return "slow"
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "age"
	}
	return "left"
}

// writeError is an error of the client's connection.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write to the client: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// writer writes to a client within a time.
type writer struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	limit time.Duration
	buf   bytes.Buffer
}

// flush writes what is in buf, and returns when the client's connection has it.
func (w *writer) flush() error {
	// By the machine's own clock, as deadlines are.
	if err := w.c.SetWriteDeadline(time.Now().Add(w.limit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_, err := w.w.Write(w.buf.Bytes())
	w.buf.Reset()
	if err != nil {
		return err
	}
	return w.c.Flush()
}

// problem writes an RFC 9457 problem.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}
