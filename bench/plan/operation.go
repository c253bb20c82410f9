package plan

import (
	"strconv"
	"strings"
)

// operations maps the beginning of MySQL's text to a kind, longer beginnings
// before shorter ones. What follows it goes to the field that rest sets.
var operations = []struct {
	prefix string
	kind   Kind
	rest   func(n *Node, rest string)
}{
	{"Filter: ", Filter, func(n *Node, s string) { n.Condition = s }},
	{"Table scan on ", TableScan, tableOnly},
	{"Count rows in ", CountRows, tableOnly},
	{"Constant row from ", ConstantRow, tableOnly},
	{"Scan new records on ", ScanNewRecords, tableOnly},
	{"Fill information schema table ", InfoSchema, tableOnly},
	{"Nested loop semijoin with duplicate removal on ", NestedLoop, func(n *Node, s string) { n.JoinType, n.Detail = "semijoin", s }},
	{"Nested loop ", NestedLoop, joinType},
	{"Batched key access ", KeyAccessJoin, joinType},
	{"Inner hash join", HashJoin, joinCondition("inner")},
	{"Left hash join", HashJoin, joinCondition("left")},
	{"Hash antijoin", HashJoin, joinCondition("antijoin")},
	{"Hash semijoin", HashJoin, joinCondition("semijoin")},
	{"Sort-deduplicate by row ID", IndexMerge, nil},
	{"Intersect rows sorted by row ID", IndexMerge, nil},
	{"Deduplicate rows sorted by row ID", IndexMerge, nil},
	{"Sort", Sort, afterColon},
	{"Limit table size", Limit, afterColon},
	{"Limit", Limit, afterColon},
	{"Offset", Limit, afterColon},
	{"Group aggregate", Aggregate, afterColon},
	{"Group (no aggregates)", Aggregate, nil},
	{"Aggregate using temporary table", TempAggregate, nil},
	{"Aggregate", Aggregate, afterColon},
	{"Window", Window, afterColon},
	{"Union materialize", Union, nil},
	{"Union all materialize", Union, nil},
	{"Except materialize", Except, nil},
	{"Except all materialize", Except, nil},
	{"Intersect materialize", Intersect, nil},
	{"Intersect all materialize", Intersect, nil},
	{"Materialize table function", TableFunction, nil},
	{"Materialize recursive CTE ", Materialize, func(n *Node, s string) { n.Detail = s }},
	{"Materialize union CTE ", Union, func(n *Node, s string) { n.Detail = s }},
	{"Materialize CTE ", Materialize, func(n *Node, s string) { n.Detail = s }},
	{"Materialize", Materialize, nil},
	{"Temporary table", Materialize, nil},
	{"Append", Append, nil},
	{"Stream results", Stream, nil},
	{"Remove duplicates from input ", Deduplicate, func(n *Node, s string) { n.Detail = s }},
	{"Remove duplicate ", Deduplicate, func(n *Node, s string) { n.Detail = s }},
	{"Alternative plans for IN subquery", Alternative, afterColon},
	{"Invalidate materialized tables", Invalidate, nil},
	{"Rows fetched before execution", Ready, nil},
	{"Zero rows", NoRows, func(n *Node, s string) { n.Detail = s }},
	{"Zero input rows", NoRows, func(n *Node, s string) { n.Detail = s }},
	{"Insert into ", Modify, tableOnly},
	{"Replace into ", Modify, tableOnly},
	{"Update ", Modify, tableOnly},
	{"Delete from ", Modify, tableOnly},
	{notExecutable, NotExplained, nil},
}

// notExecutable is what MySQL prints for a statement that has no plan of
// operations. It stands in the tree without an arrow.
const notExecutable = "<not executable by iterator executor>"

// indexAccesses are the index operations, which have a grammar of their own:
//
//	[Single-row|Multi-range|Full-text] [covering] index OPERATION on TABLE using INDEX
//	  [(LOOKUP)] [over RANGES] [(reverse)][, with index condition: CONDITION]
var indexAccesses = []struct {
	text string
	kind Kind
}{
	{"range scan", IndexRange},
	{"skip scan for grouping", SkipScan},
	{"skip scan for deduplication", SkipScan},
	{"skip scan", SkipScan},
	{"distance scan", DistanceScan},
	{"scan", IndexScan},
	{"lookup", IndexLookup},
	{"search", FullText},
}

// describe sets the fields that follow from the operation's text.
func (n *Node) describe() {
	n.Kind = Other
	if n.describeIndex() {
		return
	}
	for _, o := range operations {
		if rest, found := strings.CutPrefix(n.Operation, o.prefix); found {
			n.Kind = o.kind
			if o.rest != nil {
				o.rest(n, rest)
			}
			return
		}
	}
}

