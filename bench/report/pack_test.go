package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// read is a pack as the script reads it.
type read struct {
	T []string
	S []struct{ N []static }
	P []packed
	G [][]int
	U [][]json.RawMessage
}

// pairing does what pairsOf in the script does. That the script does it too is
// tested in a browser.
func (r *read) pairing(t *testing.T, a, b int) []int {
	t.Helper()
	x, y := r.P[a], r.P[b]
	var one int
	raw := r.U[x.Shape][y.Shape]
	if json.Unmarshal(raw, &one) == nil {
		return r.G[one]
	}
	var c choice
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatalf("the pairing of the shapes %d and %d: %v", x.Shape, y.Shape, err)
	}
	var key strings.Builder
	for _, test := range c.Tests {
		n, m := x.Nodes[test[0]], y.Nodes[test[1]]
		bit := byte('0')
		if n.Condition == m.Condition && n.Lookup == m.Lookup && n.Detail == m.Detail {
			bit = '1'
		}
		key.WriteByte(bit)
	}
	at, ok := c.Use[key.String()]
	if !ok {
		t.Fatalf("no pairing of the plans %d and %d", a, b)
	}
	return r.G[at]
}

// TestPairings compares what the page gets with plan.Diff, for each plan with each
// other: of the fixture, and of captures of all kinds of statements, which are far
// more unlike than those of a run.
func TestPairings(t *testing.T) {
	fixed, _ := digest.Plans(fixture(t))
	for name, plans := range map[string][]digest.Plan{"run": fixed, "captures": captures(t), "twins": alike(t)} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(newPack(plans))
			if err != nil {
				t.Fatal(err)
			}
			var r read
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
			if len(r.P) != len(plans) || len(plans) < 4 {
				t.Fatalf("%d plans of %d", len(r.P), len(plans))
			}
			choices := 0
			for _, row := range r.U {
				for _, u := range row {
					if u[0] == '{' {
						choices++
					}
				}
			}
			t.Logf("%d plans, %d shapes, %d pairings, %d choices, %d KB", len(plans), len(r.S), len(r.G), choices, len(data)/1000)
			if name == "twins" && choices == 0 {
				t.Error("no pairing depends on the conditions: the test does not reach that part")
			}
			for a := range plans {
				for b := range plans {
					if testing.Short() && name == "run" && (a+b)%8 != 0 {
						continue
					}
					want := pairing(plan.Diff(plans[a].Plan, plans[b].Plan))
					if got := r.pairing(t, a, b); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("%s and %s are paired %v, plan.Diff says %v", plans[a].ID, plans[b].ID, got, want)
					}
				}
			}
		})
	}
}

func parsed(t *testing.T, id, text string) digest.Plan {
	t.Helper()
	list, err := plan.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return digest.Plan{ID: id, Label: id, Case: &result.Case{Strategy: id}, Statement: &result.Statement{Tree: text}, Plan: list[0]}
}

// captures are the plans that bench/plan is tested with.
func captures(t *testing.T) []digest.Plan {
	files, err := filepath.Glob("../plan/testdata/capture/*.analyze.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d captures: %v", len(files), err)
	}
	var plans []digest.Plan
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, parsed(t, filepath.Base(f), string(b)))
	}
	return plans
}

// alike are plans in which only conditions say which node belongs to which: two
// filters above each other, of which the other plan has one.
func alike(t *testing.T) []digest.Plan {
	var plans []digest.Plan
	for i, conditions := range [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b"}, {"c"}, {"a", "a"}} {
		var b strings.Builder
		depth := 0
		for _, c := range conditions {
			fmt.Fprintf(&b, "%s-> Filter: (j.%s > 1)  (cost=1 rows=1) (actual time=0.1..0.2 rows=1 loops=1)\n", strings.Repeat("    ", depth), c)
			depth++
		}
		fmt.Fprintf(&b, "%s-> Table scan on j  (cost=1 rows=1) (actual time=0.1..0.2 rows=1 loops=1)\n", strings.Repeat("    ", depth))
		plans = append(plans, parsed(t, fmt.Sprint("twin-", i), b.String()))
	}
	return plans
}

func TestHead(t *testing.T) {
	for operation, want := range map[string]string{
		"Filter: (j.a > 1)": "Filter",
		"Index range scan on j using by_lat over (1 <= lat <= 2), with index condition: (j.lat < 3)": "Index range scan on j using by_lat",
		"Limit: 5 row(s)":       "Limit",
		"Sort: j.a, j.b":        "Sort",
		"Table scan on j":       "Table scan on j",
		"Stream results":        "Stream results",
		"Something quite other": "Something quite other",
	} {
		p := parsed(t, "head", "-> "+operation+"  (cost=1 rows=1)\n")
		if got := head(p.Plan.Root); got != want {
			t.Errorf("head of %q is %q, want %q", operation, got, want)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	plans, _ := digest.Plans(full(b))
	for b.Loop() {
		if p := newPack(plans); len(p.Plans) != len(plans) {
			b.Fatal("plans are missing")
		}
	}
	b.ReportMetric(float64(len(plans)), "plans")
}
