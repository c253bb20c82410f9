package sqlite

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestStatements compares the SQL, the values and the plan of each kind of
// access with testdata/statements.golden. A plan that scans where it
// should search shows up here.
func TestStatements(t *testing.T) {
	e := open(t, Options{})
	all := store.Match{OpenAt: 1000, Categories: []string{"a", "b"}, MinPay: 5, PostedFrom: 6, PostedTo: 7, Employer: "Kim"}
	rects := []geo.Rect{{South: 1, West: 179, North: 2, East: 180}, {South: 1, West: -180, North: 2, East: -179}}
	ranges := []store.Interval{{Lo: 10, Hi: 19}, {Lo: 30, Hi: 39}, {Lo: 50, Hi: 50}}
	near := &geo.Ring{Center: geo.LatLng{Lat: 60, Lng: 180}, Inner: 0, Outer: geo.MaxDistance / 3}
	far := &geo.Ring{Center: geo.LatLng{Lat: 0, Lng: 10}, Inner: geo.MaxDistance / 3, Outer: math.Inf(1)}
	window := &store.Window{Lo: 1, At: 50, Hi: 99, Each: 20}
	var got strings.Builder
	for _, c := range []struct {
		name string
		a    store.Access
	}{
		{"no index", store.Access{Index: store.NoIndex}},
		{"no index, near, nearest first, forced", store.Access{Index: store.NoIndex, Match: all, Near: near, Order: store.NearestFirst, Limit: 20, Force: true}},
		{"no index, far", store.Access{Index: store.NoIndex, Near: far}},
		{"lat_lng", store.Access{Index: store.IndexLatLng, Rects: rects, Near: near}},
		{"lat_lng, employer", store.Access{Index: store.IndexLatLng, Rects: rects[:1], Match: store.Match{Employer: "Kim"}}},
		{"lat_lng, forced, nearest first", store.Access{Index: store.IndexLatLng, Rects: rects[:1], Match: all, Near: near, Order: store.NearestFirst, Limit: 20, Force: true}},
		{"spatial", store.Access{Index: store.IndexSpatial, Rects: rects, Match: all, Near: near}},
		{"spatial, forced", store.Access{Index: store.IndexSpatial, Rects: rects[:1], Limit: 9, Force: true}},
		{"s2", store.Access{Index: store.IndexS2, Ranges: ranges}},
		{"s2, forced", store.Access{Index: store.IndexS2, Ranges: ranges[:1], Match: all, Near: far, Force: true}},
		{"h3", store.Access{Index: store.IndexH3, Ranges: ranges, Match: store.Match{Categories: []string{"a"}}}},
		{"h3, forced", store.Access{Index: store.IndexH3, Ranges: ranges[:1], Force: true}},
		{"geohash", store.Access{Index: store.IndexGeohash, Ranges: ranges}},
		{"geohash, forced", store.Access{Index: store.IndexGeohash, Ranges: ranges, Limit: 5, Force: true}},
		{"s2 window", store.Access{Index: store.IndexS2, Window: window, Match: all}},
		{"h3 window, forced", store.Access{Index: store.IndexH3, Window: window, Force: true}},
		{"geohash window", store.Access{Index: store.IndexGeohash, Window: window}},
		{"remote by id", store.Access{Index: store.IndexRemote, Match: all, After: &store.RemoteAfter{ID: 8}, Order: store.LowestIDFirst, Limit: 9}},
		{"remote newest", store.Access{Index: store.IndexRemote, After: &store.RemoteAfter{ID: 8, Posted: 77}, Order: store.NewestFirst, Limit: 9}},
		{"remote newest, forced", store.Access{Index: store.IndexRemote, Order: store.NewestFirst, Force: true}},
	} {
		statements, err := e.Explain(t.Context(), c.a)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		n, err := e.Read(t.Context(), c.a, func([]store.Candidate) error { return nil })
		if err != nil || n != len(statements) {
			t.Errorf("%s: Read ran %d statements, Explain showed %d (%v)", c.name, n, len(statements), err)
		}
		for _, s := range statements {
			if n := strings.Count(s.SQL, "?"); n != len(s.Args) {
				t.Errorf("%s: %d values for %d places", c.name, len(s.Args), n)
			}
			fmt.Fprintf(&got, "== %s\n%s\n--", c.name, s.SQL)
			for _, v := range s.Args {
				if f, ok := v.(float64); ok {
					v = strconv.FormatFloat(f, 'g', 12, 64) // the last digits may differ between machines
				}
				fmt.Fprintf(&got, " %v", v)
			}
			fmt.Fprintf(&got, "\n%s\n", s.Plan)
		}
	}
	golden(t, "statements.golden", got.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it anew); got\n%s", path, got)
	}
}

func TestPlanTree(t *testing.T) {
	p := plan{{2, 0, "A"}, {3, 2, "B"}, {4, 3, "C"}, {5, 2, "D"}, {6, 5, "E"}, {7, 0, "F"}}
	want := "QUERY PLAN\n|--A\n|  |--B\n|  |  `--C\n|  `--D\n|     `--E\n`--F\n"
	if got := p.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestAccessesWithoutMeaning(t *testing.T) {
	e := open(t, Options{})
	near := &geo.Ring{Outer: 1}
	for name, a := range map[string]store.Access{
		"no such index":         {Index: "id; DROP TABLE job"},
		"no index at all":       {},
		"negative limit":        {Index: store.NoIndex, Limit: -1},
		"negative window":       {Index: store.IndexS2, Window: &store.Window{Each: -1}},
		"window of boxes":       {Index: store.IndexLatLng, Window: &store.Window{}},
		"window near":           {Index: store.IndexS2, Window: &store.Window{}, Near: near},
		"remote near":           {Index: store.IndexRemote, Near: near},
		"nearest to what":       {Index: store.NoIndex, Order: store.NearestFirst},
		"nearest of cells":      {Index: store.IndexS2, Near: near, Order: store.NearestFirst},
		"newest with a place":   {Index: store.NoIndex, Order: store.NewestFirst},
		"no such order":         {Index: store.NoIndex, Order: 9},
		"distance not a number": {Index: store.NoIndex, Near: &geo.Ring{Inner: math.NaN(), Outer: 1}},
		"box not a number":      {Index: store.IndexLatLng, Rects: []geo.Rect{{South: math.NaN()}}},
	} {
		if n, err := e.Read(t.Context(), a, func([]store.Candidate) error { return nil }); err == nil || n != 0 {
			t.Errorf("%s was read: %d statements", name, n)
		}
		if _, err := e.Explain(t.Context(), a); err == nil {
			t.Errorf("%s was explained", name)
		}
	}
	if n := len(read(t, e, store.Access{Index: store.IndexS2, Window: &store.Window{Hi: math.MaxInt64}})); n != 0 {
		t.Errorf("a window of no rows gave %d", n)
	}
}
