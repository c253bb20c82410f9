package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/store"
)

var _ store.Reblurrer = (*Engine)(nil)

// reblurRows is how many places one transaction of Reblur changes: other writers wait for it.
const reblurRows = 500

// readBlur reads how the places are blurred.
func (c *conn) readBlur() (key string, unfinished bool, err error) {
	found := false
	err = c.run(func(s *sqlite3.Stmt) error {
		found, key, unfinished = true, s.ColumnText(0), s.ColumnBool(1)
		return nil
	}, "SELECT blur, unfinished FROM open_job_blur WHERE id = 1")
	if err == nil && !found {
		err = errors.New("sqlite: table open_job_blur has lost its row: insert (1, '', 0) and run nearjob migrate with the blur's settings")
	}
	return key, unfinished, err
}

// checkBlur returns ErrPlaces when this engine must not write places into the search
// tables. The write lock is held.
func (c *conn) checkBlur() error {
	key, _, err := c.readBlur()
	if err != nil {
		return err
	}
	return c.blur.MayWrite(key)
}

func (e *Engine) readyBlur(ctx context.Context) error {
	return e.read(ctx, func(c *conn) error {
		key, unfinished, err := c.readBlur()
		if err != nil {
			return err
		}
		return e.blur.Ready(key, unfinished)
	})
}

// setBlur writes how the places are blurred.
func (c *conn) setBlur(unfinished int64) error {
	return c.changing(1, "UPDATE open_job_blur SET blur = ?, unfinished = ? WHERE id = 1", c.blur.Key(), unfinished)
}

// adoptBlur notes this engine's blur in a database where no job was ever shown
// otherwise.
func (e *Engine) adoptBlur(ctx context.Context) error {
	if e.blur == nil {
		return nil
	}
	return e.write(ctx, func(c *conn) error {
		key, unfinished, err := c.readBlur()
		if err != nil || key != "" || unfinished {
			return err
		}
		open := false
		if err := c.run(func(*sqlite3.Stmt) error { open = true; return nil }, "SELECT 1 FROM open_job LIMIT 1"); err != nil || open {
			return err
		}
		return c.setBlur(0)
	})
}

// Reblur implements [store.Reblurrer]. It holds the lock that migrations take.
func (e *Engine) Reblur(ctx context.Context, progress func(done int)) error {
	unlock, err := e.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.reblur(ctx, progress); err != nil {
		return fmt.Errorf("blur the places of the open jobs: %w", err)
	}
	return nil
}

func (e *Engine) reblur(ctx context.Context, progress func(done int)) error {
	todo := false
	if err := e.write(ctx, func(c *conn) error {
		key, unfinished, err := c.readBlur()
		if err != nil {
			return err
		}
		if todo = unfinished || key != c.blur.Key(); !todo {
			return nil
		}
		return c.setBlur(1)
	}); err != nil || !todo {
		return err
	}
	after, done := int64(0), 0
	for more := true; more; {
		if err := e.write(ctx, func(c *conn) error {
			var jobs []store.Job
			if err := c.run(func(s *sqlite3.Stmt) error { jobs = append(jobs, scanJob(s)); return nil },
				"SELECT "+jobColumns+" FROM job WHERE id IN (SELECT id FROM open_job WHERE id > ? ORDER BY id LIMIT ?) ORDER BY id",
				after, int64(reblurRows)); err != nil {
				return err
			}
			for i := range jobs {
				if err := c.hide(&jobs[i]); err != nil {
					return err
				}
				r := newRow(c.blur, jobs[i])
				if err := c.show(&r); err != nil {
					return err
				}
			}
			if more = len(jobs) > 0; more {
				after, done = int64(jobs[len(jobs)-1].ID), done+len(jobs)
				return nil
			}
			if err := c.checkBlur(); err != nil {
				return err
			}
			return c.setBlur(0)
		}); err != nil {
			return err
		}
		if progress != nil && more {
			progress(done)
		}
	}
	return nil
}
