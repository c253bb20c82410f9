package mysql

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

// chunk is how many candidates Read hands over at a time.
const chunk = 256

// Read implements [store.Reader].
func (e *Engine) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	cols, statements, err := build(a, e.shorter(ctx))
	if err != nil {
		return 0, err
	}
	r := reader{cols: cols, yield: yield, left: a.Limit}
	for i, s := range statements {
		if err := e.read(ctx, s, &r); err != nil {
			return i + 1, err
		}
		if a.Limit > 0 && r.left == 0 {
			return i + 1, r.flush()
		}
	}
	return len(statements), r.flush()
}

// shorter returns the time to ctx's deadline if that is less than the limit
// that every session has, otherwise 0. It is rounded up to 1, 2 or 5 times a
// power of ten milliseconds, so that it makes few different statements: it only
// stands by for the KILL that comes at the deadline itself.
func (e *Engine) shorter(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		// An expired context is noticed before a statement is sent.
		left := time.Until(deadline)
		for step := 10 * time.Millisecond; step < e.timeout; step *= 10 {
			for _, limit := range []time.Duration{step, 2 * step, 5 * step} {
				if left <= limit && limit < e.timeout {
					return limit
				}
			}
		}
	}
	return 0
}

// read hands the rows of one statement to r.
func (e *Engine) read(ctx context.Context, s statement, r *reader) error {
	err := e.query(ctx, s, r.readAll)
	if r.stopped != nil {
		return r.stopped
	}
	return err
}

// query sends one statement and has its rows read. It goes around database/sql's
// Rows to the driver's, which already holds numbers as numbers: that takes a
// fifth off the time of 400 rows (BenchmarkScan).
func (e *Engine) query(ctx context.Context, s statement, readAll func(driver.Rows) error) error {
	lctx, cancel := e.limited(ctx)
	defer cancel()
	args := make([]driver.NamedValue, len(s.args))
	for i, v := range s.args {
		if n, ok := v.(int); ok {
			v = int64(n)
		}
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	for attempt := 0; ; attempt++ {
		sent := false
		err := e.raw(lctx, func(c *session) error {
			rows, err := c.query(lctx, s.sql, args)
			if err != nil {
				return err
			}
			sent = true
			return errors.Join(readAll(rows), rows.Close())
		})
		if err == nil {
			return nil
		}
		// As database/sql does for its own queries: a connection that turns out
		// to be dead before anything was sent says nothing about the next.
		if !sent && attempt == 0 && errors.Is(err, driver.ErrBadConn) {
			continue
		}
		return translate(ctx, err)
	}
}

// raw calls f with a session of the pool.
func (e *Engine) raw(ctx context.Context, f func(*session) error) error {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error {
		s, ok := c.(*session)
		if !ok {
			return fmt.Errorf("mysql: the pool holds a %T", c)
		}
		return f(s)
	})
}

// reader collects candidates and hands them over a chunk at a time.
type reader struct {
	cols    columns
	yield   func([]store.Candidate) error
	left    int // rows that are still wanted; counts only with a limit
	buf     []store.Candidate
	stopped error // yield's
}

// readAll reads rows to their end.
func (r *reader) readAll(rows driver.Rows) error {
	if r.buf == nil {
		r.buf = make([]store.Candidate, 0, chunk)
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r.buf = append(r.buf, store.Candidate{})
		if err := r.cols.scan(row, &r.buf[len(r.buf)-1]); err != nil {
			return err
		}
		r.left--
		if len(r.buf) == cap(r.buf) {
			if err := r.flush(); err != nil {
				return err
			}
		}
		if r.left == 0 {
			return nil // by the LIMIT of a statement, this is its last row
		}
	}
}

func (r *reader) flush() error {
	if len(r.buf) == 0 {
		return nil
	}
	r.stopped = r.yield(r.buf)
	r.buf = r.buf[:0]
	return r.stopped
}

