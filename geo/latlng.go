package geo

import (
	"math"
	"strconv"
)

// EarthRadius is the radius of the sphere in metres: the mean radius R1 of
// GRS 80 as the IUGG gives it (Moritz, "Geodetic Reference System 1980"), which
// MySQL uses for SRID 4326 too.
const EarthRadius = 6371008.7714

// MaxDistance is half the circumference of the sphere in metres, about
// 20,015,114 m: no two points are farther apart.
const MaxDistance = math.Pi * EarthRadius

// LatLng is a point on the sphere in degrees: latitude -90..90, longitude
// -180..180. -180 and 180 are the same meridian, and [NewLatLng] writes it as
// 180; the methods of this package take either.
type LatLng struct {
	Lat, Lng float64
}

// NewLatLng returns the point at lat, lng in degrees, with longitude -180
// turned into 180 and negative zeros into zeros, so that equal places have
// equal coordinates (the poles aside, which keep their longitude).
//
// A coordinate that is NaN, infinite or out of range is refused with a
// [*RangeError]; nothing is ever clamped or wrapped.
func NewLatLng(lat, lng float64) (LatLng, error) {
	p := LatLng{Lat: lat, Lng: lng}
	if err := p.Validate(); err != nil {
		return LatLng{}, err
	}
	return LatLng{Lat: positiveZero(lat), Lng: positiveZero(normalLng(lng))}, nil
}

// Validate returns a [*RangeError] for the first coordinate that is NaN,
// infinite or out of range, or nil. A longitude of -180 is valid.
func (p LatLng) Validate() error {
	if err := checkRange("lat", p.Lat, -90, 90); err != nil {
		return err
	}
	return checkRange("lng", p.Lng, -180, 180)
}

// String returns "lat,lng" in degrees with as many digits as it takes to read
// the same point back.
func (p LatLng) String() string {
	b := strconv.AppendFloat(nil, p.Lat, 'f', -1, 64)
	b = append(b, ',')
	return string(strconv.AppendFloat(b, p.Lng, 'f', -1, 64))
}

// antipode returns the point opposite p. Its longitude is rounded by at most
// half an ulp of 180 degrees, 1.6e-9 m on the ground.
func (p LatLng) antipode() LatLng {
	if p.Lng > 0 {
		return LatLng{Lat: -p.Lat, Lng: p.Lng - 180}
	}
	return LatLng{Lat: -p.Lat, Lng: p.Lng + 180}
}

// RangeError says that a coordinate is not a number from Min to Max, in degrees.
type RangeError struct {
	Field    string // "lat" or "lng"; for a [Rect] "south", "west", "north" or "east"
	Value    float64
	Min, Max float64
}

// Error names the coordinate, its value and the range it must be in.
func (e *RangeError) Error() string {
	f := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	return e.Field + " is " + f(e.Value) + ", must be from " + f(e.Min) + " to " + f(e.Max) + " degrees"
}

func checkRange(field string, x, lo, hi float64) error {
	if x >= lo && x <= hi { // false for NaN
		return nil
	}
	return &RangeError{Field: field, Value: x, Min: lo, Max: hi}
}

// normalLng writes the meridian opposite Greenwich as 180.
func normalLng(lng float64) float64 {
	if lng == -180 {
		return 180
	}
	return lng
}

// positiveZero turns -0 into 0: the two are equal in Go and in SQL, but not as
// text, as bytes of a cursor or as a map key's bits.
func positiveZero(x float64) float64 {
	if x == 0 {
		return 0
	}
	return x
}
