package digest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
)

// Note is a fact about one node of a plan in plain words: what bench/plan sees in
// the plan alone, and what the trace, the warnings and the forced plan add.
type Note struct {
	Code plan.NoteCode
	// Warning marks what is likely to cost time; the others explain the figures.
	Warning bool
	Text    string
	Node    *plan.Node
}

// Codes of notes beside those of bench/plan.
const (
	NoteServerWarning plan.NoteCode = "server-warning"
	NoteTraceCut      plan.NoteCode = "trace-cut"
	NoteOtherIndex    plan.NoteCode = "other-index"
	NoteRootEstimate  plan.NoteCode = "r-tree-estimate"
)

// notes returns the notes of a plan, in the order of its nodes. forced is how the
// forced plans of its case read.
func notes(r *result.Run, p *Plan, forced []access) []Note {
	if p.Plan.Root == nil {
		return nil
	}
	var out []Note
	add := func(n *plan.Node, code plan.NoteCode, warning bool, format string, args ...any) {
		out = append(out, Note{code, warning, fmt.Sprintf(format, args...), n})
	}
	for _, w := range p.Statement.Warnings {
		text := fmt.Sprintf("MySQL says (%s %d): %s", w.Level, w.Code, w.Text)
		if w.Code == 3170 { // ER_CAPACITY_EXCEEDED of range_optimizer_max_mem_size
			text += " The ranges were too many for range_optimizer_max_mem_size, so that no range scan was considered: fewer ranges a statement, or more memory."
		}
		add(p.Plan.Root, NoteServerWarning, w.Level != "Note", "%s", text)
	}
	trace := p.Statement.Trace
	if trace != nil && trace.MissingBytes > 0 {
		add(p.Plan.Root, NoteTraceCut, false, "The optimizer trace lacks its last %s bytes (optimizer_trace_max_mem_size): alternatives may be missing.", Count(trace.MissingBytes))
	}
	var own []string
	for _, a := range forced {
		if a.index != "" && !slices.Contains(own, a.index) {
			own = append(own, a.index)
		}
	}
	for _, n := range p.Plan.Root.All() {
		ignored := !p.Forced && ignores(n, forced)
		if ignored {
			add(n, plan.NoteIndexIgnored, true, "%s", ignoredText(p.Case, own, trace))
		}
		for _, note := range n.Notes() {
			switch note.Code {
			case plan.NoteMisestimate:
				if p.Forced {
					// MySQL does not estimate where an index is forced: it shows 1 row.
					continue
				}
			case plan.NoteIndexIgnored:
				if ignored {
					continue // said above, with the cause
				}
			}
			out = append(out, Note(note))
			if note.Code == plan.NoteMisestimate && n.Spatial {
				add(n, NoteRootEstimate, false, "Row estimates of an R-tree come from the root page of the index alone; they say little about the box that was asked for.")
			}
		}
		if p.Forced || !readsTable(n) || scans(n) {
			continue
		}
		if n.Index != "" && len(own) > 0 && !slices.Contains(own, n.Index) {
			add(n, NoteOtherIndex, false, "The optimizer read with %s, not with %s, which the strategy is made for.", n.Index, strings.Join(own, ", "))
		}
		if text, ok := undived(r, trace, n); ok && !slices.ContainsFunc(out, func(o Note) bool { return o.Node == n && o.Code == plan.NoteManyRanges }) {
			add(n, plan.NoteManyRanges, true, "%s", text)
		}
	}
	return out
}

