package geo

import "math"

// Distance returns the great-circle distance from p to q in metres, 0 to
// [MaxDistance], by the haversine formula (R. W. Sinnott, "Virtues of the
// Haversine", Sky and Telescope 68, 1984). [MaxError] bounds its error.
//
// Beyond a quarter of the circumference, where the plain formula loses half
// its digits (0.2 m near the antipode), the haversine is taken to the antipode
// of p and subtracted from half the circumference. So all distances have the
// same small error and none needs its argument clamped.
//
// The result has the same bits on every machine and with every compiler
// setting. It is symmetric to the bit, and exactly 0 between equal points,
// between longitudes 180 and -180 at one latitude, and between two points at
// one pole whatever their longitudes. Different points nearer than 1e-140 m
// may have distance 0.
//
// p and q must be valid. A NaN coordinate gives NaN; other invalid ones give
// no useful result.
func (p LatLng) Distance(q LatLng) float64 {
	return distance(p, q, cosDeg(math.Abs(p.Lat)), cosDeg(math.Abs(q.Lat)))
}

// Origin is a point that many distances are measured from. It holds the
// point's own trigonometry, so that a loop over candidates does it once.
// The zero Origin is not useful: use [NewOrigin].
type Origin struct {
	point  LatLng
	cosLat float64
}

// NewOrigin returns the origin at p, which must be valid.
func NewOrigin(p LatLng) Origin {
	return Origin{point: p, cosLat: cosDeg(math.Abs(p.Lat))}
}

// Distance returns the same bits as [LatLng.Distance] from the origin's point
// to q, in metres.
func (o Origin) Distance(q LatLng) float64 {
	return distance(o.point, q, o.cosLat, cosDeg(math.Abs(q.Lat)))
}

// distance returns the distance from p to q, given the cosines of their
// latitudes. Every product stands in float64(...); see trig.go for why.
func distance(p, q LatLng, cosP, cosQ float64) float64 {
	const diameter = 2 * EarthRadius
	dLng := lngDiff(p.Lng, q.Lng)
	cc := float64(cosP * cosQ)
	s := sinDeg(float64(0.5 * math.Abs(p.Lat-q.Lat)))
	t := sinDeg(float64(0.5 * dLng))
	h := float64(s*s) + float64(cc*float64(t*t))
	if h <= 0.5 {
		return float64(diameter * asinKernel(math.Sqrt(h)))
	}
	s = sinDeg(float64(0.5 * math.Abs(p.Lat+q.Lat)))
	t = cosDeg(float64(0.5 * dLng))
	h = float64(s*s) + float64(cc*float64(t*t))
	return MaxDistance - float64(diameter*asinKernel(math.Sqrt(h)))
}

// lngDiff returns the absolute difference of two longitudes in degrees, 0 to
// 180, the short way round. The relative error is at most 2u, u = 2^-53, also
// across the antimeridian: of the two differences from 180, one at least is
// exact, since two longitudes more than 180 apart do not both lie within 90.
func lngDiff(a, b float64) float64 {
	d := math.Abs(a - b)
	if d > 180 {
		d = (180 - math.Abs(a)) + (180 - math.Abs(b))
	}
	return d
}

// MaxError returns a bound in metres on the error of a distance d that
// [LatLng.Distance] returned: the exact great-circle distance, on the sphere of
// [EarthRadius], between exactly the given degrees, is within MaxError(d) of d.
// It grows with d, from 1e-12 m at 0 by 3.6e-15 of d: 3.6e-8 m (36 nanometres)
// at 10,000 km and 7.2e-8 m at the antipode.
//
// It bounds this package's arithmetic only. A plain haversine, such as the one
// in SQL, is off by up to about 0.3 m near the antipode and needs a margin of
// its own.
func MaxError(d float64) float64 {
	// With u = 2^-53, the relative errors for h <= 0.5 add up as follows.
	//
	//	2u	differences of latitude and longitude, see lngDiff
	//	6u	the sines: 2u of the argument and 4u of sinDeg
	//	4u	the cosines: their argument is exact
	//	23u	cc*t*t: 2*4u + 2*6u, and three products at 1u
	//	24u	h: both terms are positive, so nothing cancels; the sum, 1u
	//	13u	the root halves it, and rounds, 1u
	//	19u	asin: x/(sqrt(1-x*x)*asin(x)) <= 1.28 times that, and an ulp
	//	21u	the product with the diameter, whose own rounding is another u
	//
	// For h > 0.5 the same holds for the distance to the antipode, at most a
	// quarter of the circumference C, except that the difference in longitude
	// counts with its absolute error, 2^-45 degrees or 3.2e-9 m. Half the
	// circumference and the last subtraction are rounded by 1.9e-9 m each. In
	// all that is at most 21u*C/4 + 7e-9 m < 28u*C/4 <= 28u*d (with second-order
	// terms: 29u). The bound takes 32u.
	//
	// The picometre is for squares that underflow, which moves no distance by
	// more than 1e-140 m.
	const relative = 1.0 / (1 << 48)
	return 1e-12 + float64(min(d, MaxDistance)*relative)
}
