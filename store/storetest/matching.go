package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// testLife takes a job through its whole life, with all that can go wrong once.
func testLife(t *testing.T, m *market) {
	job := m.post(t, "rita", nil)
	want := aJob(job.ID)
	want.Source, want.SourceID, want.Requester, want.Version = "nearjob", job.ID.String(), "rita", 1
	if got := records(t, m.e, job.ID)[job.ID]; got != want || job != want {
		t.Errorf("posted\n%s\nstored\n%s\nwant\n%s", show(job), show(got), show(want))
	}
	ann, bob := m.apply(t, job.ID, "ann"), m.apply(t, job.ID, "bob")
	if a, err := m.e.Application(t.Context(), ann.ID); err != nil || a != ann || a.State != store.AppApplied || a.Message != "I am ann" || a.Version != 1 {
		t.Errorf("%v: %+v, want %+v", err, a, ann)
	}
	out := m.must(t, store.Command{Action: store.ActAccept, Application: ann.ID, By: "rita", IfVersion: 1})
	if out.Job.State != store.Matched || out.Job.Version != 2 || out.Application.State != store.AppAccepted || out.Event.Action != store.ActAccept {
		t.Errorf("accepted: %+v", out)
	}
	if a, err := m.e.ApplicationFor(t.Context(), job.ID, "bob"); err != nil || a.ID != bob.ID || a.State != store.AppDeclined || !a.MayReapply || a.Version != 2 {
		t.Errorf("bob's application, passed over: %v: %+v", err, a)
	}
	m.check(t)
	m.must(t,
		store.Command{Action: store.ActStart, Job: job.ID, By: "ann"},
		store.Command{Action: store.ActFinish, Job: job.ID, By: "ann"},
		store.Command{Action: store.ActRework, Job: job.ID, By: "rita", Reason: "The dog is still here."},
		store.Command{Action: store.ActFinish, Application: ann.ID, By: "ann"},
		store.Command{Action: store.ActReject, Job: job.ID, By: "rita", Reason: "Wrong dog."})
	m.check(t)
	bob = m.apply(t, job.ID, "bob")
	m.must(t,
		store.Command{Action: store.ActAccept, Application: bob.ID, By: "rita"},
		store.Command{Action: store.ActStart, Application: bob.ID, Job: job.ID, By: "bob"},
		store.Command{Action: store.ActResign, Job: job.ID, By: "bob", Reason: "ill"})
	cho := m.apply(t, job.ID, "cho")
	m.must(t,
		store.Command{Action: store.ActAccept, Application: cho.ID, By: "rita"},
		store.Command{Action: store.ActStart, Job: job.ID, By: "cho"},
		store.Command{Action: store.ActFinish, Job: job.ID, By: "cho"})
	out = m.must(t, store.Command{Action: store.ActConfirm, Job: job.ID, By: "rita"})
	if out.Job.State != store.Completed || out.Application.State != store.AppConfirmed || out.Application.Worker != "cho" {
		t.Errorf("confirmed: %+v", out)
	}
	const history = "post apply apply accept pass_over start finish rework finish reject reopen apply accept start resign reopen apply accept start finish confirm"
	events := m.events(t, job.ID)
	if got := line(events); got != history {
		t.Errorf("the history is\n%s, want\n%s", got, history)
	}
	if v := events[7]; v.Reason != "The dog is still here." || v.Actor != "rita" || v.Role != store.RoleRequester || v.Application != ann.ID {
		t.Errorf("the event of the rework: %+v", v)
	}
	if last := events[len(events)-1]; last != out.Event {
		t.Errorf("the last event is %+v, the outcome's %+v", last, out.Event)
	}
	// A cancellation that names the job by an application voids that one with the others.
	job = m.post(t, "rita", nil)
	ann = m.apply(t, job.ID, "ann")
	m.must(t, store.Command{Action: store.ActAccept, Application: ann.ID, By: "rita"},
		store.Command{Action: store.ActCancel, Application: ann.ID, By: "rita"})
	if a, err := m.e.Application(t.Context(), ann.ID); err != nil || a.State != store.AppCancelled {
		t.Errorf("the application of a cancelled job: %v: %+v", err, a)
	}
	m.check(t)
}

