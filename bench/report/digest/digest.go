package digest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
)

// TableScan is the Row.Index of a search that read the whole table.
const TableScan = "table scan"

// Row is a line of the table of cases.
type Row struct {
	Case *result.Case

	// Index names what the free plans read with, in the order of the statements:
	// an index, several with commas, TableScan, "lat_lng (all of it)" for the scan of a
	// whole index, "lat_lng (from its end)" for one that a limit stops, or "" where no plan
	// could be read.
	Index string

	// Examined is how many rows the free plans read, and PerReturned that number for
	// each job on the page. A page without a job counts as one with one.
	Examined, PerReturned float64

	// Estimated and Actual are the rows that the optimizer expected and that came,
	// summed over the reads that can be compared; Compared is the number of those
	// reads. Misestimate is 10, 100 or 1000 if one of the reads is off by that factor
	// or more, 0 otherwise: the sums can be close while a read is far off.
	Estimated, Actual float64
	Compared          int
	Misestimate       int

	// Ignored says that there is an index for the search, and that the optimizer
	// chose to scan, which it does not do when the index is forced.
	Ignored bool

	// FreeMS and ForcedMS are medians of the whole search. ForceGain is how many
	// times faster it is with the index forced. The last two are 0 where nothing
	// was forced.
	FreeMS, ForcedMS, ForceGain float64
}

// Rows returns a row for each case, in the run's order.
func Rows(r *result.Run) []Row {
	rows := make([]Row, len(r.Cases))
	for i := range r.Cases {
		rows[i] = newRow(&r.Cases[i])
	}
	return rows
}

func newRow(c *result.Case) Row {
	row := Row{Case: c, FreeMS: c.Free.Time.Median}
	if c.Forced != nil {
		row.ForcedMS = c.Forced.Time.Median
		if row.ForcedMS > 0 {
			row.ForceGain = row.FreeMS / row.ForcedMS
		}
	}
	var indexes []string
	forced := forcedReads(c)
	for i := range c.Free.Statements {
		p, _ := read(&c.Free.Statements[i])
		if p.Root == nil {
			continue
		}
		examined, _, _ := p.Root.Examined()
		row.Examined += examined
		for _, n := range p.Root.All() {
			if !readsTable(n) {
				continue
			}
			if name := accessName(n); !slices.Contains(indexes, name) {
				indexes = append(indexes, name)
			}
			row.Ignored = row.Ignored || ignores(n, forced)
			row.Misestimate = max(row.Misestimate, n.Misestimate())
			if n.Actual == nil || n.EstimatedRows == nil || n.Limited {
				continue
			}
			total, _ := n.TotalRows()
			row.Compared++
			row.Actual += total
			row.Estimated += *n.EstimatedRows * n.Actual.Loops
		}
	}
	row.Index = strings.Join(indexes, ", ")
	row.PerReturned = row.Examined / float64(max(1, c.Returned))
	return row
}

// access is a way to read a table.
type access struct {
	kind         plan.Kind
	table, index string
}

