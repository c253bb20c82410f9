package experiment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
)

func TestDigest(t *testing.T) {
	of := func(rows ...[]sql.RawBytes) (d digest) {
		for _, r := range rows {
			d.add(r)
		}
		return d
	}
	row := func(columns ...string) (r []sql.RawBytes) {
		for _, c := range columns {
			r = append(r, sql.RawBytes(c))
		}
		return r
	}
	if of(row("1", "a"), row("2", "b")) != of(row("2", "b"), row("1", "a")) {
		t.Error("the order matters")
	}
	for name, pair := range map[string][2]digest{
		"value":       {of(row("1")), of(row("2"))},
		"twice":       {of(row("1"), row("1")), of(row("1"))},
		"none":        {of(), of(row(""))},
		"columns":     {of(row("a", "bc")), of(row("ab", "c"))},
		"columns two": {of(row("a", "")), of(row("", "a"))},
		"exchanged":   {of(row("1", "2"), row("3", "4")), of(row("1", "4"), row("3", "2"))},
	} {
		if pair[0] == pair[1] {
			t.Errorf("%s: different rows have one digest", name)
		}
	}
}

func TestInTurns(t *testing.T) {
	var order []int
	all, err := inTurns(t.Context(), repeats{4, time.Hour}, 3, func(i int) (time.Duration, error) {
		order = append(order, i)
		return time.Duration(i+1) * time.Millisecond, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A round that does not count, then four, each beginning one further on.
	want := []int{0, 1, 2, 0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2}
	if !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	for i, timing := range all {
		if timing.Runs != 4 || timing.Median != float64(i+1) {
			t.Errorf("side %d: got %d runs of %v ms", i, timing.Runs, timing.Median)
		}
	}
	all, err = inTurns(t.Context(), repeats{100, -1}, 1, func(int) (time.Duration, error) { return 1, nil })
	if err != nil || all[0].Runs != leastRounds {
		t.Errorf("without time: got %d runs, %v; want %d", all[0].Runs, err, leastRounds)
	}
	broken := errors.New("broken")
	if _, err := inTurns(t.Context(), repeats{3, 0}, 2, func(int) (time.Duration, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inTurns(ctx, repeats{3, 0}, 2, func(int) (time.Duration, error) { return 0, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestParseTrace(t *testing.T) {
	data, err := os.ReadFile("testdata/trace.json")
	if err != nil {
		t.Fatal(err)
	}
	w, err := parseTrace(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := (estimate{96810, 10492.6}); w.scan != want {
		t.Errorf("scan: got %v, want %v", w.scan, want)
	}
	if want := (estimate{48405, 16942}); len(w.indexes) != 1 || w.indexes["lat_lng"] != want {
		t.Errorf("indexes: got %v, want lat_lng %v", w.indexes, want)
	}
	if _, err := parseTrace([]byte(`{"steps": [{"join_optimization": {"steps": []}}]}`)); !errors.Is(err, errNoRanges) {
		t.Errorf("without ranges: got %v", err)
	}
	for _, bad := range []string{"", "{", `{"range_analysis": 1}`, `{"range_analysis": {"table_scan": {"rows": "many"}}}`} {
		if _, err := parseTrace([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseTrace(f *testing.F) {
	// go test ./bench/experiment -fuzz FuzzParseTrace -fuzztime 30s
	data, err := os.ReadFile("testdata/trace.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"range_analysis": {"table_scan": {"rows": 1, "cost": 2}}}`))
	f.Add([]byte(`[[{"a": [{"range_analysis": null}]}]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := parseTrace(data)
		if err == nil && !json.Valid(data) {
			t.Error("what is not JSON was accepted")
		}
		if err == nil && w.indexes == nil {
			t.Error("a trace without a map of indexes")
		}
	})
}

func TestGrown(t *testing.T) {
	for _, kind := range kinds {
		points, err := places(kind, 7, 3000)
		if err != nil {
			t.Fatal(err)
		}
		if len(points) != 3000 {
			t.Fatalf("%s: %d points", kind, len(points))
		}
		g := grow(center(), points)
		var before, beforeBand float64
		for _, n := range []int{1, 2, 10, 299, 1500, 3000} {
			r := g.box(n)
			if err := r.Validate(); err != nil {
				t.Errorf("%s, %d: %v", kind, n, err)
			}
			inside, band := g.count(r)
			// More only where several points are equally far.
			if inside < n || inside > n+2 {
				t.Errorf("%s: the box for %d holds %d", kind, n, inside)
			}
			share, bandShare := g.share(r)
			if band < inside || share < before || bandShare < beforeBand || bandShare > 100 {
				t.Errorf("%s, %d: %v %% inside, %v %% in the band, after %v and %v", kind, n, share, bandShare, before, beforeBand)
			}
			before, beforeBand = share, bandShare
		}
		if before != 100 {
			t.Errorf("%s: the largest box holds %v %%", kind, before)
		}
		if g.rank(0) != 1 || g.rank(50) != 1500 || g.rank(200) != 3000 {
			t.Errorf("ranks: got %d %d %d", g.rank(0), g.rank(50), g.rank(200))
		}
	}
	if _, err := places(dataset.Shape("round"), 1, 10); err == nil {
		t.Error("a shape that does not exist was accepted")
	}
}

func TestPlacesAreTheSame(t *testing.T) {
	a, err := places(dataset.Dense, 1, 50)
	if err != nil {
		t.Fatal(err)
	}
	b, err := places(dataset.Dense, 1, 50)
	if err != nil {
		t.Fatal(err)
	}
	other, err := places(dataset.Dense, 2, 50)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) || slices.Equal(a, other) {
		t.Error("a seed does not decide the places")
	}
}

func TestShares(t *testing.T) {
	s := shares(0.01, 100, 5)
	for i, want := range []float64{0.01, 0.1, 1, 10, 100} {
		if math.Abs(s[i]/want-1) > 1e-12 {
			t.Errorf("got %v", s)
		}
	}
}

func TestDropUndrawable(t *testing.T) {
	charts := []result.Chart{{Series: []result.Series{{Points: []result.Point{
		{X: 1, Y: 1}, {X: 2, Y: math.NaN()}, {X: math.Inf(1), Y: 1}, {X: 3, Y: 1, Hi: math.Inf(1)}, {X: 4, Y: 2},
	}}}}}
	dropUndrawable(charts)
	if got := charts[0].Series[0].Points; len(got) != 2 || got[0].X != 1 || got[1].X != 4 {
		t.Errorf("got %v", got)
	}
}

func TestCrossings(t *testing.T) {
	share, band, never, always := crossings([]setSeen{
		{never: true}, {always: true}, {cross: boxSeen{share: 2, band: 20}}, {cross: boxSeen{share: 4, band: 30}},
	})
	if !slices.Equal(share, values{2, 4}) || !slices.Equal(band, values{20, 30}) || never != 1 || always != 1 {
		t.Errorf("got %v %v %d %d", share, band, never, always)
	}
}

func TestNoise(t *testing.T) {
	l := &lab{}
	if l.noisy() || l.steady(result.Confirmed) != result.Confirmed {
		t.Error("without any timing it is noisy")
	}
	l.spreads = values{0.01, 0.02, 3}
	if l.steady(result.Confirmed) != result.Confirmed {
		t.Error("one bad timing spoils all")
	}
	l.spreads = values{0.01, 0.21, 3}
	if l.steady(result.Refuted) != result.Unclear {
		t.Error("noise does not count")
	}
}

// Each form has an argument for each place, however often the distance is written.
func TestFormsHaveTheirArguments(t *testing.T) {
	for _, f := range formulas() {
		in, args := inBox(geo.Rect{South: 1, West: 2, North: 3, East: 4})
		for _, s := range forms(f, query{in, args}, 100, 10) {
			marks := 0
			for _, c := range s.sql {
				if c == '?' {
					marks++
				}
			}
			if marks != len(s.args) {
				t.Errorf("%s, %s: %d arguments for %d places", f.name, s.name, len(s.args), marks)
			}
		}
	}
}
