package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

var _ store.Alerts = (*Engine)(nil)

const alertColumns = "id, owner, lat, lng, radius, categories, min_pay, employer, created"

// alertRow is a row of alertColumns, and of the cell that it was found by.
type alertRow struct {
	ID         store.ID     `db:"id"`
	Owner      store.UserID `db:"owner"`
	Lat        float64      `db:"lat"`
	Lng        float64      `db:"lng"`
	Radius     float64      `db:"radius"`
	Categories string       `db:"categories"`
	MinPay     int64        `db:"min_pay"`
	Employer   string       `db:"employer"`
	Created    int64        `db:"created"`
	Cell       int64        `db:"cell"`
}

func (r *alertRow) alert() store.Alert {
	return store.StoredAlert(r.ID, r.Owner, geo.LatLng{Lat: r.Lat, Lng: r.Lng}, r.Radius, r.Categories, r.MinPay, r.Employer, r.Created)
}

// The reads of the alerts, each along an index. A user's alerts are so few that they
// are sorted.
const (
	alertOwnerSQL = "SELECT owner FROM alert WHERE id = ? FOR UPDATE"
	alertSlotsSQL = "SELECT slot FROM alert FORCE INDEX (owner_slot) WHERE owner = ?"
	myAlertsSQL   = "SELECT " + alertColumns + " FROM alert FORCE INDEX (owner_slot) WHERE owner = ? AND id > ? ORDER BY id LIMIT ?"
	unmatchedSQL  = "SELECT id, job, at FROM job_event FORCE INDEX (unmatched) WHERE unmatched > ? ORDER BY unmatched LIMIT ?"
	openingSQL    = "SELECT id FROM job_event WHERE unmatched = ?"
	hitsSQL       = "SELECT alert, owner FROM alert_hit FORCE INDEX (job_owner) WHERE job = ? AND owner IN (?)"
	appliedSQL    = "SELECT worker FROM application FORCE INDEX (job_worker) WHERE job = ? AND worker IN (?)"
	pruneHitsSQL  = "DELETE FROM alert_hit WHERE at < ? ORDER BY at LIMIT ?"
)

// aroundSQL returns the statement that reads the alerts under the cells of a place, in
// the order of the key and from a key on. Without the hints and the join's order a
// small table is scanned.
func aroundSQL(cells []int64, after store.AlertKey, limit int) (string, []any) {
	var b strings.Builder
	b.WriteString("SELECT a.id, a.owner, a.lat, a.lng, a.radius, a.categories, a.min_pay, a.employer, a.created, c.cell" +
		" FROM alert_cell AS c FORCE INDEX (PRIMARY) STRAIGHT_JOIN alert AS a FORCE INDEX (PRIMARY) ON a.id = c.alert WHERE ")
	args := make([]any, 0, len(cells)+2)
	part := func(format string, values ...any) {
		if len(args) > 0 {
			b.WriteString(" OR ")
		}
		b.WriteString(format)
		args = append(args, values...)
	}
	if slices.Contains(cells, after.Cell) {
		part("c.cell = ? AND c.alert > ?", after.Cell, int64(after.Alert))
	}
	var rest []any
	for _, c := range cells {
		if c > after.Cell {
			rest = append(rest, c)
		}
	}
	if len(rest) > 0 {
		part("c.cell IN (?"+strings.Repeat(", ?", len(rest)-1)+")", rest...)
	}
	if len(args) == 0 {
		return "", nil
	}
	b.WriteString(" ORDER BY c.cell, c.alert LIMIT ?")
	return b.String(), append(args, limit)
}

