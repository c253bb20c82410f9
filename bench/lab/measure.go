package lab

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/search"
)

// budget bounds how often a query runs: at least min times, then until its time is
// spent, at most max times. A query that takes longer than slow runs few times: its
// spread is small beside its length, and with a stacked set of 200,000 rows through
// the R-tree one takes seconds.
type budget struct {
	min, max int
	few      int
	slow     time.Duration
	search   time.Duration // of a side's whole searches
	alone    time.Duration // of a side's statements together
}

// With both sides and their statements, a case takes some 1.2 and 0.25 seconds.
var (
	fullBudget  = budget{min: 5, max: 30, few: 3, slow: time.Second, search: 300 * time.Millisecond, alone: 300 * time.Millisecond}
	quickBudget = budget{min: 3, max: 10, few: 2, slow: 250 * time.Millisecond, search: 60 * time.Millisecond, alone: 60 * time.Millisecond}
)

// runner is a query that is timed.
type runner struct {
	run    func(context.Context) error
	budget time.Duration
	times  []time.Duration
	spent  time.Duration
}

// interleave times runners in rounds, each in another order, until all are done.
func (b *budget) interleave(ctx context.Context, random *rand.Rand, all []*runner) error {
	// Its pages are in the buffer pool since it was explained; this is for prepared
	// statements and the caches on the way.
	for _, r := range all {
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	// What loading and comparing left behind is not to be swept while the clock runs.
	runtime.GC()
	todo := append([]*runner(nil), all...)
	for len(todo) > 0 {
		random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		next := todo[:0]
		for _, r := range todo {
			start := time.Now()
			if err := r.run(ctx); err != nil {
				return err
			}
			took := time.Since(start)
			r.times = append(r.times, took)
			r.spent += took
			least := b.min
			if took > b.slow {
				least = b.few
			}
			if n := len(r.times); n < b.max && (n < least || r.spent < r.budget) {
				next = append(next, r)
			}
		}
		todo = next
	}
	return nil
}

// measure measures the cases of one set, size and radius together.
func (r *run) measure(ctx context.Context, l *loaded, size int, radius float64, todo []work, p proved) ([]*capture, error) {
	captures := make([]*capture, len(todo))
	// aside is a side of a case with its timers.
	type aside struct {
		side       *result.Side
		search     *runner
		statements []*runner
	}
	var sides []aside
	conn, err := l.engine.DB().Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var prepared []*prepared
	defer func() {
		for _, s := range prepared {
			s.close()
		}
	}()
	for i, w := range todo {
		stats := p.free[w.strategy]
		c := r.blank(l.data, size, radius, w.strategy)
		c.Returned, c.Within = p.returned, p.within
		c.Stats = result.Stats{Rounds: stats.Rounds, Statements: stats.Statements, Candidates: stats.Candidates, Hits: stats.Hits}
		captures[i] = &capture{Case: c}
		q := r.query(l.data, radius)
		q.Strategy = w.strategy
		indexed := false
		for _, force := range []bool{false, true} {
			to := &c.Free
			if force {
				if !indexed {
					continue
				}
				c.Forced = new(result.Side)
				to = c.Forced
			}
			var statements []store.Statement
			var err error
			statements, indexed, err = r.explain(ctx, l, q, force, to)
			if err != nil {
				return nil, err
			}
			if !force {
				if err := trace(ctx, l.engine, statements, captures[i]); err != nil {
					return nil, err
				}
			}
			finder := l.finder(force)
			a := aside{side: to, search: &runner{budget: r.c.budget.search, run: func(ctx context.Context) error {
				_, err := finder.Find(ctx, q)
				return err
			}}}
			for _, s := range statements {
				st, err := prepareStatement(ctx, conn, s)
				if err != nil {
					return nil, err
				}
				prepared = append(prepared, st)
				a.statements = append(a.statements, &runner{run: st.readAll, budget: r.c.budget.alone / time.Duration(len(statements))})
			}
			sides = append(sides, a)
		}
	}
	var searches, alone []*runner
	for _, a := range sides {
		searches = append(searches, a.search)
		alone = append(alone, a.statements...)
	}
	if err := r.c.budget.interleave(ctx, r.random, searches); err != nil {
		return nil, err
	}
	if err := r.c.budget.interleave(ctx, r.random, alone); err != nil {
		return nil, err
	}
	for _, a := range sides {
		a.side.Time = result.NewTiming(a.search.times)
		for i, s := range a.statements {
			a.side.Statements[i].Time = result.NewTiming(s.times)
		}
	}
	return captures, nil
}

// recorder notes which accesses a search makes.
type recorder struct {
	search.Source
	accesses []store.Access
}

var _ search.Source = (*recorder)(nil)

func (r *recorder) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	r.accesses = append(r.accesses, a)
	return r.Source.Explain(ctx, a)
}

