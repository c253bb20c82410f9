package geo

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// destination returns the point at a distance in metres and a bearing in
// degrees clockwise from north, to about 1e-8 m away from the poles.
func destination(p LatLng, distance, bearing float64) LatLng {
	sinB, cosB := math.Sincos(bearing * radPerDeg)
	sinD, cosD := math.Sincos(distance / EarthRadius)
	sinP, cosP := math.Sincos(p.Lat * radPerDeg)
	// The unit vector, with p on the meridian of x.
	x := cosP*cosD - sinP*sinD*cosB
	y := sinD * sinB
	z := sinP*cosD + cosP*sinD*cosB
	lng := p.Lng + math.Atan2(y, x)/radPerDeg
	if lng > 180 {
		lng -= 360
	} else if lng <= -180 {
		lng += 360
	}
	return LatLng{math.Atan2(z, math.Hypot(x, y)) / radPerDeg, lng}
}

// genPoint draws points over the whole sphere and at the places where geometry
// goes wrong.
func genPoint() *rapid.Generator[LatLng] {
	return rapid.Custom(func(t *rapid.T) LatLng {
		lat := rapid.OneOf(rapid.Float64Range(-90, 90), rapid.SampledFrom([]float64{-90, -89.99999999, -60, 0, 45, 85.06, 89.9, 90})).Draw(t, "lat")
		lng := rapid.OneOf(rapid.Float64Range(-180, 180), rapid.SampledFrom([]float64{-180, -179.9999999, -90, 0, 90, 179.9, 180})).Draw(t, "lng")
		p, err := NewLatLng(lat, lng)
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

func genRadius() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Float64Range(-9, 7.3014), func(e float64) float64 { return math.Pow(10, e) }),
		rapid.SampledFrom([]float64{0, 1e-12, 1, 5000, MaxDistance / 2, MaxDistance - 1, MaxDistance, 1e9, math.Inf(1)}),
	)
}

func TestCircleContains(t *testing.T) {
	tests := []struct {
		name string
		c    Circle
		p    LatLng
		want bool
	}{
		{"zero radius, the centre", Circle{seoul, 0}, seoul, true},
		{"zero radius, beside it", Circle{seoul, 0}, LatLng{seoul.Lat, 126.97800000000001}, false},
		{"zero radius over the antimeridian", Circle{LatLng{5, 180}, 0}, LatLng{5, -180}, true},
		{"zero radius at a pole", Circle{LatLng{90, 0}, 0}, LatLng{90, 99}, true},
		{"on the edge", Circle{LatLng{0, 0}, LatLng{0, 0}.Distance(LatLng{3, 4})}, LatLng{3, 4}, true},
		{"just outside", Circle{LatLng{0, 0}, math.Nextafter(LatLng{0, 0}.Distance(LatLng{3, 4}), 0)}, LatLng{3, 4}, false},
		{"over the antimeridian", Circle{LatLng{0, 179.99}, 3000}, LatLng{0, -179.99}, true},
		{"over a pole", Circle{LatLng{89.99, 10}, 3000}, LatLng{89.99, -170}, true},
		{"short of the antipode", Circle{LatLng{0, 0}, MaxDistance - 1}, LatLng{0, 180}, false},
		{"whole earth, the antipode", Circle{LatLng{0, 0}, MaxDistance}, LatLng{0, 180}, true},
		{"whole earth, infinite", Circle{LatLng{12, 34}, inf}, LatLng{-12, -146}, true},
		{"negative radius", Circle{seoul, -1}, seoul, false},
		{"NaN radius", Circle{seoul, nan}, seoul, false},
		{"NaN point", Circle{seoul, inf}, LatLng{nan, 0}, false},
	}
	for _, tt := range tests {
		if got := tt.c.Contains(tt.p); got != tt.want {
			t.Errorf("%s: %v.Contains(%v) = %v", tt.name, tt.c, tt.p, got)
		}
	}
}

func TestRingContains(t *testing.T) {
	o := LatLng{0, 0}
	d := o.Distance(LatLng{0, 1})
	tests := []struct {
		name string
		r    Ring
		p    LatLng
		want bool
	}{
		{"inner edge", Ring{o, d, 2 * d}, LatLng{0, 1}, true},
		{"outer edge", Ring{o, 0, d}, LatLng{0, 1}, true},
		{"both edges", Ring{o, d, d}, LatLng{0, 1}, true},
		{"within", Ring{o, math.Nextafter(d, inf), 2 * d}, LatLng{0, 1}, false},
		{"beyond", Ring{o, 0, math.Nextafter(d, 0)}, LatLng{0, 1}, false},
		{"zero ring", Ring{o, 0, 0}, o, true},
		{"over the antimeridian", Ring{LatLng{0, 179.5}, d / 2, 2 * d}, LatLng{0, -179.5}, true},
		{"round a pole", Ring{LatLng{90, 0}, d / 2, 2 * d}, LatLng{89, 77}, true},
		{"whole earth", Ring{o, 1, inf}, LatLng{0, 180}, true},
		{"inside out", Ring{o, 2 * d, d}, LatLng{0, 1.5}, false},
	}
	for _, tt := range tests {
		if got := tt.r.Contains(tt.p); got != tt.want {
			t.Errorf("%s: %v.Contains(%v) = %v", tt.name, tt.r, tt.p, got)
		}
	}
}

