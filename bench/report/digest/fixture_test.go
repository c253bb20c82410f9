package digest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/testdata/testdb"
)

var fixture = flag.Bool("fixture", false, "write ../testdata/run.json anew, from plans of the test server")

const fixtureFile = "../testdata/run.json"

// TestFixture makes the run that the tests of the reports read:
//
//	go test ./bench/report/digest -run Fixture -fixture
//
// Its plans, rows and times are real, from small tables on the test server. Its
// experiments and its user's table are made up, and say so. It is not the
// laboratory: nothing here checks that the strategies agree, and the times are of
// a few runs on whatever else the machine does.
func TestFixture(t *testing.T) {
	if !*fixture {
		t.Skip("only with -fixture")
	}
	ctx := t.Context()
	run := result.Run{
		SchemaVersion: result.SchemaVersion, Version: "0.0.0-fixture",
		Made: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), Quick: true,
		Settings: result.Settings{
			Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()), Container: true, Warm: true,
			Variables: map[string]string{},
		},
		Warnings: []string{
			"This is a fixture for tests: few rows, few runs, and experiments that are made up.",
			"stacked, 5000 rows: two runs of s2 took more than 10 times the median and were kept.",
		},
	}
	for i, shape := range []dataset.Shape{dataset.Dense, dataset.Sparse, dataset.Stacked} {
		address := testdb.MySQL(t)
		e, err := mysql.Open(ctx, address, mysql.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			settings(t, e.DB(), &run.Settings)
		}
		schema := address[strings.LastIndex(address, "/")+1:]
		set, cases := measureSet(t, e, schema, shape)
		run.Sets = append(run.Sets, set)
		run.Cases = append(run.Cases, cases...)
	}
	madeUp(&run)
	f, err := os.Create(filepath.FromSlash(fixtureFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func settings(t *testing.T, db *sqlx.DB, s *result.Settings) {
	t.Helper()
	if err := db.GetContext(t.Context(), &s.Server, "SELECT CONCAT(VERSION(), ' ', @@version_comment)"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"optimizer_switch", "innodb_buffer_pool_size", "transaction_isolation", "eq_range_index_dive_limit", "range_optimizer_max_mem_size"} {
		var v string
		if err := db.GetContext(t.Context(), &v, "SELECT @@"+name); err != nil {
			t.Fatal(err)
		}
		s.Variables[name] = v
	}
}

// forced makes the engine use the index of every access.
type forced struct{ search.Source }

func (f forced) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	a.Force = forcible(a)
	return f.Source.Read(ctx, a, yield)
}

func (f forced) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	a.Force = forcible(a)
	return f.Source.Explain(ctx, a)
}

func forcible(a store.Access) bool { return a.Index != store.NoIndex && a.Index != store.IndexRemote }

