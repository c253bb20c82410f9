package cell

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/golang/geo/r3"
	"github.com/golang/geo/s2"
	"github.com/uber/h3-go/v4"
	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/geo"
)

var schemes = []Scheme{Geohash, H3, S2}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// destination returns the point at a distance in metres and a bearing in radians
// from north, roughly.
func destination(p geo.LatLng, distance, bearing float64) geo.LatLng {
	v := s2.PointFromLatLng(s2.LatLngFromDegrees(p.Lat, p.Lng)).Vector
	sinLng, cosLng := math.Sincos(p.Lng * math.Pi / 180)
	east := r3.Vector{X: -sinLng, Y: cosLng}
	sinB, cosB := math.Sincos(bearing)
	sinD, cosD := math.Sincos(distance / geo.EarthRadius)
	return place(v.Mul(cosD).Add(v.Cross(east).Mul(sinD * cosB)).Add(east.Mul(sinD * sinB)))
}

// place returns the point in a direction from the centre of the earth.
func place(v r3.Vector) geo.LatLng {
	ll := s2.LatLngFromPoint(s2.Point{Vector: v})
	p, err := geo.NewLatLng(min(90, max(-90, ll.Lat.Degrees())), min(180, max(-180, ll.Lng.Degrees())))
	if err != nil {
		panic(err)
	}
	return p
}

// extremes returns the places where grids go wrong: poles, the antimeridian and the
// equator; the corners, edges and middles of S2's cube and of H3's icosahedron;
// corners of geohash's boxes.
var extremes = sync.OnceValue(func() []geo.LatLng {
	places := []geo.LatLng{
		{Lat: 90}, {Lat: -90}, {Lat: 90, Lng: 180}, {Lat: 90, Lng: -77}, {Lat: 89.99999999, Lng: 12}, {Lat: -89.9999, Lng: -179.9999},
		{Lng: 180}, {Lng: -180}, {Lat: 52, Lng: 180}, {Lat: 52, Lng: math.Nextafter(-180, 0)}, {Lat: -17, Lng: math.Nextafter(180, 0)},
		{}, {Lng: 90}, {Lng: -90}, {Lng: 45}, {Lng: 101.7}, {Lat: math.SmallestNonzeroFloat64}, {Lat: 45, Lng: -45}, {Lat: -22.5, Lng: 11.25},
	}
	for i := range 27 { // the cube's corners, edges and faces
		if v := (r3.Vector{X: float64(i%3 - 1), Y: float64(i/3%3 - 1), Z: float64(i/9 - 1)}); i != 13 {
			places = append(places, place(v))
		}
	}
	var vertices []r3.Vector
	for _, c := range h3.Pentagons(0) {
		v := s2.PointFromLatLng(s2.LatLngFromDegrees(c.LatLng().Lat, c.LatLng().Lng)).Vector
		vertices = append(vertices, v)
		places = append(places, place(v))
	}
	near := func(a, b r3.Vector) bool { return a.Dot(b) > 0.4 } // of different vertices: neighbours
	for i, a := range vertices {
		for j, b := range vertices[:i] {
			if near(a, b) {
				places = append(places, place(a.Add(b)), place(a.Mul(0.7).Add(b.Mul(0.3))))
				for _, c := range vertices[:j] {
					if near(a, c) && near(b, c) {
						places = append(places, place(a.Add(b).Add(c)))
					}
				}
			}
		}
	}
	return places
})

// genPlace draws places everywhere, with extremes and their surroundings.
func genPlace() *rapid.Generator[geo.LatLng] {
	return rapid.Custom(func(t *rapid.T) geo.LatLng {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom(extremes()).Draw(t, "extreme")
		case 1:
			at := rapid.SampledFrom(extremes()).Draw(t, "extreme")
			return destination(at, math.Pow(10, rapid.Float64Range(-6, 6.5).Draw(t, "log distance")), rapid.Float64Range(0, 6.3).Draw(t, "bearing"))
		default:
			z := rapid.Float64Range(-1, 1).Draw(t, "z")
			return geo.LatLng{Lat: math.Asin(z) * 180 / math.Pi, Lng: rapid.Float64Range(-180, 180).Draw(t, "lng")}
		}
	})
}

func genRadius() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Float64Range(-3, 7.4), func(e float64) float64 { return math.Pow(10, e) }),
		rapid.SampledFrom([]float64{0, 1, 500, geo.MaxDistance / 2, geo.MaxDistance, 1e8, math.Inf(1)}),
	)
}

