package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

var _ store.Alerts = (*Engine)(nil)

const alertColumns = "id, owner, lat, lng, radius, categories, min_pay, employer, created"

func alertArgs(a *store.Alert) []any {
	return []any{int64(a.ID), string(a.User), a.Center.Lat, a.Center.Lng, a.Radius, store.AlertCategories(a.Filter.Categories),
		a.Filter.MinPay, a.Filter.Employer, store.Millis(a.Created)}
}

// scanAlert is the reverse of alertArgs.
func scanAlert(s *sqlite3.Stmt) store.Alert {
	return store.StoredAlert(store.ID(s.ColumnInt64(0)), store.UserID(s.ColumnText(1)), geo.LatLng{Lat: s.ColumnFloat(2), Lng: s.ColumnFloat(3)},
		s.ColumnFloat(4), s.ColumnText(5), s.ColumnInt64(6), s.ColumnText(7), s.ColumnInt64(8))
}

// The reads of the alerts, each along an index.
const (
	myAlertsSQL    = "SELECT " + alertColumns + " FROM alert WHERE owner = ? AND id > ? ORDER BY id LIMIT ?"
	countAlertsSQL = "SELECT count(*) FROM alert WHERE owner = ?"
	openingsSQL    = "SELECT event, job, at FROM alert_opening WHERE event > ? ORDER BY event LIMIT ?"
	openingSQL     = "SELECT 1 FROM alert_opening WHERE event = ?"
	aroundSQL      = "SELECT a.id, a.owner, a.lat, a.lng, a.radius, a.categories, a.min_pay, a.employer, a.created" +
		" FROM alert_cell AS c CROSS JOIN alert AS a ON a.id = c.alert WHERE c.cell = ? AND c.alert > ? ORDER BY c.alert LIMIT ?"
	hitsSQL      = "SELECT alert FROM alert_hit WHERE job = ? AND owner = ?"
	appliedSQL   = "SELECT 1 FROM application WHERE job = ? AND worker = ?"
	pruneHitsSQL = "DELETE FROM alert_hit WHERE (job, alert) IN (SELECT job, alert FROM alert_hit WHERE at < ? ORDER BY at LIMIT ?)"
)

