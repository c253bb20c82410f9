package lab

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
)

// ParseTrace reads an optimizer trace (information_schema.OPTIMIZER_TRACE.TRACE)
// of one statement over one table, or of a UNION of such.
//
// Estimates for the scan and for each index are of the range optimizer, before the
// cost of looking at each row; ChosenCost is of the final plan and holds that too,
// as EXPLAIN prints it. A trace with several SELECTs gives the figures of the
// first; the cause then tells of each. MissingBytes is left for the caller.
//
// An index is usable if the optimizer could make ranges on it: what MySQL calls
// usable and then drops with the cause "no_valid_range_for_this_index" is not.
func ParseTrace(trace []byte) (*result.Trace, error) {
	d := json.NewDecoder(bytes.NewReader(trace))
	d.UseNumber() // numbers past float64 are not worth an error of the whole
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("read an optimizer trace: %w", err)
	}
	var selects []object
	if err := optimizations(document, 0, &selects); err != nil {
		return nil, err
	}
	if len(selects) == 0 {
		return nil, errors.New("read an optimizer trace: it holds no join_optimization: the server was perhaps told to trace other parts (optimizer_trace_features), or the statement was not optimized")
	}
	// A stable sort: MySQL numbers SELECTs in the order of the statement.
	slices.SortStableFunc(selects, func(a, b object) int { return cmp.Compare(a.number("select#"), b.number("select#")) })
	var first *result.Trace
	var causes []string
	for _, s := range selects {
		t, ok := parseSelect(s)
		if !ok {
			continue // over no table: the UNION itself
		}
		if first == nil {
			first = t
		}
		causes = append(causes, t.Cause)
	}
	if first == nil {
		cause := "the optimizer had nothing to choose: the trace has no estimates"
		for _, s := range selects {
			if s.step("join_optimizer") != nil {
				cause = "the hypergraph optimizer notes its reasons as text, without figures by index"
			}
		}
		return &result.Trace{Alternatives: []result.Alternative{}, Cause: cause}, nil
	}
	if len(causes) > 1 {
		for i := range causes {
			causes[i] = fmt.Sprintf("SELECT %d: %s", i+1, causes[i])
		}
		first.Cause = strings.Join(causes, "; ")
	}
	return first, nil
}

// maxTraceDepth is more than any trace of a search has: about 20.
const maxTraceDepth = 1000

// object is a JSON object of a trace.
type object map[string]any

