package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// A NoteCode says which kind of fact a note tells.
type NoteCode string

const (
	NoteFullScan       NoteCode = "full-scan"
	NoteIndexIgnored   NoteCode = "index-ignored"
	NoteFilesort       NoteCode = "filesort"
	NoteTemporary      NoteCode = "temporary-table"
	NoteMisestimate    NoteCode = "misestimate"
	NoteManyRanges     NoteCode = "past-dive-limit"
	NoteManyValues     NoteCode = "long-in-list"
	NoteNeverExecuted  NoteCode = "never-executed"
	NotePrintedBefore  NoteCode = "printed-elsewhere"
	NotePerLoop        NoteCode = "per-loop"
	NoteFilterDiscards NoteCode = "filter-discards"
	NoteClampedTime    NoteCode = "clamped-time"
)

// A Note is a fact about one node in plain words.
type Note struct {
	Code NoteCode `json:"code"`
	// Warning marks what is likely to cost time; the others explain the figures.
	Warning bool   `json:"warning"`
	Text    string `json:"text"`
	Node    *Node  `json:"-"`
}

const (
	// DiveLimit is the default of eq_range_index_dive_limit: with that many
	// equality ranges MySQL takes an average from the index statistics instead of
	// looking at each range. The setting of the server is not in a plan.
	DiveLimit = 200

	manyRows     = 1000 // a scan of fewer rows is no reason for a warning
	someRows     = 100
	mostDiscards = 10 // a filter that keeps less than one row in this many
)

// Notes returns what is worth knowing about the node, warnings first.
func (n *Node) Notes() []Note {
	var warnings, facts []Note
	warn := func(code NoteCode, format string, args ...any) {
		warnings = append(warnings, Note{code, true, fmt.Sprintf(format, args...), n})
	}
	fact := func(code NoteCode, format string, args ...any) {
		facts = append(facts, Note{code, false, fmt.Sprintf(format, args...), n})
	}
	if n.NeverExecuted {
		if strings.Contains(n.Operation, "(query plan printed elsewhere)") {
			fact(NotePrintedBefore, "Uses a result that is made elsewhere in the plan; its figures stand there.")
		} else {
			fact(NoteNeverExecuted, "Never executed: no row reached it. Its estimates were not put to the test.")
		}
	}
	rows, rowsOf := n.rows()
	if n.fullScan() {
		what := "every row of " + n.Table
		if n.Kind == IndexScan {
			what = "every entry of index " + n.Index + " of " + n.Table
		}
		text := fmt.Sprintf("Full scan: reads %s (%s)", what, rowsOf)
		if n.Kind == IndexScan && n.Reverse {
			text += ", backwards"
		}
		if rows >= manyRows {
			warn(NoteFullScan, "%s.", text)
		} else {
			fact(NoteFullScan, "%s; that few rows are no harm.", text)
		}
	}
	if len(n.PossibleIndexes) > 0 && n.Index == "" && n.Kind == TableScan {
		warn(NoteIndexIgnored, "Index ignored: %s could serve the condition, but the optimizer took a full scan for cheaper. It does so when it expects a large part of the table, or when the estimate is wrong.",
			strings.Join(n.PossibleIndexes, ", "))
	}
	if n.Kind == Sort {
		text := fmt.Sprintf("Filesort: all its rows (%s) are collected and sorted", n.inputRows())
		if n.Detail != "" {
			text += " by " + n.Detail
		}
		if below, _ := n.inputCount(); below >= manyRows {
			warn(NoteFilesort, "%s before the first one is returned; an index in that order would not need it.", text)
		} else {
			fact(NoteFilesort, "%s.", text)
		}
	}
	if n.Kind == TempAggregate {
		fact(NoteTemporary, "Groups in a temporary table (%s in); rows in the order of an index would be grouped as they come.", n.inputRows())
	}
	if mark := n.Misestimate(); mark > 0 {
		ratio, _ := n.EstimateRatio()
		text := fmt.Sprintf("%s times more rows than estimated", Figure(ratio))
		if ratio < 1 {
			text = fmt.Sprintf("%s times fewer rows than estimated", Figure(1/ratio))
		}
		format := "Estimate off: %s (%s estimated, %s actual for each loop). What stands above it was planned for the wrong amount."
		if mark >= 100 {
			warn(NoteMisestimate, format, text, Figure(*n.EstimatedRows), Figure(n.Actual.Rows))
		} else {
			fact(NoteMisestimate, format, text, Figure(*n.EstimatedRows), Figure(n.Actual.Rows))
		}
	}
	if count, equal := n.rangeCount(); equal && count >= DiveLimit {
		warn(NoteManyRanges, "%d single values, at or past the default of eq_range_index_dive_limit (%d): the row estimate is an average from the index statistics, not a look at these values.",
			count, DiveLimit)
	}
	if n.Kind == Filter {
		if count := longestInList(n.Condition); count >= DiveLimit {
			below := n.inputs()
			if len(below) == 1 && below[0].fullScan() {
				warn(NoteManyValues, "A list of %d values is checked on every row of a full scan: no index serves it, or range_optimizer_max_mem_size was too small for the list (SHOW WARNINGS then has 3170).", count)
			} else {
				fact(NoteManyValues, "A list of %d values is checked on every row that arrives.", count)
			}
		}
		n.discards(warn, fact)
	}
	if n.Actual != nil && n.Actual.Loops > 1 {
		total, _ := n.TotalRows()
		ms, _ := n.TotalMS()
		fact(NotePerLoop, "The figures are for one of %s loops: in all %s rows and %s.", Figure(n.Actual.Loops), Figure(total), Milliseconds(ms))
	}
	if _, clamped, _ := n.SelfMS(); clamped {
		fact(NoteClampedTime, "Its inputs are given more time than itself, by rounding or because one of them ran outside it; its own time counts as 0.")
	}
	return append(warnings, facts...)
}

