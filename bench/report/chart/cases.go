package chart

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// Named is a chart with a name that is unique in its run and fit for a file's name
// and an id.
type Named struct {
	Name  string
	Chart result.Chart
	// Set is the data set of a chart of cases; Experiment that of the others.
	Set        string
	Experiment *result.Experiment
}

// All returns the charts of a run: those of OfCases, then those of the
// experiments.
func All(r *result.Run) []Named {
	charts := ofCases(r)
	for i := range r.Experiments {
		e := &r.Experiments[i]
		for k, c := range e.Charts {
			charts = append(charts, Named{Name: fmt.Sprintf("experiment-%s-%d", digest.Slug(e.Name), k+1), Chart: c, Experiment: e})
		}
	}
	taken := map[string]bool{}
	for i := range charts {
		name := charts[i].Name
		for n := 2; taken[charts[i].Name]; n++ {
			charts[i].Name = fmt.Sprintf("%s-%d", name, n)
		}
		taken[charts[i].Name] = true
	}
	return charts
}

// OfCases draws the cases of a run: for each set the time against the rows at each
// radius, and the time against the radius at the largest size, with a line for each
// strategy and the middle half of its runs around the points. A chart that would
// have one value on its x axis is left out, as it shows no course.
func OfCases(r *result.Run) []result.Chart {
	named := ofCases(r)
	charts := make([]result.Chart, len(named))
	for i, n := range named {
		charts[i] = n.Chart
	}
	return charts
}

func ofCases(r *result.Run) []Named {
	var sets []string
	for _, s := range r.Sets {
		if !slices.Contains(sets, s.Name) {
			sets = append(sets, s.Name)
		}
	}
	for _, c := range r.Cases {
		if !slices.Contains(sets, c.Set) {
			sets = append(sets, c.Set)
		}
	}
	var out []Named
	for _, set := range sets {
		var sizes []int
		var radii []float64
		for _, c := range r.Cases {
			if c.Set != set {
				continue
			}
			if !slices.Contains(sizes, c.Rows) {
				sizes = append(sizes, c.Rows)
			}
			if !slices.Contains(radii, c.RadiusM) {
				radii = append(radii, c.RadiusM)
			}
		}
		slices.Sort(sizes)
		slices.Sort(radii)
		if len(sizes) > 1 {
			for _, radius := range radii {
				out = append(out, Named{
					Set:  set,
					Name: fmt.Sprintf("%s-rows-%s", digest.Slug(set), digest.Slug(result.Metres(radius))),
					Chart: result.Chart{
						Title: fmt.Sprintf("%s, %s: time against rows", set, digest.Radius(radius)),
						X:     result.Axis{Label: "rows", Log: true}, Y: result.Axis{Label: "time, ms", Log: true},
						Series: series(r, func(c *result.Case) (float64, bool) {
							return float64(c.Rows), c.Set == set && c.RadiusM == radius
						}),
					},
				})
			}
		}
		if len(radii) > 1 {
			rows := sizes[len(sizes)-1]
			out = append(out, Named{
				Set:  set,
				Name: fmt.Sprintf("%s-radius-%d", digest.Slug(set), rows),
				Chart: result.Chart{
					Title: fmt.Sprintf("%s, %s rows: time against radius", set, digest.Count(rows)),
					X:     result.Axis{Label: "radius, m", Log: true}, Y: result.Axis{Label: "time, ms", Log: true},
					Series: series(r, func(c *result.Case) (float64, bool) {
						return c.RadiusM, c.Set == set && c.Rows == rows
					}),
				},
			})
		}
	}
	return out
}

// series returns a line for each strategy through the cases that x accepts.
func series(r *result.Run, x func(*result.Case) (float64, bool)) []result.Series {
	var out []result.Series
	for i := range r.Cases {
		c := &r.Cases[i]
		at, ok := x(c)
		if !ok {
			continue
		}
		k := slices.IndexFunc(out, func(s result.Series) bool { return s.Name == c.Strategy })
		if k < 0 {
			k = len(out)
			out = append(out, result.Series{Name: c.Strategy})
		}
		lo, hi := digest.Range(c.Free.Time)
		out[k].Points = append(out[k].Points, result.Point{X: at, Y: c.Free.Time.Median, Lo: lo, Hi: hi})
	}
	for i := range out {
		slices.SortStableFunc(out[i].Points, func(a, b result.Point) int { return cmp.Compare(a.X, b.X) })
	}
	return out
}
