package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// The set of intervals against a set of numbers.
func TestIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const top = 40
	random := func() []store.Interval {
		var out []store.Interval
		for lo := r.Int64N(6); lo < top; lo += 2 + r.Int64N(6) {
			hi := min(lo+r.Int64N(5), top)
			out = append(out, store.Interval{Lo: lo, Hi: hi})
			lo = hi
		}
		return out
	}
	for range 3000 {
		var set intervals
		in := map[int64]bool{}
		for range 1 + r.IntN(4) {
			from := random()
			left := set.subtractFrom(slices.Clone(from))
			want, got := map[int64]bool{}, map[int64]bool{}
			for _, v := range from {
				for n := v.Lo; n <= v.Hi; n++ {
					if !in[n] {
						want[n] = true
					}
				}
			}
			last := int64(-1)
			for _, v := range left {
				if v.Lo <= last || v.Hi < v.Lo {
					t.Fatalf("%v less %v = %v is not sorted and disjoint", from, set, left)
				}
				last = v.Hi
				for n := v.Lo; n <= v.Hi; n++ {
					got[n] = true
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%v less %v = %v", from, set, left)
			}
			for n := range want {
				if !got[n] {
					t.Fatalf("%v less %v = %v lacks %d", from, set, left, n)
				}
				in[n] = true
			}
			set.add(left...)
		}
		for i := 1; i < len(set); i++ {
			if set[i].Lo <= set[i-1].Hi+1 {
				t.Fatalf("%v is not merged", set)
			}
		}
	}
}

func TestDiscRadiusIsTheReverseOfArea(t *testing.T) {
	for _, r := range []float64{0, 0.5, 1, 1e3, 1e6, 1e7, geo.MaxDistance} {
		if got := discRadius(discArea(r)); math.Abs(got-r) > 1e-6*(1+r) {
			t.Errorf("radius %v came back as %v", r, got)
		}
	}
	if got := discArea(100); math.Abs(got-math.Pi*1e4) > 1e-3 {
		t.Errorf("100 m: %v m²", got)
	}
}

// The areas are guesses, but no worse than the cells' own variation.
func TestAreasAreAboutRight(t *testing.T) {
	area := map[string]func(lo, hi int64, near geo.LatLng) float64{"geohash": geohashArea, "h3": h3Area, "s2": s2Area}
	for _, scheme := range []cell.Scheme{cell.Geohash, cell.H3, cell.S2} {
		for _, at := range []geo.LatLng{{Lat: 37.5, Lng: 127}, {Lat: -60, Lng: 10}, {Lat: 1, Lng: -179}} {
			ring := geo.Ring{Center: at, Outer: 10_000}
			sum := 0.0
			for _, r := range cell.Cover(scheme, ring, 200) {
				sum += area[scheme.Name()](r.Lo, r.Hi, at)
			}
			if ratio := sum / discArea(ring.Outer); ratio < 0.5 || ratio > 3 {
				t.Errorf("%s at %v: a cover of 10 km has %.2f times the circle's area", scheme.Name(), at, ratio)
			}
		}
	}
	if got := s2Area(0, math.MaxInt64, geo.LatLng{}); !(got > 0) {
		t.Errorf("the whole curve has %v m²", got)
	}
}
