package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/api/idempotency"
	"github.com/nearjob/nearjob/store"
)

// jobInput is a job as its requester writes it.
type jobInput struct {
	Title       *string   `json:"title" minLength:"1" maxLength:"300" nullable:"false" example:"Carry a sofa to the third floor" doc:"What is to be done, on one line."`
	Description *string   `json:"description,omitempty" maxLength:"20000" example:"Two people, half an hour." doc:"The whole text. It is text: HTML in it is shown as it is."`
	Category    *string   `json:"category,omitempty" maxLength:"64" example:"moving" doc:"The category; it is kept in lower case."`
	Employer    *string   `json:"employer,omitempty" maxLength:"200" example:"Kenyon College" doc:"Who offers the job, if a name is to be shown."`
	Lat         *number   `json:"lat,omitempty" minimum:"-90" maximum:"90" example:"40.7143" doc:"Latitude in degrees. Needed unless the job is remote."`
	Lng         *number   `json:"lng,omitempty" minimum:"-180" maximum:"180" example:"-74.006" doc:"Longitude in degrees. Needed unless the job is remote."`
	Remote      *bool     `json:"remote,omitempty" example:"false" doc:"Whether the job has no place."`
	Pay         *payInput `json:"pay,omitempty" doc:"What the job pays."`
	Expires     *string   `json:"expires,omitempty" format:"date-time" example:"2099-02-28T12:00:00Z" doc:"When the job ends by itself (RFC 3339). Left out: never."`
	URL         *string   `json:"url,omitempty" format:"uri" maxLength:"2000" example:"https://example.com/jobs/1" doc:"Where to read more: http or https."`
}

type payInput struct {
	Amount   *amount `json:"amount,omitempty" minimum:"0" example:"25.5" doc:"The amount in units of the currency, with up to two decimals."`
	Currency *string `json:"currency,omitempty" minLength:"3" maxLength:"3" example:"EUR" doc:"ISO 4217 code."`
	Per      *string `json:"per,omitempty" enum:"job,hour,day,week,month,year" example:"hour" doc:"What the amount is for."`
}

type applyInput struct {
	Message *string `json:"message,omitempty" maxLength:"2000" example:"I have a van." doc:"For the requester to read."`
}

type reasonInput struct {
	Reason *string `json:"reason,omitempty" maxLength:"1000" example:"Found somebody nearer." doc:"For the others to read. Needed for rework and reject."`
}

// apply sets a job to what is written.
func (in *jobInput) apply(f *faults, j *store.Job) {
	j.Title, j.Category, j.Employer = f.line("title", in.Title), f.line("category", in.Category), f.line("employer", in.Employer)
	j.Description = value(in.Description)
	j.URL = f.link("url", in.URL)
	j.Remote = value(in.Remote)
	for _, c := range []struct {
		field string
		n     *number
		to    *float64
	}{{"lat", in.Lat, &j.At.Lat}, {"lng", in.Lng, &j.At.Lng}} {
		switch {
		case j.Remote && c.n != nil:
			f.add(c.field, "is of no use where remote is true: leave it out")
		case !j.Remote && c.n == nil:
			f.add(c.field, "is missing: want degrees, or remote: true for a job without a place")
		}
		*c.to = f.number(c.field, value(c.n), 0)
	}
	j.Pay = store.Pay{}
	if p := in.Pay; p != nil {
		j.Pay = store.Pay{
			Amount:   f.hundredths("pay.amount", value(p.Amount)),
			Currency: f.line("pay.currency", p.Currency), Per: f.line("pay.per", p.Per),
		}
		if p.Amount == nil {
			f.add("pay.amount", "is missing: want an amount such as 12.50, or leave pay out")
		}
	}
	j.Expires = time.Time{}
	if in.Expires != nil {
		t, err := time.Parse(time.RFC3339, *in.Expires)
		if err != nil || !moment.MatchString(*in.Expires) {
			f.add("expires", "%.40q is not a moment in RFC 3339 such as 2026-01-31T12:00:00Z", *in.Expires)
		}
		j.Expires = t
	}
	normal := *j
	f.merge(asWritten(normal.Normalize()))
}