// ignoredText says which index was ignored, why, and what that costs.
func ignoredText(c *result.Case, own []string, trace *result.Trace) string {
	var b strings.Builder
	if len(own) > 0 {
		fmt.Fprintf(&b, "Index ignored: %s could serve the search, but the optimizer scans all.", strings.Join(own, ", "))
	} else {
		b.WriteString("Index ignored: there is one for the search, but the optimizer scans all.")
	}
	switch {
	case trace == nil:
		b.WriteString(" No optimizer trace was kept, so the plan does not say why.")
	case trace.Cause != "":
		b.WriteString(" " + trace.Cause)
	default:
		for _, a := range trace.Alternatives {
			if a.Chosen || len(own) > 0 && !slices.Contains(own, a.Index) {
				continue
			}
			if !a.Usable {
				fmt.Fprintf(&b, " The trace says that %s is not usable (%s).", a.Index, orUnknown(a.Cause))
				continue
			}
			fmt.Fprintf(&b, " The trace has %s at a cost of %s for %s rows, the scan at %s for %s (%s).", a.Index,
				plan.Figure(a.Cost), plan.Figure(a.Rows), plan.Figure(trace.ScanCost), plan.Figure(trace.ScanRows), orUnknown(a.Cause))
		}
	}
	if c.Forced != nil && c.Forced.Time.Median > 0 && c.Free.Time.Median > 0 {
		free, forced := c.Free.Time.Median, c.Forced.Time.Median
		switch Compare(c.Free.Time, c.Forced.Time) {
		case 0:
			fmt.Fprintf(&b, " That does no harm: the whole search took %s, and %s with the index forced, which is equal within the noise.", plan.Milliseconds(free), plan.Milliseconds(forced))
		case 1:
			fmt.Fprintf(&b, " That costs time: the whole search took %s, and %s with the index forced, %s times less.", plan.Milliseconds(free), plan.Milliseconds(forced), plan.Figure(free/forced))
		default:
			fmt.Fprintf(&b, " That is right: the whole search took %s, and %s with the index forced.", plan.Milliseconds(free), plan.Milliseconds(forced))
		}
	}
	return b.String()
}

func orUnknown(cause string) string {
	if cause == "" {
		return "no cause given"
	}
	return "cause: " + cause
}

// undived says that the rows of a range scan were guessed from statistics, where
// the trace shows it.
func undived(r *result.Run, trace *result.Trace, n *plan.Node) (string, bool) {
	if trace == nil || n.Kind != plan.IndexRange {
		return "", false
	}
	limit := plan.DiveLimit
	if v, err := strconv.Atoi(r.Settings.Variables["eq_range_index_dive_limit"]); err == nil {
		limit = v
	}
	for _, a := range trace.Alternatives {
		if a.Index == n.Index && a.Chosen && !a.Dives && limit > 0 && a.Ranges >= limit {
			return fmt.Sprintf("%s ranges, at or past eq_range_index_dive_limit (%d): the optimizer guessed their rows from statistics and did not look at these values.", Count(a.Ranges), limit), true
		}
	}
	return "", false
}

// Range returns the middle of a timing, from the median less to the median plus
// its spread: about half of the runs.
func Range(t result.Timing) (lo, hi float64) {
	return t.Median * (1 - t.Spread), t.Median * (1 + t.Spread)
}

// Compare returns 1 if a took longer than b, -1 if it took less, and 0 if they are equal
// within the noise: if the middle halves of their runs overlap.
func Compare(a, b result.Timing) int {
	alo, ahi := Range(a)
	blo, bhi := Range(b)
	switch {
	case alo > bhi:
		return 1
	case ahi < blo:
		return -1
	}
	return 0
}

// SamePlan reports whether the free and the forced statements of a case have plans
// of the same shape: the same operations on the same tables by the same indexes. A
// difference in time between them is then no matter of the index. It is false
// where nothing was forced or a plan cannot be read.
func SamePlan(c *result.Case) bool {
	if c.Forced == nil || len(c.Free.Statements) == 0 || len(c.Free.Statements) != len(c.Forced.Statements) {
		return false
	}
	for i := range c.Free.Statements {
		a, _ := read(&c.Free.Statements[i])
		b, _ := read(&c.Forced.Statements[i])
		if a.Root == nil || b.Root == nil || shape(a.Root) != shape(b.Root) {
			return false
		}
	}
	return true
}

func shape(root *plan.Node) string {
	var b strings.Builder
	for depth, n := range root.All() {
		if n.Implied {
			continue
		}
		fmt.Fprintf(&b, "%d %s %q %q %v\n", depth, n.Kind, n.Table, n.Index, n.Reverse)
	}
	return b.String()
}