func testRefused(t *testing.T, m *market) {
	job, other := m.post(t, "rita", nil), m.post(t, "omar", nil)
	ann := m.apply(t, job.ID, "ann")
	imported := aJob(m.nextID())
	save(t, m.e, store.Saved{Added: 1}, imported)
	for _, c := range []struct {
		cmd  store.Command
		want error // nil: a TransitionError
	}{
		{store.Command{Action: store.ActApply, Job: job.ID, By: "rita"}, store.ErrForbidden},
		{store.Command{Action: store.ActCancel, Job: job.ID, By: "omar"}, store.ErrForbidden},
		{store.Command{Action: store.ActAccept, Application: ann.ID, By: "omar"}, store.ErrForbidden},
		{store.Command{Action: store.ActWithdraw, Application: ann.ID, By: "bob"}, store.ErrForbidden},
		{store.Command{Action: store.ActAccept, Application: ann.ID, Job: other.ID, By: "omar"}, store.ErrNotFound},
		{store.Command{Action: store.ActAccept, Application: 999, By: "rita"}, store.ErrNotFound},
		{store.Command{Action: store.ActApply, Job: 999, By: "ann"}, store.ErrNotFound},
		{store.Command{Action: store.ActApply, Job: job.ID, By: "ann"}, nil},
		{store.Command{Action: store.ActStart, Job: job.ID, By: "ann"}, nil},
		{store.Command{Action: store.ActStart, Job: job.ID, By: "bob"}, nil},
		{store.Command{Action: store.ActConfirm, Job: job.ID, By: "rita"}, nil},
		{store.Command{Action: store.ActApply, Job: imported.ID, By: "ann"}, nil},
		{store.Command{Action: store.ActApply, Job: job.ID, By: "bob", At: later(time.Hour)}, nil},
	} {
		_, err := m.act(t.Context(), c.cmd)
		var te *store.TransitionError
		if c.want == nil && !errors.As(err, &te) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s by %s: %v, want %v", c.cmd.Action, c.cmd.By, err, c.want)
		}
	}
	_, err := m.act(t.Context(), store.Command{Action: store.ActAccept, Application: ann.ID, By: "rita", IfVersion: 2})
	var ve *store.VersionError
	if !errors.As(err, &ve) || *ve != (store.VersionError{ID: ann.ID, Is: 1, Want: 2}) {
		t.Errorf("another version: %v", err)
	}
	var ie *store.InvalidError
	for _, c := range []store.Command{
		{Action: store.ActExpire, Job: job.ID, By: "rita"}, {Action: store.ActCancel, Job: job.ID}, {Action: store.ActPassOver, Application: ann.ID, By: "rita"},
	} {
		if _, err := m.act(t.Context(), c); !errors.As(err, &ie) {
			t.Errorf("%s by %q: %v, want an InvalidError", c.Action, c.By, err)
		}
	}
	again := aJob(job.ID)
	again.SourceID, again.Requester = "", "rita"
	if _, err := m.e.Post(t.Context(), again); !errors.Is(err, store.ErrDuplicate) {
		t.Errorf("an id posted twice: %v", err)
	}
	again.Requester = ""
	if _, err := m.e.Post(t.Context(), again); !errors.As(err, &ie) {
		t.Errorf("a post without a requester: %v", err)
	}
	if got := records(t, m.e, imported.ID)[imported.ID]; got != imported {
		t.Errorf("the imported job is %+v", got)
	}
	if n := len(m.events(t, job.ID)); n != 2 {
		t.Errorf("%d events, want 2: what is refused leaves none", n)
	}
}

