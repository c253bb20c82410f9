package geo

import "math"

// The sine, cosine and arc sine below exist because those of package math do
// not give the same bits everywhere: some ports have their own assembly, and
// where the CPU has a fused multiply-add (arm64, ppc64le, s390x, riscv64, and
// amd64 with GOAMD64=v3) the compiler may skip the rounding of a product that
// is added to something, across statements and inlined calls too. The language
// forbids that only for a product inside an explicit conversion, so EVERY
// product here stands in float64(...). TestNoFusedInstructions reads the
// compiler's output to see that none was forgotten.
//
// The coefficients and the scheme of each kernel are fdlibm's (k_sin.c,
// k_cos.c, e_asin.c of FreeBSD's msun), whose notice reads:
//
//	Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved.
//
//	Developed at SunPro, a Sun Microsystems, Inc. business.
//	Permission to use, copy, modify, and distribute this
//	software is freely granted, provided that this notice
//	is preserved.
//
// What differs: the arguments are degrees and already reduced, in degrees,
// where the reduction is exact; the ranges that a haversine never needs are
// left out.

const radPerDeg = math.Pi / 180

// sinDeg returns the sine of x degrees, 0 <= x <= 90, with a relative error of
// at most 4u where u = 2^-53: 2u from the conversion to radians and 2u (one
// ulp) from the kernel. It is exactly 0 at 0 and exactly 1 at 90.
func sinDeg(x float64) float64 {
	if x <= 45 {
		return sinKernel(float64(x * radPerDeg))
	}
	return cosKernel(float64((90 - x) * radPerDeg)) // 90-x is exact (Sterbenz)
}

// cosDeg returns the cosine of x degrees, 0 <= x <= 90, with the error of
// [sinDeg]. It is exactly 1 at 0 and exactly 0 at 90, so at a pole the
// longitude counts for nothing.
func cosDeg(x float64) float64 {
	if x <= 45 {
		return cosKernel(float64(x * radPerDeg))
	}
	return sinKernel(float64((90 - x) * radPerDeg))
}

// sinKernel returns sin(x) for 0 <= x <= pi/4 to within one ulp.
func sinKernel(x float64) float64 {
	const (
		s1 = -1.66666666666666324348e-01
		s2 = 8.33333333332248946124e-03
		s3 = -1.98412698298579493134e-04
		s4 = 2.75573137070700676789e-06
		s5 = -2.50507602534068634195e-08
		s6 = 1.58969099521155010221e-10
	)
	z := float64(x * x)
	v := float64(z * x)
	r := s5 + float64(z*s6)
	r = s4 + float64(z*r)
	r = s3 + float64(z*r)
	r = s2 + float64(z*r)
	r = s1 + float64(z*r)
	return x + float64(v*r)
}

// cosKernel returns cos(x) for 0 <= x <= pi/4 to within one ulp.
func cosKernel(x float64) float64 {
	const (
		c1 = 4.16666666666666019037e-02
		c2 = -1.38888888888741095749e-03
		c3 = 2.48015872894767294178e-05
		c4 = -2.75573143513906633035e-07
		c5 = 2.08757232129817482790e-09
		c6 = -1.13596475577881948265e-11
	)
	z := float64(x * x)
	r := c5 + float64(z*c6)
	r = c4 + float64(z*r)
	r = c3 + float64(z*r)
	r = c2 + float64(z*r)
	r = c1 + float64(z*r)
	r = float64(z * r)
	hz := float64(0.5 * z)
	w := 1 - hz
	return w + (((1 - w) - hz) + float64(z*r)) // (1-w)-hz is what rounding w lost
}

// asinKernel returns asin(x) for 0 <= x <= 0.7072 to within one ulp.
func asinKernel(x float64) float64 {
	if x < 0.5 {
		return x + float64(x*asinRational(float64(x*x)))
	}
	// asin(x) = pi/2 - 2 asin(sqrt((1-x)/2)), with sqrt(t) = df + c, where df
	// has few enough bits for df*df to be exact.
	const (
		pio2Lo = 6.12323399573676603587e-17 // pi/2 less its nearest float64
		pio4   = 7.85398163397448278999e-01
	)
	t := float64((1 - x) * 0.5)
	s := math.Sqrt(t) // correctly rounded on every machine (IEEE 754)
	df := math.Float64frombits(math.Float64bits(s) &^ 0xffffffff)
	c := (t - float64(df*df)) / (s + df)
	p := float64(float64(2*s)*asinRational(t)) - (pio2Lo - float64(2*c))
	q := pio4 - float64(2*df)
	return pio4 - (p - q)
}

// asinRational returns (asin(y)-y)/y for t = y*y, 0 <= t <= 1/4.
func asinRational(t float64) float64 {
	const (
		p0 = 1.66666666666666657415e-01
		p1 = -3.25565818622400915405e-01
		p2 = 2.01212532134862925881e-01
		p3 = -4.00555345006794114027e-02
		p4 = 7.91534994289814532176e-04
		p5 = 3.47933107596021167570e-05
		q1 = -2.40339491173441421878e+00
		q2 = 2.02094576023350569471e+00
		q3 = -6.88283971605453293030e-01
		q4 = 7.70381505559019352791e-02
	)
	p := p4 + float64(t*p5)
	p = p3 + float64(t*p)
	p = p2 + float64(t*p)
	p = p1 + float64(t*p)
	p = p0 + float64(t*p)
	p = float64(t * p)
	q := q3 + float64(t*q4)
	q = q2 + float64(t*q)
	q = q1 + float64(t*q)
	q = 1 + float64(t*q)
	return p / q
}
