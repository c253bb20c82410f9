package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// least is a budget for tests, which are not about time.
var least = &budget{min: 2, max: 2, few: 2, slow: time.Hour}

func openServer(t *testing.T) *scratch.Server {
	t.Helper()
	s, err := scratch.Open(t.Context(), testdb.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// unique makes the name of a set that no other run on the server has.
func unique(t *testing.T, shape dataset.Shape, rows int) Set {
	t.Helper()
	b := make([]byte, 5)
	rand.Read(b)
	s := Generated(shape, rows, dataset.Seoul(), time.Time{})
	s.Name = "t" + hex.EncodeToString(b)
	return s
}

// noSchemas checks that nothing of a set is left on the server.
func noSchemas(t *testing.T, s *scratch.Server, set Set) {
	t.Helper()
	left, err := s.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if strings.Contains(name, schemaName(set.Name)) {
			t.Errorf("the schema %s is left", name)
		}
	}
}

// files returns the content of the captures.
func files(t *testing.T, out string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(out, capturesDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(p), ".json")] = string(b)
	}
	return all
}

// sameRun compares what two runs found, but for the time when they ended.
func sameRun(t *testing.T, a, b *result.Run) {
	t.Helper()
	var x, y bytes.Buffer
	aa, bb := *a, *b
	aa.Made, bb.Made = time.Time{}, time.Time{}
	if err := errors.Join(aa.Write(&x), bb.Write(&y)); err != nil {
		t.Fatal(err)
	}
	if x.String() != y.String() {
		t.Errorf("the runs differ:\n%s\n%s", x.String(), y.String())
	}
}

// TestRun measures small sets of every shape and checks all that does not depend on
// time; then again from the captures, with and without a server.
func TestRun(t *testing.T) {
	s := openServer(t)
	made := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := Config{
		Server: s, Rows: []int{600, 300}, Radii: []float64{2000, 50_000}, Limit: 50, Quick: true, Out: t.TempDir(),
		Version: "test", Container: true, Now: func() time.Time { return made }, budget: least,
	}
	for _, shape := range dataset.Shapes() {
		set := unique(t, shape, 600)
		set.Name += "-" + string(shape)
		c.Sets = append(c.Sets, set)
	}
	var steps []Step
	c.Progress = func(s Step) { steps = append(steps, s) }
	run, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	strategies := search.Strategies()
	if want := len(c.Sets) * 2 * 2 * len(strategies); len(run.Cases) != want {
		t.Fatalf("%d cases, want %d", len(run.Cases), want)
	}
	if run.SchemaVersion != result.SchemaVersion || run.Version != "test" || !run.Made.Equal(made) || !run.Quick || len(run.Warnings) != 0 {
		t.Errorf("version %d %q, made %v, quick %v, warnings %q", run.SchemaVersion, run.Version, run.Made, run.Quick, run.Warnings)
	}
	checkSettings(t, run)
	i := 0
	for n, set := range run.Sets {
		if set.Name != c.Sets[n].Name || set.About == "" || !slices.Equal(set.Sizes, []int{300, 600}) || set.Limit != 50 || len(set.Sums) != 2 {
			t.Errorf("set %+v", set)
		}
		for k, sum := range set.Sums {
			if sum.Rows != set.Sizes[k] || sum.Open >= sum.Rows || sum.Open < sum.Rows*8/10 || sum.DataMB <= 0 || sum.IndexMB <= 0 || sum.LoadMS <= 0 {
				t.Errorf("%s: %+v", set.Name, sum)
			}
		}
		for _, rows := range set.Sizes {
			for _, radius := range set.Radii {
				for _, strategy := range strategies {
					k := &run.Cases[i]
					i++
					if k.Set != set.Name || k.Rows != rows || k.RadiusM != radius || k.Strategy != strategy.Name() {
						t.Fatalf("case %d is %s", i, k.Key())
					}
					checkCase(t, k)
				}
			}
		}
	}
	if last := steps[len(steps)-1]; last.Done != last.Total || last.Total != len(run.Cases)+2*len(c.Sets) {
		t.Errorf("the last step is %+v", last)
	}
	for _, set := range c.Sets {
		noSchemas(t, s, set)
	}

	captured := files(t, c.Out)
	if want := len(run.Cases) + 2*len(c.Sets) + 1; len(captured) != want {
		t.Errorf("%d files, want %d", len(captured), want)
	}
	checkTraces(t, captured)
	for _, server := range []*scratch.Server{s, nil} {
		c.Server = server
		steps = nil
		again, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sameRun(t, run, again)
		for _, step := range steps {
			if strings.Contains(step.What, "loaded") || strings.Contains(step.What, "measuring") {
				t.Errorf("with all captures there: %+v", step)
			}
		}
	}
	if after := files(t, c.Out); len(after) != len(captured) || after["environment"] != captured["environment"] {
		t.Error("the captures changed")
	}
}

