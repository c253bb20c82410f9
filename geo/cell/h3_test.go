package cell

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/golang/geo/s2"
	"github.com/uber/h3-go/v4"

	"github.com/nearjob/nearjob/geo"
)

// h3Rank is the place of a finest cell among all, counting the seventh of a
// pentagon's children, which does not exist.
func h3Rank(n int64) float64 {
	rank := float64(n >> 45 & 127)
	for shift := 42; shift >= 0; shift -= 3 {
		rank = rank*7 + float64(min(n>>shift&7, 6))
	}
	return rank
}

// h3LeafArea is the area in square metres of the finest cells around a point.
func h3LeafArea(p geo.LatLng) float64 {
	return h3.CellAreaM2(h3.LatLngToCell(h3.LatLng{Lat: p.Lat, Lng: p.Lng}, 10)) / math.Pow(7, 5)
}

// h3Walk calls visit for all cells to a level.
func h3Walk(level int, visit func(c Cell)) {
	cells := H3.Roots()
	for {
		for _, c := range cells {
			visit(c)
		}
		if level--; level < 0 {
			return
		}
		var next []Cell
		for _, c := range cells {
			next = H3.Children(c, next)
		}
		cells = next
	}
}

// h3Random returns a random cell of a level, in one case of three near an
// extreme place.
func h3Random(r *rand.Rand, level int) Cell {
	p := randomPlace(r)
	return Cell(h3.LatLngToCell(h3.LatLng{Lat: p.Lat, Lng: p.Lng}, level))
}

