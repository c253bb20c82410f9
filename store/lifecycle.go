package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is the name of a transition.
type Action string

// What users do.
const (
	ActPost     Action = "post"
	ActEdit     Action = "edit"
	ActApply    Action = "apply"
	ActWithdraw Action = "withdraw"
	ActAccept   Action = "accept"
	ActDecline  Action = "decline"
	ActStart    Action = "start"
	ActFinish   Action = "finish" // the worker reports that the work is done
	ActConfirm  Action = "confirm"
	ActRework   Action = "rework" // not done yet: back to work, with a reason
	ActReject   Action = "reject" // not done: the match ends, with a reason
	ActCancel   Action = "cancel"
	ActResign   Action = "resign"
)

// What the system does: by the clock, or as the consequence of an action, in
// the same transaction.
const (
	ActExpire   Action = "expire"
	ActPassOver Action = "pass_over" // of accept, for each other applicant
	ActVoid     Action = "void"      // of cancel and expire, for each live application
	ActReopen   Action = "reopen"    // of resign and reject, to tell those who were passed over
)

// Role is what somebody is towards a job.
type Role string

// The roles.
const (
	RoleRequester Role = "requester"
	RoleWorker    Role = "worker" // of the application
	RoleSystem    Role = "system"
)

// ApplicationState is where an application stands.
type ApplicationState string

// The states of an application.
const (
	AppApplied   ApplicationState = "applied"
	AppAccepted  ApplicationState = "accepted"
	AppDeclined  ApplicationState = "declined"
	AppWithdrawn ApplicationState = "withdrawn" // by the worker: withdraw or resign
	AppStarted   ApplicationState = "started"
	AppFinished  ApplicationState = "finished" // as the worker says
	AppConfirmed ApplicationState = "confirmed"
	AppRejected  ApplicationState = "rejected"
	AppCancelled ApplicationState = "cancelled" // the job was cancelled or expired
)

// ApplicationStates lists every state.
func ApplicationStates() []ApplicationState {
	return []ApplicationState{AppApplied, AppAccepted, AppDeclined, AppWithdrawn, AppStarted, AppFinished,
		AppConfirmed, AppRejected, AppCancelled}
}

// Live reports whether something can still become of the application.
func (s ApplicationState) Live() bool {
	return s == AppApplied || s == AppAccepted || s == AppStarted || s == AppFinished
}

// Holds reports whether the application holds the job: at most one of a job does.
func (s ApplicationState) Holds() bool {
	return s == AppAccepted || s == AppStarted || s == AppFinished || s == AppConfirmed
}

// Taken reports whether a job in this state is held by exactly one application.
func (s State) Taken() bool {
	return s == Matched || s == InProgress || s == FinishReported || s == Completed
}

// Step is one pair of states that a transition leads from, and where to. App is
// "" where the transition is not about one application, and for a worker who has
// none.
type Step struct {
	Job   State
	App   ApplicationState
	ToJob State
	ToApp ApplicationState
}

// Consequence is what a transition does to the job's other applications.
type Consequence struct {
	Action Action
	From   []ApplicationState
	To     ApplicationState
	// MayReapply is what their field of that name becomes.
	MayReapply bool
}

