package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

var _ store.Market = (*Engine)(nil)

// lockedJob is a job's record under its lock.
type lockedJob struct {
	record
	Seq int64 `db:"seq"`
}

// lockJob locks a job and reads it.
func (e *Engine) lockJob(ctx context.Context, tx *sqlx.Tx, id store.ID) (store.Job, int64, error) {
	var found []lockedJob
	// The limit is for a wait to end as one for a lock, as in lockStored.
	if err := e.sel(ctx, tx, &found, "SELECT "+maxTime(e.timeout+grace-250*time.Millisecond)+" "+jobColumns+", seq FROM job WHERE id = ? FOR UPDATE",
		int64(id)); err != nil {
		return store.Job{}, 0, err
	}
	if len(found) == 0 {
		return store.Job{}, 0, fmt.Errorf("job %s: %w", id, store.ErrNotFound)
	}
	return found[0].job(), found[0].Seq, nil
}

// happened reports whether an event is stored. The caller has the lock of its job.
func (e *Engine) happened(ctx context.Context, tx *sqlx.Tx, event store.ID) (bool, error) {
	var n []int
	err := e.sel(ctx, tx, &n, "SELECT 1 FROM job_event WHERE id = ?", int64(event))
	return len(n) > 0, err
}

// Post implements [store.Matching].
func (e *Engine) Post(ctx context.Context, j store.Job) (store.Outcome, error) {
	eff, err := store.Posted(j, e.ids.Next())
	if err != nil {
		return store.Outcome{}, err
	}
	err = e.transition(ctx, string(store.ActPost), true, func(tx *sqlx.Tx, unknown bool) error {
		if unknown {
			if _, _, err := e.lockJob(ctx, tx, eff.Job.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if done, err := e.happened(ctx, tx, eff.Events[0].ID); done || err != nil {
				return err
			}
		}
		eff.Events[0].ID = e.ids.Next()
		_, err := e.exec(ctx, tx, "INSERT INTO job ("+jobColumns+", seq) VALUES (?"+strings.Repeat(", ?", len(jobArgs(&eff.Job)))+")",
			append(jobArgs(&eff.Job), int64(1))...)
		if hasNumber(err, errDuplicate) {
			// Not MySQL's error, which would be tried again: that is for an event
			// whose id another node has made too.
			return fmt.Errorf("job %s: %w", eff.Job.ID, store.ErrDuplicate)
		}
		if err != nil {
			return err
		}
		if err := e.show(ctx, tx, []store.Job{eff.Job}); err != nil {
			return err
		}
		return e.recordEffects(ctx, tx, &eff)
	})
	if err != nil {
		return store.Outcome{}, err
	}
	return eff.Outcome(), nil
}

// Edit implements [store.Matching].
func (e *Engine) Edit(ctx context.Context, d store.Edit) (store.Outcome, error) {
	c := store.Command{Action: store.ActEdit, Job: d.Job, By: d.By, IfVersion: d.IfVersion, At: d.At}
	if err := c.NormalizeEdit(); err != nil {
		return store.Outcome{}, err
	}
	return e.act(ctx, c, d.Change)
}

// Act implements [store.Matching].
func (e *Engine) Act(ctx context.Context, c store.Command) (store.Outcome, error) {
	if err := c.Normalize(); err != nil {
		return store.Outcome{}, err
	}
	return e.act(ctx, c, nil)
}

// expireSQL finds what the sweep is to mark.
const expireSQL = "SELECT id FROM job WHERE sweep <= ? ORDER BY sweep LIMIT ?"

// Expire implements [store.Matching].
func (e *Engine) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	now = now.UTC().Truncate(time.Millisecond)
	var late []store.ID
	if err := e.sel(ctx, e.db, &late, expireSQL, store.Millis(now), limit); err != nil {
		return 0, translate(ctx, err)
	}
	n := 0
	var errs []error // of jobs that do not keep the others from being marked
	for _, id := range late {
		_, err := e.act(ctx, store.Command{Action: store.ActExpire, Job: id, At: now}, nil)
		var te *store.TransitionError
		switch {
		case err == nil:
			n++
		case errors.As(err, &te): // another node was faster
		case ctx.Err() != nil:
			return n, err
		default:
			errs = append(errs, fmt.Errorf("expire job %s: %w", id, err))
		}
	}
	return n, errors.Join(errs...)
}

