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

func s2RectOf(c s2.Cell) s2Rect {
	uv := c.BoundUV()
	return s2Rect{uv.X.Lo, uv.X.Hi, uv.Y.Lo, uv.Y.Hi}
}

// The rectangles are the library's: of all cells to level 5, in order, and of those on all
// levels above random and extreme places, which are decoded without a sibling before.
func TestS2Rect(t *testing.T) {
	var decoder s2Decoder
	n := 0
	check := func(c Cell) {
		n++
		cell := s2.CellFromCellID(s2.CellID(c))
		got, want := decoder.rect(c), s2RectOf(cell)
		for i, diff := range []float64{got.u0 - want.u0, got.u1 - want.u1, got.v0 - want.v0, got.v1 - want.v1} {
			if !(math.Abs(diff) < 1e-15) || s2Face(c) != cell.Face() {
				t.Fatalf("%v is %v on face %d, want %v on face %d; edge %d", cell.ID(), got, s2Face(c), want, cell.Face(), i)
			}
		}
	}
	cells := S2.Roots()
	for range 6 {
		var next []Cell
		for _, c := range cells {
			check(c)
			next = S2.Children(c, next)
		}
		cells = next
	}
	r := rand.New(rand.NewPCG(31, 32))
	places := extremes()
	for range 2000 {
		places = append(places, randomPlace(r))
	}
	for _, p := range places {
		leaf := s2.CellIDFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng))
		for level := range s2.MaxLevel + 1 {
			check(Cell(leaf.Parent(level)))
			if level > 0 { // one of its siblings, then a cousin
				kids := leaf.Parent(level - 1).Children()
				check(Cell(kids[r.IntN(4)]))
				check(Cell(leaf.Parent(level).Next()))
			}
		}
	}
	if n != 6*(1+4+16+64+256+1024)+len(places)*91 {
		t.Errorf("%d cells", n)
	}
}

// The distance to a cell is the library's, for points all around: inside, off an
// edge, off a corner, and on other faces.
func TestS2Away(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	var inside, compared int
	worst := 0.0
	for range 200000 {
		at := randomPlace(r)
		cell := s2.CellFromCellID(s2.CellIDFromLatLng(s2.LatLngFromDegrees(at.Lat, at.Lng)).Parent(r.IntN(s2.MaxLevel + 1)))
		rect := s2RectOf(cell)
		size := geo.EarthRadius * (rect.u1 - rect.u0)
		q := destination(at, min(geo.MaxDistance, size*math.Pow(10, -2+4*r.Float64())), 6.3*r.Float64())
		target := s2.PointFromLatLng(s2.LatLngFromDegrees(q.Lat, q.Lng))
		face := s2.CellFromCellID(cell.ID().Parent(0))
		u, v := face.Vertex(1).Sub(face.Vertex(0).Vector).Normalize(), face.Vertex(3).Sub(face.Vertex(0).Vector).Normalize()
		got := rect.away2(r3.Vector{X: target.Dot(u), Y: target.Dot(v), Z: target.Dot(u.Cross(v))})
		want := float64(cell.Distance(target))
		if math.IsNaN(got) && math.IsNaN(want) {
			continue
		}
		if want == 0 {
			inside++
		}
		compared++
		diff := math.Abs(arc(math.Sqrt(got)/2) - arc(math.Sqrt(want)/2))
		if want < 2 { // beyond a right angle neither has all its digits
			worst = max(worst, diff)
		}
		if !(diff < margin(arc(math.Sqrt(want)/2))/10) {
			t.Fatalf("from %v to %v: %v, want %v, %v m apart", q, cell.ID(), got, want, diff)
		}
	}
	t.Logf("%d points, %d inside: at most %.2g m apart", compared, inside, worst)
	if inside < 1000 || compared < 199000 {
		t.Errorf("%d points, %d inside", compared, inside)
	}
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
			rect := s2RectOf(c)
			middle, radius := rect.disc()
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
