package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/store"
)

// fill makes jobs with four messages each: three for the requester, one for the worker.
func (m *market) fill(t *testing.T, jobs int) {
	t.Helper()
	for range jobs {
		job := m.post(t, "rita", nil)
		app := m.apply(t, job.ID, "ann")
		m.must(t, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"},
			store.Command{Action: store.ActStart, Job: job.ID, By: "ann"}, store.Command{Action: store.ActFinish, Job: job.ID, By: "ann"})
	}
}

func (m *market) claim(t *testing.T, node string, n int, now time.Time) []store.Message {
	t.Helper()
	got, err := whileBusy(func() ([]store.Message, error) { return m.e.Claim(t.Context(), node, n, time.Minute, now) })
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return got
}

func testOutbox(t *testing.T, m *market) {
	ctx := t.Context()
	m.fill(t, 2)
	if got := m.claim(t, "a", 10, clock.Add(-time.Second)); len(got) != 0 {
		t.Errorf("%d messages are claimed before they are due", len(got))
	}
	first := m.claim(t, "a", 10, clock)
	if len(first) != 2 || first[0].Job == first[1].Job {
		t.Fatalf("claimed %+v, want the first of each job", first)
	}
	for _, msg := range first {
		if msg.Action != store.ActApply || msg.Recipient != "rita" || msg.Role != store.RoleRequester || msg.Note != "I am ann" ||
			msg.Actor != "ann" || msg.Title != "Walk a dog" || msg.State != store.Pending || msg.Attempts != 1 || msg.Node != "a" ||
			!msg.Due.Equal(clock.Add(time.Minute)) || msg.JobState != store.Open || msg.Application == 0 {
			t.Errorf("claimed %+v", msg)
		}
	}
	if got := m.claim(t, "b", 10, clock); len(got) != 0 {
		t.Errorf("node b has %d messages while a holds the first of each job", len(got))
	}
	// A lease that ended is another's.
	second := m.claim(t, "b", 10, later(time.Minute))
	slices.SortFunc(second, func(a, b store.Message) int { return int(b.ID - a.ID) })
	if len(second) != 2 || second[0].ID != first[1].ID || second[0].Attempts != 2 {
		t.Fatalf("claimed %+v, want those whose lease has ended", second)
	}
	for what, err := range map[string]error{
		"Retry": m.e.Retry(ctx, first[1], clock, "late"),
		"Dead":  m.e.Dead(ctx, first[1], clock, "late"),
	} {
		if !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("%s by who lost the lease: %v", what, err)
		}
	}
	// A retry holds up its job until it is due.
	if err := m.e.Retry(ctx, second[0], later(150*time.Second), "no answer"); err != nil {
		t.Fatal(err)
	}
	waiting, err := m.e.List(ctx, store.Pending, store.Keys{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range waiting {
		want := msg.Job == second[0].Job || msg.ID == first[0].ID // which b has claimed for as long
		if got := msg.Due.After(later(119 * time.Second)); got != want {
			t.Errorf("due %v after the retry: %+v", msg.Due, msg)
		}
	}
	if err := m.e.Dead(ctx, second[0], clock, "late"); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("given up by who has given it back: %v", err)
	}
	if err := m.e.Done(ctx, first[0], clock); err != nil {
		t.Fatal(err)
	}
	if err := m.e.Done(ctx, first[0], clock); err != nil {
		t.Errorf("Done twice: %v", err)
	}
	third := m.claim(t, "a", 10, later(2*time.Minute))
	if len(third) != 1 || third[0].Job != first[0].Job || third[0].Action != store.ActAccept {
		t.Fatalf("claimed %+v, want the accept of job %s", third, first[0].Job)
	}
	fourth := m.claim(t, "b", 1, later(150*time.Second))
	if len(fourth) != 1 || fourth[0].ID != first[1].ID || fourth[0].LastError != "no answer" || fourth[0].Attempts != 3 {
		t.Fatalf("claimed %+v, want the retry", fourth)
	}
	// A dead message does not hold up its job.
	if err := m.e.Dead(ctx, fourth[0], later(3*time.Minute), "gone"); err != nil {
		t.Fatal(err)
	}
	fifth := m.claim(t, "b", 10, later(3*time.Minute))
	var actions []string
	for _, msg := range fifth {
		actions = append(actions, string(msg.Action))
	}
	if !slices.Equal(actions, []string{"accept", "accept"}) { // a's lease has ended too
		t.Errorf("claimed %v", actions)
	}
	dead, err := m.e.List(ctx, store.Dead, store.Keys{Limit: 10})
	if err != nil || len(dead) != 1 || dead[0].LastError != "gone" || !dead[0].Ended.Equal(later(3*time.Minute)) || !dead[0].Due.IsZero() {
		t.Errorf("dead: %v: %+v", err, dead)
	}
	// A claim whose lease has ended is not that of the same node's next one.
	sixth := m.claim(t, "b", 10, later(time.Hour))
	if len(sixth) != 2 {
		t.Fatalf("claimed %+v, want both again", sixth)
	}
	for i := range fifth {
		if err := m.e.Retry(ctx, fifth[i], clock, "late"); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Retry by an earlier claim: %v", err)
		}
	}
	// What is delivered after all, by who lost the lease, is so although it was given up;
	// and it ended the first time.
	if err := m.e.Dead(ctx, sixth[0], later(time.Hour), "gone"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Duration{61 * time.Minute, 62 * time.Minute} {
		if err := m.e.Done(ctx, sixth[0], later(at)); err != nil {
			t.Fatal(err)
		}
	}
	delivered, err := m.e.List(ctx, store.Delivered, store.Keys{Limit: 10})
	if i := slices.IndexFunc(delivered, func(d store.Message) bool { return d.ID == sixth[0].ID }); err != nil || i < 0 || !delivered[i].Ended.Equal(later(61*time.Minute)) {
		t.Errorf("delivered after it was given up: %v: %+v", err, delivered)
	}
	m.check(t)
	// The dead are pruned as well.
	if n, err := m.e.PruneMessages(ctx, later(5*time.Minute), 10); err != nil || n != 2 {
		t.Errorf("pruned %d, %v, want the first of each job", n, err)
	}
	if dead, err := m.e.List(ctx, store.Dead, store.Keys{Limit: 10}); err != nil || len(dead) != 0 {
		t.Errorf("dead after the pruning: %v: %+v", err, dead)
	}
	var ie *store.InvalidError
	for _, c := range []struct {
		node  string
		n     int
		lease time.Duration
	}{{"", 1, time.Minute}, {"a", 0, time.Minute}, {"a", 1, 0}, {"a", store.MaxKeys + 1, time.Minute}} {
		if _, err := m.e.Claim(ctx, c.node, c.n, c.lease, clock); !errors.As(err, &ie) {
			t.Errorf("Claim of %+v: %v, want an InvalidError", c, err)
		}
	}
}

