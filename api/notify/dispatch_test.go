package notify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

// channel is a notify.Channel whose users have the targets named in it; send
// decides what becomes of a delivery.
type channel struct {
	targets []string
	send    func(ctx context.Context, target string, n notify.Note) error
}

func (c *channel) Targets(_ context.Context, _ store.UserID) ([]notify.Target, error) {
	var out []notify.Target
	for _, key := range c.targets {
		out = append(out, notify.Target{Key: key, Send: func(ctx context.Context, n notify.Note) error { return c.send(ctx, key, n) }})
	}
	return out, nil
}

// calls collects what channels were sent.
type calls struct {
	mu   sync.Mutex
	list []call
}

type call struct {
	target string
	note   notify.Note
	at     time.Time
}

func (c *calls) add(target string, n notify.Note) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call{target, n, time.Now()})
	return len(c.list)
}

func (c *calls) all() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

func texts(t testing.TB) *notify.Texts {
	t.Helper()
	x, err := notify.NewTexts()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func message(id, job store.ID) store.Message {
	return store.Message{
		ID: id, Event: id, Job: job, Application: job + 1000, Recipient: "worker", Role: store.RoleWorker, Action: store.ActAccept,
		At: time.Now(), Title: "Paint a fence", JobState: store.Matched, State: store.Pending, Due: time.Now(),
	}
}

func deps(t testing.TB, o store.Outbox, channels map[string]notify.Channel) notify.Deps {
	return notify.Deps{Outbox: o, Profiles: profiles{}, Channels: channels, Texts: texts(t)}
}

// start runs a dispatcher until the returned function is called.
func start(t testing.TB, d notify.Deps, o notify.Options) (*notify.Dispatcher, func()) {
	t.Helper()
	if o.Node == "" {
		o.Node = "a"
	}
	dispatcher, err := notify.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	return dispatcher, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// until waits, in the bubble's time, for something to become true.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
	}
}

// TestNothingIsLost runs three nodes on one outbox, with failures of channels
// and of the outbox, before and after an operation is done.
func TestNothingIsLost(t *testing.T) {
	jobs, each := 40, 15
	if testing.Short() {
		jobs = 15
	}
	seeds := uint64(5)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex
				chance := func(p float64) bool {
					mu.Lock()
					defer mu.Unlock()
					return random.Float64() < p
				}
				var messages []store.Message
				for i := range jobs * each {
					messages = append(messages, message(store.ID(i+1), store.ID(i%jobs+1)))
				}
				o := newOutbox(messages...)
				o.fail = func(string) (error, error) {
					switch { // under o's lock
					case chance(.05):
						return fmt.Errorf("%w: before", errInjected), nil
					case chance(.05):
						return nil, fmt.Errorf("%w: after", errInjected)
					}
					return nil, nil
				}
				var got calls
				inHand := make(map[store.ID]int)
				send := func(ctx context.Context, target string, n notify.Note) error {
					mu.Lock()
					inHand[n.Job]++
					if target == "one" && inHand[n.Job] > 1 {
						t.Errorf("job %s: two messages are delivered at once", n.Job)
					}
					slow := time.Duration(random.IntN(3000)) * time.Millisecond
					mu.Unlock()
					defer func() {
						mu.Lock()
						inHand[n.Job]--
						mu.Unlock()
					}()
					select {
					case <-time.After(slow):
					case <-ctx.Done():
						return ctx.Err()
					}
					if chance(.1) {
						return errInjected
					}
					got.add(target, n)
					if chance(.05) {
						return errInjected // arrived, and the answer was lost
					}
					return nil
				}
				channels := map[string]notify.Channel{"push": &channel{[]string{"one"}, send}}
				var stops []func()
				for _, node := range []string{"a", "b", "c"} {
					_, stop := start(t, deps(t, o, channels), notify.Options{
						Node: node, Workers: 4, Attempts: 50, Timeout: 2 * time.Second, Backoff: notify.Backoff{Base: 10 * time.Millisecond, Max: time.Second},
					})
					stops = append(stops, stop)
				}
				until(t, time.Hour, "all delivered", func() bool { return o.count(store.Delivered) == len(messages) })
				for _, stop := range stops {
					stop()
				}
				first := make(map[store.ID]notify.Note)
				last := make(map[store.ID]store.ID) // of each job
				for _, c := range got.all() {
					if was, ok := first[c.note.ID]; ok {
						if was != c.note {
							t.Errorf("a duplicate differs: %+v and %+v", was, c.note)
						}
						continue
					}
					first[c.note.ID] = c.note
					if c.note.ID < last[c.note.Job] {
						t.Errorf("job %s: message %s came first after %s", c.note.Job, c.note.ID, last[c.note.Job])
					}
					last[c.note.Job] = c.note.ID
				}
				if len(first) != len(messages) {
					t.Errorf("%d of %d messages arrived", len(first), len(messages))
				}
				if len(got.all()) == len(messages) {
					t.Error("there was no duplicate: the failures were not injected")
				}
			})
		})
	}
}

func TestGivesUpAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 7), message(2, 7))
		var got calls
		c := &channel{[]string{"x"}, func(_ context.Context, target string, n notify.Note) error {
			got.add(target, n)
			if n.ID == 1 {
				return errors.New("no\nanswer")
			}
			return nil
		}}
		d := deps(t, o, map[string]notify.Channel{"webhook": c})
		d.Rand = func() float64 { return .999 }
		_, stop := start(t, d, notify.Options{Attempts: 4, Backoff: notify.Backoff{Base: 10 * time.Second, Max: 15 * time.Second}})
		until(t, time.Hour, "both ended", func() bool { return o.count(store.Pending) == 0 })
		stop()

		var ids []store.ID
		var waits []time.Duration
		for i, c := range got.all() {
			ids = append(ids, c.note.ID)
			if i > 0 {
				waits = append(waits, c.at.Sub(got.all()[i-1].at).Round(2*time.Second))
			}
		}
		if want := []store.ID{1, 1, 1, 1, 2}; !slices.Equal(ids, want) {
			t.Errorf("delivered %v, want %v", ids, want)
		}
		if want := []time.Duration{10 * time.Second, 16 * time.Second, 16 * time.Second, 0}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
		if m := o.get(1); m.State != store.Dead || m.LastError != "webhook: no answer" || m.Attempts != 4 {
			t.Errorf("the failing message is %+v", m)
		}
	})
}

