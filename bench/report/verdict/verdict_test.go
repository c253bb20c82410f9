package verdict_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
)

// times are the medians of strategies at one size and radius.
type times map[string]float64

// spread of the cases that at makes.
const spread = 0.02

// at returns the cases of one set, size and radius, with many quiet runs.
func at(set string, rows int, radius float64, ts times) []result.Case {
	var names []string
	for name := range ts {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []result.Case
	for _, name := range names {
		out = append(out, result.Case{
			Set: set, Rows: rows, RadiusM: radius, Strategy: name, Within: 100, Returned: 20,
			Free: result.Side{Time: result.Timing{Runs: 30, Median: ts[name], P95: ts[name], Min: ts[name], Max: ts[name], Spread: spread}},
		})
	}
	return out
}

func run(cases ...[]result.Case) *result.Run {
	return &result.Run{Settings: result.Settings{Warm: true}, Cases: slices.Concat(cases...)}
}

// all returns times of all strategies: full for the full scan, others for those
// that are not named.
func all(full, others float64, named times) times {
	ts := times{"fullscan": full}
	for _, s := range []string{"bbox", "spatial", "geohash", "h3", "s2"} {
		ts[s] = others
	}
	for s, ms := range named {
		ts[s] = ms
	}
	return ts
}

// grid is a run with two sizes and two radii with the same times.
func grid(set string, ts times) []result.Case {
	return slices.Concat(at(set, 1000, 500, ts), at(set, 1000, 5000, ts), at(set, 9000, 500, ts), at(set, 9000, 5000, ts))
}

// force runs all cases of a strategy again with the index forced.
func force(cases []result.Case, strategy string, ms float64, free, forced string) []result.Case {
	for i := range cases {
		c := &cases[i]
		if c.Strategy != strategy {
			continue
		}
		side := c.Free
		side.Time.Median = ms
		side.Statements = []result.Statement{{Tree: forced}}
		c.Free.Statements = []result.Statement{{Tree: free}}
		c.Forced = &side
	}
	return cases
}

const (
	scanTree  = "-> Table scan on job  (cost=100 rows=4000) (actual time=0.04..5 rows=4000 loops=1)\n"
	rangeTree = "-> Index range scan on job using lat_lng over (1 <= lat <= 2)  (cost=10 rows=40) (actual time=0.04..0.5 rows=50 loops=1)\n"
	otherTree = "-> Index range scan on job using pt over (1 <= lat <= 2)  (cost=10 rows=40) (actual time=0.04..0.5 rows=50 loops=1)\n"
)

func with(r *result.Run, change func(*result.Run)) *result.Run {
	change(r)
	return r
}

func TestJudge(t *testing.T) {
	type point struct {
		kind verdict.Kind
		text string
	}
	inf := math.Inf(1)
	for _, tt := range []struct {
		name     string
		run      *result.Run
		headline string   // a part of it
		sets     []string // "set use equal..."
		has      []point
		not      []point
	}{
		{
			name: "one is clearly best", run: run(grid("a", all(40, 8, times{"s2": 2}))),
			headline: "use s2: nothing else is faster beyond the noise. It holds to at least 9,000 rows and 5 km.", sets: []string{"a s2"},
			has: []point{{verdict.Use, "a: use s2."}, {verdict.Holds, "at least 9,000 rows and 5 km, the largest measured: 2 ms"}, {verdict.Gain, "20 times as fast as a full scan"}, {verdict.Change, "All times are warm"}},
			not: []point{{verdict.Caution, "one size"}, {verdict.Caution, "one radius"}, {verdict.Caution, "not measured"}, {verdict.Caution, "quick"}, {verdict.Caution, "noisy"}},
		},
		{
			name: "the simpler of two that are equal", run: run(grid("a", all(40, 8, times{"s2": 2, "bbox": 2.05}))),
			headline: "use bbox", sets: []string{"a bbox s2"},
			has: []point{{verdict.Use, "s2 is equal within the noise"}, {verdict.Use, "bbox 2.05 ms, s2 2 ms, the simplest to operate"}},
		},
		{
			name: "the order of simplicity", run: run(grid("a", all(40, 8, times{"s2": 2, "h3": 2, "geohash": 2, "spatial": 2}))),
			sets: []string{"a spatial geohash s2 h3"}, has: []point{{verdict.Use, "geohash, s2 and h3 are equal"}},
		},
		{
			name: "beyond the noise the faster wins", run: run(grid("a", all(40, 8, times{"s2": 2, "bbox": 2.2}))),
			sets: []string{"a s2"},
		},
		{
			name: "equal at one radius only is not equal",
			run:  run(at("a", 9000, 500, all(40, 8, times{"s2": 2, "bbox": 2})), at("a", 9000, 5000, all(40, 8, times{"s2": 2, "bbox": 3}))),
			sets: []string{"a s2"},
		},
		{
			name: "a full scan is never chosen", run: run(grid("a", all(1, 8, times{"bbox": 2}))), sets: []string{"a bbox"},
			has: []point{{verdict.Caution, "reading all rows is faster than bbox (1 ms against 2 ms)"}}, not: []point{{verdict.Gain, "times as fast as a full scan"}},
		},
		{
			name: "a full scan as fast within the noise", run: run(grid("a", all(2, 8, times{"bbox": 2}))), sets: []string{"a bbox"},
			has: []point{{verdict.Caution, "reading all rows is as fast as bbox within the noise"}},
		},
		{
			name: "only a full scan", run: run(grid("a", times{"fullscan": 40})), sets: []string{"a "},
			headline: "run the laboratory with all strategies",
			has:      []point{{verdict.Caution, "not measured: bbox, spatial, geohash, h3 and s2"}},
		},
		{
			name: "no full scan", run: run(grid("a", times{"bbox": 1, "s2": 2})), sets: []string{"a bbox"},
			has: []point{{verdict.Caution, "no time of a full scan"}, {verdict.Caution, "not measured: fullscan, spatial, geohash and h3"}},
		},
		{
			name: "over the budget at the largest radius",
			run:  run(at("a", 1000, 500, all(90, 90, times{"s2": 2})), at("a", 9000, 500, all(900, 90, times{"s2": 20})), at("a", 9000, 5000, all(900, 90, times{"s2": 51}))),
			sets: []string{"a s2"},
			has:  []point{{verdict.Holds, "holds to 1,000 rows and a radius of 500 m; not further: at 9,000 rows and 5 km it takes 51 ms, over the budget of 50 ms"}},
		},
		{
			name: "within the budget to the millisecond",
			run:  run(at("a", 1000, 500, all(900, 90, times{"s2": 50})), at("a", 1000, 5000, all(900, 90, times{"s2": 50}))),
			has:  []point{{verdict.Holds, "at least 1,000 rows and 5 km"}},
		},
		{
			name: "more than twice the best at a smaller size",
			run:  run(at("a", 1000, 500, all(90, 90, times{"s2": 25, "bbox": 10})), at("a", 9000, 500, all(90, 90, times{"s2": 30, "bbox": 90}))),
			sets: []string{"a s2"},
			has: []point{
				{verdict.Holds, "s2 holds nowhere: at 1,000 rows and 500 m it is 2.5 times slower than bbox (25 ms against 10 ms)"},
				{verdict.Change, "bbox is faster than s2 at 1,000 rows and 500 m, by 2.5 times. If your searches are mostly like that, use bbox"},
			},
		},
		{
			name: "a negligible time behind the best holds",
			run:  run(at("a", 1000, 500, all(90, 90, times{"s2": 2.5, "bbox": 1})), at("a", 9000, 500, all(90, 90, times{"s2": 3, "bbox": 9}))),
			has:  []point{{verdict.Holds, "s2 holds to at least 9,000 rows and 500 m"}},
		},
		{
			name: "twice the best holds",
			run:  run(at("a", 1000, 500, all(90, 90, times{"s2": 2, "bbox": 1})), at("a", 9000, 500, all(90, 90, times{"s2": 3, "bbox": 9}))),
			has:  []point{{verdict.Holds, "at least 9,000 rows"}},
		},
		{
			name: "no smaller radius at the first size",
			run:  run(at("a", 1000, 500, all(90, 90, times{"s2": 2})), at("a", 1000, 5000, all(900, 90, times{"s2": 60}))),
			has:  []point{{verdict.Holds, "holds to 1,000 rows and a radius of 500 m"}},
		},
		{
			name: "sets that agree", run: run(grid("a", all(40, 8, times{"s2": 2})), grid("b", all(40, 8, times{"s2": 3}))),
			headline: "use s2: nothing else is faster beyond the noise, in any of the 2 sets. It holds to at least 9,000 rows and 5 km in every set.", sets: []string{"a s2", "b s2"},
			not: []point{{verdict.Change, "shape of the data"}},
		},
		{
			name: "sets that do not agree", run: run(grid("a", all(40, 8, times{"s2": 2})), grid("b", all(40, 8, times{"bbox": 3, "s2": 4}))),
			headline: "use s2: the best over all sets together, and first for a; taken alone, bbox for b is better (s2 is at worst 1.33 times slower than the best)",
			sets:     []string{"a s2", "b bbox"},
			has:      []point{{verdict.Change, "a has s2 first and b has bbox first"}},
		},
		{
			name: "no strategy in all sets", run: run(grid("a", times{"s2": 2}), grid("b", times{"bbox": 3})),
			headline: "Use s2 for a and bbox for b: no strategy was measured in all sets", sets: []string{"a s2", "b bbox"},
		},
		{
			name: "the choice for all fails in one", run: run(grid("a", all(400, 80, times{"s2": 2})), grid("b", all(40, 40, times{"bbox": 3, "s2": 9}))),
			headline: "It holds to at least 9,000 rows and 5 km in a, nowhere in b.", sets: []string{"a s2", "b bbox"},
			has: []point{{verdict.Holds, "b: s2, the choice for all sets, does not hold there: at 1,000 rows and 500 m it is 3 times slower than bbox"}},
		},
		{
			name: "forcing gains where the optimizer scans", run: run(force(grid("a", all(90, 8, times{"bbox": 6})), "bbox", 2, scanTree, rangeTree)),
			has: []point{{verdict.Gain, "FORCE INDEX gains 3 times for bbox (2 ms against 6 ms in a at 1,000 rows and 500 m, the most of 4 searches where it gains; left free, the optimizer ignores the index)"}},
			not: []point{{verdict.Gain, "gains nothing"}, {verdict.Change, "FORCE INDEX costs"}},
		},
		{
			name: "forcing gains over another index", run: run(force(at("a", 9000, 500, all(90, 8, times{"bbox": 6})), "bbox", 2, otherTree, rangeTree)),
			has: []point{{verdict.Gain, "left free, the optimizer uses an index in another way"}},
		},
		{
			name: "forcing costs", run: run(force(grid("a", all(90, 8, times{"bbox": 2})), "bbox", 6, scanTree, rangeTree)),
			has: []point{{verdict.Change, "FORCE INDEX costs up to 3 times for bbox (6 ms against 2 ms"}, {verdict.Gain, "gains nothing in any of 4 searches"}},
		},
		{
			name: "forcing the same plan", run: run(force(grid("a", all(90, 8, times{"bbox": 6})), "bbox", 3, rangeTree, rangeTree)),
			has: []point{{verdict.Gain, "gains nothing"}, {verdict.Caution, "In 4 searches the optimizer's own plan and the one with the index forced are the same"}, {verdict.Caution, "up to 2 times"}},
			not: []point{{verdict.Gain, "FORCE INDEX gains"}},
		},
		{
			name: "nothing forced", run: run(grid("a", all(40, 8, nil))), has: []point{{verdict.Caution, "No search ran with its index forced"}},
		},
		{
			name: "covering gains", run: with(run(), func(r *result.Run) { r.Experiments = []result.Experiment{coverage("ms", 4, 20)} }),
			has: []point{{verdict.Gain, `A covering index gains 5 times (4 ms against 20 ms, where "part, %" is 50, its largest in the experiment cover)`}},
		},
		{
			name: "covering gains nothing", run: with(run(), func(r *result.Run) { r.Experiments = []result.Experiment{coverage("ms", 19, 20)} }),
			has: []point{{verdict.Gain, "A covering index gains nothing"}}, not: []point{{verdict.Gain, "A covering index gains 1"}},
		},
		{
			name: "a chart that is no time", run: with(run(), func(r *result.Run) { r.Experiments = []result.Experiment{coverage("rows", 4, 20)} }),
			not: []point{{verdict.Gain, "covering"}},
		},
		{
			name: "findings", run: with(run(), func(r *result.Run) {
				r.Experiments = []result.Experiment{{Name: "x", Findings: []result.Finding{{Verdict: result.Confirmed}, {Verdict: result.Refuted}, {Verdict: result.Refuted}}}}
			}),
			has: []point{{verdict.Change, "Of 3 published claims measured again here: 1 confirmed and 2 refuted: what was published"}},
		},
		{
			name: "findings that all hold", run: with(run(), func(r *result.Run) {
				r.Experiments = []result.Experiment{{Name: "x", Findings: []result.Finding{{Verdict: result.Confirmed}}}}
			}),
			has: []point{{verdict.Change, "Of 1 published claim measured again here: 1 confirmed."}},
		},
		{
			name: "others gain as the table grows",
			run:  run(at("a", 1000, 500, all(90, 40, times{"bbox": 1, "s2": 4, "h3": 1.5})), at("a", 9000, 500, all(90, 40, times{"bbox": 3, "s2": 3.6, "h3": 4.5}))),
			sets: []string{"a bbox"},
			has:  []point{{verdict.Change, "as the table grows from 1,000 to 9,000 rows, bbox loses some of its lead at 500 m over s2 (from 4 times its time to 1.2). With more rows one of them may overtake it"}},
		},
		{
			name: "a lead that stays", run: run(grid("a", all(90, 40, times{"bbox": 1, "s2": 1.5}))), not: []point{{verdict.Change, "loses some of its lead"}},
		},
		{
			name: "cold", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) { r.Settings.Warm = false }),
			has: []point{{verdict.Change, "not all warm"}}, not: []point{{verdict.Change, "All times are warm"}},
		},
		{
			name: "nothing", run: run(), headline: "Nothing was measured", not: []point{{verdict.Change, ""}, {verdict.Caution, ""}},
		},
		{
			name: "quick", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) { r.Quick = true }), has: []point{{verdict.Caution, "quick run"}},
		},
		{
			name: "one size and one radius", run: run(at("a", 1000, 500, all(9, 8, nil))),
			has: []point{{verdict.Caution, "one size only (1,000 rows)"}, {verdict.Caution, "one radius only (500 m)"}, {verdict.Holds, "at least 1,000 rows and 500 m"}},
		},
		{
			name: "without a time", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) {
				r.Cases[0].Free.Time = result.Timing{}
				r.Cases[1].Free.Time.Median = inf
				r.Cases[2].Free.Time.Median = math.NaN()
			}),
			has: []point{{verdict.Caution, "3 cases are without a time, and left out"}, {verdict.Caution, "lacks 1 of 4 searches"}},
		},
		{
			name: "twice", run: run(grid("a", all(9, 8, nil)), at("a", 1000, 500, times{"s2": 1})), has: []point{{verdict.Caution, "1 case is in the run more than once"}},
		},
		{
			name: "a strategy that is missing at the largest size",
			run:  run(at("a", 1000, 500, times{"s2": 1, "bbox": 2}), at("a", 9000, 500, times{"bbox": 9})),
			sets: []string{"a bbox"}, has: []point{{verdict.Caution, "s2 lacks 1 of 2 searches"}},
		},
		{
			name: "few runs", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) { r.Cases[0].Free.Time.Runs = 2 }),
			has: []point{{verdict.Caution, "1 search was timed fewer than 5 times (at least one only 2)"}},
		},
		{
			name: "noisy", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) { r.Cases[0].Free.Time.Spread = 0.3 }),
			has: []point{{verdict.Caution, "1 search was noisy"}},
		},
		{
			name: "an empty circle", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) {
				for i := range r.Cases {
					if r.Cases[i].RadiusM == 500 {
						r.Cases[i].Within = 0
					}
				}
			}),
			has: []point{{verdict.Caution, "no job lies within the circle at 1,000 rows and 500 m and 9,000 rows and 500 m"}},
		},
		{
			name: "container and warnings", run: with(run(grid("a", all(9, 8, nil))), func(r *result.Run) {
				r.Settings.Container = true
				r.Warnings = []string{"x"}
			}),
			has: []point{{verdict.Caution, "in a container"}, {verdict.Caution, "1 warning of its own, which is"}},
		},
		{
			name: "the user's table", run: with(run(), func(r *result.Run) {
				r.Table = &result.Table{Name: "shop.places", Rows: 900, Copied: 90, Sampled: true, Advice: []result.Advice{{Strategy: "bbox", Gain: 4.5, RadiusM: 5000, Time: result.Timing{Median: 3}}}}
			}),
			headline: "For shop.places, use bbox: 4.5 times as fast as the search of today at 5 km.",
			has:      []point{{verdict.Use, "adopt bbox: 4.5 times as fast"}, {verdict.Use, "SQL is enough"}, {verdict.Caution, "Only 90 of the 900 rows"}},
		},
		{
			name: "the user's table gains little", run: with(run(grid("a", all(9, 8, times{"s2": 1}))), func(r *result.Run) {
				r.Table = &result.Table{Name: "t", Advice: []result.Advice{{Strategy: "s2", Gain: 1.1, RadiusM: 500, Needs: "Cells must be computed."}}}
			}),
			headline: "For t, use s2: it gains little: 1.1 times as fast as the search of today at 500 m. In Nearjob's own tables, use s2",
			has:      []point{{verdict.Use, "Cells must be computed."}},
		},
		{
			name: "no advice", run: with(run(), func(r *result.Run) { r.Table = &result.Table{Name: "t"} }), has: []point{{verdict.Caution, "no advice for the table t"}},
		},
		{
			name: "strategies that are not known", run: run(grid("a", all(40, 8, times{"memory": 1, "auto": 1}))), sets: []string{"a auto memory"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := verdict.Judge(tt.run)
			if !strings.Contains(v.Headline, tt.headline) || v.Headline == "" {
				t.Errorf("headline %q\nwant %q", v.Headline, tt.headline)
			}
			if tt.sets != nil {
				var got []string
				for _, s := range v.Sets {
					got = append(got, strings.Join(append([]string{s.Set, s.Use}, s.Equal...), " "))
				}
				if !slices.Equal(got, tt.sets) {
					t.Errorf("sets %q, want %q", got, tt.sets)
				}
			}
			has := func(p point) bool {
				return slices.ContainsFunc(v.Points, func(q verdict.Point) bool { return q.Kind == p.kind && strings.Contains(q.Text, p.text) })
			}
			for _, p := range tt.has {
				if !has(p) {
					t.Errorf("no %s %q in\n%s", p.kind, p.text, print(v))
				}
			}
			for _, p := range tt.not {
				if has(p) {
					t.Errorf("%s %q in\n%s", p.kind, p.text, print(v))
				}
			}
			sound(t, tt.run, v)
		})
	}
}