// optimizations collects every join_optimization below v.
func optimizations(v any, depth int, to *[]object) error {
	if depth > maxTraceDepth {
		return fmt.Errorf("read an optimizer trace: it is deeper than %d levels", maxTraceDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := optimizations(e, depth+1, to); err != nil {
				return err
			}
		}
	case map[string]any:
		if o, ok := v["join_optimization"].(map[string]any); ok {
			*to = append(*to, object(o))
		}
		// In the order of the keys, so that equal traces give equal results.
		for _, k := range sortedKeys(v) {
			if err := optimizations(v[k], depth+1, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) number(key string) float64 {
	n, _ := o[key].(json.Number)
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

func (o object) is(key string) bool {
	b, _ := o[key].(bool)
	return b
}

// each calls f with the objects of an array.
func (o object) each(key string, f func(object)) {
	list, _ := o[key].([]any)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			f(m)
		}
	}
}

// step returns the first step of an optimization that holds a key.
func (o object) step(key string) (found object) {
	o.each("steps", func(s object) {
		if _, ok := s[key]; ok && found == nil {
			found = s
		}
	})
	return found
}

// parseSelect reads the optimization of one SELECT. It reports false for one whose
// table was never estimated.
func parseSelect(o object) (*result.Trace, bool) {
	t := &result.Trace{Alternatives: []result.Alternative{}}
	var analysis object
	o.step("rows_estimation").each("rows_estimation", func(table object) {
		if a := table.object("range_analysis"); a != nil && analysis == nil {
			analysis = a
		}
	})
	if analysis == nil {
		return nil, false
	}
	scan := analysis.object("table_scan")
	t.ScanRows, t.ScanCost = scan.number("rows"), scan.number("cost")

	geometry := make(map[string]bool)
	at := func(index string) *result.Alternative {
		i := slices.IndexFunc(t.Alternatives, func(a result.Alternative) bool { return a.Index == index })
		if i < 0 {
			i = len(t.Alternatives)
			t.Alternatives = append(t.Alternatives, result.Alternative{Index: index})
		}
		return &t.Alternatives[i]
	}
	analysis.each("potential_range_indexes", func(p object) {
		a := at(p.text("index"))
		a.Cause = p.text("cause")
	})
	analysis.object("analyzing_range_alternatives").each("range_scan_alternatives", func(p object) {
		a := at(p.text("index"))
		a.Cause = p.text("cause")
		if _, costed := p["cost"]; !costed {
			return
		}
		ranges, _ := p["ranges"].([]any)
		a.Usable, a.Ranges = true, len(ranges)
		a.Rows, a.Cost = p.number("rows"), p.number("cost")
		a.IndexOnly, a.Dives, a.Chosen = p.is("index_only"), p.is("index_dives_for_eq_ranges"), p.is("chosen")
		for _, r := range ranges {
			if s, _ := r.(string); strings.Contains(s, "unprintable_geometry_value") {
				geometry[a.Index] = true
			}
		}
	})

	// What the range optimizer proposes, and what became of it.
	way, index := "", ""
	summary := analysis.object("chosen_range_access_summary")
	if summary.is("chosen") {
		p := summary.object("range_access_plan")
		way, index = p.text("type"), p.text("index")
	}
	var path object
	o.step("considered_execution_plans").each("considered_execution_plans", func(p object) {
		p.object("best_access_path").each("considered_access_paths", func(c object) {
			if c.is("chosen") {
				path = c
			}
		})
	})
	t.ChosenCost = path.number("cost")
	access := path.text("access_type")
	switch {
	case access == "scan" || access == "" && way == "":
		t.Chosen = tableScan
	case access == "range" && way != "":
		t.Chosen = rangeWord(way, index)
	case access == "range":
		t.Chosen = "range on " + path.object("range_details").text("used_index")
	case access == "":
		t.Chosen, t.ChosenCost = rangeWord(way, index), summary.number("cost_for_plan")
	default:
		t.Chosen = access + " on " + cmp.Or(path.text("index"), "no index")
	}
	// The order may make the optimizer change its mind at the end.
	order := o.step("reconsidering_access_paths_for_index_ordering").object("reconsidering_access_paths_for_index_ordering").object("index_order_summary")
	if order.is("plan_changed") {
		word := strings.ReplaceAll(order.text("access_type"), "_", " ")
		if word == "index" {
			word = "index scan" // MySQL's word for reading a whole index in its order
		}
		t.Chosen = word + " on " + order.text("index")
		t.Cause = fmt.Sprintf("%s was given up for the order: the rows come sorted from %s", wayName(access, index), order.text("index"))
		return t, true
	}
	t.Cause = cause(t, access, way, index, summary, geometry)
	return t, true
}

const tableScan = "table scan"

// rangeWord names a range access: "range on lat_lng", "skip scan on lat_lng".
func rangeWord(way, index string) string {
	word := strings.TrimSuffix(strings.ReplaceAll(way, "_", " "), " scan")
	if word == "skip" {
		word = "skip scan"
	}
	if index == "" {
		return word
	}
	return word + " on " + index
}

func wayName(access, index string) string {
	if access == "scan" || index == "" {
		return "the scan"
	}
	return index
}

// cause says in a sentence, from the figures, why the access was chosen.
func cause(t *result.Trace, access, way, index string, summary object, geometry map[string]bool) string {
	var costed []result.Alternative
	for _, a := range t.Alternatives {
		if a.Usable {
			costed = append(costed, a)
		}
	}
	scan := fmt.Sprintf("%s for the scan of %s", plan.Figure(t.ScanCost), rowsOf(t.ScanRows))
	guesses := func(names ...string) string {
		var s string
		for _, a := range costed {
			if !slices.Contains(names, a.Index) {
				continue
			}
			switch {
			case geometry[a.Index]:
				s += fmt.Sprintf("; the R-tree's estimate comes from its root page alone: %s guessed", rowsOf(a.Rows))
			case !a.Dives:
				s += fmt.Sprintf("; the rows of %s are guessed from its statistics, not counted in the index", a.Index)
			}
		}
		return s
	}
	switch {
	case access == "scan" || t.Chosen == tableScan:
		if len(costed) == 0 {
			return fmt.Sprintf("no index has a range for these conditions, so the table is read: %s at cost %s", rowsOf(t.ScanRows), plan.Figure(t.ScanCost))
		}
		var parts, names []string
		for _, a := range costed {
			parts = append(parts, fmt.Sprintf("%s for %s by %s", plan.Figure(a.Cost), rowsOf(a.Rows), a.Index))
			names = append(names, a.Index)
		}
		return fmt.Sprintf("the scan: %s at cost %s against %s, so the table is scanned%s",
			rowsOf(t.ScanRows), plan.Figure(t.ScanCost), strings.Join(parts, " and "), guesses(names...))
	case access != "range" && access != "":
		return fmt.Sprintf("%s was chosen at cost %s", t.Chosen, plan.Figure(t.ChosenCost))
	case way == "skip_scan":
		return fmt.Sprintf("%s: %s at cost %s against %s: few different values lead the index, so the index is skipped through from one to the next",
			index, rowsOf(summary.number("rows_for_plan")), plan.Figure(summary.number("cost_for_plan")), scan)
	case way != "range_scan":
		return fmt.Sprintf("%s: %s at cost %s against %s", t.Chosen,
			rowsOf(summary.number("rows_for_plan")), plan.Figure(summary.number("cost_for_plan")), scan)
	}
	s := fmt.Sprintf("%s: %s at cost %s against %s", index,
		rowsOf(summary.number("rows_for_plan")), plan.Figure(summary.number("cost_for_plan")), scan)
	for _, a := range costed {
		if a.Index != index {
			s += fmt.Sprintf(" and %s for %s by %s", plan.Figure(a.Cost), rowsOf(a.Rows), a.Index)
		}
	}
	return s + ", so the range was chosen" + guesses(index)
}

// rowsOf writes a number of rows with its noun.
func rowsOf(n float64) string {
	if n == 1 {
		return "1 row"
	}
	return plan.Figure(n) + " rows"
}

// mend adds what a trace does not tell and the plan shows. MySQL decides without a
// word in the trace to read a whole covering index in place of the table, and the
// hypergraph optimizer's trace names no choice.
func mend(t *result.Trace, tree string) {
	if t.Chosen != tableScan && t.Chosen != "" {
		return
	}
	plans, err := plan.Parse(strings.NewReader(tree))
	if err != nil {
		return // the trace's word stands; the plan is shown beside it
	}
	for _, p := range plans {
		for _, n := range p.Root.All() {
			switch {
			case n.Index == "":
			case t.Chosen == "":
				t.Chosen = strings.Replace(strings.TrimPrefix(string(n.Kind), "index "), "range scan", "range", 1) + " on " + n.Index
				if n.EstimatedCost != nil {
					t.ChosenCost = *n.EstimatedCost
				}
				return
			case n.Kind == plan.IndexScan:
				t.Chosen = "index scan on " + n.Index
				t.Cause += fmt.Sprintf("; the whole index %s is read in place of the table, because it holds all the columns and is shorter", n.Index)
				return
			}
		}
	}
}