// document is the job as its requester would write it, as readBody reads that.
func document(j *store.Job) map[string]any {
	d := map[string]any{"title": j.Title}
	for name, s := range map[string]string{"description": j.Description, "category": j.Category, "employer": j.Employer, "url": j.URL} {
		if s != "" {
			d[name] = s
		}
	}
	if j.Remote {
		d["remote"] = true
	} else {
		d["lat"] = json.Number(strconv.FormatFloat(j.At.Lat, 'f', -1, 64))
		d["lng"] = json.Number(strconv.FormatFloat(j.At.Lng, 'f', -1, 64))
	}
	if j.Pay != (store.Pay{}) {
		pay := map[string]any{"amount": json.Number(fmt.Sprintf("%d.%02d", j.Pay.Amount/100, j.Pay.Amount%100))}
		if j.Pay.Currency != "" {
			pay["currency"] = j.Pay.Currency
		}
		if j.Pay.Per != "" {
			pay["per"] = j.Pay.Per
		}
		d["pay"] = pay
	}
	if !j.Expires.IsZero() {
		d["expires"] = j.Expires.UTC().Format(time.RFC3339Nano)
	}
	return d
}

// asWritten gives the faults that the domain found in a job the names of its body's fields.
func asWritten(err error) error {
	return renamed(err, map[string]string{"pay": "pay.amount", "currency": "pay.currency", "pay_per": "pay.per"})
}

// renamed gives faults in some fields other names. Other errors stay as they are.
func renamed(err error, names map[string]string) error {
	list := asFaults(err)
	if len(list) == 0 {
		return err
	}
	out := make([]store.Fault, len(list))
	for i, f := range list {
		f.Field = cmp.Or(names[f.Field], f.Field)
		out[i] = f
	}
	return &store.InvalidError{Faults: out}
}

// link reads a link that others will be shown: one that runs a script is none.
func (f *faults) link(field string, s *string) string {
	text := f.line(field, s)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		f.add(field, "%.80q is not a link: want http:// or https://", text)
	}
	return text
}

func (a *api) matchEndpoints() []endpoint {
	jobAnswer, app := reflect.TypeFor[job](), reflect.TypeFor[application]()
	list := []endpoint{
		{
			method: http.MethodPost, path: "/v1/jobs", id: "post-job", summary: "Post a job",
			about: "The caller becomes the job's requester, and searches find it at once.",
			body:  reflect.TypeFor[jobInput](), needed: true, answers: map[int]reflect.Type{http.StatusCreated: jobAnswer}, etag: true,
			handle: a.postJob,
		},
		{
			method: http.MethodPatch, path: "/v1/jobs/{id}", id: "edit-job", summary: "Edit a job",
			about: "Only the requester, and only while the job is open. Who has applied is told.",
			body:  reflect.TypeFor[jobInput](), patch: true, needed: true, ifMatch: needsCondition,
			answers: map[int]reflect.Type{http.StatusOK: jobAnswer}, etag: true,
			errors: []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict}, handle: a.editJob,
		},
		{
			method: http.MethodPost, path: "/v1/jobs/{id}/cancel", id: "cancel-job", summary: "Cancel a job",
			about: "Only the requester, at any time before the job is completed. All applications end, and their workers are told.",
			body:  reflect.TypeFor[reasonInput](), ifMatch: mayHaveCondition,
			answers: map[int]reflect.Type{http.StatusOK: jobAnswer}, etag: true,
			errors: []int{http.StatusForbidden, http.StatusNotFound}, handle: a.cancelJob,
		},
		{
			method: http.MethodGet, path: "/v1/jobs/{id}/events", id: "job-events", summary: "Read a job's history",
			about: "The requester sees all of it, and who has applied what is about the job or their own application; nobody else.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[eventList]()},
			errors: []int{http.StatusForbidden, http.StatusNotFound}, handle: a.events,
		},
		{
			method: http.MethodPost, path: "/v1/jobs/{id}/applications", id: "apply", summary: "Apply for a job",
			about: "Anybody but the requester, while the job is open. There is one application for each worker and job: who may apply again takes up their own, which is answered with 200.",
			body:  reflect.TypeFor[applyInput](), answers: map[int]reflect.Type{http.StatusCreated: app, http.StatusOK: app}, etag: true,
			errors: []int{http.StatusForbidden, http.StatusNotFound}, handle: a.apply,
		},
		{
			method: http.MethodGet, path: "/v1/jobs/{id}/applications", id: "job-applications", summary: "List the applications for a job",
			about: "Those that the caller may see: for the requester all of them, the first first; for anybody else their own, if there is one.",
			paged: true, answers: map[int]reflect.Type{http.StatusOK: reflect.TypeFor[applicationList]()},
			errors: []int{http.StatusNotFound}, handle: a.applications,
		},
		{
			method: http.MethodGet, path: "/v1/applications/{id}", id: "application", summary: "Read an application",
			about:   "Only its worker and the job's requester; for others there is none.",
			answers: map[int]reflect.Type{http.StatusOK: app}, etag: true,
			errors: []int{http.StatusNotFound}, handle: a.application,
		},
	}
	for _, x := range []struct {
		action         store.Action
		summary, about string
	}{
		{store.ActAccept, "Accept an application", "Only the requester, while the job is open. The job is matched and leaves every search; all other undecided applications are declined."},
		{store.ActDecline, "Decline an application", "Only the requester, while the job is open. The worker may not apply for it again."},
		{store.ActWithdraw, "Withdraw an application", "Only the worker, before the requester has decided."},
		{store.ActStart, "Start the work", "Only the accepted worker."},
		{store.ActFinish, "Report the work as finished", "Only the worker who has started."},
		{store.ActConfirm, "Confirm the work", "Only the requester, after the worker has reported it as finished. The job is completed."},
		{store.ActRework, "Send the work back", "Only the requester, after the worker has reported it as finished; with a reason. The work goes on."},
		{store.ActReject, "Reject the work", "Only the requester, after the worker has reported it as finished; with a reason. The match ends and the job is open again."},
		{store.ActResign, "Resign", "Only the accepted worker, until the work is confirmed. The match ends and the job is open again."},
	} {
		list = append(list, endpoint{
			method: http.MethodPost, path: "/v1/jobs/{id}/applications/{application}/" + string(x.action), id: string(x.action),
			summary: x.summary, about: x.about, body: reflect.TypeFor[reasonInput](), ifMatch: mayHaveCondition,
			answers: map[int]reflect.Type{http.StatusOK: app}, etag: true,
			errors: []int{http.StatusForbidden, http.StatusNotFound},
			handle: func(ctx context.Context, c *call) (reply, error) { return a.act(ctx, c, x.action) },
		})
	}
	for i := range list {
		list[i].tag = "Matching"
	}
	return list
}