func measureSet(t *testing.T, e *mysql.Engine, schema string, shape dataset.Shape) (result.Set, []result.Case) {
	t.Helper()
	ctx := t.Context()
	about := map[dataset.Shape]string{
		dataset.Dense:   "One city: a normal spread of 5 km around the centre.",
		dataset.Sparse:  "A country of 600 km by 600 km: towns, and jobs between them.",
		dataset.Stacked: "All jobs at one point.",
	}
	center := dataset.Seoul()
	set := result.Set{
		Name: string(shape), About: about[shape], Center: result.LatLng{Lat: center.Lat, Lng: center.Lng},
		Sizes: []int{1000, 5000}, Limit: 20, Radii: []float64{1000, 5000},
	}
	now := dataset.DefaultPosted()
	clock := func() time.Time { return now }
	jobs := slices.Collect(dataset.Config{Rows: 5000, Shape: shape, Center: center, Seed: 1}.Jobs())
	var cases []result.Case
	before := 0
	for _, rows := range set.Sizes {
		start := time.Now()
		for batch := range slices.Chunk(jobs[before:rows], 1000) {
			if _, err := e.Save(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		sum := result.Sum{Rows: rows, LoadMS: float64(time.Since(start).Microseconds()) / 1000}
		before = rows
		size(t, e.DB(), &sum)
		set.Sums = append(set.Sums, sum)
		for _, radius := range set.Radii {
			within := 0
			for _, j := range jobs[:rows] {
				if !j.Remote && (j.Expires.IsZero() || j.Expires.After(now)) && geo.NewOrigin(center).Distance(j.At) <= radius {
					within++
				}
			}
			for _, s := range search.Strategies() {
				c := result.Case{Set: set.Name, Rows: rows, RadiusM: radius, Strategy: s.Name(), Within: within}
				q := store.Query{Center: center, Radius: radius, Limit: set.Limit, Strategy: s.Name()}
				keep := rows == 5000 && shape != dataset.Stacked
				c.Free = measure(t, search.New(e, clock), q, e.DB(), schema, keep && radius == 5000, keep, &c)
				if s.Name() != "fullscan" {
					f := measure(t, search.New(forced{e}, clock), q, e.DB(), schema, false, false, nil)
					c.Forced = &f
				}
				cases = append(cases, c)
			}
		}
	}
	return set, cases
}

func size(t *testing.T, db *sqlx.DB, sum *result.Sum) {
	t.Helper()
	ctx := t.Context()
	if _, err := db.ExecContext(ctx, "ANALYZE TABLE open_job"); err != nil {
		t.Fatal(err)
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
		t.Fatal(err)
	}
	row := conn.QueryRowxContext(ctx, `SELECT (SELECT COUNT(*) FROM open_job), DATA_LENGTH / 1048576, INDEX_LENGTH / 1048576
		FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'open_job'`)
	if err := row.Scan(&sum.Open, &sum.DataMB, &sum.IndexMB); err != nil {
		t.Fatal(err)
	}
}

// measure runs a search some times and has it explained. With c it fills in what the
// search returned.
func measure(t *testing.T, f *search.Finder, q store.Query, db *sqlx.DB, schema string, keepJSON, trace bool, c *result.Case) result.Side {
	t.Helper()
	ctx := t.Context()
	const runs = 9
	var times []time.Duration
	for i := range runs + 1 {
		start := time.Now()
		page, err := f.Find(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 { // the first one warms up
			times = append(times, time.Since(start))
		}
		if c != nil {
			c.Returned = len(page.Jobs)
			c.Stats = result.Stats{Rounds: page.Stats.Rounds, Statements: page.Stats.Statements, Candidates: page.Stats.Candidates, Hits: page.Stats.Hits}
		}
	}
	_, ex, err := f.Explain(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	out := result.Side{Time: result.NewTiming(times)}
	for i, round := range ex.Rounds {
		for _, s := range round.Statements {
			st := result.Statement{Round: i + 1, SQL: s.SQL, Tree: s.Plan, Time: statementTime(t, db, s), Warnings: []result.Warning{}}
			// The test's schema has a random name, which says nothing.
			st.Tree = strings.ReplaceAll(st.Tree, schema, "nearjob")
			if keepJSON {
				st.JSON = json.RawMessage(strings.ReplaceAll(string(s.PlanJSON), schema, "nearjob"))
			}
			for _, a := range s.Args {
				st.Args = append(st.Args, literal(a))
			}
			for _, w := range s.Warnings {
				var r result.Warning
				head, text, _ := strings.Cut(w, ": ")
				if _, err := fmt.Sscanf(head, "%s %d", &r.Level, &r.Code); err != nil {
					t.Fatal(err)
				}
				r.Text = text
				st.Warnings = append(st.Warnings, r)
			}
			if trace {
				st.Trace = traceOf(t, db, s)
			}
			out.Statements = append(out.Statements, st)
		}
	}
	return out
}

func literal(a any) string {
	switch v := a.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
	}
}

func statementTime(t *testing.T, db *sqlx.DB, s store.Statement) result.Timing {
	t.Helper()
	var times []time.Duration
	for range 5 {
		start := time.Now()
		rows, err := db.QueryContext(t.Context(), s.SQL, s.Args...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	return result.NewTiming(times)
}

// traceOf reads of the optimizer trace what result.Trace holds.
func traceOf(t *testing.T, db *sqlx.DB, s store.Statement) *result.Trace {
	t.Helper()
	ctx := t.Context()
	conn, err := db.Connx(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.ExecContext(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("SET SESSION optimizer_trace_max_mem_size = 4194304")
	exec("SET SESSION optimizer_trace = 'enabled=on'")
	exec("EXPLAIN "+s.SQL, s.Args...)
	var row struct {
		Trace   string `db:"TRACE"`
		Missing int    `db:"MISSING_BYTES_BEYOND_MAX_MEM_SIZE"`
	}
	if err := conn.GetContext(ctx, &row, "SELECT TRACE, MISSING_BYTES_BEYOND_MAX_MEM_SIZE FROM information_schema.OPTIMIZER_TRACE"); err != nil {
		t.Fatal(err)
	}
	exec("SET SESSION optimizer_trace = 'enabled=off'")
	var whole any
	if err := json.Unmarshal([]byte(row.Trace), &whole); err != nil {
		t.Fatal(err)
	}
	ra, ok := member(whole, "range_analysis").(map[string]any)
	if !ok {
		return nil
	}
	out := &result.Trace{MissingBytes: row.Missing}
	if scan, ok := ra["table_scan"].(map[string]any); ok {
		out.ScanRows, _ = scan["rows"].(float64)
		out.ScanCost, _ = scan["cost"].(float64)
	}
	alternatives, _ := member(ra, "range_scan_alternatives").([]any)
	out.Chosen, out.ChosenCost = "table scan", out.ScanCost
	for _, a := range alternatives {
		m, ok := a.(map[string]any)
		if !ok {
			continue
		}
		alt := result.Alternative{Usable: true}
		alt.Index, _ = m["index"].(string)
		alt.Rows, _ = m["rows"].(float64)
		alt.Cost, _ = m["cost"].(float64)
		alt.IndexOnly, _ = m["index_only"].(bool)
		alt.Dives, _ = m["index_dives_for_eq_ranges"].(bool)
		alt.Chosen, _ = m["chosen"].(bool)
		alt.Cause, _ = m["cause"].(string)
		ranges, _ := m["ranges"].([]any)
		alt.Ranges = len(ranges)
		if alt.Chosen {
			out.Chosen, out.ChosenCost = "range on "+alt.Index, alt.Cost
		}
		out.Alternatives = append(out.Alternatives, alt)
	}
	if len(out.Alternatives) == 0 {
		out.Cause = "No index was considered."
	} else if out.Chosen == "table scan" {
		a := out.Alternatives[0]
		out.Cause = fmt.Sprintf("%s was expected to read %.0f rows at a cost of %.1f, the whole table %.0f rows at %.1f.", a.Index, a.Rows, a.Cost, out.ScanRows, out.ScanCost)
	} else {
		out.Cause = fmt.Sprintf("%s was the cheapest: a cost of %.1f against %.1f for the whole table.", out.Chosen, out.ChosenCost, out.ScanCost)
	}
	return out
}

// member returns the first member of that name, at any depth.
func member(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		if found, ok := v[name]; ok {
			return found
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if found := member(v[k], name); found != nil {
				return found
			}
		}
	case []any:
		for _, e := range v {
			if found := member(e, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// madeUp adds what no small run can measure. All figures in it are invented.
func madeUp(run *result.Run) {
	timing := func(ms float64) result.Timing {
		return result.Timing{Runs: 9, Median: ms, P95: ms * 1.3, Min: ms * 0.92, Max: ms * 1.4, Spread: 0.06}
	}
	run.Experiments = []result.Experiment{
		{
			Name: "crossover", Title: "When does the optimizer give up an index?",
			Question: "A range of growing width over one indexed column: from which part of the table on does MySQL scan instead? (Fixture: the figures are invented.)",
			Findings: []result.Finding{
				{Claim: "the index is kept up to so much of the table", Published: "20-30 %", Ours: "17 % (dense 16 %, sparse 18 %)", Verdict: result.Differs, Why: "The cost of a page in memory is a quarter of that of a page on disk, which older versions did not know."},
				{Claim: "a covering index is never given up", Published: "always used", Ours: "used at 100 %", Verdict: result.Confirmed, Why: "It is narrower than the table, so that reading all of it costs less."},
			},
			Charts: []result.Chart{{
				Title: "Time against the part of the table read",
				X:     result.Axis{Label: "part of the table, %", Log: true}, Y: result.Axis{Label: "time, ms", Log: true},
				Series: []result.Series{
					{Name: "index, not covering", Points: []result.Point{{X: 0.1, Y: 0.4, Lo: 0.35, Hi: 0.5}, {X: 1, Y: 2.1, Lo: 1.9, Hi: 2.4}, {X: 10, Y: 19, Lo: 17, Hi: 22}, {X: 50, Y: 96, Lo: 90, Hi: 110}}},
					{Name: "index, covering", Points: []result.Point{{X: 0.1, Y: 0.2, Lo: 0.18, Hi: 0.25}, {X: 1, Y: 0.6, Lo: 0.5, Hi: 0.7}, {X: 10, Y: 4.8, Lo: 4.5, Hi: 5.5}, {X: 50, Y: 23, Lo: 21, Hi: 26}}},
					{Name: "table scan", Points: []result.Point{{X: 0.1, Y: 31, Lo: 29, Hi: 35}, {X: 1, Y: 31, Lo: 29, Hi: 34}, {X: 10, Y: 33, Lo: 30, Hi: 37}, {X: 50, Y: 38, Lo: 35, Hi: 44}}},
				},
			}},
			Grids: []result.Grid{{
				Title: "The widest range that still uses the index", Columns: []string{"set", "index", "part #", "rows #"},
				Rows: [][]string{{"dense", "lat_lng", "16.0 %", "800"}, {"sparse", "lat_lng", "18.2 %", "910"}, {"dense", "lat_lng (covering)", "100 %", "5,000"}},
			}},
			Notes: []string{"All pages were in the buffer pool.", "With a cold buffer pool the index is given up earlier."},
			Quick: true,
		},
		{
			Name: "dive-limit", Title: "What do 200 values in a list change?",
			Question: "The same IN list with 199 and with 200 values: are the rows estimated by a look at the index, or by statistics? (Fixture: the figures are invented.)",
			Findings: []result.Finding{
				{Claim: "the estimate at 199 values", Published: "exact", Ours: "9,703 estimated, 9,703 actual", Verdict: result.Confirmed, Why: "Each value is looked up in the index while planning."},
				{Claim: "the estimate at 200 values", Published: "off by 10x", Ours: "200 estimated, 9,703 actual (49x)", Verdict: result.Refuted, Why: "It depends on the skew of the values alone | there is no fixed factor."},
				{Claim: "planning takes longer below the limit", Published: "15 %", Ours: "3 % ± 9 %", Verdict: result.Unclear, Why: "The spread is larger than the difference."},
			},
			Grids: []result.Grid{{
				Title: "Estimate against actual", Columns: []string{"values #", "estimated #", "actual #"},
				Rows: [][]string{{"199", "9,703", "9,703"}, {"200", "200", "9,703"}},
			}},
			Notes: []string{"`eq_range_index_dive_limit` is at its default of 200."}, Quick: true,
		},
		{
			Name: "cover-size", Title: "How many cells should cover a circle?",
			Question: "Fewer, larger cells read rows in vain; more, smaller ones cost ranges. (Fixture: the figures are invented.)",
			Findings: []result.Finding{
				{Claim: "8 to 16 cells are best", Published: "8-16", Ours: "12", Verdict: result.Confirmed, Why: "Below 8 the rows outside the circle dominate."},
			},
			Charts: []result.Chart{{
				Title: "Candidates for each hit", X: result.Axis{Label: "cells", Log: true}, Y: result.Axis{Label: "candidates per hit"},
				Series: []result.Series{
					{Name: "s2", Points: []result.Point{{X: 1, Y: 6.2}, {X: 4, Y: 2.4}, {X: 8, Y: 1.7}, {X: 16, Y: 1.4}, {X: 32, Y: 1.25}}},
					{Name: "h3", Points: []result.Point{{X: 1, Y: 7.9}, {X: 7, Y: 2.6}, {X: 19, Y: 1.6}, {X: 37, Y: 1.35}}},
				},
			}},
		},
	}
	run.Table = &result.Table{
		Name: "shop.places", Rows: 4_812, Copied: 4_790, Where: "deleted_at IS NULL",
		Problems: []result.Problem{
			{Kind: "null", Column: "latitude", Count: 17, Text: "No latitude: such rows are not copied, and no search by place finds them."},
			{Kind: "out-of-range", Column: "longitude", Count: 5, Example: "10442", Text: "Longitudes beyond 180: such rows are not copied. Latitude and longitude may be swapped."},
		},
		Today: []result.TodayCase{
			{RadiusM: 1000, Within: 140, Time: timing(14.2)},
			{RadiusM: 5000, Within: 1902, Time: timing(15.1)},
		},
		Advice: []result.Advice{
			{
				Strategy: "bbox",
				DDL:      []string{"ALTER TABLE `shop`.`places` ADD INDEX `lat_lng` (`latitude`, `longitude`);"},
				Query:    "SELECT id, name FROM `shop`.`places`\nWHERE latitude BETWEEN 37.5212 AND 37.6112\n  AND longitude BETWEEN 126.9211 AND 127.0347\nORDER BY ST_Distance_Sphere(POINT(longitude, latitude), POINT(126.9779, 37.5663))\nLIMIT 20;",
				RadiusM:  5000, Time: timing(3.4), Gain: 4.4,
			},
			{
				Strategy: "s2",
				DDL:      []string{"ALTER TABLE `shop`.`places` ADD COLUMN `s2` BIGINT NOT NULL DEFAULT 0;", "ALTER TABLE `shop`.`places` ADD INDEX `s2` (`s2`);"},
				Query:    "SELECT id, name FROM `shop`.`places`\nWHERE s2 BETWEEN 1927486839 AND 1927490934;",
				RadiusM:  5000, Time: timing(2.9), Gain: 5.2, Needs: "The application computes the S2 cell of each place when it is saved, and the ranges of each search.",
			},
		},
	}
}