func checkSettings(t *testing.T, run *result.Run) {
	t.Helper()
	s := run.Settings
	if s.Server == "" || s.Machine == "" || !s.Container || !s.Warm {
		t.Errorf("settings %+v", s)
	}
	for _, v := range []string{"optimizer_switch", "innodb_buffer_pool_size", "eq_range_index_dive_limit", "range_optimizer_max_mem_size",
		"innodb_stats_persistent", "innodb_stats_persistent_sample_pages", "tmp_table_size", "sort_buffer_size", "join_buffer_size", "max_execution_time"} {
		if s.Variables[v] == "" {
			t.Errorf("the variable %s is missing", v)
		}
	}
	// Of a session as the measured ones are, not of any.
	if s.Variables["transaction_isolation"] != "READ-COMMITTED" || s.Variables["max_execution_time"] != "300000" {
		t.Errorf("the settings are of another session: %q", s.Variables)
	}
}

// checkCase checks one case.
func checkCase(t *testing.T, c *result.Case) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf(c.Key()+": "+format, args...)
	}
	if c.Returned != min(c.Within, 50) || c.Stats.Candidates < c.Stats.Hits || c.Stats.Hits < c.Returned || c.Stats.Rounds < 1 {
		fault("%d returned of %d, %+v", c.Returned, c.Within, c.Stats)
	}
	if strings.HasSuffix(c.Set, "-stacked") && c.Within < c.Rows*8/10 {
		fault("%d of %d are within, all at the centre", c.Within, c.Rows)
	}
	if (c.Forced == nil) != (c.Strategy == "fullscan") {
		fault("forced is %v", c.Forced)
	}
	sides := []*result.Side{&c.Free}
	if c.Forced != nil {
		sides = append(sides, c.Forced)
	}
	for n, side := range sides {
		if side.Time.Runs != 2 || side.Time.Min <= 0 || len(side.Statements) == 0 {
			fault("timing %+v of %d statements", side.Time, len(side.Statements))
		}
		for _, st := range side.Statements {
			if st.Round < 1 || st.Round > c.Stats.Rounds || st.Time.Runs != 2 || st.Time.Min <= 0 || strings.Count(st.SQL, "?") != len(st.Args) {
				fault("statement %+v", st)
			}
			if force := strings.Contains(st.SQL, "FORCE INDEX"); force != (n == 1) || strings.Contains(st.SQL, "MAX_EXECUTION_TIME") {
				fault("side %d sends %s", n, st.SQL)
			}
			for _, text := range []string{st.Tree, string(st.JSON)} {
				plans, err := plan.Parse(strings.NewReader(text))
				if err != nil || len(plans) != 1 || !plans[0].Analyzed || len(plans[0].Unread) != 0 || len(plans[0].Warnings) != 0 {
					fault("the plan cannot be read: %v\n%s", err, text)
				}
			}
			if n == 1 {
				if st.Trace != nil {
					fault("a forced statement is traced")
				}
				continue
			}
			if st.Trace == nil {
				fault("no trace of %s", st.SQL)
			} else if st.Trace.Cause == "" || st.Trace.Chosen == "" || st.Trace.ScanCost <= 0 || len(st.Trace.Alternatives) == 0 || st.Trace.MissingBytes != 0 {
				fault("trace %+v", st.Trace)
			}
		}
	}
}

