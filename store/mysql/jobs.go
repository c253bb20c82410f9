package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Limits of one statement. A job's texts are at most 92 kB, so that a statement
// stays below max_allowed_packet wherever that is a few megabytes.
const (
	maxIDs = 1000

	// A power of two that a session prepares a statement for; see maxPreparedArgs.
	maxPreparedIDs = 512

	maxRows     = 500
	maxRowBytes = 512 << 10
)

// A transaction that lost a deadlock or a race is tried again after a random
// time below retryBase, which doubles (full jitter).
const (
	maxAttempts = 6
	retryBase   = 20 * time.Millisecond
)

// record is a row of table job.
type record struct {
	ID          store.ID        `db:"id"`
	Source      string          `db:"source"`
	SourceID    string          `db:"source_id"`
	Title       string          `db:"title"`
	Description string          `db:"description"`
	URL         string          `db:"url"`
	Category    string          `db:"category"`
	Employer    string          `db:"employer"`
	Pay         int64           `db:"pay"`
	Currency    string          `db:"currency"`
	PayPer      string          `db:"pay_per"`
	Lat         sql.NullFloat64 `db:"lat"`
	Lng         sql.NullFloat64 `db:"lng"`
	Remote      bool            `db:"remote"`
	State       store.State     `db:"state"`
	Posted      int64           `db:"posted"`
	Expires     int64           `db:"expires"`
	Requester   store.UserID    `db:"requester"`
	Version     int64           `db:"version"`
}

// jobColumns are the columns of table job in the order of jobArgs.
const jobColumns = "id, source, source_id, title, description, url, category, employer, pay, currency, pay_per, lat, lng, remote, state, posted, expires, requester, version"

func (r *record) job() store.Job {
	return store.Job{
		ID: r.ID, Source: r.Source, SourceID: r.SourceID,
		Title: r.Title, Description: r.Description, URL: r.URL, Category: r.Category, Employer: r.Employer,
		Pay: store.Pay{Amount: r.Pay, Currency: r.Currency, Per: r.PayPer},
		At:  geo.LatLng{Lat: r.Lat.Float64, Lng: r.Lng.Float64}, Remote: r.Remote,
		State: r.State, Posted: store.Time(r.Posted), Expires: store.ExpiryTime(r.Expires),
		Requester: r.Requester, Version: r.Version,
	}
}

func jobArgs(j *store.Job) []any {
	var lat, lng any
	if !j.Remote {
		lat, lng = j.At.Lat, j.At.Lng
	}
	return []any{int64(j.ID), j.Source, j.SourceID, j.Title, j.Description, j.URL, j.Category, j.Employer,
		j.Pay.Amount, j.Pay.Currency, j.Pay.Per, lat, lng, j.Remote, string(j.State),
		store.Millis(j.Posted), store.ExpiryMillis(j.Expires), string(j.Requester), j.Version}
}

