package experiment

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
)

// statementLimit bounds every SELECT on the server. None takes a tenth of it on a
// machine that is fit to measure on.
const statementLimit = 60 * time.Second

// MySQL's errors that a laboratory can live with.
const (
	errUnknownVariable = 1193 // 8.0 lacks some
	errNoThread        = 1094
	errNoPrivilege     = 1227
)

// number reports whether an error is MySQL's of one of the numbers.
func number(err error, numbers ...uint16) bool {
	my := new(driver.MySQLError)
	return errors.As(err, &my) && slices.Contains(numbers, my.Number)
}

// lab is where one experiment works: a schema, a pool, one session for what has
// to happen on one connection, and the notes that come up on the way.
type lab struct {
	Config
	schema *scratch.Schema
	db     *sql.DB
	main   *session
	conns  []int64 // of all sessions, to end them on the server

	done, total int
	notes       []string
	spreads     values // of all that was timed
}

// inLab calls f with a lab in a new schema, and wraps up what it found.
func inLab(ctx context.Context, c Config, e Experiment, question string, steps int,
	f func(context.Context, *lab, *result.Experiment) error,
) (out result.Experiment, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("experiment %s: %w", e.Name(), err)
		}
	}()
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return result.Experiment{}, err
	}
	schema, err := c.Server.Schema(ctx, cmp.Or(c.label, e.Name()))
	if err != nil {
		return result.Experiment{}, err
	}
	l := &lab{Config: c, schema: schema, total: steps}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	l.db, err = l.pool(func(cfg *driver.Config) { cfg.InterpolateParams = true })
	if err != nil {
		return result.Experiment{}, err
	}
	if l.main, err = l.session(ctx); err != nil {
		return result.Experiment{}, err
	}
	out = result.Experiment{
		Name: e.Name(), Title: e.Title(), Question: question, Quick: c.Quick,
		Findings: []result.Finding{}, Charts: []result.Chart{}, Grids: []result.Grid{},
	}
	if err := f(ctx, l, &out); err != nil {
		return result.Experiment{}, err
	}
	l.progress("")
	settings, err := l.settings(ctx)
	if err != nil {
		return result.Experiment{}, err
	}
	if len(l.spreads) > 0 {
		l.note("In the middle, the runs of one timing scattered by ±%.0f %%.", 100*l.spreads.median())
	}
	if l.noisy() {
		l.note("That is too much to tell one time from another, and findings that rest on times are unclear. Something else kept the machine busy: run it again.")
	}
	out.Notes = append(l.notes, settings)
	dropUndrawable(out.Charts)
	if c.Keep {
		out.Notes = append(out.Notes, "The tables are in the schema "+schema.Name+", which was kept.")
	}
	return out, nil
}

// mostSpread is the scatter beyond which times tell nothing.
const mostSpread = 0.2

func (l *lab) noisy() bool { return len(l.spreads) > 0 && l.spreads.median() > mostSpread }

// steady is a verdict that rests on times.
func (l *lab) steady(v result.Outcome) result.Outcome {
	if l.noisy() {
		return result.Unclear
	}
	return v
}

// dropUndrawable takes out points that are no numbers: what was not measured has no
// place in a chart, and none in JSON.
func dropUndrawable(charts []result.Chart) {
	undrawable := func(p result.Point) bool {
		return slices.ContainsFunc([]float64{p.X, p.Y, p.Lo, p.Hi}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	}
	for _, c := range charts {
		for i := range c.Series {
			c.Series[i].Points = slices.DeleteFunc(c.Series[i].Points, undrawable)
		}
	}
}

// close ends the sessions and drops the schema. After a cancellation statements
// may still be running on the server, where they would keep the drop waiting.
func (l *lab) close(ctx context.Context) error {
	var err error
	if ctx.Err() != nil {
		kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, id := range l.conns {
			if _, kerr := l.Server.DB().ExecContext(kctx, "KILL "+strconv.FormatInt(id, 10)); kerr != nil && !number(kerr, errNoThread) {
				err = errors.Join(err, fmt.Errorf("end connection %d: %w", id, kerr))
			}
		}
	}
	if l.main != nil {
		_ = l.main.Close() // its connection may be gone
	}
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	if l.Keep {
		return errors.Join(err, l.schema.Release())
	}
	return errors.Join(err, l.schema.Drop(ctx))
}

// pool returns connections to the schema of a kind of their own.
func (l *lab) pool(set func(*driver.Config)) (*sql.DB, error) {
	cfg := l.Server.Config()
	cfg.DBName = l.schema.Name
	set(cfg)
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the database address cannot be used") // the cause may show a password
	}
	db := sql.OpenDB(connector)
	db.SetConnMaxLifetime(3 * time.Minute) // well below any wait_timeout
	return db, nil
}

