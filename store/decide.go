package store

import (
	"fmt"
	"slices"
	"time"
)

// Decision is a command that can be carried out, and what it does to the job
// and to the application that it is about. Engines get it from [Decide] under
// the lock of the job, and turn it into [Effects].
type Decision struct {
	command    Command
	transition *Transition
	was        Job
	wasApp     ApplicationState
	job        Job
	app        *Application
}

// Decide looks a command up in the lifecycle's table. job is what is stored, and
// app the application that the command is about, nil for none; a worker who
// applies has none or his own. It returns [ErrForbidden], an *[InvalidError], a
// *[TransitionError] or a *[VersionError].
//
// A command without a user is the system's; Act must not let one through.
func Decide(c Command, job Job, app *Application) (*Decision, error) {
	t := transition(c.Action)
	if t == nil || len(t.Steps) == 0 || c.Action == ActPost {
		return nil, Invalid("action", fmt.Sprintf("%.40q is not an action on a job", c.Action))
	}
	if t.wholeJob() {
		app = nil
	}
	if err := mayDo(t, c.By, &job, app); err != nil {
		return nil, err
	}
	var state ApplicationState
	mayReapply := false
	if app != nil {
		state, mayReapply = app.State, app.MayReapply
	}
	is := job.StateAt(c.At)
	if c.Action == ActExpire {
		is = job.State
	}
	refused := &TransitionError{Action: c.Action, Job: job.ID, JobState: is, Application: state}
	step := t.step(is, state, mayReapply)
	switch {
	case step == nil:
		if c.Action == ActApply && is == Open && (state == AppDeclined || state == AppWithdrawn) {
			refused.Why = "this worker may not apply for it again"
		}
	case c.Action == ActApply && job.Requester == "":
		step, refused.Why = nil, "it was imported, so nobody here can accept an application: apply at its url"
	case c.Action == ActExpire && job.StateAt(c.At) != Expired:
		step, refused.Why = nil, "its time has not passed"
	}
	if step == nil {
		refused.Can = Allowed(t.Actor, is, state, mayReapply)
		if job.Requester == "" {
			refused.Can = nil
		}
		return nil, refused
	}
	if err := checkVersion(&c, &job, app); err != nil {
		return nil, err
	}
	d := &Decision{command: c, transition: t, was: job, wasApp: state, job: job}
	d.job.State = step.ToJob
	if step.ends() {
		d.job.State = d.job.StateAt(c.At)
	}
	if d.job.State != job.State {
		d.job.Version++
	}
	if step.ToApp == "" {
		return d, nil
	}
	var a Application
	if app != nil {
		a = *app
	} else {
		a = Application{Job: job.ID, Worker: c.By, Created: c.At}
	}
	a.State, a.MayReapply, a.Reason, a.Updated = step.ToApp, t.MayReapply, c.Reason, c.At
	a.Version++
	if c.Action == ActApply {
		a.Message = c.Message
	}
	d.app = &a
	return d, nil
}

// mayDo returns ErrForbidden unless the user is who the transition is for.
func mayDo(t *Transition, by UserID, job *Job, app *Application) error {
	switch t.Actor {
	case RoleRequester:
		if by == "" || by != job.Requester {
			return fmt.Errorf("%w: only the requester of job %s can %s", ErrForbidden, job.ID, t.Action)
		}
	case RoleWorker:
		if by == "" || app != nil && by != app.Worker {
			return fmt.Errorf("%w: only the worker of the application can %s", ErrForbidden, t.Action)
		}
		if t.Action == ActApply && by == job.Requester {
			return fmt.Errorf("%w: the requester of job %s cannot apply for it", ErrForbidden, job.ID)
		}
	case RoleSystem:
		if by != "" {
			return fmt.Errorf("%w: %s is not for users", ErrForbidden, t.Action)
		}
	}
	return nil
}

func checkVersion(c *Command, job *Job, app *Application) error {
	if c.IfVersion == 0 {
		return nil
	}
	id, is := job.ID, job.Version
	if c.Action.OnApplication() {
		if app == nil {
			return nil // a first apply
		}
		id, is = app.ID, app.Version
	}
	if is != c.IfVersion {
		return &VersionError{ID: id, Is: is, Want: c.IfVersion}
	}
	return nil
}

// StateAt is the job's state at a time: an open job whose time has passed is
// expired, whether the sweep has marked it or not.
func (j *Job) StateAt(now time.Time) State {
	if j.State == Open && !j.Expires.IsZero() && !j.Expires.After(now) {
		return Expired
	}
	return j.State
}

// Change applies an edit to the decision, which must be one of ActEdit, and
// reports whether it changes anything.
func (d *Decision) Change(change func(*Job) error) (bool, error) {
	j := d.was
	if err := change(&j); err != nil {
		return false, err
	}
	j.ID, j.Source, j.SourceID, j.Requester = d.was.ID, d.was.Source, d.was.SourceID, d.was.Requester
	j.State, j.Posted, j.Version = d.was.State, d.was.Posted, d.was.Version
	if err := j.Normalize(); err != nil {
		return false, err
	}
	if !j.Expires.IsZero() && !j.Expires.After(d.command.At) {
		return false, Invalid("expires", "is not in the future")
	}
	if j == d.was {
		return false, nil
	}
	j.Version++
	d.job = j
	return true, nil
}

// Job is the job after the transition.
func (d *Decision) Job() Job { return d.job }

