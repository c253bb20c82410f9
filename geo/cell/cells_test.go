package cell

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/geo"
)

// checkCells checks the form of a cover by cells and that it holds those of the
// points that are in the ring.
func checkCells(t fataler, s Scheme, ring geo.Ring, coarsest, finest, most int, points ...geo.LatLng) (cells []Range, held int) {
	t.Helper()
	cells = Cells(s, ring, coarsest, finest, most)
	touched := 0 // cells of the coarsest level, which can be more than most
	for _, c := range Cells(s, ring, coarsest, coarsest, math.MaxInt) {
		touched++
		if h := Holders(s, c.Lo, coarsest, coarsest); len(h) != 1 || h[0].Lo != c.Lo || h[0].Hi != c.Hi {
			t.Fatalf("%s, ring %v: %+v is no cell of level %d: %+v", s.Name(), ring, c, coarsest, h)
		}
	}
	if len(cells) > max(most, touched) {
		t.Fatalf("%s, ring %v: %d cells, at most %d are allowed and %d needed", s.Name(), ring, len(cells), most, touched)
	}
	last := int64(-1)
	for _, c := range cells {
		if c.Lo <= last || c.Hi < c.Lo || !(0 <= c.MinDist && c.MinDist <= ring.Outer) {
			t.Fatalf("%s, ring %v: cell %+v after %d", s.Name(), ring, c, last)
		}
		last = c.Hi
		// Aligned: it is one of the cells that its numbers are in.
		if !slices.ContainsFunc(Holders(s, c.Lo, coarsest, finest), func(h Range) bool { return h.Lo == c.Lo && h.Hi == c.Hi }) {
			t.Fatalf("%s, ring %v: %+v is no cell of a level %d..%d", s.Name(), ring, c, coarsest, finest)
		}
	}
	for _, p := range points {
		if !ring.Contains(p) {
			continue
		}
		held++
		// Found by equality, exactly once.
		found := 0
		for _, h := range Holders(s, s.Index(p), coarsest, finest) {
			for _, c := range cells {
				if c.Lo == h.Lo && c.Hi == h.Hi {
					if found++; c.MinDist > ring.Center.Distance(p) {
						t.Fatalf("%s, ring %v: %v at %v m is in %+v", s.Name(), ring, p, ring.Center.Distance(p), c)
					}
				}
			}
		}
		if found != 1 {
			t.Fatalf("%s, ring %v, levels %d..%d, %d cells: %v at %v m is in %d of %+v", s.Name(), ring, coarsest, finest, most, p,
				ring.Center.Distance(p), found, cells)
		}
	}
	return cells, held
}

// No point of a ring is outside its cells. With more:
// go test ./geo/cell -run TestCellsHoldTheirRing -rapid.checks 10000
func TestCellsHoldTheirRing(t *testing.T) {
	for _, s := range schemes {
		t.Run(s.Name(), func(t *testing.T) {
			checks, held := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				ring := genRing().Draw(t, "ring")
				// H3 has cells of a ninth of Europe at its coarsest, and thousands from level 2 on.
				coarsest := rapid.IntRange(0, 1).Draw(t, "coarsest")
				finest := rapid.IntRange(coarsest, 30).Draw(t, "finest")
				most := rapid.IntRange(1, 40).Draw(t, "most")
				points := []geo.LatLng{ring.Center, genPlace().Draw(t, "anywhere")}
				for range 12 {
					d := ring.Inner + (min(ring.Outer, geo.MaxDistance)-ring.Inner)*rapid.Float64Range(0, 1).Draw(t, "depth")
					points = append(points, destination(ring.Center, d, rapid.Float64Range(0, 6.3).Draw(t, "bearing")))
				}
				_, n := checkCells(t, s, ring, coarsest, finest, most, points...)
				held += n
				p := rapid.SampledFrom(points).Draw(t, "on the edge")
				d := ring.Center.Distance(p)
				for _, r := range []geo.Ring{{Center: ring.Center, Outer: d}, {Center: ring.Center, Inner: d, Outer: d}} {
					_, n := checkCells(t, s, r, coarsest, finest, most, append(points, p)...)
					held += n
				}
				checks++
			})
			if held < 5*checks {
				t.Errorf("only %d points in %d rings", held, checks)
			}
		})
	}
}

