package experiment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
)

// publishedBinary is how many times as fast as text Nearjob's engine found
// the rows of a prepared statement (see store/mysql).
const publishedBinary = 2.5

// protocol asks what the ways to send a statement cost.
type protocol struct{ size *protocolSize }

type protocolSize struct {
	rows   int
	found  int   // rows of the search
	pools  []int // ascending
	rounds int
	slice  time.Duration // how long one way runs in a round
}

func (e protocol) sizeFor(quick bool) protocolSize {
	switch {
	case e.size != nil:
		return *e.size
	case quick:
		return protocolSize{10_000, 400, []int{1, 10, 50}, leastRounds, 50 * time.Millisecond}
	}
	return protocolSize{100_000, 400, []int{1, 10, 50}, 9, 400 * time.Millisecond}
}

var _ Experiment = protocol{}

func (protocol) Name() string { return "protocol" }
func (protocol) Title() string {
	return "What do prepared statements, the pool's size and connections cost?"
}

// The ways to send a statement.
const (
	asText = iota
	perCall
	once
	newConnection
)

func protocolNames() []string {
	return []string{
		asText:        "text, interpolated",
		perCall:       "prepared for each call",
		once:          "prepared once",
		newConnection: "text, a connection for each call",
	}
}

// manyVariants is how many different arguments each statement is sent with.
const manyVariants = 16

// coverRanges is how many ranges of cells the search has.
const coverRanges = 8

// workload is a statement with the arguments that it is sent with in turn.
type workload struct {
	name string
	sql  string
	args [][]any
	rows values // that it returns
}

// protocolCell is one way to send one workload over one pool.
type protocolCell struct {
	workload, pool, way int // places in lists
	connections         int
	rates               values // calls a second, of each round
	latency             result.Timing
	calls               int
}

// Run implements [Experiment].
func (e protocol) Run(ctx context.Context, c Config) (result.Experiment, error) {
	size := e.sizeFor(c.Quick)
	question := fmt.Sprintf("A read of one row by its key and a search of about %d rows by ranges of S2 cells, sent through database/sql as text, "+
		"prepared for each call, and prepared once, by as many workers as the pool has connections; and as text with a new connection for each call.", size.found)
	return inLab(ctx, c, e, question, 1+2*len(size.pools), func(ctx context.Context, l *lab, out *result.Experiment) error {
		l.step("loading %s rows", grouped(int64(size.rows)))
		loads, err := loadProtocol(ctx, l, size)
		if err != nil {
			return err
		}
		var cells []protocolCell
		for p, pool := range size.pools {
			for w := range loads {
				l.step("%s, %d connections", loads[w].name, pool)
				got, err := comparePool(ctx, l, size, &loads[w], pool)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", loads[w].name, pool, err)
				}
				for i := range got {
					got[i].workload, got[i].pool = w, p
				}
				cells = append(cells, got...)
			}
		}
		reportProtocol(l, size, loads, cells, out)
		return nil
	})
}

func loadProtocol(ctx context.Context, l *lab, size protocolSize) ([]workload, error) {
	if err := l.main.loadRecords(ctx, l.Seed, size.rows, l.Now()); err != nil {
		return nil, err
	}
	points, err := places(dataset.Dense, l.Seed, size.rows)
	if err != nil {
		return nil, err
	}
	if err := l.main.loadPlaces(ctx, points); err != nil {
		return nil, err
	}
	if err := l.main.makeNarrow(ctx); err != nil {
		return nil, err
	}
	point := workload{name: "one row", sql: narrowSelect + " WHERE s2 = ? AND id = ?"}
	find := workload{
		name: fmt.Sprintf("about %d rows", size.found),
		sql:  narrowSelect + " WHERE (s2 BETWEEN ? AND ?" + strings.Repeat(" OR s2 BETWEEN ? AND ?", coverRanges-1) + ") AND expires > ?",
	}
	random := rand.New(rand.NewPCG(l.Seed, 0))
	now := l.Now().UnixMilli()
	distances := make(values, len(points))
	for range manyVariants {
		i := random.IntN(len(points))
		point.args = append(point.args, []any{cell.S2.Index(points[i]), int64(i + 1)})

		origin := geo.NewOrigin(points[i])
		for k, p := range points {
			distances[k] = origin.Distance(p)
		}
		// So few ranges hold about a quarter more than the circle.
		radius := distances.quantile(float64(min(size.found*4/5, len(points))-1) / float64(len(points)))
		cover := cell.Cover(cell.S2, geo.Ring{Center: points[i], Outer: radius}, coverRanges)
		var args []any
		for r := range coverRanges {
			// The last range again, where there are fewer: one statement for all.
			c := cover[min(r, len(cover)-1)]
			args = append(args, c.Lo, c.Hi)
		}
		find.args = append(find.args, append(args, now))
	}
	return []workload{point, find}, nil
}

