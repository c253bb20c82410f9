package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// randomPoint is spread evenly over the sphere, or one time in four at a place
// where geometry goes wrong.
func randomPoint(r *rand.Rand) LatLng {
	if r.IntN(4) > 0 {
		return LatLng{math.Asin(2*r.Float64()-1) * 180 / math.Pi, 180 - 360*r.Float64()}
	}
	pick := func(xs ...float64) float64 { return xs[r.IntN(len(xs))] }
	tiny := pick(0, 0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3) * (2*r.Float64() - 1)
	lat := pick(-90, -89.999999, -45, 0, 30, 45, 85.06, 89.999999, 90) + tiny
	lng := pick(-180, -179.999999, -90, 0, 90, 179.999999, 180) - tiny
	return LatLng{min(max(lat, -90), 90), min(max(lng, -180), 180)}
}

// pairs calls f with point pairs at all distances: random ones, near ones down
// to 1e-15 degrees, and near antipodes.
func pairs(seed uint64, n int, f func(p, q LatLng)) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		p, q := randomPoint(r), randomPoint(r)
		switch i % 4 {
		case 1:
			q = near(r, p)
		case 2:
			q = near(r, p.antipode())
		}
		f(p, q)
	}
}

func near(r *rand.Rand, p LatLng) LatLng {
	e := math.Pow(10, -15*r.Float64())
	if r.IntN(8) == 0 {
		e = 0
	}
	lng := p.Lng + e*r.NormFloat64()
	if lng > 180 {
		lng -= 360
	} else if lng < -180 {
		lng += 360
	}
	return LatLng{min(max(p.Lat+e*r.NormFloat64(), -90), 90), lng}
}

var accuracyPairs = []struct {
	name string
	p, q LatLng
}{
	{"identical", LatLng{37.5665, 126.978}, LatLng{37.5665, 126.978}},
	{"1e-12 apart", LatLng{37.5665, 126.978}, LatLng{37.566500000001, 126.978}},
	{"1e-12 apart in both", LatLng{37.5665, 1e-12}, LatLng{37.566500000001, -1e-12}},
	{"denormal", LatLng{0, 5e-324}, LatLng{5e-324, 0}},
	{"squares underflow", LatLng{1e-160, 0}, LatLng{0, 1e-155}},
	{"equator", LatLng{0, -10}, LatLng{0, 10}},
	{"equator, a quarter", LatLng{0, -45}, LatLng{0, 45}},
	{"equator, just over a quarter", LatLng{0, -45}, LatLng{0, 45.00000000000001}},
	{"pole to equator", LatLng{90, 12}, LatLng{0, 34}},
	{"pole to pole", LatLng{90, 0}, LatLng{-90, 77}},
	{"one pole twice", LatLng{-90, 0}, LatLng{-90, 135}},
	{"over a pole", LatLng{89.9999, 0}, LatLng{89.9999, 180}},
	{"beside a pole", LatLng{90, 0}, LatLng{89.99999999999999, 180}},
	{"antimeridian", LatLng{10, 179.9999999}, LatLng{10, -179.9999999}},
	{"antimeridian, same", LatLng{10, 180}, LatLng{10, -180}},
	{"antipodes", LatLng{37.5, 127}, LatLng{-37.5, -53}},
	{"antipodes on the equator", LatLng{0, 0}, LatLng{0, 180}},
	{"near antipodes", LatLng{0, 0}, LatLng{1e-9, 179.9999999999}},
	{"near antipodes", LatLng{45, -90}, LatLng{-45.0000001, 90.0000001}},
	{"uneven longitudes over the antimeridian", LatLng{1, 179}, LatLng{-2, -1.1}},
}

func checkAccuracy(t *testing.T, p, q LatLng) (ulps float64) {
	t.Helper()
	d := p.Distance(q)
	e := bigError(d, bigDistance(p, q))
	if e > MaxError(d) || !(d >= 0 && d <= MaxDistance) {
		t.Errorf("%v to %v: %v m is off by %.3g m, more than %.3g", p, q, d, e, MaxError(d))
	}
	if r := q.Distance(p); r != d {
		t.Errorf("%v to %v: %v m, but back %v m", p, q, d, r)
	}
	if o := NewOrigin(p).Distance(q); o != d {
		t.Errorf("%v to %v: %v m, from an Origin %v m", p, q, d, o)
	}
	return e / max(d, 1e-3) * 0x1p53
}