// Transition is a row of the lifecycle's table: two state machines, of a job and
// of the applications for it, as data. [Decide] looks a command up in it, and the
// engines carry out what that says in one transaction. Nothing else moves a job
// that takes part in matching: [Jobs].Move is for imported jobs and laboratories.
//
// The job:
//
//	        post
//	         |
//	         v   edit, apply, withdraw, decline
//	+----> open ---------------------------------- cancel ----------+
//	|        |  \-------- expire ------> expired                    |
//	|      accept                                                   |
//	|        v                                                      |
//	+---- matched -------------------------------- cancel ----------+
//	|        |                                                      |
//	|      start                                                    |
//	|        v                                                      |
//	+---- in_progress <--+ ----------------------- cancel ----------+
//	|        |           |                                          |
//	|      finish      rework                                       |
//	|        v           |                                          v
//	+---- finish_reported+ ----------------------- cancel ----> cancelled
//	|        |
//	|      confirm                  resign (the worker, from matched on) and
//	|        v                      reject (the requester, of what is reported
//	|     completed                 as finished) end the match: the job is open
//	+------ resign, reject          again, or expired if its time has passed
//
// The application, one for each worker and job for good; applying again
// takes it up:
//
//	applied --accept--> accepted --start--> started --finish--> finished --confirm--> confirmed
//	 |   |                 |                   |  ^                |  |
//	 |   +-withdraw-+      +------resign-------+--|------resign----+  +-reject--> rejected
//	 |              v      v                   |  +------rework----+
//	 |           withdrawn <-------------------+
//	 +-decline, pass_over--> declined             (each of them) --void--> cancelled
//
// What the words leave open is decided here:
//
//   - A worker who withdrew may apply again, and so may one who was passed over
//     (declined because another was accepted), once the job reopens, of which the
//     passed over are told. They are not put back as applicants, since they may have
//     found other work. A worker who was declined by the requester, resigned, or
//     had the work rejected may not apply for that job again.
//     [Application].MayReapply has it.
//   - A requester cannot apply for a job of their own. A job without a requester was
//     imported: it takes no applications here.
//   - An open job whose time has passed is treated as expired by every action,
//     whether the sweep has marked it or not.
//   - Completed, cancelled and expired are final: a requester posts anew.
//   - Only open jobs are edited: the accepted worker agreed to what was written.
//     Those who have applied are told of an edit.
//   - A job has at most [MaxApplicants] undecided applications, which bounds
//     every transaction.
type Transition struct {
	Action Action
	Actor  Role
	Steps  []Step

	// NeedsReason is set where the actor has to say why.
	NeedsReason bool

	// MayReapply is what the application's field becomes.
	MayReapply bool

	// Others is what becomes of the job's other applications, each with an event
	// of its own; nil: nothing.
	Others *Consequence

	// Tells says who gets a message of it. A consequence tells the worker of the
	// application that it is about.
	Tells []Audience
}

// Audience is who is told.
type Audience string

// The audiences. All but the requester are told as workers.
const (
	TellRequester  Audience = "requester"
	TellWorker     Audience = "worker"      // of the application
	TellApplicants Audience = "applicants"  // every worker whose application is undecided
	TellPassedOver Audience = "passed_over" // every worker who was passed over and may apply again
)

// Role is as what the audience is told.
func (a Audience) Role() Role {
	if a == TellRequester {
		return RoleRequester
	}
	return RoleWorker
}

