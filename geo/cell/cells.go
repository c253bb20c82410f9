package cell

import (
	"cmp"
	"math"
	"slices"

	"github.com/nearjob/nearjob/geo"
)

// Cells returns a cover of a ring by single cells, where [Cover] makes ranges of
// neighbours: each range is that of one cell. They hold the number of every point
// in the ring, are disjoint, and sorted by number. A ring that holds nothing has no
// cells.
//
// The cells are of the levels coarsest to finest; [Scheme.Roots] are of level 0, and
// a grid that ends before finest ends there. There are at most so many cells, or
// as many of the coarsest level as touch the ring, if those are more: the largest
// cells that are across the ring's edge are divided, and what brings the least is
// undone.
//
// An area that is stored under its cells is found from a point by equality: see
// [Holders].
func Cells(s Scheme, ring geo.Ring, coarsest, finest, most int) []Range {
	ring.Outer = min(ring.Outer, geo.MaxDistance)
	if !(ring.Inner <= ring.Outer) || ring.Outer < 0 {
		return nil
	}
	c := divider{scheme: s, ring: ring, bounds: s.Bounder(ring)}
	for _, root := range s.Roots() {
		c.keep(root, -1, 0)
	}
	for i := 0; i < len(c.parts); i++ {
		if p := &c.parts[i]; p.level < coarsest {
			c.divide(i, math.MaxInt)
		}
	}
	for {
		next := -1
		for i := range c.parts {
			p := &c.parts[i]
			if p.state == open && p.spread > 0 && p.level < finest && (next < 0 || c.parts[next].before(p)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		c.divide(next, ahead*max(1, min(most, math.MaxInt/ahead)))
	}
	c.collapse(coarsest, most)
	var cells []Range
	for _, p := range c.parts {
		if p.state == open || p.state == final {
			cells = append(cells, Range{p.lo, p.hi, p.least})
		}
	}
	slices.SortFunc(cells, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	return cells
}

// Holders returns the cells of the levels coarsest to finest that a number is in, the
// coarsest first: those under which an area that holds the point can be stored.
func Holders(s Scheme, number int64, coarsest, finest int) []Range {
	holders := make([]Range, 0, max(0, finest-coarsest+1))
	cells := s.Roots()
	for level := 0; level <= finest; level++ {
		i := slices.IndexFunc(cells, func(c Cell) bool {
			lo, hi := s.Range(c)
			return lo <= number && number <= hi
		})
		if i < 0 {
			break // a leaf was passed, or it is nobody's number
		}
		if level >= coarsest {
			lo, hi := s.Range(cells[i])
			holders = append(holders, Range{Lo: lo, Hi: hi})
		}
		cells = s.Children(cells[i], nil)
	}
	return holders
}

// partState is what became of a part.
type partState uint8

const (
	open    partState = iota
	final             // dividing it takes too many cells, or it cannot be divided
	divided           // its children stand for it
	gone              // a cell above it stands for it
)

// ahead is how many times as many cells are made as are kept. To divide only up to
// what is kept takes four cells for one without a gain, and has none left where they
// would help: in 12 cells of S2, half of the covers hold 1.84 times the circle or more, with twice
// as many cells made 1.71, and with 8 times as many, four times as slow, 1.67.
const ahead = 2

// part is a node with its place in the tree of divisions.
type part struct {
	node
	level  int
	parent int // -1: a root
	state  partState
}

// before reports whether another part is to be divided first.
func (p *part) before(q *part) bool {
	return cmp.Or(cmp.Compare(p.hi-p.lo, q.hi-q.lo), cmp.Compare(p.spread, q.spread), cmp.Compare(q.lo, p.lo)) < 0
}

// divider is the state of Cells.
type divider struct {
	scheme Scheme
	ring   geo.Ring
	bounds func(Cell) (least, most float64)
	parts  []part // parents before their children
	live   int    // that are not divided
}

// keep adds a cell unless it is outside the ring.
func (c *divider) keep(cell Cell, parent, level int) {
	least, most := c.bounds(cell)
	if least > c.ring.Outer || most < c.ring.Inner {
		return
	}
	p := part{node: node{cell: cell, least: least, spread: most - least}, level: level, parent: parent}
	if least >= c.ring.Inner && most <= c.ring.Outer {
		p.spread = 0
	}
	p.lo, p.hi = c.scheme.Range(cell)
	c.parts = append(c.parts, p)
	c.live++
}

// divide puts a part's children in its place, if it has any and there are then at
// most so many parts.
func (c *divider) divide(i, most int) {
	kids := c.scheme.Children(c.parts[i].cell, nil)
	if len(kids) == 0 {
		c.parts[i].state = final
		return
	}
	parts, live := len(c.parts), c.live
	c.live--
	for _, kid := range kids {
		c.keep(kid, i, c.parts[i].level+1)
	}
	if c.live > max(most, live) {
		c.parts, c.live = c.parts[:parts], live
		c.parts[i].state = final
		return
	}
	c.parts[i].state = divided
}

// collapse takes parts again in place of all that they were divided into, until
// there are at most so many: the one first that adds the fewest numbers for each part
// that is saved, and those that add none in any case.
func (c *divider) collapse(coarsest, most int) {
	type below struct {
		parts int // undivided ones
		size  float64
	}
	sums := make([]below, len(c.parts))
	for {
		clear(sums)
		best, least := -1, math.Inf(1)
		for i := len(c.parts) - 1; i >= 0; i-- { // children before their parents
			p := &c.parts[i]
			switch size := float64(p.hi-p.lo) + 1; {
			case p.state == gone:
				continue
			case p.state != divided:
				sums[i] = below{1, size}
			case p.level >= coarsest && sums[i].parts > 1:
				if added := (size - sums[i].size) / float64(sums[i].parts-1); added <= least {
					best, least = i, added
				}
			}
			if p.parent >= 0 {
				sums[p.parent].parts += sums[i].parts
				sums[p.parent].size += sums[i].size
			}
		}
		if best < 0 || least > 0 && c.live <= most {
			return
		}
		c.live -= sums[best].parts - 1
		c.parts[best].state = final
		for i := best + 1; i < len(c.parts); i++ {
			if p := c.parts[i].parent; p == best || p >= 0 && c.parts[p].state == gone {
				c.parts[i].state = gone
			}
		}
	}
}

// Grid says how areas are stored so that those around a point are found by equality:
// each under the keys of its cells, and looked up by the keys of the cells that
// the point is in. A key names one cell of the grid. Whoever changes a Grid has to store
// all areas anew.
type Grid struct {
	scheme                  Scheme
	coarsest, finest, cells int
}

// Areas is the grid for areas of 1 m to 100 km around a point: at most 12 S2 cells
// for each, which hold about 1.7 times the circle, of 20 levels, from 600 km to
// a metre wide.
func Areas() Grid { return Grid{scheme: S2, coarsest: 4, finest: 23, cells: 12} }

// Keys returns the keys of a circle's cells, ascending.
func (g Grid) Keys(c geo.Circle) []int64 {
	return keys(Cells(g.scheme, geo.Ring{Center: c.Center, Outer: c.Radius}, g.coarsest, g.finest, g.cells))
}

// KeysAt returns the keys of the cells that a point is in, ascending.
func (g Grid) KeysAt(p geo.LatLng) []int64 {
	return keys(Holders(g.scheme, g.scheme.Index(p), g.coarsest, g.finest))
}

func keys(cells []Range) []int64 {
	keys := make([]int64, len(cells))
	for i, c := range cells {
		keys[i] = c.key()
	}
	slices.Sort(keys)
	return keys
}

// key is the number in the middle of a cell. Where a cell has a power of 4 numbers
// and begins at a multiple of it, as in S2 and geohash, the lowest bit that is set
// in the key tells the size: no two cells but the finest and theirs share one.
func (r Range) key() int64 { return r.Lo + (r.Hi-r.Lo+1)/2 }
