package cell

import (
	"math"

	"github.com/golang/geo/s2"
	"github.com/uber/h3-go/v4"

	"github.com/nearjob/nearjob/geo"
)

// H3 divides the sphere into hexagons and 12 pentagons, each into about seven, 15
// levels down to a square metre. A number is the H3 index of the finest cell.
//
// A parent does not contain its children, and the finest cell of a point is not
// always filed under the cell that has the point in it at a coarser level. So here a
// cell stands for what is filed under it by the digits of the index, and its
// bounds come from how far from its centre that can reach: see h3Radius. H3's
// cells are computed by the library; the centres for the bounds are computed here.
var H3 Scheme = h3Scheme{}

type h3Scheme struct{}

// The bits of an H3 index (https://h3geo.org/docs/core-library/h3Indexing/).
const (
	h3Finest   = 15
	h3ResShift = 52
	h3ResMask  = Cell(15) << h3ResShift
	h3Digit    = 7         // a digit that is not used; used ones go to 6
	h3Digits   = 1<<45 - 1 // 15 digits of 3 bits
)

func (h3Scheme) Name() string { return "h3" }

func (h3Scheme) Index(p geo.LatLng) int64 {
	return int64(h3.LatLngToCell(h3.LatLng{Lat: p.Lat, Lng: p.Lng}, h3Finest))
}

func (h3Scheme) Roots() []Cell {
	roots := make([]Cell, 122)
	for base := range roots {
		roots[base] = 1<<59 | Cell(base)<<45 | h3Digits // mode 1: a cell
	}
	return roots
}

func h3Level(c Cell) int { return int(c & h3ResMask >> h3ResShift) }

func h3Base(c Cell) int { return int(c >> 45 & 127) }

// h3DigitAt returns the digit that was added at a level.
func h3DigitAt(c Cell, level int) Cell { return c >> (3 * (h3Finest - level)) & 7 }

func (h3Scheme) Children(c Cell, to []Cell) []Cell {
	level := h3Level(c)
	if level == h3Finest {
		return to
	}
	shift := 3 * (h3Finest - level - 1) // of the new digit
	kid := c&^(h3ResMask|h3Digit<<shift) | Cell(level+1)<<h3ResShift
	pentagon := h3Pentagon(c)
	for digit := range Cell(7) {
		if pentagon && digit == 1 {
			continue // the K axis, which a pentagon lacks
		}
		to = append(to, kid|digit<<shift)
	}
	return to
}

// h3Pentagons are the base cells around the icosahedron's vertices, a bit each.
var h3Pentagons = [2]uint64{
	1<<4 | 1<<14 | 1<<24 | 1<<38 | 1<<49 | 1<<58 | 1<<63,
	1<<(72-64) | 1<<(83-64) | 1<<(97-64) | 1<<(107-64) | 1<<(117-64),
}

// h3Pentagon reports whether a cell is a pentagon: the central one, all digits 0,
// of a base cell that is one.
func h3Pentagon(c Cell) bool {
	used := 3 * (h3Finest - h3Level(c)) // bits of digits that are not
	base := h3Base(c)
	return h3Pentagons[base>>6]>>(base&63)&1 == 1 && c&h3Digits>>used == 0
}

// Range includes the numbers up to the next cell of the level, which no point has
// because their digits are not used, so that ranges of neighbours are adjacent.
func (h3Scheme) Range(c Cell) (lo, hi int64) {
	level := h3Level(c)
	c |= h3ResMask // level 15
	unused := Cell(1)<<(3*(h3Finest-level)) - 1
	lo = int64(c &^ unused)
	for ; level > 0; level-- {
		shift := 3 * (h3Finest - level)
		if digit := c >> shift & 7; digit == 6 {
			c |= 7 << shift // the parent's last
			continue
		} else if digit == 0 && h3Pentagon(c&^h3ResMask|Cell(level-1)<<h3ResShift|7<<shift) {
			c |= 1 << shift // the K axis
		}
		break
	}
	return lo, int64(c)
}

// h3Radius bounds in metres the distance from the centre of a cell of some level
// to any point filed under it.
//
// On the plane of an icosahedron's face, onto which H3 projects the sphere from its
// centre, neighbouring cells of level r have their centres u/sqrt(7)^r apart,
// where u = 0.381966011250105 (RES0_U_GNOMONIC in H3's constants.h) and the
// sphere's radius is 1. The centre of a child is in the place of its parent's, or of a
// neighbour of that at the child's level, so one spacing of that level away; a
// point is in the finest cell that it is filed under, whose radius is 1/sqrt(3) of its
// spacing. So the way from a centre down to a point is at most the sum of the spacings
// of all finer levels, and continuing the series beyond level 15 (0.61 of the last spacing)
// makes room for that radius (0.58 of it):
//
//	u/sqrt(7)^(r+1) * (1 + 1/sqrt(7) + 1/7 + ...) = u/sqrt(7)^(r+1) / (1 - 1/sqrt(7))
//
// Projecting from the plane back to the sphere shortens every way, because the plane
// touches the sphere from outside. Over an edge of the icosahedron the way goes on
// on the next face, turned about the edge, and is as long as on the plane. So it is
// around a corner, where the five faces leave out a sixth of the turn: the parent
// and the child are in the same of the five sectors, or one is the corner.
//
// The room left, 0.03 of the last spacing, is 3 cm. It covers the library's arc
// cosine, which is off by up to 1e-16/r radians at r radians from the middle of a
// face: by 1 cm at the nearest edge of a finest cell, and less beyond.
func h3Radius(level int) float64 {
	return geo.EarthRadius * h3Unit * math.Pow(7, -float64(level+1)/2) / (1 - 1/math.Sqrt(7))
}

func (h3Scheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	var radius [h3Finest + 1]float64
	for level := range radius {
		radius[level] = h3Radius(level)
	}
	target := s2.PointFromLatLng(s2.LatLngFromDegrees(ring.Center.Lat, ring.Center.Lng))
	grid := h3Centers()
	return func(c Cell) (least, most float64) {
		return around(arc(target.Sub(grid.center(c)).Norm()/2), radius[h3Level(c)])
	}
}
