package cell

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/geo"
)

// checkCover checks the form of a cover and that it holds those of the points
// that are in the ring.
func checkCover(t fataler, s Scheme, ring geo.Ring, maxRanges int, points ...geo.LatLng) (held int) {
	t.Helper()
	cover := Cover(s, ring, maxRanges)
	if len(cover) > max(1, maxRanges) {
		t.Fatalf("%s, ring %v: %d ranges, at most %d are allowed", s.Name(), ring, len(cover), maxRanges)
	}
	last := int64(-2)
	for _, r := range cover {
		if r.Lo < 0 || r.Lo <= last+1 || r.Hi < r.Lo || !(0 <= r.MinDist && r.MinDist <= ring.Outer) {
			t.Fatalf("%s, ring %v, %d ranges: range %+v after %d", s.Name(), ring, maxRanges, r, last)
		}
		last = r.Hi
	}
	for _, p := range points {
		if !ring.Contains(p) {
			continue
		}
		held++
		index, d := s.Index(p), ring.Center.Distance(p)
		i, _ := slices.BinarySearchFunc(cover, index, func(r Range, n int64) int {
			if r.Hi < n {
				return -1
			}
			return 1
		})
		if i == len(cover) || index < cover[i].Lo {
			t.Fatalf("%s, ring %v, %d ranges: %v at %v m, number %d, is not in %+v", s.Name(), ring, maxRanges, p, d, index, cover)
		}
		if cover[i].MinDist > d {
			t.Fatalf("%s, ring %v, %d ranges: %v at %v m is in %+v", s.Name(), ring, maxRanges, p, d, cover[i])
		}
	}
	return held
}

// No point of a ring is outside its cover. With more:
// go test ./geo/cell -run TestCoverHoldsItsRing -rapid.checks 100000
func TestCoverHoldsItsRing(t *testing.T) {
	for _, s := range schemes {
		t.Run(s.Name(), func(t *testing.T) {
			checks, held := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				for range 5 {
					ring := genRing().Draw(t, "ring")
					maxRanges := rapid.IntRange(1, 64).Draw(t, "max ranges")
					points := []geo.LatLng{ring.Center, genPlace().Draw(t, "anywhere")}
					for range 12 {
						d := ring.Inner + (min(ring.Outer, geo.MaxDistance)-ring.Inner)*rapid.Float64Range(0, 1).Draw(t, "depth")
						points = append(points, destination(ring.Center, d, rapid.Float64Range(0, 6.3).Draw(t, "bearing")))
					}
					held += checkCover(t, s, ring, maxRanges, points...)
					// The same with a point exactly on its outer, inner or both edges.
					p := rapid.SampledFrom(points).Draw(t, "on the edge")
					d := ring.Center.Distance(p)
					held += checkCover(t, s, geo.Ring{Center: ring.Center, Inner: min(ring.Inner, d), Outer: d}, maxRanges, append(points, p)...)
					held += checkCover(t, s, geo.Ring{Center: ring.Center, Inner: d, Outer: max(ring.Outer, d)}, maxRanges, append(points, p)...)
					held += checkCover(t, s, geo.Ring{Center: ring.Center, Inner: d, Outer: d}, maxRanges, p)
					checks++
				}
			})
			if held < 10*checks {
				t.Errorf("only %d points in %d rings", held, checks)
			}
		})
	}
}

// All places, all small numbers of ranges, radii on both sides of where the bounds
// change their way.
func TestCoverAtExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range schemes {
		for _, center := range extremes() {
			for _, maxRanges := range []int{1, 3, 24} {
				ring := geo.Ring{Center: center, Outer: math.Pow(10, -2+9*r.Float64())}
				if r.IntN(3) == 0 {
					ring.Inner = ring.Outer * r.Float64()
				}
				var points []geo.LatLng
				for range 20 {
					points = append(points, destination(center, ring.Inner+(min(ring.Outer, geo.MaxDistance)-ring.Inner)*r.Float64(), 6.3*r.Float64()))
				}
				if held := checkCover(t, s, ring, maxRanges, append(points, extremes()...)...); held < 10 {
					t.Fatalf("%s, ring %v: only %d points are in it", s.Name(), ring, held)
				}
			}
		}
	}
}

// Points next to each other on both sides of an edge, where formulas lose digits:
// next to the centre, around a quarter of the circumference, at the antipode.
func TestCoverWhereDigitsAreLost(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for _, s := range schemes {
		for range 3000 {
			center := randomPlace(r)
			d := []float64{0, geo.MaxDistance / 2, geo.MaxDistance}[r.IntN(3)] + math.Pow(10, -9+11*r.Float64())*float64(1-2*r.IntN(2))
			p := destination(center, d, 6.3*r.Float64())
			d = center.Distance(p)
			n := 1 + r.IntN(64)
			checkCover(t, s, geo.Ring{Center: center, Inner: d, Outer: d}, n, p)
			checkCover(t, s, geo.Ring{Center: center, Outer: d}, n, p)
			checkCover(t, s, geo.Ring{Center: center, Inner: d, Outer: math.Inf(1)}, n, p)
			checkBounds(t, s, geo.Ring{Center: center, Inner: d, Outer: d}, p)
		}
	}
}

