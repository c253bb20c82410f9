package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// cells reads outward from the centre, in rounds, ranges of cell numbers.
//
// The first page begins with a look at the rows next to the centre on the cell
// curve: from how much ground they take it guesses how far the page reaches. A
// later page knows the density from the pages before. Then it reads the cells
// that touch a circle of that radius. With K hits within it, the page is decided;
// with fewer, the next circle goes to the K-th hit known so far, which is a proven
// bound, or, while there are fewer than K, is a bigger guess. No row is read
// twice: what earlier rounds have read is taken out of the ranges.
type cells struct {
	about  string
	index  store.Index
	scheme cell.Scheme
	area   func(lo, hi int64, near geo.LatLng) float64 // square metres, roughly
}

func geohash() Strategy {
	return cells{"Reads ranges of an integer geohash outward from the centre and computes distances in process. Works on any database that has a B-tree, and its cells are known by their text form; cells get narrow towards the poles.", store.IndexGeohash, cell.Geohash, geohashArea}
}

func h3() Strategy {
	return cells{"Reads ranges of H3 cells outward from the centre and computes distances in process. Good where H3 is in use already; its cells do not nest exactly, which costs a few more candidates.", store.IndexH3, cell.H3, h3Area}
}

func s2() Strategy {
	return cells{"Reads ranges of S2 cells outward from the centre and computes distances in process. Reads a few rows for each job returned whatever the radius, from the clustered key; the default.", store.IndexS2, cell.S2, s2Area}
}

func (s cells) Name() string  { return s.scheme.Name() }
func (s cells) About() string { return s.about }

// Tuning. The figures come from the test of candidates for each job returned in
// store/storetest; none of them can change an answer.
const (
	maxRanges    = 24  // of one cover: more ranges are a tighter cover and a longer statement
	windowRanges = 4   // of the cover that bounds the first look, which need not be tight
	surplus      = 1.3 // how many hits a circle is planned to hold for each hit wanted
	minWindow    = 8   // rows to each side in the first look
	maxGrowth    = 8.0 // of the radius from one round to the next while hits are few
	minReach     = 1.0 // metres that a round looks farther than the one before
)

func (s cells) Search(ctx context.Context, t *Task) error {
	if t.Sort != store.ByDistance {
		return s.read(ctx, t, &intervals{}, t.Ring)
	}
	var done intervals
	reach, err := s.firstReach(ctx, t, &done)
	if err != nil {
		return err
	}
	ring := t.Ring
	for {
		ring.Outer = min(reach, t.Worst(), t.Ring.Outer)
		if err := s.read(ctx, t, &done, ring); err != nil {
			return err
		}
		if t.Worst() <= ring.Outer || ring.Outer >= t.Ring.Outer {
			return nil
		}
		reach = nextReach(t, ring)
		// Cells that lie inside this circle are read for good.
		ring.Inner = ring.Outer
	}
}

// read reads the cells of a ring, less what was read before, in one round.
func (s cells) read(ctx context.Context, t *Task, done *intervals, ring geo.Ring) error {
	cover := cell.Cover(s.scheme, ring, maxRanges)
	want := make([]store.Interval, 0, len(cover))
	for _, r := range cover {
		want = append(want, store.Interval{Lo: r.Lo, Hi: r.Hi})
	}
	want = done.subtractFrom(want)
	if len(want) == 0 {
		return nil
	}
	t.Round()
	if _, err := t.Read(ctx, store.Access{Index: s.index, Ranges: want}, nil); err != nil {
		return err
	}
	done.add(want...)
	return nil
}

// firstReach guesses how far the page reaches, in metres.
func (s cells) firstReach(ctx context.Context, t *Task, done *intervals) (float64, error) {
	if seen := discArea(t.Ring.Inner) - discArea(t.refine.inner); t.Seen > 0 && seen > 0 {
		return reachFor(t, float64(t.Seen)/seen), nil
	}
	w := store.Window{Lo: 0, At: s.scheme.Index(t.Ring.Center), Hi: math.MaxInt64, Each: max(minWindow, t.K/4)}
	// Rows beyond the circle would tell the density but can never be hits.
	for _, r := range cell.Cover(s.scheme, geo.Ring{Center: t.Ring.Center, Outer: t.Ring.Outer}, windowRanges) {
		if r.Lo <= w.At && w.At <= r.Hi {
			w.Lo, w.Hi = r.Lo, r.Hi
		}
	}
	var below, above []int64 // cell numbers, going away from the centre
	hits := 0
	t.Round()
	n, err := t.Read(ctx, store.Access{Index: s.index, Window: &w}, func(c *store.Candidate, _ float64) {
		if c.Number < w.At {
			below = append(below, c.Number)
		} else {
			above = append(above, c.Number)
		}
		if t.Match.Accepts(c) {
			hits++
		}
	})
	if err != nil {
		return 0, err
	}
	// A side that is not full was read to its end; of a full one, the last number
	// may have more rows.
	read := store.Interval{Lo: w.Lo, Hi: w.Hi}
	if len(below) >= w.Each {
		read.Lo = below[len(below)-1] + 1
	}
	if len(above) >= w.Each {
		read.Hi = above[len(above)-1] - 1
	}
	if read.Lo == 0 && read.Hi == math.MaxInt64 {
		done.add(read)
		return t.Ring.Outer, nil // these were all jobs
	}
	area := math.Max(1, s.area(read.Lo, max(read.Lo, read.Hi), t.Ring.Center))
	if read.Lo <= read.Hi {
		done.add(read)
	}
	if n == 0 {
		return t.Ring.Inner + firstReach, nil
	}
	// Of few rows even fewer may match: never guess that none does.
	share := (float64(hits) + 0.5) / (float64(n) + 0.5)
	return reachFor(t, share*float64(n)/area), nil
}