// PutAlert implements [store.AlertBook].
func (e *Engine) PutAlert(ctx context.Context, a store.Alert) error {
	if err := a.Normalize(); err != nil {
		return err
	}
	cells := cell.Areas().Keys(geo.Circle{Center: a.Center, Radius: a.Radius})
	// Two that take one slot, or one id, at once meet on its key: the second looks again.
	return e.transition(ctx, "alert", true, func(tx *sqlx.Tx, _ bool) error {
		var owners []store.UserID
		if err := e.sel(ctx, tx, &owners, alertOwnerSQL, int64(a.ID)); err != nil {
			return err
		}
		values := []any{a.Center.Lat, a.Center.Lng, a.Radius, store.AlertCategories(a.Filter.Categories), a.Filter.MinPay, a.Filter.Employer,
			store.Millis(a.Created)}
		switch {
		case len(owners) == 0:
			slot, err := e.freeSlot(ctx, tx, a.User)
			if err != nil {
				return err
			}
			if _, err := e.exec(ctx, tx, "INSERT INTO alert (id, owner, slot, lat, lng, radius, categories, min_pay, employer, created)"+
				" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", append([]any{int64(a.ID), string(a.User), slot}, values...)...); err != nil {
				return err
			}
		case owners[0] != a.User:
			return fmt.Errorf("%w: alert %s is another user's", store.ErrForbidden, a.ID)
		default:
			if err := e.changing(ctx, tx, 1, "UPDATE alert SET lat = ?, lng = ?, radius = ?, categories = ?, min_pay = ?, employer = ?, created = ? WHERE id = ?",
				append(values, int64(a.ID))...); err != nil {
				return err
			}
			if _, err := e.exec(ctx, tx, "DELETE FROM alert_cell WHERE alert = ?", int64(a.ID)); err != nil {
				return err
			}
		}
		rows := inserter{e: e, tx: tx, head: "INSERT INTO alert_cell (cell, alert) VALUES "}
		for _, c := range cells {
			if err := rows.add(ctx, []any{c, int64(a.ID)}); err != nil {
				return err
			}
		}
		return rows.flush(ctx)
	})
}

// freeSlot returns the first slot that a user has free.
func (e *Engine) freeSlot(ctx context.Context, tx *sqlx.Tx, user store.UserID) (int, error) {
	var taken []int
	if err := e.sel(ctx, tx, &taken, alertSlotsSQL, string(user)); err != nil {
		return 0, err
	}
	for slot := range store.MaxAlerts {
		if !slices.Contains(taken, slot) {
			return slot, nil
		}
	}
	return 0, store.FullAlertsError()
}

// DeleteAlert implements [store.AlertBook].
func (e *Engine) DeleteAlert(ctx context.Context, user store.UserID, id store.ID) error {
	return e.transition(ctx, "alert", false, func(tx *sqlx.Tx, _ bool) error {
		n, err := e.exec(ctx, tx, "DELETE FROM alert WHERE id = ? AND owner = ?", int64(id), string(user))
		if err != nil || n == 0 {
			return err
		}
		_, err = e.exec(ctx, tx, "DELETE FROM alert_cell WHERE alert = ?", int64(id))
		return err
	})
}

// MyAlerts implements [store.AlertBook].
func (e *Engine) MyAlerts(ctx context.Context, user store.UserID, k store.Keys) ([]store.Alert, error) {
	return list(ctx, e, k, (*alertRow).alert, myAlertsSQL, string(user), k.After, k.Limit)
}

// PendingAlerts implements [store.AlertMatcher].
func (e *Engine) PendingAlerts(ctx context.Context, k store.Keys) ([]store.Opening, error) {
	return list(ctx, e, k, func(r *eventRow) store.Opening { return store.Opening{Event: r.ID, Job: r.Job, At: store.Time(r.At)} },
		unmatchedSQL, k.After, k.Limit)
}

