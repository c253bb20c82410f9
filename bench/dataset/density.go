package dataset

import (
	"math"
	"slices"

	"github.com/nearjob/nearjob/geo"
)

// Density finds where places are densest: a centre from which searches in data that
// nobody knows have something to find. The zero Density is empty.
type Density struct {
	squares map[[2]int16]*square
}

// square sums up the places in a tenth of a degree.
type square struct {
	n        int
	lat, lng float64
}

// Add takes a valid place in. Exactly 0,0 is left out: it stands for "unknown" in many a
// table, and would be its densest place.
func (d *Density) Add(p geo.LatLng) {
	if p == (geo.LatLng{}) {
		return
	}
	if d.squares == nil {
		d.squares = make(map[[2]int16]*square)
	}
	k := [2]int16{int16(math.Floor(p.Lat * 10)), int16(math.Floor(p.Lng * 10))}
	s := d.squares[k]
	if s == nil {
		s = new(square)
		d.squares[k] = s
	}
	s.n++
	s.lat += p.Lat
	s.lng += p.Lng
}

// Center is the mean of the places in the fullest square of a tenth of a degree, rounded to
// a metre so that it reads well. Of squares that are equally full the southernmost,
// westernmost counts. It reports false where there is no place.
func (d *Density) Center() (geo.LatLng, bool) {
	var (
		best *square
		at   [2]int16
	)
	for k, s := range d.squares {
		if best == nil || s.n > best.n || s.n == best.n && slices.Compare(k[:], at[:]) < 0 {
			best, at = s, k
		}
	}
	if best == nil {
		return geo.LatLng{}, false
	}
	round := func(v float64) float64 { return math.Round(v*1e5) / 1e5 }
	p, err := geo.NewLatLng(round(best.lat/float64(best.n)), round(best.lng/float64(best.n)))
	return p, err == nil
}
