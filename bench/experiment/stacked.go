package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/search"
)

// publishedRate is the load, in requests a second, at which a database whose rows
// shared one coordinate was said to go down.
const publishedRate = 300

// stacked asks what happens under load when all jobs share one coordinate.
type stacked struct{ size *stackedSize }

type stackedSize struct {
	rows    int
	rates   []int // requests a second, ascending
	each    time.Duration
	timeout time.Duration
	workers int
	rest    time.Duration // between two loads, for the server to calm down
	atMost  time.Duration // no further load is begun after it
}

func (e stacked) sizeFor(quick bool) stackedSize {
	switch {
	case e.size != nil:
		return *e.size
	case quick:
		return stackedSize{1500, []int{50, 300}, 400 * time.Millisecond, 2 * time.Second, 32, 50 * time.Millisecond, 6 * time.Second}
	}
	return stackedSize{10_000, []int{25, 50, 100, 200, 300, 500, 1000}, 3 * time.Second, 2 * time.Second, 64, time.Second, 150 * time.Second}
}

var _ Experiment = stacked{}

func (stacked) Name() string { return "stacked" }
func (stacked) Title() string {
	return "What happens under load when all jobs share one coordinate?"
}

// saveEach is how many jobs are saved in one transaction.
const saveEach = 500

// stackedStep is one strategy under one load.
type stackedStep struct {
	strategy string
	rate     int
	seen     loopSeen
}

func (s stackedStep) kept() bool { return s.seen.kept(s.rate) }

// errNotExpendable keeps the load off a server that others may need.
var errNotExpendable = errors.New("it loads the server until it no longer keeps up, and the server is not on a loopback address: " +
	"run it against a server of its own, or say that this one is expendable")

// Run implements [Experiment].
func (e stacked) Run(ctx context.Context, c Config) (result.Experiment, error) {
	if c.Server != nil && !c.Expendable && !onLoopback(c.Server.Config().Addr) {
		return result.Experiment{}, fmt.Errorf("experiment %s: %w", e.Name(), errNotExpendable)
	}
	size := e.sizeFor(c.Quick)
	strategies := search.Strategies()
	question := fmt.Sprintf("%s jobs at one coordinate are searched from there, for a page of %d, by each strategy. "+
		"The requests arrive at a fixed rate, whatever the answers do, which rises from %d to %d a second until the strategy does not keep it.",
		grouped(int64(size.rows)), store.DefaultLimit, size.rates[0], size.rates[len(size.rates)-1])
	return inLab(ctx, c, e, question, 1+len(strategies)*len(size.rates), func(ctx context.Context, l *lab, out *result.Experiment) error {
		workers, err := l.connections(ctx, size.workers)
		if err != nil {
			return err
		}
		size.workers = workers
		engine, err := mysql.Open(ctx, l.schema.DSN, mysql.Options{Timeout: size.timeout, MaxConns: size.workers})
		if err != nil {
			return err
		}
		run := stackedRun{lab: l, size: size, engine: engine}
		err = errors.Join(run.measure(ctx, strategies), engine.Close())
		if err != nil {
			return err
		}
		run.report(out)
		return nil
	})
}

// onLoopback reports whether an address host:port is this machine's own.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// connections returns how many of the wanted connections the server has room for.
func (l *lab) connections(ctx context.Context, wanted int) (int, error) {
	var most, used int
	err := l.main.conn.QueryRowContext(ctx, "SELECT @@max_connections, VARIABLE_VALUE + 0 FROM performance_schema.global_status"+
		" WHERE VARIABLE_NAME = 'Threads_connected'").Scan(&most, &used)
	if err != nil {
		return 0, fmt.Errorf("read how many connections the server allows: %w", err)
	}
	// A few are left to others.
	free := most - used - 10
	if free < 1 {
		return 0, fmt.Errorf("the server has %d of %d connections in use: raise max_connections", used, most)
	}
	if free < wanted {
		l.note("The server has room for %d connections of the %d that were wanted (max_connections is %d).", free, wanted, most)
	}
	return min(wanted, free), nil
}

type stackedRun struct {
	*lab
	size       stackedSize
	engine     *mysql.Engine
	steps      []stackedStep
	candidates map[string]int // of one search, by strategy
	order      []string
	skipped    []string
	answers    bool // the server answered after the last load
	silent     string
}

