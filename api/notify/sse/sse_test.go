package sse_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/sse"
	"github.com/nearjob/nearjob/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox is a store.Inbox in memory.
type inbox struct {
	mu    sync.Mutex
	all   []store.Message
	err   error
	reads int
	rows  int // that were read
}

func (b *inbox) Messages(_ context.Context, user store.UserID, k store.Keys) ([]store.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if err := cmp.Or(b.err, k.Validate()); err != nil {
		return nil, err
	}
	var out []store.Message
	for _, m := range b.all {
		if m.Recipient == user && int64(m.ID) > k.After && len(out) < k.Limit {
			out = append(out, m)
		}
	}
	b.rows += len(out)
	return out, nil
}

func (b *inbox) LastMessage(_ context.Context, user store.UserID) (last store.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.all {
		if m.Recipient == user {
			last = max(last, m.ID)
		}
	}
	return last, b.err
}

func (b *inbox) put(ids ...store.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.all = append(b.all, store.Message{
			ID: id, Event: id, Job: 5, Application: 6, Recipient: "u", Role: store.RoleWorker, Action: store.ActAccept,
			At: time.Unix(1, 0).UTC(), Title: "Fence\nwith a line break", JobState: store.Matched,
		})
	}
	slices.SortFunc(b.all, func(a, b store.Message) int { return cmp.Compare(a.ID, b.ID) })
}

type profiles map[store.UserID]store.Settings

func (p profiles) Settings(_ context.Context, user store.UserID) (store.Settings, error) {
	return p[user], nil
}

// byHeader is a login for tests.
func byHeader(r *http.Request) (string, bool) {
	u := r.Header.Get("X-User")
	return u, u != ""
}

func hub(t testing.TB, b store.Inbox, opts sse.Options, change func(*sse.Deps)) *sse.Hub {
	t.Helper()
	texts, err := notify.NewTexts()
	if err != nil {
		t.Fatal(err)
	}
	deps := sse.Deps{Inbox: b, Profiles: profiles{}, Texts: texts, User: byHeader}
	if change != nil {
		change(&deps)
	}
	opts.Poll = cmp.Or(opts.Poll, 5*time.Millisecond)
	h, err := sse.New(deps, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve serves a hub until the test ends.
func serve(t testing.TB, h *sse.Hub) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return s
}

// client reads a stream.
type client struct {
	t    testing.TB
	resp *http.Response
	r    *bufio.Reader
}

type event struct {
	id   string // "" where the event has none
	note notify.Note
}

func open(t testing.TB, url string, header map[string]string) *client {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-User", "u")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, resp, bufio.NewReader(resp.Body)}
	t.Cleanup(func() { resp.Body.Close() })
	return c
}

// block reads up to an empty line: an event, a comment, or the retry line.
func (c *client) block() ([]string, error) {
	var lines []string
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return lines, err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return lines, nil
		}
		lines = append(lines, line)
	}
}

// next reads the next event.
func (c *client) next() event {
	c.t.Helper()
	for {
		lines, err := c.block()
		if err != nil {
			c.t.Fatalf("the stream ended: %v", err)
		}
		var e event
		found := false
		for _, line := range lines {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				e.id = id
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				found = true
				if err := json.Unmarshal([]byte(data), &e.note); err != nil {
					c.t.Fatalf("%s: %v", line, err)
				}
			}
		}
		if found {
			return e
		}
	}
}

func (c *client) ids(n int) []store.ID {
	c.t.Helper()
	var out []store.ID
	for range n {
		out = append(out, c.next().note.ID)
	}
	return out
}