func TestDistanceIsWithinMaxError(t *testing.T) {
	for _, tt := range accuracyPairs {
		t.Run(tt.name, func(t *testing.T) { checkAccuracy(t, tt.p, tt.q) })
	}
	n := 6000
	if testing.Short() {
		n = 1000
	}
	worst := 0.0
	pairs(1, n, func(p, q LatLng) { worst = max(worst, checkAccuracy(t, p, q)) })
	t.Logf("worst relative error of %d random pairs: %.2f * 2^-53 (MaxError allows 32)", n, worst)
	if worst < 0.5 {
		t.Error("no rounding error seen: the comparison compares nothing")
	}
}

func TestMaxErrorIsUseful(t *testing.T) {
	for _, tt := range []struct{ d, limit float64 }{
		{0, 1.1e-12}, {1, 1.1e-12}, {1e5, 1e-9}, {1e7, 4e-8}, {MaxDistance, 8e-8}, {inf, 8e-8},
	} {
		if e := MaxError(tt.d); !(e > 0 && e <= tt.limit) {
			t.Errorf("MaxError(%v) = %v, want at most %v", tt.d, e, tt.limit)
		}
	}
	last := 0.0
	for d := 1e-9; d < 1e9; d *= 1.01 {
		e := MaxError(d)
		if e < last {
			t.Fatalf("MaxError falls at %v", d)
		}
		last = e
	}
}

func TestDistanceExact(t *testing.T) {
	tests := []struct {
		name string
		p, q LatLng
		want float64
	}{
		{"antimeridian, one point", LatLng{0, 180}, LatLng{0, -180}, 0},
		{"antimeridian, one point, high", LatLng{77, -180}, LatLng{77, 180}, 0},
		{"north pole", LatLng{90, 0}, LatLng{90, 123}, 0},
		{"south pole", LatLng{-90, -180}, LatLng{-90, 1}, 0},
		{"negative zero", LatLng{math.Copysign(0, -1), 0}, LatLng{0, math.Copysign(0, -1)}, 0},
		{"equator antipodes", LatLng{0, 0}, LatLng{0, 180}, MaxDistance},
		{"equator antipodes, -180", LatLng{0, 0}, LatLng{0, -180}, MaxDistance},
		{"antipodes", LatLng{60, 30}, LatLng{-60, -150}, MaxDistance},
		{"poles", LatLng{90, 1}, LatLng{-90, 2}, MaxDistance},
	}
	for _, tt := range tests {
		if got := tt.p.Distance(tt.q); got != tt.want {
			t.Errorf("%s: %v to %v = %v, want exactly %v", tt.name, tt.p, tt.q, got, tt.want)
		}
	}
	pairs(2, 10000, func(p, _ LatLng) {
		if d := p.Distance(p); d != 0 {
			t.Errorf("%v to itself = %v", p, d)
		}
	})
	for _, p := range []LatLng{{nan, 0}, {0, nan}, {nan, nan}} {
		if d := p.Distance(LatLng{1, 2}); !math.IsNaN(d) {
			t.Errorf("%v to 1,2 = %v, want NaN", p, d)
		}
	}
}

// Published distances on spheres, scaled from their radius to ours.
func TestDistancePublished(t *testing.T) {
	dms := func(d, m, s float64) float64 { return d + m/60 + s/3600 }
	tests := []struct {
		source    string
		p, q      LatLng
		want      float64 // in the unit of radius
		radius    float64
		tolerance float64
	}{
		{"Ed Williams, Aviation Formulary: LAX to JFK, in radians",
			LatLng{dms(33, 57, 0), -dms(118, 24, 0)}, LatLng{dms(40, 38, 0), -dms(73, 47, 0)}, 0.623585, 1, 5e-7},
		{"Rosetta Code, Haversine formula: BNA to LAX, in km",
			LatLng{36.12, -86.67}, LatLng{33.94, -118.40}, 2887.2599506071, 6372.8, 1e-9},
		{"Movable Type Scripts: Land's End to John o'Groats, in km",
			LatLng{dms(50, 3, 59), -dms(5, 42, 53)}, LatLng{dms(58, 38, 38), -dms(3, 4, 12)}, 968.9, 6371, 0.05},
		// Redis stores positions in 52 bits, up to 0.3 m off.
		{"Redis, GEODIST: Palermo to Catania, in m",
			LatLng{38.115556, 13.361389}, LatLng{37.502669, 15.087269}, 166274.1516, 6372797.560856, 0.6},
		{"definition of the metre's mile: one minute of latitude is R*pi/10800",
			LatLng{45, 7}, LatLng{45 + 1./60, 7}, math.Pi / 10800, 1, 1e-16},
	}
	for _, tt := range tests {
		if got := tt.p.Distance(tt.q) * tt.radius / EarthRadius; math.Abs(got-tt.want) > tt.tolerance {
			t.Errorf("%s: got %.10v, want %v", tt.source, got, tt.want)
		}
	}
}

