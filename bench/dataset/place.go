package dataset

import (
	"math"

	"github.com/nearjob/nearjob/geo"
)

// The spreads, in millimetres: integers, so that sums are exact.
const (
	metre = 1000
	km    = 1000 * metre

	denseSigma = 5 * km

	// A country is a square. Its towns stay inside it: the farthest place is
	// 250 + 6*8 = 298 km from the middle.
	countryHalf  = 300 * km
	townsHalf    = 250 * km
	towns        = 40
	minTownSigma = 1 * km
	maxTownSigma = 8 * km
	townPercent  = 70 // of the jobs; the others are anywhere in the square
)

// tangent is the plane that touches the sphere at a point. Its places, moved
// back onto the sphere, need no special case at the poles and the antimeridian.
type tangent struct {
	sinLat, cosLat, sinLng, cosLng float64
}

func newTangent(at geo.LatLng) tangent {
	var t tangent
	t.sinLat, t.cosLat = sinCos(at.Lat)
	t.sinLng, t.cosLng = sinCos(at.Lng)
	return t
}

// at returns the place at so many millimetres to the east and north of the point.
func (t tangent) at(east, north int64) geo.LatLng {
	lat, lng := t.unrounded(east, north)
	return geo.LatLng{Lat: round(lat), Lng: round180(lng)}
}

func (t tangent) unrounded(east, north int64) (lat, lng float64) {
	e := float64(east) / (geo.EarthRadius * 1000)
	n := float64(north) / (geo.EarthRadius * 1000)
	// The point plus e times the unit vector east plus n times the one north,
	// first as if the point were on the prime meridian.
	x := t.cosLat - float64(n*t.sinLat)
	z := t.sinLat + float64(n*t.cosLat)
	lat = atan2(z, math.Sqrt(float64(x*x)+float64(e*e)))
	lng = atan2(float64(x*t.sinLng)+float64(e*t.cosLng), float64(x*t.cosLng)-float64(e*t.sinLng))
	return lat, lng
}

// round rounds to 1e-7 degrees, and never gives a negative zero.
func round(deg float64) float64 { return float64(int64(math.Round(float64(deg*1e7)))) / 1e7 }

// round180 is round for a longitude, where -180 is 180.
func round180(deg float64) float64 {
	if deg = round(deg); deg == -180 {
		return 180
	}
	return deg
}

// spread multiplies a standard deviation in millimetres by a normal deviate.
func spread(r random, sigma int64) int64 {
	return r.normal() * sigma >> 32 // below 2^35 times 2^25
}

// placer returns the function that gives row n its place.
func (c *Config) placer(r random) func(n int) geo.LatLng {
	switch c.Shape {
	case Stacked:
		return func(int) geo.LatLng { return c.Center }
	case Dense:
		return c.dense(r)
	case Sparse:
		return c.sparse(r)
	case Mixed:
		dense, sparse := c.dense(r), c.sparse(r)
		return func(n int) geo.LatLng {
			if n%2 == 0 {
				return dense(n)
			}
			return sparse(n)
		}
	case Cities:
		return cities(r)
	}
	panic("dataset: a shape without places: " + string(c.Shape))
}

func (c *Config) dense(r random) func(int) geo.LatLng {
	t := newTangent(c.Center)
	return func(int) geo.LatLng {
		return t.at(spread(r, denseSigma), spread(r, denseSigma))
	}
}

func (c *Config) sparse(r random) func(int) geo.LatLng {
	t := newTangent(c.Center)
	var east, north, sigma [towns]int64
	for i := range towns {
		east[i] = r.between(-townsHalf, townsHalf)
		north[i] = r.between(-townsHalf, townsHalf)
		sigma[i] = r.between(minTownSigma, maxTownSigma)
	}
	size := newWeights(towns, harmonic)
	return func(int) geo.LatLng {
		if !r.percent(townPercent) {
			return t.at(r.between(-countryHalf, countryHalf), r.between(-countryHalf, countryHalf))
		}
		i := size.pick(r)
		return t.at(east[i]+spread(r, sigma[i]), north[i]+spread(r, sigma[i]))
	}
}

// cities spreads over the cities of the world by population. A city of a
// million has a standard deviation of 4 km, one of 16 million 16 km.
func cities(r random) func(int) geo.LatLng {
	all := AllCities()
	size := newWeights(len(all), func(i int) int64 { return all[i].Population })
	return func(int) geo.LatLng {
		c := all[size.pick(r)]
		sigma := int64(math.Sqrt(float64(c.Population)) * 4 * metre)
		return newTangent(c.At).at(spread(r, sigma), spread(r, sigma))
	}
}