// sender is one way to send a statement over a pool.
type sender struct {
	db   *sql.DB
	stmt *sql.Stmt // nil: the text is sent each time
}

func (s sender) send(ctx context.Context, w *workload, i int) (*sql.Rows, error) {
	if s.stmt != nil {
		return s.stmt.QueryContext(ctx, w.args[i]...)
	}
	return s.db.QueryContext(ctx, w.sql, w.args[i]...)
}

// read reads all rows into numbers, as a program does. The digest is of the
// numbers, for text and binary rows write them differently.
func (s sender) read(ctx context.Context, w *workload, i int, sum *digest) (n int, err error) {
	rows, err := s.send(ctx, w, i)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, pay, posted, expires int64
		var lat, lng float64
		if err := rows.Scan(&id, &pay, &posted, &expires, &lat, &lng); err != nil {
			return n, err
		}
		n++
		if sum != nil {
			sum.add([]sql.RawBytes{fmt.Appendf(nil, "%d %d %d %d %x %x", id, pay, posted, expires, math.Float64bits(lat), math.Float64bits(lng))})
		}
	}
	return n, rows.Err()
}

// comparePool compares the ways to send a workload over pools of a size.
func comparePool(ctx context.Context, l *lab, size protocolSize, w *workload, pool int) (cells []protocolCell, err error) {
	ways := []int{asText, perCall, once, newConnection}
	free, err := l.connections(ctx, len(ways)*pool)
	if err != nil {
		return nil, err
	}
	if free < len(ways)*pool {
		pool = max(1, free/len(ways))
		l.note("There was room for pools of %d connections only.", pool)
	}
	senders := make([]sender, len(ways))
	defer func() {
		for _, s := range senders {
			if s.stmt != nil {
				err = errors.Join(err, s.stmt.Close())
			}
			if s.db != nil {
				err = errors.Join(err, s.db.Close())
			}
		}
	}()
	for _, way := range ways {
		s := &senders[way]
		s.db, err = l.pool(func(cfg *driver.Config) {
			cfg.InterpolateParams = way == asText || way == newConnection
			cfg.Params = map[string]string{"max_execution_time": fmt.Sprint(statementLimit.Milliseconds())}
		})
		if err != nil {
			return nil, err
		}
		s.db.SetMaxOpenConns(pool)
		s.db.SetMaxIdleConns(pool)
		if way == newConnection {
			s.db.SetMaxIdleConns(-1)
		}
		if way == once {
			if s.stmt, err = s.db.PrepareContext(ctx, w.sql); err != nil {
				return nil, err
			}
		}
	}
	counts := make([]int, len(w.args))
	for i := range w.args {
		var first digest
		for k, way := range ways {
			var d digest
			if _, err := senders[way].read(ctx, w, i, &d); err != nil {
				return nil, fmt.Errorf("%s: %w", protocolNames()[way], err)
			}
			if k == 0 {
				first = d
			}
			if d != first {
				return nil, fmt.Errorf("%w: %s and %s", errDifferent, protocolNames()[ways[0]], protocolNames()[way])
			}
		}
		if first.rows == 0 {
			return nil, errors.New("the statement finds nothing")
		}
		counts[i] = first.rows
	}
	w.rows = nil
	for _, n := range counts {
		w.rows = append(w.rows, float64(n))
	}

	cells = make([]protocolCell, len(ways))
	took := make([][]time.Duration, len(ways))
	_, err = inTurns(ctx, repeats{size.rounds, time.Duration(2*size.rounds*len(ways)) * size.slice}, len(ways), func(way int) (time.Duration, error) {
		calls, elapsed, err := closedLoop(ctx, pool, size.slice, func(ctx context.Context, k int) error {
			i := k % len(w.args)
			n, err := senders[way].read(ctx, w, i, nil)
			if err == nil && n != counts[i] {
				err = fmt.Errorf("%d rows, not %d", n, counts[i])
			}
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", protocolNames()[way], err)
		}
		cells[way].rates = append(cells[way].rates, float64(len(calls))/elapsed.Seconds())
		took[way] = append(took[way], calls...)
		return elapsed, nil
	})
	if err != nil {
		return nil, err
	}
	for way := range cells {
		c := &cells[way]
		c.way, c.connections = way, pool
		c.rates = c.rates[1:] // the first round fills the pool
		c.latency = result.NewTiming(took[way])
		c.calls = len(took[way])
		if mid := c.rates.median(); mid > 0 {
			l.spreads = append(l.spreads, (c.rates.quantile(0.75)-c.rates.quantile(0.25))/2/mid)
		}
	}
	return cells, nil
}

// closedLoop has workers call do for a time, each again as soon as it returns, and
// at least once. It returns what each call took.
func closedLoop(ctx context.Context, workers int, lasts time.Duration, do func(ctx context.Context, k int) error) (calls []time.Duration, elapsed time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := time.Now()
	for id := range workers {
		all.Go(func() {
			var own []time.Duration
			for k := id; ctx.Err() == nil; k += workers {
				start := time.Now()
				if err := do(ctx, k); err != nil {
					cancel(err) // the first counts
					break
				}
				own = append(own, time.Since(start))
				if time.Since(begin) >= lasts {
					break
				}
			}
			mu.Lock()
			calls = append(calls, own...)
			mu.Unlock()
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	return calls, time.Since(begin), nil
}

func reportProtocol(l *lab, size protocolSize, loads []workload, cells []protocolCell, out *result.Experiment) {
	find := func(workload, pool, way int) *protocolCell {
		i := slices.IndexFunc(cells, func(c protocolCell) bool { return c.workload == workload && c.pool == pool && c.way == way })
		if i < 0 {
			return nil
		}
		return &cells[i]
	}
	// gains are how many times as many calls a second one way made than another.
	gains := func(of []int, fast, slow int) (v values, by []string) {
		for _, w := range of {
			var own values
			for p := range size.pools {
				a, b := find(w, p, fast), find(w, p, slow)
				if a != nil && b != nil && b.rates.median() > 0 {
					own = append(own, a.rates.median()/b.rates.median())
				}
			}
			v = append(v, own...)
			by = append(by, loads[w].name+" "+own.String())
		}
		return v, by
	}
	finding := func(claim, published string, ratio float64, of []int, fast, slow int, why string) result.Finding {
		v, by := gains(of, fast, slow)
		return result.Finding{
			Claim: claim, Published: published, Why: why, Verdict: l.steady(judgeRatio(ratio, v)),
			Ours: v.times() + " as many calls a second: " + strings.Join(by, ", "),
		}
	}
	lat := func(w, way int) string {
		if c := find(w, 0, way); c != nil {
			return figure(c.latency.Median) + " ms"
		}
		return "-"
	}
	// One finding for each of the published claims.
	out.Findings = append(out.Findings,
		finding("Interpolated arguments save the round trips of preparing for each call: one row", "the driver's documentation, without a figure", 0, []int{0}, asText, perCall,
			fmt.Sprintf("A statement that is prepared for each call takes two round trips, and a message to close it. With %d connection(s) a call took %s so and %s as text.",
				size.pools[0], lat(0, perCall), lat(0, asText))),
		finding(fmt.Sprintf("The same: %s", loads[1].name), "the driver's documentation, without a figure", 0, []int{1}, asText, perCall,
			fmt.Sprintf("Against the round trips that it saves, text has each number of each row written in digits and read again. With %d connection(s) a call took %s prepared for it and %s as text.",
				size.pools[0], lat(1, perCall), lat(1, asText))),
		finding("Some hundred rows come faster from a statement that is prepared once than as text", fmt.Sprintf("%s times, through the driver's own rows", figure(publishedBinary)), publishedBinary, []int{1}, once, asText,
			fmt.Sprintf("Binary rows hold numbers as numbers. With %d connection(s) the search took %s prepared once and %s as text. Here rows pass through database/sql, which takes its share of both.",
				size.pools[0], lat(1, once), lat(1, asText))),
		finding("A pool of connections is faster than a connection for each call", "common advice, without a figure", 0, []int{0, 1}, asText, newConnection,
			fmt.Sprintf("A new connection is a TCP handshake, an authentication and a thread on the server, before the statement: the read of one row took %s, against %s on a connection that was there.",
				lat(0, newConnection), lat(0, asText))),
	)
	if n := len(size.pools); n > 1 {
		var v values
		for w := range loads {
			for _, way := range []int{asText, perCall, once} {
				a, b := find(w, n-1, way), find(w, n-2, way)
				if a != nil && b != nil && b.rates.median() > 0 {
					v = append(v, a.rates.median()/b.rates.median())
				}
			}
		}
		out.Findings = append(out.Findings, result.Finding{
			Claim:     fmt.Sprintf("A pool of %d connections does more than one of %d", size.pools[n-1], size.pools[n-2]),
			Published: "common belief, without a figure",
			Ours:      v.times() + " as many calls a second",
			Verdict:   l.steady(judgeRatio(0, v)),
			Why:       "All is in memory, so that a call needs a processor and waits for nothing else: connections beyond the processors only wait for each other. Where reads wait for a disk, or the network is slow, more of them pay.",
		})
	}

	for w, load := range loads {
		c := result.Chart{
			Title: "Calls a second, " + load.name,
			X:     result.Axis{Label: "connections", Log: true},
			Y:     result.Axis{Label: "calls a second"},
		}
		for way, name := range protocolNames() {
			s := result.Series{Name: name}
			for p := range size.pools {
				if cell := find(w, p, way); cell != nil {
					s.Points = append(s.Points, result.Point{X: float64(cell.connections), Y: cell.rates.median(), Lo: cell.rates.min(), Hi: cell.rates.max()})
				}
			}
			c.Series = append(c.Series, s)
		}
		out.Charts = append(out.Charts, c)
	}
	g := result.Grid{
		Title:   "Throughput and latency",
		Columns: []string{"statement", "rows #", "connections #", "sent as", "calls/s #", "least #", "most #", "p50, ms #", "p95, ms #", "calls #"},
		Rows:    [][]string{},
	}
	for _, c := range cells {
		g.Rows = append(g.Rows, []string{
			loads[c.workload].name, figure(loads[c.workload].rows.median()), fmt.Sprint(c.connections), protocolNames()[c.way],
			figure(c.rates.median()), figure(c.rates.min()), figure(c.rates.max()),
			figure(c.latency.Median), figure(c.latency.P95), grouped(int64(c.calls)),
		})
	}
	out.Grids = append(out.Grids, g)
	l.note("Closed loop: as many workers as connections, each sending again as soon as it has read all rows. The ways take turns of %s; calls a second are the median over the turns. Idle connections are kept as many as open ones, but for a connection for each call.", size.slice)
	l.note("Both statements are sent with %d different arguments; all ways returned the same numbers for each of them.", manyVariants)
}