// act carries out a command in a transaction. change is an edit's.
func (e *Engine) act(ctx context.Context, c store.Command, change func(*store.Job) error) (store.Outcome, error) {
	var out store.Outcome
	var event store.ID // of the attempt before, by which its outcome is found out
	var own error      // change's, which is nobody's to translate
	err := e.transition(ctx, string(c.Action), true, func(tx *sqlx.Tx, unknown bool) error {
		own = nil
		if err := e.findJob(ctx, tx, &c); err != nil {
			return err
		}
		job, seq, err := e.lockJob(ctx, tx, c.Job)
		if err != nil {
			return err
		}
		if unknown {
			if done, err := e.happened(ctx, tx, event); done || err != nil {
				return err // out is still that attempt's
			}
		}
		event, out = e.ids.Next(), store.Outcome{}
		app, err := e.subject(ctx, tx, &c)
		if err != nil {
			return err
		}
		d, err := store.Decide(c, job, app)
		if err != nil {
			return err
		}
		if change != nil {
			changed, err := d.Change(change)
			if err != nil {
				own = err
				return err
			}
			if !changed {
				out = store.Outcome{Job: job}
				return nil
			}
		}
		others, err := e.others(ctx, tx, d.Needs(), job.ID, app)
		if err != nil {
			return err
		}
		if err := e.room(ctx, tx, &c); err != nil {
			return err
		}
		eff := d.Effects(others, seq, event, e.ids.Next)
		if err := e.carryOut(ctx, tx, &job, seq, app, &eff, change != nil); err != nil {
			return err
		}
		out = eff.Outcome()
		return nil
	})
	if own != nil && !errors.Is(err, store.ErrUnknownOutcome) {
		return store.Outcome{}, own
	}
	if err != nil {
		return store.Outcome{}, err
	}
	return out, nil
}

// findJob fills in the job of a command that names only the application. An
// application's job never changes, so this needs no lock.
func (e *Engine) findJob(ctx context.Context, tx *sqlx.Tx, c *store.Command) error {
	if c.Job != 0 {
		return nil
	}
	var jobs []store.ID
	if err := e.sel(ctx, tx, &jobs, "SELECT job FROM application WHERE id = ?", int64(c.Application)); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("application %s: %w", c.Application, store.ErrNotFound)
	}
	c.Job = jobs[0]
	return nil
}

// subject reads the application that a command is about, under the job's lock.
func (e *Engine) subject(ctx context.Context, tx *sqlx.Tx, c *store.Command) (*store.Application, error) {
	if c.Application != 0 {
		app, err := e.findApplication(ctx, tx, "job = ? AND id = ?", int64(c.Job), int64(c.Application))
		if err == nil && app == nil {
			err = fmt.Errorf("application %s of job %s: %w", c.Application, c.Job, store.ErrNotFound)
		}
		if !c.Action.OnApplication() {
			app = nil // it only named the job, and is one of those that the action has consequences for
		}
		return app, err
	}
	if !c.Action.OnApplication() {
		return nil, nil
	}
	if store.RoleOf(c.Action) == store.RoleWorker {
		return e.findApplication(ctx, tx, "job = ? AND worker = ?", int64(c.Job), string(c.By))
	}
	return e.findApplication(ctx, tx, "held = ?", int64(c.Job))
}

// room returns an error when a job has as many applicants as it may have.
func (e *Engine) room(ctx context.Context, tx *sqlx.Tx, c *store.Command) error {
	if c.Action != store.ActApply {
		return nil
	}
	var n []int
	if err := e.sel(ctx, tx, &n, "SELECT COUNT(*) FROM application WHERE job = ? AND state = 'applied'", int64(c.Job)); err != nil {
		return err
	}
	if n[0] >= store.MaxApplicants {
		return store.FullError(c, c.Job)
	}
	return nil
}

