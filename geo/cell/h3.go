package cell

import (
	"math"

	"github.com/uber/h3-go/v4"

	"github.com/nearjob/nearjob/geo"
)

// H3 divides the sphere into hexagons and 12 pentagons, each into about seven, 15
// levels down to a square metre. A number is the H3 index of the finest cell.
//
// A parent does not contain its children, and the finest cell of a point is not
// always filed under the cell that has the point in it at a coarser level. So here a
// cell stands for what is filed under it by the digits of the index, and its
// bounds come from how far from its centre that can reach: see h3Radius.
var H3 Scheme = h3Scheme{}

type h3Scheme struct{}

// The bits of an H3 index (https://h3geo.org/docs/core-library/h3Indexing/).
const (
	h3Finest   = 15
	h3ResShift = 52
	h3ResMask  = Cell(15) << h3ResShift
	h3Digit    = 7         // a digit that is not used; used ones go to 6
	h3Digits   = 1<<45 - 1 // 15 digits of 3 bits
	h3Sixes    = 06666666666666666 & h3Digits
)

func (h3Scheme) Name() string { return "h3" }

func (h3Scheme) Index(p geo.LatLng) int64 {
	return int64(h3.LatLngToCell(h3.LatLng{Lat: p.Lat, Lng: p.Lng}, h3Finest))
}

func (h3Scheme) Roots() []Cell {
	roots := make([]Cell, 0, 122)
	for _, c := range h3.Res0Cells() {
		roots = append(roots, Cell(c))
	}
	return roots
}

func h3Level(c Cell) int { return int(c & h3ResMask >> h3ResShift) }

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
	base := c >> 45 & 127
	return h3Pentagons[base>>6]>>(base&63)&1 == 1 && c&h3Digits>>used == 0
}

func (h3Scheme) Range(c Cell) (lo, hi int64) {
	unused := Cell(1)<<(3*(h3Finest-h3Level(c))) - 1
	finest := c&^(h3ResMask|unused) | h3Finest<<h3ResShift
	return int64(finest), int64(finest | h3Sixes&unused)
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
// touches the sphere from outside; on the folded faces around an edge or a
// vertex the way is measured along the folded surface, piece by piece. Tests measure it
// everywhere at the coarse levels, and at random at all.
func h3Radius(level int) float64 {
	const u = 0.38196601125010500003
	return geo.EarthRadius * u * math.Pow(7, -float64(level+1)/2) / (1 - 1/math.Sqrt(7))
}

func (h3Scheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	var radius [h3Finest + 1]float64
	for level := range radius {
		radius[level] = h3Radius(level)
	}
	origin := geo.NewOrigin(ring.Center)
	return func(c Cell) (least, most float64) {
		center := h3.Cell(c).LatLng()
		return around(origin.Distance(geo.LatLng{Lat: center.Lat, Lng: center.Lng}), radius[h3Level(c)])
	}
}