// oneJob reads a job.
func (a *api) oneJob(ctx context.Context, id store.ID) (*store.Job, error) {
	found, err := a.deps.Jobs.Jobs(ctx, []store.ID{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, store.ErrNotFound
	}
	return &found[0], nil
}

// isRequester reports whether a user has posted a job. Nobody has posted what was imported.
func isRequester(j *store.Job, user store.UserID) bool { return user != "" && j.Requester == user }

// asRequester is a job as its requester sees it.
func (a *api) asRequester(j *store.Job, now time.Time) job {
	out := a.newJob(j, math.Inf(1))
	out.showPlace(j)
	out.State = string(j.StateAt(now))
	out.Requester, out.Version = j.Requester, j.Version
	can := append([]action{}, actions(store.Allowed(store.RoleRequester, j.StateAt(now), "", false), j.ID, 0)...) // never null
	out.Actions = &can
	return out
}

// relate adds to a job what only those who have to do with it may see.
//
// Counting reads the job's applications, a thousand at a time: none is too many
// for its requester, who has to read them too.
func (a *api) relate(ctx context.Context, out *job, j *store.Job) error {
	user, now := store.UserID(auth.User(ctx)), a.deps.Now()
	out.State, out.Version = string(j.StateAt(now)), j.Version
	switch {
	case user == "":
		return nil
	case user != j.Requester:
		app, err := a.deps.Market.ApplicationFor(ctx, j.ID, user)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		out.ApplicationID = app.ID
		if app.State.Holds() {
			out.showPlace(j)
		}
		can := newApplication(&app, j, store.RoleWorker, now).Actions
		out.Actions = &can
		return nil
	}
	*out = a.asRequester(j, now)
	out.Applications = new(counts)
	for k := (store.Keys{Limit: store.MaxKeys}); ; {
		list, err := a.deps.Market.ApplicationsOf(ctx, j.ID, k)
		if err != nil {
			return err
		}
		for i := range list {
			app := &list[i]
			out.Applications.Total++
			if app.State == store.AppApplied {
				out.Applications.Undecided++
			}
			if app.State.Holds() {
				out.ApplicationID = app.ID
				*out.Actions = append(*out.Actions, newApplication(app, j, store.RoleRequester, now).Actions...)
			}
			k.After = int64(app.ID)
		}
		if len(list) < k.Limit {
			return nil
		}
	}
}

func (a *api) postJob(ctx context.Context, c *call) (reply, error) {
	var in jobInput
	c.fill(&in)
	j := store.Job{ID: a.deps.IDs.Next(), Posted: c.now, State: store.Open, Requester: c.user}
	j.SourceID = postedAs(c)
	in.apply(&c.faults, &j)
	if !j.Expires.IsZero() && !j.Expires.After(c.now) {
		c.add("expires", "is not in the future")
	}
	if err := c.err(); err != nil {
		return reply{}, err
	}
	for try := 0; ; try++ {
		out, err := a.deps.Market.Post(ctx, j)
		if !errors.Is(err, store.ErrDuplicate) || try == 2 {
			a.metrics.acted(store.ActPost, err)
			if err != nil {
				return reply{}, asWritten(err)
			}
			return a.posted(&out.Job, c.now), nil
		}
		// Either this very request was carried out before, or the id is taken.
		if j.SourceID != "" {
			earlier, err := a.postedBefore(ctx, &j)
			if err != nil {
				return reply{}, err
			}
			if earlier != nil {
				return a.posted(earlier, c.now), nil
			}
		}
		j.ID = a.deps.IDs.Next()
		if try == 1 {
			j.SourceID = "" // the key was used for the same job more than a day ago
		}
	}
}

func (a *api) posted(j *store.Job, now time.Time) reply {
	return reply{http.StatusCreated, a.asRequester(j, now), j.Version, "/v1/jobs/" + j.ID.String()}
}

// postedAs is the SourceID of a job that is posted with an Idempotency-Key: the
// same for the same request, so that the database's unique key stops a second
// job. The kept answer alone would not, where the process died, or the connection
// to the database broke, after the commit and before the answer was kept.
func postedAs(c *call) string {
	key := c.r.Header.Get(idempotency.HeaderKey)
	if key == "" {
		return ""
	}
	body, _ := json.Marshal(c.body) // of what json has read; names are sorted
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.user), []byte(strings.Trim(key, `"`)), body} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "post-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// postedBefore finds the job that the same request has posted, among those of the
// time for which answers are kept and a little more; nil: there is none.
func (a *api) postedBefore(ctx context.Context, j *store.Job) (*store.Job, error) {
	for k := (store.Keys{Limit: store.MaxKeys}); ; {
		list, err := a.deps.Market.MyJobs(ctx, j.Requester, k)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if list[i].Posted.Before(j.Posted.Add(-answersTTL - time.Hour)) {
				return nil, nil
			}
			if list[i].SourceID == j.SourceID {
				return &list[i], nil
			}
			k.After = int64(list[i].ID)
		}
		if len(list) < k.Limit {
			return nil, nil
		}
	}
}