// testOutboxNodes lets several nodes deliver while actions go on. Some deliveries
// fail, some nodes die with a message in hand. Each message is delivered, in the order of
// its job, and no two nodes hold one at a time.
func testOutboxNodes(t *testing.T, m *market) {
	const nodes = 4
	jobs := 12
	if testing.Short() {
		jobs = 5
	}
	var now atomic.Int64 // minutes
	var mu sync.Mutex
	type lease struct{ node, from, until int64 } // in minutes
	held := map[store.ID]lease{}
	delivered := map[store.ID][]store.ID{}
	times := map[store.ID]int{}
	var filled atomic.Bool
	var wg sync.WaitGroup
	var faults []error
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil { // the first ends the others
			faults = append(faults, err)
		}
		cancel()
	}
	for n := range nodes {
		wg.Go(func() {
			node := fmt.Sprint("node ", n)
			for round := 0; ctx.Err() == nil; round++ {
				full := filled.Load()
				minute := now.Load()
				at := clock.Add(time.Duration(minute) * time.Minute)
				got, err := whileBusy(func() ([]store.Message, error) { return m.e.Claim(ctx, node, 3, time.Hour, at) })
				if err != nil {
					failed(fmt.Errorf("claim: %w", err))
					return
				}
				if len(got) == 0 && full {
					if d, err := m.e.Depth(ctx); err == nil && d.Pending == 0 {
						return
					}
					// The leases of the dead nodes end.
					now.CompareAndSwap(minute, minute+61)
				}
				for i, msg := range got {
					mu.Lock()
					mine := lease{int64(n), minute, minute + 60}
					if other, is := held[msg.ID]; is && mine.from < other.until && other.from < mine.until {
						faults = append(faults, fmt.Errorf("nodes %d and %d hold message %s at a time: %+v, %+v", other.node, n, msg.ID, other, mine))
					}
					held[msg.ID] = mine
					mu.Unlock()
					switch {
					case (round+i)%7 == 3 && msg.Attempts < 3: // dies with it: the lease ends
						continue
					case (round+i)%5 == 2 && msg.Attempts < 3:
						mu.Lock()
						delete(held, msg.ID) // before another can have it
						mu.Unlock()
						_, err = whileBusy(func() (struct{}, error) { return struct{}{}, m.e.Retry(ctx, msg, at, "failed") })
					default:
						mu.Lock()
						times[msg.ID]++
						if times[msg.ID] == 1 {
							delivered[msg.Job] = append(delivered[msg.Job], msg.ID)
						}
						mu.Unlock()
						_, err = whileBusy(func() (struct{}, error) { return struct{}{}, m.e.Done(ctx, msg, at) })
					}
					if err != nil && !errors.Is(err, store.ErrLeaseLost) {
						failed(err)
						return
					}
				}
			}
		})
	}
	m.fill(t, jobs)
	filled.Store(true)
	wg.Wait()
	for _, err := range faults {
		t.Error(err)
	}
	want := 0
	for event, ms := range m.messages(t) {
		for _, msg := range ms {
			want++
			if times[msg.ID] == 0 || msg.State != store.Delivered {
				t.Errorf("message %s of event %s was delivered %d times, and is %s", msg.ID, event, times[msg.ID], msg.State)
			}
		}
	}
	if want != 4*jobs {
		t.Errorf("%d messages, want %d", want, 4*jobs)
	}
	for job, order := range delivered {
		if !slices.IsSorted(order) || len(order) != 4 {
			t.Errorf("job %s: delivered in the order %v", job, order)
		}
	}
	m.check(t)
}

