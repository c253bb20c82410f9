package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Venue is an engine that does the matching too.
type Venue interface {
	store.Engine
	store.Market
}

// Market holds an engine to the promises of [store.Market]: the lifecycle with
// many users at once, the messages, the answers to requests, and the users'
// subscriptions. open is that of [Conformance].
func Market(t *testing.T, open func(t *testing.T) Venue) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *market)
	}{
		{"Life", testLife}, {"Refused", testRefused}, {"Edit", testEdit}, {"Reapply", testReapply}, {"Expire", testExpire},
		{"Search", testSearchFollows}, {"Lists", testLists}, {"AcceptOnce", testAcceptOnce}, {"Races", testRaces}, {"Walks", testWalks},
		{"Outbox", testOutbox}, {"OutboxNodes", testOutboxNodes}, {"OutboxAdmin", testOutboxAdmin},
		{"Answers", testAnswers}, {"AnswersOnce", testAnswersOnce}, {"Subscriptions", testSubscriptions}, {"MarketCancelled", testMarketCancelled},
	} {
		t.Run(part.name, func(t *testing.T) {
			e := open(t)
			if err := e.Migrate(t.Context()); err != nil {
				t.Fatalf("Migrate: %v", err)
			}
			part.test(t, &market{e: e})
		})
	}
}

// MarketNodes lets several nodes on one database, whose schema is not made yet,
// accept the applicants of one job and hand out its messages at once.
func MarketNodes(t *testing.T, nodes []Venue) {
	t.Helper()
	if len(nodes) < 2 {
		t.Fatalf("%d nodes, want 2 or more", len(nodes))
	}
	m := &market{e: nodes[0]}
	if err := m.e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		job := m.post(t, "rita", nil)
		var apps []store.Application
		for i := range 2 * len(nodes) {
			apps = append(apps, m.apply(t, job.ID, store.UserID(fmt.Sprint("worker ", i))))
		}
		var won atomic.Int64
		each(t, len(apps), func(i int) error {
			node := &market{e: nodes[i%len(nodes)]}
			_, err := node.act(t.Context(), store.Command{Action: store.ActAccept, Application: apps[i].ID, By: "rita"})
			if err == nil {
				won.Add(1)
			}
			return refused(err)
		})
		if won.Load() != 1 {
			t.Errorf("round %d: %d accepts won, want 1", round, won.Load())
		}
	}
	var held sync.Map
	each(t, len(nodes), func(n int) error {
		got, err := whileBusy(func() ([]store.Message, error) {
			return nodes[n].Claim(t.Context(), fmt.Sprint("node ", n), 2, time.Minute, clock)
		})
		for _, msg := range got {
			if other, twice := held.LoadOrStore(msg.ID, n); twice {
				t.Errorf("nodes %v and %d hold message %s", other, n, msg.ID)
			}
		}
		return err
	})
	m.check(t)
}

// market is an engine with the jobs that a test has posted on it.
type market struct {
	e    Venue
	last atomic.Int64 // id
}

func (m *market) nextID() store.ID { return store.ID(m.last.Add(1)) }

// post posts a job of a requester, open for an hour from clock.
func (m *market) post(t *testing.T, by store.UserID, change func(*store.Job)) store.Job {
	t.Helper()
	j := aJob(m.nextID())
	j.Source, j.SourceID, j.Requester = "", "", by
	if change != nil {
		change(&j)
	}
	out, err := m.e.Post(t.Context(), j)
	if err != nil {
		t.Fatalf("Post: %v", err)
	}
	return out.Job
}

// act does an action, again while the database is busy.
func (m *market) act(ctx context.Context, c store.Command) (store.Outcome, error) {
	if c.At.IsZero() {
		c.At = clock
	}
	return whileBusy(func() (store.Outcome, error) { return m.e.Act(ctx, c) })
}

// must does actions that are to succeed, and returns the last outcome.
func (m *market) must(t *testing.T, commands ...store.Command) (out store.Outcome) {
	t.Helper()
	for _, c := range commands {
		var err error
		if out, err = m.act(t.Context(), c); err != nil {
			t.Fatalf("%s by %s: %v", c.Action, c.By, err)
		}
	}
	return out
}

// apply applies for a job and returns the application.
func (m *market) apply(t *testing.T, job store.ID, by store.UserID) store.Application {
	t.Helper()
	return m.must(t, store.Command{Action: store.ActApply, Job: job, By: by, Message: "I am " + string(by)}).Application
}

// refused fails unless an action is refused for where things stand.
func refused(err error) error {
	var te *store.TransitionError
	if err == nil || errors.As(err, &te) {
		return nil
	}
	return err
}

