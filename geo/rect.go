package geo

import "math"

// Rect is a closed box of latitudes South..North and of longitudes from West
// eastward to East, in degrees. West > East means that the box crosses the
// antimeridian. All longitudes are West = -180, East = 180; equal West and East
// are one meridian.
//
// A Rect is a box of coordinates, as a database compares them: a point at a
// pole is inside if its longitude as written is, though all meridians meet there.
type Rect struct {
	South, West, North, East float64
}

// NewRect returns the box, or a [*RangeError] as [Rect.Validate] does. Negative
// zeros become zeros. A West or East of -180 or 180 stays as it is, for the two
// differ in a box: -180..10 is 190 degrees wide, as is 180..10, but 10..180 is
// 170 degrees wide and -180..180 is all.
func NewRect(south, west, north, east float64) (Rect, error) {
	r := Rect{South: positiveZero(south), West: positiveZero(west), North: positiveZero(north), East: positiveZero(east)}
	if err := r.Validate(); err != nil {
		return Rect{}, err
	}
	return r, nil
}

// Validate returns a [*RangeError] for the first coordinate that is NaN,
// infinite or out of range, or for a South above North, or nil.
func (r Rect) Validate() error {
	if err := checkRange("south", r.South, -90, 90); err != nil {
		return err
	}
	if err := checkRange("west", r.West, -180, 180); err != nil {
		return err
	}
	if err := checkRange("north", r.North, -90, 90); err != nil {
		return err
	}
	if err := checkRange("east", r.East, -180, 180); err != nil {
		return err
	}
	return checkRange("south", r.South, -90, r.North)
}

// Contains reports whether p is in the box, its edges included. Longitudes -180
// and 180 are the same meridian, in p as in the box.
func (r Rect) Contains(p LatLng) bool {
	return r.South <= p.Lat && p.Lat <= r.North && r.containsLng(p.Lng)
}

func (r Rect) containsLng(lng float64) bool {
	lng = normalLng(lng)
	if r.West > r.East {
		return lng >= r.West || lng <= r.East
	}
	return r.West <= lng && lng <= r.East || lng == 180 && r.West == -180
}

// CrossesAntimeridian reports whether the box is written across the
// antimeridian, West > East. A box that only touches it from one side may be
// written either way; to query a database, use [Rect.Split] for both.
func (r Rect) CrossesAntimeridian() bool { return r.West > r.East }

// Split returns one or two boxes with West <= East that together hold the same
// points. No point is in two of them, so that counts over the boxes add up.
//
// A point at longitude 180 is stored as 180, so a box that starts at -180 gets
// a second box of just that meridian, and the first starts at the next float64,
// -179.99999999999997, which is the least longitude a stored point can have.
func (r Rect) Split() []Rect {
	const firstLng = -0x1.67fffffffffffp+7 // the float64 after -180
	part := func(west, east float64) Rect {
		return Rect{South: r.South, West: west, North: r.North, East: east}
	}
	west := normalLng(r.West) // from here on the meridian is 180 where a box starts
	switch {
	case r.West == -180 && r.East == 180:
		return []Rect{r}
	case west <= r.East:
		return []Rect{part(west, r.East)}
	case r.East == -180:
		return []Rect{part(west, 180)}
	default:
		return []Rect{part(west, 180), part(firstLng, r.East)}
	}
}

// Center returns the point halfway between the edges in latitude and in
// longitude, which is not the centre of its area.
func (r Rect) Center() LatLng {
	lng := r.West + r.width()/2
	if lng > 180 {
		lng -= 360
	}
	return LatLng{Lat: positiveZero((r.South + r.North) / 2), Lng: positiveZero(normalLng(lng))}
}

// width returns the extent in longitude in degrees, 0 to 360.
func (r Rect) width() float64 {
	w := r.East - r.West
	if w < 0 {
		w += 360
	}
	return w
}

// rectSlack covers, in metres, the error of [Rect.minDistance] and of the
// distance it is compared with: each within MaxError(MaxDistance) = 7.2e-8 m
// of the truth, plus 1e-8 m for rounding the latitude of a foot point or the
// longitude of an antipode.
const rectSlack = 2e-7

// MinDistance returns a lower bound in metres on the distance from p to any
// point of the box, true or computed by [LatLng.Distance]: the distance to the
// nearest point less 2e-7 m. It is 0 for a point inside and never negative.
func (r Rect) MinDistance(p LatLng) float64 {
	return max(0, r.minDistance(p)-rectSlack)
}

// MaxDistance returns an upper bound in metres on the distance from p to any
// point of the box, true or computed by [LatLng.Distance]: the distance to the
// farthest point plus 2e-7 m, at most [MaxDistance].
func (r Rect) MaxDistance(p LatLng) float64 {
	// The farthest from p is the nearest to its antipode.
	return min(MaxDistance, MaxDistance-r.minDistance(p.antipode())+rectSlack)
}

// minDistance returns the distance from p to the nearest point of the box.
func (r Rect) minDistance(p LatLng) float64 {
	if r.containsLng(p.Lng) {
		// Two points are at least as far apart as their latitudes.
		lat := min(max(p.Lat, r.South), r.North)
		return p.Distance(LatLng{Lat: lat, Lng: p.Lng})
	}
	// Along a parallel the distance grows with the difference in longitude, so
	// whatever the latitude the nearest point is on the same one of the two
	// edges: the one at the lesser difference.
	edge := r.West
	if lngDiff(p.Lng, r.East) < lngDiff(p.Lng, r.West) {
		edge = r.East
	}
	d := min(p.Distance(LatLng{Lat: r.South, Lng: edge}), p.Distance(LatLng{Lat: r.North, Lng: edge}))

	// Along a meridian at longitude difference delta, cos(distance) is
	// a*sin(lat) + b*cos(lat) with a and b as below: a sinusoid with its one
	// maximum at the foot of the perpendicular, lat = atan2(a, b). If that is not
	// between the ends, an end is nearest. With delta over 90 degrees b is
	// negative, and the foot is on the other half of the meridian's circle.
	delta := lngDiff(p.Lng, edge)
	if delta > 90 {
		return d
	}
	cosLat := cosDeg(math.Abs(p.Lat))
	a, b := math.Copysign(sinDeg(math.Abs(p.Lat)), p.Lat), cosLat*cosDeg(delta)
	if foot := math.Atan2(a, b) * (180 / math.Pi); r.South <= foot && foot <= r.North {
		// The arc tangent is as exact at a right angle as at none; asin is not.
		d = min(d, EarthRadius*math.Atan2(cosLat*sinDeg(delta), math.Hypot(a, b)))
	}
	return d
}