// Transitions returns the lifecycle's table, consequences included; these have
// no steps of their own that a command could take.
func Transitions() []Transition {
	return []Transition{
		{Action: ActPost, Actor: RoleRequester, Steps: []Step{{"", "", Open, ""}}},
		{Action: ActEdit, Actor: RoleRequester, Steps: []Step{{Open, "", Open, ""}}, Tells: []Audience{TellApplicants}},
		{Action: ActApply, Actor: RoleWorker, Steps: []Step{
			{Open, "", Open, AppApplied}, {Open, AppWithdrawn, Open, AppApplied}, {Open, AppDeclined, Open, AppApplied},
		}, Tells: []Audience{TellRequester}},
		{Action: ActWithdraw, Actor: RoleWorker, Steps: []Step{{Open, AppApplied, Open, AppWithdrawn}},
			MayReapply: true, Tells: []Audience{TellRequester}},
		{Action: ActAccept, Actor: RoleRequester, Steps: []Step{{Open, AppApplied, Matched, AppAccepted}},
			Others: &Consequence{ActPassOver, []ApplicationState{AppApplied}, AppDeclined, true}, Tells: []Audience{TellWorker}},
		{Action: ActDecline, Actor: RoleRequester, Steps: []Step{{Open, AppApplied, Open, AppDeclined}}, Tells: []Audience{TellWorker}},
		{Action: ActStart, Actor: RoleWorker, Steps: []Step{{Matched, AppAccepted, InProgress, AppStarted}}, Tells: []Audience{TellRequester}},
		{Action: ActFinish, Actor: RoleWorker, Steps: []Step{{InProgress, AppStarted, FinishReported, AppFinished}}, Tells: []Audience{TellRequester}},
		{Action: ActConfirm, Actor: RoleRequester, Steps: []Step{{FinishReported, AppFinished, Completed, AppConfirmed}}, Tells: []Audience{TellWorker}},
		{Action: ActRework, Actor: RoleRequester, Steps: []Step{{FinishReported, AppFinished, InProgress, AppStarted}},
			NeedsReason: true, Tells: []Audience{TellWorker}},
		{Action: ActReject, Actor: RoleRequester, Steps: []Step{{FinishReported, AppFinished, Open, AppRejected}},
			NeedsReason: true, Tells: []Audience{TellWorker}},
		{Action: ActCancel, Actor: RoleRequester, Steps: []Step{
			{Open, "", Cancelled, ""}, {Matched, "", Cancelled, ""}, {InProgress, "", Cancelled, ""}, {FinishReported, "", Cancelled, ""},
		}, Others: &Consequence{ActVoid, liveStates(), AppCancelled, false}},
		{Action: ActResign, Actor: RoleWorker, Steps: []Step{
			{Matched, AppAccepted, Open, AppWithdrawn}, {InProgress, AppStarted, Open, AppWithdrawn}, {FinishReported, AppFinished, Open, AppWithdrawn},
		}, Tells: []Audience{TellRequester}},
		{Action: ActExpire, Actor: RoleSystem, Steps: []Step{{Open, "", Expired, ""}},
			Others: &Consequence{ActVoid, liveStates(), AppCancelled, false}, Tells: []Audience{TellRequester}},
		{Action: ActPassOver, Actor: RoleSystem, Tells: []Audience{TellWorker}},
		{Action: ActVoid, Actor: RoleSystem, Tells: []Audience{TellWorker}},
		{Action: ActReopen, Actor: RoleSystem, Tells: []Audience{TellPassedOver}},
	}
}

func liveStates() []ApplicationState {
	return []ApplicationState{AppApplied, AppAccepted, AppStarted, AppFinished}
}

// transition returns the row of an action, or nil.
func transition(a Action) *Transition {
	for _, t := range Transitions() {
		if t.Action == a {
			return &t
		}
	}
	return nil
}

// ends reports whether a step ends a match, so that the job reopens.
func (s *Step) ends() bool { return s.Job.Taken() && s.ToJob == Open }

// step returns the step from a pair of states, or nil.
func (t *Transition) step(job State, app ApplicationState, mayReapply bool) *Step {
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Job != job || s.App != app && !t.wholeJob() {
			continue
		}
		if t.Action == ActApply && app != "" && !mayReapply {
			continue
		}
		return s
	}
	return nil
}

// wholeJob reports whether the transition is about the job and not one
// application.
func (t *Transition) wholeJob() bool {
	return !slices.ContainsFunc(t.Steps, func(s Step) bool { return s.ToApp != "" })
}

// OnApplication reports whether an action is about one application: its
// Command.IfVersion is then the application's.
func (a Action) OnApplication() bool {
	t := transition(a)
	return t != nil && len(t.Steps) > 0 && !t.wholeJob()
}

// Allowed lists what a role can do with a job in a state. app is the state of
// the application that it is about, or "" for none; mayReapply is its field.
func Allowed(as Role, job State, app ApplicationState, mayReapply bool) []Action {
	var can []Action
	for _, t := range Transitions() {
		if t.Actor == as && t.step(job, app, mayReapply) != nil {
			can = append(can, t.Action)
		}
	}
	return can
}

// TransitionError is an action that cannot be done from where the job and the
// application stand.
type TransitionError struct {
	Action      Action
	Job         ID
	JobState    State            // as at the time of the command: an open job past its time is expired
	Application ApplicationState // "" where there is none
	Can         []Action         // what the same actor can do now
	Why         string           // where the states alone do not say it
}

func (e *TransitionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot %s: job %s is %s", e.Action, e.Job, e.JobState)
	if e.Application != "" {
		fmt.Fprintf(&b, " and the application %s", e.Application)
	}
	if e.Why != "" {
		b.WriteString(", and " + e.Why)
	}
	if len(e.Can) > 0 {
		fmt.Fprintf(&b, "; possible now: %s", joined(e.Can))
	}
	return b.String()
}

