package geo

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const firstLng = -179.99999999999997

func TestNewRect(t *testing.T) {
	tests := []struct {
		name                     string
		south, west, north, east float64
		field                    string
	}{
		{"plain", 1, 2, 3, 4, ""},
		{"a point", 1, 2, 1, 2, ""},
		{"crosses the antimeridian", 1, 170, 3, -170, ""},
		{"all", -90, -180, 90, 180, ""},
		{"a pole", 90, -180, 90, 180, ""},
		{"south above north", 3, 2, 1, 4, "south"},
		{"south too low", -91, 2, 1, 4, "south"},
		{"north too high", 3, 2, 91, 4, "north"},
		{"west too low", 1, -181, 3, 4, "west"},
		{"east too high", 1, 2, 3, 181, "east"},
		{"NaN south", nan, 2, 3, 4, "south"},
		{"NaN west", 1, nan, 3, 4, "west"},
		{"NaN north", 1, 2, nan, 4, "north"},
		{"infinite east", 1, 2, 3, inf, "east"},
	}
	for _, tt := range tests {
		got, err := NewRect(tt.south, tt.west, tt.north, tt.east)
		var re *RangeError
		switch {
		case tt.field == "" && (err != nil || got != Rect{tt.south, tt.west, tt.north, tt.east}):
			t.Errorf("%s: got %v, %v", tt.name, got, err)
		case tt.field != "" && (!errors.As(err, &re) || re.Field != tt.field):
			t.Errorf("%s: got %v, %v, want a RangeError for %s", tt.name, got, err, tt.field)
		}
	}
	z := math.Copysign(0, -1)
	if r, err := NewRect(z, z, z, z); err != nil || math.Signbit(r.South) || math.Signbit(r.West) || math.Signbit(r.North) || math.Signbit(r.East) {
		t.Errorf("negative zeros stay: %v, %v", r, err)
	}
}

// Every combination at the antimeridian: which longitudes are in, how the box
// splits, where its middle is.
func TestRectLongitudes(t *testing.T) {
	all := []float64{-180, firstLng, -175, -170, -10, 0, 10, 170, 175, 179.99999999999997, 180}
	tests := []struct {
		west, east float64
		in         []float64
		split      [][2]float64
		center     float64
	}{
		{-10, 10, []float64{-10, 0, 10}, [][2]float64{{-10, 10}}, 0},
		{10, 10, []float64{10}, [][2]float64{{10, 10}}, 10},
		{170, 180, []float64{-180, 170, 175, 179.99999999999997, 180}, [][2]float64{{170, 180}}, 175},
		{170, -180, []float64{-180, 170, 175, 179.99999999999997, 180}, [][2]float64{{170, 180}}, 175},
		{-180, -170, []float64{-180, firstLng, -175, -170, 180}, [][2]float64{{180, 180}, {firstLng, -170}}, -175},
		{180, -170, []float64{-180, firstLng, -175, -170, 180}, [][2]float64{{180, 180}, {firstLng, -170}}, -175},
		{-180, firstLng, []float64{-180, firstLng, 180}, [][2]float64{{180, 180}, {firstLng, firstLng}}, 180},
		{firstLng, -170, []float64{firstLng, -175, -170}, [][2]float64{{firstLng, -170}}, -175},
		{170, -170, []float64{-180, firstLng, -175, -170, 170, 175, 179.99999999999997, 180}, [][2]float64{{170, 180}, {firstLng, -170}}, 180},
		{175, -170, []float64{-180, firstLng, -175, -170, 175, 179.99999999999997, 180}, [][2]float64{{175, 180}, {firstLng, -170}}, -177.5},
		{180, 180, []float64{-180, 180}, [][2]float64{{180, 180}}, 180},
		{-180, -180, []float64{-180, 180}, [][2]float64{{180, 180}}, 180},
		{180, -180, []float64{-180, 180}, [][2]float64{{180, 180}}, 180},
		{-180, 180, all, [][2]float64{{-180, 180}}, 0},
		{10, -10, []float64{-180, firstLng, -175, -170, -10, 10, 170, 175, 179.99999999999997, 180}, [][2]float64{{10, 180}, {firstLng, -10}}, 180},
		{10, math.Nextafter(10, 0), slices.DeleteFunc(slices.Clone(all), func(x float64) bool { return false }), [][2]float64{{10, 180}, {firstLng, math.Nextafter(10, 0)}}, -170},
	}
	for _, tt := range tests {
		r, err := NewRect(-5, tt.west, 15, tt.east)
		if err != nil {
			t.Fatal(err)
		}
		for _, lng := range all {
			for _, lat := range []float64{-90, -5.1, -5, 0, 15, 15.1, 90} {
				want := lat >= -5 && lat <= 15 && slices.Contains(tt.in, lng)
				if got := r.Contains(LatLng{lat, lng}); got != want {
					t.Errorf("%v.Contains(%v, %v) = %v", r, lat, lng, got)
				}
			}
		}
		if got := r.CrossesAntimeridian(); got != (tt.west > tt.east) {
			t.Errorf("%v.CrossesAntimeridian() = %v", r, got)
		}
		var want []Rect
		for _, s := range tt.split {
			want = append(want, Rect{-5, s[0], 15, s[1]})
		}
		if got := r.Split(); !slices.Equal(got, want) {
			t.Errorf("%v.Split() = %v, want %v", r, got, want)
		}
		if got, want := r.Center(), (LatLng{5, tt.center}); math.Abs(got.Lng-want.Lng) > 6e-14 && !(want.Lng == 180 && math.Abs(got.Lng) > 179.9999) || got.Lat != want.Lat {
			t.Errorf("%v.Center() = %v, want %v", r, got, want)
		}
		if !r.Contains(r.Center()) {
			t.Errorf("%v does not contain its centre %v", r, r.Center())
		}
	}
}

