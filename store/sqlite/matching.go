package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/store"
)

var _ store.Market = (*Engine)(nil)

// The lifecycle. BEGIN IMMEDIATE takes the write lock of the file before the job
// is read, so that no other writer can come between what was read and what is
// written; the UPDATEs ask for the state and version again all the same, which
// costs nothing and makes a fault an error rather than a half state. A COMMIT is
// local: its outcome is always known, and nothing has to be tried again.

// Post implements [store.Matching].
func (e *Engine) Post(ctx context.Context, j store.Job) (store.Outcome, error) {
	eff, err := store.Posted(j, e.ids.Next())
	if err != nil {
		return store.Outcome{}, err
	}
	r := newRow(e.blur, eff.Job)
	added := false
	for range 3 {
		if err = e.write(ctx, func(c *conn) error {
			added = false
			if err := c.add(&r); err != nil {
				return err
			}
			added = true
			if err := c.run(nil, "UPDATE job SET seq = 1 WHERE id = ?", int64(eff.Job.ID)); err != nil {
				return err
			}
			return c.record(&eff)
		}); !added || !errors.Is(err, store.ErrDuplicate) {
			break
		}
		eff.Events[0].ID = e.ids.Next() // as in act
	}
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

// Expire implements [store.Matching].
func (e *Engine) Expire(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	now = now.UTC().Truncate(time.Millisecond)
	var late []store.ID
	err := e.read(ctx, func(c *conn) error {
		return c.run(func(s *sqlite3.Stmt) error {
			late = append(late, store.ID(s.ColumnInt64(0)))
			return nil
		}, expireSQL, store.Millis(now), int64(limit))
	})
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error // of jobs that do not keep the others from being marked
	for _, id := range late {
		_, err := e.act(ctx, store.Command{Action: store.ActExpire, Job: id, At: now}, nil)
		var te *store.TransitionError
		switch {
		case err == nil:
			n++
		case errors.As(err, &te): // somebody was faster
		case ctx.Err() != nil:
			return n, err
		default:
			errs = append(errs, fmt.Errorf("expire job %s: %w", id, err))
		}
	}
	return n, errors.Join(errs...)
}

const expireSQL = "SELECT id FROM job WHERE state = 'open' AND requester <> '' AND expires <= ? ORDER BY expires LIMIT ?"

// act carries out a command in a transaction. change is an edit's.
func (e *Engine) act(ctx context.Context, cmd store.Command, change func(*store.Job) error) (out store.Outcome, err error) {
	for range 3 {
		// Where two processes have made one id by accident, the next is another.
		if out, err = e.actOnce(ctx, cmd, change); !errors.Is(err, store.ErrDuplicate) {
			break
		}
	}
	return out, err
}

func (e *Engine) actOnce(ctx context.Context, cmd store.Command, change func(*store.Job) error) (out store.Outcome, err error) {
	var foreign error // change's own error, which is nobody's to translate
	err = e.write(ctx, func(c *conn) error {
		job, seq, app, err := c.subject(&cmd)
		if err != nil {
			return err
		}
		d, err := store.Decide(cmd, job, app)
		if err != nil {
			return err
		}
		if change != nil {
			changed, err := d.Change(change)
			if err != nil {
				foreign = err
				return err
			}
			if !changed {
				out = store.Outcome{Job: job}
				return nil
			}
		}
		others, err := c.others(d.Needs(), job.ID, app)
		if err != nil {
			return err
		}
		if err := c.room(&cmd, job.ID); err != nil {
			return err
		}
		eff := d.Effects(others, seq, e.ids.Next(), e.ids.Next)
		if err := c.carryOut(&job, seq, app, &eff, change != nil); err != nil {
			return err
		}
		out = eff.Outcome()
		return nil
	})
	if foreign != nil {
		err = foreign
	}
	if err != nil {
		return store.Outcome{}, err
	}
	return out, nil
}

// subject reads the job and the application that a command is about.
func (c *conn) subject(cmd *store.Command) (job store.Job, seq int64, app *store.Application, err error) {
	if cmd.Application != 0 {
		app, err = c.application("id = ?", int64(cmd.Application))
		if err == nil && (app == nil || cmd.Job != 0 && app.Job != cmd.Job) {
			err = fmt.Errorf("application %s: %w", cmd.Application, store.ErrNotFound)
		}
		if err != nil {
			return
		}
		cmd.Job = app.Job
		if !cmd.Action.OnApplication() {
			app = nil // it only named the job, and is one of those that the action has consequences for
		}
	}
	found := false
	err = c.run(func(s *sqlite3.Stmt) error {
		job, seq, found = scanJob(s), s.ColumnInt64(18), true
		return nil
	}, "SELECT "+jobColumns+", seq FROM job WHERE id = ?", int64(cmd.Job))
	if err == nil && !found {
		err = fmt.Errorf("job %s: %w", cmd.Job, store.ErrNotFound)
	}
	if err != nil || app != nil || !cmd.Action.OnApplication() {
		return
	}
	switch store.RoleOf(cmd.Action) {
	case store.RoleWorker:
		app, err = c.application("job = ? AND worker = ?", int64(cmd.Job), string(cmd.By))
	case store.RoleRequester:
		app, err = c.application("job = ? AND state IN ('accepted', 'started', 'finished', 'confirmed')", int64(cmd.Job))
	}
	return
}

// room returns an error when a job has as many applicants as it may have.
func (c *conn) room(cmd *store.Command, job store.ID) error {
	if cmd.Action != store.ActApply {
		return nil
	}
	var n int64
	if err := c.run(func(s *sqlite3.Stmt) error { n = s.ColumnInt64(0); return nil },
		"SELECT count(*) FROM application WHERE job = ? AND state = 'applied'", int64(job)); err != nil {
		return err
	}
	if n >= store.MaxApplicants {
		return store.FullError(cmd, job)
	}
	return nil
}

// others reads a job's applications in some states, but for one.
func (c *conn) others(states []store.ApplicationState, job store.ID, but *store.Application) (apps []store.Application, err error) {
	if len(states) == 0 {
		return nil, nil
	}
	args := []any{int64(job)}
	for _, s := range states {
		args = append(args, string(s))
	}
	err = c.run(func(s *sqlite3.Stmt) error {
		if a := scanApplication(s); but == nil || a.ID != but.ID {
			apps = append(apps, a)
		}
		return nil
	}, "SELECT "+appColumns+" FROM application WHERE job = ? AND state IN (?"+strings.Repeat(", ?", len(states)-1)+") ORDER BY id", args...)
	return apps, err
}

// errHalf is a guarded write that did not find the row as it was read.
var errHalf = errors.New("sqlite: a row has changed within its transaction")

// changing runs a write that must change n rows.
func (c *conn) changing(n int64, sql string, args ...any) error {
	if err := c.run(nil, sql, args...); err != nil {
		return err
	}
	if c.Changes() != n {
		return fmt.Errorf("%w: %d rows, want %d", errHalf, c.Changes(), n)
	}
	return nil
}

// carryOut writes a transition's rows. The job and app are as they were.
func (c *conn) carryOut(was *store.Job, seq int64, app *store.Application, eff *store.Effects, edited bool) error {
	j := &eff.Job
	last := eff.Events[len(eff.Events)-1].Seq
	if err := c.changing(1, "UPDATE job SET state = ?, version = ?, seq = ? WHERE id = ? AND state = ? AND version = ? AND seq = ?",
		string(j.State), j.Version, last, int64(j.ID), string(was.State), was.Version, seq); err != nil {
		return err
	}
	switch {
	case edited:
		r := newRow(c.blur, *j)
		if err := c.change(was, &r); err != nil {
			return err
		}
	case was.State != j.State:
		if err := c.hide(was); err != nil {
			return err
		}
		if j.State == store.Open {
			r := newRow(c.blur, *j)
			if err := c.show(&r); err != nil {
				return err
			}
		}
	}
	if a := eff.Application; a != nil && app == nil {
		if err := c.run(nil, "INSERT INTO application ("+appColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", appArgs(a)...); err != nil {
			return err
		}
	} else if a != nil {
		if err := c.changeApplication(a, app.State); err != nil {
			return err
		}
	}
	for i := range eff.Others {
		// The event of each says what it was.
		from := eff.Events[i+1].FromApp
		if err := c.changeApplication(&eff.Others[i], from); err != nil {
			return err
		}
	}
	return c.record(eff)
}

func (c *conn) changeApplication(a *store.Application, from store.ApplicationState) error {
	return c.changing(1, `UPDATE application SET state = ?, message = ?, reason = ?, may_reapply = ?, updated = ?, version = ?
		WHERE job = ? AND id = ? AND state = ? AND version = ?`,
		string(a.State), a.Message, a.Reason, bit(a.MayReapply), store.Millis(a.Updated), a.Version,
		int64(a.Job), int64(a.ID), string(from), a.Version-1)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// record writes the events and messages of a transition.
func (c *conn) record(eff *store.Effects) error {
	for i := range eff.Events {
		v := &eff.Events[i]
		if err := c.run(nil, "INSERT INTO job_event ("+eventColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			int64(v.Job), v.Seq, int64(v.ID), int64(v.Application), string(v.Action), string(v.Role), string(v.Actor), store.Millis(v.At),
			string(v.FromJob), string(v.ToJob), string(v.FromApp), string(v.ToApp), v.Reason, int64(v.Told)); err != nil {
			return err
		}
	}
	for i := range eff.Messages {
		m := &eff.Messages[i]
		if err := c.run(nil, `INSERT INTO outbox (event, job, application, recipient, role, action, actor, at, title, job_state, note,
			state, attempts, due, node, last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '', '')`,
			int64(m.Event), int64(m.Job), int64(m.Application), string(m.Recipient), string(m.Role), string(m.Action), string(m.Actor),
			store.Millis(m.At), m.Title, string(m.JobState), m.Note, string(m.State), store.Millis(m.Due)); err != nil {
			return err
		}
	}
	return nil
}

const appColumns = "id, job, worker, state, message, reason, may_reapply, created, updated, version"

func appArgs(a *store.Application) []any {
	return []any{int64(a.ID), int64(a.Job), string(a.Worker), string(a.State), a.Message, a.Reason, bit(a.MayReapply),
		store.Millis(a.Created), store.Millis(a.Updated), a.Version}
}

// scanApplication is the reverse of appArgs.
func scanApplication(s *sqlite3.Stmt) store.Application {
	return store.Application{
		ID: store.ID(s.ColumnInt64(0)), Job: store.ID(s.ColumnInt64(1)), Worker: store.UserID(s.ColumnText(2)),
		State: store.ApplicationState(s.ColumnText(3)), Message: s.ColumnText(4), Reason: s.ColumnText(5), MayReapply: s.ColumnInt64(6) != 0,
		Created: store.Time(s.ColumnInt64(7)), Updated: store.Time(s.ColumnInt64(8)), Version: s.ColumnInt64(9),
	}
}

// application returns the application that a condition is true of, or nil.
func (c *conn) application(where string, args ...any) (app *store.Application, err error) {
	err = c.run(func(s *sqlite3.Stmt) error {
		a := scanApplication(s)
		app = &a
		return nil
	}, "SELECT "+appColumns+" FROM application WHERE "+where, args...)
	return app, err
}

const eventColumns = "job, seq, id, application, action, role, actor, at, from_job, to_job, from_app, to_app, reason, told"

func scanEvent(s *sqlite3.Stmt) store.Event {
	return store.Event{
		Job: store.ID(s.ColumnInt64(0)), Seq: s.ColumnInt64(1), ID: store.ID(s.ColumnInt64(2)), Application: store.ID(s.ColumnInt64(3)),
		Action: store.Action(s.ColumnText(4)), Role: store.Role(s.ColumnText(5)), Actor: store.UserID(s.ColumnText(6)), At: store.Time(s.ColumnInt64(7)),
		FromJob: store.State(s.ColumnText(8)), ToJob: store.State(s.ColumnText(9)),
		FromApp: store.ApplicationState(s.ColumnText(10)), ToApp: store.ApplicationState(s.ColumnText(11)),
		Reason: s.ColumnText(12), Told: s.ColumnInt(13),
	}
}

// The lists, each along an index.
const (
	appsOfSQL = "SELECT " + appColumns + " FROM application WHERE job = ? AND id > ? ORDER BY id LIMIT ?"
	myJobsSQL = "SELECT " + jobColumns + " FROM job WHERE requester = ? AND id < ? ORDER BY id DESC LIMIT ?"
	myAppsSQL = "SELECT " + appColumns + " FROM application WHERE worker = ? AND id < ? ORDER BY id DESC LIMIT ?"
	eventsSQL = "SELECT " + eventColumns + " FROM job_event WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?"
)

// Application implements [store.MatchReader].
func (e *Engine) Application(ctx context.Context, id store.ID) (store.Application, error) {
	return e.findApplication(ctx, "application "+id.String(), "id = ?", int64(id))
}

// ApplicationFor implements [store.MatchReader].
func (e *Engine) ApplicationFor(ctx context.Context, job store.ID, worker store.UserID) (store.Application, error) {
	return e.findApplication(ctx, "application for job "+job.String(), "job = ? AND worker = ?", int64(job), string(worker))
}

func (e *Engine) findApplication(ctx context.Context, what, where string, args ...any) (store.Application, error) {
	var app *store.Application
	err := e.read(ctx, func(c *conn) (err error) {
		app, err = c.application(where, args...)
		return err
	})
	if err == nil && app == nil {
		err = fmt.Errorf("%s: %w", what, store.ErrNotFound)
	}
	if err != nil {
		return store.Application{}, err
	}
	return *app, nil
}

// ApplicationsOf implements [store.MatchReader].
func (e *Engine) ApplicationsOf(ctx context.Context, job store.ID, k store.Keys) ([]store.Application, error) {
	return list(ctx, e, k, scanApplication, appsOfSQL, int64(job), k.After, int64(k.Limit))
}

// MyJobs implements [store.MatchReader].
func (e *Engine) MyJobs(ctx context.Context, user store.UserID, k store.Keys) ([]store.Job, error) {
	if user == "" {
		return nil, k.Validate() // the imported jobs are nobody's
	}
	return list(ctx, e, k, scanJob, myJobsSQL, string(user), k.Before(), int64(k.Limit))
}

// MyApplications implements [store.MatchReader].
func (e *Engine) MyApplications(ctx context.Context, user store.UserID, k store.Keys) ([]store.Application, error) {
	return list(ctx, e, k, scanApplication, myAppsSQL, string(user), k.Before(), int64(k.Limit))
}

// Events implements [store.MatchReader].
func (e *Engine) Events(ctx context.Context, job store.ID, k store.Keys) ([]store.Event, error) {
	return list(ctx, e, k, scanEvent, eventsSQL, int64(job), k.After, int64(k.Limit))
}

// list reads all rows of a statement.
func list[T any](ctx context.Context, e *Engine, k store.Keys, scan func(*sqlite3.Stmt) T, sql string, args ...any) ([]T, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	var all []T
	err := e.read(ctx, func(c *conn) error {
		return c.run(func(s *sqlite3.Stmt) error {
			all = append(all, scan(s))
			return nil
		}, sql, args...)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