// All places, few cells, radii over the whole range.
func TestCellsAtExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, s := range schemes {
		for _, center := range extremes() {
			ring := geo.Ring{Center: center, Outer: math.Pow(10, -2+9*r.Float64())}
			var points []geo.LatLng
			for range 20 {
				points = append(points, destination(center, min(ring.Outer, geo.MaxDistance)*r.Float64(), 6.3*r.Float64()))
			}
			if _, held := checkCells(t, s, ring, 0, 30, 1+r.IntN(12), append(points, extremes()...)...); held < 10 {
				t.Fatalf("%s, ring %v: only %d points are in it", s.Name(), ring, held)
			}
		}
	}
}

func TestCellsOfNothing(t *testing.T) {
	for _, s := range schemes {
		for _, ring := range []geo.Ring{{Outer: -1}, {Outer: math.NaN()}, {Inner: math.NaN(), Outer: 1}, {Inner: 2, Outer: 1}} {
			if cells := Cells(s, ring, 0, 9, 8); len(cells) > 0 {
				t.Errorf("%s: ring %v, which holds nothing, has the cells %v", s.Name(), ring, cells)
			}
		}
	}
}

func TestCellsOfAll(t *testing.T) {
	for _, s := range schemes {
		cells, _ := checkCells(t, s, geo.Ring{Outer: math.Inf(1)}, 0, 5, 1, extremes()...)
		if len(cells) != len(s.Roots()) {
			t.Errorf("%s: the earth has %d cells, want the %d roots", s.Name(), len(cells), len(s.Roots()))
		}
	}
}

// Without a bound on their number the cells are divided to the finest level.
func TestCellsUnbounded(t *testing.T) {
	ring := geo.Ring{Center: geo.LatLng{Lat: 37.5, Lng: 127}, Outer: 1000}
	for _, s := range schemes {
		level := map[string]int{"geohash": 16, "h3": 9, "s2": 15}[s.Name()]
		bounded, _ := checkCells(t, s, ring, 0, level, 12, ring.Center)
		all, _ := checkCells(t, s, ring, 0, level, math.MaxInt, ring.Center)
		if len(all) <= 12 || covered(s, all, ring.Center) >= covered(s, bounded, ring.Center) {
			t.Errorf("%s: %d cells without a bound, %d with", s.Name(), len(all), len(bounded))
		}
	}
}