// Distances on both sides of the switch to the antipode's haversine must not
// jump by more than their error.
func TestDistanceIsContinuousAtAQuarter(t *testing.T) {
	last := 0.0
	for x := 89.999999; x < 90.000001; x += 1e-10 {
		d := LatLng{0, 0}.Distance(LatLng{0, x})
		if d < last-2*MaxError(d) {
			t.Fatalf("distance falls from %v to %v at %v degrees", last, d, x)
		}
		last = d
	}
}

func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	tests := []struct {
		name    string
		got     func(float64) float64
		want    func(float64) float64
		hi      float64
		allowed float64 // units of 2^-53, relative
		exact   map[float64]float64
	}{
		{"sinDeg", sinDeg, func(x float64) float64 { return bigToFloat(bigSin(x)) }, 90, 4, map[float64]float64{0: 0, 90: 1}},
		{"cosDeg", cosDeg, func(x float64) float64 { return bigToFloat(bigCos(x)) }, 90, 4, map[float64]float64{0: 1, 90: 0}},
		{"asinKernel", asinKernel, func(x float64) float64 { return bigToFloat(bigAsin(x)) }, 0.7072, 4, map[float64]float64{0: 0}},
	}
	for _, tt := range tests {
		for x, want := range tt.exact {
			if got := tt.got(x); got != want {
				t.Errorf("%s(%v) = %v, want exactly %v", tt.name, x, got, want)
			}
		}
		worst := 0.0
		for range 5000 {
			x := tt.hi * r.Float64()
			if r.IntN(4) == 0 {
				x *= math.Pow(10, -12*r.Float64())
			}
			got, want := tt.got(x), tt.want(x)
			e := math.Abs(got-want) / want * 0x1p53
			worst = max(worst, e)
			if e > tt.allowed {
				t.Errorf("%s(%v) = %v, want %v: off by %.2f * 2^-53", tt.name, x, got, want, e)
			}
		}
		t.Logf("%s: worst relative error %.2f * 2^-53", tt.name, worst)
	}
}

func FuzzDistance(f *testing.F) {
	// go test -run '^$' -fuzz '^FuzzDistance$' -fuzztime 30s ./geo
	for _, tt := range accuracyPairs {
		f.Add(tt.p.Lat, tt.p.Lng, tt.q.Lat, tt.q.Lng)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d float64) {
		p, err1 := NewLatLng(a, b)
		q, err2 := NewLatLng(c, d)
		if err1 != nil || err2 != nil {
			if d := (LatLng{a, b}).Distance(LatLng{c, d}); d < 0 {
				t.Errorf("negative distance %v", d)
			}
			return
		}
		checkAccuracy(t, p, q)
		if e := p.Distance(p); e != 0 {
			t.Errorf("%v to itself = %v", p, e)
		}
	})
}

func benchPoints() []LatLng {
	r := rand.New(rand.NewPCG(4, 1))
	points := make([]LatLng, 1024) // around Seoul, as in a real query
	for i := range points {
		points[i] = LatLng{37.5665 + 0.3*r.Float64(), 126.978 + 0.3*r.Float64()}
	}
	return points
}

func benchmarkDistance(b *testing.B, distance func(q LatLng) float64) {
	points := benchPoints()
	sum, n := 0.0, 0
	for b.Loop() {
		sum += distance(points[n%len(points)])
		n++
	}
	if mean := sum / float64(n); !(mean > 0 && mean < 60e3) {
		b.Fatalf("mean distance %v m", mean)
	}
}

var seoul = LatLng{37.5665, 126.978}

func BenchmarkDistance(b *testing.B) { benchmarkDistance(b, seoul.Distance) }

func BenchmarkOriginDistance(b *testing.B) { benchmarkDistance(b, NewOrigin(seoul).Distance) }

// BenchmarkMathDistance is what the textbook formula over package math costs.
func BenchmarkMathDistance(b *testing.B) {
	benchmarkDistance(b, func(q LatLng) float64 {
		s := math.Sin((q.Lat - seoul.Lat) * radPerDeg / 2)
		t := math.Sin((q.Lng - seoul.Lng) * radPerDeg / 2)
		h := s*s + math.Cos(seoul.Lat*radPerDeg)*math.Cos(q.Lat*radPerDeg)*t*t
		return 2 * EarthRadius * math.Asin(math.Sqrt(min(1, h)))
	})
}