// wholeList reads a list to its end.
func wholeList[T any](t *testing.T, key func(T) int64, list func(context.Context, store.Keys) ([]T, error)) []T {
	t.Helper()
	var whole []T
	k := store.Keys{Limit: 100}
	for {
		some, err := list(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, some...)
		if len(some) < k.Limit {
			return whole
		}
		k.After = key(some[len(some)-1])
	}
}

func (m *market) applications(t *testing.T, job store.ID) []store.Application {
	return wholeList(t, func(a store.Application) int64 { return int64(a.ID) }, func(ctx context.Context, k store.Keys) ([]store.Application, error) {
		return m.e.ApplicationsOf(ctx, job, k)
	})
}

func (m *market) events(t *testing.T, job store.ID) []store.Event {
	return wholeList(t, func(v store.Event) int64 { return v.Seq }, func(ctx context.Context, k store.Keys) ([]store.Event, error) {
		return m.e.Events(ctx, job, k)
	})
}

// messages returns the messages in all states by event.
func (m *market) messages(t *testing.T) map[store.ID][]store.Message {
	byEvent := map[store.ID][]store.Message{}
	for _, s := range []store.MessageState{store.Pending, store.Delivered, store.Dead} {
		for _, msg := range wholeList(t, func(m store.Message) int64 { return int64(m.ID) }, func(ctx context.Context, k store.Keys) ([]store.Message, error) {
			return m.e.List(ctx, s, k)
		}) {
			byEvent[msg.Event] = append(byEvent[msg.Event], msg)
		}
	}
	return byEvent
}

// check is [CheckMarket] of the jobs that were posted.
func (m *market) check(t *testing.T) {
	t.Helper()
	var ids []store.ID
	for id := store.ID(1); id <= store.ID(m.last.Load()); id++ {
		ids = append(ids, id)
	}
	CheckMarket(t, m.e, ids)
}

// CheckMarket fails the test unless these things hold over what is stored of the jobs, which
// must be all there are:
//
//   - a job is in a search table if and only if it is open;
//   - exactly one application holds a job that is taken, none holds another;
//   - the events of a job are numbered without a gap, each begins where the one
//     before ended, for the job and for each application, each is a step of the
//     lifecycle's table, and the last one ends where things stand;
//   - the versions of the job and of the applications count their changes;
//   - who is to be told of an event has one message of it, and nobody else, and
//     the ids of a job's messages grow along its history.
func CheckMarket(t *testing.T, e Venue, ids []store.ID) {
	t.Helper()
	m := &market{e: e}
	jobs := records(t, m.e, ids...)
	var list []store.Job
	for _, j := range jobs {
		list = append(list, j)
	}
	checkSearchTables(t, m.e, list)
	messages := m.messages(t)
	events := 0
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if jobs[id].Requester == "" {
			continue // imported: it has no history
		}
		h := history{job: jobs[id], apps: m.applications(t, id), events: m.events(t, id), messages: messages}
		for _, fault := range h.faults() {
			t.Errorf("job %s: %s", id, fault)
		}
		for _, v := range h.events {
			events++
			delete(messages, v.ID)
		}
	}
	if events == 0 {
		t.Error("nothing has happened")
	}
	for event, ms := range messages {
		t.Errorf("%d messages of event %s, which did not happen", len(ms), event)
	}
}

// history is all that is stored of a job.
type history struct {
	job      store.Job
	apps     []store.Application
	events   []store.Event
	messages map[store.ID][]store.Message // by event
}

// appNow is an application as the history has it at some point.
type appNow struct {
	worker   store.UserID
	state    store.ApplicationState
	reapply  bool
	versions int64
}