func (a *api) editJob(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	patch, ok := c.body.(map[string]any)
	if !ok && c.given {
		c.add("body", "is %s, not an object", kindOf(c.body))
	}
	// A name that is not known would go unseen with null, which takes it away.
	var names []string
	for f := range reflect.TypeFor[jobInput]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	c.unknown("", patch, names)
	if pay, ok := patch["pay"].(map[string]any); ok {
		c.unknown("pay", pay, []string{"amount", "currency", "per"})
	}
	if c.has("id") || !ok {
		return reply{}, c.err()
	}
	j, err := a.oneJob(ctx, id)
	if err != nil {
		return reply{}, err
	}
	before := c.faults.list
	change := func(j *store.Job) error {
		f := faults{list: append([]store.Fault(nil), before...)} // it may be called again
		var in jobInput
		f.fillValue("", reflect.ValueOf(&in).Elem(), mergePatch(document(j), patch))
		in.apply(&f, j)
		return f.err()
	}
	if j.Requester == c.user {
		// All faults at once, also those that the job's state would come before.
		copied := *j
		if err := change(&copied); err != nil {
			return reply{}, err
		}
	}
	version := j.Version
	if !c.matches(version) && j.Requester == c.user {
		err := &store.VersionError{ID: id, Is: version}
		a.metrics.acted(store.ActEdit, err)
		return reply{}, err
	}
	out, err := a.deps.Market.Edit(ctx, store.Edit{Job: id, By: c.user, IfVersion: version, At: c.now, Change: change})
	a.metrics.acted(store.ActEdit, err)
	if err != nil {
		return reply{}, a.refusal(ctx, asWritten(err), 0)
	}
	return reply{status: http.StatusOK, body: a.asRequester(&out.Job, c.now), version: out.Job.Version}, nil
}

// reason reads the body of an action.
func (c *call) reason() string {
	var in reasonInput
	c.fill(&in)
	return value(in.Reason)
}