func TestRectContainsPole(t *testing.T) {
	r := Rect{80, 10, 90, 20}
	if !r.Contains(LatLng{90, 15}) || r.Contains(LatLng{90, 30}) {
		t.Error("a pole is in a box by its longitude as written")
	}
	if r.Contains(LatLng{nan, 15}) || r.Contains(LatLng{85, nan}) {
		t.Error("NaN is in a box")
	}
}

func genRect() *rapid.Generator[Rect] {
	return rapid.Custom(func(t *rapid.T) Rect {
		p, q := genPoint().Draw(t, "p"), genPoint().Draw(t, "q")
		r := Rect{min(p.Lat, q.Lat), p.Lng, max(p.Lat, q.Lat), q.Lng}
		switch rapid.IntRange(0, 9).Draw(t, "shape") {
		case 0:
			r.West, r.East = -180, 180
		case 1:
			r.West = -180
		case 2:
			r.East = -180
		case 3: // small
			r.North = min(90, r.South+rapid.Float64Range(0, 0.01).Draw(t, "height"))
			if r.West < 179 {
				r.East = r.West + rapid.Float64Range(0, 0.01).Draw(t, "width")
			}
		}
		return r
	})
}

// A stored point is in exactly one part of a box that holds it, by the plain
// comparisons that SQL makes, and in none of another.
func TestRectSplitCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRect().Draw(t, "r")
		lng := rapid.OneOf(rapid.Float64Range(firstLng, 180), rapid.SampledFrom([]float64{firstLng, 180, normalLng(r.West), normalLng(r.East)})).Draw(t, "lng")
		p := LatLng{(r.South + r.North) / 2, lng}
		n, want := 0, 0
		if r.Contains(p) {
			want = 1
		}
		for _, s := range r.Split() {
			if s.West > s.East || s.Validate() != nil {
				t.Fatalf("%v.Split() has %v", r, s)
			}
			plain := s.West <= lng && lng <= s.East
			if plain != s.Contains(p) {
				t.Fatalf("part %v of %v: a plain comparison and Contains differ for %v", s, r, p)
			}
			if plain {
				n++
			}
		}
		if n != want {
			t.Fatalf("%v is in %d parts of %v, want %d", p, n, r, want)
		}
	})
}

