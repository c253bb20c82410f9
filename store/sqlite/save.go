package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

const jobColumns = `id, source, source_id, title, description, url, category, employer,
	pay, currency, pay_per, lat, lng, state, posted, expires, requester, version`

// jobArgs are the values of jobColumns.
func jobArgs(j *store.Job) []any {
	var lat, lng any
	if !j.Remote {
		lat, lng = j.At.Lat, j.At.Lng
	}
	return []any{
		int64(j.ID), j.Source, j.SourceID, j.Title, j.Description, j.URL, j.Category, j.Employer,
		j.Pay.Amount, j.Pay.Currency, j.Pay.Per, lat, lng, string(j.State), store.Millis(j.Posted), store.ExpiryMillis(j.Expires),
		string(j.Requester), j.Version,
	}
}

// scanJob is the reverse of jobArgs.
func scanJob(s *sqlite3.Stmt) store.Job {
	j := store.Job{
		ID: store.ID(s.ColumnInt64(0)), Source: s.ColumnText(1), SourceID: s.ColumnText(2),
		Title: s.ColumnText(3), Description: s.ColumnText(4), URL: s.ColumnText(5),
		Category: s.ColumnText(6), Employer: s.ColumnText(7),
		Pay:   store.Pay{Amount: s.ColumnInt64(8), Currency: s.ColumnText(9), Per: s.ColumnText(10)},
		State: store.State(s.ColumnText(13)), Posted: store.Time(s.ColumnInt64(14)), Expires: store.ExpiryTime(s.ColumnInt64(15)),
		Requester: store.UserID(s.ColumnText(16)), Version: s.ColumnInt64(17),
	}
	if s.ColumnType(11) == sqlite3.NULL {
		j.Remote = true
	} else {
		j.At = geo.LatLng{Lat: s.ColumnFloat(11), Lng: s.ColumnFloat(12)}
	}
	return j
}