// A cover on the antimeridian holds the points of both longitudes.
func TestCoverAtTheAntimeridian(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for _, s := range schemes {
		for range 1000 {
			center := geo.LatLng{Lat: 170*r.Float64() - 85, Lng: 180 - math.Pow(10, -15+16*r.Float64())}
			p, q := geo.LatLng{Lat: center.Lat + r.Float64()/10, Lng: 180}, geo.LatLng{Lng: -180}
			q.Lat = p.Lat
			if held := checkCover(t, s, geo.Ring{Center: center, Outer: center.Distance(p)}, 1+r.IntN(64), p, q); held != 2 {
				t.Fatalf("%d of 2 points are in the ring", held)
			}
			center.Lng *= -1
			checkCover(t, s, geo.Ring{Center: center, Outer: center.Distance(p)}, 1+r.IntN(64), p, q)
		}
	}
}

func TestCoverOfNothing(t *testing.T) {
	for _, s := range schemes {
		for _, ring := range []geo.Ring{
			{Outer: -1}, {Outer: math.NaN()}, {Inner: math.NaN(), Outer: 1}, {Inner: 2, Outer: 1},
			{Inner: 3e7, Outer: 4e7}, {Inner: math.Inf(1), Outer: math.Inf(1)},
		} {
			if cover := Cover(s, ring, 8); len(cover) > 0 {
				t.Errorf("%s: ring %v, which holds nothing, has the cover %v", s.Name(), ring, cover)
			}
		}
	}
}

func TestCoverOfAll(t *testing.T) {
	for _, s := range schemes {
		for _, maxRanges := range []int{-1, 0, 1, 200} {
			for _, p := range extremes() {
				checkCover(t, s, geo.Ring{Center: p, Outer: math.Inf(1)}, maxRanges, extremes()...)
				checkCover(t, s, geo.Ring{Center: p, Inner: 5000, Outer: math.Inf(1)}, maxRanges, extremes()...)
			}
		}
	}
}

// covered returns the area in square metres of what is filed in the ranges, taking
// cells next to each other to have the same area.
func covered(s Scheme, cover []Range, at geo.LatLng) float64 {
	cells := 0.0
	for _, r := range cover {
		if s == H3 {
			cells += h3Rank(r.Hi) - h3Rank(r.Lo)
		} else {
			cells += float64(r.Hi - r.Lo)
		}
		cells++
	}
	switch s {
	case H3:
		return cells * h3LeafArea(at)
	case S2:
		return cells * s2LeafArea(at)
	default:
		const step = math.Pi / geohashSteps * geo.EarthRadius
		return cells * 2 * step * step * math.Cos(at.Lat*math.Pi/180)
	}
}

// How much more than the circle its cover holds. The asserted medians are what a
// change must not lose.
func TestCoverIsTight(t *testing.T) {
	want := map[string][4]float64{ // at 16, 24, 32 and 64 ranges
		"geohash": {1.35, 1.25, 1.20, 1.10}, "h3": {1.50, 1.35, 1.27, 1.13}, "s2": {1.25, 1.15, 1.12, 1.06},
	}
	for _, s := range schemes {
		for i, maxRanges := range []int{16, 24, 32, 64} {
			r := rand.New(rand.NewPCG(5, 6))
			var ratios []float64
			count := 0
			for range 400 {
				ring := geo.Ring{
					Center: geo.LatLng{Lat: -60 + 120*r.Float64(), Lng: -180 + 360*r.Float64()},
					Outer:  math.Pow(10, 2+3*r.Float64()),
				}
				cover := Cover(s, ring, maxRanges)
				count += len(cover)
				ratios = append(ratios, covered(s, cover, ring.Center)/(math.Pi*ring.Outer*ring.Outer))
			}
			slices.Sort(ratios)
			median := ratios[len(ratios)/2]
			t.Logf("%s, %d ranges (%.1f used): covered area / circle: least %.3f, median %.3f, 95 %% %.3f, most %.3f", s.Name(), maxRanges,
				float64(count)/400, ratios[0], median, ratios[len(ratios)*95/100], ratios[len(ratios)-1])
			if ratios[0] < 0.98 || median > want[s.Name()][i] {
				t.Errorf("%s, %d ranges: median %.3f, want at most %.2f; least %.3f", s.Name(), maxRanges, median, want[s.Name()][i], ratios[0])
			}
		}
	}
}