func testOutboxAdmin(t *testing.T, m *market) {
	ctx := t.Context()
	depth := func(want store.Depth) {
		t.Helper()
		if d, err := m.e.Depth(ctx); err != nil || d != want {
			t.Errorf("the depth is %+v, %v, want %+v", d, err, want)
		}
	}
	depth(store.Depth{})
	m.fill(t, 3)
	depth(store.Depth{Pending: 12, Oldest: clock})
	if last, err := m.e.LastMessage(ctx, "nobody"); err != nil || last != 0 {
		t.Errorf("the last message of nobody is %s, %v", last, err)
	}
	inbox, err := m.e.Messages(ctx, "rita", store.Keys{Limit: 100})
	if err != nil || len(inbox) != 9 || !slices.IsSortedFunc(inbox, func(a, b store.Message) int { return int(a.ID - b.ID) }) {
		t.Errorf("rita has %d messages, %v, want 9 in order", len(inbox), err)
	}
	if last, err := m.e.LastMessage(ctx, "rita"); err != nil || last != inbox[8].ID {
		t.Errorf("the last message of rita is %s, %v, want %s", last, err, inbox[8].ID)
	}
	rest, err := m.e.Messages(ctx, "rita", store.Keys{After: int64(inbox[4].ID), Limit: 2})
	if err != nil || len(rest) != 2 || rest[0] != inbox[5] || rest[1] != inbox[6] {
		t.Errorf("after the fifth: %v: %+v", err, rest)
	}
	claimed := m.claim(t, "a", 10, clock)
	if err := m.e.Dead(ctx, claimed[0], clock, "\xff gone"); err != nil {
		t.Fatal(err)
	}
	if err := m.e.Done(ctx, claimed[1], later(time.Minute)); err != nil {
		t.Fatal(err)
	}
	depth(store.Depth{Pending: 10, Delivered: 1, Dead: 1, Oldest: clock})
	n, err := m.e.Replay(ctx, []store.ID{claimed[0].ID, claimed[1].ID, claimed[2].ID, 1 << 50}, later(2*time.Minute))
	if err != nil || n != 2 {
		t.Errorf("replayed %d, %v, want 2", n, err)
	}
	depth(store.Depth{Pending: 12, Oldest: clock})
	for _, msg := range m.claim(t, "a", 10, later(2*time.Minute)) {
		if msg.Attempts == 1 != (msg.ID != claimed[2].ID) {
			t.Errorf("after the replay: %+v", msg)
		}
		// The same node's claim from before the replay is another, as far as it is counted.
		if err := m.e.Dead(ctx, claimed[0], later(2*time.Minute), "late"); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("given up by a claim from before the replay: %v", err)
		}
		if err := m.e.Done(ctx, msg, later(3*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		before time.Time
		limit  int
		want   int
	}{{later(3 * time.Minute), 10, 0}, {later(4 * time.Minute), 2, 2}, {later(4 * time.Minute), 10, 1}} {
		if n, err := m.e.PruneMessages(ctx, c.before, c.limit); err != nil || n != c.want {
			t.Errorf("pruned %d, %v, want %d", n, err, c.want)
		}
	}
	depth(store.Depth{Pending: 9, Oldest: clock})
	if n, err := m.e.Replay(ctx, nil, clock); err != nil || n != 0 {
		t.Errorf("replayed none: %d, %v", n, err)
	}
}

func testAnswers(t *testing.T, m *market) {
	ctx := t.Context()
	k := store.OperationKey{User: "rita", Operation: "POST /v1/jobs", Key: "abc"}
	hash := [32]byte{1, 2, 3}
	begin := func(k store.OperationKey, h [32]byte, at time.Time) store.Answer {
		t.Helper()
		a, err := m.e.Begin(ctx, k, h, at, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := begin(k, hash, clock)
	if first.State != store.AnswerNew || first.Token == 0 || !first.Until.Equal(later(time.Minute)) {
		t.Fatalf("begun: %+v", first)
	}
	if a := begin(k, [32]byte{9}, later(time.Second)); a.State != store.AnswerRunning || a.BodyHash != hash || !a.Until.Equal(first.Until) {
		t.Errorf("begun again: %+v", a)
	}
	for _, other := range []store.OperationKey{{User: "omar", Operation: k.Operation, Key: k.Key}, {User: k.User, Operation: "POST /v1/x", Key: k.Key}, {User: k.User, Operation: k.Operation, Key: "abd"}} {
		if a := begin(other, hash, clock); a.State != store.AnswerNew {
			t.Errorf("%+v: %+v", other, a)
		}
	}
	// The lease ends: another takes it over, and the first has lost it.
	second := begin(k, hash, later(time.Minute))
	if second.State != store.AnswerNew || second.Token == first.Token {
		t.Fatalf("taken over: %+v", second)
	}
	if err := m.e.Finish(ctx, k, first.Token, 201, nil, nil); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("finished by who lost it: %v", err)
	}
	if err := m.e.Forget(ctx, k, first.Token); err != nil {
		t.Errorf("forgotten by who lost it: %v", err)
	}
	header := map[string][]string{"Location": {"/v1/jobs/1"}, "Vary": {"a", "b"}}
	body := bytes.Repeat([]byte("\x00\xff'\\\n"), 10_000)
	if err := m.e.Finish(ctx, k, second.Token, 201, header, body); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{later(time.Minute), later(time.Hour)} {
		a := begin(k, [32]byte{9}, at)
		if a.State != store.AnswerKnown || a.BodyHash != hash || a.Status != 201 || !bytes.Equal(a.Body, body) ||
			!maps.EqualFunc(a.Header, header, slices.Equal[[]string]) {
			t.Errorf("known: %v %d %v, %d bytes", a.State, a.Status, a.Header, len(a.Body))
		}
	}
	if err := m.e.Finish(ctx, k, second.Token, 500, nil, nil); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("finished twice: %v", err)
	}
	if err := m.e.Forget(ctx, k, second.Token); err != nil {
		t.Error(err)
	}
	if a := begin(k, hash, later(time.Hour)); a.State != store.AnswerKnown {
		t.Errorf("an answer is forgotten: %+v", a)
	}
	// A claim that is given up is free at once.
	k2 := store.OperationKey{User: "rita", Operation: "POST /v1/jobs", Key: "def"}
	third := begin(k2, hash, clock)
	if err := m.e.Forget(ctx, k2, third.Token); err != nil {
		t.Fatal(err)
	}
	if a := begin(k2, [32]byte{5}, clock); a.State != store.AnswerNew || a.BodyHash != [32]byte{5} {
		t.Errorf("after it was given up: %+v", a)
	}
	var ie *store.InvalidError
	if err := m.e.Finish(ctx, k2, third.Token, 0, nil, nil); !errors.As(err, &ie) {
		t.Errorf("status 0: %v", err)
	}
	if _, err := m.e.Begin(ctx, k2, hash, clock, 0); !errors.As(err, &ie) {
		t.Errorf("no lease: %v", err)
	}
	for _, c := range []struct{ limit, want int }{{3, 3}, {100, 1}, {100, 0}} {
		if n, err := m.e.SweepAnswers(ctx, later(time.Second), c.limit); err != nil || n != c.want {
			t.Errorf("swept %d, %v, want %d", n, err, c.want)
		}
	}
	if a := begin(k, hash, later(time.Hour)); a.State != store.AnswerKnown {
		t.Errorf("an answer that began later is swept: %+v", a)
	}
}

// testAnswersOnce: of many who begin one request at once, one has it.
func testAnswersOnce(t *testing.T, m *market) {
	for round := range 10 {
		k := store.OperationKey{User: "rita", Operation: "POST /v1/jobs", Key: fmt.Sprint(round)}
		var won atomic.Int64
		each(t, 16, func(i int) error {
			a, err := whileBusy(func() (store.Answer, error) {
				return m.e.Begin(t.Context(), k, [32]byte{byte(i)}, clock, time.Minute)
			})
			if err == nil && a.State == store.AnswerNew {
				won.Add(1)
			}
			return err
		})
		if won.Load() != 1 {
			t.Fatalf("round %d: %d have it, want 1", round, won.Load())
		}
	}
}

func testSubscriptions(t *testing.T, m *market) {
	ctx := t.Context()
	fine := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	devices := func(user store.UserID, want ...store.Device) {
		t.Helper()
		got, err := m.e.Devices(ctx, user)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("devices of %s: %v: %+v, want %+v", user, err, got, want)
		}
	}
	one := store.Device{Token: "one", User: "ann", Created: clock}
	two := store.Device{Token: string(bytes.Repeat([]byte("x"), store.MaxToken)), User: "ann", Created: later(time.Second)}
	for _, d := range []store.Device{one, two, one} {
		fine(m.e.PutDevice(ctx, d))
	}
	devices("ann", two, one)
	one.User, one.Created = "bob", later(time.Minute)
	fine(m.e.PutDevice(ctx, one)) // the phone changed hands
	devices("ann", two)
	devices("bob", one)
	fine(m.e.DeleteDevice(ctx, "ann", "one")) // not ann's
	devices("bob", one)
	fine(m.e.DeleteDevice(ctx, "bob", "one"))
	fine(m.e.DeleteDevice(ctx, "bob", "one"))
	devices("bob")
	var ie *store.InvalidError
	if err := m.e.PutDevice(ctx, store.Device{}); !errors.As(err, &ie) || len(ie.Faults) != 3 {
		t.Errorf("an empty device: %v", err)
	}

	hook := store.Webhook{ID: 5, User: "ann", URL: "https://example.com/hook", Secret: "whsec_x", Created: clock}
	hooks := func(user store.UserID, want ...store.Webhook) {
		t.Helper()
		got, err := m.e.Webhooks(ctx, user)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("webhooks of %s: %v: %+v, want %+v", user, err, got, want)
		}
	}
	fine(m.e.PutWebhook(ctx, hook))
	fine(m.e.PutWebhook(ctx, hook))
	other := hook
	other.User = "bob"
	if err := m.e.PutWebhook(ctx, other); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("another's webhook: %v", err)
	}
	hooks("ann", hook)
	hooks("bob")
	hook.URL, hook.Disabled = "https://example.com/new", "410 Gone"
	fine(m.e.PutWebhook(ctx, hook))
	before := store.Webhook{ID: 4, User: "ann", URL: "https://example.com/4", Created: clock}
	fine(m.e.PutWebhook(ctx, before))
	hooks("ann", before, hook)
	fine(m.e.DeleteWebhook(ctx, "bob", 5))
	fine(m.e.DeleteWebhook(ctx, "ann", 4))
	hooks("ann", hook)
	if err := m.e.PutWebhook(ctx, store.Webhook{}); !errors.As(err, &ie) || len(ie.Faults) != 4 {
		t.Errorf("an empty webhook: %v", err)
	}

	settings := func(want store.Settings) {
		t.Helper()
		got, err := m.e.Settings(ctx, "ann")
		if err != nil || got.Language != want.Language || !slices.Equal(got.Channels, want.Channels) || (got.Channels == nil) != (want.Channels == nil) {
			t.Errorf("settings: %v: %#v, want %#v", err, got, want)
		}
	}
	settings(store.Settings{})
	for _, s := range []store.Settings{{Language: "ko", Channels: []string{"push", "webhook"}}, {Channels: []string{}}, {Language: "en"}} {
		fine(m.e.PutSettings(ctx, "ann", s))
		settings(s)
	}
	if err := m.e.PutSettings(ctx, "ann", store.Settings{Language: "fr"}); !errors.As(err, &ie) {
		t.Errorf("an unknown language: %v", err)
	}
}
