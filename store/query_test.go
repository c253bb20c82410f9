package store_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func TestQueryNormalize(t *testing.T) {
	given := []string{" Moving ", "cleaning", "MOVING"}
	q := store.Query{
		Center: geo.LatLng{Lat: 1, Lng: -180}, Radius: 5,
		Filter: store.Filter{Categories: given, PostedAfter: time.UnixMicro(1_500), Employer: " A  B "},
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	want := store.Query{
		Center: geo.LatLng{Lat: 1, Lng: 180}, Radius: 5, Sort: store.ByDistance, Limit: store.DefaultLimit,
		Filter: store.Filter{
			Categories: []string{"cleaning", "moving"}, PostedAfter: time.UnixMilli(1).UTC(),
			Employer: "A B", Remote: store.RemoteExclude,
		},
	}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("got  %+v\nwant %+v", q, want)
	}
	if given[0] != " Moving " {
		t.Error("the caller's categories were changed")
	}
}

func TestQueryFaults(t *testing.T) {
	box := geo.Rect{South: 1, West: 2, North: 3, East: 4}
	for name, c := range map[string]struct {
		change func(*store.Query)
		want   []string
	}{
		"nothing":           {func(*store.Query) {}, nil},
		"zero radius":       {func(q *store.Query) { q.Radius = 0 }, nil},
		"no radius":         {func(q *store.Query) { q.Radius = store.Unlimited }, nil},
		"negative radius":   {func(q *store.Query) { q.Radius = -1 }, []string{"min_radius_m", "radius_m"}},
		"radius NaN":        {func(q *store.Query) { q.Radius = math.NaN() }, []string{"radius_m"}},
		"ring":              {func(q *store.Query) { q.MinRadius = q.Radius }, nil},
		"ring inside out":   {func(q *store.Query) { q.MinRadius = q.Radius + 1 }, []string{"min_radius_m"}},
		"ring from nowhere": {func(q *store.Query) { q.MinRadius, q.Radius = math.Inf(1), math.Inf(1) }, []string{"min_radius_m"}},
		"limit":             {func(q *store.Query) { q.Limit = store.MaxLimit + 1 }, []string{"limit"}},
		"negative limit":    {func(q *store.Query) { q.Limit = -1 }, []string{"limit"}},
		"sort":              {func(q *store.Query) { q.Sort = "best" }, []string{"sort"}},
		"remote":            {func(q *store.Query) { q.Filter.Remote = "maybe" }, []string{"remote"}},
		"pay":               {func(q *store.Query) { q.Filter.MinPay = -1 }, []string{"min_pay"}},
		"empty category":    {func(q *store.Query) { q.Filter.Categories = []string{"a", " "} }, []string{"category"}},
		"many categories":   {func(q *store.Query) { q.Filter.Categories = make([]string, store.MaxCategories+1) }, []string{"category"}},
		"date":              {func(q *store.Query) { q.Filter.PostedAfter = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"posted_after"}},
		"several":           {func(q *store.Query) { q.Center.Lat, q.Limit, q.Sort = 91, 999, "x" }, []string{"lat", "limit", "sort"}},
		"box":               {func(q *store.Query) { *q = store.InBox(box) }, nil},
		"box and radius":    {func(q *store.Query) { *q = store.InBox(box); q.Radius = 3 }, []string{"box"}},
		"bad box":           {func(q *store.Query) { *q = store.InBox(geo.Rect{South: 2, North: 1}) }, []string{"box"}},
	} {
		q := store.Query{Center: geo.LatLng{Lat: 1, Lng: 2}, Radius: 100}
		c.change(&q)
		if got := fields(t, q.Normalize()); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %v, want %v", name, got, c.want)
		}
	}
}

func TestStatsAddUp(t *testing.T) {
	a := store.Stats{Strategy: "s2", Rounds: 1, Statements: 2, Candidates: 3, Hits: 4, Database: 5, Compute: 6}
	if got := (store.Stats{}).Add(a).Add(a); got != (store.Stats{Strategy: "s2", Rounds: 2, Statements: 4, Candidates: 6, Hits: 8, Database: 10, Compute: 12}) {
		t.Errorf("got %+v", got)
	}
}

func TestMatchAccepts(t *testing.T) {
	c := store.Candidate{Category: "moving", Employer: "A", Pay: 100, Posted: 50, Expires: 1000}
	for name, m := range map[string]struct {
		match store.Match
		want  bool
	}{
		"all":             {store.Match{}, true},
		"open until":      {store.Match{OpenAt: 999}, true},
		"expires now":     {store.Match{OpenAt: 1000}, false},
		"category":        {store.Match{Categories: []string{"cleaning", "moving"}}, true},
		"other category":  {store.Match{Categories: []string{"cleaning"}}, false},
		"pay":             {store.Match{MinPay: 100}, true},
		"more pay":        {store.Match{MinPay: 101}, false},
		"posted from":     {store.Match{PostedFrom: 50}, true},
		"posted later":    {store.Match{PostedFrom: 51}, false},
		"posted to":       {store.Match{PostedTo: 50}, true},
		"posted before":   {store.Match{PostedTo: 49}, false},
		"employer":        {store.Match{Employer: "A"}, true},
		"other employer":  {store.Match{Employer: "a"}, false},
		"one of several":  {store.Match{MinPay: 1, Employer: "B"}, false},
		"all of them too": {store.Match{OpenAt: 1, Categories: []string{"moving"}, MinPay: 1, PostedFrom: 1, PostedTo: 99, Employer: "A"}, true},
	} {
		if got := m.match.Accepts(&c); got != m.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