func genRing() *rapid.Generator[geo.Ring] {
	return rapid.Custom(func(t *rapid.T) geo.Ring {
		ring := geo.Ring{Center: genPlace().Draw(t, "center"), Outer: genRadius().Draw(t, "outer")}
		if rapid.Bool().Draw(t, "hollow") {
			share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Map(rapid.Float64Range(-6, 0), func(e float64) float64 { return 1 - math.Pow(10, e) }))
			ring.Inner = min(ring.Outer, 2e7) * share.Draw(t, "share")
		}
		return ring
	})
}

// randomPlace is genPlace for loops that need no shrinking.
func randomPlace(r *rand.Rand) geo.LatLng {
	if r.IntN(3) == 0 {
		return destination(extremes()[r.IntN(len(extremes()))], math.Pow(10, -6+12.5*r.Float64()), 6.3*r.Float64())
	}
	return place(r3.Vector{X: r.NormFloat64(), Y: r.NormFloat64(), Z: r.NormFloat64()})
}

func TestExtremes(t *testing.T) {
	// 12 vertices, 30 edges twice, 20 faces of the icosahedron; 26 of the cube.
	if n := len(extremes()); n != 19+26+12+60+20 {
		t.Errorf("%d places", n)
	}
}

func TestRoots(t *testing.T) {
	for _, s := range schemes {
		last := int64(-1)
		for _, root := range s.Roots() {
			lo, hi := s.Range(root)
			if lo <= last || hi < lo {
				t.Errorf("%s: root %x is %d..%d after %d", s.Name(), root, lo, hi, last)
			}
			last = hi
		}
	}
}

// walk goes down from the roots to the finest cell that a point is filed under,
// calling visit with the cell on each level. On the way it checks that the cells
// of a level are in order, disjoint and within their parent, and that exactly one of
// them holds the point.
func walk(t fataler, s Scheme, p geo.LatLng, visit func(Cell)) {
	t.Helper()
	index := s.Index(p)
	lo, hi := int64(0), int64(math.MaxInt64)
	cells := s.Roots()
	for root := true; len(cells) > 0; root = false {
		var in []Cell
		last := lo - 1
		for _, c := range cells {
			clo, chi := s.Range(c)
			if clo <= last || chi < clo || chi > hi {
				t.Fatalf("%s: cell %x is %d..%d after %d in %d..%d", s.Name(), c, clo, chi, last, lo, hi)
			}
			if (!root || last >= lo) && clo != last+1 {
				t.Fatalf("%s: between %d and cell %x, which is %d..%d, numbers are missing", s.Name(), last, c, clo, chi)
			}
			last = chi
			if clo <= index && index <= chi {
				in = append(in, c)
			}
		}
		if !root && last != hi {
			t.Fatalf("%s: children end at %d, the parent at %d", s.Name(), last, hi)
		}
		if len(in) != 1 {
			t.Fatalf("%s: %v, number %d, is in cells %x of %x", s.Name(), p, index, in, cells)
		}
		visit(in[0])
		lo, hi = s.Range(in[0])
		cells = s.Children(in[0], nil)
	}
	if lo != index || lo != hi && s.Name() != "h3" {
		t.Fatalf("%s: the finest cell of number %d is %d..%d", s.Name(), index, lo, hi)
	}
}

// The hierarchy and the bounds hold on all levels above every point. The radius
// changes which bounds are computed exactly: all sorts are drawn, and some that
// make a cell hard to decide.
func TestBoundsHoldOnEveryLevel(t *testing.T) {
	for _, s := range schemes {
		t.Run(s.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				for range 10 {
					checkBounds(t, s, genRing().Draw(t, "ring"), genPlace().Draw(t, "point"))
				}
			})
			r := rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				p := randomPlace(r)
				center := destination(p, math.Pow(10, -3+10.4*r.Float64()), 6.3*r.Float64())
				d := center.Distance(p)
				ring := geo.Ring{Center: center, Inner: d * r.Float64() * float64(r.IntN(2)), Outer: d * (1 + r.Float64()*float64(r.IntN(2)))}
				checkBounds(t, s, ring, p)
			}
		})
	}
}

func checkBounds(t fataler, s Scheme, ring geo.Ring, p geo.LatLng) {
	t.Helper()
	bounds := s.Bounder(ring)
	d := ring.Center.Distance(p)
	n := 0
	walk(t, s, p, func(c Cell) {
		n++
		least, most := bounds(c)
		if !(0 <= least && least <= d && d <= most) {
			t.Fatalf("%s, ring %v: cell %x of level %d holds %v at %v m, not in %v..%v", s.Name(), ring, c, n-1, p, d, least, most)
		}
	})
	if levels := map[string]int{"geohash": 31, "h3": 16, "s2": 31}[s.Name()]; n != levels {
		t.Fatalf("%s has %d levels, want %d", s.Name(), n, levels)
	}
}