// scan sets a candidate from a row of these columns.
func (c *columns) scan(row []driver.Value, to *store.Candidate) error {
	i := 0
	next := func() (v driver.Value) {
		v = row[i]
		i++
		return v
	}
	integer := func() (n int64, ok bool) { n, ok = next().(int64); return n, ok }
	float := func() (f float64, ok bool) { f, ok = next().(float64); return f, ok }
	text := func() (s string, ok bool) {
		b, ok := next().([]byte)
		return string(b), ok
	}
	id, ok := integer()
	to.ID = store.ID(id)
	good := ok
	to.Pay, ok = integer()
	good = good && ok
	to.Posted, ok = integer()
	good = good && ok
	to.Expires, ok = integer()
	good = good && ok
	if c.place {
		to.At.Lat, ok = float()
		good = good && ok
		to.At.Lng, ok = float()
		good = good && ok
	}
	if c.category {
		to.Category, ok = text()
		good = good && ok
	}
	if c.employer {
		to.Employer, ok = text()
		good = good && ok
	}
	if c.number != "" {
		to.Number, ok = integer()
		good = good && ok
	}
	if !good {
		return fmt.Errorf("mysql: a row is not of the types %s", c.list())
	}
	return nil
}

// Explain implements [store.Reader]. All its statements run on one connection.
func (e *Engine) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	_, statements, err := build(a, e.shorter(ctx))
	if err != nil {
		return nil, err
	}
	conn, err := e.db.Connx(ctx)
	if err != nil {
		return nil, translate(ctx, err)
	}
	defer conn.Close()
	// 8.4 has EXPLAIN ANALYZE as JSON in version 2 of its format only, which is
	// not its default; 8.0 has neither the variable nor the form.
	_, err = conn.ExecContext(ctx, "SET SESSION explain_json_format_version = 2")
	hasJSON := !hasNumber(err, errUnknownVariable)
	if err != nil && hasJSON {
		return nil, translate(ctx, err)
	}
	all := make([]store.Statement, 0, len(statements))
	for _, s := range statements {
		plan, err := e.explain(ctx, conn, s, hasJSON)
		if err != nil {
			return nil, err
		}
		all = append(all, plan)
	}
	return all, nil
}

// explain has one statement explained.
func (e *Engine) explain(ctx context.Context, conn *sqlx.Conn, s statement, hasJSON bool) (store.Statement, error) {
	out := store.Statement{SQL: s.sql, Args: s.args}
	run := func(form string) (string, error) {
		lctx, cancel := e.limited(ctx)
		defer cancel()
		var text string
		if err := conn.GetContext(lctx, &text, "EXPLAIN ANALYZE FORMAT="+form+" "+s.sql, s.args...); err != nil {
			return "", translate(ctx, err)
		}
		var warnings []struct {
			Level   string `db:"Level"`
			Code    int    `db:"Code"`
			Message string `db:"Message"`
		}
		if err := conn.SelectContext(lctx, &warnings, "SHOW WARNINGS"); err != nil {
			return "", translate(ctx, err)
		}
		for _, w := range warnings {
			line := fmt.Sprintf("%s %d: %s", w.Level, w.Code, w.Message)
			if w.Code == errInterrupted || w.Code == errStatementTime {
				// EXPLAIN ANALYZE then returns the plan as far as it ran, as if it were whole.
				return "", translate(ctx, fmt.Errorf("%w: EXPLAIN ANALYZE: %s", store.ErrTimeout, line))
			}
			if w.Code != noteRewritten && !slices.Contains(out.Warnings, line) {
				out.Warnings = append(out.Warnings, line)
			}
		}
		return text, nil
	}
	var err error
	if out.Plan, err = run("TREE"); err != nil {
		return out, err
	}
	if hasJSON {
		text, err := run("JSON")
		if err != nil {
			return out, err
		}
		if !json.Valid([]byte(text)) {
			return out, errors.New("mysql: EXPLAIN ANALYZE FORMAT=JSON did not return JSON")
		}
		out.PlanJSON = json.RawMessage(text)
	}
	return out, nil
}