// Jobs implements [store.Jobs]. A page of a search waits for it, so it reads as
// Read does: prepared, the ids padded to a power of two with the last one again.
func (e *Engine) Jobs(ctx context.Context, ids []store.ID) ([]store.Job, error) {
	jobs := make([]store.Job, 0, len(ids))
	for ids := range slices.Chunk(ids, maxPreparedIDs) {
		width := 1 << bits.Len(uint(len(ids)-1))
		s := statement{
			sql:  "SELECT " + jobColumns + " FROM job WHERE id IN (?" + strings.Repeat(", ?", width-1) + ")",
			args: make([]any, width),
		}
		for i := range s.args {
			s.args[i] = int64(ids[min(i, len(ids)-1)])
		}
		err := e.query(ctx, s, func(rows driver.Rows) error {
			row := make([]driver.Value, len(rows.Columns()))
			for {
				if err := rows.Next(row); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				j, err := scanJob(row)
				if err != nil {
					return err
				}
				jobs = append(jobs, j)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// scanJob makes a job of a row of jobColumns.
func scanJob(row []driver.Value) (store.Job, error) {
	i, good := 0, true
	next := func() driver.Value { i++; return row[i-1] }
	integer := func() int64 { n, ok := next().(int64); good = good && ok; return n }
	text := func() string { b, ok := next().([]byte); good = good && ok; return string(b) }
	degrees := func() float64 {
		v := next()
		if v == nil {
			return 0 // a remote job's
		}
		f, ok := v.(float64)
		good = good && ok
		return f
	}
	j := store.Job{ID: store.ID(integer()), Source: text(), SourceID: text(), Title: text(), Description: text(),
		URL: text(), Category: text(), Employer: text()}
	j.Pay = store.Pay{Amount: integer(), Currency: text(), Per: text()}
	j.At = geo.LatLng{Lat: degrees(), Lng: degrees()}
	j.Remote = integer() != 0
	j.State = store.State(text())
	j.Posted, j.Expires = store.Time(integer()), store.ExpiryTime(integer())
	j.Requester, j.Version = store.UserID(text()), integer()
	if !good {
		return store.Job{}, fmt.Errorf("mysql: a row is not of the types %s", jobColumns)
	}
	return j, nil
}

// Count implements [store.Jobs].
func (e *Engine) Count(ctx context.Context) (int, error) {
	var n []int
	if err := e.sel(ctx, e.db, &n, "SELECT COUNT(*) FROM job"); err != nil {
		return 0, translate(ctx, err)
	}
	return n[0], nil
}

// sel reads all rows of a statement within the time limit.
func (e *Engine) sel(ctx context.Context, q sqlx.QueryerContext, into any, query string, args ...any) error {
	lctx, cancel := e.limited(ctx)
	defer cancel()
	return sqlx.SelectContext(lctx, q, into, query, args...)
}

// exec runs a statement within the time limit and returns how many rows it found.
func (e *Engine) exec(ctx context.Context, tx *sqlx.Tx, query string, args ...any) (int64, error) {
	lctx, cancel := e.limited(ctx)
	defer cancel()
	result, err := tx.ExecContext(lctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// transact runs f in a transaction, and again when it lost a deadlock or, if
// told so, a race for a unique key: on the next attempt f sees what it lost to.
func (e *Engine) transact(ctx context.Context, f func(*sqlx.Tx) error) error {
	for attempt := 0; ; attempt++ {
		err := e.once(ctx, f)
		if err == nil {
			return nil
		}
		if attempt+1 == maxAttempts || !hasNumber(err, errDeadlock) && !hasNumber(err, errDuplicate) {
			if hasNumber(err, errDuplicate) && attempt > 0 {
				// f looks for what is there before it inserts, so this is a race
				// that was lost each time, not a duplicate.
				return fmt.Errorf("%w: %w", store.ErrBusy, err)
			}
			return translate(ctx, err)
		}
		pause := time.NewTimer(rand.N(retryBase << attempt))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
	}
}

// once runs f in a transaction.
func (e *Engine) once(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := e.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		// What went wrong first is the answer; a connection that cannot even
		// roll back is closed, and the server does it.
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// Save implements [store.Jobs].
func (e *Engine) Save(ctx context.Context, jobs []store.Job) (store.Saved, error) {
	if len(jobs) == 0 {
		return store.Saved{}, ctx.Err()
	}
	batch := lastOfEach(jobs)
	var saved store.Saved
	err := e.transact(ctx, func(tx *sqlx.Tx) error {
		var err error
		saved, err = e.save(ctx, tx, slices.Clone(batch))
		return err
	})
	if err != nil {
		return store.Saved{}, err
	}
	return saved, nil
}

// name is what identifies a job where it came from.
type name struct{ source, id string }

func nameOf(j *store.Job) name { return name{j.Source, j.SourceID} }

// lastOfEach returns the last job of each name, in the order of the names: two
// transactions that lock in the same order do not deadlock.
func lastOfEach(jobs []store.Job) []store.Job {
	seen := make(map[name]bool, len(jobs))
	batch := make([]store.Job, 0, len(jobs))
	for i := len(jobs) - 1; i >= 0; i-- {
		if n := nameOf(&jobs[i]); !seen[n] {
			seen[n] = true
			batch = append(batch, jobs[i])
		}
	}
	slices.SortFunc(batch, func(a, b store.Job) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.SourceID, b.SourceID))
	})
	return batch
}

// save writes a batch of distinct names. It changes the batch.
func (e *Engine) save(ctx context.Context, tx *sqlx.Tx, batch []store.Job) (store.Saved, error) {
	stored, err := e.lockStored(ctx, tx, batch)
	if err != nil {
		return store.Saved{}, err
	}
	var added, updated []store.Job
	var was []int64 // ids that are in the search tables
	for _, j := range batch {
		if r, ok := stored[nameOf(&j)]; ok {
			j.ID, j.State, j.Requester = r.ID, r.State, r.Requester
			updated = append(updated, j)
			if j.State == store.Open {
				was = append(was, int64(j.ID))
			}
		} else {
			added = append(added, j)
		}
	}
	if err := e.checkIDs(ctx, tx, added); err != nil {
		return store.Saved{}, err
	}
	// Only rows that lockStored has locked are updated, by id and name together.
	err = e.insertJobs(ctx, tx, updated, " AS new ON DUPLICATE KEY UPDATE"+
		// Assignments go from left to right, so this one sees the record as it was.
		" version = job.version + (NOT (job.title = new.title AND job.description = new.description AND job.url = new.url"+
		" AND job.category = new.category AND job.employer = new.employer AND job.pay = new.pay AND job.currency = new.currency"+
		" AND job.pay_per = new.pay_per AND job.lat <=> new.lat AND job.lng <=> new.lng AND job.remote = new.remote"+
		" AND job.posted = new.posted AND job.expires = new.expires)), title = new.title, description = new.description,"+
		" url = new.url, category = new.category, employer = new.employer, pay = new.pay, currency = new.currency,"+
		" pay_per = new.pay_per, lat = new.lat, lng = new.lng, remote = new.remote, posted = new.posted, expires = new.expires")
	if err != nil {
		return store.Saved{}, err
	}
	if err := e.insertJobs(ctx, tx, added, ""); err != nil {
		return store.Saved{}, err
	}
	if err := e.hide(ctx, tx, was); err != nil {
		return store.Saved{}, err
	}
	if err := e.show(ctx, tx, slices.Concat(updated, added)); err != nil {
		return store.Saved{}, err
	}
	return store.Saved{Added: len(added), Updated: len(updated)}, nil
}

// lockStored finds those of a batch that are stored, and locks their records.
func (e *Engine) lockStored(ctx context.Context, tx *sqlx.Tx, batch []store.Job) (map[name]record, error) {
	stored := make(map[name]record)
	for part := range slices.Chunk(batch, maxRows) {
		args := make([]any, 0, 2*len(part))
		for i := range part {
			args = append(args, part[i].Source, part[i].SourceID)
		}
		var records []record
		// Without the index hint a small table is scanned, and every row of it
		// locked. The time is for a wait to end as one for a lock, at e.timeout,
		// which may be tried again.
		err := e.sel(ctx, tx, &records, "SELECT "+maxTime(e.timeout+grace-250*time.Millisecond)+" id, source, source_id, state, requester FROM job FORCE INDEX (source_source_id)"+
			" WHERE (source, source_id) IN ((?, ?)"+strings.Repeat(", (?, ?)", len(part)-1)+") FOR UPDATE", args...)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			stored[name{r.Source, r.SourceID}] = r
		}
	}
	return stored, nil
}

// checkIDs returns ErrDuplicate when a job to be added has the id of another.
func (e *Engine) checkIDs(ctx context.Context, tx *sqlx.Tx, added []store.Job) error {
	ids := make([]int64, len(added))
	for i := range added {
		ids[i] = int64(added[i].ID)
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return fmt.Errorf("job id %d is given to two jobs: %w", ids[i], store.ErrDuplicate)
		}
	}
	for ids := range slices.Chunk(ids, maxIDs) {
		query, args, err := sqlx.In("SELECT id FROM job WHERE id IN (?) LIMIT 1", ids)
		if err != nil {
			return err
		}
		var taken []int64
		if err := e.sel(ctx, tx, &taken, query, args...); err != nil {
			return err
		}
		if len(taken) > 0 {
			return fmt.Errorf("job id %d belongs to another job: %w", taken[0], store.ErrDuplicate)
		}
	}
	return nil
}

// insertJobs inserts records, with what is to be done about those that exist.
func (e *Engine) insertJobs(ctx context.Context, tx *sqlx.Tx, jobs []store.Job, conflict string) error {
	rows := inserter{e: e, tx: tx, head: "INSERT INTO job (" + jobColumns + ") VALUES ", tail: conflict}
	for i := range jobs {
		if err := rows.add(ctx, jobArgs(&jobs[i])); err != nil {
			return err
		}
	}
	return rows.flush(ctx)
}

// show puts the open ones of jobs into the search tables, where they must not be.
func (e *Engine) show(ctx context.Context, tx *sqlx.Tx, jobs []store.Job) error {
	places := inserter{e: e, tx: tx, head: "INSERT INTO open_job (id, lat, lng, s2, h3, geohash, category, employer, pay, posted, expires) VALUES "}
	remotes := inserter{e: e, tx: tx, head: "INSERT INTO open_remote_job (id, category, employer, pay, posted, expires) VALUES "}
	checked := false
	for i := range jobs {
		j := &jobs[i]
		if j.State != store.Open {
			continue
		}
		filters := []any{j.Category, j.Employer, j.Pay.Amount, store.Millis(j.Posted), store.ExpiryMillis(j.Expires)}
		var err error
		if j.Remote {
			err = remotes.add(ctx, append([]any{int64(j.ID)}, filters...))
		} else {
			if !checked {
				if err := e.checkBlur(ctx, tx); err != nil {
					return err
				}
				checked = true
			}
			at := e.blur.Place(j)
			s2, h3, geohash := numbers(at)
			err = places.add(ctx, append([]any{int64(j.ID), at.Lat, at.Lng, s2, h3, geohash}, filters...))
		}
		if err != nil {
			return err
		}
	}
	if err := places.flush(ctx); err != nil {
		return err
	}
	return remotes.flush(ctx)
}

// hide takes jobs out of the search tables.
func (e *Engine) hide(ctx context.Context, tx *sqlx.Tx, ids []int64) error {
	slices.Sort(ids)
	for ids := range slices.Chunk(ids, maxIDs) {
		for _, from := range []string{"open_job AS o FORCE INDEX (id)", "open_remote_job AS o FORCE INDEX (PRIMARY)"} {
			query, args, err := sqlx.In("DELETE o FROM "+from+" WHERE o.id IN (?)", ids)
			if err != nil {
				return err
			}
			if _, err := e.exec(ctx, tx, query, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// inserter gathers rows into INSERT statements of a bounded size.
type inserter struct {
	e          *Engine
	tx         *sqlx.Tx
	head, tail string // around the rows
	args       []any
	rows       int
	bytes      int // of texts
	width      int
}

func (b *inserter) add(ctx context.Context, row []any) error {
	for _, v := range row {
		if s, ok := v.(string); ok {
			b.bytes += len(s)
		}
	}
	b.args = append(b.args, row...)
	b.width = len(row)
	b.rows++
	if b.rows < maxRows && b.bytes < maxRowBytes {
		return nil
	}
	return b.flush(ctx)
}

func (b *inserter) flush(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", b.width-1) + ")"
	_, err := b.e.exec(ctx, b.tx, b.head+row+strings.Repeat(", "+row, b.rows-1)+b.tail, b.args...)
	b.args, b.rows, b.bytes = b.args[:0], 0, 0
	return err
}

// Move implements [store.Jobs].
func (e *Engine) Move(ctx context.Context, id store.ID, from, to store.State) error {
	return e.transact(ctx, func(tx *sqlx.Tx) error {
		moved, err := e.exec(ctx, tx, "UPDATE job SET version = version + (state <> ?), state = ? WHERE id = ? AND state = ?",
			string(to), string(to), int64(id), string(from))
		if err != nil {
			return err
		}
		if moved == 0 {
			var is []store.State
			if err := e.sel(ctx, tx, &is, "SELECT state FROM job WHERE id = ?", int64(id)); err != nil {
				return err
			}
			if len(is) == 0 {
				return fmt.Errorf("job %s: %w", id, store.ErrNotFound)
			}
			return &store.StateError{ID: id, Is: is[0], Want: from}
		}
		if from == to {
			return nil
		}
		if from == store.Open {
			return e.hide(ctx, tx, []int64{int64(id)})
		}
		if to != store.Open {
			return nil
		}
		var records []record
		if err := e.sel(ctx, tx, &records, "SELECT "+jobColumns+" FROM job WHERE id = ?", int64(id)); err != nil {
			return err
		}
		if len(records) != 1 {
			return errors.New("mysql: a job that was just updated is gone")
		}
		return e.show(ctx, tx, []store.Job{records[0].job()})
	})
}