func (r *stackedRun) measure(ctx context.Context, strategies []search.Strategy) error {
	r.step("loading %s jobs at one coordinate", grouped(int64(r.size.rows)))
	if err := r.engine.Migrate(ctx); err != nil {
		return err
	}
	now := r.Now()
	if err := r.load(ctx, now); err != nil {
		return err
	}
	// The time stands still, so that the same jobs are open for all.
	finder := search.New(r.engine, func() time.Time { return now }, strategies...)
	q := func(s search.Strategy) store.Query {
		return store.Query{Center: center(), Radius: 1000, Strategy: s.Name()}
	}
	r.candidates = make(map[string]int)
	var first []store.Found
	for i, s := range strategies {
		page, err := finder.Find(ctx, q(s))
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name(), err)
		}
		if i == 0 {
			first = page.Jobs
		}
		if !slices.EqualFunc(first, page.Jobs, func(a, b store.Found) bool { return a.Job.ID == b.Job.ID && a.Distance == b.Distance }) {
			return fmt.Errorf("%w: %s and %s", errDifferent, strategies[0].Name(), s.Name())
		}
		r.candidates[s.Name()] = page.Stats.Candidates
		r.order = append(r.order, s.Name())
	}
	if len(first) == 0 {
		return errors.New("the search finds nothing")
	}
	begin := time.Now()
	for k, s := range strategies {
		if k > 0 && time.Since(begin) > r.size.atMost {
			r.skipped = append(r.skipped, s.Name())
			continue
		}
		for i, rate := range r.size.rates {
			r.done = 1 + k*len(r.size.rates) + i
			r.step("%s at %d requests a second", s.Name(), rate)
			seen, err := loop{rate, r.size.each, r.size.timeout, r.size.workers}.run(ctx, func(ctx context.Context) error {
				page, err := finder.Find(ctx, q(s))
				if err == nil && len(page.Jobs) != len(first) {
					err = fmt.Errorf("the page has %d jobs, not %d", len(page.Jobs), len(first))
				}
				return err
			})
			if err != nil {
				return err
			}
			step := stackedStep{s.Name(), rate, seen}
			r.steps = append(r.steps, step)
			if err := sleep(ctx, r.size.rest); err != nil {
				return err
			}
			if err := r.alive(ctx); err != nil {
				r.silent = fmt.Sprintf("after %s at %d requests a second: %v", s.Name(), rate, err)
				return ctx.Err() // nothing more can be measured, and that is the result
			}
			if !step.kept() {
				break
			}
		}
	}
	return nil
}

