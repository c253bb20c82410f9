package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nearjob/nearjob/bench/result"
)

const (
	// near is the factor within which two ratios count as the same: a published
	// figure comes from another version, machine and table.
	near = 1.5
	// gain is the least ratio that counts as faster. Below it, noise and taste
	// decide.
	gain = 1.1
	// leastValues are needed for a verdict.
	leastValues = 3
)

// values are the outcomes of repeated measurements of one figure.
type values []float64

// quantile is interpolated linearly between the closest ranks; NaN for none.
func (v values) quantile(q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func (v values) median() float64 { return v.quantile(0.5) }
func (v values) min() float64    { return v.quantile(0) }
func (v values) max() float64    { return v.quantile(1) }

// String prints the median and the range.
func (v values) String() string {
	switch len(v) {
	case 0:
		return "none"
	case 1:
		return figure(v[0])
	}
	return fmt.Sprintf("%s (%s to %s)", figure(v.median()), figure(v.min()), figure(v.max()))
}

// times prints a ratio and its range as multiples.
func (v values) times() string {
	if len(v) == 0 {
		return "not measured"
	}
	if len(v) == 1 {
		return figure(v[0]) + " times"
	}
	return fmt.Sprintf("%s times (%s to %s)", figure(v.median()), figure(v.min()), figure(v.max()))
}

// ratio is how many times longer a took than b, with what the middle half of the
// runs on both sides leaves open.
type ratio struct{ lo, mid, hi float64 }

func ratioOf(a, b result.Timing) ratio {
	if !(b.Median > 0) || !(a.Median > 0) {
		return ratio{math.NaN(), math.NaN(), math.NaN()}
	}
	mid := a.Median / b.Median
	r := ratio{lo: mid * (1 - a.Spread) / (1 + b.Spread), mid: mid, hi: math.Inf(1)}
	if b.Spread < 1 {
		r.hi = mid * (1 + a.Spread) / (1 - b.Spread)
	}
	return r
}

// judgeRatio says how a published "so many times" fares against ours, where more
// than once stands for the claim's direction. An unknown published figure is 0:
// then only the direction counts.
func judgeRatio(published float64, ours values) result.Outcome {
	if len(ours) < leastValues {
		return result.Unclear
	}
	mid := ours.median()
	low, high := ours.quantile(0.25), ours.quantile(0.75)
	switch {
	case math.IsNaN(mid):
		return result.Unclear
	case published > 0 && within(mid, published):
		return result.Confirmed
	case mid >= gain && low > 1:
		if published == 0 {
			return result.Confirmed
		}
		return result.Differs
	case mid < gain && (high < gain || mid <= 1):
		return result.Refuted
	}
	return result.Unclear
}

// judgeShare says how a published share fares against ours.
func judgeShare(published float64, ours values) result.Outcome {
	switch {
	case len(ours) < leastValues || math.IsNaN(ours.median()):
		return result.Unclear
	case within(ours.median(), published):
		return result.Confirmed
	}
	return result.Differs
}

// within reports whether two positive figures are about the same.
func within(a, b float64) bool { return a <= b*near && b <= a*near }

// bisect returns the largest n in lo..hi for which holds is true, given that it is
// true up to there and false beyond; lo-1 when it is false at lo. The answer is
// as good as that premise: the optimizer's estimates are not quite monotone.
func bisect(lo, hi int, holds func(n int) (bool, error)) (int, error) {
	good, bad := lo-1, hi+1
	// The ends first: an index that is never, or always, used takes one look.
	for _, n := range []int{hi, lo} {
		ok, err := holds(n)
		if err != nil {
			return 0, err
		}
		if ok {
			good = max(good, n)
		} else {
			bad = min(bad, n)
		}
	}
	for bad-good > 1 {
		n := good + (bad-good)/2
		ok, err := holds(n)
		if err != nil {
			return 0, err
		}
		if ok {
			good = n
		} else {
			bad = n
		}
	}
	return good, nil
}

// crossing returns the x at which a line of points falls from above 1 to 1 or
// below for the last time, on a logarithmic scale between the points. found is
// false when it is never above 1; open when it still is at the last point, which
// is then returned.
func crossing(points []result.Point) (x float64, found, open bool) {
	for i := len(points) - 1; i >= 0; i-- {
		if !(points[i].Y > 1) {
			continue
		}
		if i == len(points)-1 {
			return points[i].X, true, true
		}
		a, b := points[i], points[i+1]
		part := math.Log(a.Y) / (math.Log(a.Y) - math.Log(max(b.Y, math.SmallestNonzeroFloat64)))
		return math.Exp(math.Log(a.X) + part*(math.Log(b.X)-math.Log(a.X))), true, false
	}
	return 0, false, false
}

// figure writes a number with three digits, for people.
func figure(f float64) string {
	switch {
	case math.IsNaN(f):
		return "-"
	case math.IsInf(f, 0):
		return "without end"
	case f == 0:
		return "0"
	case math.Abs(f) >= 100:
		return grouped(int64(math.Round(f)))
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(f))))
	s := strconv.FormatFloat(f, 'f', min(digits, 8), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// grouped writes a whole number with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share, given in percent.
func percent(f float64) string { return figure(f) + " %" }

// millis writes a timing's median with its spread.
func millis(t result.Timing) string {
	return fmt.Sprintf("%s ±%.0f %%", figure(t.Median), t.Spread*100)
}