// Covers use each other's memory, also at the same time, and do not see it: they are
// those that were computed one after another, and stay so while others are computed.
func TestCoverConcurrently(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	type job struct {
		scheme    Scheme
		ring      geo.Ring
		maxRanges int
		want      []Range
	}
	var jobs []job
	for range 200 {
		for _, s := range schemes {
			j := job{scheme: s, ring: geo.Ring{Center: randomPlace(r), Outer: math.Pow(10, 7.2*r.Float64())}, maxRanges: 1 + r.IntN(64)}
			if r.IntN(20) == 0 {
				j.maxRanges = 3000 // memory that is not kept
			}
			j.want = Cover(j.scheme, j.ring, j.maxRanges)
			jobs = append(jobs, j)
		}
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			got := make([][]Range, len(jobs))
			for i := range jobs {
				j := jobs[(i+worker*len(jobs)/4)%len(jobs)]
				got[i] = Cover(j.scheme, j.ring, j.maxRanges)
			}
			for i := range jobs {
				if j := jobs[(i+worker*len(jobs)/4)%len(jobs)]; !slices.Equal(got[i], j.want) {
					t.Errorf("%s, ring %v, %d ranges: %v, want %v", j.scheme.Name(), j.ring, j.maxRanges, got[i], j.want)
				}
			}
		})
	}
	wg.Wait()
}

// Of too many ranges the smallest gaps are filled, and no more than it takes.
func TestRangesFillsTheSmallestGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, total, gaps := coverer{}, int64(0), []int64{}
		for range rapid.IntRange(1, 40).Draw(t, "cells") {
			gap := rapid.Int64Range(0, 5).Draw(t, "gap")
			c.add(node{lo: total + gap, hi: total + gap + 9})
			total += gap + 10
			gaps = append(gaps, gap)
		}
		gaps = slices.DeleteFunc(gaps[1:], func(gap int64) bool { return gap == 0 })
		slices.Sort(gaps)
		most := rapid.IntRange(1, 45).Draw(t, "most")
		want := min(most, len(gaps)+1)
		got := c.ranges(most)
		if len(got) != want {
			t.Fatalf("%d ranges, want %d", len(got), want)
		}
		size := int64(0)
		for _, r := range got {
			size += r.Hi - r.Lo + 1
		}
		wantSize := int64(10 * len(c.cells))
		for _, gap := range gaps[:len(gaps)+1-want] {
			wantSize += gap
		}
		if size != wantSize {
			t.Fatalf("%v holds %d numbers, want %d", got, size, wantSize)
		}
	})
}

func FuzzCover(f *testing.F) {
	// go test -run '^$' -fuzz '^FuzzCover$' -fuzztime 30s ./geo/cell
	f.Add(37.5665, 126.978, 0.0, 500.0, 37.57, 126.98, 24)
	f.Add(90.0, 180.0, 0.0, 1e4, 89.95, -77.0, 8)
	f.Add(0.0, 180.0, 100.0, 2e4, 0.1, -179.95, 16)
	f.Add(64.7, 10.53, 0.0, 1e6, 60.0, 12.0, 3)
	f.Fuzz(func(t *testing.T, lat, lng, inner, outer, pLat, pLng float64, maxRanges int) {
		center, err1 := geo.NewLatLng(lat, lng)
		p, err2 := geo.NewLatLng(pLat, pLng)
		if err1 != nil || err2 != nil || maxRanges > 500 {
			return
		}
		d := center.Distance(p)
		for _, s := range schemes {
			checkCover(t, s, geo.Ring{Center: center, Inner: inner, Outer: outer}, maxRanges, p, center)
			checkCover(t, s, geo.Ring{Center: center, Inner: min(inner, d), Outer: d}, maxRanges, p)
		}
	})
}

func ExampleCover() {
	station := geo.LatLng{Lat: 37.5547, Lng: 126.9707}
	job := geo.LatLng{Lat: 37.5565, Lng: 126.9735}
	n := S2.Index(job) // as it is stored

	cover := Cover(S2, geo.Ring{Center: station, Outer: 500}, 16)
	for _, r := range cover {
		if r.Lo <= n && n <= r.Hi {
			fmt.Printf("found %.0f m away", station.Distance(job))
		}
	}
	// Output: found 318 m away
}

func ExampleScheme() {
	p := geo.LatLng{Lat: 57.64911, Lng: 10.40744}
	for _, s := range []Scheme{Geohash, H3, S2} {
		fmt.Println(s.Name(), s.Index(p))
	}
	// Output:
	// geohash 942017408693661224
	// h3 644562624643082529
	// s2 2533174258840272694
}