// note keeps a sentence for the result, once.
func (l *lab) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(l.notes, s) {
		l.notes = append(l.notes, s)
	}
}

// step says what comes next. The steps of an experiment are counted before it runs.
func (l *lab) step(what string, args ...any) {
	l.progress(fmt.Sprintf(what, args...))
	l.done++
}

func (l *lab) progress(what string) {
	if what == "" {
		l.done = l.total
	}
	l.Progress(min(l.done, l.total), l.total, what)
}

// settings names what the figures hang on, in a sentence.
func (l *lab) settings(ctx context.Context) (string, error) {
	var version string
	var buffers, pages int64
	err := l.main.conn.QueryRowContext(ctx, "SELECT VERSION(), @@innodb_buffer_pool_size, @@innodb_page_size").Scan(&version, &buffers, &pages)
	if err != nil {
		return "", fmt.Errorf("read the server's settings: %w", err)
	}
	var data int64
	err = l.main.conn.QueryRowContext(ctx,
		"SELECT COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?", l.schema.Name).Scan(&data)
	if err != nil {
		return "", fmt.Errorf("read the size of the tables: %w", err)
	}
	fits := "more than"
	if data > buffers {
		fits = "less than"
	}
	return fmt.Sprintf("MySQL %s; buffer pool %d MB, %s the tables; every statement ran before it was timed (warm); seed %d.",
		version, buffers>>20, fits, l.Seed), nil
}

// session is one connection with settings that do not depend on the server's.
type session struct {
	conn    *sql.Conn
	spreads *values // the lab's
}

// session opens a session of the lab's pool.
func (l *lab) session(ctx context.Context) (*session, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := &session{conn, &l.spreads}
	if err := l.prepare(ctx, s); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

func (s *session) Close() error { return s.conn.Close() }

// prepare sets up a new session.
func (l *lab) prepare(ctx context.Context, s *session) error {
	var id int64
	if err := s.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	l.conns = append(l.conns, id)
	for _, v := range []struct {
		set      string
		optional []uint16
		without  string
	}{
		{set: "max_execution_time = " + fmt.Sprint(statementLimit.Milliseconds())},
		{set: "transaction_isolation = 'READ-COMMITTED'"},
		{set: "explain_format = 'TREE'", optional: []uint16{errUnknownVariable}}, // FORMAT= says it too
		{set: "explain_json_format_version = 2", optional: []uint16{errUnknownVariable}},
		{set: "optimizer_trace_max_mem_size = 4194304"},
		// Gigabytes of generated rows have no place in anybody's binary log.
		{
			set: "sql_log_bin = 0", optional: []uint16{errNoPrivilege},
			without: "The account may not leave the generated rows out of the binary log (SESSION_VARIABLES_ADMIN), so that loading took longer.",
		},
	} {
		_, err := s.conn.ExecContext(ctx, "SET SESSION "+v.set)
		switch {
		case err == nil:
		case number(err, v.optional...):
			if v.without != "" {
				l.note("%s", v.without)
			}
		default:
			return fmt.Errorf("set %s: %w", v.set, err)
		}
	}
	return nil
}

// exec runs statements without arguments, one after the other.
func (s *session) exec(ctx context.Context, statements ...string) error {
	for _, q := range statements {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%.60s: %w", q, err)
		}
	}
	return nil
}
