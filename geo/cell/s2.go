package cell

import (
	"math"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"

	"github.com/nearjob/nearjob/geo"
)

// S2 divides the six faces of a cube into quarters, 30 levels down to a square
// centimetre. A number is that of a leaf cell without its lowest bit, which is
// always 1, so that numbers are consecutive along a Hilbert curve and fit a signed column.
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

// s2Disc returns a point inside a cell, as a vector of length 1 along the axes of
// its face, and a bound in radians of the distance from there to any point of the cell.
//
// On the plane of the face, which touches the sphere, the cell is a rectangle. The point
// is in its middle, and a corner is half a diagonal away. A way on the plane becomes
// shorter on the sphere by at least the distance of the plane's points from
// the earth's centre, and that is nowhere on the way less than 1 nor less than the
// middle's by more than the half diagonal.
func s2Disc(c s2.Cell) (middle r3.Vector, radius float64) {
	uv := c.BoundUV()
	size, at := uv.Size(), uv.Center()
	half := math.Sqrt(size.X*size.X+size.Y*size.Y) / 2
	middle = r3.Vector{X: at.X, Y: at.Y, Z: 1}
	away := middle.Norm()
	return middle.Mul(1 / away), half / max(1, away-half)
}

func (s2Scheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	target := s2.PointFromLatLng(s2.LatLngFromDegrees(ring.Center.Lat, ring.Center.Lng))
	var seen [6]r3.Vector // the target along the axes of a face
	for face := range seen {
		c := s2.CellFromCellID(s2.CellIDFromFace(face))
		u, v := c.Vertex(1).Sub(c.Vertex(0).Vector).Normalize(), c.Vertex(3).Sub(c.Vertex(0).Vector).Normalize()
		seen[face] = r3.Vector{X: target.Dot(u), Y: target.Dot(v), Z: target.Dot(u.Cross(v))}
	}
	return func(c Cell) (least, most float64) {
		cell := s2.CellFromCellID(s2.CellID(c))
		middle, radius := s2Disc(cell)
		d := arc(middle.Sub(seen[cell.Face()]).Norm() / 2)
		least, most = around(d, geo.EarthRadius*radius)
		if d <= ring.Outer || least > ring.Outer {
			return least, most
		}
		// Only for a cell at the outer edge, and with its middle beyond, the distance
		// to the cell itself can tell that it is outside. It can be NaN for a target
		// at a right angle to one of the cell's edges, and then tells nothing.
		near := arc(math.Sqrt(float64(cell.Distance(target))) / 2)
		if near -= margin(near); near > least {
			least = near
		}
		return least, most
	}
}