func coverage(unit string, covering, not float64) result.Experiment {
	points := func(y float64) []result.Point {
		return []result.Point{{X: 1, Y: y / 10}, {X: 50, Y: y, Lo: y * 0.9, Hi: y * 1.1}}
	}
	return result.Experiment{Name: "cover", Charts: []result.Chart{{
		X: result.Axis{Label: "part, %"}, Y: result.Axis{Label: "cost, " + unit},
		Series: []result.Series{{Name: "index, not covering", Points: points(not)}, {Name: "index, covering", Points: points(covering)}, {Name: "scan", Points: points(99)}},
	}}}
}

func print(v verdict.Verdict) string {
	var b strings.Builder
	for _, p := range v.Points {
		fmt.Fprintf(&b, "  %s: %s\n", p.Kind, p.Text)
	}
	return b.String()
}

// sound checks what holds for every verdict: the order of the points, their
// evidence, sentences that end, and that JSON can carry it.
func sound(t *testing.T, r *result.Run, v verdict.Verdict) {
	t.Helper()
	order := []verdict.Kind{verdict.Use, verdict.Holds, verdict.Gain, verdict.Change, verdict.Caution}
	last := 0
	for _, p := range v.Points {
		n := slices.Index(order, p.Kind)
		if n < last {
			t.Errorf("%s after %s", p.Kind, order[last])
		}
		last = n
		if !strings.HasSuffix(p.Text, ".") || strings.Contains(p.Text, "%!") || strings.Contains(p.Text, "NaN") || strings.Contains(p.Text, "Inf") {
			t.Errorf("%s: %q", p.Kind, p.Text)
		}
		if p.Evidence == nil {
			t.Errorf("%q: evidence is nil", p.Text)
		}
		for _, key := range p.Evidence {
			name, isExperiment := strings.CutPrefix(key, "experiment/")
			switch {
			case isExperiment && slices.ContainsFunc(r.Experiments, func(e result.Experiment) bool { return e.Name == name }):
			case key == "table" && r.Table != nil:
			case digest.Find(r, key) == nil:
				t.Errorf("%q: evidence %q is not in the run", p.Text, key)
			}
		}
	}
	if _, err := json.Marshal(v); err != nil {
		t.Error(err)
	}
	if again := verdict.Judge(r); !reflect.DeepEqual(again, v) {
		t.Errorf("judged again:\n%s\nfirst:\n%s", print(again), print(v))
	}
}

