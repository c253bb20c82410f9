package cell

import (
	"math"
	"math/bits"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"

	"github.com/nearjob/nearjob/geo"
)

// S2 divides the six faces of a cube into quarters, 30 levels down to a square
// centimetre. A number is that of a leaf cell without its lowest bit, which is
// always 1, so that numbers are consecutive along a Hilbert curve and fit a signed column.
//
// Points are filed, and cells divided, by the library; where a cell lies, for its bounds, is
// computed here, which is faster.
var S2 Scheme = s2Scheme{}

type s2Scheme struct{}

func (s2Scheme) Name() string { return "s2" }

func (s2Scheme) Index(p geo.LatLng) int64 {
	return int64(s2.CellIDFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)) >> 1)
}

func (s2Scheme) Roots() []Cell {
	roots := make([]Cell, 6)
	for face := range roots {
		roots[face] = Cell(s2.CellIDFromFace(face))
	}
	return roots
}

func (s2Scheme) Children(c Cell, to []Cell) []Cell {
	id := s2.CellID(c)
	if id.IsLeaf() {
		return to
	}
	for _, kid := range id.Children() {
		to = append(to, Cell(kid))
	}
	return to
}

func (s2Scheme) Range(c Cell) (lo, hi int64) {
	id := s2.CellID(c)
	return int64(id.RangeMin() >> 1), int64(id.RangeMax() >> 1)
}

// s2Rect is a cell on the plane of its face, which touches the sphere of radius 1: -1..1
// along both axes.
type s2Rect struct{ u0, u1, v0, v1 float64 }

// disc returns a point inside a cell, as a vector of length 1 along the axes of its
// face, and a bound in radians of the distance from there to any point of the cell.
//
// The point is in the middle of the rectangle, and a corner is half a diagonal away. A
// way on the plane becomes shorter on the sphere by at least the distance of the
// plane's points from the earth's centre, and that is nowhere on the way less than 1
// nor less than the middle's by more than the half diagonal.
func (c *s2Rect) disc() (middle r3.Vector, radius float64) {
	width, height := c.u1-c.u0, c.v1-c.v0
	half := math.Sqrt(width*width+height*height) / 2
	u, v := (c.u0+c.u1)/2, (c.v0+c.v1)/2
	away := math.Sqrt(u*u + v*v + 1)
	return r3.Vector{X: u / away, Y: v / away, Z: 1 / away}, half / max(1, away-half)
}

// away2 returns the square of the straight line from a point, a vector of length 1
// along the axes of the face, to the nearest point of the cell. It is the method of
// s2.Cell.Distance, which takes longer because it needs a whole s2.Cell. For a point
// at a right angle to an edge it can be NaN.
func (c *s2Rect) away2(p r3.Vector) float64 {
	west, east := p.X-p.Z*c.u0, p.X-p.Z*c.u1
	south, north := p.Y-p.Z*c.v0, p.Y-p.Z*c.v1
	switch {
	case west < 0 && nearestWithin(p.Y, p.X, p.Z, c.u0, c.v0, c.v1):
		return edge2(west, c.u0)
	case east > 0 && nearestWithin(p.Y, p.X, p.Z, c.u1, c.v0, c.v1):
		return edge2(east, c.u1)
	case south < 0 && nearestWithin(p.X, p.Y, p.Z, c.v0, c.u0, c.u1):
		return edge2(south, c.v0)
	case north > 0 && nearestWithin(p.X, p.Y, p.Z, c.v1, c.u0, c.u1):
		return edge2(north, c.v1)
	case west >= 0 && east <= 0 && south >= 0 && north <= 0:
		return 0
	}
	corner2 := func(u, v float64) float64 {
		scale := 1 / math.Sqrt(u*u+v*v+1)
		x, y, z := u*scale-p.X, v*scale-p.Y, scale-p.Z
		return x*x + y*y + z*z
	}
	return min(corner2(c.u0, c.v0), corner2(c.u0, c.v1), corner2(c.u1, c.v0), corner2(c.u1, c.v1))
}

// nearestWithin reports whether, of an edge from lo to hi that crosses the other axis
// at a place, the nearest point to one at along, across and z is none of the ends:
// whether it is between the planes through these at a right angle to the edge.
func nearestWithin(along, across, z, at, lo, hi float64) bool {
	x, y := (at*at+1)*along, at*across+z
	return x > lo*y && x < hi*y
}

