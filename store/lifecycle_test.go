package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func postedJob() Job {
	return Job{ID: 1, Source: "nearjob", SourceID: "1", Title: "Walk a dog", At: geo.LatLng{Lat: 37.5, Lng: 127},
		State: Open, Posted: noon.Add(-time.Hour), Expires: noon.Add(time.Hour), Requester: "rita", Version: 1}
}

// allowed is the lifecycle written down a second time, by hand: who, what, from
// which states of the job and the application, to which. "-" is no application,
// "*" any; "again" in brackets asks for MayReapply.
const allowed = `
requester edit    open            *         -> open            *
worker    apply   open            -         -> open            applied
worker    apply   open            withdrawn [again] -> open    applied
worker    apply   open            declined  [again] -> open    applied
worker    withdraw open           applied   -> open            withdrawn
requester accept  open            applied   -> matched         accepted
requester decline open            applied   -> open            declined
worker    start   matched         accepted  -> in_progress     started
worker    finish  in_progress     started   -> finish_reported finished
requester confirm finish_reported finished  -> completed       confirmed
requester rework  finish_reported finished  -> in_progress     started
requester reject  finish_reported finished  -> open            rejected
requester cancel  open            *         -> cancelled       *
requester cancel  matched         *         -> cancelled       *
requester cancel  in_progress     *         -> cancelled       *
requester cancel  finish_reported *         -> cancelled       *
worker    resign  matched         accepted  -> open            withdrawn
worker    resign  in_progress     started   -> open            withdrawn
worker    resign  finish_reported finished  -> open            withdrawn
system    expire  open            *         -> expired         *
`

type expected struct{ job, app string }

