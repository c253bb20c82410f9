package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

var _ store.Reblurrer = (*Engine)(nil)

// blurRow is the row of table open_job_blur.
type blurRow struct {
	Blur       string `db:"blur"`
	Unfinished bool   `db:"unfinished"`
}

// readBlur reads how the places are blurred. lock is what to hold of that until the
// transaction ends, as SQL.
func (e *Engine) readBlur(ctx context.Context, q sqlx.QueryerContext, lock string) (blurRow, error) {
	var rows []blurRow
	if err := e.sel(ctx, q, &rows, "SELECT blur, unfinished FROM open_job_blur WHERE id = 1"+lock); err != nil {
		return blurRow{}, err
	}
	if len(rows) != 1 {
		return blurRow{}, errors.New("mysql: table open_job_blur has lost its row: insert (1, '', FALSE) and run nearjob migrate with the blur's settings")
	}
	return rows[0], nil
}

// checkBlur returns ErrPlaces when this engine must not write places into the search
// table, and sees to it that this stays so until the transaction ends.
func (e *Engine) checkBlur(ctx context.Context, tx *sqlx.Tx) error {
	is, err := e.readBlur(ctx, tx, " FOR SHARE")
	if err != nil {
		return err
	}
	return e.blur.MayWrite(is.Blur)
}

func (e *Engine) readyBlur(ctx context.Context) error {
	is, err := e.readBlur(ctx, e.db, "")
	if err != nil {
		return translate(ctx, err)
	}
	return e.blur.Ready(is.Blur, is.Unfinished)
}

// setBlur writes how the places are blurred.
func (e *Engine) setBlur(ctx context.Context, tx *sqlx.Tx, unfinished bool) error {
	return e.changing(ctx, tx, 1, "UPDATE open_job_blur SET blur = ?, unfinished = ? WHERE id = 1", e.blur.Key(), unfinished)
}

// adoptBlur notes this engine's blur in a database where no job was ever shown
// otherwise.
func (e *Engine) adoptBlur(ctx context.Context) error {
	if e.blur == nil {
		return nil
	}
	return e.transact(ctx, func(tx *sqlx.Tx) error {
		is, err := e.readBlur(ctx, tx, " FOR UPDATE")
		if err != nil || is.Blur != "" || is.Unfinished {
			return err
		}
		var open []int64
		if err := e.sel(ctx, tx, &open, "SELECT id FROM open_job LIMIT 1"); err != nil || len(open) > 0 {
			return err
		}
		return e.setBlur(ctx, tx, false)
	})
}

// Reblur implements [store.Reblurrer]. It holds the lock that migrations take. Each
// transaction that writes places holds a shared lock on the row that is changed first:
// when that change is there, no other blur can be written any more.
func (e *Engine) Reblur(ctx context.Context, progress func(done int)) error {
	db, err := e.pool(map[string]string{"max_execution_time": "0"})
	if err != nil {
		return err
	}
	err = locked(ctx, db, func(*sql.Conn) error { return e.reblur(ctx, progress) })
	if err := errors.Join(err, db.Close()); err != nil {
		return translate(ctx, fmt.Errorf("blur the places of the open jobs: %w", err))
	}
	return nil
}

func (e *Engine) reblur(ctx context.Context, progress func(done int)) error {
	todo := false
	if err := e.transact(ctx, func(tx *sqlx.Tx) error {
		is, err := e.readBlur(ctx, tx, " FOR UPDATE")
		if err != nil {
			return err
		}
		if todo = is.Unfinished || is.Blur != e.blur.Key(); !todo {
			return nil
		}
		return e.setBlur(ctx, tx, true)
	}); err != nil || !todo {
		return err
	}
	after, done := int64(0), 0
	for {
		var ids []int64
		if err := e.sel(ctx, e.db, &ids, "SELECT id FROM open_job FORCE INDEX (id) WHERE id > ? ORDER BY id LIMIT ?", after, maxRows); err != nil {
			return err
		}
		if len(ids) == 0 {
			break
		}
		if err := e.transact(ctx, func(tx *sqlx.Tx) error { return e.showAnew(ctx, tx, ids) }); err != nil {
			return err
		}
		after, done = ids[len(ids)-1], done+len(ids)
		if progress != nil {
			progress(done)
		}
	}
	return e.transact(ctx, func(tx *sqlx.Tx) error {
		is, err := e.readBlur(ctx, tx, " FOR UPDATE")
		if err != nil {
			return err
		}
		// Another node can have come in between, if the lock was lost with its connection.
		if err := e.blur.MayWrite(is.Blur); err != nil {
			return err
		}
		return e.setBlur(ctx, tx, false)
	})
}

// showAnew puts the places of at most maxRows jobs into the search table again.
func (e *Engine) showAnew(ctx context.Context, tx *sqlx.Tx, ids []int64) error {
	query, args, err := sqlx.In("SELECT "+maxTime(e.timeout+grace-250*time.Millisecond)+" "+jobColumns+" FROM job WHERE id IN (?) AND state = 'open' AND NOT remote ORDER BY id FOR UPDATE", ids)
	if err != nil {
		return err
	}
	var records []record
	if err := e.sel(ctx, tx, &records, query, args...); err != nil {
		return err
	}
	jobs := make([]store.Job, len(records))
	open := make([]int64, len(records))
	for i := range records {
		jobs[i], open[i] = records[i].job(), int64(records[i].ID)
	}
	if err := e.hide(ctx, tx, open); err != nil {
		return err
	}
	return e.show(ctx, tx, jobs)
}