func (a *api) cancelJob(ctx context.Context, c *call) (reply, error) {
	cmd := store.Command{Action: store.ActCancel, Job: c.pathID("id"), Reason: c.reason()}
	out, err := a.command(ctx, c, cmd, func(j *store.Job) (int64, error) { return j.Version, nil })
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: a.asRequester(&out.Job, c.now), version: out.Job.Version}, nil
}

// command carries out a command. version reads the version that If-Match is about.
func (a *api) command(ctx context.Context, c *call, cmd store.Command, version func(*store.Job) (int64, error)) (store.Outcome, error) {
	cmd.By, cmd.At = c.user, c.now
	if !c.has("id") && !c.has("application") {
		probe := cmd
		c.merge(probe.Normalize())
	}
	if err := c.err(); err != nil {
		return store.Outcome{}, err
	}
	if c.matches != nil {
		j, err := a.oneJob(ctx, cmd.Job)
		if err != nil {
			return store.Outcome{}, err
		}
		if cmd.IfVersion, err = version(j); err != nil {
			return store.Outcome{}, err
		}
		if !c.matches(cmd.IfVersion) && (j.Requester == c.user || cmd.Application != 0) {
			err := &store.VersionError{ID: cmp.Or(cmd.Application, cmd.Job), Is: cmd.IfVersion}
			a.metrics.acted(cmd.Action, err)
			return store.Outcome{}, err
		}
	}
	out, err := a.deps.Market.Act(ctx, cmd)
	a.metrics.acted(cmd.Action, err)
	if err != nil {
		return store.Outcome{}, a.refusal(ctx, err, cmd.Application)
	}
	return out, nil
}

// refusal is the answer to an action that the states do not allow. Other errors
// stay as they are.
func (a *api) refusal(ctx context.Context, err error, app store.ID) error {
	var te *store.TransitionError
	if !errors.As(err, &te) {
		return err
	}
	p := newProblem(ctx, http.StatusConflict, strings.ToUpper(te.Error()[:1])+te.Error()[1:]+".")
	p.JobState, p.ApplicationState = te.JobState, te.Application
	p.Can = actions(te.Can, te.Job, app)
	return p
}

func (a *api) apply(ctx context.Context, c *call) (reply, error) {
	var in applyInput
	c.fill(&in)
	cmd := store.Command{Action: store.ActApply, Job: c.pathID("id"), Message: value(in.Message), By: c.user, At: c.now}
	if !c.has("id") {
		probe := cmd
		c.merge(probe.Normalize())
	}
	if err := c.err(); err != nil {
		return reply{}, err
	}
	out, err := a.deps.Market.Act(ctx, cmd)
	a.metrics.acted(cmd.Action, err)
	if err != nil {
		var te *store.TransitionError
		own := store.Application{}
		if errors.As(err, &te) && te.Application != "" {
			// For the links of what the worker can do; without it there are none.
			own, _ = a.deps.Market.ApplicationFor(ctx, cmd.Job, c.user)
		}
		return reply{}, a.refusal(ctx, err, own.ID)
	}
	status := http.StatusOK
	if out.Application.Version == 1 {
		status = http.StatusCreated
	}
	return reply{
		status, newApplication(&out.Application, &out.Job, store.RoleWorker, c.now), out.Application.Version,
		"/v1/applications/" + out.Application.ID.String(),
	}, nil
}

// seen reads an application and its job for who may see it, and as what.
func (a *api) seen(ctx context.Context, user store.UserID, id store.ID) (store.Application, *store.Job, store.Role, error) {
	app, err := a.deps.Market.Application(ctx, id)
	if err != nil {
		return app, nil, "", noApplication(ctx, err)
	}
	j, err := a.oneJob(ctx, app.Job)
	if err != nil {
		return app, nil, "", noApplication(ctx, err)
	}
	switch user {
	case "":
	case app.Worker:
		return app, j, store.RoleWorker, nil
	case j.Requester:
		return app, j, store.RoleRequester, nil
	}
	return app, nil, "", noApplication(ctx, store.ErrNotFound)
}

func noApplication(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return newProblem(ctx, http.StatusNotFound, detailNoApplication)
	}
	return err
}

