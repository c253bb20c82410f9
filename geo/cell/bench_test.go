package cell

import (
	"fmt"
	"testing"

	"github.com/nearjob/nearjob/geo"
)

// counter counts the cells whose bounds a cover computes.
type counter struct {
	Scheme
	bounded int
}

func (s *counter) Bounder(ring geo.Ring) func(Cell) (least, most float64) {
	bounds := s.Scheme.Bounder(ring)
	return func(c Cell) (least, most float64) {
		s.bounded++
		return bounds(c)
	}
}

// go test -run '^$' -bench . ./geo/cell
func BenchmarkCover(b *testing.B) {
	const ranges = 24
	for _, s := range schemes {
		for _, radius := range []float64{100, 500, 1000, 10e3, 1e6} {
			b.Run(fmt.Sprintf("scheme=%s/radius_m=%g/ranges=%d", s.Name(), radius, ranges), func(b *testing.B) {
				// A cell's edges lie differently for every centre.
				var rings []geo.Ring
				for k := range 64 {
					x := float64(k) / 64
					rings = append(rings, geo.Ring{Center: geo.LatLng{Lat: 37.4 + x/3, Lng: 126.7 + x}, Outer: radius})
				}
				s := &counter{Scheme: s}
				n, found := 0, 0
				b.ReportAllocs()
				for b.Loop() {
					cover := Cover(s, rings[n%len(rings)], ranges)
					if len(cover) == 0 {
						b.Fatal("no ranges")
					}
					found += len(cover)
					n++
				}
				b.ReportMetric(float64(found)/float64(n), "ranges/op")
				b.ReportMetric(float64(s.bounded)/float64(n), "cells/op")
			})
		}
	}
}
