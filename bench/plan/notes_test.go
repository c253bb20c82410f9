package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestNotes checks for each note that it comes where it should, and not where
// it should not.
func TestNotes(t *testing.T) {
	longList := "(a in (" + strings.TrimSuffix(strings.Repeat("'x,',", DiveLimit), ",") + "))"
	for _, c := range []struct {
		name, text string
		want       []NoteCode // of the root and all below
		warnings   int
	}{
		{"large scan", "-> Table scan on job  (cost=1 rows=1000)", []NoteCode{NoteFullScan}, 1},
		{"small scan", "-> Table scan on job  (cost=1 rows=999)", []NoteCode{NoteFullScan}, 0},
		{"index scan", "-> Covering index scan on job using k (reverse)  (cost=1 rows=5000)", []NoteCode{NoteFullScan}, 1},
		{"temporary", "-> Table scan on <temporary>  (cost=1 rows=5000)", nil, 0},
		{"sort", "-> Sort: x  (actual time=1..1 rows=10 loops=1)\n    -> Index lookup on j using k (a = 1)  (cost=1 rows=5000) (actual time=1..1 rows=5000 loops=1)",
			[]NoteCode{NoteFilesort}, 1},
		{"off 9 times", "-> Index lookup on j using k (a = 1)  (cost=1 rows=10) (actual time=1..1 rows=94 loops=1)", nil, 0},
		{"off 10 times", "-> Index lookup on j using k (a = 1)  (cost=1 rows=10) (actual time=1..1 rows=100 loops=1)", []NoteCode{NoteMisestimate}, 0},
		{"off 203 times", "-> Index range scan on j using r over (pt unprintable_geometry_value)  (cost=1 rows=32) (actual time=1..1 rows=6488 loops=1)", []NoteCode{NoteMisestimate}, 1},
		{"no row of one", "-> Index lookup on j using k (a = 1)  (cost=1 rows=1) (actual time=1..1 rows=0 loops=1)", nil, 0},
		{"stopped by a limit", "-> Limit: 2 row(s)  (cost=1 rows=2) (actual time=1..1 rows=2 loops=1)\n    -> Index lookup on j using k (a = 1)  (cost=1 rows=900) (actual time=1..1 rows=2 loops=1)", nil, 0},
		{"sorted before a limit", "-> Limit: 2 row(s)  (cost=1 rows=2) (actual time=1..1 rows=2 loops=1)\n    -> Sort: x  (cost=1 rows=2) (actual time=1..1 rows=2 loops=1)\n        -> Index lookup on j using k (a = 1)  (cost=1 rows=900) (actual time=1..1 rows=2 loops=1)",
			[]NoteCode{NoteFilesort, NoteMisestimate}, 1},
		{"199 ranges", "-> Index range scan on j using k over (a = 1) OR (a = 2) OR (197 more)  (cost=1 rows=199)", nil, 0},
		{"200 ranges", "-> Index range scan on j using k over (a = 1) OR (a = 2) OR (198 more)  (cost=1 rows=200)", []NoteCode{NoteManyRanges}, 1},
		{"200 true ranges", "-> Index range scan on j using k over (1 < a < 2) OR (3 < a < 4) OR (198 more)  (cost=1 rows=200)", nil, 0},
		{"list over a scan", "-> Filter: " + longList + "  (cost=1 rows=90)\n    -> Table scan on j  (cost=1 rows=99)", []NoteCode{NoteManyValues, NoteFullScan}, 1},
		{"list over a lookup", "-> Filter: " + longList + "  (cost=1 rows=90)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=99)", []NoteCode{NoteManyValues}, 0},
		{"discards", "-> Filter: (a)  (cost=1 rows=100) (actual time=1..1 rows=10 loops=1)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=100) (actual time=1..1 rows=100 loops=1)",
			[]NoteCode{NoteMisestimate, NoteFilterDiscards}, 0},
		{"keeps", "-> Filter: (a)  (cost=1 rows=100) (actual time=1..1 rows=90 loops=1)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=100) (actual time=1..1 rows=100 loops=1)", nil, 0},
		{"never and loops", "-> Nested loop inner join  (actual time=1..2 rows=0 loops=1)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=1) (actual time=0.1..0.1 rows=0.5 loops=3)\n    -> Index lookup on i using k (b = 1)  (cost=1 rows=1) (never executed)",
			[]NoteCode{NotePerLoop, NoteNeverExecuted}, 0},
		{"elsewhere", "-> Materialize CTE c if needed (query plan printed elsewhere)  (cost=0..0 rows=0) (never executed)", []NoteCode{NotePrintedBefore}, 0},
		{"more below", "-> Limit: 1 row(s)  (cost=1 rows=1) (actual time=1..1 rows=1 loops=1)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=1) (actual time=1..1.01 rows=1 loops=1)", []NoteCode{NoteClampedTime}, 0},
		{"grouped", "-> Aggregate using temporary table  (actual time=1..1 rows=1 loops=1)\n    -> Index lookup on j using k (b = 1)  (cost=1 rows=1) (actual time=1..1 rows=1 loops=1)", []NoteCode{NoteTemporary}, 0},
		{"index ignored", `{"query_block": {"select_id": 1, "table": {"table_name": "j", "access_type": "ALL", "possible_keys": ["k"], "rows_examined_per_scan": 10}}}`,
			[]NoteCode{NoteIndexIgnored, NoteFullScan}, 1},
	} {
		var got []NoteCode
		warnings := 0
		for _, n := range mustParse(t, c.text).Root.All() {
			for _, note := range n.Notes() {
				if note.Node != n || note.Text == "" {
					t.Errorf("%s: note %+v", c.name, note)
				}
				got = append(got, note.Code)
				if note.Warning {
					warnings++
				}
			}
		}
		if !slices.Equal(got, c.want) || warnings != c.warnings {
			t.Errorf("%s: notes %v, %d warnings; want %v, %d", c.name, got, warnings, c.want, c.warnings)
		}
	}
}