// checkTraces: the files hold a raw trace for each free statement.
func checkTraces(t *testing.T, captured map[string]string) {
	t.Helper()
	cases := 0
	for key, text := range captured {
		var f capture
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if f.Case == nil {
			continue
		}
		cases++
		if f.Case.Key() != key || len(f.Traces) != len(f.Case.Free.Statements) {
			t.Errorf("%s holds %s with %d traces of %d statements", key, f.Case.Key(), len(f.Traces), len(f.Case.Free.Statements))
		}
		for _, raw := range f.Traces {
			if _, err := ParseTrace(raw); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	if cases == 0 {
		t.Error("no cases among the captures")
	}
}

// TestResume breaks captures in several ways: only what is missing or does not fit is
// measured again.
func TestResume(t *testing.T) {
	s := openServer(t)
	set := unique(t, dataset.Dense, 400)
	c := Config{Server: s, Sets: []Set{set}, Rows: []int{200, 400, 1000}, Radii: []float64{3000}, Quick: true, Out: t.TempDir(), budget: least}
	run, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Sets[0].Sizes) != 2 || len(run.Warnings) != 1 || !strings.Contains(run.Warnings[0], "fewer than the 1,000") {
		t.Errorf("sizes %v, warnings %q", run.Sets[0].Sizes, run.Warnings)
	}
	before := files(t, c.Out)
	key := set.Name + "-400-3000m-"
	for _, gone := range []string{"h3", "s2"} {
		if err := os.Remove(filepath.Join(c.Out, capturesDir, key+gone+".json")); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(c.Out, capturesDir, set.Name+"-200-3000m-bbox.json")
	if err := os.WriteFile(damaged, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	without := c
	without.Server = nil
	if _, err := without.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "3 of 14 captures are missing") || !strings.Contains(err.Error(), "name a server") {
		t.Errorf("without a server: %v", err)
	}
	again, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Warnings) != 2 || !strings.Contains(again.Warnings[1], "bbox.json did not fit") {
		t.Errorf("warnings %q", again.Warnings)
	}
	if len(again.Cases) != len(run.Cases) {
		t.Errorf("%d cases, want %d", len(again.Cases), len(run.Cases))
	}
	after := files(t, c.Out)
	for name, text := range before {
		measured := name == key+"h3" || name == key+"s2" || name == set.Name+"-200-3000m-bbox"
		if (after[name] != text) != measured {
			t.Errorf("%s: measured again is %v, want %v", name, after[name] != text, measured)
		}
	}

	// Another version may send other SQL: nothing of the old one is used, one warning says it.
	c.Version = "other"
	again, err = c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Warnings) != 2 || !strings.Contains(again.Warnings[1], "and 13 other captures") || !strings.Contains(again.Warnings[1], "the version of Nearjob") {
		t.Errorf("warnings %q", again.Warnings)
	}
	// So it is with other jobs.
	c.Sets[0].Jobs[7].Title += "!"
	again, err = c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Warnings) < 2 || !strings.Contains(strings.Join(again.Warnings, "\n"), "what differs is the jobs") {
		t.Errorf("warnings %q", again.Warnings)
	}
	noSchemas(t, s, set)
}

// faulty is a source that spoils the answers of one index.
type faulty struct {
	search.Source
	index store.Index
	spoil func([]store.Candidate) []store.Candidate
}

func (f faulty) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	return f.Source.Read(ctx, a, func(cs []store.Candidate) error {
		if a.Index == f.index {
			cs = f.spoil(slices.Clone(cs))
		}
		return yield(cs)
	})
}

// TestDifference: a strategy that loses a row, and one that moves it by the last bit of
// its latitude, stop the run before anything is captured.
func TestDifference(t *testing.T) {
	s := openServer(t)
	set := unique(t, dataset.Dense, 200)
	spoiled := map[string]func([]store.Candidate) []store.Candidate{
		"lost": func(cs []store.Candidate) []store.Candidate { return cs[min(1, len(cs)):] },
		"moved": func(cs []store.Candidate) []store.Candidate {
			for i := range cs {
				cs[i].At.Lat = math.Nextafter(cs[i].At.Lat, 90)
			}
			return cs
		},
	}
	for name, spoil := range spoiled {
		t.Run(name, func(t *testing.T) {
			c := Config{Server: s, Sets: []Set{set}, Rows: []int{200}, Radii: []float64{20_000}, Quick: true, Out: t.TempDir(), budget: least,
				wrap: func(src search.Source) search.Source { return faulty{src, store.IndexH3, spoil} }}
			_, err := c.Run(t.Context())
			var d *DifferenceError
			if !errors.As(err, &d) {
				t.Fatalf("the error is %v", err)
			}
			if d.A != bruteForce || d.B != "h3" || d.Set != set.Name || d.Rows != 200 || d.Query.Radius != 20_000 || len(d.Differences) == 0 {
				t.Errorf("%+v", d)
			}
			for name := range files(t, c.Out) {
				if strings.Contains(name, "m-") {
					t.Errorf("%s was captured", name)
				}
			}
			noSchemas(t, s, set)
		})
	}
}