func TestOutcomes(t *testing.T) {
	type want struct {
		state    store.MessageState
		attempts int
		err      string
		calls    map[string]int
		after    time.Duration // the last call came this long after the first, or later
	}
	fails := func(times int, err error) func(*int) error {
		return func(n *int) error {
			if *n++; *n <= times {
				return err
			}
			return nil
		}
	}
	tests := map[string]struct {
		push, webhook func(*int) error
		settings      store.Settings
		want          want
	}{
		"all well": {fails(0, nil), fails(0, nil), store.Settings{}, want{store.Delivered, 1, "", map[string]int{"push": 1, "webhook": 1}, 0}},
		"one channel fails at first, the other is not repeated": {
			fails(2, errors.New("down")), fails(0, nil), store.Settings{},
			want{store.Delivered, 3, "push: down", map[string]int{"push": 3, "webhook": 1}, 0}},
		"only what was chosen": {
			fails(0, nil), fails(0, nil), store.Settings{Channels: []string{"webhook"}},
			want{store.Delivered, 1, "", map[string]int{"webhook": 1}, 0}},
		"nothing chosen": {fails(0, nil), fails(0, nil), store.Settings{Channels: []string{}}, want{store.Delivered, 1, "", map[string]int{}, 0}},
		"gone is settled": {
			fails(1, fmt.Errorf("404: %w", notify.ErrGone)), fails(0, nil), store.Settings{},
			want{store.Delivered, 1, "", map[string]int{"push": 1, "webhook": 1}, 0}},
		"refused is not repeated": {
			fails(9, &notify.RefusedError{Err: errors.New("bad")}), fails(0, nil), store.Settings{},
			want{store.Dead, 1, "push: refused: bad", map[string]int{"push": 1, "webhook": 1}, 0}},
		"later means later": {
			fails(1, &notify.LaterError{After: 4 * time.Minute, Err: errors.New("busy")}), fails(0, nil), store.Settings{},
			want{store.Delivered, 2, "push: busy (asked to wait 4m0s)", map[string]int{"push": 2, "webhook": 1}, 4 * time.Minute}},
		"nobody waits for ever": {
			fails(1, &notify.LaterError{After: 1e6 * time.Hour, Err: errors.New("busy")}), fails(0, nil), store.Settings{},
			want{store.Delivered, 2, "push: busy (asked to wait 1000000h0m0s)", map[string]int{"push": 2, "webhook": 1}, 10 * time.Minute}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutbox(message(1, 7))
				var got calls
				on := func(name string, f func(*int) error) *channel {
					n := 0
					return &channel{[]string{"t"}, func(_ context.Context, _ string, note notify.Note) error {
						got.add(name, note)
						return f(&n)
					}}
				}
				d := deps(t, o, map[string]notify.Channel{"push": on("push", test.push), "webhook": on("webhook", test.webhook)})
				d.Profiles = profiles{"worker": test.settings}
				_, stop := start(t, d, notify.Options{})
				until(t, 24*time.Hour, "ended", func() bool { return o.count(store.Pending) == 0 })
				stop()
				m := o.get(1)
				if m.State != test.want.state || m.Attempts != test.want.attempts || m.LastError != test.want.err {
					t.Errorf("the message is %s after %d attempts with %q, want %s after %d with %q",
						m.State, m.Attempts, m.LastError, test.want.state, test.want.attempts, test.want.err)
				}
				times := make(map[string]int)
				for _, c := range got.all() {
					times[c.target]++
				}
				if fmt.Sprint(times) != fmt.Sprint(test.want.calls) {
					t.Errorf("calls were %v, want %v", times, test.want.calls)
				}
				if all := got.all(); len(all) > 0 {
					if took := all[len(all)-1].at.Sub(all[0].at); took < test.want.after || took > test.want.after+time.Minute {
						t.Errorf("the last call came after %v, want %v", took, test.want.after)
					}
				}
			})
		})
	}
}

// TestStop ends a dispatcher while it delivers.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var messages []store.Message
		for i := range 10 {
			messages = append(messages, message(store.ID(i+1), store.ID(i+1)))
		}
		o := newOutbox(messages...)
		var got calls
		c := &channel{[]string{"x"}, func(ctx context.Context, target string, n notify.Note) error {
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			got.add(target, n)
			return nil
		}}
		_, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{Workers: 3, Grace: 20 * time.Second})
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("the stop took %v, want the 4 s that deliveries still needed", took)
		}
		if n := len(got.all()); n != 3 || o.count(store.Delivered) != 3 {
			t.Errorf("%d delivered and %d noted, want the 3 that were begun", n, o.count(store.Delivered))
		}
		for _, m := range messages {
			if m := o.get(m.ID); m.State == store.Pending && (m.Node != "" || m.Due.After(time.Now())) {
				t.Errorf("message %s was not given back: %+v", m.ID, m)
			}
		}
	})
}

// TestCutOff ends a dispatcher whose deliveries take longer than the grace: even
// at its last attempt a message is given back and not given up.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 1))
		c := &channel{[]string{"x"}, func(ctx context.Context, target string, n notify.Note) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		_, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{Attempts: 1, Timeout: time.Minute, Grace: 2 * time.Second})
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the stop took %v, want the grace of 2 s", took)
		}
		if m := o.get(1); m.State != store.Pending || m.Node != "" || m.Due.After(time.Now()) {
			t.Errorf("the message was not given back: %+v", m)
		}
	})
}

