package mysql

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var update = flag.Bool("update", false, "write the golden files")

// accesses has one of each kind.
func accesses() []struct {
	name  string
	a     store.Access
	limit time.Duration
} {
	berlin := geo.LatLng{Lat: 52.52, Lng: 13.405}
	box := geo.Rect{South: 52.4, West: 13.2, North: 52.6, East: 13.6}
	east := geo.Rect{South: -10, West: 170, North: 10, East: 180}
	west := geo.Rect{South: -10, West: -179.5, North: 10, East: -170}
	near := &geo.Ring{Center: berlin, Outer: 5000}
	ring := &geo.Ring{Center: berlin, Inner: 1000, Outer: 5000}
	open := store.Match{OpenAt: 100}
	filtered := store.Match{OpenAt: 100, Categories: []string{"cleaning", "moving"}, MinPay: 2000, PostedFrom: 10, PostedTo: 90, Employer: "Acme's"}
	ranges := []store.Interval{{Lo: 1, Hi: 9}, {Lo: 20, Hi: 20}, {Lo: 30, Hi: 39}}
	return []struct {
		name  string
		a     store.Access
		limit time.Duration
	}{
		{"scan", store.Access{Index: store.NoIndex, Match: open}, 0},
		{"scan near", store.Access{Index: store.NoIndex, Match: open, Near: near}, 0},
		{"scan near, nearest first", store.Access{Index: store.NoIndex, Match: open, Near: ring, Order: store.NearestFirst, Limit: 20}, 0},
		{"scan, nearest first however far", store.Access{Index: store.NoIndex, Match: open, Near: &geo.Ring{Center: berlin, Outer: math.Inf(1)}, Order: store.NearestFirst, Limit: 20}, 0},
		{"scan, infinitely far away", store.Access{Index: store.NoIndex, Match: open, Near: &geo.Ring{Center: berlin, Inner: math.Inf(1), Outer: math.Inf(1)}}, 0},
		{"scan forced", store.Access{Index: store.NoIndex, Match: open, Near: near, Force: true}, 0},
		{"box", store.Access{Index: store.IndexLatLng, Match: open, Rects: []geo.Rect{box}}, 0},
		{"box near, with every filter and a deadline", store.Access{Index: store.IndexLatLng, Match: filtered, Rects: []geo.Rect{box}, Near: ring, Order: store.NearestFirst, Limit: 20}, 500 * time.Millisecond},
		{"boxes at the antimeridian", store.Access{Index: store.IndexLatLng, Match: open, Rects: []geo.Rect{west, east}, Near: near}, 0},
		{"box forced", store.Access{Index: store.IndexLatLng, Match: open, Rects: []geo.Rect{box}, Force: true}, 0},
		{"no box", store.Access{Index: store.IndexLatLng, Match: open}, 0},
		{"spatial", store.Access{Index: store.IndexSpatial, Match: open, Rects: []geo.Rect{box}}, 0},
		{"spatial near", store.Access{Index: store.IndexSpatial, Match: open, Rects: []geo.Rect{box}, Near: near, Order: store.NearestFirst, Limit: 20}, 0},
		{"spatial, half the earth", store.Access{Index: store.IndexSpatial, Match: open, Rects: []geo.Rect{{South: 0, West: -180, North: 90, East: 180}}}, 0},
		{"s2 ranges", store.Access{Index: store.IndexS2, Match: open, Ranges: ranges}, 0},
		{"h3 ranges with filters", store.Access{Index: store.IndexH3, Match: filtered, Ranges: ranges[:1], Limit: 7}, 0},
		{"geohash ranges forced", store.Access{Index: store.IndexGeohash, Match: open, Ranges: ranges[:2], Force: true}, 0},
		{"s2 window with filters", store.Access{Index: store.IndexS2, Match: filtered, Window: &store.Window{Lo: 1, At: 50, Hi: 99, Each: 200}}, 0},
		{"h3 window forced, with a deadline", store.Access{Index: store.IndexH3, Match: open, Window: &store.Window{Lo: 1, At: 50, Hi: 99, Each: 200}, Force: true}, time.Microsecond},
		{"remote", store.Access{Index: store.IndexRemote, Match: filtered}, 0},
		{"remote by id", store.Access{Index: store.IndexRemote, Match: open, Order: store.LowestIDFirst, After: &store.RemoteAfter{ID: 7}, Limit: 20}, 0},
		{"remote newest first", store.Access{Index: store.IndexRemote, Match: open, Order: store.NewestFirst, After: &store.RemoteAfter{ID: 7, Posted: 50}, Limit: 20}, 0},
		{"remote newest first, forced", store.Access{Index: store.IndexRemote, Match: open, Order: store.NewestFirst, Limit: 20, Force: true}, 0},
	}
}