// failing is a strategy whose database is gone.
type failing struct{ search.Strategy }

var errFails = errors.New("it fails")

func (failing) Search(context.Context, *search.Task) error { return errFails }

func TestStrategyError(t *testing.T) {
	s := openServer(t)
	set := unique(t, dataset.Dense, 50)
	c := Config{Server: s, Sets: []Set{set}, Rows: []int{50}, budget: least, strategies: []search.Strategy{failing{search.Strategies()[0]}}}
	_, err := c.Run(t.Context())
	if !errors.Is(err, errFails) || !strings.Contains(err.Error(), "fullscan on") || !strings.Contains(err.Error(), set.Name) {
		t.Errorf("the error is %v", err)
	}
	noSchemas(t, s, set)
}

// TestCancel ends the context at several moments: no schema stays, the captures do, and
// the same command goes on.
func TestCancel(t *testing.T) {
	s := openServer(t)
	out := t.TempDir()
	set := unique(t, dataset.Dense, 1500)
	c := Config{Server: s, Sets: []Set{set}, Rows: []int{200, 1500}, Radii: []float64{3000}, Quick: true, Out: out, budget: least}
	for _, at := range []string{"reading the server", "1200 of 1500 rows loaded", "1500 rows, 3000m: comparing", "1500 rows, 3000m: measuring"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reached := false
			c.Progress = func(s Step) {
				if strings.Contains(s.What, at) {
					reached = true
					cancel()
				}
			}
			_, err := c.Run(ctx)
			if !errors.Is(err, context.Canceled) || !reached {
				t.Fatalf("%v, reached %v", err, reached)
			}
			if !strings.Contains(err.Error(), out) || !strings.Contains(err.Error(), "the same command goes on") {
				t.Errorf("the error does not say what stays: %v", err)
			}
			noSchemas(t, s, set)
		})
	}
	kept := files(t, out)[set.Name+"-200-3000m-s2"]
	if kept == "" {
		t.Fatal("the first size was not captured")
	}
	c.Progress = nil
	run, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Cases) != 12 || files(t, out)[set.Name+"-200-3000m-s2"] != kept {
		t.Errorf("%d cases, or the capture of the first size was made anew", len(run.Cases))
	}
	c.Out = ""
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "broken off") {
		t.Errorf("ended before it began: %v", err)
	}
}

// TestKeep leaves the schema, and says its name.
func TestKeep(t *testing.T) {
	s := openServer(t)
	set := unique(t, dataset.Dense, 100)
	c := Config{Server: s, Sets: []Set{set}, Rows: []int{100}, Radii: []float64{3000}, Quick: true, Keep: true, budget: least}
	run, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(left, func(n string) bool { return strings.Contains(n, set.Name) })
	if i < 0 {
		t.Fatal("the schema is gone")
	}
	t.Cleanup(func() {
		// The name comes from the server's own list of our schemas.
		if _, err := s.DB().Exec("DROP DATABASE `" + left[i] + "`"); err != nil {
			t.Error(err)
		}
	})
	if len(run.Warnings) != 1 || !strings.Contains(run.Warnings[0], left[i]) {
		t.Errorf("warnings %q, the schema is %s", run.Warnings, left[i])
	}
}

// TestDeadline: a deadline ends a run, but is no part of the SQL that is measured.
func TestDeadline(t *testing.T) {
	s := openServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := Config{Server: s, Sets: []Set{unique(t, dataset.Dense, 100)}, Rows: []int{100}, Radii: []float64{3000}, Quick: true, budget: least}
	run, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range run.Cases {
		for _, st := range k.Free.Statements {
			if strings.Contains(st.SQL, "MAX_EXECUTION_TIME") {
				t.Fatalf("%s sends %s", k.Key(), st.SQL)
			}
		}
	}
}