func joined(actions []Action) string {
	texts := make([]string, len(actions))
	for i, a := range actions {
		texts[i] = string(a)
	}
	return strings.Join(texts, ", ")
}

// VersionError is a change that was asked for of another version than there is.
type VersionError struct {
	ID       ID // of the job or application
	Is, Want int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is at version %d, not %d: read it again", e.ID, e.Is, e.Want)
}

// Errors of the lifecycle.
var (
	// ErrForbidden is an action on what is another user's.
	ErrForbidden = errors.New("not allowed")
	// ErrUnknownOutcome is a transaction whose connection broke at its end, and
	// of which it could not be found out whether it was done. Ask before doing it again.
	ErrUnknownOutcome = errors.New("it is not known whether this was done")
	// ErrLeaseLost is a claim, of a message or a request, that has ended.
	ErrLeaseLost = errors.New("the claim has ended, another may have it")
)

// Limits of the lifecycle.
const (
	MaxUserID     = 128   // characters
	MaxReason     = 1_000 // characters
	MaxMessage    = 2_000 // characters of an application's message
	MaxApplicants = 1_000 // undecided applications of a job
)

// UserID names a user as the identity provider does (the sub of a token):
// 1..128 printable characters.
type UserID string

// Validate returns an *[InvalidError] for what is not a user id.
func (u UserID) Validate() error {
	var f faults
	u.check(&f, "user")
	return f.err()
}

// Command is an action that somebody wants done.
type Command struct {
	Action Action

	// Job may be 0 where Application is given.
	Job ID

	// Application is needed for accept and decline. A worker's own, and the
	// one that holds the job, are found without it.
	Application ID

	By        UserID    // who is logged in; "" only for the system's own actions
	Reason    string    // for the others to read; required for rework and reject
	Message   string    // of an application, for the requester
	IfVersion int64     // not 0: only if the application (with edit and cancel: the job) is at this version
	At        time.Time // now
}

// Normalize trims the texts and refuses a command that no user can give; the
// error is an *[InvalidError]. Post and edit have methods of their own.
func (c *Command) Normalize() error {
	var f faults
	t := transition(c.Action)
	switch {
	case t == nil:
		f.add("action", "%.40q is not one of %s", c.Action, joined(userActions()))
	case !slices.Contains(userActions(), c.Action):
		f.add("action", "%s is not for Act: want one of %s", c.Action, joined(userActions()))
	}
	c.By.check(&f, "user")
	if c.Job < 0 || c.Application < 0 || c.Job == 0 && c.Application == 0 {
		f.add("job", "no job is named")
	}
	if c.Application == 0 && (c.Action == ActAccept || c.Action == ActDecline) {
		f.add("application", "is missing: %s is about one application", c.Action)
	}
	c.normalizeTexts(&f)
	if c.Reason == "" && t != nil && t.NeedsReason {
		f.add("reason", "is missing: the worker has to know why")
	}
	if c.Message != "" && c.Action != ActApply {
		f.add("message", "belongs to apply only: give a reason")
	}
	return f.err()
}

// userActions are those that Act carries out.
func userActions() []Action {
	var all []Action
	for _, t := range Transitions() {
		if t.Actor != RoleSystem && t.Action != ActPost && t.Action != ActEdit {
			all = append(all, t.Action)
		}
	}
	return all
}

func (c *Command) normalizeTexts(f *faults) {
	c.Reason, c.Message = strings.TrimSpace(c.Reason), strings.TrimSpace(c.Message)
	checkText(f, "reason", c.Reason, MaxReason, "\n\r\t")
	checkText(f, "message", c.Message, MaxMessage, "\n\r\t")
	c.At = c.At.UTC().Truncate(time.Millisecond)
	if !storable(c.At) {
		f.add("at", "is missing or not in the years 1970 to 9999")
	}
	if c.IfVersion < 0 {
		f.add("version", "%d is negative", c.IfVersion)
	}
}
