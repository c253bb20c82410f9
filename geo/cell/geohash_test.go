package cell

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/geo"
)

// text is the base 32 form of a geohash of 12 characters.
func text(n int64) string {
	const digits = "0123456789bcdefghjkmnpqrstuvwxyz"
	var b [12]byte
	for i := range b {
		b[i] = digits[n>>(5*(11-i))&31]
	}
	return string(b[:])
}

func TestGeohashPublished(t *testing.T) {
	tests := []struct {
		lat, lng float64
		want     string
		source   string
	}{
		{57.64911, 10.40744, "u4pruydqqvj", "Wikipedia, Geohash"},
		{42.605, -5.603, "ezs42", "Wikipedia, Geohash"},
		{-25.382708, -49.265506, "6gkzwgjzn820", "geohash.org"},
		{48.669, -4.329, "gbsuv", "Elasticsearch's manual"},
		{37.7749, -122.4194, "9q8yyk8yt", ""},
		{90, 180, "zzzzzzzzzzzz", "the last cell"},
		{-90, -180, "000000000000", "the first cell"},
		{0, 0, "s00000000000", "halves include their lower end"},
		{-90, 180, "pbpbpbpbpbpb", ""},
		{90, -180, "bpbpbpbpbpbp", ""},
	}
	for _, tt := range tests {
		if got := text(Geohash.Index(geo.LatLng{Lat: tt.lat, Lng: tt.lng})); got[:len(tt.want)] != tt.want {
			t.Errorf("%v, %v: %s, want %s (%s)", tt.lat, tt.lng, got, tt.want, tt.source)
		}
	}
}

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64Range(0, geohashSteps-1).Draw(t, "x")
		want := uint64(0)
		for bit := range geohashLevels {
			want |= x >> bit & 1 << (2 * bit)
		}
		if got := spread(x); got != want || squeeze(got) != x || squeeze(got|got<<1) != x {
			t.Fatalf("spread(%x) = %x, want %x; back: %x", x, got, want, squeeze(got))
		}
	})
}

func TestStepNeverDecreases(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for _, most := range []float64{90, 180} {
		for range 100000 {
			k := r.IntN(geohashSteps + 1)
			x := float64(k)/geohashSteps*(2*most) - most // a corner, or next to one
			below := max(-most, math.Nextafter(x, -400))
			if a, b := step(below, most), step(x, most); a > b || b >= geohashSteps || b-a > 1 {
				t.Fatalf("step(%v) = %d, step(%v) = %d", below, a, x, b)
			}
			y := -most + 2*most*r.Float64()
			if a, b := step(min(x, y), most), step(max(x, y), most); a > b {
				t.Fatalf("of %v and %v the steps are %d and %d", x, y, a, b)
			}
		}
		if step(-most, most) != 0 || step(most, most) != geohashSteps-1 || step(0, most) != geohashSteps/2 {
			t.Errorf("ends: %d, %d, %d", step(-most, most), step(most, most), step(0, most))
		}
	}
}

// A box holds the points filed under it, but for 1e-13 degrees. Corners that are
// exact doubles are filed to the north and east of them.
func TestGeohashBox(t *testing.T) {
	s := geohashScheme{}
	check := func(p geo.LatLng) {
		walk(t, s, p, func(c Cell) {
			b := s.box(c)
			const slack = 1e-13
			if p.Lat < b.South-slack || p.Lat > b.North+slack || p.Lng < b.West-slack || p.Lng > b.East+slack {
				t.Fatalf("%v is filed under %x, which is %v", p, c, b)
			}
			if err := b.Validate(); err != nil {
				t.Fatalf("box of %x: %v", c, err)
			}
		})
	}
	for _, p := range extremes() {
		check(p)
	}
	r := rand.New(rand.NewPCG(21, 22))
	for range 3000 {
		check(randomPlace(r))
		k := r.IntN(16)
		p := geo.LatLng{Lat: 180/float64(int(1)<<k)*float64(r.IntN(1<<k)) - 90, Lng: 360/float64(int(1)<<k)*float64(r.IntN(1<<k)) - 180}
		check(p)
		walk(t, s, p, func(c Cell) {
			// From level k on it is the south-west corner.
			if b := s.box(c); c&-c <= 1<<(2*(geohashLevels-k)) && (b.South != p.Lat || b.West != p.Lng) {
				t.Fatalf("%v is filed under %v", p, b)
			}
		})
	}
}
