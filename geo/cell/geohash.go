package cell

import (
	"math"
	"math/bits"

	"github.com/nearjob/nearjob/geo"
)

// Geohash halves longitude and latitude in turn, 30 times each: a number is the
// 60 bits of a geohash of 12 characters. Its cells here are the boxes after each
// pair of halvings, so there are 31 levels from the whole earth to 3.7 cm by 1.9 cm
// at the equator. Cells get narrow towards the poles.
//
// Source: G. Niemeyer's geohash.org, 2008; G. M. Morton's order, 1966.
var Geohash Scheme = geohashScheme{}

type geohashScheme struct{}

const (
	geohashLevels = 30
	geohashSteps  = 1 << geohashLevels // finest cells along each axis
)

func (geohashScheme) Name() string { return "geohash" }

func (geohashScheme) Index(p geo.LatLng) int64 {
	return int64(spread(step(p.Lng, 180))<<1 | spread(step(p.Lat, 90)))
}

// step returns which of the finest steps a coordinate in -most..most falls into. The last
// one holds its upper end too. It never decreases as x grows, since rounding does not.
func step(x, most float64) uint64 {
	return uint64(min(math.Floor((x+most)/(2*most)*geohashSteps), geohashSteps-1))
}

// spread puts a 0 before each of the 30 bits of x ("Interleave bits by Binary
// Magic Numbers", S. E. Anderson, Bit Twiddling Hacks).
func spread(x uint64) uint64 {
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// squeeze is the reverse of spread.
func squeeze(x uint64) uint64 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return (x | x>>16) & 0x00000000ffffffff
}

// A geohash Cell is its leading bits, a 1 and zeros, 61 bits in all: the place of
// the lowest 1 tells the level, as in S2.

func (geohashScheme) Roots() []Cell { return []Cell{1 << (2 * geohashLevels)} }

func (geohashScheme) Children(c Cell, to []Cell) []Cell {
	mark := c & -c
	if mark == 1 {
		return to
	}
	quarter := mark >> 2
	for k := range Cell(4) {
		to = append(to, c-mark+(2*k+1)*quarter)
	}
	return to
}

func (geohashScheme) Range(c Cell) (lo, hi int64) {
	mark := c & -c
	return int64((c - mark) >> 1), int64((c + mark - 1) >> 1)
}

// box returns what is filed under a cell, but for rounding.
func (s geohashScheme) box(c Cell) geo.Rect {
	lo, _ := s.Range(c)
	size := 1 << (bits.TrailingZeros64(uint64(c)) / 2) // in finest steps
	x, y := squeeze(uint64(lo)>>1), squeeze(uint64(lo))
	degrees := func(step uint64, most float64) float64 {
		return float64(step)/geohashSteps*(2*most) - most
	}
	return geo.Rect{
		South: degrees(y, 90), North: degrees(y+uint64(size), 90),
		West: degrees(x, 180), East: degrees(x+uint64(size), 180),
	}
}

func (s geohashScheme) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	const (
		radian = math.Pi / 180
		slack  = 1e-8 // degrees: a millimetre, see margin
	)
	center := ring.Center
	cosCenter := math.Cos(center.Lat * radian)
	bound := geo.Circle{Center: center, Radius: ring.Outer}.Bound()
	reach := (bound.East - bound.West) / 2 // of longitude to each side
	if bound.CrossesAntimeridian() {
		reach += 180
	}
	beyond := math.Nextafter(ring.Outer, math.Inf(1))
	// haversine returns the distance of points whose latitudes and longitudes differ
	// by so much. It grows with both differences and with the cosine.
	haversine := func(dLat, dLng, cos float64) float64 {
		y, x := math.Sin(dLat*(radian/2)), math.Sin(dLng*(radian/2))
		return arc(math.Sqrt(y*y + cosCenter*cos*x*x))
	}
	return func(c Cell) (least, most float64) {
		box := s.box(c)
		halfWidth := (box.East - box.West) / 2
		dLng := math.Abs(box.West + halfWidth - center.Lng) // of the middle
		if dLng > 180 {
			dLng = 360 - dLng
		}
		if box.South-slack > bound.North || box.North+slack < bound.South || dLng-halfWidth-slack > reach {
			return beyond, math.Inf(1)
		}
		cosSouth, cosNorth := math.Cos(box.South*radian), math.Cos(box.North*radian)
		cosMost := max(cosSouth, cosNorth)
		if box.South < 0 && box.North > 0 {
			cosMost = 1
		}
		return bounds(
			haversine(max(0, box.South-center.Lat, center.Lat-box.North), max(0, dLng-halfWidth), min(cosSouth, cosNorth)),
			haversine(max(box.North-center.Lat, center.Lat-box.South), min(180, dLng+halfWidth), cosMost),
		)
	}
}