func testEdit(t *testing.T, m *market) {
	job := m.post(t, "rita", nil)
	m.apply(t, job.ID, "ann")
	edit := func(by store.UserID, version int64, change func(*store.Job) error) (store.Outcome, error) {
		return m.e.Edit(t.Context(), store.Edit{Job: job.ID, By: by, IfVersion: version, At: clock, Change: change})
	}
	for i, change := range []func(*store.Job) error{
		func(j *store.Job) error { j.Title, j.Pay.Amount, j.Category = "Walk a cat", 990, "cats"; return nil },
		func(j *store.Job) error { j.At = geo.LatLng{Lat: -17, Lng: 180}; return nil },
		func(j *store.Job) error { j.Remote = true; return nil },
		func(j *store.Job) error {
			j.Remote, j.At, j.Expires = false, geo.LatLng{Lat: 1, Lng: 2}, time.Time{}
			return nil
		},
	} {
		want := job
		_ = change(&want)
		if want.Remote {
			want.At = geo.LatLng{}
		}
		want.Version++
		out, err := edit("rita", job.Version, change)
		if err != nil || out.Job != want || out.Event.Action != store.ActEdit || out.Event.Told != 1 {
			t.Fatalf("edit %d: %v: %+v, want %+v", i, err, out, want)
		}
		job = want
		if got := records(t, m.e, job.ID)[job.ID]; got != want {
			t.Errorf("edit %d: stored %+v, want %+v", i, got, want)
		}
		m.check(t)
	}
	same, err := edit("rita", 0, func(*store.Job) error { return nil })
	if err != nil || same.Job != job || same.Event.ID != 0 {
		t.Errorf("an edit that changes nothing: %v: %+v", err, same)
	}
	var ve *store.VersionError
	if _, err := edit("rita", 1, func(j *store.Job) error { j.Title = "x"; return nil }); !errors.As(err, &ve) {
		t.Errorf("an edit of an old version: %v", err)
	}
	if _, err := edit("omar", 0, func(j *store.Job) error { j.Title = "x"; return nil }); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("an edit by another: %v", err)
	}
	mine := fmt.Errorf("mine: %w", context.DeadlineExceeded)
	if _, err := edit("rita", 0, func(*store.Job) error { return mine }); err != mine {
		t.Errorf("%v, want the caller's own error as it is", err)
	}
	var ie *store.InvalidError
	if _, err := edit("rita", 0, func(j *store.Job) error { j.Title = ""; return nil }); !errors.As(err, &ie) {
		t.Errorf("an edit to what cannot be: %v", err)
	}
	m.must(t, store.Command{Action: store.ActCancel, Job: job.ID, By: "rita"})
	var te *store.TransitionError
	if _, err := edit("rita", 0, func(j *store.Job) error { j.Title = "x"; return nil }); !errors.As(err, &te) {
		t.Errorf("an edit of a cancelled job: %v", err)
	}
	m.check(t)
}

// testReapply holds who may apply again, and who may not.
func testReapply(t *testing.T, m *market) {
	job := m.post(t, "rita", nil)
	first := m.apply(t, job.ID, "ann")
	m.must(t, store.Command{Action: store.ActWithdraw, Job: job.ID, By: "ann"})
	second := m.must(t, store.Command{Action: store.ActApply, Job: job.ID, By: "ann", Message: "Again!"}).Application
	if second.ID != first.ID || second.Version != 3 || second.Message != "Again!" || !second.Created.Equal(first.Created) {
		t.Errorf("applied again: %+v, at first %+v", second, first)
	}
	m.must(t, store.Command{Action: store.ActDecline, Application: second.ID, By: "rita", Reason: "no"})
	again := func(who store.UserID, want bool) {
		t.Helper()
		_, err := m.act(t.Context(), store.Command{Action: store.ActApply, Job: job.ID, By: who})
		if refused(err) != nil || (err == nil) != want {
			t.Errorf("%s applies again: %v, want %v", who, err, want)
		}
	}
	again("ann", false) // declined by the requester
	bob, cho := m.apply(t, job.ID, "bob"), m.apply(t, job.ID, "cho")
	m.must(t, store.Command{Action: store.ActAccept, Application: bob.ID, By: "rita"})
	again("cho", false) // the job is not open
	m.must(t, store.Command{Action: store.ActResign, Job: job.ID, By: "bob"})
	again("bob", false) // resigned
	again("cho", true)  // passed over
	m.must(t, store.Command{Action: store.ActAccept, Application: cho.ID, By: "rita"},
		store.Command{Action: store.ActStart, Job: job.ID, By: "cho"}, store.Command{Action: store.ActFinish, Job: job.ID, By: "cho"},
		store.Command{Action: store.ActReject, Job: job.ID, By: "rita", Reason: "no"})
	again("cho", false) // rejected
	m.check(t)
}