// MatchAlerts implements [store.AlertMatcher]. The order of its locks is that of the
// transitions: the job, then what is written with it.
func (e *Engine) MatchAlerts(ctx context.Context, o store.Opening, after store.AlertKey, limit int, now time.Time) (store.AlertMatch, *store.AlertKey, error) {
	if err := store.CheckAlertPiece(limit, now); err != nil {
		return store.AlertMatch{}, nil, err
	}
	var done store.AlertMatch
	var next *store.AlertKey
	// A piece whose outcome is unknown is tried again: it finds what it has written
	// the first time, and only its counts then lack that.
	err := e.transition(ctx, "alerts", false, func(tx *sqlx.Tx, _ bool) error {
		done, next = store.AlertMatch{}, nil
		job, _, err := e.lockJob(ctx, tx, o.Job)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		var pending []store.ID
		if err := e.sel(ctx, tx, &pending, openingSQL, int64(o.Event)); err != nil || len(pending) == 0 {
			return err
		}
		if err == nil && job.Alertable(now) {
			if err := e.checkBlur(ctx, tx); err != nil {
				return err
			}
			job.At = e.blur.Place(&job) // or alerts would find out where it is
			if next, err = e.tellAround(ctx, tx, &job, o, after, limit, now, &done); err != nil || next != nil {
				return err
			}
		}
		done.Openings = 1
		return e.changing(ctx, tx, 1, "UPDATE job_event SET matched = TRUE WHERE id = ?", int64(o.Event))
	})
	if err != nil {
		return store.AlertMatch{}, nil, err
	}
	return done, next, nil
}

// tellAround tells the users of some of the alerts around a job and returns where
// to go on.
func (e *Engine) tellAround(ctx context.Context, tx *sqlx.Tx, job *store.Job, o store.Opening, after store.AlertKey, limit int, now time.Time,
	done *store.AlertMatch) (*store.AlertKey, error) {
	if after.Version != job.Version {
		after = store.AlertKey{}
	}
	query, args := aroundSQL(cell.Areas().KeysAt(job.At), after, limit)
	if query == "" {
		return nil, nil
	}
	var rows []alertRow
	if err := e.sel(ctx, tx, &rows, query, args...); err != nil {
		return nil, err
	}
	found := make([]store.Alert, len(rows))
	for i := range rows {
		found[i] = rows[i].alert()
	}
	done.Read = len(rows)
	if hits := store.AlertHits(job, found); len(hits) > 0 {
		if err := e.tell(ctx, tx, job, o, hits, now, done); err != nil {
			return nil, err
		}
	}
	if len(rows) < limit {
		return nil, nil
	}
	last := &rows[len(rows)-1]
	return &store.AlertKey{Version: job.Version, Cell: last.Cell, Alert: last.ID}, nil
}

// tell writes what alerts have told, and the messages.
func (e *Engine) tell(ctx context.Context, tx *sqlx.Tx, job *store.Job, o store.Opening, hits []store.Alert, now time.Time, done *store.AlertMatch) error {
	users := make([]string, len(hits))
	for i := range hits {
		users[i] = string(hits[i].User)
	}
	slices.Sort(users)
	users = slices.Compact(users)
	var before []struct {
		Alert store.ID     `db:"alert"`
		Owner store.UserID `db:"owner"`
	}
	var workers []store.UserID
	for _, q := range []struct {
		into any
		sql  string
	}{{&before, hitsSQL}, {&workers, appliedSQL}} {
		query, args, err := sqlx.In(q.sql, int64(job.ID), users)
		if err != nil {
			return err
		}
		if err := e.sel(ctx, tx, q.into, query, args...); err != nil {
			return err
		}
	}
	told, applied := map[store.ID]store.UserID{}, map[store.UserID]bool{}
	for _, r := range before {
		told[r.Alert] = r.Owner
	}
	for _, w := range workers {
		applied[w] = true
	}
	news, messages := store.TellAlerts(job, o, hits, told, applied, now)
	rows := inserter{e: e, tx: tx, head: "INSERT INTO alert_hit (job, alert, owner, event, at) VALUES "}
	for i := range news {
		if err := rows.add(ctx, []any{int64(job.ID), int64(news[i].ID), string(news[i].User), int64(o.Event), store.Millis(now)}); err != nil {
			return err
		}
	}
	if err := rows.flush(ctx); err != nil {
		return err
	}
	done.Hits, done.Told = len(news), len(messages)
	return e.recordEffects(ctx, tx, &store.Effects{Messages: messages})
}

// PruneAlertHits implements [store.AlertMatcher].
func (e *Engine) PruneAlertHits(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	return e.write(ctx, "prune_alerts", pruneHitsSQL, store.Millis(before), limit)
}