// reopens reports whether the job is open again.
func (d *Decision) reopens() bool { return d.was.State.Taken() && d.job.State == Open }

// Needs lists the states of the job's other applications that the effects depend
// on: nil for none. The engine loads those.
func (d *Decision) Needs() []ApplicationState {
	switch {
	case d.transition.Others != nil:
		return d.transition.Others.From
	case slices.Contains(d.transition.Tells, TellApplicants):
		return []ApplicationState{AppApplied}
	case d.reopens():
		return []ApplicationState{AppDeclined}
	}
	return nil
}

// Effects are the rows that a transition writes.
type Effects struct {
	Job         Job          // as it is afterwards
	Application *Application // as it is afterwards; Version 1: it is new
	Others      []Application
	Events      []Event   // the action's own first
	Messages    []Message // without an ID: the engine gives one, growing along the slice
}

// Outcome is what the caller gets to know.
func (e *Effects) Outcome() Outcome {
	o := Outcome{Job: e.Job}
	if e.Application != nil {
		o.Application = *e.Application
	}
	if len(e.Events) > 0 {
		o.Event = e.Events[0]
	}
	return o
}

// Effects returns the rows to write. others are the job's applications in the
// states of Needs, but for the one that the command is about; seq is that of the
// job's last event; event is the id of the action's own event, and next makes
// ids for what else is new.
func (d *Decision) Effects(others []Application, seq int64, event ID, next func() ID) Effects {
	e := Effects{Job: d.job, Application: d.app}
	first := Event{
		Action: d.command.Action, Role: d.transition.Actor, Actor: d.command.By, FromJob: d.was.State, ToJob: d.job.State, Reason: d.command.Reason,
	}
	note := d.command.Reason
	if d.app != nil {
		if d.app.ID == 0 {
			d.app.ID = next()
		}
		first.Application, first.FromApp, first.ToApp = d.app.ID, d.wasApp, d.app.State
		if d.command.Action == ActApply {
			note = d.command.Message
		}
	}
	add := func(v Event, note string, audiences []Audience) {
		seq++
		v.ID, v.Job, v.Seq, v.At = event, d.job.ID, seq, d.command.At
		event = 0
		if v.ID == 0 {
			v.ID = next()
		}
		m := Message{
			Event: v.ID, Job: v.Job, Application: v.Application, Action: v.Action, Actor: v.Actor, At: v.At,
			Title: d.job.Title, JobState: d.job.State, Note: note, State: Pending, Due: v.At,
		}
		before := len(e.Messages)
		for _, audience := range audiences {
			m.Role = audience.Role()
			switch audience {
			case TellRequester:
				m.Recipient = d.job.Requester
				e.tell(m)
			case TellWorker:
				e.tellWorkerOf(m, d.app, e.Others)
			case TellApplicants, TellPassedOver:
				for i := range others {
					if o := &others[i]; audience == TellApplicants && o.State == AppApplied ||
						audience == TellPassedOver && o.State == AppDeclined && o.MayReapply {
						m.Application, m.Recipient = o.ID, o.Worker
						e.tell(m)
					}
				}
			}
		}
		v.Told = len(e.Messages) - before
		e.Events = append(e.Events, v)
	}
	add(first, note, d.transition.Tells)
	if c := d.transition.Others; c != nil {
		for _, o := range others {
			from := o.State
			if !slices.Contains(c.From, from) {
				continue
			}
			o.State, o.MayReapply, o.Reason, o.Updated = c.To, c.MayReapply, d.command.Reason, d.command.At
			o.Version++
			e.Others = append(e.Others, o)
			add(Event{
				Application: o.ID, Action: c.Action, Role: RoleSystem, FromJob: d.job.State, ToJob: d.job.State,
				FromApp: from, ToApp: o.State, Reason: d.command.Reason,
			}, d.command.Reason, transition(c.Action).Tells)
		}
	}
	if d.reopens() {
		add(Event{Action: ActReopen, Role: RoleSystem, FromJob: d.job.State, ToJob: d.job.State}, "", transition(ActReopen).Tells)
	}
	return e
}

// tell adds a message; an imported job has no requester to tell.
func (e *Effects) tell(m Message) {
	if m.Recipient != "" {
		e.Messages = append(e.Messages, m)
	}
}

// tellWorkerOf adds a message for the worker of the application that it is about:
// the command's, or the one that a consequence was just added for.
func (e *Effects) tellWorkerOf(m Message, app *Application, others []Application) {
	switch {
	case app != nil && app.ID == m.Application:
		m.Recipient = app.Worker
	case len(others) > 0 && others[len(others)-1].ID == m.Application:
		m.Recipient = others[len(others)-1].Worker
	}
	e.tell(m)
}

// Posted returns the job as it is posted and its effects. It refuses, with an
// *[InvalidError], what cannot be posted.
func Posted(j Job, event ID) (Effects, error) {
	j.State, j.Version = Open, 1
	var f faults
	if j.Requester == "" {
		f.add("requester", "is missing")
	}
	if err := j.Normalize(); err != nil {
		f = append(f, err.(*InvalidError).Faults...)
	} else if j.StateAt(j.Posted) != Open {
		f.add("expires", "is not after the posting")
	}
	if err := f.err(); err != nil {
		return Effects{}, err
	}
	return Effects{Job: j, Events: []Event{{
		ID: event, Job: j.ID, Seq: 1, Action: ActPost, Role: RoleRequester, Actor: j.Requester, At: j.Posted, ToJob: Open,
	}}}, nil
}