func testExpire(t *testing.T, m *market) {
	late := m.post(t, "rita", nil)
	m.apply(t, late.ID, "ann")
	never := m.post(t, "rita", func(j *store.Job) { j.Expires = time.Time{} })
	taken := m.post(t, "rita", nil)
	m.must(t, store.Command{Action: store.ActAccept, Application: m.apply(t, taken.ID, "ann").ID, By: "rita"})
	remote := m.post(t, "omar", func(j *store.Job) { j.Remote, j.At = true, geo.LatLng{} })
	imported := aJob(m.nextID())
	save(t, m.e, store.Saved{Added: 1}, imported)
	sweep := func(at time.Time, limit, want int) {
		t.Helper()
		if n, err := m.e.Expire(t.Context(), at, limit); err != nil || n != want {
			t.Errorf("the sweep at %v marked %d, %v, want %d", at, n, err, want)
		}
	}
	sweep(later(time.Hour-time.Millisecond), 10, 0)
	sweep(later(time.Hour), 1, 1)
	sweep(later(time.Hour), 10, 1)
	sweep(later(time.Hour), 10, 0)
	// What falls through after its time is not open again.
	out := m.must(t, store.Command{Action: store.ActResign, Job: taken.ID, By: "ann", At: later(2 * time.Hour)})
	if out.Job.State != store.Expired {
		t.Errorf("a match that fell through too late is %s", out.Job.State)
	}
	got := records(t, m.e, late.ID, never.ID, remote.ID, imported.ID)
	for id, want := range map[store.ID]store.State{late.ID: store.Expired, never.ID: store.Open, remote.ID: store.Expired, imported.ID: store.Open} {
		if got[id].State != want {
			t.Errorf("job %s is %s, want %s", id, got[id].State, want)
		}
	}
	if a, err := m.e.ApplicationFor(t.Context(), late.ID, "ann"); err != nil || a.State != store.AppCancelled {
		t.Errorf("the application for the expired job: %v: %+v", err, a)
	}
	m.check(t)

	// Several nodes that sweep at once mark each job once.
	for range 30 {
		m.post(t, "rita", nil)
	}
	var marked atomic.Int64
	each(t, 4, func(int) error {
		n, err := whileBusy(func() (int, error) { return m.e.Expire(t.Context(), later(time.Hour), 100) })
		marked.Add(int64(n))
		return err
	})
	if marked.Load() != 30 {
		t.Errorf("%d were marked, want 30", marked.Load())
	}
}

// testSearchFollows: a job vanishes from every search with its match, and comes
// back when that falls through.
func testSearchFollows(t *testing.T, m *market) {
	finder := search.New(m.e, func() time.Time { return clock })
	job := m.post(t, "rita", nil)
	remote := m.post(t, "rita", func(j *store.Job) { j.Remote, j.At = true, geo.LatLng{} })
	stays := m.post(t, "rita", nil)
	found := func(want ...store.ID) {
		t.Helper()
		for _, s := range search.Strategies() {
			q := store.Query{Center: job.At, Radius: 1000, Strategy: s.Name(), Filter: store.Filter{Remote: store.RemoteInclude}}
			p, err := finder.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			var got []store.ID
			for _, f := range p.Jobs {
				got = append(got, f.Job.ID)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s finds %v, want %v", s.Name(), got, want)
			}
		}
	}
	found(job.ID, remote.ID, stays.ID)
	for _, id := range []store.ID{job.ID, remote.ID} {
		m.must(t, store.Command{Action: store.ActAccept, Application: m.apply(t, id, "ann").ID, By: "rita"})
	}
	found(stays.ID)
	for _, id := range []store.ID{job.ID, remote.ID} {
		m.must(t, store.Command{Action: store.ActResign, Job: id, By: "ann"})
	}
	found(job.ID, remote.ID, stays.ID)
	m.must(t, store.Command{Action: store.ActCancel, Job: job.ID, By: "rita"})
	found(remote.ID, stays.ID)
	m.check(t)
}

