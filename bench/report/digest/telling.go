package digest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
)

// Telling is a case whose plans are worth reading.
type Telling struct {
	Row Row
	Why string
}

// TellingCases returns at most so many cases whose plans are worth reading, each
// once, with the reason: where an index was ignored, the estimate was furthest
// off, most rows were read in vain, and the fastest and the slowest at the largest
// size. Equal runs give equal answers.
func TellingCases(rows []Row, most int) []Telling {
	var out []Telling
	add := func(row Row, why string) {
		if len(out) < most && !slices.ContainsFunc(out, func(t Telling) bool { return t.Row.Case == row.Case }) {
			out = append(out, Telling{row, why})
		}
	}
	// best returns the row with the highest score, the first one of several, or
	// nothing if no score is above 0.
	best := func(score func(Row) float64) (Row, bool) {
		if len(rows) == 0 {
			return Row{}, false
		}
		row := slices.MaxFunc(rows, func(a, b Row) int { return cmp.Compare(score(a), score(b)) })
		return row, score(row) > 0
	}
	if row, ok := best(func(r Row) float64 {
		if !r.Ignored {
			return 0
		}
		return max(r.ForceGain, 1e-9)
	}); ok {
		add(row, "The optimizer ignores the index and scans.")
	}
	if row, ok := best(func(r Row) float64 {
		if r.Misestimate == 0 {
			return 0
		}
		return worstRatio(r.Case)
	}); ok {
		add(row, fmt.Sprintf("An estimate is off by %s times.", plan.Figure(worstRatio(row.Case))))
	}
	largest := 0
	for _, r := range rows {
		largest = max(largest, r.Case.Rows)
	}
	at := func(r Row) bool { return r.Case.Rows == largest && r.FreeMS > 0 }
	if row, ok := best(func(r Row) float64 {
		if !at(r) || r.Case.Returned == 0 {
			return 0
		}
		return 1 / r.FreeMS
	}); ok {
		add(row, "The fastest search that finds something, at the largest size.")
	}
	if row, ok := best(func(r Row) float64 {
		if !at(r) {
			return 0
		}
		return r.FreeMS
	}); ok {
		add(row, "The slowest search at the largest size.")
	}
	if row, ok := best(func(r Row) float64 {
		if !at(r) || r.Case.Forced == nil {
			return 0
		}
		return r.PerReturned
	}); ok {
		add(row, fmt.Sprintf("With an index, it reads the most rows for each that it returns: %s.", plan.Figure(row.PerReturned)))
	}
	return out
}

// worstRatio is by how much the worst estimate in the free plans is off.
func worstRatio(c *result.Case) float64 {
	worst := 0.0
	for i := range c.Free.Statements {
		p, _ := read(&c.Free.Statements[i])
		if p.Root == nil {
			continue
		}
		for _, n := range p.Root.All() {
			if !readsTable(n) || n.Misestimate() == 0 {
				continue
			}
			if ratio, ok := n.EstimateRatio(); ok && ratio > 0 {
				worst = max(worst, ratio, 1/ratio)
			}
		}
	}
	return worst
}
