package cell

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s1"
	"github.com/golang/geo/s2"

	"github.com/nearjob/nearjob/geo"
)

// s2LeafArea is the area in square metres of the leaf cells around a point.
func s2LeafArea(p geo.LatLng) float64 {
	id := s2.CellIDFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)).Parent(16)
	return s2.CellFromCellID(id).ExactArea() * geo.EarthRadius * geo.EarthRadius / math.Pow(4, 14)
}

// A cell is within its disc, on all levels above random and extreme places.
func TestS2Disc(t *testing.T) {
	var least, most [s2.MaxLevel + 1]float64
	for level := range least {
		least[level] = 1
	}
	r := rand.New(rand.NewPCG(15, 16))
	check := func(leaf s2.CellID) {
		for level := range most {
			c := s2.CellFromCellID(leaf.Parent(level))
			face := s2.CellFromCellID(leaf.Parent(0))
			u, v := face.Vertex(1).Sub(face.Vertex(0).Vector).Normalize(), face.Vertex(3).Sub(face.Vertex(0).Vector).Normalize()
			middle, radius := s2Disc(c)
			far := 0.0
			for k := range 4 {
				p := c.Vertex(k)
				far = max(far, arc(middle.Sub(r3.Vector{X: p.Dot(u), Y: p.Dot(v), Z: p.Dot(u.Cross(v))}).Norm()/2)/geo.EarthRadius)
			}
			least[level], most[level] = min(least[level], far/radius), max(most[level], far/radius)
			if far > radius+margin(0)/geo.EarthRadius/10 {
				t.Fatalf("level %d: %v reaches to %v, its disc to %v", level, c.ID(), far, radius)
			}
		}
	}
	for _, p := range extremes() {
		check(s2.CellIDFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)))
	}
	for range 5000 {
		p := randomPlace(r)
		check(s2.CellIDFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)))
	}
	t.Logf("farthest vertex in parts of the radius, by level: least %.3f, most %.3f", least, most)
}

// Every cell of the reference implementation's interior covering is in ours.
func TestS2CoverHoldsTheInterior(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	cells := 0
	for range 300 {
		ring := geo.Ring{Center: randomPlace(r), Outer: math.Pow(10, 1+6*r.Float64())}
		cap := s2.CapFromCenterAngle(s2.PointFromLatLng(s2.LatLngFromDegrees(ring.Center.Lat, ring.Center.Lng)), s1.Angle(ring.Outer/geo.EarthRadius))
		rc := s2.RegionCoverer{MaxLevel: s2.MaxLevel, MaxCells: 40}
		cover := Cover(S2, ring, 1+r.IntN(32))
		for _, id := range rc.InteriorCovering(cap) {
			cells++
			lo, hi := S2.Range(Cell(id))
			in := false
			for _, c := range cover {
				in = in || c.Lo <= lo && hi <= c.Hi
			}
			if !in {
				t.Fatalf("ring %v: %v, %d..%d, is not in %v", ring, id, lo, hi, cover)
			}
		}
	}
	if cells < 3000 {
		t.Errorf("only %d cells", cells)
	}
}
