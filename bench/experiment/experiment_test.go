package experiment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny are the experiments at sizes that show what does not depend on speed.
func tiny() []Experiment {
	few := repeats{leastRounds, 0}
	return []Experiment{
		crossover{&crossoverSize{
			rows: 2000, sets: 3, timed: 1, spatial: 1, geodetic: 200,
			grid: shares(0.1, 100, 9), times: []float64{1, 50}, repeats: few, atMost: time.Minute,
		}},
		reuse{&reuseSize{[]int{300, 600}, []float64{1000, 5000}, 50, few}},
		covering{&coveringSize{1000, []float64{1, 10, 50}, 16, few}},
		stacked{&stackedSize{60, []int{20, 40}, 200 * time.Millisecond, 5 * time.Second, 4, time.Millisecond, time.Minute}},
		protocol{&protocolSize{500, 50, []int{1, 2}, leastRounds, 2 * time.Millisecond}},
	}
}

func server(t *testing.T) *scratch.Server {
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

// label names a test's schemas, so that they are told from those of other runs.
func label() string {
	b := make([]byte, 8)
	rand.Read(b) // never fails, by its documentation
	return "t" + hex.EncodeToString(b)
}

// schemas lists the scratch schemas of a label.
func schemas(t *testing.T, s *scratch.Server, label string) (names []string) {
	t.Helper()
	all, err := s.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if strings.HasPrefix(n, scratch.Prefix+label+"_") {
			names = append(names, n)
		}
	}
	return names
}

func TestByName(t *testing.T) {
	for _, e := range All() {
		got, err := ByName(e.Name())
		if err != nil || got.Name() != e.Name() || got.Title() == "" {
			t.Errorf("%s: got %v, %v", e.Name(), got, err)
		}
	}
	_, err := ByName("nothing")
	if err == nil {
		t.Fatal("an experiment that does not exist was found")
	}
	for _, e := range All() {
		if !strings.Contains(err.Error(), e.Name()) {
			t.Errorf("the error does not list %s: %v", e.Name(), err)
		}
	}
}

func ExampleByName() {
	_, err := ByName("sharding")
	fmt.Println(err)
	// Output: there is no experiment "sharding": want one of crossover, reuse, covering, stacked, protocol
}

func TestWithoutServer(t *testing.T) {
	for _, e := range All() {
		_, err := e.Run(t.Context(), Config{Expendable: true})
		if err == nil || !strings.Contains(err.Error(), "server") {
			t.Errorf("%s: got %v", e.Name(), err)
		}
	}
}