func (a *api) act(ctx context.Context, c *call, action store.Action) (reply, error) {
	cmd := store.Command{Action: action, Job: c.pathID("id"), Application: c.pathID("application"), Reason: c.reason()}
	if c.has("id") || c.has("application") {
		return reply{}, c.err()
	}
	// Worker and requester of an application never change, so what is found here
	// holds under the lock as well.
	app, _, role, err := a.seen(ctx, c.user, cmd.Application)
	if err == nil && app.Job != cmd.Job {
		err = noApplication(ctx, store.ErrNotFound)
	}
	if err != nil {
		return reply{}, err
	}
	out, err := a.command(ctx, c, cmd, func(*store.Job) (int64, error) { return app.Version, nil })
	if err != nil {
		return reply{}, err
	}
	return reply{
		status: http.StatusOK, body: newApplication(&out.Application, &out.Job, role, c.now), version: out.Application.Version,
	}, nil
}

func (a *api) application(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	if err := c.err(); err != nil {
		return reply{}, err
	}
	app, j, role, err := a.seen(ctx, c.user, id)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, body: newApplication(&app, j, role, c.now), version: app.Version}, nil
}

func (a *api) applications(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	k := c.keys("applications", id.String())
	if err := c.err(); err != nil {
		return reply{}, err
	}
	j, err := a.oneJob(ctx, id)
	if err != nil {
		return reply{}, err
	}
	role := store.RoleRequester
	var list []store.Application
	if j.Requester == c.user {
		list, err = a.deps.Market.ApplicationsOf(ctx, id, k)
	} else {
		role = store.RoleWorker
		var own store.Application
		own, err = a.deps.Market.ApplicationFor(ctx, id, c.user)
		switch {
		case errors.Is(err, store.ErrNotFound):
			err = nil
		case err == nil && int64(own.ID) > k.After:
			list = []store.Application{own}
		}
	}
	if err != nil {
		return reply{}, err
	}
	out := applicationList{Applications: []application{}}
	list, out.NextCursor = cut(list, k, "applications", id.String(), func(app *store.Application) int64 { return int64(app.ID) })
	for i := range list {
		out.Applications = append(out.Applications, newApplication(&list[i], j, role, c.now))
	}
	return reply{status: http.StatusOK, body: out}, nil
}

func (a *api) events(ctx context.Context, c *call) (reply, error) {
	id := c.pathID("id")
	scope := id.String() + " " + string(c.user)
	k := c.keys("events", scope)
	if err := c.err(); err != nil {
		return reply{}, err
	}
	j, err := a.oneJob(ctx, id)
	if err != nil {
		return reply{}, err
	}
	key := func(e *store.Event) int64 { return e.Seq }
	var list []store.Event
	requester := j.Requester == c.user
	if requester {
		list, err = a.deps.Market.Events(ctx, id, k)
	} else {
		key = func(e *store.Event) int64 { return int64(e.ID) }
		list, err = a.workersEvents(ctx, id, c.user, k)
	}
	if err != nil {
		return reply{}, err
	}
	out := eventList{Events: []event{}}
	list, out.NextCursor = cut(list, k, "events", scope, key)
	for _, e := range list {
		shown := event{
			ID: e.ID, At: e.At.UTC(), Action: e.Action, Role: e.Role, ApplicationID: e.Application,
			FromJob: e.FromJob, ToJob: e.ToJob, From: e.FromApp, To: e.ToApp, Reason: e.Reason,
		}
		if requester || e.Actor == c.user {
			shown.Actor = e.Actor
		}
		if requester {
			shown.Told = &e.Told
		}
		out.Events = append(out.Events, shown)
	}
	return reply{status: http.StatusOK, body: out}, nil
}

// workersEvents are the events of a job that a worker may see. Their key is the
// id and not Seq, for the gaps in that would tell how many others have applied;
// so the history is read from its beginning, a thousand events a statement.
func (a *api) workersEvents(ctx context.Context, job store.ID, user store.UserID, k store.Keys) ([]store.Event, error) {
	own, err := a.deps.Market.ApplicationFor(ctx, job, user)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: only the requester and who has applied can read the history", store.ErrForbidden)
	}
	if err != nil {
		return nil, err
	}
	var out []store.Event
	begun := k.After == 0 // ids are of several nodes' clocks, so they are only compared
	for all := (store.Keys{Limit: store.MaxKeys}); ; {
		list, err := a.deps.Market.Events(ctx, job, all)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			all.After = e.Seq
			if e.Application != 0 && e.Application != own.ID {
				continue
			}
			if !begun {
				begun = int64(e.ID) == k.After
				continue
			}
			if out = append(out, e); len(out) == k.Limit {
				return out, nil
			}
		}
		if len(list) < all.Limit {
			return out, nil
		}
	}
}