func TestHoldsFields(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cases []result.Case
		want  verdict.SetVerdict
	}{
		{"everywhere", grid("a", all(90, 8, times{"s2": 1})), verdict.SetVerdict{Rows: 9000, RadiusM: 5000, AtLeast: true}},
		{"smaller sizes", slices.Concat(at("a", 1000, 500, all(90, 8, times{"s2": 1})), at("a", 9000, 500, all(900, 90, times{"s2": 60}))), verdict.SetVerdict{Rows: 1000, RadiusM: 500}},
		{"smaller radii", slices.Concat(at("a", 1000, 500, all(90, 8, times{"s2": 1})), at("a", 1000, 900, all(900, 90, times{"s2": 60}))), verdict.SetVerdict{Rows: 1000, RadiusM: 500}},
		{"nowhere", at("a", 1000, 500, all(900, 90, times{"s2": 60})), verdict.SetVerdict{}},
		{"a larger radius at one size only says nothing", slices.Concat(at("a", 1000, 500, all(90, 8, times{"s2": 1})), at("a", 1000, 900, all(90, 8, times{"s2": 1})), at("a", 9000, 500, all(90, 8, times{"s2": 1}))),
			verdict.SetVerdict{Rows: 9000, RadiusM: 500, AtLeast: true}},
	} {
		s := verdict.Judge(run(tt.cases)).Sets[0]
		if s.Rows != tt.want.Rows || s.RadiusM != tt.want.RadiusM || s.AtLeast != tt.want.AtLeast {
			t.Errorf("%s: %d rows, %v m, at least %v; want %+v", tt.name, s.Rows, s.RadiusM, s.AtLeast, tt.want)
		}
	}
}