func TestRectDistances(t *testing.T) {
	d := func(deg float64) float64 { return deg * EarthRadius * radPerDeg }
	tests := []struct {
		name     string
		r        Rect
		p        LatLng
		min, max float64
	}{
		{"inside", Rect{-1, -1, 1, 1}, LatLng{0, 0}, 0, LatLng{0, 0}.Distance(LatLng{1, 1})},
		{"on the corner", Rect{0, 0, 1, 1}, LatLng{0, 0}, 0, LatLng{0, 0}.Distance(LatLng{1, 1})},
		{"north of it", Rect{-1, -1, 1, 1}, LatLng{3, 0}, d(2), LatLng{3, 0}.Distance(LatLng{-1, 1})},
		{"east on the equator", Rect{-1, -1, 1, 1}, LatLng{0, 3}, d(2), LatLng{0, 3}.Distance(LatLng{1, -1})},
		{"a right angle east: the whole edge is as far", Rect{-80, -10, 80, 0}, LatLng{0, 90}, d(90), d(100)},
		// On a parallel the nearest point of a meridian lies nearer the pole.
		{"the foot is off the parallel", Rect{0, -1, 89, 0}, LatLng{60, 40}, math.Asin(math.Cos(60*radPerDeg)*math.Sin(40*radPerDeg)) * EarthRadius, LatLng{60, 40}.Distance(LatLng{0, -1})},
		{"the foot is above the edge", Rect{0, -1, 60, 0}, LatLng{60, 40}, LatLng{60, 40}.Distance(LatLng{60, 0}), LatLng{60, 40}.Distance(LatLng{0, -1})},
		{"over the antimeridian", Rect{0, 170, 1, 179}, LatLng{0, -179}, d(2), LatLng{0, -179}.Distance(LatLng{1, 170})},
		{"box across the antimeridian", Rect{0, 179, 1, -179}, LatLng{0, -178}, d(1), LatLng{0, -178}.Distance(LatLng{1, 179})},
		{"box across it, -180 inside", Rect{0, 179, 1, -179}, LatLng{0, -180}, 0, LatLng{0, 180}.Distance(LatLng{1, 179})},
		{"over the pole", Rect{70, -1, 80, 1}, LatLng{80, 180}, d(20) - 0, d(30)},
		{"at the pole", Rect{70, -1, 80, 1}, LatLng{90, 99}, d(10), d(20)},
		{"at the pole that the box touches", Rect{70, -1, 90, 1}, LatLng{90, 99}, 0, d(20)},
		{"at the far pole", Rect{70, -1, 80, 1}, LatLng{-90, 99}, d(160), d(170)},
		{"the antipode is inside", Rect{-10, 170, 10, -170}, LatLng{0, 0}, LatLng{0, 0}.Distance(LatLng{10, 170}), MaxDistance},
		{"the antipode is a corner", Rect{0, 170, 10, 180}, LatLng{0, 0}, LatLng{0, 0}.Distance(LatLng{10, 170}), MaxDistance},
		{"all", Rect{-90, -180, 90, 180}, seoul, 0, MaxDistance},
		{"a band", Rect{10, -180, 20, 180}, LatLng{0, 55}, d(10), d(170)},
		{"one point", Rect{1, 2, 1, 2}, LatLng{1, 2}, 0, 0},
		{"the south pole alone", Rect{-90, 5, -90, 5}, LatLng{0, 0}, d(90), d(90)},
	}
	for _, tt := range tests {
		if tt.name == "over the pole" { // the nearest is a corner: 1 degree off the meridian opposite
			tt.min = LatLng{80, 180}.Distance(LatLng{80, 1})
		}
		lo, hi := tt.r.MinDistance(tt.p), tt.r.MaxDistance(tt.p)
		if e := tt.min - lo; e < 0 || e > 4e-7 {
			t.Errorf("%s: MinDistance of %v from %v is %.9f, want %.9f", tt.name, tt.p, tt.r, lo, tt.min)
		}
		if e := hi - tt.max; e < -1e-8 || e > 4e-7 {
			t.Errorf("%s: MaxDistance of %v from %v is %.9f, want %.9f", tt.name, tt.p, tt.r, hi, tt.max)
		}
	}
}