func TestCircleBound(t *testing.T) {
	const degree = EarthRadius * math.Pi / 180
	half := func(lat, r float64) float64 { // the exact half width, away from its singularity
		return math.Asin(math.Sin(r*radPerDeg)/math.Cos(lat*radPerDeg)) / radPerDeg
	}
	tests := []struct {
		name   string
		center LatLng
		radius float64 // degrees
		want   Rect
	}{
		{"zero radius", LatLng{10, 20}, 0, Rect{10, 20, 10, 20}},
		{"zero radius at a pole", LatLng{90, 20}, 0, Rect{90, -180, 90, 180}},
		{"zero radius at the antimeridian", LatLng{10, 180}, 0, Rect{10, 180, 10, -180}},
		{"equator", LatLng{0, 20}, 1, Rect{-1, 19, 1, 21}},
		{"equator, large", LatLng{0, 20}, 60, Rect{-60, -40, 60, 80}},
		{"at 60 degrees", LatLng{60, 20}, 1, Rect{59, 20 - half(60, 1), 61, 20 + half(60, 1)}},
		{"at -85 degrees", LatLng{-85, 20}, 3, Rect{-88, 20 - half(85, 3), -82, 20 + half(85, 3)}},
		{"over the antimeridian eastward", LatLng{0, 179.5}, 1, Rect{-1, 178.5, 1, -179.5}},
		{"over the antimeridian westward", LatLng{0, -179.5}, 1, Rect{-1, 179.5, 1, -178.5}},
		{"centre at 180", LatLng{0, 180}, 1, Rect{-1, 179, 1, -179}},
		{"centre at -180", LatLng{0, -180}, 1, Rect{-1, 179, 1, -179}},
		{"holds the north pole", LatLng{80, 20}, 15, Rect{65, -180, 90, 180}},
		{"holds the south pole", LatLng{-80, 20}, 15, Rect{-90, -180, -65, 180}},
		{"touches a pole", LatLng{80, 20}, 10, Rect{70, -180, 90, 180}},
		{"touches both poles", LatLng{0, 20}, 90, Rect{-90, -180, 90, 180}},
		{"centre at a pole", LatLng{-90, 20}, 1, Rect{-90, -180, -89, 180}},
		{"just short of a pole", LatLng{80, 20}, 9.999999, Rect{70.000001, 20 - half(80, 9.999999), 89.999999, 20 + half(80, 9.999999)}},
		{"nearly the whole earth", LatLng{30, 20}, 179, Rect{-90, -180, 90, 180}},
		{"the whole earth", LatLng{30, 20}, 180, Rect{-90, -180, 90, 180}},
		{"more than the whole earth", LatLng{30, 20}, 1e6, Rect{-90, -180, 90, 180}},
		{"infinite", LatLng{30, 20}, inf, Rect{-90, -180, 90, 180}},
		{"negative", LatLng{30, 20}, -1, Rect{30, 20, 30, 20}},
		{"NaN", LatLng{30, 20}, nan, Rect{30, 20, 30, 20}},
	}
	for _, tt := range tests {
		got := Circle{tt.center, tt.radius * degree}.Bound()
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		// Outward by more than nothing, unless at the end of the range, and by
		// little: the short-of-a-pole row has a steep arc sine.
		out := func(name string, d float64) {
			tolerance := 2e-12
			if tt.name == "just short of a pole" {
				tolerance = 2e-9
			}
			if d < 0 || d > tolerance {
				t.Errorf("%s: %s of %v is %.3g degrees outside %v, want 0 to %g", tt.name, name, got, d, tt.want, tolerance)
			}
		}
		out("south", tt.want.South-got.South)
		out("north", got.North-tt.want.North)
		out("west", math.Remainder(tt.want.West-got.West, 360))
		out("east", math.Remainder(got.East-tt.want.East, 360))
	}
}