// explain has the statements of a search explained. It reports whether they read any
// index, which could be forced.
func (r *run) explain(ctx context.Context, l *loaded, q store.Query, force bool, to *result.Side) (_ []store.Statement, indexed bool, err error) {
	rec := &recorder{Source: l.source}
	if force {
		rec.Source = forced{l.source}
	}
	_, x, err := search.New(rec, func() time.Time { return l.now }, r.c.strategies...).Explain(ctx, q)
	if err != nil {
		return nil, false, fmt.Errorf("explain %s: %w", side(q.Strategy, force), err)
	}
	for _, a := range rec.accesses {
		indexed = indexed || a.Index != store.NoIndex
	}
	to.Statements = []result.Statement{}
	var all []store.Statement
	for i, round := range x.Rounds {
		for _, s := range round.Statements {
			st := result.Statement{Round: i + 1, SQL: s.SQL, Args: literals(s.Args), Tree: s.Plan, JSON: s.PlanJSON, Warnings: []result.Warning{}}
			for _, w := range s.Warnings {
				st.Warnings = append(st.Warnings, parseWarning(w))
			}
			to.Statements = append(to.Statements, st)
			all = append(all, s)
		}
	}
	return all, indexed, nil
}

// warningLine is how the engine writes a row of SHOW WARNINGS.
var warningLine = regexp.MustCompile(`(?s)^(\S+) (\d+): (.*)$`)

// parseWarning takes the engine's line apart. A line in another form is kept as text.
func parseWarning(line string) result.Warning {
	m := warningLine.FindStringSubmatch(line)
	if m == nil {
		return result.Warning{Level: "Warning", Text: line}
	}
	code, err := strconv.Atoi(m[2])
	if err != nil {
		return result.Warning{Level: "Warning", Text: line}
	}
	return result.Warning{Level: m[1], Code: code, Text: m[3]}
}

// literals writes arguments as the driver sends them in SQL, so that a statement can be
// tried by hand.
func literals(args []any) []string {
	all := make([]string, len(args))
	for i, v := range args {
		switch v := v.(type) {
		case nil:
			all[i] = "NULL"
		case string:
			all[i] = "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(v) + "'"
		case float64:
			all[i] = strconv.FormatFloat(v, 'g', -1, 64)
		default:
			all[i] = fmt.Sprint(v) // whole numbers
		}
	}
	return all
}

// prepared is a statement ready to be timed.
type prepared struct {
	conn *sql.Conn
	stmt driver.StmtQueryContext
	args []driver.NamedValue
}