// Jobs implements [store.Jobs].
func (e *Engine) Jobs(ctx context.Context, ids []store.ID) ([]store.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	jobs := make([]store.Job, 0, len(ids))
	err := e.read(ctx, func(c *conn) error {
		for _, id := range ids {
			if err := c.run(func(s *sqlite3.Stmt) error {
				jobs = append(jobs, scanJob(s))
				return nil
			}, "SELECT "+jobColumns+" FROM job WHERE id = ?", int64(id)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// Count implements [store.Jobs].
func (e *Engine) Count(ctx context.Context) (n int, err error) {
	err = e.read(ctx, func(c *conn) error {
		return c.run(func(s *sqlite3.Stmt) error {
			n = s.ColumnInt(0)
			return nil
		}, "SELECT count(*) FROM job")
	})
	return n, err
}

// Save implements [store.Jobs]. A record that does not differ from what is
// stored counts as updated and costs no write.
func (e *Engine) Save(ctx context.Context, jobs []store.Job) (store.Saved, error) {
	rows := lastOfEach(e.blur, jobs)
	if len(rows) == 0 {
		return store.Saved{}, nil
	}
	var saved store.Saved
	err := e.write(ctx, func(c *conn) error {
		for i := range rows {
			added, err := c.save(&rows[i])
			if err != nil {
				return err
			}
			if added {
				saved.Added++
			} else {
				saved.Updated++
			}
		}
		return nil
	})
	if err != nil {
		return store.Saved{}, err
	}
	return saved, nil
}

// row is a job with its place in the search tables and the cell numbers of that.
type row struct {
	job             store.Job
	at              geo.LatLng
	s2, h3, geohash int64
}

func newRow(b *store.Blur, j store.Job) row {
	r := row{job: j}
	if !j.Remote {
		r.at = b.Place(&j)
		r.s2, r.h3, r.geohash = cell.S2.Index(r.at), cell.H3.Index(r.at), cell.Geohash.Index(r.at)
	}
	return r
}

// lastOfEach returns the last job of each (Source, SourceID), in the order of
// the clustered key: neighbours then go into the same pages, one after the other.
func lastOfEach(b *store.Blur, jobs []store.Job) []row {
	type pair struct{ source, id string }
	last := make(map[pair]int, len(jobs))
	for i := range jobs {
		last[pair{jobs[i].Source, jobs[i].SourceID}] = i
	}
	rows := make([]row, 0, len(last))
	for i := range jobs {
		if last[pair{jobs[i].Source, jobs[i].SourceID}] == i {
			rows = append(rows, newRow(b, jobs[i]))
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.s2, b.s2), cmp.Compare(a.job.ID, b.job.ID))
	})
	return rows
}

// save writes one job and reports whether it was new.
func (c *conn) save(r *row) (added bool, err error) {
	var old *store.Job
	if err := c.run(func(s *sqlite3.Stmt) error {
		j := scanJob(s)
		old = &j
		return nil
	}, "SELECT "+jobColumns+" FROM job WHERE source = ? AND source_id = ?", r.job.Source, r.job.SourceID); err != nil {
		return false, err
	}
	if old == nil {
		return true, c.add(r)
	}
	moved := r.job.Requester != old.Requester // the blurred place depends on it
	r.job.ID, r.job.State, r.job.Requester, r.job.Version = old.ID, old.State, old.Requester, old.Version
	if r.job == *old {
		return false, nil
	}
	r.job.Version++
	if moved {
		*r = newRow(c.blur, r.job)
	}
	return false, c.change(old, r)
}

// add writes a new job.
func (c *conn) add(r *row) error {
	err := c.run(nil, "INSERT INTO job ("+jobColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", jobArgs(&r.job)...)
	if err != nil {
		return fmt.Errorf("job %s: %w", r.job.ID, err)
	}
	return c.show(r)
}

// change writes a job in place of what is stored of it.
func (c *conn) change(old *store.Job, r *row) error {
	args := jobArgs(&r.job)
	if err := c.run(nil, `UPDATE job SET title = ?, description = ?, url = ?, category = ?, employer = ?, pay = ?,
		currency = ?, pay_per = ?, lat = ?, lng = ?, state = ?, posted = ?, expires = ?, requester = ?, version = ? WHERE id = ?`,
		append(args[3:], args[0])...); err != nil {
		return err
	}
	if err := c.hide(old); err != nil {
		return err
	}
	return c.show(r)
}

// show puts an open job into the search tables.
func (c *conn) show(r *row) error {
	j := &r.job
	if j.State != store.Open {
		return nil
	}
	id, posted, expires := int64(j.ID), store.Millis(j.Posted), store.ExpiryMillis(j.Expires)
	if j.Remote {
		return c.run(nil, `INSERT INTO open_remote_job (id, category, employer, pay, posted, expires) VALUES (?, ?, ?, ?, ?, ?)`,
			id, j.Category, j.Employer, j.Pay.Amount, posted, expires)
	}
	if err := c.checkBlur(); err != nil {
		return err
	}
	if err := c.run(nil, `INSERT INTO open_job (id, lat, lng, s2, h3, geohash, category, employer, pay, posted, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, r.at.Lat, r.at.Lng, r.s2, r.h3, r.geohash, j.Category, j.Employer, j.Pay.Amount, posted, expires); err != nil {
		return err
	}
	return c.run(nil, "INSERT INTO open_job_rtree (job, lat0, lat1, lng0, lng1) VALUES (?1, ?2, ?2, ?3, ?3)", id, r.at.Lat, r.at.Lng)
}

// hide takes a job, as it is stored, out of the search tables.
func (c *conn) hide(j *store.Job) error {
	if j.State != store.Open {
		return nil
	}
	if j.Remote {
		return c.run(nil, "DELETE FROM open_remote_job WHERE id = ?", int64(j.ID))
	}
	if err := c.run(nil, "DELETE FROM open_job WHERE id = ?", int64(j.ID)); err != nil {
		return err
	}
	return c.run(nil, "DELETE FROM open_job_rtree WHERE job = ?", int64(j.ID))
}

// Move implements [store.Jobs].
func (e *Engine) Move(ctx context.Context, id store.ID, from, to store.State) error {
	return e.write(ctx, func(c *conn) error {
		var old *store.Job
		if err := c.run(func(s *sqlite3.Stmt) error {
			j := scanJob(s)
			old = &j
			return nil
		}, "SELECT "+jobColumns+" FROM job WHERE id = ?", int64(id)); err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("job %s: %w", id, store.ErrNotFound)
		}
		if old.State != from {
			return &store.StateError{ID: id, Is: old.State, Want: from}
		}
		if from == to {
			return nil
		}
		if err := c.hide(old); err != nil {
			return err
		}
		if err := c.run(nil, "UPDATE job SET state = ?, version = version + 1 WHERE id = ?", string(to), int64(id)); err != nil {
			return err
		}
		r := newRow(c.blur, *old)
		r.job.State = to
		return c.show(&r)
	})
}
