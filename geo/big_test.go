package geo

import (
	"math"
	"math/big"
	"sync"
)

// A second way to the distance that shares nothing with the first: Vincenty's
// formula for the sphere instead of the haversine, Taylor series instead of
// minimax polynomials, 320 bits instead of 53.

const bigPrec = 320

func newBig(x float64) *big.Float { return new(big.Float).SetPrec(bigPrec).SetFloat64(x) }
func zero() *big.Float            { return newBig(0) }
func add(x, y *big.Float) *big.Float {
	return zero().Add(x, y)
}
func sub(x, y *big.Float) *big.Float { return zero().Sub(x, y) }
func mul(x, y *big.Float) *big.Float { return zero().Mul(x, y) }
func quo(x, y *big.Float) *big.Float { return zero().Quo(x, y) }

// bigPi is pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239).
var bigPi = sync.OnceValue(func() *big.Float {
	atanInv := func(n float64) *big.Float {
		power, n2, sum := quo(newBig(1), newBig(n)), newBig(n*n), zero()
		for k := 0; power.Sign() != 0 && power.MantExp(nil) > -bigPrec-16; k++ {
			term := quo(power, newBig(float64(2*k+1)))
			if k%2 == 1 {
				term.Neg(term)
			}
			sum = add(sum, term)
			power = quo(power, n2)
		}
		return sum
	}
	return sub(mul(newBig(16), atanInv(5)), mul(newBig(4), atanInv(239)))
})

// bigSinCos returns the sine and cosine of x radians.
func bigSinCos(x *big.Float) (sin, cos *big.Float) {
	sin, cos = zero(), zero()
	term := newBig(1)
	for n := 0; n < 8 || term.Sign() != 0 && term.MantExp(nil) > -bigPrec-16; n++ {
		switch n % 4 {
		case 0:
			cos = add(cos, term)
		case 1:
			sin = add(sin, term)
		case 2:
			cos = sub(cos, term)
		case 3:
			sin = sub(sin, term)
		}
		term = quo(mul(term, x), newBig(float64(n+1)))
	}
	return sin, cos
}

// bigAtan2 improves on math.Atan2 by one step: the angle eps that is missing has
// sin(eps) = (y cos(a) - x sin(a))/|x, y|, about 1e-16, and
// eps = sin(eps) + sin(eps)^3/6 + ..., so the result is good to 1e-80.
func bigAtan2(y, x *big.Float) *big.Float {
	r := add(mul(x, x), mul(y, y))
	r.Sqrt(r)
	if r.Sign() == 0 {
		return zero()
	}
	fy, _ := quo(y, r).Float64()
	fx, _ := quo(x, r).Float64()
	a := newBig(math.Atan2(fy, fx))
	sin, cos := bigSinCos(a)
	s := quo(sub(mul(y, cos), mul(x, sin)), r)
	return add(a, add(s, quo(mul(s, mul(s, s)), newBig(6))))
}

func bigRad(deg *big.Float) *big.Float { return quo(mul(deg, bigPi()), newBig(180)) }

// bigDistance returns the exact distance between exactly the given degrees.
func bigDistance(p, q LatLng) *big.Float {
	s1, c1 := bigSinCos(bigRad(newBig(p.Lat)))
	s2, c2 := bigSinCos(bigRad(newBig(q.Lat)))
	sl, cl := bigSinCos(bigRad(sub(newBig(q.Lng), newBig(p.Lng))))
	u := mul(c2, sl)
	v := sub(mul(c1, s2), mul(mul(s1, c2), cl))
	y := add(mul(u, u), mul(v, v))
	y.Sqrt(y)
	x := add(mul(s1, s2), mul(mul(c1, c2), cl))
	radius, _, err := big.ParseFloat("6371008.7714", 10, bigPrec, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return mul(radius, bigAtan2(y, x))
}

// bigError returns |got - want|.
func bigError(got float64, want *big.Float) float64 {
	d, _ := sub(newBig(got), want).Float64()
	return math.Abs(d)
}

func bigSin(deg float64) *big.Float { s, _ := bigSinCos(bigRad(newBig(deg))); return s }
func bigCos(deg float64) *big.Float { _, c := bigSinCos(bigRad(newBig(deg))); return c }

func bigToFloat(x *big.Float) float64 { f, _ := x.Float64(); return f }

func bigAsin(x float64) *big.Float {
	c := sub(newBig(1), mul(newBig(x), newBig(x)))
	return bigAtan2(newBig(x), c.Sqrt(c))
}