func (h *history) faults() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	now := map[store.ID]*appNow{}
	for _, a := range h.apps {
		if now[a.ID] != nil {
			fault("application %s comes twice", a.ID)
		}
		now[a.ID] = &appNow{worker: a.Worker}
	}
	workers := map[store.UserID]bool{}
	held := 0
	for _, a := range h.apps {
		if workers[a.Worker] {
			fault("%s has two applications", a.Worker)
		}
		workers[a.Worker] = true
		if a.State.Holds() {
			held++
		}
		if a.Job != h.job.ID || a.Worker == h.job.Requester {
			fault("application %+v", a)
		}
	}
	if want := map[bool]int{true: 1}[h.job.State.Taken()]; held != want {
		fault("is %s and held by %d applications, want %d", h.job.State, held, want)
	}
	state, versions := store.State(""), int64(0)
	lastMessage := store.ID(0)
	for i, v := range h.events {
		where := fmt.Sprintf("event %d, %s", i+1, v.Action)
		if v.Seq != int64(i+1) || v.Job != h.job.ID {
			fault("%s has number %d of job %s", where, v.Seq, v.Job)
		}
		if v.FromJob != state {
			fault("%s begins at %q, the one before ended at %q", where, v.FromJob, state)
		}
		if !inTable(&v) {
			fault("%s is no step of the table: %+v", where, v)
		}
		if v.FromJob != v.ToJob || v.Action == store.ActEdit {
			versions++
		}
		state = v.ToJob
		app := now[v.Application]
		switch {
		case app != nil:
			if v.FromApp != app.state {
				fault("%s begins at application %q, which was %q", where, v.FromApp, app.state)
			}
			app.state = v.ToApp
			app.reapply = v.Action == store.ActWithdraw || v.Action == store.ActPassOver
			app.versions++
		case v.Application != 0:
			fault("%s is about application %s, which there is not", where, v.Application)
		}
		want := audience(&v, h.job.Requester, now)
		var got []string
		for _, m := range h.messages[v.ID] {
			got = append(got, string(m.Recipient))
			if m.Job != h.job.ID || m.Action != v.Action || m.JobState != v.ToJob || m.Actor != v.Actor || !m.At.Equal(v.At) ||
				(m.Role == store.RoleRequester) != (m.Recipient == h.job.Requester) || m.Title == "" {
				fault("%s: message %+v", where, m)
			}
			if m.ID <= lastMessage {
				fault("%s: message %s comes after %s", where, m.ID, lastMessage)
			}
		}
		for _, m := range h.messages[v.ID] {
			lastMessage = max(lastMessage, m.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || v.Told != len(got) {
			fault("%s tells %v, want %v; the event says %d", where, got, want, v.Told)
		}
	}
	if state != h.job.State || versions != h.job.Version {
		fault("is %s at version %d, its history ends at %s with %d changes", h.job.State, h.job.Version, state, versions)
	}
	for _, a := range h.apps {
		if n := now[a.ID]; n.state != a.State || n.versions != a.Version || n.reapply != a.MayReapply {
			fault("application %+v, its history says %+v", a, *n)
		}
	}
	return faults
}

// inTable reports whether an event is a step of the lifecycle's table.
func inTable(v *store.Event) bool {
	for _, tr := range store.Transitions() {
		if c := tr.Others; c != nil && c.Action == v.Action && v.Role == store.RoleSystem && v.Actor == "" &&
			v.FromJob == v.ToJob && slices.Contains(c.From, v.FromApp) && v.ToApp == c.To {
			return true
		}
		if tr.Action != v.Action || tr.Actor != v.Role || (v.Actor == "") != (v.Role == store.RoleSystem) {
			continue
		}
		if v.Action == store.ActReopen {
			return v.FromJob == store.Open && v.ToJob == store.Open && v.Application == 0
		}
		for _, s := range tr.Steps {
			// What falls through after its time is expired.
			late := s.ToJob == store.Open && s.Job.Taken() && v.ToJob == store.Expired
			if s.Job == v.FromJob && (s.ToJob == v.ToJob || late) && s.App == v.FromApp && s.ToApp == v.ToApp {
				return true
			}
		}
	}
	return false
}

// audience is who must be told of an event, written down apart from the table.
// apps are the applications right after it.
func audience(v *store.Event, requester store.UserID, apps map[store.ID]*appNow) (who []string) {
	workers := func(pass func(*appNow) bool) {
		for _, a := range apps {
			if pass(a) {
				who = append(who, string(a.worker))
			}
		}
	}
	switch v.Action {
	case store.ActApply, store.ActWithdraw, store.ActStart, store.ActFinish, store.ActResign, store.ActExpire:
		who = append(who, string(requester))
	case store.ActAccept, store.ActDecline, store.ActConfirm, store.ActRework, store.ActReject, store.ActPassOver, store.ActVoid:
		if a := apps[v.Application]; a != nil {
			who = append(who, string(a.worker))
		}
	case store.ActEdit:
		workers(func(a *appNow) bool { return a.state == store.AppApplied })
	case store.ActReopen:
		workers(func(a *appNow) bool { return a.state == store.AppDeclined && a.reapply })
	}
	return who
}

// line prints a job's events for comparison.
func line(events []store.Event) string {
	var parts []string
	for _, v := range events {
		parts = append(parts, string(v.Action))
	}
	return strings.Join(parts, " ")
}

// later is a time of the tests that the jobs of post have not reached.
func later(d time.Duration) time.Time { return clock.Add(d) }