func TestRun(t *testing.T) {
	s := server(t)
	for _, e := range tiny() {
		t.Run(e.Name(), func(t *testing.T) {
			label := label()
			last, calls := 0, 0
			r, err := e.Run(t.Context(), Config{
				Server: s, Quick: true, Expendable: true, Seed: 3, label: label,
				Progress: func(done, total int, what string) {
					calls++
					if done < last || done > total || (what == "") != (done == total) {
						t.Errorf("progress %d of %d %q after %d", done, total, what, last)
					}
					last = done
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if calls < 3 || last == 0 {
				t.Errorf("progress was told %d times, the last %d", calls, last)
			}
			if left := schemas(t, s, label); len(left) > 0 {
				t.Errorf("schemas are left: %q", left)
			}
			if r.Name != e.Name() || r.Title != e.Title() || !r.Quick {
				t.Errorf("got name %q, title %q, quick %v", r.Name, r.Title, r.Quick)
			}
			checkResult(t, r)
			switch r.Name {
			case "crossover":
				checkCrossover(t, r)
			case "reuse":
				checkReuse(t, r)
			case "covering":
				checkCovering(t, r)
			case "stacked":
				checkStacked(t, r)
			case "protocol":
				checkProtocol(t, r)
			default:
				t.Errorf("there is no check for %s", r.Name)
			}
		})
	}
}

// checkResult checks what holds for every experiment.
func checkResult(t *testing.T, r result.Experiment) {
	t.Helper()
	if r.Question == "" || len(r.Findings) == 0 || len(r.Charts) == 0 || len(r.Grids) == 0 || len(r.Notes) < 2 {
		t.Errorf("question %q, %d findings, %d charts, %d grids, %d notes", r.Question, len(r.Findings), len(r.Charts), len(r.Grids), len(r.Notes))
	}
	outcomes := []result.Outcome{result.Confirmed, result.Differs, result.Refuted, result.Unclear}
	for _, f := range r.Findings {
		if f.Claim == "" || f.Published == "" || f.Ours == "" || f.Why == "" || !slices.Contains(outcomes, f.Verdict) {
			t.Errorf("a finding lacks something: %+v", f)
		}
		for _, s := range []string{f.Claim, f.Published, f.Ours, f.Why} {
			if strings.Contains(s, "NaN") || strings.Contains(s, "%!") {
				t.Errorf("not for people: %q", s)
			}
		}
	}
	for _, c := range r.Charts {
		if c.Title == "" || c.X.Label == "" || c.Y.Label == "" || len(c.Series) == 0 {
			t.Errorf("chart %q: axes %q and %q, %d series", c.Title, c.X.Label, c.Y.Label, len(c.Series))
		}
		for _, s := range c.Series {
			if s.Name == "" || len(s.Points) == 0 {
				t.Errorf("chart %q: series %q has %d points", c.Title, s.Name, len(s.Points))
			}
			for i, p := range s.Points {
				if i > 0 && p.X < s.Points[i-1].X {
					t.Errorf("chart %q, %s: X falls from %v to %v", c.Title, s.Name, s.Points[i-1].X, p.X)
				}
				if c.X.Log && !(p.X > 0) || c.Y.Log && !(p.Y > 0) || math.IsInf(p.Y, 0) {
					t.Errorf("chart %q, %s: a point %v cannot be drawn", c.Title, s.Name, p)
				}
				if (p.Lo != 0 || p.Hi != 0) && (p.Lo > p.Y || p.Hi < p.Y) {
					t.Errorf("chart %q, %s: %v lies outside its range", c.Title, s.Name, p)
				}
			}
		}
	}
	for _, g := range r.Grids {
		if g.Title == "" || len(g.Rows) == 0 {
			t.Errorf("grid %q has %d rows", g.Title, len(g.Rows))
		}
		for _, row := range g.Rows {
			if len(row) != len(g.Columns) {
				t.Errorf("grid %q: %d cells for %d columns: %q", g.Title, len(row), len(g.Columns), row)
			}
		}
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "seed 3") }) {
		t.Errorf("no note says what the figures hang on: %q", r.Notes)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back result.Experiment
	if err := json.Unmarshal(data, &back); err != nil {
		t.Error(err)
	}
}

func chart(t *testing.T, r result.Experiment, title string) result.Chart {
	t.Helper()
	for _, c := range r.Charts {
		if strings.Contains(c.Title, title) {
			return c
		}
	}
	t.Fatalf("there is no chart %q", title)
	return result.Chart{}
}

func column(t *testing.T, g result.Grid, name string) int {
	t.Helper()
	i := slices.Index(g.Columns, name)
	if i < 0 {
		t.Fatalf("there is no column %q in %q", name, g.Columns)
	}
	return i
}

func checkCrossover(t *testing.T, r result.Experiment) {
	// The optimizer uses an index for a handful of rows, and not for all.
	for _, s := range chart(t, r, "chose the index").Series {
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		if first.Y != 100 {
			t.Errorf("%s: used in %v %% of the data sets at %v %% of the table", s.Name, first.Y, first.X)
		}
		if last.X != 100 {
			t.Errorf("%s: the largest box holds %v %%", s.Name, last.X)
		}
		if strings.Contains(s.Name, "wide table, (lat, lng)") {
			if last.Y != 0 {
				t.Errorf("%s: used in %v %% of the data sets for the whole table", s.Name, last.Y)
			}
			for i := 1; i < len(s.Points); i++ {
				if s.Points[i].Y > s.Points[i-1].Y {
					t.Errorf("%s: the use rises from %v to %v", s.Name, s.Points[i-1], s.Points[i])
				}
			}
		}
	}
	for _, kind := range kinds {
		index := chart(t, r, "Estimated cost, wide table, "+string(kind)).Series[0].Points
		if len(index) < 2 || index[0].Y >= index[len(index)-1].Y {
			t.Errorf("%s: the cost of the index does not rise: %v", kind, index)
		}
	}
	g := r.Grids[0]
	if sets := column(t, g, "sets #"); g.Rows[0][sets] != "3" || g.Rows[1][sets] != "3" {
		t.Errorf("got %q", g.Rows)
	}
	least, most := column(t, g, "least #"), column(t, g, "most #")
	for _, row := range g.Rows {
		a, errA := strconv.ParseFloat(row[least], 64)
		b, errB := strconv.ParseFloat(row[most], 64)
		if errA != nil || errB != nil || a <= 0 || a > b || b >= 100 {
			t.Errorf("the crossovers are %v to %v", row[least], row[most])
		}
	}
	if n := len(r.Grids[1].Rows); n != 2*3 { // two shares and the crossover, of two kinds
		t.Errorf("%d boxes were timed, want 6", n)
	}
	// All rows at one point: no index tells them apart.
	if !strings.Contains(r.Findings[2].Ours, "with all rows at one point for 0 of 5") {
		t.Errorf("got %q", r.Findings[2].Ours)
	}
}

func checkReuse(t *testing.T, r result.Experiment) {
	g := r.Grids[1]
	form, operations := column(t, g, "form"), column(t, g, "operations, from the outside in")
	for _, row := range g.Rows {
		if got, want := strings.Contains(row[operations], "materialize"), row[form] == formHeld; got != want {
			t.Errorf("%s: materializes: %v: %s", row[form], got, row[operations])
		}
	}
	if want := 2 * 2 * 2 * 2; len(r.Grids[0].Rows) != want { // sizes, formulas, with and without box, radii
		t.Errorf("%d cases, want %d", len(r.Grids[0].Rows), want)
	}
}

func checkCovering(t *testing.T, r result.Experiment) {
	g := r.Grids[0]
	rows := column(t, g, "rows #")
	if len(g.Rows) != 2*3 {
		t.Errorf("%d circles, want 6", len(g.Rows))
	}
	number := func(s string) int {
		n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
		if err != nil {
			t.Error(err)
		}
		return n
	}
	for i, want := range []int{10, 100, 500, 10, 100, 500} {
		if n := number(g.Rows[i][rows]); n < want || n > want+5 {
			t.Errorf("circle %d holds %d rows, want about %d", i, n, want)
		}
		// Whatever is returned was read.
		for _, c := range []int{column(t, g, "covering #") + 1, column(t, g, "clustered #") + 1} {
			if read := number(g.Rows[i][c]); read < number(g.Rows[i][rows]) {
				t.Errorf("circle %d: %s %d for %s rows", i, g.Columns[c-1], read, g.Rows[i][rows])
			}
		}
	}
}

func checkStacked(t *testing.T, r result.Experiment) {
	g := r.Grids[0]
	answered := column(t, g, "answered #")
	seen := make(map[string]bool)
	for _, row := range g.Rows {
		seen[row[0]] = true
		if row[answered] == "0" {
			t.Errorf("%s: nothing was answered: %q", row[0], row)
		}
	}
	for _, s := range search.Strategies() {
		if !seen[s.Name()] {
			t.Errorf("%s was not measured", s.Name())
		}
	}
	if !slices.Contains(r.Notes, "The server still answered after the last load.") {
		t.Errorf("no note says that the server answers: %q", r.Notes)
	}
}

func checkProtocol(t *testing.T, r result.Experiment) {
	g := r.Grids[0]
	if want := 2 * 2 * len(protocolNames()); len(g.Rows) != want {
		t.Errorf("%d ways, want %d", len(g.Rows), want)
	}
	rows := column(t, g, "rows #")
	for _, row := range g.Rows {
		n, err := strconv.ParseFloat(row[rows], 64)
		switch {
		case err != nil:
			t.Error(err)
		case row[0] == "one row" && n != 1, row[0] != "one row" && (n < 30 || n > 150):
			t.Errorf("%s returned %v rows", row[0], n)
		}
	}
}

func TestKeep(t *testing.T) {
	s := server(t)
	label := label()
	r, err := inLab(t.Context(), Config{Server: s, Keep: true, label: label}, covering{}, "", 1, func(ctx context.Context, l *lab, _ *result.Experiment) error {
		return l.main.loadRecords(ctx, 1, 10, l.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	names := schemas(t, s, label)
	if len(names) != 1 {
		t.Fatalf("%d schemas were kept, want 1", len(names))
	}
	var rows int
	// The name is made of letters, digits and underscores: no quoting needed.
	if err := s.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+names[0]+".record").Scan(&rows); err != nil || rows != 10 {
		t.Errorf("the kept table holds %d rows, %v; want 10", rows, err)
	}
	if _, err := s.DB().ExecContext(t.Context(), "DROP DATABASE "+names[0]); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, names[0]) }) {
		t.Errorf("no note names the schema %s: %q", names[0], r.Notes)
	}
}

func TestCancel(t *testing.T) {
	s := server(t)
	for _, e := range tiny() {
		for _, at := range []int{1, 3} {
			label := label()
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			_, err := e.Run(ctx, Config{Server: s, Expendable: true, Seed: 3, label: label, Progress: func(int, int, string) {
				if calls++; calls == at {
					if at == 1 {
						cancel()
						return
					}
					time.AfterFunc(5*time.Millisecond, cancel) // in the middle of a statement
				}
			}})
			cancel()
			// Cut off in a statement, the driver may report the connection.
			if err == nil || at == 1 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled at step %d: got %v", e.Name(), at, err)
			}
			if left := schemas(t, s, label); len(left) > 0 {
				t.Errorf("%s, cancelled at step %d: schemas are left: %q", e.Name(), at, left)
			}
		}
	}
}