// fullScan reports whether the node reads a whole table or index of the data.
func (n *Node) fullScan() bool {
	return (n.Kind == TableScan || n.Kind == IndexScan) && len(n.inputs()) == 0 && !strings.HasPrefix(n.Table, "<")
}

// discards notes a filter that throws most of its rows away.
func (n *Node) discards(warn, fact func(NoteCode, string, ...any)) {
	in, actual := n.inputCount()
	if in < someRows {
		return
	}
	var out float64
	switch {
	case actual:
		out, _ = n.TotalRows()
	case n.EstimatedRows != nil:
		out = *n.EstimatedRows
	default:
		return
	}
	if out*mostDiscards > in {
		return
	}
	verb := "Discards"
	if !actual {
		verb = "Is expected to discard"
	}
	note := fact
	if in >= manyRows {
		note = warn
	}
	note(NoteFilterDiscards, "%s most of what is read: %s rows in, %s out.", verb, Figure(in), Figure(out))
}

// rows returns the node's rows over all loops, or the estimate, and says which.
func (n *Node) rows() (rows float64, text string) {
	if n.Actual != nil {
		rows, _ = n.TotalRows()
		return rows, Figure(rows) + " rows"
	}
	if n.EstimatedRows != nil {
		return *n.EstimatedRows, "an estimated " + Figure(*n.EstimatedRows) + " rows"
	}
	return 0, "number of rows not stated"
}

// inputCount returns the rows of all inputs, and whether they are actual.
func (n *Node) inputCount() (rows float64, actual bool) {
	actual = true
	for _, c := range n.inputs() {
		r, _ := c.rows()
		rows += r
		actual = actual && c.Actual != nil
	}
	return rows, actual && len(n.inputs()) > 0
}

func (n *Node) inputRows() string {
	rows, actual := n.inputCount()
	if actual {
		return Figure(rows) + " rows"
	}
	return "an estimated " + Figure(rows) + " rows"
}

// rangeCount returns the number of ranges of a range scan, and whether all that
// are visible are single values.
func (n *Node) rangeCount() (count int, equal bool) {
	if n.Kind != IndexRange || n.Ranges == "" {
		return 0, false
	}
	shown := n.Ranges
	if at := strings.LastIndex(shown, " OR ("); at >= 0 {
		if more, found := strings.CutSuffix(shown[at+len(" OR ("):], " more)"); found {
			// "(a = 1) OR (a = 2) OR (248 more)"
			if rest, err := strconv.Atoi(more); err == nil && rest > 0 {
				shown, count = shown[:at], rest
			}
		}
	}
	return count + 1 + strings.Count(shown, ") OR ("), strings.Contains(shown, " = ") && !strings.ContainsAny(shown, "<>")
}

// longestInList returns the number of values in the longest IN list of a
// condition.
func longestInList(condition string) int {
	// The commas in each open parenthesis; -1 outside of IN lists.
	var open []int
	longest := 0
	var b balance
	for i := range len(condition) {
		quoted := b.quote != 0
		b.feed(condition[i : i+1])
		if quoted || b.quote != 0 {
			continue
		}
		switch top := len(open) - 1; condition[i] {
		case '(':
			commas := -1
			if strings.HasSuffix(condition[:i], " in ") {
				commas = 0
			}
			open = append(open, commas)
		case ',':
			if top >= 0 && open[top] >= 0 {
				open[top]++
			}
		case ')':
			if top >= 0 {
				longest = max(longest, open[top]+1)
				open = open[:top]
			}
		}
	}
	return longest
}

// Figure writes a number for people: three digits, thousands apart.
func Figure(f float64) string {
	switch {
	case f < 0:
		return "-" + Figure(-f)
	case f >= 1e15:
		return strconv.FormatFloat(f, 'e', 2, 64)
	case f < 100:
		return strconv.FormatFloat(f, 'g', 3, 64)
	}
	s := strconv.FormatFloat(f, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Milliseconds writes a time for people.
func Milliseconds(ms float64) string {
	switch {
	case ms >= 10_000:
		return Figure(ms/1000) + " s"
	case ms != 0 && ms < 0.1 && ms > -0.1:
		return Figure(ms*1000) + " us"
	}
	return Figure(ms) + " ms"
}
