package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

// action is what the caller can do next.
type action struct {
	Action store.Action `json:"action" enum:"post,edit,apply,withdraw,accept,decline,start,finish,confirm,rework,reject,cancel,resign" example:"accept" doc:"Its name."`
	Method string       `json:"method" enum:"POST,PATCH" example:"POST" doc:"The method to do it by."`
	Href   string       `json:"href" example:"/v1/jobs/7318349394477056/applications/7318349394477060/accept" doc:"Where."`
}

// actions adds to names how to do what they name. Without an application those on
// one are left out.
func actions(names []store.Action, job, app store.ID) []action {
	var list []action
	for _, n := range names {
		a := action{Action: n, Method: http.MethodPost}
		switch {
		case n == store.ActEdit:
			a.Method, a.Href = http.MethodPatch, "/v1/jobs/"+job.String()
		case n == store.ActCancel:
			a.Href = "/v1/jobs/" + job.String() + "/cancel"
		case n == store.ActApply:
			a.Href = "/v1/jobs/" + job.String() + "/applications"
		case app != 0:
			a.Href = fmt.Sprintf("/v1/jobs/%s/applications/%s/%s", job, app, n)
		default:
			continue
		}
		list = append(list, a)
	}
	return list
}

// counts says how many have applied.
type counts struct {
	Undecided int `json:"undecided" example:"3" doc:"Applications that wait for the requester's answer."`
	Total     int `json:"total" example:"5" doc:"All applications that there ever were, withdrawn and declined ones too."`
}

// application is an application in an answer, for its worker or the job's
// requester.
type application struct {
	ID         store.ID               `json:"id" example:"7318349394477060" doc:"The id."`
	JobID      store.ID               `json:"job_id" example:"7318349394477056" doc:"The job."`
	JobTitle   string                 `json:"job_title" example:"Carry a sofa to the third floor" doc:"Its title now."`
	JobState   store.State            `json:"job_state" enum:"open,matched,in_progress,finish_reported,completed,cancelled,expired" example:"open" doc:"Where it stands."`
	Worker     store.UserID           `json:"worker" example:"w-77" doc:"Who applied."`
	State      store.ApplicationState `json:"state" enum:"applied,accepted,declined,withdrawn,started,finished,confirmed,rejected,cancelled" example:"applied" doc:"Where the application stands."`
	Message    string                 `json:"message,omitempty" example:"I have a van." doc:"What the worker wrote."`
	Reason     string                 `json:"reason,omitempty" example:"Found somebody nearer." doc:"What was given with the last action on it."`
	MayReapply bool                   `json:"may_reapply" example:"false" doc:"Whether the worker may apply again, if it is withdrawn or declined and the job open."`
	Created    time.Time              `json:"created" example:"2026-01-31T12:05:00Z" doc:"When the worker applied first, in UTC."`
	Updated    time.Time              `json:"updated" example:"2026-01-31T12:05:00Z" doc:"When it changed last, in UTC."`
	Version    int64                  `json:"version" minimum:"1" example:"1" doc:"Grows by one with each change. In quotes it is the ETag."`
	Actions    []action               `json:"actions" nullable:"false" doc:"What the caller can do with it now."`
}

// newApplication is an application as a role sees it.
func newApplication(app *store.Application, j *store.Job, as store.Role, now time.Time) application {
	out := application{
		ID: app.ID, JobID: app.Job, JobTitle: j.Title, JobState: j.StateAt(now), Worker: app.Worker, State: app.State,
		Message: app.Message, Reason: app.Reason, MayReapply: app.MayReapply,
		Created: app.Created.UTC(), Updated: app.Updated.UTC(), Version: app.Version, Actions: []action{},
	}
	for _, n := range store.Allowed(as, out.JobState, app.State, app.MayReapply) {
		if n.OnApplication() {
			out.Actions = append(out.Actions, actions([]store.Action{n}, app.Job, app.ID)...)
		}
	}
	return out
}

type applicationList struct {
	Applications []application `json:"applications" nullable:"false" doc:"The applications of this page."`
	NextCursor   string        `json:"next_cursor,omitempty" example:"AQEAZ5v0Xr1dQLcYwLs" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
}

type jobList struct {
	Jobs       []job  `json:"jobs" nullable:"false" doc:"The jobs of this page."`
	NextCursor string `json:"next_cursor,omitempty" example:"AQEAZ5v0Xr1dQLcYwLs" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
}