// prepareStatement prepares a statement as the engine does for the service.
func prepareStatement(ctx context.Context, conn *sql.Conn, s store.Statement) (*prepared, error) {
	p := &prepared{conn: conn, args: make([]driver.NamedValue, len(s.Args))}
	for i, v := range s.Args {
		v, err := driver.DefaultParameterConverter.ConvertValue(v)
		if err != nil {
			return nil, fmt.Errorf("argument %d of %.60q: %w", i+1, s.SQL, err)
		}
		p.args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	err := conn.Raw(func(c any) error {
		preparer, ok := c.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("a %T cannot prepare", c)
		}
		stmt, err := preparer.PrepareContext(ctx, s.SQL)
		if err != nil {
			return err
		}
		if p.stmt, ok = stmt.(driver.StmtQueryContext); !ok {
			return errors.Join(fmt.Errorf("a %T cannot query", stmt), stmt.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare a statement to time it: %w", err)
	}
	return p, nil
}

// readAll executes the statement and takes every row.
func (p *prepared) readAll(ctx context.Context) error {
	err := p.conn.Raw(func(any) error {
		rows, err := p.stmt.QueryContext(ctx, p.args)
		if err != nil {
			return err
		}
		row := make([]driver.Value, len(rows.Columns()))
		for err == nil {
			err = rows.Next(row)
		}
		if err == io.EOF {
			err = nil
		}
		return errors.Join(err, rows.Close())
	})
	if err != nil {
		return fmt.Errorf("time a statement: %w", err)
	}
	return nil
}

// close gives the statement back. If that fails, the connection ends soon anyway.
func (p *prepared) close() {
	_ = p.conn.Raw(func(any) error {
		if s, ok := p.stmt.(driver.Stmt); ok {
			return s.Close()
		}
		return nil
	})
}

// traceMemory is far more than the longest trace: 34 kB for 24 ranges, twice.
const traceMemory = 16 << 20

// trace asks for the optimizer trace of each free statement. A trace that cannot be had
// is a warning, not an error: everything else stands without it.
func trace(ctx context.Context, e *mysql.Engine, statements []store.Statement, to *capture) (err error) {
	conn, err := e.DB().Connx(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	warn := func(format string, args ...any) {
		to.Warnings = append(to.Warnings, to.Case.Key()+": "+fmt.Sprintf(format, args...))
	}
	// The session goes back to the pool: the searches to come must not be traced.
	defer func() {
		off, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, offErr := conn.ExecContext(off, "SET SESSION optimizer_trace = 'enabled=off', optimizer_trace_max_mem_size = DEFAULT")
		if offErr != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool drops it
		}
	}()
	_, err = conn.ExecContext(ctx, "SET SESSION optimizer_trace = 'enabled=on,one_line=off', optimizer_trace_max_mem_size = "+strconv.Itoa(traceMemory))
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		warn("there is no optimizer trace: %v", err)
		return nil
	}
	for i, s := range statements {
		var tree string
		if err := conn.GetContext(ctx, &tree, "EXPLAIN FORMAT=TREE "+s.SQL, s.Args...); err != nil {
			return fmt.Errorf("explain a statement for its optimizer trace: %w", err)
		}
		var row struct {
			Trace   string `db:"TRACE"`
			Missing int    `db:"MISSING_BYTES_BEYOND_MAX_MEM_SIZE"`
			Denied  int    `db:"INSUFFICIENT_PRIVILEGES"`
		}
		err := conn.GetContext(ctx, &row, "SELECT TRACE, MISSING_BYTES_BEYOND_MAX_MEM_SIZE, INSUFFICIENT_PRIVILEGES FROM information_schema.OPTIMIZER_TRACE")
		if errors.Is(err, sql.ErrNoRows) {
			warn("the server kept no optimizer trace of statement %d", i+1)
			to.Traces = append(to.Traces, json.RawMessage(`""`))
			continue
		}
		if err != nil {
			return fmt.Errorf("read an optimizer trace: %w", err)
		}
		to.Traces = append(to.Traces, rawTrace(row.Trace))
		parsed, err := ParseTrace([]byte(row.Trace))
		switch {
		case row.Denied != 0:
			warn("the account may not see the optimizer trace of statement %d: it lacks a right on something that the statement uses", i+1)
			continue
		case row.Missing > 0:
			parsed = &result.Trace{Alternatives: []result.Alternative{}, MissingBytes: row.Missing,
				Cause: fmt.Sprintf("the trace is %d bytes longer than optimizer_trace_max_mem_size let it be", row.Missing)}
		case err != nil:
			warn("the optimizer trace of statement %d cannot be read: %v", i+1, err)
			continue
		default:
			mend(parsed, tree)
		}
		to.Case.Free.Statements[i].Trace = parsed
	}
	return nil
}

// rawTrace keeps a trace as JSON if it is, as a string otherwise: MySQL cuts long
// ones and escapes little.
func rawTrace(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`) // not for a string
	}
	return b
}