func TestStackedSparesServers(t *testing.T) {
	s := server(t)
	label := label()
	_, err := stacked{tiny()[3].(stacked).size}.Run(t.Context(), Config{Server: s, Seed: 3, label: label})
	// A server on this machine's own address may be loaded.
	if got, want := errors.Is(err, errNotExpendable), !onLoopback(s.Config().Addr); got != want {
		t.Errorf("refused: %v, want %v: %v", got, want, err)
	}
	if left := schemas(t, s, label); len(left) > 0 {
		t.Errorf("schemas are left: %q", left)
	}
}

func TestSameRows(t *testing.T) {
	s := server(t)
	_, err := inLab(t.Context(), Config{Server: s, label: label()}, covering{}, "", 1, func(ctx context.Context, l *lab, _ *result.Experiment) error {
		one, two := query{sql: "SELECT 1 UNION ALL SELECT 2"}, query{sql: "SELECT ? UNION ALL SELECT ?", args: []any{2, 1}}
		n, err := l.main.sameRows(ctx, []side{{"a", one}, {"b", two}})
		if err != nil || n != 2 {
			t.Errorf("the same rows in another order: got %d, %v", n, err)
		}
		_, err = l.main.sameRows(ctx, []side{{"a", one}, {"b", query{sql: "SELECT 1 UNION ALL SELECT 3"}}})
		if !errors.Is(err, errDifferent) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("different rows: got %v", err)
		}
		if _, err = l.main.sameRows(ctx, []side{{"a", query{sql: "SELECT nothing"}}}); err == nil {
			t.Error("a side that fails counts as the same")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