// TestRealRun judges a real run.
func TestRealRun(t *testing.T) {
	f, err := os.Open("../testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	v := verdict.Judge(r)
	sound(t, r, v)
	if len(v.Sets) != len(r.Sets) {
		t.Errorf("%d sets, want %d", len(v.Sets), len(r.Sets))
	}
	for _, s := range v.Sets {
		if s.Use == "" || s.Use == "fullscan" {
			t.Errorf("%s: use %q", s.Set, s.Use)
		}
	}
}

func ExampleJudge() {
	timing := func(ms float64) result.Side {
		return result.Side{Time: result.Timing{Runs: 30, Median: ms, Spread: 0.03}}
	}
	v := verdict.Judge(&result.Run{Cases: []result.Case{
		{Set: "dense", Rows: 200_000, RadiusM: 5000, Strategy: "fullscan", Free: timing(240)},
		{Set: "dense", Rows: 200_000, RadiusM: 5000, Strategy: "bbox", Free: timing(31)},
		{Set: "dense", Rows: 200_000, RadiusM: 5000, Strategy: "s2", Free: timing(2)},
	}})
	fmt.Println(v.Headline)
	// Output:
	// For this data, use s2: nothing else is faster beyond the noise. It holds to at least 200,000 rows and 5 km.
}