// event is a line of a job's history.
type event struct {
	ID            store.ID               `json:"id" example:"7318349394477061" doc:"The id."`
	At            time.Time              `json:"at" example:"2026-01-31T12:05:00Z" doc:"When it happened, in UTC."`
	Action        store.Action           `json:"action" example:"apply" doc:"What was done: an action, or expire, pass_over, void or reopen by the system."`
	Role          store.Role             `json:"role" enum:"requester,worker,system" example:"worker" doc:"As what somebody did it."`
	Actor         store.UserID           `json:"actor,omitempty" example:"w-77" doc:"Who did it. Absent for the system, and for another user where the caller is not the requester."`
	ApplicationID store.ID               `json:"application_id,omitzero" example:"7318349394477060" doc:"The application that it is about. Absent where it is the job."`
	FromJob       store.State            `json:"from_job,omitempty" example:"open" doc:"The job's state before it. Absent for post."`
	ToJob         store.State            `json:"to_job" example:"open" doc:"The job's state after it."`
	From          store.ApplicationState `json:"from_application,omitempty" example:"applied" doc:"The application's state before it. Absent where there was none."`
	To            store.ApplicationState `json:"to_application,omitempty" example:"applied" doc:"The application's state after it."`
	Reason        string                 `json:"reason,omitempty" example:"Found somebody nearer." doc:"What the actor gave as reason."`
	Told          *int                   `json:"told,omitempty" minimum:"0" example:"1" doc:"How many users got a message of it. Only the requester sees it."`
}

type eventList struct {
	Events     []event `json:"events" nullable:"false" doc:"The events of this page, the oldest first."`
	NextCursor string  `json:"next_cursor,omitempty" example:"AQEAZ5v0Xr1dQLcYwLs" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
}

// message is a message to the caller.
type message struct {
	ID            store.ID     `json:"id" example:"7318349394477062" doc:"The id."`
	At            time.Time    `json:"at" example:"2026-01-31T12:05:00Z" doc:"When what it tells of happened, in UTC."`
	Action        store.Action `json:"action" example:"apply" doc:"What was done."`
	Role          store.Role   `json:"role" enum:"requester,worker" example:"requester" doc:"As what the caller is told."`
	JobID         store.ID     `json:"job_id" example:"7318349394477056" doc:"The job."`
	JobTitle      string       `json:"job_title" example:"Carry a sofa to the third floor" doc:"Its title at that time."`
	JobState      store.State  `json:"job_state" enum:"open,matched,in_progress,finish_reported,completed,cancelled,expired" example:"open" doc:"Its state after that."`
	ApplicationID store.ID     `json:"application_id,omitzero" example:"7318349394477060" doc:"The application that it is about. Absent for none."`
	Note          string       `json:"note,omitempty" example:"I have a van." doc:"What the other side wrote: a message or a reason."`
}

type messageList struct {
	Messages   []message `json:"messages" nullable:"false" doc:"The messages of this page, the oldest first."`
	NextCursor string    `json:"next_cursor,omitempty" example:"AQEAZ5v0Xr1dQLcYwLs" doc:"Ask again with this as cursor for the next page. Absent on the last page."`
}

// settings are a user's wishes, in a body and in an answer.
type settings struct {
	Language *string  `json:"language,omitempty" enum:"en,ko" example:"ko" doc:"The language of messages. Left out: not chosen."`
	Channels []string `json:"channels,omitzero" nullable:"false" enum:"push,stream,webhook" example:"[\"push\",\"stream\"]" doc:"How to be told. Left out: not chosen, an empty list: not at all."`
}

type hook struct {
	ID       store.ID  `json:"id" example:"7318349394477063" doc:"The id."`
	URL      string    `json:"url" example:"https://example.com/hooks/nearjob" doc:"What is called."`
	Secret   string    `json:"secret,omitempty" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" doc:"Signs the calls, see standardwebhooks.com. Only in the answer that makes the webhook."`
	Created  time.Time `json:"created" example:"2026-01-31T12:00:00Z" doc:"When it was made, in UTC."`
	Disabled string    `json:"disabled,omitempty" example:"410 Gone" doc:"Why it is no longer called. Absent while it is."`
}

type hookList struct {
	Webhooks []hook `json:"webhooks" nullable:"false" doc:"The webhooks, the oldest first."`
}

// etag is the ETag of a version. It names the record and not its bytes: the
// answer also depends on who asks, and none may be kept (Cache-Control: no-store).
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// matches reads If-Match: whether it holds of a version. A weak tag never does
// (RFC 9110, section 13.1.1).
func (f *faults) matches(lines []string) func(version int64) bool {
	var tags []string
	for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		tag := strings.TrimSpace(part)
		weak := strings.TrimPrefix(tag, "W/")
		if tag != "*" && (len(weak) < 2 || weak[0] != '"' || weak[len(weak)-1] != '"' || strings.Contains(weak[1:len(weak)-1], `"`)) {
			f.add("If-Match", `%.40q is not an ETag of an answer such as "3", with its quotes, nor *`, tag)
			continue
		}
		tags = append(tags, tag)
	}
	return func(version int64) bool {
		for _, t := range tags {
			if t == "*" || t == etag(version) {
				return true
			}
		}
		return false
	}
}