// forcedReads returns how the forced plans of a case read, in their order and each
// once; none if there are none, or none that can be read.
func forcedReads(c *result.Case) []access {
	if c.Forced == nil {
		return nil
	}
	var out []access
	for i := range c.Forced.Statements {
		p, _ := read(&c.Forced.Statements[i])
		if p.Root == nil {
			continue
		}
		for _, n := range p.Root.All() {
			if a := (access{n.Kind, n.Table, n.Index}); readsTable(n) && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// ignores reports whether a node of a free plan scans although the index can be
// used: where it is forced, the table is read otherwise.
func ignores(n *plan.Node, forced []access) bool {
	return scans(n) && len(forced) > 0 && !slices.Contains(forced, access{n.Kind, n.Table, n.Index})
}

// readsTable reports whether a node reads rows of a table, not of a result that
// the statement itself made (MySQL calls those <temporary>, <union1,2>, ...).
func readsTable(n *plan.Node) bool {
	return n.Kind.Reads() && n.Table != "" && !strings.HasPrefix(n.Table, "<")
}

// scans reports whether a node reads a whole table or index. A limit can end it
// early, but it starts wherever the table does.
func scans(n *plan.Node) bool {
	return readsTable(n) && (n.Kind == plan.TableScan || n.Kind == plan.IndexScan)
}

func accessName(n *plan.Node) string {
	switch {
	case n.Kind == plan.TableScan:
		return TableScan
	case n.Kind == plan.IndexScan && n.Limited:
		return n.Index + " (from its end)"
	case n.Kind == plan.IndexScan:
		return n.Index + " (all of it)"
	case n.Index == "":
		return string(n.Kind)
	}
	return n.Index
}

// Plan is a plan with where it comes from.
type Plan struct {
	// ID is fit for a link, an HTML id and a file's name, and unique in the run.
	ID    string
	Label string
	Case  *result.Case
	// Forced says that the statement named its index.
	Forced    bool
	Statement *result.Statement
	// Plan is read from the JSON form where that was kept, since it says more,
	// and from the TREE form otherwise. Its Root is nil if neither can be read.
	Plan plan.Plan
	// Notes are those of all nodes, in the order of the plan.
	Notes []Note
}

// Plans returns the plans of all cases, free before forced, in the run's order.
// The warnings name every plan that could not be read, or only in part; such a
// plan is still there, with its statement.
func Plans(r *result.Run) (plans []Plan, warnings []string) {
	ids := map[string]int{}
	for i := range r.Cases {
		c := &r.Cases[i]
		reads := forcedReads(c)
		add := func(side *result.Side, forced bool) {
			kind := "free"
			if forced {
				kind = "forced"
			}
			for j := range side.Statements {
				st := &side.Statements[j]
				p := Plan{
					ID: unique(ids, fmt.Sprintf("%s-%s-%d", Slug(c.Key()), kind, j+1)), Case: c, Forced: forced, Statement: st,
					Label: fmt.Sprintf("%s, %s", CaseLabel(c), kind),
				}
				if n := len(side.Statements); n > 1 {
					p.Label += fmt.Sprintf(", statement %d of %d", j+1, n)
				}
				var problems []error
				p.Plan, problems = read(st)
				for _, err := range problems {
					warnings = append(warnings, fmt.Sprintf("%s: %v", p.Label, err))
				}
				p.Notes = notes(r, &p, reads)
				plans = append(plans, p)
			}
		}
		add(&c.Free, false)
		if c.Forced != nil {
			add(c.Forced, true)
		}
	}
	return plans, warnings
}

// read reads a statement's plan, from JSON if that is possible. The errors say
// what could not be read; the plan's Root is nil only if nothing could.
func read(st *result.Statement) (plan.Plan, []error) {
	var problems []error
	parse := func(what string, text []byte) (plan.Plan, bool) {
		found, err := plan.Parse(bytes.NewReader(text))
		if err != nil {
			problems = append(problems, fmt.Errorf("the plan as %s cannot be read: %w", what, err))
			return plan.Plan{}, false
		}
		p := found[0]
		if len(found) > 1 {
			problems = append(problems, fmt.Errorf("the plan as %s holds %d plans; only the first is used", what, len(found)))
		}
		if len(p.Unread) > 0 {
			problems = append(problems, fmt.Errorf("the plan as %s has %d lines that cannot be read, the first is line %d: %q",
				what, len(p.Unread), p.Unread[0].Number, cut(p.Unread[0].Text, 80)))
		}
		for _, w := range p.Warnings {
			problems = append(problems, fmt.Errorf("the plan as %s: %s", what, w.Text))
		}
		return p, p.Root != nil
	}
	if len(st.JSON) > 0 && !bytes.Equal(st.JSON, []byte("null")) {
		if p, ok := parse("JSON", st.JSON); ok {
			return p, problems
		}
	}
	if strings.TrimSpace(st.Tree) != "" {
		if p, ok := parse("TREE", []byte(st.Tree)); ok {
			return p, problems
		}
	}
	if len(problems) == 0 {
		problems = append(problems, errors.New("no plan was kept"))
	}
	return plan.Plan{}, problems
}

func cut(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}

// Slug turns a text into one that is safe in a link, an HTML id and a file's
// name: small ASCII letters, digits, dots and single dashes, beginning with a letter or
// digit. Different texts can have one slug.
func Slug(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' && b.Len() > 0:
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		default:
			dash = true
		}
	}
	if b.Len() == 0 {
		return "x"
	}
	return b.String()
}

// unique returns id, or id with the first number behind it that is free.
func unique(taken map[string]int, id string) string {
	for n := 2; ; n++ {
		if _, ok := taken[id]; !ok {
			taken[id] = 1
			return id
		}
		taken[id]++
		next := fmt.Sprintf("%s-%d", id, taken[id])
		if _, ok := taken[next]; !ok {
			taken[next] = 1
			return next
		}
	}
}

// CaseLabel names a case for people: "dense, 5,000 rows, 1 km, bbox".
func CaseLabel(c *result.Case) string {
	return fmt.Sprintf("%s, %s rows, %s, %s", c.Set, Count(c.Rows), Radius(c.RadiusM), c.Strategy)
}

// Count writes a whole number with its thousands apart.
func Count(n int) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Radius writes a radius for people: "500 m", "2.5 km", "any distance".
func Radius(m float64) string {
	switch {
	case math.IsInf(m, 1):
		return "any distance"
	case m >= 1000:
		return fmt.Sprintf("%v km", m/1000)
	}
	return fmt.Sprintf("%v m", m)
}

// Find returns the case with a key, or nil. Where a run has several, it is the
// first.
func Find(r *result.Run, key string) *result.Case {
	for i := range r.Cases {
		if r.Cases[i].Key() == key {
			return &r.Cases[i]
		}
	}
	return nil
}