func testLists(t *testing.T, m *market) {
	var mine []store.ID
	var first store.Job
	for i := range 7 {
		j := m.post(t, "rita", nil)
		if i == 0 {
			first = j
		}
		mine = append(mine, j.ID)
		m.post(t, "omar", nil)
	}
	slices.Reverse(mine)
	var apps, anns []store.ID
	for i := range 5 {
		apps = append(apps, m.apply(t, first.ID, store.UserID(fmt.Sprint("worker ", i))).ID)
	}
	for _, id := range mine {
		anns = append(anns, m.apply(t, id, "ann").ID)
	}
	apps = append(apps, anns[len(anns)-1])
	slices.Reverse(anns)
	for _, limit := range []int{1, 2, 3, 7, 1000} {
		pages := func(what string, want []store.ID, page func(store.Keys) ([]store.ID, error)) {
			t.Helper()
			var got []store.ID
			k := store.Keys{Limit: limit}
			for {
				some, err := page(k)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				got = append(got, some...)
				if len(some) < limit {
					break
				}
				k.After = int64(some[len(some)-1])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %v, want %v", what, limit, got, want)
			}
		}
		jobID := func(j store.Job) store.ID { return j.ID }
		appID := func(a store.Application) store.ID { return a.ID }
		pages("MyJobs", mine, func(k store.Keys) ([]store.ID, error) { return ids(jobID)(m.e.MyJobs(t.Context(), "rita", k)) })
		pages("ApplicationsOf", apps, func(k store.Keys) ([]store.ID, error) {
			return ids(appID)(m.e.ApplicationsOf(t.Context(), first.ID, k))
		})
		pages("MyApplications", anns, func(k store.Keys) ([]store.ID, error) {
			return ids(appID)(m.e.MyApplications(t.Context(), "ann", k))
		})
		pages("Events", []store.ID{1, 2, 3, 4, 5, 6, 7}, func(k store.Keys) ([]store.ID, error) {
			return ids(func(v store.Event) store.ID { return store.ID(v.Seq) })(m.e.Events(t.Context(), first.ID, k))
		})
		pages("nobody's jobs", nil, func(k store.Keys) ([]store.ID, error) { return ids(jobID)(m.e.MyJobs(t.Context(), "", k)) })
	}
	var ie *store.InvalidError
	for _, k := range []store.Keys{{}, {Limit: store.MaxKeys + 1}, {Limit: 1, After: -1}} {
		if _, err := m.e.MyJobs(t.Context(), "rita", k); !errors.As(err, &ie) {
			t.Errorf("%+v: %v, want an InvalidError", k, err)
		}
	}
	if _, err := m.e.Application(t.Context(), 1<<60); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an application that there is not: %v", err)
	}
	if _, err := m.e.ApplicationFor(t.Context(), first.ID, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an application that there is not: %v", err)
	}
	m.check(t)
}

// ids turns the answer of a list into the ids of its entries.
func ids[T any](id func(T) store.ID) func([]T, error) ([]store.ID, error) {
	return func(list []T, err error) ([]store.ID, error) {
		var got []store.ID
		for _, v := range list {
			got = append(got, id(v))
		}
		return got, err
	}
}