// sample scores points of the box and returns the one with the least score: a
// grid with its edges and corners, the hints moved into the box, then a search
// with ever finer steps from the best of them. The hints are for the poles,
// where all longitudes look alike to the search.
func sample(r Rect, score func(LatLng) float64, hints ...LatLng) LatLng {
	const n = 12
	w := r.width()
	at := func(x, y float64) LatLng {
		lng := r.West + x*w
		if lng > 180 {
			lng -= 360
		}
		switch { // rounding must not leave the box
		case x == 0:
			lng = r.West
		case x == 1:
			lng = r.East
		}
		return LatLng{min(max(r.South+y*(r.North-r.South), r.South), r.North), lng}
	}
	least := math.Inf(1)
	var best LatLng
	bx, by := 0.0, 0.0
	try := func(x, y float64) {
		x, y = min(max(x, 0), 1), min(max(y, 0), 1)
		p := at(x, y)
		if !r.Contains(p) {
			return
		}
		if s := score(p); s < least {
			least, bx, by, best = s, x, y, p
		}
	}
	for i := range n + 1 {
		for j := range n + 1 {
			try(float64(i)/n, float64(j)/n)
		}
	}
	for _, p := range hints {
		x := math.Mod(p.Lng-r.West+720, 360) / max(w, 1e-300)
		y := (p.Lat - r.South) / max(r.North-r.South, 1e-300)
		for _, yy := range []float64{0, y, 1} {
			try(x, yy)
		}
	}
	// Each edge has a minimum of its own, so search from the best of each too.
	search := func() {
		step := 1.0 / n
		for i := 0; step > 1e-13 && i < 500; i++ { // limited, for it may creep along a valley
			x, y, before := bx, by, least
			for _, dx := range []float64{-1, 0, 1} {
				for _, dy := range []float64{-1, 0, 1} {
					try(x+dx*step, y+dy*step)
				}
			}
			if least == before {
				step /= 2
			} else {
				step = min(2*step, 1.0/n)
			}
		}
	}
	search()
	overall, found := best, least
	for _, x := range []float64{0, 1} {
		least = math.Inf(1)
		for j := range n + 1 {
			try(x, float64(j)/n)
		}
		if search(); least < found {
			overall, found = best, least
		}
	}
	return overall
}

func TestRectDistanceBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, p := genRect().Draw(t, "r"), genPoint().Draw(t, "p")
		if rapid.IntRange(0, 3).Draw(t, "near") == 0 {
			p = destination(r.Center(), math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "log")), rapid.Float64Range(0, 360).Draw(t, "bearing"))
		}
		lo, hi := r.MinDistance(p), r.MaxDistance(p)
		check := func(q LatLng) float64 {
			d := p.Distance(q)
			if d < lo || d > hi {
				t.Fatalf("%v of %v is %v m from %v, not in %v..%v", q, r, d, p, lo, hi)
			}
			return d
		}
		nearest := check(sample(r, check, p))
		farthest := check(sample(r, func(q LatLng) float64 { return -check(q) }, p.antipode()))
		// Not loose: the search finds the extremes to a micrometre or so.
		if nearest-lo > 1e-5 {
			t.Fatalf("MinDistance from %v to %v is %v, the nearest point found is at %v", p, r, lo, nearest)
		}
		if hi-farthest > 1e-5 {
			t.Fatalf("MaxDistance from %v to %v is %v, the farthest point found is at %v", p, r, hi, farthest)
		}
	})
}