// checkBound places points at the radius at all bearings, densely at those
// where the box touches the circle, and moves the radius to exactly the computed
// distance: the box must hold each.
func checkBound(t interface{ Fatalf(string, ...any) }, c Circle) {
	bearings := make([]float64, 0, 64)
	for b := 0.0; b < 360; b += 15 {
		bearings = append(bearings, b)
	}
	// A circle touches its extreme meridians at bearing acos(tan(lat)tan(r)).
	if x := math.Tan(c.Center.Lat*radPerDeg) * math.Tan(min(c.Radius, MaxDistance)/EarthRadius); math.Abs(x) <= 1 {
		b := math.Acos(x) / radPerDeg
		for _, e := range []float64{0, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3} {
			bearings = append(bearings, b-e, b+e, -b-e, -b+e)
		}
	}
	bound := c.Bound()
	for _, b := range bearings {
		p := destination(c.Center, min(c.Radius, MaxDistance), b)
		if c.Contains(p) && !bound.Contains(p) {
			t.Fatalf("%v holds %v, its bound %v does not", c, p, bound)
		}
		edge := Circle{c.Center, c.Center.Distance(p)}
		if e := edge.Bound(); !e.Contains(p) {
			t.Fatalf("%v holds %v (bearing %v), its bound %v does not", edge, p, b, e)
		}
	}
}

func TestCircleBoundHoldsItsEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkBound(t, Circle{genPoint().Draw(t, "center"), genRadius().Draw(t, "radius")})
	})
}

// Radii chosen so that the edge comes within a hair of a pole, where the half
// width goes from 90 to 180 degrees.
func TestCircleBoundNearPole(t *testing.T) {
	for _, lat := range []float64{89.999999999, 89.9, 80, 45, 10, 1e-9, 0} {
		for _, sign := range []float64{1, -1} {
			for _, gap := range []float64{-1, -1e-6, -1e-8, -1e-9, 0, 1e-9, 1e-8, 3e-8, 1e-7, 1e-6, 1} {
				for _, lng := range []float64{0, 90, 180, -179.999} {
					r := (90-lat)*EarthRadius*radPerDeg + gap
					if r >= 0 {
						checkBound(t, Circle{LatLng{sign * lat, lng}, r})
					}
				}
			}
		}
	}
}

func TestPointsInCircleAreInBound(t *testing.T) {
	inside := 0
	rapid.Check(t, func(t *rapid.T) {
		c := Circle{genPoint().Draw(t, "center"), genRadius().Draw(t, "radius")}
		p := genPoint().Draw(t, "p")
		if rapid.Bool().Draw(t, "near") {
			p = destination(c.Center, min(c.Radius, MaxDistance)*rapid.Float64Range(0, 1).Draw(t, "part"), rapid.Float64Range(0, 360).Draw(t, "bearing"))
		}
		if !c.Contains(p) {
			return
		}
		inside++
		bound := c.Bound()
		if !bound.Contains(p) {
			t.Fatalf("%v holds %v, its bound %v does not", c, p, bound)
		}
		if d := bound.MinDistance(c.Center); d != 0 {
			t.Fatalf("the centre of %v is %v m from its bound", c, d)
		}
	})
	if inside == 0 {
		t.Error("no point was inside its circle: nothing was tested")
	}
}

func FuzzCircleBound(f *testing.F) {
	// go test -run '^$' -fuzz '^FuzzCircleBound$' -fuzztime 30s ./geo
	for _, s := range [][5]float64{
		{37.5, 127, 5000, 37.52, 127.01}, {0, 180, 0, 0, -180}, {89.99, 0, 2000, 89.99, 180}, {90, 0, 1, 90, 50},
		{80, 20, 1111950.8, 89.9999, 109.9}, {0, 0, 1e9, 0, 180}, {-45, -179.9, 1e5, -45.1, 179.9}, {0, 0, 10007557.176, 1e-9, 90},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4])
	}
	f.Fuzz(func(t *testing.T, lat, lng, radius, plat, plng float64) {
		center, err1 := NewLatLng(lat, lng)
		p, err2 := NewLatLng(plat, plng)
		if err1 != nil || err2 != nil {
			return
		}
		c := Circle{center, radius}
		bound := c.Bound()
		if err := bound.Validate(); err != nil {
			t.Fatalf("bound of %v: %v", c, err)
		}
		if c.Contains(p) && !bound.Contains(p) {
			t.Fatalf("%v holds %v, its bound %v does not", c, p, bound)
		}
		edge := Circle{center, center.Distance(p)}
		if e := edge.Bound(); !e.Contains(p) {
			t.Fatalf("%v holds %v, its bound %v does not", edge, p, e)
		}
		if radius >= 0 {
			checkBound(t, c)
		}
	})
}