// expectations returns allowed by "role action job app again".
func expectations(t *testing.T) map[string]expected {
	t.Helper()
	all := map[string]expected{}
	for line := range strings.Lines(strings.TrimSpace(allowed)) {
		from, to, _ := strings.Cut(line, "->")
		f, w := strings.Fields(from), strings.Fields(to)
		agains := []bool{false, true}
		if len(f) == 5 {
			agains = []bool{true}
		}
		apps := []string{f[3]}
		if f[3] == "*" {
			apps = []string{"-"}
			for _, s := range ApplicationStates() {
				apps = append(apps, string(s))
			}
		}
		for _, app := range apps {
			for _, again := range agains {
				all[fmt.Sprint(f[0], f[1], f[2], app, again)] = expected{w[0], w[1]}
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d expectations", len(all))
	}
	return all
}

// TestEveryTransition walks every action by every actor from every pair of
// states.
func TestEveryTransition(t *testing.T) {
	want := expectations(t)
	seen := map[string]bool{}
	actors := map[string]UserID{"requester": "rita", "worker": "will", "stranger": "sam", "system": ""}
	n := 0
	for _, action := range Transitions() {
		for _, js := range States() {
			for _, as := range append([]ApplicationState{""}, ApplicationStates()...) {
				for _, again := range []bool{false, true} {
					for actor, by := range actors {
						n++
						job := postedJob()
						job.State = js
						var app *Application
						if as != "" {
							app = &Application{ID: 2, Job: 1, Worker: "will", State: as, MayReapply: again, Version: 3}
						}
						at := noon
						if action.Action == ActExpire {
							at = job.Expires
						}
						name := string(as)
						if as == "" {
							name = "-"
						}
						key := fmt.Sprint(actor, string(action.Action), string(js), name, again)
						w, ok := want[key]
						if actor == "stranger" && action.Action == ActApply && as == "" {
							// A stranger without an application is a worker who applies.
							w, ok = want[fmt.Sprint("worker", string(action.Action), string(js), name, again)]
						}
						d, err := Decide(Command{Action: action.Action, Job: 1, By: by, At: at, Reason: "why"}, job, app)
						switch {
						case ok && err != nil:
							t.Errorf("%s: %v", key, err)
						case !ok && err == nil:
							t.Errorf("%s: is allowed", key)
						case ok:
							seen[key] = true
							if d.job.State != State(w.job) || w.app != "*" && d.app.State != ApplicationState(w.app) {
								t.Errorf("%s: leads to %s, %+v, want %s, %s", key, d.job.State, d.app, w.job, w.app)
							}
						default:
							checkRefusal(t, key, err, action, actor, js, as, again)
						}
					}
				}
			}
		}
	}
	if n != len(Transitions())*7*10*2*4 {
		t.Errorf("%d cases", n)
	}
	for key := range want {
		if !seen[key] {
			t.Errorf("%s: never allowed", key)
		}
	}
}

// checkRefusal checks that the error says whose fault it is and what can be done.
func checkRefusal(t *testing.T, key string, err error, tr Transition, actor string, js State, as ApplicationState, again bool) {
	t.Helper()
	var te *TransitionError
	var ie *InvalidError
	notMine := string(tr.Actor) != actor && !(tr.Action == ActApply && actor == "stranger" && as == "")
	switch {
	case len(tr.Steps) == 0 || tr.Action == ActPost:
		if !errors.As(err, &ie) {
			t.Errorf("%s: %v, want an InvalidError", key, err)
		}
	case notMine && (as != "" || tr.Actor != RoleWorker || actor == "system"):
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v, want ErrForbidden", key, err)
		}
	case notMine && tr.Action == ActApply && actor == "requester":
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v, want ErrForbidden", key, err)
		}
	case !errors.As(err, &te):
		t.Errorf("%s: %v, want a TransitionError", key, err)
	default:
		if te.JobState != js {
			t.Errorf("%s: the error says %s", key, te.JobState)
		}
		app := as
		if tr.wholeJob() {
			app = ""
		}
		if slices.Contains(te.Can, tr.Action) || !slices.Equal(te.Can, Allowed(tr.Actor, js, app, again)) {
			t.Errorf("%s: can %v", key, te.Can)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		role  Role
		job   State
		app   ApplicationState
		again bool
		want  string
	}{
		{RoleRequester, Open, "", false, "edit cancel"},
		{RoleRequester, Open, AppApplied, false, "edit accept decline cancel"},
		{RoleRequester, FinishReported, AppFinished, false, "confirm rework reject cancel"},
		{RoleRequester, Completed, AppConfirmed, false, ""},
		{RoleWorker, Open, "", false, "apply"},
		{RoleWorker, Open, AppApplied, false, "withdraw"},
		{RoleWorker, Open, AppDeclined, false, ""},
		{RoleWorker, Open, AppDeclined, true, "apply"},
		{RoleWorker, Matched, AppAccepted, false, "start resign"},
		{RoleWorker, Matched, "", false, ""},
		{RoleSystem, Open, "", false, "expire"},
	} {
		var got []string
		for _, a := range Allowed(c.role, c.job, c.app, c.again) {
			got = append(got, string(a))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s, job %s, application %q: %q, want %q", c.role, c.job, c.app, s, c.want)
		}
	}
}

func TestDecideConditions(t *testing.T) {
	applied := &Application{ID: 2, Job: 1, Worker: "will", State: AppApplied, Version: 3}
	for _, c := range []struct {
		name string
		cmd  Command
		job  func(*Job)
		app  *Application
		want string
	}{
		{"expired before the sweep", Command{Action: ActApply, By: "will", At: noon.Add(time.Hour)}, nil, nil, "job 1 is expired"},
		{"accept of an expired job", Command{Action: ActAccept, By: "rita", At: noon.Add(2 * time.Hour)}, nil, applied, "job 1 is expired"},
		{"a millisecond before", Command{Action: ActApply, By: "will", At: noon.Add(time.Hour - time.Millisecond)}, nil, nil, ""},
		{"too early to expire", Command{Action: ActExpire, At: noon}, nil, nil, "its time has not passed"},
		{"own job", Command{Action: ActApply, By: "rita", At: noon}, nil, nil, "not allowed"},
		{"imported", Command{Action: ActApply, By: "will", At: noon}, func(j *Job) { j.Requester = "" }, nil, "it was imported"},
		{"imported is nobody's", Command{Action: ActCancel, By: "", At: noon}, func(j *Job) { j.Requester = "" }, nil, "not allowed"},
		{"version of the job", Command{Action: ActCancel, By: "rita", At: noon, IfVersion: 2}, nil, nil, "1 is at version 1, not 2"},
		{"its version", Command{Action: ActCancel, By: "rita", At: noon, IfVersion: 1}, nil, nil, ""},
		{"version of the application", Command{Action: ActAccept, By: "rita", At: noon, IfVersion: 1}, nil, applied, "2 is at version 3, not 1"},
		{"its own version", Command{Action: ActAccept, By: "rita", At: noon, IfVersion: 3}, nil, applied, ""},
		{"declined", Command{Action: ActApply, By: "will", At: noon}, nil, &Application{ID: 2, Worker: "will", State: AppDeclined}, "may not apply for it again"},
	} {
		job := postedJob()
		if c.job != nil {
			c.job(&job)
		}
		_, err := Decide(c.cmd, job, c.app)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestEffects shows who is told, and what becomes of the others.
func TestEffects(t *testing.T) {
	will := func(s ApplicationState) *Application {
		return &Application{ID: 2, Job: 1, Worker: "will", State: s, Version: 3}
	}
	others := func(s ApplicationState, again bool) []Application {
		return []Application{{ID: 3, Job: 1, Worker: "ann", State: s, MayReapply: again, Version: 1}, {ID: 4, Job: 1, Worker: "bob", State: s, Version: 1}}
	}
	for _, c := range []struct {
		action Action
		by     UserID
		job    State
		app    *Application
		others []Application
		want   string // events, with those told
	}{
		{ActEdit, "rita", Open, nil, others(AppApplied, false), "edit 0 open>open >: ann bob"},
		{ActApply, "will", Open, nil, nil, "apply 9 open>open >applied: rita"},
		{ActAccept, "rita", Open, will(AppApplied), others(AppApplied, false),
			"accept 2 open>matched applied>accepted: will|pass_over 3 matched>matched applied>declined: ann|pass_over 4 matched>matched applied>declined: bob"},
		{ActCancel, "rita", InProgress, nil, []Application{*will(AppStarted)}, "cancel 0 in_progress>cancelled >:|void 2 cancelled>cancelled started>cancelled: will"},
		{ActExpire, "", Open, nil, others(AppApplied, false),
			"expire 0 open>expired >: rita|void 3 expired>expired applied>cancelled: ann|void 4 expired>expired applied>cancelled: bob"},
		{ActResign, "will", InProgress, will(AppStarted), others(AppDeclined, true), "resign 2 in_progress>open started>withdrawn: rita|reopen 0 open>open >: ann"},
		{ActReject, "rita", FinishReported, will(AppFinished), others(AppDeclined, true), "reject 2 finish_reported>open finished>rejected: will|reopen 0 open>open >: ann"},
		{ActRework, "rita", FinishReported, will(AppFinished), nil, "rework 2 finish_reported>in_progress finished>started: will"},
	} {
		job := postedJob()
		job.State = c.job
		at := noon
		if c.action == ActExpire {
			at = job.Expires
		}
		d, err := Decide(Command{Action: c.action, Job: 1, By: c.by, At: at, Reason: "r", Message: "m"}, job, c.app)
		if err != nil {
			t.Fatal(err)
		}
		next := ID(8)
		eff := d.Effects(c.others, 5, 100, func() ID { next++; return next })
		var lines []string
		for i, v := range eff.Events {
			if v.Seq != int64(6+i) || v.Job != 1 || !v.At.Equal(at) || i == 0 && v.ID != 100 {
				t.Errorf("%s: event %+v", c.action, v)
			}
			line := fmt.Sprintf("%s %d %s>%s %s>%s:", v.Action, v.Application, v.FromJob, v.ToJob, v.FromApp, v.ToApp)
			told := 0
			for _, m := range eff.Messages {
				if m.Event == v.ID {
					line += " " + string(m.Recipient)
					told++
					if (m.Role == RoleRequester) != (m.Recipient == "rita") || m.Title != job.Title || m.JobState != eff.Job.State {
						t.Errorf("%s: message %+v", c.action, m)
					}
				}
			}
			if told != v.Told {
				t.Errorf("%s: %d are told, the event says %d", c.action, told, v.Told)
			}
			lines = append(lines, line)
		}
		if got := strings.Join(lines, "|"); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.action, got, c.want)
		}
	}
}

// TestFallsThroughLate: a match that falls through after the job's time leaves
// it expired, not open.
func TestFallsThroughLate(t *testing.T) {
	job := postedJob()
	job.State = Matched
	d, err := Decide(Command{Action: ActResign, By: "will", At: job.Expires}, job, &Application{ID: 2, Worker: "will", State: AppAccepted})
	if err != nil {
		t.Fatal(err)
	}
	if d.Job().State != Expired || d.Needs() != nil {
		t.Errorf("the job is %s, needs %v", d.Job().State, d.Needs())
	}
}

func TestChange(t *testing.T) {
	decide := func() *Decision {
		d, err := Decide(Command{Action: ActEdit, By: "rita", At: noon}, postedJob(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := decide()
	changed, err := d.Change(func(j *Job) error {
		*j = Job{Title: " Walk  a cat ", Remote: true, State: Completed, Requester: "eve", Version: 77}
		return nil
	})
	want := postedJob()
	want.Title, want.Remote, want.At, want.Expires, want.Version = "Walk a cat", true, geo.LatLng{}, time.Time{}, 2
	if err != nil || !changed || d.Job() != want {
		t.Errorf("%v, %v: %+v, want %+v", changed, err, d.Job(), want)
	}
	d = decide()
	if changed, err := d.Change(func(*Job) error { return nil }); changed || err != nil || d.Job() != postedJob() {
		t.Errorf("no change: %v, %v: %+v", changed, err, d.Job())
	}
	mine := errors.New("mine")
	if _, err := decide().Change(func(*Job) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("%v, want the caller's error", err)
	}
	for _, bad := range []func(*Job){
		func(j *Job) { j.Title = "" }, func(j *Job) { j.Expires = noon }, func(j *Job) { j.At.Lat = 91 },
	} {
		var ie *InvalidError
		if _, err := decide().Change(func(j *Job) error { bad(j); return nil }); !errors.As(err, &ie) {
			t.Errorf("%v, want an InvalidError", err)
		}
	}
}

func TestCommandNormalize(t *testing.T) {
	good := Command{Action: ActApply, Job: 1, By: "will", Message: " hello ", At: noon.Add(1234 * time.Microsecond)}
	if err := good.Normalize(); err != nil || good.Message != "hello" || !good.At.Equal(noon.Add(time.Millisecond)) {
		t.Errorf("%v: %+v", err, good)
	}
	for _, c := range []struct {
		cmd    Command
		fields string
	}{
		{Command{}, "action at job user"},
		{Command{Action: "fly", Job: 1, By: "x", At: noon}, "action"},
		{Command{Action: ActExpire, Job: 1, By: "x", At: noon}, "action"},
		{Command{Action: ActPost, Job: 1, By: "x", At: noon}, "action"},
		{Command{Action: ActVoid, Job: 1, By: "x", At: noon}, "action"},
		{Command{Action: ActAccept, Job: 1, By: "x", At: noon}, "application"},
		{Command{Action: ActReject, Job: 1, By: "x", At: noon, Reason: " "}, "reason"},
		{Command{Action: ActCancel, Job: 1, By: "x", At: noon, Message: "m", IfVersion: -1}, "message version"},
		{Command{Action: ActStart, Job: 1, By: UserID(strings.Repeat("x", 129)), At: noon}, "user"},
		{Command{Action: ActStart, Job: 1, By: "a\x00", At: noon}, "user"},
		{Command{Action: ActStart, Job: 1, By: "\xff", At: noon, Reason: strings.Repeat("x", MaxReason+1)}, "reason user"},
	} {
		err := c.cmd.Normalize()
		var ie *InvalidError
		if !errors.As(err, &ie) {
			t.Errorf("%+v: %v", c.cmd, err)
			continue
		}
		fields := map[string]bool{}
		for _, f := range ie.Faults {
			fields[f.Field] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(fields)), " "); got != c.fields {
			t.Errorf("%+v: faults of %s, want %s: %v", c.cmd, got, c.fields, err)
		}
	}
}

func TestPosted(t *testing.T) {
	j := postedJob()
	j.State, j.Version = Completed, 9
	eff, err := Posted(j, 5)
	if err != nil || eff.Job.State != Open || eff.Job.Version != 1 || len(eff.Events) != 1 || len(eff.Messages) != 0 {
		t.Errorf("%v: %+v", err, eff)
	}
	j.Requester, j.Title, j.Expires = "", "", j.Posted
	var ie *InvalidError
	if _, err := Posted(j, 5); !errors.As(err, &ie) || len(ie.Faults) != 2 {
		t.Errorf("%v, want faults of requester and title", err)
	}
	j = postedJob()
	j.Expires = j.Posted
	if _, err := Posted(j, 5); !errors.As(err, &ie) || ie.Faults[0].Field != "expires" {
		t.Errorf("%v, want a fault of expires", err)
	}
}

// TestOperationKeyHash: parts that run together are still different requests.
func TestOperationKeyHash(t *testing.T) {
	keys := []OperationKey{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"", "ab", "c"}, {"a", "b", "d"}}
	seen := map[[32]byte]OperationKey{}
	for _, k := range keys {
		if other, twice := seen[k.Hash()]; twice {
			t.Errorf("%v and %v have one hash", k, other)
		}
		seen[k.Hash()] = k
	}
}

func TestSettingsNormalize(t *testing.T) {
	s := Settings{Language: "ko", Channels: []string{"webhook", "push", "push"}}
	if err := s.Normalize(); err != nil || !slices.Equal(s.Channels, []string{"push", "webhook"}) {
		t.Errorf("%v: %v", err, s)
	}
	none := Settings{Channels: []string{}}
	if err := none.Normalize(); err != nil || none.Channels == nil {
		t.Errorf("chosen to be none: %v: %#v", err, none)
	}
	bad := Settings{Language: "fr", Channels: []string{"pigeon"}}
	var ie *InvalidError
	if err := bad.Normalize(); !errors.As(err, &ie) || len(ie.Faults) != 2 {
		t.Errorf("%v", err)
	}
}