// end reads to the end of the stream.
func (c *client) end() error {
	for {
		if _, err := c.block(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// Ids that are a minute apart: beyond any lookback of these tests.
const minute = store.ID(60_000 << 22)

func id(n int) store.ID { return store.ID(n) * minute }

func TestStream(t *testing.T) {
	b := &inbox{}
	b.put(id(1), id(2)) // before the stream: not for it
	s := serve(t, hub(t, b, sse.Options{}, nil))
	c := open(t, s.URL, nil)
	if h := c.resp.Header; c.resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%s with %v", c.resp.Status, h)
	}
	if lines, err := c.block(); err != nil || !slices.Equal(lines, []string{"retry: 2000"}) {
		t.Errorf("it begins with %q, %v", lines, err)
	}
	b.put(id(3))
	e := c.next()
	if e.id != id(3).String() || e.note.ID != id(3) || e.note.Title != "You got the job" || e.note.JobTitle != "Fence\nwith a line break" {
		t.Errorf("the event is %+v", e)
	}
	b.put(id(4), id(5))
	if got := c.ids(2); !slices.Equal(got, []store.ID{id(4), id(5)}) {
		t.Errorf("ids %v", got)
	}
}

func TestResume(t *testing.T) {
	b := &inbox{}
	var all []store.ID
	for n := range 250 { // more than two pages
		all = append(all, id(n+1))
	}
	b.put(all...)
	s := serve(t, hub(t, b, sse.Options{}, nil))
	for _, test := range []struct {
		header, query string
		from          int
	}{
		{id(40).String(), "", 40}, {"", "?last_event_id=" + id(40).String(), 40}, {id(40).String(), "?last_event_id=" + id(90).String(), 40},
		{"0", "", 0}, {(id(40) + 1).String(), "", 39}, // an id between two: the one before may have come late
	} {
		header := map[string]string{}
		if test.header != "" {
			header["Last-Event-ID"] = test.header
		}
		c := open(t, s.URL+test.query, header)
		if got := c.ids(250 - test.from); !slices.Equal(got, all[test.from:]) {
			t.Errorf("%+v: %v", test, got)
		}
		c.resp.Body.Close()
	}
	// An id beyond all others does not hide what comes.
	c := open(t, s.URL, map[string]string{"Last-Event-ID": "9223372036854775807"})
	c.block()
	b.put(id(300))
	if e := c.next(); e.note.ID != id(300) {
		t.Errorf("the event is %+v", e)
	}
}

// TestLate has messages become visible after one with a higher id. They come, in
// any case, and do not move Last-Event-ID back.
func TestLate(t *testing.T) {
	b := &inbox{}
	b.put(1000*minute, 1000*minute+7)
	s := serve(t, hub(t, b, sse.Options{}, nil))
	c := open(t, s.URL, nil)
	c.block()
	b.put(1001 * minute)
	if e := c.next(); e.note.ID != 1001*minute {
		t.Errorf("the event is %+v", e)
	}
	b.put(1001*minute - 5)
	if e := c.next(); e.note.ID != 1001*minute-5 || e.id != "" {
		t.Errorf("the late event is %+v", e)
	}
	b.put(1001*minute + 5)
	if e := c.next(); e.note.ID != 1001*minute+5 || e.id != (1001*minute+5).String() {
		t.Errorf("the event after it is %+v", e)
	}
	// Who resumes gets what may have been late again, not its last one.
	again := open(t, s.URL, map[string]string{"Last-Event-ID": (1001 * minute).String()})
	if got, want := again.ids(2), []store.ID{1001*minute - 5, 1001*minute + 5}; !slices.Equal(got, want) {
		t.Errorf("ids %v, want %v", got, want)
	}
}

// TestSmallIDs has ids as the engines give them: they count the messages, however far
// apart these are in time.
func TestSmallIDs(t *testing.T) {
	b := &inbox{}
	day := func(n int) {
		b.put(store.ID(n))
		b.mu.Lock()
		b.all[len(b.all)-1].At = time.Unix(int64(n)*86_400, 0).UTC()
		b.mu.Unlock()
	}
	for n := range 300 {
		day(n + 1)
	}
	s := serve(t, hub(t, b, sse.Options{Lookback: 50 * time.Millisecond}, nil))
	c := open(t, s.URL, map[string]string{"Last-Event-ID": "298"})
	if got := c.ids(2); !slices.Equal(got, []store.ID{299, 300}) {
		t.Errorf("ids %v, want those after the last one", got)
	}
	day(301)
	if got := c.ids(1); got[0] != 301 {
		t.Errorf("ids %v, want the new one", got)
	}
	// What was there for a lookback is not read again with each look.
	looks := func(n int) int {
		b.mu.Lock()
		b.reads, b.rows = 0, 0
		b.mu.Unlock()
		for {
			time.Sleep(time.Millisecond)
			b.mu.Lock()
			reads, rows := b.reads, b.rows
			b.mu.Unlock()
			if reads >= n {
				return rows
			}
		}
	}
	for try := 0; looks(5) > 0; try++ {
		if try == 100 {
			t.Fatal("each look reads messages that were written long ago")
		}
	}
}

func TestLanguage(t *testing.T) {
	b := &inbox{}
	b.put(id(1))
	chosen := ""
	s := serve(t, hub(t, b, sse.Options{}, func(d *sse.Deps) {
		d.Profiles = profilesFunc(func() store.Settings { return store.Settings{Language: chosen} })
	}))
	for _, test := range []struct{ settings, header, want string }{
		{"", "", "en"}, {"", "ko-KR,ko;q=0.9", "ko"}, {"en", "ko", "en"}, {"ko", "en", "ko"},
	} {
		chosen = test.settings
		c := open(t, s.URL, map[string]string{"Last-Event-ID": "0", "Accept-Language": test.header})
		if e := c.next(); e.note.Language != test.want {
			t.Errorf("%+v: %+v", test, e)
		}
		c.resp.Body.Close()
	}
}

type profilesFunc func() store.Settings

func (f profilesFunc) Settings(context.Context, store.UserID) (store.Settings, error) {
	return f(), nil
}

func TestOnlyOwnMessages(t *testing.T) {
	b := &inbox{}
	b.put(id(1))
	s := serve(t, hub(t, b, sse.Options{}, nil))
	c := open(t, s.URL, map[string]string{"Last-Event-ID": "0", "X-User": "somebody else"})
	b.mu.Lock()
	b.all = append(b.all, store.Message{ID: id(2), Job: 5, Recipient: "somebody else", Role: store.RoleWorker, Action: store.ActAccept, Title: "x"})
	b.mu.Unlock()
	if e := c.next(); e.note.ID != id(2) {
		t.Errorf("the event is %+v", e)
	}
}

func TestRefusals(t *testing.T) {
	b := &inbox{}
	h := hub(t, b, sse.Options{PerUser: 2, Total: 3}, nil)
	s := serve(t, h)
	refuse := func(url string, header map[string]string, status int) {
		t.Helper()
		c := open(t, url, header)
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.NewDecoder(c.resp.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
		if c.resp.StatusCode != status || p.Status != status || p.Title == "" || p.Detail == "" || c.resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %s with %v, %+v, want %d", header, c.resp.Status, c.resp.Header, p, status)
		}
		if status == 429 || status == 503 {
			if c.resp.Header.Get("Retry-After") == "" {
				t.Error("there is no Retry-After")
			}
		}
	}
	refuse(s.URL, map[string]string{"X-User": ""}, 401)
	refuse(s.URL, map[string]string{"X-User": strings.Repeat("u", 200)}, 401)
	refuse(s.URL, map[string]string{"Last-Event-ID": "seven"}, 400)
	refuse(s.URL, map[string]string{"Last-Event-ID": "-1"}, 400)
	refuse(s.URL+"?last_event_id=x", nil, 400)

	one, two := open(t, s.URL, nil), open(t, s.URL, nil)
	refuse(s.URL, nil, 429)
	open(t, s.URL, map[string]string{"X-User": "v"})
	refuse(s.URL, map[string]string{"X-User": "w"}, 503)
	// Who leaves makes room.
	one.resp.Body.Close()
	two.resp.Body.Close()
	for {
		c := open(t, s.URL, map[string]string{"X-User": "w"})
		if c.resp.StatusCode == 200 {
			break
		}
		c.resp.Body.Close()
		time.Sleep(10 * time.Millisecond)
	}
	// The handler has to be able to read.
	b.mu.Lock()
	b.err = store.ErrBusy
	b.mu.Unlock()
	refuse(s.URL, nil, 503)

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

// TestStoreFails keeps a stream while the store is away for a while.
func TestStoreFails(t *testing.T) {
	b := &inbox{}
	s := serve(t, hub(t, b, sse.Options{}, nil))
	c := open(t, s.URL, nil)
	c.block()
	b.mu.Lock()
	b.err, b.reads = store.ErrBusy, 0
	b.mu.Unlock()
	for {
		b.mu.Lock()
		failed := b.reads
		b.mu.Unlock()
		if failed > 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	b.mu.Lock()
	b.err = nil
	b.mu.Unlock()
	b.put(id(1))
	if e := c.next(); e.note.ID != id(1) {
		t.Errorf("the event is %+v", e)
	}
}

// TestServerTimeouts has a server whose own timeouts are far shorter than a
// stream, and sees heartbeats after them.
func TestServerTimeouts(t *testing.T) {
	h := hub(t, &inbox{}, sse.Options{Heartbeat: 50 * time.Millisecond}, nil)
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	s.Start()
	defer s.Close()
	defer h.Close()
	c := open(t, s.URL, nil)
	began := time.Now()
	beats := 0
	for time.Since(began) < 500*time.Millisecond {
		lines, err := c.block()
		if err != nil {
			t.Fatalf("the stream ended after %v: %v", time.Since(began), err)
		}
		if slices.Equal(lines, []string{":"}) {
			beats++
		}
	}
	if beats < 2 {
		t.Errorf("%d heartbeats", beats)
	}
}

// TestWake has a poll so long that only the wake, through the channel that a
// dispatcher uses, explains the event.
func TestWake(t *testing.T) {
	b := &inbox{}
	h := hub(t, b, sse.Options{Poll: 100 * time.Hour}, nil)
	s := serve(t, h)
	if targets, err := h.Targets(t.Context(), "u"); err != nil || len(targets) != 0 {
		t.Errorf("without a stream: %v, %v", targets, err)
	}
	c := open(t, s.URL, nil)
	c.block()
	targets, err := h.Targets(t.Context(), "u")
	if err != nil || len(targets) != 1 {
		t.Fatalf("with a stream: %v, %v", targets, err)
	}
	got := make(chan event, 1)
	go func() { got <- c.next() }()
	b.put(id(1))
	for { // the stream's first look, at its beginning, may still be under way
		if err := targets[0].Send(t.Context(), notify.Note{}); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-got:
			if e.note.ID != id(1) {
				t.Errorf("the event is %+v", e)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestEnds(t *testing.T) {
	h := hub(t, &inbox{}, sse.Options{MaxAge: 50 * time.Millisecond}, nil)
	s := serve(t, h)
	if err := open(t, s.URL, nil).end(); err != nil {
		t.Errorf("a stream of its age ended by %v", err)
	}
	h = hub(t, &inbox{}, sse.Options{}, nil)
	s = serve(t, h)
	c := open(t, s.URL, nil)
	c.block()
	h.Close()
	h.Close()
	if err := c.end(); err != nil {
		t.Errorf("a stream of a closed hub ended by %v", err)
	}
	if c := open(t, s.URL, nil); c.resp.StatusCode != 503 {
		t.Errorf("a closed hub answers %s", c.resp.Status)
	}
}

// TestSlowReader has a client that takes nothing: the stream is closed, with
// little read from the store, and goes on where it was when the client resumes.
func TestSlowReader(t *testing.T) {
	b := &inbox{}
	var all []store.ID
	for n := range 20_000 { // some 8 MB, more than the sockets between hold
		all = append(all, id(n+1))
	}
	b.put(all...)
	h := hub(t, b, sse.Options{Write: 100 * time.Millisecond}, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(h)
	s := serve(t, h)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-User: u\r\nLast-Event-ID: 0\r\n\r\n")
	for ended(t, registry, "slow") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, resp, bufio.NewReader(resp.Body)}
	var last store.ID
	for {
		lines, err := c.block()
		if err != nil {
			break
		}
		for _, line := range lines {
			if text, ok := strings.CutPrefix(line, "id: "); ok {
				if last, err = store.ParseID(text); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if last == 0 || last == all[len(all)-1] {
		t.Fatalf("the slow reader got up to %s", last)
	}
	rest := all[slices.Index(all, last)+1:]
	again := open(t, s.URL, map[string]string{"Last-Event-ID": last.String()})
	if got := again.ids(len(rest)); !slices.Equal(got, rest) {
		t.Errorf("the rest is not what was left: %d of %d", len(got), len(rest))
	}
}

// ended is how many streams ended for a reason.
func ended(t testing.TB, g prometheus.Gatherer, reason string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "nearjob_notify_streams_ended_total" && l.GetValue() == reason {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

func TestNew(t *testing.T) {
	_, err := sse.New(sse.Deps{}, sse.Options{PerUser: -1, Poll: -1, Page: store.MaxKeys + 1})
	invalid, ok := errors.AsType[*store.InvalidError](err)
	if !ok || len(invalid.Faults) != 4 {
		t.Errorf("the error is %v", err)
	}
}
