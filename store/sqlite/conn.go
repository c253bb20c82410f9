package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/rtree"

	"github.com/nearjob/nearjob/store"
)

// conn is one connection with the statements that it has prepared. It serves
// one goroutine at a time.
type conn struct {
	*sqlite3.Conn
	prepared map[string]*sqlite3.Stmt
	told     func(sql string) // of each statement that run executes; nil: nobody
	blur     *store.Blur      // the engine's
}

// maxPrepared bounds the prepared statements of a connection: texts differ by
// the number of ranges and by the filters.
const maxPrepared = 256

func openConn(path string, busy time.Duration, pragmas string) (*conn, error) {
	// Without OPEN_URI: "?" and "%" in a file's name are only characters.
	c, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return nil, err
	}
	if err := setUp(c, busy, pragmas); err != nil {
		c.Close()
		return nil, err
	}
	return &conn{Conn: c, prepared: map[string]*sqlite3.Stmt{}}, nil
}

func setUp(c *sqlite3.Conn, busy time.Duration, pragmas string) error {
	if err := c.BusyTimeout(busy); err != nil {
		return err
	}
	if err := rtree.Register(c); err != nil {
		return err
	}
	return c.Exec(pragmas)
}

// prepare returns a statement with its arguments bound. The caller resets it.
func (c *conn) prepare(sql string, args ...any) (*sqlite3.Stmt, error) {
	s := c.prepared[sql]
	if s == nil {
		if len(c.prepared) >= maxPrepared {
			c.forget()
		}
		var tail string
		var err error
		if s, tail, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, err
		}
		if tail != "" {
			s.Close()
			return nil, fmt.Errorf("more than one statement: %q", tail)
		}
		c.prepared[sql] = s
	}
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case int64:
			err = s.BindInt64(i+1, a)
		case float64:
			err = s.BindFloat(i+1, a)
		case string:
			err = s.BindText(i+1, a)
		case []byte:
			err = s.BindBlob(i+1, a)
		case nil:
			err = s.BindNull(i + 1)
		default:
			err = fmt.Errorf("cannot bind a %T", a)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// forget closes the prepared statements that are not running.
func (c *conn) forget() {
	for sql, s := range c.prepared {
		if !s.Busy() {
			s.Close()
			delete(c.prepared, sql)
		}
	}
}

// run executes a statement and hands its rows to row, which may be nil.
func (c *conn) run(row func(*sqlite3.Stmt) error, sql string, args ...any) error {
	if c.told != nil {
		c.told(sql)
	}
	s, err := c.prepare(sql, args...)
	if err != nil {
		return err
	}
	for s.Step() {
		if row != nil {
			if err := row(s); err != nil {
				s.Reset()
				return err
			}
		}
	}
	err = s.Err()
	s.Reset() // repeats the error of the step, if there was one
	return err
}

// transaction runs f between begin and COMMIT, or ROLLBACK when f or COMMIT
// fails.
func (c *conn) transaction(ctx context.Context, begin string, f func() error) (err error) {
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	if err := c.run(nil, begin); err != nil {
		return err
	}
	defer func() {
		if !c.GetAutocommit() { // not ended, neither by COMMIT nor by SQLite itself after a failure
			c.SetInterrupt(context.Background())
			if e := c.run(nil, "ROLLBACK"); err == nil {
				err = e
			}
		}
	}()
	if err := f(); err != nil {
		return err
	}
	return c.run(nil, "COMMIT")
}

func (c *conn) close() error {
	for _, s := range c.prepared {
		s.Close()
	}
	return c.Conn.Close()
}
