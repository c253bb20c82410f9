package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
)

// Values beyond these are taken out: nothing that is measured comes near, and
// beyond them the arithmetic of an axis overflows.
const (
	largest  = 1e100
	smallest = 1e-100 // of a logarithmic axis
)

// mostTicks is how many labels an axis has at most.
const mostTicks = 7

// drawable reports whether an axis can hold a value.
func drawable(a result.Axis, v float64) bool {
	if math.IsNaN(v) || math.Abs(v) > largest {
		return false
	}
	return !a.Log || v >= smallest
}

// Check says what SVG has to leave out of a chart, and why. Drawings say the same
// at their foot.
func Check(c result.Chart) []string {
	_, warnings := clean(c)
	return warnings
}

// clean returns the chart with what can be drawn, its points in the order of X.
func clean(c result.Chart) (result.Chart, []string) {
	var warnings []string
	out := c
	out.Series = nil
	dropped := map[string]int{}
	bare := 0
	var empty []string
	for _, s := range c.Series {
		kept := result.Series{Name: s.Name}
		for _, p := range s.Points {
			reason := ""
			switch {
			case math.IsNaN(p.X) || math.IsNaN(p.Y) || math.Abs(p.X) > largest || math.Abs(p.Y) > largest:
				reason = "no finite number"
			case !drawable(c.X, p.X) || !drawable(c.Y, p.Y):
				reason = "not above 0, on a logarithmic axis"
			}
			if reason != "" {
				dropped[reason]++
				continue
			}
			if p.Lo != 0 || p.Hi != 0 {
				if !drawable(c.Y, p.Lo) || !drawable(c.Y, p.Hi) || p.Lo > p.Hi {
					p.Lo, p.Hi = 0, 0
					bare++
				}
			}
			kept.Points = append(kept.Points, p)
		}
		slices.SortStableFunc(kept.Points, func(a, b result.Point) int {
			switch {
			case a.X < b.X:
				return -1
			case a.X > b.X:
				return 1
			}
			return 0
		})
		if len(kept.Points) == 0 {
			empty = append(empty, s.Name)
		}
		out.Series = append(out.Series, kept)
	}
	for _, reason := range []string{"no finite number", "not above 0, on a logarithmic axis"} {
		if n := dropped[reason]; n > 0 {
			warnings = append(warnings, fmt.Sprintf("%d left out: %s", n, reason))
		}
	}
	if bare > 0 {
		warnings = append(warnings, fmt.Sprintf("%d without the range around it: its ends cannot be drawn", bare))
	}
	if len(empty) > 0 {
		warnings = append(warnings, "no points: "+strings.Join(empty, ", "))
	}
	if len(empty) == len(c.Series) {
		warnings = append(warnings, "nothing to draw")
	}
	return out, warnings
}

// limits returns the ends of an axis that holds the values with some room, given
// values that are drawable.
func limits(a result.Axis, values []float64) (lo, hi float64) {
	if len(values) == 0 {
		if a.Log {
			return 1, 10
		}
		return 0, 1
	}
	lo, hi = slices.Min(values), slices.Max(values)
	if a.Log {
		room := math.Pow(hi/lo, 0.06)
		if hi/lo < 1.5 {
			room = 1.6 // a line through nearly equal values should look flat
		}
		return lo / room, hi * room
	}
	if lo >= 0 && lo < hi/2 {
		lo = 0 // so that heights compare
	}
	switch room := (hi - lo) * 0.06; {
	case room == 0:
		room = math.Max(math.Abs(hi)/2, 1e-9)
		return lo - room, hi + room
	case lo == 0:
		return 0, hi + room
	default:
		return lo - room, hi + room
	}
}

// ticker places the ticks of an axis.
type ticker struct{ log bool }

var _ plot.Ticker = ticker{}

// Ticks implements plot.Ticker.
func (t ticker) Ticks(lo, hi float64) []plot.Tick {
	if !t.log {
		return linear(lo, hi)
	}
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	// The densest choice of labels that is not too dense.
	for _, mantissas := range [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 5}, {1, 3}, {1}} {
		major := decades(first, last, 1, mantissas, lo, hi)
		if len(major) > mostTicks {
			continue
		}
		if len(major) < 2 {
			return linear(lo, hi) // less than from 1 to 2: no decade to see
		}
		return withMinor(major, first, last, lo, hi)
	}
	for step := 2; ; step++ {
		major := decades(first, last, step, []float64{1}, lo, hi)
		if len(major) > mostTicks {
			continue
		}
		return withMinor(major, first, last, lo, hi)
	}
}

// decades returns m times 10^d for every step-th d and the given m, within lo..hi.
func decades(first, last, step int, mantissas []float64, lo, hi float64) []float64 {
	var out []float64
	for d := first; d <= last; d += step {
		for _, m := range mantissas {
			// Parsed and not multiplied, so that 3e-1 is 0.3 and prints so.
			v, err := strconv.ParseFloat(fmt.Sprintf("%ge%d", m, d), 64)
			if err == nil && v >= lo && v <= hi {
				out = append(out, v)
			}
		}
	}
	return out
}

func withMinor(major []float64, first, last int, lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range major {
		ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
	}
	if last-first > 2*mostTicks {
		return ticks
	}
	for _, v := range decades(first, last, 1, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, lo, hi) {
		if !slices.Contains(major, v) {
			ticks = append(ticks, plot.Tick{Value: v})
		}
	}
	return ticks
}

// linear returns ticks at multiples of 1, 2 or 5 times a power of ten.
func linear(lo, hi float64) []plot.Tick {
	raw := (hi - lo) / (mostTicks - 1)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw {
			step = m * power
			break
		}
	}
	var ticks []plot.Tick
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(lo / step); k*step <= hi && len(ticks) <= 2*mostTicks; k++ {
		v := k * step
		label := short(v)
		if digits > 0 && digits < 10 {
			label = strconv.FormatFloat(v, 'f', digits, 64)
		}
		if k == 0 {
			label = "0"
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// short writes a number for an axis: 0.05, 20, 5k, 1.5M.
func short(v float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if a := math.Abs(v); a >= u.from && a < 1e12 {
			return strconv.FormatFloat(v/u.from, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// describe says in words what is drawn, for those who cannot see it.
func describe(c result.Chart, warnings []string) string {
	var b strings.Builder
	scale := func(a result.Axis) string {
		if a.Log {
			return a.Label + " (logarithmic)"
		}
		return a.Label
	}
	fmt.Fprintf(&b, "Vertical: %s. Horizontal: %s.", scale(c.Y), scale(c.X))
	for _, s := range c.Series {
		if len(s.Points) == 0 {
			continue
		}
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		if len(s.Points) == 1 {
			fmt.Fprintf(&b, " %s: %s at %s.", s.Name, plan.Figure(first.Y), plan.Figure(first.X))
			continue
		}
		fmt.Fprintf(&b, " %s: from %s at %s to %s at %s.", s.Name, plan.Figure(first.Y), plan.Figure(first.X), plan.Figure(last.Y), plan.Figure(last.X))
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, " Note: %s.", w)
	}
	return b.String()
}