// The grid of areas: every point of a circle of any radius that is allowed finds it
// under exactly one key, there are not more keys than it says, and not fewer than
// it takes for the covers to be tight.
func TestAreas(t *testing.T) {
	g := Areas()
	r := rand.New(rand.NewPCG(33, 34))
	var ratios []float64
	rows := 0
	for i := range 1000 {
		c := geo.Circle{Center: randomPlace(r), Radius: math.Pow(10, 5*r.Float64())}
		if i < len(extremes()) {
			c.Center = extremes()[i]
		}
		if i%10 == 0 {
			c.Radius = []float64{1, 100_000}[i/10%2]
		}
		keys := g.Keys(c)
		if len(keys) == 0 || len(keys) > g.cells || !slices.IsSorted(keys) || keys[0] <= 0 {
			t.Fatalf("%+v: keys %v", c, keys)
		}
		rows += len(keys)
		points := []geo.LatLng{c.Center, {Lat: c.Center.Lat, Lng: -c.Center.Lng}}
		for range 10 {
			points = append(points, destination(c.Center, c.Radius*math.Sqrt(r.Float64()), 6.3*r.Float64()))
		}
		p := destination(c.Center, c.Radius, 6.3*r.Float64())
		for _, c := range []geo.Circle{c, {Center: c.Center, Radius: c.Center.Distance(p)}} {
			for _, p := range append(points, p) {
				if !c.Contains(p) {
					continue
				}
				found := 0
				at := g.KeysAt(p)
				if len(at) != 20 || !slices.IsSorted(at) {
					t.Fatalf("%v: %d keys %v", p, len(at), at)
				}
				for _, k := range g.Keys(c) {
					if _, ok := slices.BinarySearch(at, k); ok {
						found++
					}
				}
				if found != 1 {
					t.Fatalf("%v is in %d cells of %+v", p, found, c)
				}
			}
		}
		if math.Abs(c.Center.Lat) < 60 {
			ratios = append(ratios, covered(S2, Cells(S2, geo.Ring{Center: c.Center, Outer: c.Radius}, g.coarsest, g.finest, g.cells), c.Center)/
				(math.Pi*c.Radius*c.Radius))
		}
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.Logf("%.1f keys; covered area / circle: median %.2f, 95 %% %.2f, most %.2f", float64(rows)/1000, median, ratios[len(ratios)*95/100], ratios[len(ratios)-1])
	if median > 1.75 {
		t.Errorf("the median cover is %.2f times the circle, want at most 1.75", median)
	}
}

// Keys name one cell each.
func TestKeysAreDistinct(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, s := range []Scheme{S2, Geohash} {
		of := map[int64]Range{}
		for range 300 {
			for _, c := range Holders(s, s.Index(randomPlace(r)), 0, 29) {
				if was, ok := of[c.key()]; ok && was != c {
					t.Fatalf("%s: %+v and %+v have the key %d", s.Name(), was, c, c.key())
				}
				of[c.key()] = c
			}
		}
	}
}

func FuzzCells(f *testing.F) {
	// go test -run '^$' -fuzz '^FuzzCells$' -fuzztime 30s ./geo/cell
	f.Add(37.5665, 126.978, 0.0, 500.0, 37.57, 126.98, 10)
	f.Add(90.0, 180.0, 0.0, 1e4, 89.95, -77.0, 8)
	f.Add(0.0, 180.0, 100.0, 2e4, 0.1, -179.95, 1)
	f.Fuzz(func(t *testing.T, lat, lng, inner, outer, pLat, pLng float64, most int) {
		center, err1 := geo.NewLatLng(lat, lng)
		p, err2 := geo.NewLatLng(pLat, pLng)
		if err1 != nil || err2 != nil || most > 100 {
			return
		}
		d := center.Distance(p)
		for _, s := range schemes {
			checkCells(t, s, geo.Ring{Center: center, Inner: inner, Outer: outer}, 0, 30, most, p, center)
			checkCells(t, s, geo.Ring{Center: center, Outer: d}, 1, 20, most, p)
		}
	})
}

func ExampleGrid() {
	home := geo.Circle{Center: geo.LatLng{Lat: 37.5547, Lng: 126.9707}, Radius: 500}
	job := geo.LatLng{Lat: 37.5565, Lng: 126.9735}

	stored := map[int64]geo.Circle{} // a table in real life
	for _, key := range Areas().Keys(home) {
		stored[key] = home
	}
	for _, key := range Areas().KeysAt(job) {
		if area, ok := stored[key]; ok && area.Contains(job) {
			fmt.Printf("%.0f m away", area.Center.Distance(job))
		}
	}
	// Output: 318 m away
}

func BenchmarkCells(b *testing.B) {
	c := geo.Circle{Center: geo.LatLng{Lat: 37.5665, Lng: 126.978}, Radius: 3000}
	b.Run("area", func(b *testing.B) {
		for b.Loop() {
			if len(Areas().Keys(c)) == 0 {
				b.Fatal("no keys")
			}
		}
	})
	b.Run("point", func(b *testing.B) {
		for b.Loop() {
			if len(Areas().KeysAt(c.Center)) != 20 {
				b.Fatal("not 20 keys")
			}
		}
	})
}