// TestSQL compares with testdata/sql.golden; go test -update writes it.
func TestSQL(t *testing.T) {
	const file = "testdata/sql.golden"
	var got bytes.Buffer
	for _, c := range accesses() {
		_, statements, err := build(c.a, c.limit)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fmt.Fprintf(&got, "# %s\n", c.name)
		for _, s := range statements {
			if n := strings.Count(s.sql, "?"); n != len(s.args) {
				t.Errorf("%s: %d placeholders for %d arguments", c.name, n, len(s.args))
			}
			fmt.Fprintf(&got, "%s\n%v\n", s.sql, s.args)
		}
		got.WriteByte('\n')
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the SQL differs from %s; run with -update and look at the difference. Got:\n%s", file, got.Bytes())
	}
}

func TestBuildRefuses(t *testing.T) {
	near := &geo.Ring{Outer: 5}
	for name, a := range map[string]store.Access{
		"no index":              {},
		"unknown index":         {Index: "id; DROP TABLE job"},
		"window of boxes":       {Index: store.IndexLatLng, Window: &store.Window{}},
		"nearest to nothing":    {Index: store.NoIndex, Order: store.NearestFirst},
		"nearest in cells":      {Index: store.IndexS2, Order: store.NearestFirst, Near: near},
		"nearest remote":        {Index: store.IndexRemote, Order: store.NearestFirst, Near: near},
		"newest with a place":   {Index: store.NoIndex, Order: store.NewestFirst},
		"unknown order":         {Index: store.NoIndex, Order: 99},
		"negative limit":        {Index: store.NoIndex, Limit: -1},
		"negative window":       {Index: store.IndexS2, Window: &store.Window{Each: -1}},
		"distance not a number": {Index: store.NoIndex, Near: &geo.Ring{Outer: math.NaN()}},
		"box not a number":      {Index: store.IndexLatLng, Rects: []geo.Rect{{North: math.NaN()}}},
	} {
		if _, s, err := build(a, 0); err == nil {
			t.Errorf("%s: built %v", name, s)
		}
	}
}

// TestChunks checks that many ranges become several statements that hold each once.
func TestChunks(t *testing.T) {
	ranges := make([]store.Interval, 2*maxRanges+3)
	for i := range ranges {
		ranges[i] = store.Interval{Lo: int64(10 * i), Hi: int64(10*i + 5)}
	}
	_, statements, err := build(store.Access{Index: store.IndexS2, Ranges: ranges}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(statements) != 3 {
		t.Fatalf("%d statements, want 3", len(statements))
	}
	seen := map[int64]bool{}
	for i, s := range statements {
		if want := []int{maxRanges, maxRanges, 4}[i]; len(s.args) != 2*want+1 {
			t.Errorf("statement %d has %d arguments, want %d", i, len(s.args), 2*want+1)
		}
		for _, v := range s.args[:len(s.args)-1] {
			seen[v.(int64)] = true
		}
	}
	if len(seen) != 2*len(ranges) {
		t.Errorf("%d bounds, want %d", len(seen), 2*len(ranges))
	}
}