// others reads a job's applications in some states, but for one.
func (e *Engine) others(ctx context.Context, tx *sqlx.Tx, states []store.ApplicationState, job store.ID, but *store.Application) ([]store.Application, error) {
	if len(states) == 0 {
		return nil, nil
	}
	args := []any{int64(job)}
	for _, s := range states {
		args = append(args, string(s))
	}
	var rows []appRow
	if err := e.sel(ctx, tx, &rows, "SELECT "+appColumns+" FROM application WHERE job = ? AND state IN (?"+
		strings.Repeat(", ?", len(states)-1)+") ORDER BY id", args...); err != nil {
		return nil, err
	}
	apps := make([]store.Application, 0, len(rows))
	for i := range rows {
		if but == nil || rows[i].ID != but.ID {
			apps = append(apps, rows[i].application())
		}
	}
	return apps, nil
}

// errHalf is a guarded write that did not find the rows as they were read.
var errHalf = errors.New("mysql: a row has changed under the lock of its job")

// changing runs a write that must find n rows.
func (e *Engine) changing(ctx context.Context, tx *sqlx.Tx, n int, query string, args ...any) error {
	got, err := e.exec(ctx, tx, query, args...)
	if err == nil && got != int64(n) {
		err = fmt.Errorf("%w: %d rows, want %d", errHalf, got, n)
	}
	return err
}

// carryOut writes a transition's rows. The job and app are as they were. The
// order is that of the locks: job, search tables, applications.
func (e *Engine) carryOut(ctx context.Context, tx *sqlx.Tx, was *store.Job, seq int64, app *store.Application, eff *store.Effects, edited bool) error {
	j := &eff.Job
	set, args := "", []any(nil)
	if edited {
		set = "title = ?, description = ?, url = ?, category = ?, employer = ?, pay = ?, currency = ?, pay_per = ?, lat = ?, lng = ?, remote = ?, expires = ?, "
		a := jobArgs(j)
		args = append(slices.Clone(a[3:14]), a[16])
	}
	args = append(args, string(j.State), j.Version, eff.Events[len(eff.Events)-1].Seq, int64(j.ID), string(was.State), was.Version, seq)
	if err := e.changing(ctx, tx, 1, "UPDATE job SET "+set+"state = ?, version = ?, seq = ? WHERE id = ? AND state = ? AND version = ? AND seq = ?", args...); err != nil {
		return err
	}
	if edited || was.State != j.State {
		if was.State == store.Open {
			if err := e.hideOne(ctx, tx, was); err != nil {
				return err
			}
		}
		if err := e.show(ctx, tx, []store.Job{*j}); err != nil {
			return err
		}
	}
	if a := eff.Application; a != nil && app == nil {
		if _, err := e.exec(ctx, tx, "INSERT INTO application ("+appColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			int64(a.ID), int64(a.Job), string(a.Worker), string(a.State), a.Message, a.Reason, a.MayReapply,
			store.Millis(a.Created), store.Millis(a.Updated), a.Version); err != nil {
			return err
		}
	} else if a != nil {
		if err := e.changing(ctx, tx, 1, "UPDATE application SET state = ?, message = ?, reason = ?, may_reapply = ?, updated = ?, version = ?"+
			" WHERE job = ? AND id = ? AND state = ? AND version = ?",
			string(a.State), a.Message, a.Reason, a.MayReapply, store.Millis(a.Updated), a.Version,
			int64(a.Job), int64(a.ID), string(app.State), app.Version); err != nil {
			return err
		}
	}
	if err := e.changeOthers(ctx, tx, eff); err != nil {
		return err
	}
	return e.recordEffects(ctx, tx, eff)
}