// PutAlert implements [store.AlertBook].
func (e *Engine) PutAlert(ctx context.Context, a store.Alert) error {
	if err := a.Normalize(); err != nil {
		return err
	}
	cells := cell.Areas().Keys(geo.Circle{Center: a.Center, Radius: a.Radius})
	return e.write(ctx, func(c *conn) error {
		var owner store.UserID
		var alerts int
		if err := c.run(func(s *sqlite3.Stmt) error { owner = store.UserID(s.ColumnText(0)); return nil },
			"SELECT owner FROM alert WHERE id = ?", int64(a.ID)); err != nil {
			return err
		}
		switch owner {
		case "":
			if err := c.run(func(s *sqlite3.Stmt) error { alerts = s.ColumnInt(0); return nil }, countAlertsSQL, string(a.User)); err != nil {
				return err
			}
			if alerts >= store.MaxAlerts {
				return store.FullAlertsError()
			}
		case a.User:
			if err := c.run(nil, "DELETE FROM alert_cell WHERE alert = ?", int64(a.ID)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: alert %s is another user's", store.ErrForbidden, a.ID)
		}
		if err := c.run(nil, "INSERT OR REPLACE INTO alert ("+alertColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", alertArgs(&a)...); err != nil {
			return err
		}
		for _, k := range cells {
			if err := c.run(nil, "INSERT INTO alert_cell (cell, alert) VALUES (?, ?)", k, int64(a.ID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteAlert implements [store.AlertBook].
func (e *Engine) DeleteAlert(ctx context.Context, user store.UserID, id store.ID) error {
	return e.write(ctx, func(c *conn) error {
		if err := c.run(nil, "DELETE FROM alert WHERE id = ? AND owner = ?", int64(id), string(user)); err != nil || c.Changes() == 0 {
			return err
		}
		return c.run(nil, "DELETE FROM alert_cell WHERE alert = ?", int64(id))
	})
}

// MyAlerts implements [store.AlertBook].
func (e *Engine) MyAlerts(ctx context.Context, user store.UserID, k store.Keys) ([]store.Alert, error) {
	return list(ctx, e, k, scanAlert, myAlertsSQL, string(user), k.After, int64(k.Limit))
}

// PendingAlerts implements [store.AlertMatcher].
func (e *Engine) PendingAlerts(ctx context.Context, k store.Keys) ([]store.Opening, error) {
	return list(ctx, e, k, func(s *sqlite3.Stmt) store.Opening {
		return store.Opening{Event: store.ID(s.ColumnInt64(0)), Job: store.ID(s.ColumnInt64(1)), At: store.Time(s.ColumnInt64(2))}
	}, openingsSQL, k.After, int64(k.Limit))
}

// MatchAlerts implements [store.AlertMatcher].
func (e *Engine) MatchAlerts(ctx context.Context, o store.Opening, after store.AlertKey, limit int, now time.Time) (store.AlertMatch, *store.AlertKey, error) {
	if err := store.CheckAlertPiece(limit, now); err != nil {
		return store.AlertMatch{}, nil, err
	}
	var done store.AlertMatch
	var next *store.AlertKey
	err := e.write(ctx, func(c *conn) error {
		var pending bool
		if err := c.run(func(*sqlite3.Stmt) error { pending = true; return nil }, openingSQL, int64(o.Event)); err != nil || !pending {
			return err
		}
		var job store.Job
		if err := c.run(func(s *sqlite3.Stmt) error { job = scanJob(s); return nil },
			"SELECT "+jobColumns+" FROM job WHERE id = ?", int64(o.Job)); err != nil {
			return err
		}
		if job.Alertable(now) {
			if err := c.checkBlur(); err != nil {
				return err
			}
			job.At = c.blur.Place(&job) // or alerts would find out where it is
			var err error
			if next, err = c.tellAround(&job, o, after, limit, now, &done); err != nil || next != nil {
				return err
			}
		}
		done.Openings = 1
		return c.changing(1, "DELETE FROM alert_opening WHERE event = ?", int64(o.Event))
	})
	if err != nil {
		return store.AlertMatch{}, nil, err
	}
	return done, next, nil
}

// tellAround tells the users of some of the alerts around a job and returns where
// to go on.
func (c *conn) tellAround(job *store.Job, o store.Opening, after store.AlertKey, limit int, now time.Time, done *store.AlertMatch) (*store.AlertKey, error) {
	if after.Version != job.Version {
		after = store.AlertKey{}
	}
	var found []store.Alert
	var next *store.AlertKey
	// One cell after the other: there is no network between, and SQLite would sort
	// what an OR of them gives.
	for _, k := range cell.Areas().KeysAt(job.At) {
		from := int64(0)
		switch {
		case k < after.Cell:
			continue
		case k == after.Cell:
			from = int64(after.Alert)
		}
		if err := c.run(func(s *sqlite3.Stmt) error {
			found = append(found, scanAlert(s))
			return nil
		}, aroundSQL, k, from, int64(limit-len(found))); err != nil {
			return nil, err
		}
		if len(found) == limit {
			next = &store.AlertKey{Version: job.Version, Cell: k, Alert: found[limit-1].ID}
			break
		}
	}
	done.Read = len(found)
	return next, c.tell(job, o, store.AlertHits(job, found), now, done)
}

// tell writes what alerts have told, and the messages.
func (c *conn) tell(job *store.Job, o store.Opening, hits []store.Alert, now time.Time, done *store.AlertMatch) error {
	told, applied := map[store.ID]store.UserID{}, map[store.UserID]bool{}
	asked := map[store.UserID]bool{}
	for _, a := range hits {
		user := a.User
		if asked[user] {
			continue
		}
		asked[user] = true
		if err := c.run(func(s *sqlite3.Stmt) error { told[store.ID(s.ColumnInt64(0))] = user; return nil },
			hitsSQL, int64(job.ID), string(user)); err != nil {
			return err
		}
		if err := c.run(func(*sqlite3.Stmt) error { applied[user] = true; return nil }, appliedSQL, int64(job.ID), string(user)); err != nil {
			return err
		}
	}
	news, messages := store.TellAlerts(job, o, hits, told, applied, now)
	for i := range news {
		if err := c.run(nil, "INSERT INTO alert_hit (job, alert, owner, event, at) VALUES (?, ?, ?, ?, ?)",
			int64(job.ID), int64(news[i].ID), string(news[i].User), int64(o.Event), store.Millis(now)); err != nil {
			return err
		}
	}
	done.Hits, done.Told = len(news), len(messages)
	return c.record(&store.Effects{Messages: messages})
}

// PruneAlertHits implements [store.AlertMatcher].
func (e *Engine) PruneAlertHits(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := (store.Keys{Limit: limit}).Validate(); err != nil {
		return 0, err
	}
	return e.remove(ctx, pruneHitsSQL, store.Millis(before), int64(limit))
}