// reachFor returns the radius in metres of a circle that holds K hits beyond the
// ring's inner edge, and some more, at a density in hits per square metre.
func reachFor(t *Task, density float64) float64 {
	wanted := surplus * float64(t.K)
	return max(discRadius(discArea(t.Ring.Inner)+wanted/density), t.Ring.Inner+minReach)
}

// nextReach guesses again after a round that read a ring and found too few hits.
func nextReach(t *Task, ring geo.Ring) float64 {
	most := t.Ring.Inner + maxGrowth*max(ring.Outer-t.Ring.Inner, minReach)
	if t.Kept() == 0 {
		return most
	}
	density := float64(t.Kept()) / max(1, discArea(ring.Outer)-discArea(t.Ring.Inner))
	return min(most, max(reachFor(t, density), ring.Outer+(ring.Outer-t.Ring.Inner)/4, ring.Outer+minReach))
}

// discArea is the area in square metres of the circle with a radius in metres on
// the sphere: 4 pi R^2 sin^2(r/2R).
func discArea(radius float64) float64 {
	s := math.Sin(min(radius, geo.MaxDistance) / (2 * geo.EarthRadius))
	return sphereArea * s * s
}

// discRadius is the reverse of discArea; more than the sphere has is everything.
func discRadius(area float64) float64 {
	return 2 * geo.EarthRadius * math.Asin(math.Sqrt(min(1, area/sphereArea)))
}

const sphereArea = 4 * math.Pi * geo.EarthRadius * geo.EarthRadius

// s2Area spreads the sphere evenly over the numbers: S2 cells of a level differ
// by up to 2.1 times in area.
func s2Area(lo, hi int64, _ geo.LatLng) float64 {
	const numbers = 6 * (1 << 60) // six faces of 4^30 leaf cells
	return sphereArea / numbers * (float64(hi-lo) + 1)
}

// geohashArea takes every cell to be as large as one at the latitude near.
func geohashArea(lo, hi int64, near geo.LatLng) float64 {
	const step = math.Pi / (1 << 30) * geo.EarthRadius // a finest cell's height in metres, half its width at the equator
	return 2 * step * step * math.Max(1e-6, math.Cos(near.Lat*math.Pi/180)) * (float64(hi-lo) + 1)
}

// h3Area counts the cells between two numbers, which are not consecutive: a digit
// goes from 0 to 6 and takes three bits.
func h3Area(lo, hi int64, _ geo.LatLng) float64 {
	const cellsOfFinest = 122 * 4747561509943 // 122 base cells of 7^15, pentagons a little less
	return sphereArea / cellsOfFinest * (h3Rank(hi) - h3Rank(lo) + 1)
}

func h3Rank(n int64) float64 {
	rank := float64(n >> 45 & 127)
	for shift := 42; shift >= 0; shift -= 3 {
		rank = rank*7 + float64(min(n>>shift&7, 6))
	}
	return rank
}

// intervals is a set of cell numbers that were read: sorted, disjoint.
type intervals []store.Interval

// add puts intervals that are disjoint from the set and each other into it.
func (s *intervals) add(more ...store.Interval) {
	all := append(*s, more...)
	slices.SortFunc(all, func(a, b store.Interval) int { return cmp.Compare(a.Lo, b.Lo) })
	merged := all[:0]
	for _, v := range all {
		if n := len(merged); n > 0 && merged[n-1].Hi+1 == v.Lo {
			merged[n-1].Hi = v.Hi
			continue
		}
		merged = append(merged, v)
	}
	*s = merged
}

// subtractFrom returns what of some sorted, disjoint intervals is not in the set.
func (s intervals) subtractFrom(from []store.Interval) []store.Interval {
	if len(s) == 0 {
		return from
	}
	var left []store.Interval
	i := 0
	for _, v := range from {
		for i < len(s) && s[i].Hi < v.Lo {
			i++
		}
		for j := i; j < len(s) && s[j].Lo <= v.Hi; j++ {
			if v.Lo < s[j].Lo {
				left = append(left, store.Interval{Lo: v.Lo, Hi: s[j].Lo - 1})
			}
			if s[j].Hi >= v.Hi {
				v.Lo, v.Hi = 1, 0 // nothing is left of it
				break
			}
			v.Lo = s[j].Hi + 1
		}
		if v.Lo <= v.Hi {
			left = append(left, v)
		}
	}
	return left
}
