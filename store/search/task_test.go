package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// wobbly is an engine whose distances in SQL are off by up to a given error, as a
// database with another libm may be: it orders and filters by them.
type wobbly struct {
	rows       []store.Candidate
	off        func(id store.ID) float64
	twice      bool // every row comes twice, as by an R-tree that is being tidied up
	statements int
}

func (w *wobbly) Read(_ context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	w.statements++
	type row struct {
		c store.Candidate
		d float64
	}
	var rows []row
	for _, c := range w.rows {
		d := max(0, a.Near.Center.Distance(c.At)+w.off(c.ID))
		if d >= a.Near.Inner && d <= a.Near.Outer {
			rows = append(rows, row{c, d})
			if w.twice {
				rows = append(rows, row{c, d})
			}
		}
	}
	if a.Order == store.NearestFirst {
		slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(x.d, y.d) })
	}
	if a.Limit > 0 && len(rows) > a.Limit {
		rows = rows[:a.Limit]
	}
	for _, r := range rows {
		if err := yield([]store.Candidate{r.c}); err != nil {
			return 1, err
		}
	}
	return 1, nil
}

func (w *wobbly) Explain(context.Context, store.Access) ([]store.Statement, error) {
	return []store.Statement{{SQL: "SELECT 1", Plan: "a plan"}}, nil
}

func (w *wobbly) Jobs(_ context.Context, ids []store.ID) ([]store.Job, error) {
	var out []store.Job
	for _, id := range ids {
		out = append(out, store.Job{ID: id, Title: fmt.Sprint("job ", id), State: store.Open})
	}
	return out, nil
}

// SQL's distances order wrongly and drop rows at the edges, within the slack: the
// answer is exact all the same.
func TestSQLDistanceDecidesNothing(t *testing.T) {
	center := geo.LatLng{Lat: 37.5, Lng: 127}
	w := &wobbly{}
	for i := range 300 {
		// Groups of 10 jobs within a tenth of a millimetre, a metre apart.
		lat := 37.5 + float64(i/10)*1e-5 + float64(9-i%10)*1e-10
		w.rows = append(w.rows, store.Candidate{ID: store.ID(i + 1), At: geo.LatLng{Lat: lat, Lng: 127}, Expires: 1 << 50})
	}
	type hit struct {
		id store.ID
		d  float64
	}
	var want []hit
	for _, c := range w.rows {
		want = append(want, hit{c.ID, center.Distance(c.At)})
	}
	slices.SortFunc(want, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.id, b.id))
	})
	now := func() time.Time { return time.UnixMilli(1 << 40) }
	for i, size := range []float64{0, 1e-4, 9e-4, 0, 9e-4} {
		w.twice = i >= 3
		w.off = func(id store.ID) float64 { return size * float64(id%3-1) }
		f := New(w, now, fullscan{})
		for _, radius := range []float64{want[150].d, want[155].d, store.Unlimited} {
			n := len(want)
			for n > 0 && want[n-1].d > radius {
				n--
			}
			q := store.Query{Center: center, Radius: radius, Limit: 7}
			var got []hit
			for {
				p, err := f.Find(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range p.Jobs {
					got = append(got, hit{j.Job.ID, j.Distance})
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want[:n]) {
				t.Errorf("off by %v, twice %v, radius %v: got %d jobs, want %d, or in another order", size, w.twice, radius, len(got), n)
			}
		}
	}
}

func TestExplainShowsEveryStatement(t *testing.T) {
	w := &wobbly{rows: []store.Candidate{{ID: 1, Expires: 1 << 50}}, off: func(store.ID) float64 { return 0 }}
	f := New(w, func() time.Time { return time.UnixMilli(1) }, fullscan{})
	p, x, err := f.Explain(context.Background(), store.Query{Radius: 10})
	if err != nil || len(p.Jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(p.Jobs), err)
	}
	if len(x.Rounds) != 1 || len(x.Rounds[0].Statements) != w.statements {
		t.Errorf("%d statements ran, explained: %+v", w.statements, x)
	}
}

func TestUnknownStrategyNamesThem(t *testing.T) {
	f := New(&wobbly{}, time.Now)
	_, err := f.Find(context.Background(), store.Query{Strategy: "magic"})
	want := `strategy: "magic" is not one of fullscan, bbox, spatial, geohash, h3, s2`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