// TestOldClaimIsNotBegun lets messages lie in hand, behind slow ones, until
// their lease could end before they are delivered.
func TestOldClaimIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 1), message(2, 2), message(3, 3))
		var mu sync.Mutex
		holder := make(map[store.ID]string)
		var got calls
		on := func(node string) map[string]notify.Channel {
			return map[string]notify.Channel{"push": &channel{[]string{"x"}, func(_ context.Context, _ string, n notify.Note) error {
				mu.Lock()
				if other := holder[n.ID]; other != "" {
					t.Errorf("message %s is delivered by %s while %s does", n.ID, node, other)
				}
				holder[n.ID] = node
				mu.Unlock()
				// Longer than its timeout, as a channel should not be.
				time.Sleep(11 * time.Second)
				mu.Lock()
				holder[n.ID] = ""
				mu.Unlock()
				got.add(node, n)
				return nil
			}}}
		}
		opts := notify.Options{Workers: 1, Timeout: 10 * time.Second, Lease: 20 * time.Second}
		opts.Node = "a"
		_, stopA := start(t, deps(t, o, on("a")), opts)
		time.Sleep(time.Second)
		opts.Node = "b"
		_, stopB := start(t, deps(t, o, on("b")), opts)
		until(t, time.Hour, "all delivered", func() bool { return o.count(store.Delivered) == 3 })
		stopA()
		stopB()
		if n := len(got.all()); n != 3 {
			t.Errorf("%d deliveries of 3 messages: %v", n, got.all())
		}
	})
}

// TestOutboxIsDown loses the database for a while.
func TestOutboxIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 1))
		down := time.Now().Add(10 * time.Minute)
		var asked atomic.Int32
		o.fail = func(string) (error, error) {
			asked.Add(1)
			if time.Now().Before(down) {
				return store.ErrBusy, nil
			}
			return nil, nil
		}
		var got calls
		c := &channel{[]string{"x"}, func(_ context.Context, target string, n notify.Note) error {
			got.add(target, n)
			return nil
		}}
		d, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{})
		for range 1000 { // who wakes it does not make it ask more often
			time.Sleep(500 * time.Millisecond)
			d.Wake()
		}
		if n := asked.Load(); n > 100 {
			t.Errorf("the database was asked %d times while it was down", n)
		}
		until(t, time.Hour, "delivered", func() bool { return o.count(store.Delivered) == 1 })
		stop()
		if len(got.all()) != 1 {
			t.Errorf("%d deliveries", len(got.all()))
		}
	})
}

// TestWake has a poll so long that only the wake explains the delivery.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		var got calls
		c := &channel{[]string{"x"}, func(_ context.Context, target string, n notify.Note) error {
			got.add(target, n)
			return nil
		}}
		d, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{Poll: 100 * time.Hour})
		synctest.Wait()
		m1, m2 := message(1, 1), message(2, 1)
		o.mu.Lock()
		o.messages[1], o.messages[2] = &m1, &m2
		o.mu.Unlock()
		began := time.Now()
		d.Wake()
		synctest.Wait()
		stop()
		if len(got.all()) != 2 || time.Since(began) > time.Second {
			t.Errorf("%d of 2 messages came in %v", len(got.all()), time.Since(began))
		}
	})
}

// TestDoneIsLost has a delivery whose note never reaches the outbox: the message
// comes again, and what has it in this process does not get it again.
func TestDoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 1))
		lost := 0
		o.fail = func(op string) (error, error) {
			if op == "done" && lost < 10 {
				lost++
				return errInjected, nil
			}
			return nil, nil
		}
		var got calls
		c := &channel{[]string{"x"}, func(_ context.Context, target string, n notify.Note) error {
			got.add(target, n)
			return nil
		}}
		_, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{})
		until(t, time.Hour, "delivered", func() bool { return o.count(store.Delivered) == 1 })
		stop()
		if len(got.all()) != 1 || o.get(1).Attempts < 2 {
			t.Errorf("%d deliveries in %d attempts, want 1 in several", len(got.all()), o.get(1).Attempts)
		}
	})
}

func TestUnknownActionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := message(1, 1)
		m.Action = "teleport"
		o := newOutbox(m, message(2, 1))
		c := &channel{[]string{"x"}, func(context.Context, string, notify.Note) error { return nil }}
		_, stop := start(t, deps(t, o, map[string]notify.Channel{"push": c}), notify.Options{})
		until(t, time.Hour, "both ended", func() bool { return o.count(store.Pending) == 0 })
		stop()
		if m := o.get(1); m.State != store.Dead || !strings.Contains(m.LastError, "teleport") {
			t.Errorf("the message is %+v", m)
		}
	})
}

func TestOptions(t *testing.T) {
	_, err := notify.New(notify.Deps{Channels: map[string]notify.Channel{"pigeon": nil}},
		notify.Options{Workers: -1, Attempts: -1, Timeout: time.Minute, Lease: time.Second, Poll: -1, Backoff: notify.Backoff{Base: 2, Max: 1}})
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is %v", err)
	}
	var fields []string
	for _, f := range invalid.Faults {
		fields = append(fields, f.Field)
	}
	slices.Sort(fields)
	want := []string{"attempts", "backoff", "channels", "lease", "node", "outbox", "poll", "profiles", "texts", "workers"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults in %v, want %v", fields, want)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(message(1, 1), message(2, 2))
		n := 0
		c := &channel{[]string{"x"}, func(_ context.Context, _ string, note notify.Note) error {
			if n++; note.ID == 1 && n < 3 {
				return errInjected
			}
			if note.ID == 2 {
				return &notify.RefusedError{Err: errInjected}
			}
			return nil
		}}
		m := notify.NewMetrics()
		registry := prometheus.NewRegistry()
		registry.MustRegister(m, notify.NewOutboxMetrics(o, time.Now, nil))
		time.Sleep(90 * time.Second)
		before := gather(t, registry)
		d := deps(t, o, map[string]notify.Channel{"push": c})
		d.Metrics = m
		_, stop := start(t, d, notify.Options{Workers: 1})
		until(t, time.Hour, "ended", func() bool { return o.count(store.Pending) == 0 })
		stop()
		after := gather(t, registry)
		for name, want := range map[string]float64{
			"nearjob_notify_outbox_messages{pending}": 2, "nearjob_notify_outbox_oldest_seconds{}": 90,
		} {
			if before[name] != want {
				t.Errorf("before: %s is %v, want %v", name, before[name], want)
			}
		}
		for name, want := range map[string]float64{
			"nearjob_notify_outbox_messages{pending}": 0, "nearjob_notify_outbox_messages{delivered}": 1, "nearjob_notify_outbox_messages{dead}": 1,
			"nearjob_notify_outbox_oldest_seconds{}":                 0,
			"nearjob_notify_messages_total{delivered}":               1,
			"nearjob_notify_messages_total{dead}":                    1,
			"nearjob_notify_messages_total{retried}":                 1,
			"nearjob_notify_claimed_total{}":                         3,
			"nearjob_notify_delivery_duration_seconds{push ok}":      1,
			"nearjob_notify_delivery_duration_seconds{push failed}":  1,
			"nearjob_notify_delivery_duration_seconds{push refused}": 1,
			"nearjob_notify_latency_seconds{}":                       1,
			"nearjob_notify_attempts{}":                              1,
		} {
			if after[name] != want {
				t.Errorf("after: %s is %v, want %v", name, after[name], want)
			}
		}
	})
}

// gather returns metrics by name and label values; histograms by their count.
func gather(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out[f.GetName()+"{"+strings.Join(labels, " ")+"}"] = v
		}
	}
	return out
}
