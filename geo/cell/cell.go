package cell

import "github.com/nearjob/nearjob/geo"

// Range is a closed interval of cell numbers.
type Range struct {
	Lo, Hi int64 // 0 or more

	// MinDist is a lower bound in metres of the distance, as geo computes it, from
	// the centre of the cover to any point filed in the range.
	MinDist float64
}

// Cell is a cell of some level, opaque outside its Scheme.
type Cell uint64

// Scheme is a hierarchical grid. The methods are safe for concurrent use.
type Scheme interface {
	// Name is "geohash", "h3" or "s2".
	Name() string

	// Index returns the number of the finest cell that a valid point is filed under.
	Index(p geo.LatLng) int64

	// Roots returns the coarsest cells: every point is filed under one of them.
	Roots() []Cell

	// Children appends the cells of the next finer level that c is divided into:
	// what is filed under c is filed under one of them. The finest cells have none.
	Children(c Cell, to []Cell) []Cell

	// Range returns the numbers of what is filed under c.
	Range(c Cell) (lo, hi int64)

	// Bounder returns a function that bounds, in metres, how near and how far
	// from ring.Center a point filed under a cell can be, as geo computes
	// distances. The bounds are as tight as they need to be to tell whether the
	// cell is outside, inside or across the ring.
	Bounder(ring geo.Ring) func(c Cell) (least, most float64)
}

// margin bounds in metres what the roundings of a grid's library, of the bounds
// here and of geo's distance add up to. Most of it is about 1e-15 of the earth's
// radius. Towards the antipode a distance that is taken from a chord's length
// loses half its digits: 2*R*sqrt(2^-52) is 0.2 m.
func margin(d float64) float64 {
	if d > 0.9*geo.MaxDistance {
		return 1
	}
	return 1e-3
}

// around returns bounds for points within a radius of a point at distance d.
func around(d, radius float64) (least, most float64) {
	least, most = d-radius, d+radius
	return max(0, least-margin(d)), most + margin(most)
}
