package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func newRefine(k int, by store.Sort) *refine {
	return &refine{origin: geo.NewOrigin(geo.LatLng{}), outer: store.Unlimited, sort: by, k: k, kept: map[store.ID]struct{}{}}
}

// The k first of a shuffled list, some of them offered twice, are those of the
// sorted list, each once.
func TestRefineKeepsTheFirstOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all []store.Candidate
		for id := range 1 + r.IntN(60) {
			all = append(all, store.Candidate{
				ID: store.ID(id + 1), Posted: r.Int64N(5) + 1, Expires: 1,
				At: geo.LatLng{Lat: float64(r.IntN(5))}, // many at one distance
			})
		}
		for _, by := range []store.Sort{store.ByDistance, store.ByNewest} {
			k := 1 + r.IntN(30)
			f := newRefine(k, by)
			offered := append(slices.Clone(all), all[:r.IntN(len(all)+1)]...)
			r.Shuffle(len(offered), func(i, j int) { offered[i], offered[j] = offered[j], offered[i] })
			want := make([]key, 0, len(all))
			for i := range all {
				want = append(want, key{f.origin.Distance(all[i].At), all[i].Posted, all[i].ID})
			}
			slices.SortFunc(want, func(a, b key) int {
				if a.before(b, by) {
					return -1
				}
				return 1
			})
			for i := range offered {
				f.offer(&offered[i])
			}
			if got := f.page(); !slices.Equal(got, want[:min(k, len(want))]) {
				t.Fatalf("by %s, k %d:\n got %v\nwant %v", by, k, got, want[:min(k, len(want))])
			}
		}
	}
}

func TestRefineTakesTheEdges(t *testing.T) {
	c := store.Candidate{ID: 1, At: geo.LatLng{Lat: 1}, Expires: 1}
	d := newRefine(1, store.ByDistance).origin.Distance(c.At)
	for name, f := range map[string]*refine{
		"outer": {inner: 0, outer: d},
		"inner": {inner: d, outer: 2 * d},
		"both":  {inner: d, outer: d},
	} {
		f.k, f.kept, f.sort = 1, map[store.ID]struct{}{}, store.ByDistance
		f.origin = geo.NewOrigin(geo.LatLng{})
		f.offer(&c)
		if f.hits != 1 {
			t.Errorf("a job on the %s edge is not a hit", name)
		}
	}
}
