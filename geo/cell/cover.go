package cell

import (
	"cmp"
	"slices"

	"github.com/nearjob/nearjob/geo"
)

// fineness is how small, in parts of the ring's outer radius or of its width, the
// distances of a cell vary when dividing it brings nothing more.
const fineness = 24

// node is a cell on the way down.
type node struct {
	cell        Cell
	least, most float64 // bounds of distance, metres
}

// Cover returns ranges that hold the number of every point in a ring, sorted by
// number, disjoint and not adjacent. There are at most maxRanges, except that 1
// to 4 levels down from the roots a few more may be needed than a small maxRanges
// allows; more ranges are a tighter cover. A ring that holds nothing has no ranges.
//
// A point is in the ring if geo computes a distance of Inner..Outer for it.
func Cover(s Scheme, ring geo.Ring, maxRanges int) []Range {
	if !(ring.Inner <= ring.Outer) || ring.Outer < 0 {
		return nil
	}
	c := coverer{scheme: s, ring: ring, bounds: s.Bounder(ring)}
	for _, root := range s.Roots() {
		c.keep(root)
	}
	fine := ring.Outer / fineness
	if w := ring.Outer - ring.Inner; ring.Inner > 0 && w < ring.Outer/2 {
		fine = max(w/2, ring.Outer/512)
	}
	ranges := c.ranges()
	for len(c.across) > 0 {
		// One level down, all cells that are across the edge.
		whole, across := len(c.whole), c.across
		c.across = c.spare[:0]
		divided := false
		for _, n := range across {
			if n.most-n.least <= fine {
				c.across = append(c.across, n)
				continue
			}
			c.kids = s.Children(n.cell, c.kids[:0])
			if len(c.kids) == 0 {
				c.across = append(c.across, n)
				continue
			}
			divided = true
			for _, kid := range c.kids {
				c.keep(kid)
			}
		}
		if !divided {
			break
		}
		next := c.ranges()
		if len(next) > maxRanges && len(next) > len(ranges) {
			c.whole, c.across = c.whole[:whole], across
			break
		}
		ranges, c.spare = next, across
	}
	return ranges
}

// coverer is the state of a Cover.
type coverer struct {
	scheme Scheme
	ring   geo.Ring
	bounds func(Cell) (least, most float64)

	whole  []node // inside the ring: not divided further
	across []node
	kids   []Cell
	spare  []node // across of the level before, to be used again
}

// keep files a cell by where it lies, and drops one outside the ring.
func (c *coverer) keep(cell Cell) {
	least, most := c.bounds(cell)
	switch {
	case least > c.ring.Outer || most < c.ring.Inner:
	case least >= c.ring.Inner && most <= c.ring.Outer:
		c.whole = append(c.whole, node{cell, least, most})
	default:
		c.across = append(c.across, node{cell, least, most})
	}
}

// ranges returns the merged ranges of all cells kept.
func (c *coverer) ranges() []Range {
	all := make([]Range, 0, len(c.whole)+len(c.across))
	for _, nodes := range [2][]node{c.whole, c.across} {
		for _, n := range nodes {
			lo, hi := c.scheme.Range(n.cell)
			all = append(all, Range{lo, hi, n.least})
		}
	}
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && merged[n-1].Hi+1 == r.Lo {
			merged[n-1].Hi = r.Hi
			merged[n-1].MinDist = min(merged[n-1].MinDist, r.MinDist)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}
