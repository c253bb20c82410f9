package dataset

import "math"

// sinCos returns the sine and cosine of an angle of -180..180 degrees, off by
// less than 1e-14, with the same bits on every machine.
func sinCos(deg float64) (sin, cos float64) {
	x := float64(deg * (math.Pi / 180))
	xx := float64(x * x)
	// The Taylor series by Horner's rule. The first term left out is below
	// pi^34/34! = 3e-22.
	sin, cos = 1, 1
	for n := 32.0; n >= 2; n -= 2 {
		sin = 1 - float64(sin*xx)/(n*(n+1))
		cos = 1 - float64(cos*xx)/((n-1)*n)
	}
	return float64(x * sin), cos
}

// atan2 returns the angle in degrees of the vector (x, y), -180..180, off by less than
// 1e-13, with the same bits on every machine.
func atan2(y, x float64) float64 {
	ax, ay := math.Abs(x), math.Abs(y)
	lo, hi := min(ax, ay), max(ax, ay)
	if hi == 0 {
		return 0
	}
	// Halving the angle twice, by tan(a/2) = t/(1+sqrt(1+t*t)), brings it to
	// at most pi/16, where the series is quick: 0.2^27/27 = 5e-21.
	t := lo / hi
	for range 2 {
		t /= 1 + math.Sqrt(1+float64(t*t))
	}
	tt := float64(t * t)
	sum := 0.0
	for n := 25.0; n >= 1; n -= 2 {
		sum = 1/n - float64(sum*tt)
	}
	a := float64(float64(4*t*sum) * (180 / math.Pi))
	if ay > ax {
		a = 90 - a
	}
	if x < 0 {
		a = 180 - a
	}
	if y < 0 {
		a = -a
	}
	return a
}