func TestH3CellsAreTheLibrarys(t *testing.T) {
	check := func(c Cell) {
		lib := h3.Cell(c)
		if h3Pentagon(c) != lib.IsPentagon() || h3Level(c) != lib.Resolution() {
			t.Fatalf("%x: pentagon %v, level %d, want %v, %d", c, h3Pentagon(c), h3Level(c), lib.IsPentagon(), lib.Resolution())
		}
		if h3Level(c) == h3Finest {
			if kids := H3.Children(c, nil); len(kids) > 0 {
				t.Fatalf("%x of the finest level has children %x", c, kids)
			}
			return
		}
		var want []Cell
		for _, kid := range lib.ImmediateChildren() {
			want = append(want, Cell(kid))
		}
		slices.Sort(want)
		if kids := H3.Children(c, nil); !slices.Equal(kids, want) {
			t.Fatalf("children of %x: %x, want %x", c, kids, want)
		}
		// The range is from the first descendant to beyond the last one.
		lo, hi := H3.Range(c)
		first, last := lib, lib
		for first.Resolution() < h3Finest {
			first, last = slices.Min(first.ImmediateChildren()), slices.Max(last.ImmediateChildren())
		}
		if lo != int64(first) || hi < int64(last) {
			t.Fatalf("range of %x: %x..%x, want %x..%x or more", c, lo, hi, int64(first), int64(last))
		}
		// It is made up of the children's.
		for _, kid := range want {
			klo, khi := H3.Range(kid)
			if klo != lo {
				t.Fatalf("range of %x: %x..%x, want it from %x", kid, klo, khi, lo)
			}
			lo = khi + 1
		}
		if lo != hi+1 {
			t.Fatalf("range of %x, the last child of %x: to %x, want %x", want[len(want)-1], c, lo-1, hi)
		}
	}
	n := 0
	h3Walk(2, func(c Cell) { n++; check(c) })
	if n != 122+842+5882 {
		t.Errorf("%d cells", n)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for level := 3; level <= h3Finest; level++ {
		for _, c := range h3.Pentagons(level) {
			check(Cell(c))
		}
		for range 50 {
			check(h3Random(r, level))
		}
	}
}

// Every valid finest descendant of a cell is in its range, and what is valid in
// the range is a descendant.
func TestH3RangeHoldsTheDescendants(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	valid := 0
	for level := range h3Finest {
		cells := []Cell{}
		for _, c := range h3.Pentagons(level) {
			cells = append(cells, Cell(c))
		}
		for range 30 {
			cells = append(cells, h3Random(r, level))
		}
		for _, c := range cells {
			lo, hi := H3.Range(c)
			for range 20 {
				kid := h3.Cell(c)
				for kid.Resolution() < h3Finest {
					kids := kid.ImmediateChildren()
					kid = kids[r.IntN(len(kids))]
				}
				if int64(kid) < lo || int64(kid) > hi || !kid.IsValid() {
					t.Fatalf("%x under %x is not in %x..%x", int64(kid), c, lo, hi)
				}
				for _, at := range []int64{lo + r.Int64N(hi-lo+1), hi - r.Int64N(min(hi-lo+1, 1<<(3*r.IntN(h3Finest-level)+1)))} {
					if n := h3.Cell(at); n.IsValid() {
						valid++
						if n.Parent(level) != h3.Cell(c) {
							t.Fatalf("%x is in the range of %x but not under it", at, c)
						}
					}
				}
			}
		}
	}
	if valid < 1000 {
		t.Errorf("only %d valid numbers were drawn", valid)
	}
}

func h3Center(c Cell) geo.LatLng {
	ll := h3.Cell(c).LatLng()
	return geo.LatLng{Lat: ll.Lat, Lng: ll.Lng}
}

// The centres are the library's: of all cells to level 4, then of random ones and
// those around the pentagons and the corners and edges of the icosahedron's faces.
// The library's own are off by up to 0.3 m next to a pole, where its arc sine
// loses half the digits.
func TestH3Centers(t *testing.T) {
	grid := h3Centers()
	worst, n := 0.0, 0
	check := func(c Cell) {
		n++
		d := arc(grid.center(c).Sub(h3Vector(h3.Cell(c))).Norm() / 2)
		allowed := 1e-6
		if lat := math.Abs(h3.Cell(c).LatLng().Lat); lat > 89.9 {
			allowed = 0.3
		} else {
			worst = max(worst, d)
		}
		if !(d <= allowed) {
			t.Fatalf("level %d: centre of %x is %v m off", h3Level(c), c, d)
		}
	}
	level := 4
	if testing.Short() {
		level = 3
	}
	h3Walk(level, check)
	r := rand.New(rand.NewPCG(23, 24))
	for level := 4; level <= h3Finest; level++ {
		for range 3000 {
			check(h3Random(r, level))
		}
		for _, p := range extremes() {
			for _, near := range h3.LatLngToCell(h3.LatLng{Lat: p.Lat, Lng: p.Lng}, level).GridDisk(3) {
				check(Cell(near))
			}
		}
	}
	t.Logf("%d centres: at most %.2g m off", n, worst)
}

// The roots are the library's.
func TestH3Roots(t *testing.T) {
	for i, c := range h3.Res0Cells() {
		if roots := H3.Roots(); len(roots) != 122 || roots[i] != Cell(c) {
			t.Fatalf("root %d of %d: %x, want %x", i, len(roots), roots[i], c)
		}
	}
}

// What h3Radius is derived from: a child's centre is at most one spacing of its
// level from its parent's. All cells to level 4, then random ones and those
// around the pentagons.
func TestH3ChildIsOneSpacingAway(t *testing.T) {
	worst, n := 0.0, 0
	check := func(c Cell) {
		center := geo.NewOrigin(h3Center(c))
		spacing := geo.EarthRadius * h3Unit * math.Pow(7, -float64(h3Level(c)+1)/2)
		for _, kid := range H3.Children(c, nil) {
			n++
			ratio := (center.Distance(h3Center(kid)) - margin(0)) / spacing
			worst = max(worst, ratio)
			if ratio > 1 {
				t.Fatalf("%x is %.6f spacings from its parent %x", kid, ratio, c)
			}
		}
	}
	level := 3
	if testing.Short() {
		level = 2
	}
	h3Walk(level, check)
	r := rand.New(rand.NewPCG(11, 12))
	for level := 4; level < h3Finest; level++ {
		for range 500 {
			check(h3Random(r, level))
		}
		for _, c := range h3.Pentagons(level) {
			for _, near := range c.GridDisk(2) {
				check(Cell(near))
			}
		}
	}
	t.Logf("%d children: at most %.6f spacings", n, worst)
}

// h3Far returns, of the points filed under a cell, the distance of one far from the
// centre: going down it keeps the few cells farthest away, and takes the vertices of
// the last.
func h3Far(c Cell, keep int) float64 {
	grid := h3Centers()
	center := grid.center(c)
	type node struct {
		cell Cell
		d    float64
	}
	front := []node{{c, 0}}
	for h3Level(front[0].cell) < h3Finest {
		var next []node
		for _, n := range front {
			for _, kid := range H3.Children(n.cell, nil) {
				next = append(next, node{kid, arc(center.Sub(grid.center(kid)).Norm() / 2)})
			}
		}
		slices.SortFunc(next, func(a, b node) int { return cmp.Compare(b.d, a.d) })
		front = next[:min(keep, len(next))]
	}
	far := 0.0
	for _, n := range front {
		for _, v := range h3.Cell(n.cell).Boundary() {
			p := s2.PointFromLatLng(s2.LatLngFromDegrees(v.Lat, v.Lng))
			far = max(far, arc(center.Sub(p.Vector).Norm()/2))
		}
	}
	return far
}

// h3Radius is never exceeded, and not much too large: every cell of levels 0 to 2,
// then random ones and the pentagons.
func TestH3Radius(t *testing.T) {
	var worst [h3Finest + 1]float64
	var cells [h3Finest + 1]int
	check := func(c Cell, keep int) {
		level := h3Level(c)
		far := h3Far(c, keep)
		cells[level]++
		worst[level] = max(worst[level], far/h3Radius(level))
		if far-margin(0) > h3Radius(level) {
			t.Fatalf("level %d: %x has points at %v m, %.6f of the radius", level, c, far, far/h3Radius(level))
		}
	}
	deepest := 2
	if testing.Short() {
		deepest = 1
	}
	h3Walk(deepest, func(c Cell) { check(c, 3) })
	r := rand.New(rand.NewPCG(13, 14))
	for level := deepest + 1; level <= h3Finest; level++ {
		for range 300 {
			check(h3Random(r, level), 3)
		}
		for _, c := range h3.Pentagons(level) {
			check(Cell(c), 3)
		}
	}
	for level, ratio := range worst {
		t.Logf("level %2d, %d cells: farthest point at %.5f of the radius", level, cells[level], ratio)
		if ratio < 0.9 {
			t.Errorf("level %d: the radius is too large or the search for far points too weak", level)
		}
	}
}

// Points that hug the corners and edges of cells, as the library files them, are
// within the radius of all cells above. So are those around the middle of a face, where the
// library's arc cosine is off by centimetres.
func TestH3RadiusOfFiledPoints(t *testing.T) {
	grid := h3Centers()
	r := rand.New(rand.NewPCG(29, 30))
	worst := 0.0
	check := func(p geo.LatLng) {
		v := s2.PointFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)).Vector
		walk(t, H3, p, func(c Cell) {
			d := arc(v.Sub(grid.center(c)).Norm() / 2)
			worst = max(worst, d/h3Radius(h3Level(c)))
			if d > h3Radius(h3Level(c))+margin(0)/10 {
				t.Fatalf("%v is %v m from the centre of %x, more than %v", p, d, c, h3Radius(h3Level(c)))
			}
		})
	}
	for range 2000 {
		c := h3.Cell(h3Random(r, r.IntN(h3Finest+1)))
		b := c.Boundary()
		k := r.IntN(len(b))
		at, next := b[k], b[(k+1)%len(b)]
		if r.IntN(2) == 0 && math.Abs(at.Lng-next.Lng) < 180 {
			at.Lat, at.Lng = (at.Lat+next.Lat)/2, (at.Lng+next.Lng)/2
		}
		check(destination(geo.LatLng{Lat: at.Lat, Lng: at.Lng}, math.Pow(10, -9+9*r.Float64()), 6.3*r.Float64()))
	}
	for _, p := range extremes() {
		for range 30 {
			check(destination(p, math.Pow(10, -9+10*r.Float64()), 6.3*r.Float64()))
		}
	}
	t.Logf("at most %.5f of the radius", worst)
}
