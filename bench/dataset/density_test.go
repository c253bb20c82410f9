package dataset_test

import (
	"testing"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/geo"
)

func TestDensity(t *testing.T) {
	at := func(lat, lng float64) geo.LatLng { return geo.LatLng{Lat: lat, Lng: lng} }
	for _, tt := range []struct {
		name   string
		places []geo.LatLng
		want   geo.LatLng
		ok     bool
	}{
		{"none", nil, geo.LatLng{}, false},
		{"only unknown ones", []geo.LatLng{{}, {}}, geo.LatLng{}, false},
		{"one", []geo.LatLng{at(-33.1, 151.2)}, at(-33.1, 151.2), true},
		{"the fuller square", []geo.LatLng{{}, {}, {}, at(1, 1), at(40.71, -74.01), at(40.73, -74.03)}, at(40.72, -74.02), true},
		{"equally full: the southernmost", []geo.LatLng{at(40.75, 1), at(-5.05, 3)}, at(-5.05, 3), true},
		{"the corners of the earth", []geo.LatLng{at(90, 180), at(90, 180), at(-90, -180)}, at(90, 180), true},
	} {
		var d dataset.Density
		for _, p := range tt.places {
			d.Add(p)
		}
		if got, ok := d.Center(); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}