// edge2 returns the square of the straight line to the great circle of an edge that
// crosses the other axis at a place, given the product with the edge's normal.
func edge2(dot, at float64) float64 {
	above2 := dot * dot / (1 + at*at)
	along := 1 - math.Sqrt(1-above2)
	return above2 + along*along
}

// A face's Hilbert curve goes through the quarters of a cell in an order that depends
// on its turn: axes swapped, 1, and reversed, 2. s2Quarter has the quarters as 2*i+j, by turn
// and position on the curve, and s2Turn how the turn changes in them.
//
// Source: posToIJ and posToOrientation in S2's cellid.go.
var (
	s2Quarter = [4][4]uint8{{0, 1, 3, 2}, {0, 2, 3, 1}, {3, 2, 0, 1}, {3, 1, 0, 2}}
	s2Turn    = [4]uint8{1, 0, 0, 3}
)

// s2Place is where a cell is on its face, counted in cells of its size.
type s2Place struct {
	i, j uint32
	turn uint8
}

// quarter returns the place of a child, given its position in the lowest two bits.
func (p s2Place) quarter(position Cell) s2Place {
	position &= 3
	ij := uint32(s2Quarter[p.turn&3][position])
	return s2Place{p.i<<1 | ij>>1, p.j<<1 | ij&1, p.turn ^ s2Turn[position]}
}

// s2Decoder finds the rectangles of cells. For siblings, one after another, it finds
// their parent once. The zero value is ready for use.
type s2Decoder struct {
	parent Cell
	place  s2Place // of the parent
}

func s2Face(c Cell) int { return int(c >> 61) }

func (d *s2Decoder) rect(c Cell) s2Rect {
	// The position of level k is in the two bits from 61-2*k on. Below that of the
	// cell's own level is a 1, the mark.
	mark := bits.TrailingZeros64(uint64(c))
	var at s2Place
	if mark < 60 { // not a whole face
		lowest := Cell(4) << mark
		if parent := c&-lowest | lowest; parent != d.parent {
			d.parent, d.place = parent, s2Place{turn: uint8(s2Face(c) & 1)}
			for shift := 59; shift > mark+2; shift -= 2 {
				d.place = d.place.quarter(c >> shift)
			}
		}
		at = d.place.quarter(c >> (mark + 1))
	}
	size := 1 / float64(uint64(1)<<((60-mark)/2)) // exact, as are the products below
	i, j := float64(at.i), float64(at.j)
	return s2Rect{s2Plane(i * size), s2Plane((i + 1) * size), s2Plane(j * size), s2Plane((j + 1) * size)}
}

// s2Plane returns the place on the plane of a part 0..1 of a face, S2's quadratic
// projection: stToUV in S2's stuv.go.
func s2Plane(s float64) float64 {
	if s >= 0.5 {
		return (1 / 3.) * (4*s*s - 1)
	}
	return (1 / 3.) * (1 - 4*(1-s)*(1-s))
}

func (s2Scheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	target := s2.PointFromLatLng(s2.LatLngFromDegrees(ring.Center.Lat, ring.Center.Lng))
	var seen [6]r3.Vector // the target along the axes of a face
	for face := range seen {
		c := s2.CellFromCellID(s2.CellIDFromFace(face))
		u, v := c.Vertex(1).Sub(c.Vertex(0).Vector).Normalize(), c.Vertex(3).Sub(c.Vertex(0).Vector).Normalize()
		seen[face] = r3.Vector{X: target.Dot(u), Y: target.Dot(v), Z: target.Dot(u.Cross(v))}
	}
	var decoder s2Decoder
	return func(c Cell) (least, most float64) {
		rect, p := decoder.rect(c), &seen[s2Face(c)]
		middle, radius := rect.disc()
		d := arc(middle.Sub(*p).Norm() / 2)
		least, most = around(d, geo.EarthRadius*radius)
		if d <= ring.Outer || least > ring.Outer {
			return least, most
		}
		// Only for a cell at the outer edge, and with its middle beyond, the distance
		// to the cell itself can tell that it is outside. NaN tells nothing.
		near := arc(math.Sqrt(rect.away2(*p)) / 2)
		if near -= margin(near); near > least {
			least = near
		}
		return least, most
	}
}