func TestFigures(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.111: "0.111", 12.34: "12.3", 99.96: "100", 100: "100", 203: "203", 6488: "6,488", 1e6: "1,000,000", -1234: "-1,234", 1e20: "1.00e+20"} {
		if got := Figure(f); got != want {
			t.Errorf("Figure(%v) = %s, want %s", f, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0 ms", 0.00035: "0.35 us", 0.5: "0.5 ms", 12345: "12.3 s"} {
		if got := Milliseconds(f); got != want {
			t.Errorf("Milliseconds(%v) = %s, want %s", f, got, want)
		}
	}
}

func TestMethods(t *testing.T) {
	p := mustParse(t, `-> Nested loop inner join  (cost=20 rows=196) (actual time=0.5..10 rows=50 loops=2)
    -> Table scan on a  (cost=20 rows=10) (actual time=0.5..1 rows=10 loops=2)
    -> Filter: (b.x > 1)  (cost=20 rows=10) (actual time=0.1..0.3 rows=5 loops=20)
        -> Index lookup on b using k (x = a.x)  (cost=20 rows=10) (actual time=0.1..0.2 rows=30 loops=20)
-> Select #2 (subquery in projection; dependent)
    -> Table scan on c  (cost=20 rows=10) (actual time=1..500 rows=10 loops=100)
`)
	n := p.Root
	if rows, ok := n.TotalRows(); rows != 100 || !ok {
		t.Errorf("rows %v %v", rows, ok)
	}
	// 2*10 - 2*1 - 20*0.3, and nothing for the subquery of the SELECT list.
	if self, clamped, ok := n.SelfMS(); self != 12 || clamped || !ok {
		t.Errorf("self %v %v %v", self, clamped, ok)
	}
	// 2*10 + 20*30 + 100*10
	if examined, returned, ok := n.Examined(); examined != 1620 || returned != 100 || !ok {
		t.Errorf("examined %v %v %v", examined, returned, ok)
	}
	if ratio, ok := n.EstimateRatio(); !ok || ratio != 50.0/196 {
		t.Errorf("ratio %v %v", ratio, ok)
	}
	if c := n.Children[2]; !c.SelectList || !c.Subquery || c.Table != "c" || c.Heading == "" {
		t.Errorf("%+v", c)
	}
	// MySQL 8.0 gives a scan of a temporary table without the time to fill it.
	n = mustParse(t, "-> Sort: x  (actual time=12.07..12.07 rows=9 loops=1)\n    -> Table scan on <temporary>  (actual time=0.001..0.012 rows=9 loops=1)\n        -> Aggregate using temporary table  (actual time=12..12 rows=9 loops=1)\n").Root
	sort, _, _ := n.SelfMS()
	scan, clamped, _ := n.Children[0].SelfMS()
	if math.Abs(sort-0.058) > 1e-9 || scan != 0.012 || clamped {
		t.Errorf("own time of the sort %v, of the scan %v %v", sort, scan, clamped)
	}
	if _, ok := mustParse(t, "-> Table scan on a").Root.TotalRows(); ok {
		t.Error("rows of a plan that was not executed")
	}
}

func TestLongestInList(t *testing.T) {
	for condition, want := range map[string]int{
		"(a = 1)": 0, "(a in (1))": 1, "(a in (1,2,3))": 3, "(a in (1,f(2,3),4) and b in (1,2))": 3,
		"(a in ('x,y','it\\'s, (',3))": 3, "f(1,2,3)": 0, "(a in (1,2": 0, ")) a in (1,2)": 2,
		strings.Repeat(" in (", 1<<20): 0, // in one pass, whatever the depth
	} {
		if got := longestInList(condition); got != want {
			t.Errorf("%.60s: %d, want %d", condition, got, want)
		}
	}
}
