package cell

import (
	"math"
	"slices"
	"sync"

	"github.com/nearjob/nearjob/geo"
)

// fineness is how small, in parts of the ring's outer radius or of its width, the
// distances of a cell vary when dividing it brings nothing more.
const fineness = 24

// leastRanges is how many ranges a cover is worked out with, at least: a ring much
// smaller than the cells of a level can touch the corner of four.
const leastRanges = 4

// room is how many cells a cover has memory for at first, and tooMuch from how many
// on the memory is not kept for the next cover.
const (
	room    = 256
	tooMuch = 4096
)

// coverers keeps the memory of covers for the next ones: nothing in it is part of a result.
var coverers = sync.Pool{New: func() any {
	return &coverer{cells: make([]node, 0, room), spare: make([]node, 0, room), kids: make([]Cell, 0, 7)}
}}

// Cover returns ranges that hold the number of every point in a ring, sorted by
// number, disjoint and not adjacent. There are at most maxRanges, or 1; more
// ranges are a tighter cover. A ring that holds nothing has no ranges.
//
// A point is in the ring if geo computes a distance of Inner..Outer for it.
func Cover(s Scheme, ring geo.Ring, maxRanges int) []Range {
	ring.Outer = min(ring.Outer, geo.MaxDistance)
	if !(ring.Inner <= ring.Outer) || ring.Outer < 0 {
		return nil
	}
	maxRanges = max(maxRanges, 1)
	c := coverers.Get().(*coverer)
	defer c.release()
	c.scheme, c.ring, c.bounds = s, ring, s.Bounder(ring)
	c.reset()
	for _, root := range s.Roots() {
		c.keep(root)
	}
	fine := ring.Outer / fineness
	if w := ring.Outer - ring.Inner; ring.Inner > 0 && w < ring.Outer/2 {
		fine = max(w/2, ring.Outer/512)
	}
	// One more level doubles the ranges, or more with H3. From three quarters on it
	// takes more time than it saves in area.
	enough := max(maxRanges*3/4, leastRanges)
	for divided := true; divided && c.runs <= enough; {
		// One level down, all cells that are across the edge.
		divided = false
		cells := c.cells
		c.reset()
		for _, n := range cells {
			c.kids = c.kids[:0]
			if n.spread > fine {
				c.kids = s.Children(n.cell, c.kids)
			}
			if len(c.kids) == 0 {
				c.add(n)
				continue
			}
			divided = true
			for _, kid := range c.kids {
				c.keep(kid)
			}
		}
	}
	return c.ranges(maxRanges)
}

// coverer is the state of a Cover.
type coverer struct {
	scheme Scheme
	ring   geo.Ring
	bounds func(Cell) (least, most float64)

	cells []node // sorted
	spare []node // cells of the level before, to be used again
	kids  []Cell
	runs  int   // ranges that the cells make
	end   int64 // highest number in cells
}

// node is a cell that can hold a point of the ring.
type node struct {
	cell   Cell
	lo, hi int64
	least  float64 // lower bound of distance, metres
	spread float64 // how much the distances vary, metres; 0 inside the ring
}

func (c *coverer) release() {
	c.scheme, c.bounds = nil, nil
	if cap(c.cells)+cap(c.spare) <= tooMuch {
		coverers.Put(c)
	}
}

func (c *coverer) reset() {
	c.cells, c.spare = c.spare[:0], c.cells
	c.runs, c.end = 0, math.MinInt64
}

// keep adds a cell unless it is outside the ring.
func (c *coverer) keep(cell Cell) {
	least, most := c.bounds(cell)
	if least > c.ring.Outer || most < c.ring.Inner {
		return
	}
	n := node{cell: cell, least: least, spread: most - least}
	if least >= c.ring.Inner && most <= c.ring.Outer {
		n.spread = 0
	}
	n.lo, n.hi = c.scheme.Range(cell)
	c.add(n)
}

func (c *coverer) add(n node) {
	if n.lo != c.end+1 {
		c.runs++
	}
	c.end = n.hi
	c.cells = append(c.cells, n)
}

// ranges returns the ranges that the cells make. If there are too many it fills
// the smallest gaps between them.
func (c *coverer) ranges(most int) []Range {
	ranges := make([]Range, 0, c.runs)
	for _, n := range c.cells {
		ranges = join(ranges, Range{n.lo, n.hi, n.least}, 0)
	}
	fill := len(ranges) - most
	if fill <= 0 {
		return ranges
	}
	gaps := make([]int64, len(ranges)-1)
	for i := range gaps {
		gaps[i] = ranges[i+1].Lo - ranges[i].Hi - 1
	}
	slices.Sort(gaps)
	widest := gaps[fill-1]
	smaller, _ := slices.BinarySearch(gaps, widest)
	equal := fill - smaller // gaps as wide as the widest that are to be filled
	filled := ranges[:0]
	for i, r := range ranges {
		upTo := widest
		if i > 0 && r.Lo-filled[len(filled)-1].Hi-1 == widest {
			if equal--; equal < 0 {
				upTo--
			}
		}
		filled = join(filled, r, upTo)
	}
	return filled
}

// join appends r, or lets the last range reach to its end if the gap between
// them is not wider than some numbers.
func join(ranges []Range, r Range, upTo int64) []Range {
	if n := len(ranges); n > 0 && r.Lo-ranges[n-1].Hi-1 <= upTo {
		last := &ranges[n-1]
		last.Hi, last.MinDist = r.Hi, min(last.MinDist, r.MinDist)
		return ranges
	}
	return append(ranges, r)
}
