package geo

import "math"

// Circle is the set of points at most Radius metres from Center, the edge
// included. Radius is 0 or more; from [MaxDistance] up, also +Inf, the circle is
// the whole earth. A negative or NaN radius makes a circle that holds nothing.
type Circle struct {
	Center LatLng
	Radius float64 // metres
}

// Contains reports whether the distance from the centre to p, as
// [LatLng.Distance] computes it, is at most the radius. For many points, compare
// [Origin.Distance] with the radius: it is the same decision, faster.
func (c Circle) Contains(p LatLng) bool {
	return c.Center.Distance(p) <= c.Radius
}

// Bound returns the smallest box of latitudes and longitudes that holds the
// circle, widened by the error bound: a point that c.Contains is never outside.
// It is wider than the exact box by about 2e-13 degrees (22 nanometres) plus
// [MaxError] of the radius. A circle that holds a pole, or comes within that
// error of one, spans all longitudes.
//
// The half width in longitude is asin(sin(r/R)/cos(lat)), at the two meridians
// that touch the circle: they do so nearer to the pole than its centre, where
// r/(R*cos(lat)) falls short (J. P. Matuschek, "Finding Points Within a
// Distance of a Latitude/Longitude Using Bounding Coordinates").
func (c Circle) Bound() Rect {
	// pad is more than the roundings below can add up to: of the angle at most
	// 4u*180 = 8e-14 degrees (u = 2^-53), of a sum with it at most 3e-14; of the
	// half width at most 6u*90 and two sums at 3e-14 each.
	const pad = 2e-13
	radius := c.Radius
	if !(radius > 0) {
		radius = 0 // nothing or one point: either is inside
	}
	// A computed distance of up to the radius may truly be this much more.
	angle := min(radius+MaxError(radius), 2*MaxDistance) / EarthRadius
	deg := angle*(180/math.Pi) + pad

	r := Rect{South: c.Center.Lat - deg, North: c.Center.Lat + deg, West: -180, East: 180}
	pole := false
	if r.South <= -90 {
		r.South, pole = -90, true
	}
	if r.North >= 90 {
		r.North, pole = 90, true
	}
	if pole {
		return r
	}
	// No pole, so the angle is below a right angle. The factor covers the
	// relative error of the quotient, at most 8u. It must come before the arc
	// sine, which magnifies errors without limit as its argument nears 1.
	x := math.Sin(angle) / cosDeg(math.Abs(c.Center.Lat)) * (1 + 0x1p-48)
	if x >= 1 {
		return r
	}
	half := math.Asin(x)*(180/math.Pi) + pad
	r.West, r.East = c.Center.Lng-half, c.Center.Lng+half
	if r.West < -180 {
		r.West += 360
	}
	if r.East > 180 {
		r.East -= 360
	}
	return r
}

// Ring is the set of points from Inner to Outer metres from Center, both edges
// included. With Inner > Outer it holds nothing. Its bound is that of the circle
// with the outer radius.
type Ring struct {
	Center       LatLng
	Inner, Outer float64 // metres
}

// Contains reports whether the distance from the centre to p, as
// [LatLng.Distance] computes it, is at least Inner and at most Outer.
func (r Ring) Contains(p LatLng) bool {
	d := r.Center.Distance(p)
	return r.Inner <= d && d <= r.Outer
}