// load saves the jobs as the service does.
func (r *stackedRun) load(ctx context.Context, now time.Time) error {
	var batch []store.Job
	save := func() error {
		_, err := r.engine.Save(ctx, batch)
		batch = batch[:0]
		return err
	}
	n := 0
	c := dataset.Config{Rows: r.size.rows + r.size.rows/10 + 100, Shape: dataset.Stacked, Center: center(), Seed: r.Seed, Posted: now}
	for j := range c.Jobs() {
		if n == r.size.rows {
			break
		}
		if j.Remote {
			continue
		}
		j.Expires = time.Time{}
		batch = append(batch, j)
		n++
		if len(batch) == saveEach {
			if err := save(); err != nil {
				return err
			}
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return save()
}

// alive asks the server, over a connection of its own, whether it answers.
func (r *stackedRun) alive(ctx context.Context) error {
	r.answers = false
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var n int
	if err := r.Server.DB().QueryRowContext(ctx, "SELECT 1").Scan(&n); err != nil {
		return err
	}
	r.answers = true
	return nil
}

// sleep waits, but not longer than ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// limit is how far a strategy came.
type limit struct {
	strategy string
	kept     int // the highest rate that was kept; 0: none
	failed   int // the first rate that was not; 0: none
}

// limits sums up the steps, in their order.
func limits(steps []stackedStep) []limit {
	var all []limit
	for _, s := range steps {
		if len(all) == 0 || all[len(all)-1].strategy != s.strategy {
			all = append(all, limit{strategy: s.strategy})
		}
		l := &all[len(all)-1]
		if s.kept() {
			l.kept = s.rate
		} else if l.failed == 0 {
			l.failed = s.rate
		}
	}
	return all
}

// judgeStacked compares with "the database goes down at 300 a second".
func judgeStacked(answers bool, all []limit, top int) result.Outcome {
	if len(all) == 0 {
		return result.Unclear
	}
	least := 0 // the lowest rate that was not kept
	for _, l := range all {
		if l.failed > 0 && (least == 0 || l.failed < least) {
			least = l.failed
		}
	}
	switch {
	case !answers && within(float64(max(least, 1)), publishedRate):
		return result.Confirmed
	case !answers:
		return result.Differs
	case least > 0 && least <= publishedRate:
		return result.Differs // it does not keep up, but stays up
	case top < publishedRate:
		return result.Unclear
	}
	return result.Refuted
}

func (r *stackedRun) report(out *result.Experiment) {
	all := limits(r.steps)
	var parts []string
	for _, l := range all {
		switch {
		case l.failed == 0:
			parts = append(parts, fmt.Sprintf("%s kept %d", l.strategy, l.kept))
		case l.kept == 0:
			parts = append(parts, fmt.Sprintf("%s did not keep %d", l.strategy, l.failed))
		default:
			parts = append(parts, fmt.Sprintf("%s kept %d, not %d", l.strategy, l.kept, l.failed))
		}
	}
	f := result.Finding{
		Claim:     "With all rows at one coordinate the database goes down under load",
		Published: fmt.Sprintf("at %d requests a second", publishedRate),
		Verdict:   judgeStacked(r.answers, all, r.size.rates[len(r.size.rates)-1]),
	}
	if r.answers {
		f.Ours = "the server answered after every load; requests a second: " + strings.Join(parts, "; ")
		f.Why = "What a strategy does not keep shows as waiting and timeouts on the client's side; the limits of time on every statement, and a bounded pool, keep the server up."
	} else {
		f.Ours = "the server did not answer " + r.silent
		f.Why = "No more could be measured."
	}
	least, most := r.order[0], r.order[0]
	for _, s := range r.order {
		if r.candidates[s] < r.candidates[least] {
			least = s
		}
		if r.candidates[s] > r.candidates[most] {
			most = s
		}
	}
	f.Why += fmt.Sprintf(" No index can tell apart rows at one place: one page of %d took from %s candidates (%s) to %s (%s) of %s rows.",
		store.DefaultLimit, grouped(int64(r.candidates[least])), least, grouped(int64(r.candidates[most])), most, grouped(int64(r.size.rows)))
	out.Findings = append(out.Findings, f)

	p99 := result.Chart{
		Title: "Latency that one request in a hundred exceeds",
		X:     result.Axis{Label: "requests a second", Log: true},
		Y:     result.Axis{Label: "p99, ms", Log: true},
	}
	achieved := result.Chart{
		Title: "Answers a second", X: p99.X,
		Y: result.Axis{Label: "answers a second", Log: true},
	}
	g := result.Grid{
		Title: "Loads",
		Columns: []string{"strategy", "candidates #", "requests/s #", "answers/s #", "p50, ms #", "p95, ms #", "p99, ms #",
			"answered #", "timeouts #", "errors #", "kept"},
		Rows: [][]string{},
	}
	for _, name := range r.order {
		slow, rate := result.Series{Name: name}, result.Series{Name: name}
		for _, s := range r.steps {
			if s.strategy != name {
				continue
			}
			x := float64(s.rate)
			slow.Points = append(slow.Points, result.Point{X: x, Y: s.seen.quantile(0.99)})
			rate.Points = append(rate.Points, result.Point{X: x, Y: s.seen.achieved()})
			kept := "no"
			if s.kept() {
				kept = "yes"
			}
			g.Rows = append(g.Rows, []string{
				name, grouped(int64(r.candidates[name])), fmt.Sprint(s.rate), figure(s.seen.achieved()),
				figure(s.seen.quantile(0.5)), figure(s.seen.quantile(0.95)), figure(s.seen.quantile(0.99)),
				fmt.Sprint(s.seen.answered), fmt.Sprint(s.seen.expired), fmt.Sprint(s.seen.failed), kept,
			})
			if s.seen.first != nil {
				r.note("%s at %d requests a second, the first error: %v", name, s.rate, s.seen.first)
			}
		}
		if len(slow.Points) > 0 {
			p99.Series, achieved.Series = append(p99.Series, slow), append(achieved.Series, rate)
		}
	}
	out.Charts = append(out.Charts, p99, achieved)
	out.Grids = append(out.Grids, g)

	r.note("Open loop: requests arrive on time for %s whether or not earlier ones were answered, and a latency counts from the arrival. At most %d are under way at once, on as many connections; one that is older than %s is given up.",
		r.size.each, r.size.workers, r.size.timeout)
	r.note("A load is kept with at least %.0f %% of its rate answered and 99 of 100 answers within %s. A strategy's first load that is not kept is its last.", 100*leastAchieved, mostP99)
	if r.answers {
		r.note("The server still answered after the last load.")
	}
	if len(r.skipped) > 0 {
		r.note("The time was up before %s.", strings.Join(r.skipped, ", "))
	}
}
