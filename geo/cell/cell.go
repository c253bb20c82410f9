package cell

import (
	"math"

	"github.com/nearjob/nearjob/geo"
)

// Range is a closed interval of cell numbers.
type Range struct {
	Lo, Hi int64 // 0 or more

	// MinDist is a lower bound in metres of the distance, as geo computes it, from
	// the centre to any point of the ring that is filed in the range.
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

	// Roots returns the coarsest cells, in order of their numbers: every point is
	// filed under one of them.
	Roots() []Cell

	// Children appends the cells of the next finer level that c is divided into,
	// in order: what is filed under c is filed under one of them. The finest cells
	// have none.
	Children(c Cell, to []Cell) []Cell

	// Range returns numbers that hold those of all that is filed under c and of
	// nothing else. The ranges of a cell's children, in order, make up its own.
	Range(c Cell) (lo, hi int64)

	// Bounder returns a function, for one goroutine, that bounds, in metres, how near and how far
	// from ring.Center a point filed under a cell can be, as geo computes
	// distances. The bounds are about as tight as they need to be to tell whether
	// the cell is outside, inside or across the ring.
	Bounder(ring geo.Ring) func(c Cell) (least, most float64)
}

// margin bounds in metres what the roundings of a grid's library, of the bounds
// here and of geo's distance add up to. Most of it is about 1e-15 of the earth's
// radius. From a quarter of the circumference on, distances that are taken from a
// squared sine or chord lose up to half their digits: 2*R*sqrt(2^-52) is 0.2 m.
func margin(d float64) float64 {
	if d > 0.49*geo.MaxDistance {
		return 1
	}
	return 1e-3
}

// arc returns the distance in metres of two points that have sin(angle/2) = x,
// 0 to 1: half the straight line between them, on a sphere of radius 1.
func arc(x float64) float64 {
	if x < 0.01 { // half the time; the next term, x^7*15/336, is less than 1e-8 m
		x2 := x * x
		return 2 * geo.EarthRadius * x * (1 + x2*(1./6+x2*(3./40)))
	}
	return 2 * geo.EarthRadius * math.Asin(min(1, x))
}

// around returns bounds for points within a radius of a point at distance d.
func around(d, radius float64) (least, most float64) { return bounds(d-radius, d+radius) }

// bounds adds the margins.
func bounds(least, most float64) (float64, float64) {
	return max(0, least-margin(least)), most + margin(most)
}
