package cell

import (
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

// s2Radius bounds in metres the distance from the centre of a cell of some level
// to its farthest point, which is a vertex: half the longest diagonal of any cell
// of the level (s2.MaxDiagMetric), and a part in eight for centres that are not in
// the middle. A test compares it with the vertices.
func s2Radius(level int) float64 {
	return geo.EarthRadius * s2.MaxDiagMetric.Value(level) / 2 * 1.125
}

func (s2Scheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	target := s2.PointFromLatLng(s2.LatLngFromDegrees(ring.Center.Lat, ring.Center.Lng))
	return func(c Cell) (least, most float64) {
		id := s2.CellID(c)
		d := geo.EarthRadius * target.Distance(id.Point()).Radians()
		least, most = around(d, s2Radius(id.Level()))
		if least > ring.Outer || most < ring.Inner || least >= ring.Inner && most <= ring.Outer {
			return least, most
		}
		// Only cells near an edge need the distance to the cell itself, which
		// takes ten times as long.
		cell := s2.CellFromCellID(id)
		near := geo.EarthRadius * cell.Distance(target).Angle().Radians()
		far := geo.EarthRadius * cell.MaxDistance(target).Angle().Radians()
		return max(0, near-margin(near)), far + margin(far)
	}
}