func (n *Node) describeIndex() bool {
	rest, kind := n.Operation, Kind("")
	switch {
	case cut(&rest, "Single-row "):
		kind = SingleLookup
	case cut(&rest, "Multi-range "):
		kind = MultiLookup
	case cut(&rest, "Full-text "):
		kind = FullText
	}
	covering := cut(&rest, "Covering ") || cut(&rest, "covering ")
	if !cut(&rest, "Index ") && !cut(&rest, "index ") {
		return false
	}
	for _, a := range indexAccesses {
		if after, found := strings.CutPrefix(rest, a.text+" on "); found {
			if kind == "" {
				kind = a.kind
			}
			n.Kind, n.Covering = kind, covering
			n.describeUse(after)
			return true
		}
	}
	return false
}

// describeUse reads what follows "on " in an index operation.
func (n *Node) describeUse(s string) {
	var found bool
	if s, n.IndexCondition, found = strings.Cut(s, ", with index condition: "); found {
		n.Spatial = spatialText(n.IndexCondition)
	}
	n.Table, s, found = strings.Cut(s, " using ")
	if !found {
		// A range scan that is planned anew for each row names no index.
		n.Table, n.Detail, _ = strings.Cut(n.Table, " (")
		n.Detail = strings.TrimSuffix(n.Detail, ")")
		return
	}
	if rest, reverse := strings.CutSuffix(s, " (reverse)"); reverse {
		n.Reverse, s = true, rest
	}
	if before, ranges, over := strings.Cut(s, " over "); over && !strings.Contains(before, " (") {
		n.Index, n.Ranges = before, ranges
		n.Spatial = n.Spatial || spatialText(ranges)
		return
	}
	n.Index, s, found = strings.Cut(s, " (")
	if found {
		n.Lookup = strings.TrimSuffix(s, ")")
	}
}

// spatialText reports whether a range or condition can only be of an R-tree.
func spatialText(s string) bool {
	s = strings.ToLower(s)
	for _, word := range []string{"unprintable_geometry_value", "mbrcontains(", "mbrwithin(", "mbrintersects(",
		"mbrcovers(", "mbrcoveredby(", "mbroverlaps(", "mbrtouches(", "mbrequals(", "mbrdisjoint(",
		"st_contains(", "st_within(", "st_intersects("} {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

func cut(s *string, prefix string) bool {
	rest, found := strings.CutPrefix(*s, prefix)
	*s = rest
	return found
}

func tableOnly(n *Node, rest string) {
	n.Table, n.Detail, _ = strings.Cut(rest, " in secondary engine ")
	if n.Kind == Modify {
		// "Update a (immediate), b (buffered)"
		n.Table, n.Detail, _ = strings.Cut(n.Table, " (")
		n.Detail = strings.TrimSuffix(n.Detail, ")")
	}
}

func joinType(n *Node, rest string) {
	for _, t := range []string{"inner", "left", "semijoin", "antijoin"} {
		if strings.HasPrefix(rest, t) {
			n.JoinType = t
			n.Detail = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(rest, t), " join"))
			return
		}
	}
	n.Detail = rest
}

func joinCondition(joinType string) func(*Node, string) {
	return func(n *Node, rest string) {
		n.JoinType = joinType
		rest = strings.TrimSpace(rest)
		if cut(&rest, "(FirstMatch)") {
			n.Detail, rest = "FirstMatch", strings.TrimSpace(rest)
		}
		if rest != "(no condition)" {
			n.Condition = rest
		}
	}
}

func afterColon(n *Node, rest string) {
	before, after, found := strings.Cut(rest, ": ")
	if !found {
		n.Detail = strings.TrimSpace(strings.TrimSuffix(rest, ":"))
		return
	}
	n.Detail = after
	if before = strings.TrimSpace(before); before != "" && n.Kind == Sort {
		n.Detail = after + " (" + before + ")"
	}
}

// heading reports whether the text of a line in a tree is a heading: it stands
// above one operation, has no figures, and is no operation itself.
func heading(s string) bool {
	switch s {
	case "Hash", "Batch input rows", "Clustered primary key (scanned separately)":
		return true
	}
	for part := range strings.SplitSeq(strings.ToLower(s), ", ") {
		if part != "disable deduplication" && part != "repeat until convergence" &&
			!strings.HasPrefix(part, "limit table size: ") {
			return selectHeading(s)
		}
	}
	return true
}

// selectHeading reports whether a heading is that of a subquery, such as
// "Select #2 (subquery in projection; dependent)".
func selectHeading(s string) bool {
	rest, found := strings.CutPrefix(s, "Select #")
	if !found {
		return false
	}
	number, rest, _ := strings.Cut(rest, " ")
	_, err := strconv.Atoi(number)
	return err == nil && strings.HasPrefix(rest, "(subquery in ")
}

func projectionHeading(s string) bool {
	return selectHeading(s) && strings.Contains(s, "(subquery in projection")
}
