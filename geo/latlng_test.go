package geo

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestNewLatLng(t *testing.T) {
	tests := []struct {
		lat, lng float64
		want     LatLng
		field    string // of the error, "" if none
	}{
		{0, 0, LatLng{0, 0}, ""},
		{37.5665, 126.978, LatLng{37.5665, 126.978}, ""},
		{math.Copysign(0, -1), math.Copysign(0, -1), LatLng{0, 0}, ""},
		{90, 45, LatLng{90, 45}, ""},
		{-90, -180, LatLng{-90, 180}, ""},
		{12, 180, LatLng{12, 180}, ""},
		{12, -180, LatLng{12, 180}, ""},
		{12, math.Nextafter(-180, 0), LatLng{12, math.Nextafter(-180, 0)}, ""},
		{85.06, 1, LatLng{85.06, 1}, ""}, // past the edge of Mercator maps
		{90.1, 0, LatLng{}, "lat"},
		{math.Nextafter(90, 91), 0, LatLng{}, "lat"},
		{math.Nextafter(-90, -91), 0, LatLng{}, "lat"},
		{0, math.Nextafter(180, 181), LatLng{}, "lng"},
		{0, math.Nextafter(-180, -181), LatLng{}, "lng"},
		{126.978, 37.5665, LatLng{}, "lat"}, // swapped
		{0, 360, LatLng{}, "lng"},
		{nan, 0, LatLng{}, "lat"},
		{0, nan, LatLng{}, "lng"},
		{inf, 0, LatLng{}, "lat"},
		{0, -inf, LatLng{}, "lng"},
		{nan, nan, LatLng{}, "lat"},
	}
	for _, tt := range tests {
		got, err := NewLatLng(tt.lat, tt.lng)
		if tt.field == "" {
			if err != nil || got != tt.want || math.Signbit(got.Lat) != (got.Lat < 0) || math.Signbit(got.Lng) != (got.Lng < 0) {
				t.Errorf("NewLatLng(%v, %v) = %v, %v, want %v", tt.lat, tt.lng, got, err, tt.want)
			}
			if err := (LatLng{tt.lat, tt.lng}).Validate(); err != nil {
				t.Errorf("Validate of %v, %v: %v", tt.lat, tt.lng, err)
			}
			continue
		}
		var re *RangeError
		if !errors.As(err, &re) || re.Field != tt.field || got != (LatLng{}) {
			t.Errorf("NewLatLng(%v, %v) = %v, %v, want a RangeError for %s", tt.lat, tt.lng, got, err, tt.field)
		}
	}
}

func TestRangeErrorText(t *testing.T) {
	_, err := NewLatLng(91.5, 0)
	if got, want := err.Error(), "lat is 91.5, must be from -90 to 90 degrees"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLatLngStringReadsBack(t *testing.T) {
	for _, p := range []LatLng{{0, 0}, {127.1 / 2, 127.1}, {-90, 180}, {1e-7, -1e-12}, {1. / 3, -100. / 3}} {
		lat, lng, ok := strings.Cut(p.String(), ",")
		a, err1 := strconv.ParseFloat(lat, 64)
		b, err2 := strconv.ParseFloat(lng, 64)
		if !ok || err1 != nil || err2 != nil || (LatLng{a, b}) != p {
			t.Errorf("%q does not read back as %v, %v", p.String(), p.Lat, p.Lng)
		}
	}
}