// testAcceptOnce fires 1,000 accepts from 64 goroutines at one job.
func testAcceptOnce(t *testing.T, m *market) {
	const accepts, goroutines, applicants = 1000, 64, 100
	job := m.post(t, "rita", nil)
	var apps []store.Application
	for i := range applicants {
		apps = append(apps, m.apply(t, job.ID, store.UserID(fmt.Sprint("worker ", i))))
	}
	var next, won, lost atomic.Int64
	var winner atomic.Int64
	each(t, goroutines, func(int) error {
		for {
			n := next.Add(1) - 1
			if n >= accepts {
				return nil
			}
			app := apps[n%applicants]
			out, err := m.act(t.Context(), store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"})
			if err == nil {
				won.Add(1)
				winner.Store(int64(out.Application.ID))
				continue
			}
			if err := refused(err); err != nil {
				return err
			}
			lost.Add(1)
		}
	})
	if won.Load() != 1 || lost.Load() != accepts-1 {
		t.Errorf("%d accepts won and %d lost, want 1 and %d", won.Load(), lost.Load(), accepts-1)
	}
	for _, a := range m.applications(t, job.ID) {
		if want := a.ID == store.ID(winner.Load()); (a.State == store.AppAccepted) != want {
			t.Errorf("application %s is %s, %d has won", a.ID, a.State, winner.Load())
		}
	}
	m.check(t)
}

// testRaces fires pairs of actions that exclude or follow each other at once, and
// holds that they happened one after the other.
func testRaces(t *testing.T, m *market) {
	rounds := 25
	if testing.Short() {
		rounds = 8
	}
	for _, race := range []struct {
		name string
		// prepare returns the two rivals; ok says whether their ends agree.
		prepare func(job store.Job) (a, b func() error)
		ok      func(a, b error, job store.State) bool
	}{
		{"accept against withdraw", func(job store.Job) (a, b func() error) {
			app := m.apply(t, job.ID, "ann")
			return m.doing(t, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"}),
				m.doing(t, store.Command{Action: store.ActWithdraw, Job: job.ID, By: "ann"})
		}, func(a, b error, job store.State) bool {
			return a == nil && b != nil && job == store.Matched || a != nil && b == nil && job == store.Open
		}},
		{"cancel against start", func(job store.Job) (a, b func() error) {
			m.must(t, store.Command{Action: store.ActAccept, Application: m.apply(t, job.ID, "ann").ID, By: "rita"})
			return m.doing(t, store.Command{Action: store.ActCancel, Job: job.ID, By: "rita"}),
				m.doing(t, store.Command{Action: store.ActStart, Job: job.ID, By: "ann"})
		}, func(a, _ error, job store.State) bool { return a == nil && job == store.Cancelled }},
		{"expire against apply", func(job store.Job) (a, b func() error) {
			return func() error {
					_, err := whileBusy(func() (int, error) { return m.e.Expire(t.Context(), job.Expires, 100) })
					return err
				},
				m.doing(t, store.Command{Action: store.ActApply, Job: job.ID, By: "ann", At: job.Expires.Add(-time.Millisecond)})
		}, func(a, _ error, job store.State) bool { return a == nil && job == store.Expired }},
		{"edit against accept", func(job store.Job) (a, b func() error) {
			app := m.apply(t, job.ID, "ann")
			return func() error {
					_, err := whileBusy(func() (store.Outcome, error) {
						return m.e.Edit(t.Context(), store.Edit{Job: job.ID, By: "rita", At: clock, Change: func(j *store.Job) error {
							j.Title, j.At = "Walk two dogs", geo.LatLng{Lat: 10, Lng: 20}
							return nil
						}})
					})
					return err
				},
				m.doing(t, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"})
		}, func(_, b error, job store.State) bool { return b == nil && job == store.Matched }},
		{"edit against edit of one version", func(job store.Job) (a, b func() error) {
			edit := func(title string) func() error {
				return func() error {
					_, err := whileBusy(func() (store.Outcome, error) {
						return m.e.Edit(t.Context(), store.Edit{Job: job.ID, By: "rita", At: clock, IfVersion: 1,
							Change: func(j *store.Job) error { j.Title = title; return nil }})
					})
					return err
				}
			}
			return edit("one"), edit("two")
		}, func(a, b error, job store.State) bool { return (a == nil) != (b == nil) && job == store.Open }},
		{"apply against apply of one worker", func(job store.Job) (a, b func() error) {
			return m.doing(t, store.Command{Action: store.ActApply, Job: job.ID, By: "ann"}), m.doing(t, store.Command{Action: store.ActApply, Job: job.ID, By: "ann"})
		}, func(a, b error, job store.State) bool { return (a == nil) != (b == nil) && job == store.Open }},
	} {
		t.Run(race.name, func(t *testing.T) {
			for round := range rounds {
				job := m.post(t, "rita", nil)
				rivals := make([]func() error, 2)
				rivals[0], rivals[1] = race.prepare(job)
				var errs [2]error
				var wg sync.WaitGroup
				for i := range rivals {
					wg.Go(func() { errs[i] = rivals[i]() })
				}
				wg.Wait()
				for i, err := range errs {
					var ve *store.VersionError
					if refused(err) != nil && !errors.As(err, &ve) {
						t.Fatalf("round %d: rival %d: %v", round, i, err)
					}
				}
				if now := records(t, m.e, job.ID)[job.ID]; !race.ok(errs[0], errs[1], now.State) {
					t.Fatalf("round %d: %v and %v, and the job is %s", round, errs[0], errs[1], now.State)
				}
			}
			m.check(t)
		})
	}
}

// doing returns what does a command.
func (m *market) doing(t *testing.T, c store.Command) func() error {
	return func() error { _, err := m.act(t.Context(), c); return err }
}

// testWalks lets many users do what they like at the same few jobs.
func testWalks(t *testing.T, m *market) {
	goroutines, steps := 8, 150
	if testing.Short() {
		steps = 40
	}
	users := []store.UserID{"ann", "bob", "cho", "dee", "rita", "omar"}
	const jobs = 6
	for i := range jobs {
		m.post(t, users[4+i%2], nil)
	}
	var actions []store.Action
	for _, tr := range store.Transitions() {
		if tr.Actor != store.RoleSystem && tr.Action != store.ActPost && tr.Action != store.ActEdit {
			actions = append(actions, tr.Action)
		}
	}
	// A cancelled job is at rest; there are enough of the others.
	weights := func(r *rand.Rand) store.Action {
		for {
			if a := actions[r.IntN(len(actions))]; a != store.ActCancel || r.IntN(20) == 0 {
				return a
			}
		}
	}
	var done, refusals, posted atomic.Int64
	s := seed(t)
	each(t, goroutines, func(g int) error {
		r := rand.New(rand.NewPCG(s, 300+uint64(g)))
		for step := range steps {
			job := store.ID(1 + r.IntN(int(m.last.Load())))
			by := users[r.IntN(len(users))]
			var err error
			switch r.IntN(12) {
			case 0:
				_, err = whileBusy(func() (store.Outcome, error) {
					return m.e.Edit(t.Context(), store.Edit{Job: job, By: by, At: clock, Change: func(j *store.Job) error {
						j.Title, j.At = fmt.Sprintf("by %d in step %d", g, step), anywhere(r)
						j.Remote = r.IntN(5) == 0
						return nil
					}})
				})
			case 1:
				if r.IntN(6) == 0 {
					j := aJob(m.nextID())
					j.SourceID, j.Source, j.Requester = "", "", by
					_, err = whileBusy(func() (store.Outcome, error) { return m.e.Post(t.Context(), j) })
					posted.Add(1)
				}
			default:
				c := store.Command{Action: weights(r), Job: job, By: by, Reason: "so", At: clock}
				if c.Action == store.ActAccept || c.Action == store.ActDecline {
					apps, aerr := m.e.ApplicationsOf(t.Context(), job, store.Keys{Limit: 10})
					if aerr != nil {
						return aerr
					}
					if len(apps) == 0 {
						continue
					}
					c.Application = apps[r.IntN(len(apps))].ID
				}
				_, err = m.act(t.Context(), c)
			}
			switch {
			case err == nil:
				done.Add(1)
			case errors.Is(err, store.ErrForbidden), errors.Is(err, store.ErrNotFound): // a post may still be under way
			case refused(err) != nil:
				return err
			default:
				refusals.Add(1)
			}
		}
		return nil
	})
	if done.Load() == 0 || refusals.Load() == 0 {
		t.Errorf("%d actions done, %d refused: this shows nothing", done.Load(), refusals.Load())
	}
	t.Logf("%d actions done, %d refused, %d jobs posted", done.Load(), refusals.Load(), posted.Load())
	m.check(t)
}

// testMarketCancelled: a context that has ended ends a call, and nothing is done.
func testMarketCancelled(t *testing.T, m *market) {
	job := m.post(t, "rita", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Post": func() error {
			j := aJob(77)
			j.Requester = "rita"
			_, err := m.e.Post(ctx, j)
			return err
		},
		"Act": func() error {
			_, err := m.e.Act(ctx, store.Command{Action: store.ActApply, Job: job.ID, By: "ann", At: clock})
			return err
		},
		"Expire": func() error { _, err := m.e.Expire(ctx, later(time.Hour), 1); return err },
		"MyJobs": func() error { _, err := m.e.MyJobs(ctx, "rita", store.Keys{Limit: 1}); return err },
		"Claim":  func() error { _, err := m.e.Claim(ctx, "n", 1, time.Minute, clock); return err },
		"Depth":  func() error { _, err := m.e.Depth(ctx); return err },
		"Begin": func() error {
			_, err := m.e.Begin(ctx, store.OperationKey{}, [32]byte{}, clock, time.Minute)
			return err
		},
		"Settings": func() error { _, err := m.e.Settings(ctx, "rita"); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the context's error", name, err)
		}
	}
	m.check(t)
}