// changeOthers gives the other applications, which all change alike, their new state.
func (e *Engine) changeOthers(ctx context.Context, tx *sqlx.Tx, eff *store.Effects) error {
	for part := range slices.Chunk(eff.Others, maxIDs) {
		a := &part[0]
		args := []any{string(a.State), a.Reason, a.MayReapply, store.Millis(a.Updated), int64(a.Job)}
		for i := range part {
			args = append(args, int64(part[i].ID), part[i].Version-1)
		}
		if err := e.changing(ctx, tx, len(part), "UPDATE application SET state = ?, reason = ?, may_reapply = ?, updated = ?, version = version + 1"+
			" WHERE job = ? AND (id, version) IN ((?, ?)"+strings.Repeat(", (?, ?)", len(part)-1)+")", args...); err != nil {
			return err
		}
	}
	return nil
}

// hideOne takes an open job out of its search table.
func (e *Engine) hideOne(ctx context.Context, tx *sqlx.Tx, j *store.Job) error {
	from := "open_job AS o FORCE INDEX (id)"
	if j.Remote {
		from = "open_remote_job AS o FORCE INDEX (PRIMARY)"
	}
	_, err := e.exec(ctx, tx, "DELETE o FROM "+from+" WHERE o.id = ?", int64(j.ID))
	return err
}

// recordEffects writes the events and messages of a transition.
func (e *Engine) recordEffects(ctx context.Context, tx *sqlx.Tx, eff *store.Effects) error {
	events := inserter{e: e, tx: tx, head: "INSERT INTO job_event (" + eventColumns + ") VALUES "}
	for i := range eff.Events {
		v := &eff.Events[i]
		if err := events.add(ctx, []any{int64(v.Job), v.Seq, int64(v.ID), int64(v.Application), string(v.Action), string(v.Role), string(v.Actor),
			store.Millis(v.At), string(v.FromJob), string(v.ToJob), string(v.FromApp), string(v.ToApp), v.Reason, v.Told}); err != nil {
			return err
		}
	}
	if err := events.flush(ctx); err != nil {
		return err
	}
	messages := inserter{e: e, tx: tx, head: "INSERT INTO outbox (event, job, application, recipient, role, action, actor, at, title, job_state, note," +
		" state, attempts, due, node, last_error) VALUES "}
	for i := range eff.Messages {
		m := &eff.Messages[i]
		if err := messages.add(ctx, []any{int64(m.Event), int64(m.Job), int64(m.Application), string(m.Recipient), string(m.Role), string(m.Action),
			string(m.Actor), store.Millis(m.At), m.Title, string(m.JobState), m.Note, string(m.State), 0, store.Millis(m.Due), "", ""}); err != nil {
			return err
		}
	}
	return messages.flush(ctx)
}

const appColumns = "id, job, worker, state, message, reason, may_reapply, created, updated, version"

// appRow is a row of appColumns.
type appRow struct {
	ID         store.ID               `db:"id"`
	Job        store.ID               `db:"job"`
	Worker     store.UserID           `db:"worker"`
	State      store.ApplicationState `db:"state"`
	Message    string                 `db:"message"`
	Reason     string                 `db:"reason"`
	MayReapply bool                   `db:"may_reapply"`
	Created    int64                  `db:"created"`
	Updated    int64                  `db:"updated"`
	Version    int64                  `db:"version"`
}

func (r *appRow) application() store.Application {
	return store.Application{ID: r.ID, Job: r.Job, Worker: r.Worker, State: r.State, Message: r.Message, Reason: r.Reason,
		MayReapply: r.MayReapply, Created: store.Time(r.Created), Updated: store.Time(r.Updated), Version: r.Version}
}

// findApplication returns the application that a condition is true of, or nil.
func (e *Engine) findApplication(ctx context.Context, q sqlx.QueryerContext, where string, args ...any) (*store.Application, error) {
	var rows []appRow
	if err := e.sel(ctx, q, &rows, "SELECT "+appColumns+" FROM application WHERE "+where, args...); err != nil || len(rows) == 0 {
		return nil, err
	}
	a := rows[0].application()
	return &a, nil
}

const eventColumns = "job, seq, id, application, action, role, actor, at, from_job, to_job, from_app, to_app, reason, told"

// eventRow is a row of eventColumns.
type eventRow struct {
	Job         store.ID               `db:"job"`
	Seq         int64                  `db:"seq"`
	ID          store.ID               `db:"id"`
	Application store.ID               `db:"application"`
	Action      store.Action           `db:"action"`
	Role        store.Role             `db:"role"`
	Actor       store.UserID           `db:"actor"`
	At          int64                  `db:"at"`
	FromJob     store.State            `db:"from_job"`
	ToJob       store.State            `db:"to_job"`
	FromApp     store.ApplicationState `db:"from_app"`
	ToApp       store.ApplicationState `db:"to_app"`
	Reason      string                 `db:"reason"`
	Told        int                    `db:"told"`
}

func (r *eventRow) event() store.Event {
	return store.Event{ID: r.ID, Job: r.Job, Seq: r.Seq, Application: r.Application, Action: r.Action, Role: r.Role, Actor: r.Actor,
		At: store.Time(r.At), FromJob: r.FromJob, ToJob: r.ToJob, FromApp: r.FromApp, ToApp: r.ToApp, Reason: r.Reason, Told: r.Told}
}

// The lists, each along an index. Without the hints, the jobs and messages of who has a
// large share of all are looked for along the primary key, past everybody else's.
const (
	appsOfSQL = "SELECT " + appColumns + " FROM application WHERE job = ? AND id > ? ORDER BY id LIMIT ?"
	myJobsSQL = "SELECT " + jobColumns + " FROM job FORCE INDEX (requester_id) WHERE requester = ? AND id < ? ORDER BY id DESC LIMIT ?"
	myAppsSQL = "SELECT " + appColumns + " FROM application WHERE worker = ? AND id < ? ORDER BY id DESC LIMIT ?"
	eventsSQL = "SELECT " + eventColumns + " FROM job_event WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?"
)

// Application implements [store.MatchReader].
func (e *Engine) Application(ctx context.Context, id store.ID) (store.Application, error) {
	return e.oneApplication(ctx, "application "+id.String(), "id = ?", int64(id))
}

// ApplicationFor implements [store.MatchReader].
func (e *Engine) ApplicationFor(ctx context.Context, job store.ID, worker store.UserID) (store.Application, error) {
	return e.oneApplication(ctx, "application for job "+job.String(), "job = ? AND worker = ?", int64(job), string(worker))
}

func (e *Engine) oneApplication(ctx context.Context, what, where string, args ...any) (store.Application, error) {
	app, err := e.findApplication(ctx, e.db, where, args...)
	if err != nil {
		return store.Application{}, translate(ctx, err)
	}
	if app == nil {
		return store.Application{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	return *app, nil
}

// ApplicationsOf implements [store.MatchReader].
func (e *Engine) ApplicationsOf(ctx context.Context, job store.ID, k store.Keys) ([]store.Application, error) {
	return list(ctx, e, k, (*appRow).application, appsOfSQL, int64(job), k.After, k.Limit)
}

// MyJobs implements [store.MatchReader].
func (e *Engine) MyJobs(ctx context.Context, user store.UserID, k store.Keys) ([]store.Job, error) {
	if user == "" {
		return nil, k.Validate() // the imported jobs are nobody's
	}
	return list(ctx, e, k, (*record).job, myJobsSQL, string(user), k.Before(), k.Limit)
}

// MyApplications implements [store.MatchReader].
func (e *Engine) MyApplications(ctx context.Context, user store.UserID, k store.Keys) ([]store.Application, error) {
	return list(ctx, e, k, (*appRow).application, myAppsSQL, string(user), k.Before(), k.Limit)
}

// Events implements [store.MatchReader].
func (e *Engine) Events(ctx context.Context, job store.ID, k store.Keys) ([]store.Event, error) {
	return list(ctx, e, k, (*eventRow).event, eventsSQL, int64(job), k.After, k.Limit)
}

// list reads all rows of a statement.
func list[R, T any](ctx context.Context, e *Engine, k store.Keys, make func(*R) T, query string, args ...any) ([]T, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	var rows []R
	if err := e.sel(ctx, e.db, &rows, query, args...); err != nil {
		return nil, translate(ctx, err)
	}
	var all []T
	for i := range rows {
		all = append(all, make(&rows[i]))
	}
	return all, nil
}
