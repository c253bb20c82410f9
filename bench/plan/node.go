package plan

import (
	"encoding/json"
	"iter"
	"math"
	"strings"
)

// A Format is a way in which MySQL prints a plan.
type Format string

const (
	Tree  Format = "tree"
	JSON1 Format = "json-v1" // explain_json_format_version=1, and all of 8.0
	JSON2 Format = "json-v2" // explain_json_format_version=2
)

// A Line is a line of the input that is in no node. Lines count from 1. Where
// one line of the input holds a whole plan with \n escapes, its parts have the
// same number.
type Line struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

// A Plan is one statement's plan.
type Plan struct {
	Format Format `json:"format"`
	// Version is the schema version that JSON version 2 states, such as "2.0".
	Version string `json:"version,omitempty"`
	// Query is the statement after the optimizer's rewriting, and QueryType its
	// kind, where the format holds them (JSON version 2).
	Query     string `json:"query,omitempty"`
	QueryType string `json:"query_type,omitempty"`
	// Analyzed says that the plan holds figures of an execution.
	Analyzed bool  `json:"analyzed"`
	Root     *Node `json:"root"`
	// Line and EndLine are the first and last line of the plan in the input.
	Line    int `json:"line"`
	EndLine int `json:"end_line"`
	// Frame holds the lines that the client put around the plan: borders,
	// headers, prompts, statements at a prompt, row counts.
	Frame []Line `json:"frame,omitempty"`
	// Unread holds, verbatim, the lines that could not be read.
	Unread []Line `json:"unread,omitempty"`
	// Attributes holds the members of a JSON plan's outermost object that have
	// no field.
	Attributes []Attribute `json:"attributes,omitempty"`
	// Warnings say what is suspect about the input.
	Warnings []Warning `json:"warnings,omitempty"`
}

// A Warning says what is suspect at a line of the input.
type Warning struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// An Attribute is a member of a JSON plan, as it stood there.
type Attribute struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// A Kind is what a node does.
type Kind string

// Kinds that read rows from a table or index.
const (
	TableScan      Kind = "table scan"
	IndexScan      Kind = "index scan"
	IndexLookup    Kind = "index lookup"
	SingleLookup   Kind = "single-row index lookup"
	MultiLookup    Kind = "multi-range index lookup"
	IndexRange     Kind = "index range scan"
	SkipScan       Kind = "index skip scan"
	DistanceScan   Kind = "index distance scan"
	FullText       Kind = "full-text search"
	ConstantRow    Kind = "constant row"
	CountRows      Kind = "count rows"
	ScanNewRecords Kind = "scan new records"
)

// Kinds that work on the rows of their inputs, or need none.
const (
	Filter        Kind = "filter"
	Sort          Kind = "sort"
	Limit         Kind = "limit"
	NestedLoop    Kind = "nested loop"
	HashJoin      Kind = "hash join"
	KeyAccessJoin Kind = "batched key access join"
	IndexMerge    Kind = "index merge"
	Materialize   Kind = "materialize"
	Union         Kind = "union"
	Except        Kind = "except"
	Intersect     Kind = "intersect"
	Append        Kind = "append"
	Aggregate     Kind = "aggregate"
	TempAggregate Kind = "aggregate in a temporary table"
	Window        Kind = "window"
	Deduplicate   Kind = "remove duplicates"
	Stream        Kind = "stream"
	Alternative   Kind = "alternative plans"
	Invalidate    Kind = "invalidate materialized tables"
	TableFunction Kind = "table function"
	Ready         Kind = "rows before execution"
	NoRows        Kind = "no rows"
	InfoSchema    Kind = "fill information schema table"
	Modify        Kind = "modify" // insert, replace, update, delete
	Block         Kind = "query block"
	NotExplained  Kind = "not explained"
	Other         Kind = "other"
)

// Reads reports whether nodes of the kind read rows from a table or an index.
func (k Kind) Reads() bool {
	switch k {
	case TableScan, IndexScan, IndexLookup, SingleLookup, MultiLookup, IndexRange, SkipScan,
		DistanceScan, FullText, ConstantRow, CountRows, ScanNewRecords:
		return true
	}
	return false
}

// Joins reports whether nodes of the kind join two inputs.
func (k Kind) Joins() bool {
	return k == NestedLoop || k == HashJoin || k == KeyAccessJoin
}

// A Node is one operation of a plan.
type Node struct {
	// Operation is MySQL's text, verbatim and without the figures. JSON version 1
	// has no such text: there it is put together from the members.
	Operation string `json:"operation"`
	Kind      Kind   `json:"kind"`
	// Implied says that the format shows the operation only through members of
	// another one (JSON version 1).
	Implied bool `json:"implied,omitempty"`
	// Heading is what MySQL prints above the operation, such as "Hash" or
	// "Select #2 (subquery in condition; dependent)".
	Heading string `json:"heading,omitempty"`
	// Subquery says that the node is a subquery of an expression of its parent,
	// not an input. SelectList says that it stands in the SELECT list of the
	// parent's query block: its time is not part of its parent's.
	Subquery   bool `json:"subquery,omitempty"`
	SelectList bool `json:"select_list,omitempty"`

	// Table is the name as the plan shows it: an alias if there is one. TableName
	// and Schema are the table itself, where JSON version 2 tells.
	Table     string `json:"table,omitempty"`
	TableName string `json:"table_name,omitempty"`
	Schema    string `json:"schema,omitempty"`
	Index     string `json:"index,omitempty"`
	// PossibleIndexes are those that the optimizer considered (JSON version 1).
	PossibleIndexes []string `json:"possible_indexes,omitempty"`
	Covering        bool     `json:"covering,omitempty"`
	Reverse         bool     `json:"reverse,omitempty"`
	Spatial         bool     `json:"spatial,omitempty"`
	// JoinType is "inner", "left", "semijoin" or "antijoin".
	JoinType string `json:"join_type,omitempty"`

	// Condition is that of a filter or a join, Lookup that of an index lookup,
	// IndexCondition what the storage engine checks inside the index, Ranges the
	// ranges of a range scan (TREE prints at most three and a count), and Detail
	// the sort keys, aggregates, windows or limits.
	Condition      string `json:"condition,omitempty"`
	Lookup         string `json:"lookup,omitempty"`
	IndexCondition string `json:"index_condition,omitempty"`
	Ranges         string `json:"ranges,omitempty"`
	Detail         string `json:"detail,omitempty"`

	// EstimatedRows and EstimatedCost are nil where the plan does not have them.
	// EstimatedFirstCost is the cost up to the first row, which the hypergraph
	// optimizer prints (cost=4.03..129). Costs have no unit.
	EstimatedRows      *float64 `json:"estimated_rows,omitempty"`
	EstimatedCost      *float64 `json:"estimated_cost,omitempty"`
	EstimatedFirstCost *float64 `json:"estimated_first_cost,omitempty"`
	// Filtered is the percentage of the rows that the optimizer expects to pass
	// the conditions (JSON version 1).
	Filtered *float64 `json:"filtered,omitempty"`

	// Actual is nil if the plan was not executed or the node never was.
	Actual        *Actual `json:"actual,omitempty"`
	NeverExecuted bool    `json:"never_executed,omitempty"`

	// Limited says that an operation above may stop asking for rows before there
	// are no more: a limit without a sort below it, or a semijoin. That there were
	// fewer rows than estimated then tells nothing about the estimate.
	Limited bool `json:"limited,omitempty"`

	Children   []*Node     `json:"children,omitempty"`
	Attributes []Attribute `json:"attributes,omitempty"`

	// Line and EndLine are the first and last line of the input that the node
	// itself was read from; HeadingLine is that of Heading, or 0.
	Line        int `json:"line"`
	EndLine     int `json:"end_line"`
	HeadingLine int `json:"heading_line,omitempty"`
}

// Actual holds the figures of an execution, each the mean of one loop.
type Actual struct {
	FirstMS float64 `json:"first_ms"` // to the first row, inputs included
	LastMS  float64 `json:"last_ms"`  // to the last row, inputs included
	Rows    float64 `json:"rows"`
	Loops   float64 `json:"loops"`
}

// All yields the node and all below it, parents before children, with depth 0
// for the node itself.
func (n *Node) All() iter.Seq2[int, *Node] {
	return func(yield func(int, *Node) bool) {
		n.walk(0, yield)
	}
}

func (n *Node) walk(depth int, yield func(int, *Node) bool) bool {
	if n == nil {
		return true
	}
	if !yield(depth, n) {
		return false
	}
	for _, c := range n.Children {
		if !c.walk(depth+1, yield) {
			return false
		}
	}
	return true
}

// TotalRows returns the rows of all loops. MySQL prints the mean with three
// digits, so the product may be off by half a per cent. It is not ok if the plan
// has no figures; a node that never ran has 0.
func (n *Node) TotalRows() (rows float64, ok bool) {
	if n.Actual == nil {
		return 0, n.NeverExecuted
	}
	return finite(n.Actual.Rows * n.Actual.Loops), true
}

// TotalMS returns the milliseconds of all loops, inputs included.
func (n *Node) TotalMS() (ms float64, ok bool) {
	if n.Actual == nil {
		return 0, n.NeverExecuted
	}
	return finite(n.Actual.LastMS * n.Actual.Loops), true
}

// SelfMS returns the milliseconds of all loops without those of the inputs.
// Where the inputs took longer than the node, which rounding and tables that are
// materialized elsewhere cause, it is 0 and clamped is true.
func (n *Node) SelfMS() (ms float64, clamped, ok bool) {
	ms, ok = n.TotalMS()
	if !ok {
		return 0, false, false
	}
	below := n.belowMS()
	if n.scanAlone(ms, below) {
		return ms, false, true
	}
	if ms -= below; ms < 0 {
		return 0, true, true
	}
	return ms, false, true
}

// belowMS returns the time of the inputs that is part of the node's.
func (n *Node) belowMS() float64 {
	below := 0.0
	for _, c := range n.Children {
		if c.SelectList {
			continue
		}
		ms, _ := c.TotalMS()
		if deeper := c.belowMS(); c.scanAlone(ms, deeper) {
			ms += deeper
		}
		below += ms
	}
	return finite(below)
}

// scanAlone reports whether the node's time leaves out what is below it: MySQL
// 8.0 gives a scan of a temporary table without the time to fill it.
func (n *Node) scanAlone(ms, below float64) bool {
	return n.Kind.Reads() && len(n.inputs()) > 0 && ms < below/2
}

// EstimateRatio returns the actual rows of one loop divided by the estimate:
// 203 means that there were 203 times as many rows as expected, 0.01 a hundredth.
// To be comparable where one of them is less than a row, both count as 1 then,
// as an estimate of 0.1 for no row at all is a good one.
func (n *Node) EstimateRatio() (ratio float64, ok bool) {
	if n.Actual == nil || n.EstimatedRows == nil {
		return 0, false
	}
	return math.Max(n.Actual.Rows, 1) / math.Max(*n.EstimatedRows, 1), true
}

// Misestimate returns 1000, 100 or 10 if the estimate is off by at least that
// factor, in either direction, and 0 otherwise. It is 0 as well if there are
// fewer rows than estimated because the node is [Node.Limited].
func (n *Node) Misestimate() int {
	ratio, ok := n.EstimateRatio()
	if !ok || n.Limited && ratio < 1 {
		return 0
	}
	off := math.Max(ratio, 1/ratio)
	for _, mark := range []int{1000, 100, 10} {
		// The printed figures have three digits: 9.996 is 10.
		if off >= float64(mark)*0.9995 {
			return mark
		}
	}
	return 0
}

// Examined returns the rows that the node and all below it read from tables and
// indexes, and the rows that the node returned, both over all loops.
func (n *Node) Examined() (examined, returned float64, ok bool) {
	returned, ok = n.TotalRows()
	if !ok {
		return 0, 0, false
	}
	for _, below := range n.All() {
		// A scan with an input reads a temporary table, not rows of the data.
		if below.Kind.Reads() && len(below.inputs()) == 0 {
			rows, _ := below.TotalRows()
			examined += rows
		}
	}
	return finite(examined), returned, true
}

// markLimited sets Limited below n.
func markLimited(n *Node, limited bool) {
	n.Limited = limited
	for i, c := range n.Children {
		below := limited
		switch {
		case c.Subquery:
			below = false
		case n.Kind == Limit:
			below = true
		case n.Kind.Joins():
			// The first input of a nested loop is read row by row, and so is the
			// second one, as a whole for each; a hash join reads its second one first.
			below = limited && i == 0 || i == 1 && n.Kind == NestedLoop && (n.JoinType == "semijoin" || n.JoinType == "antijoin")
		case n.Kind == Filter, n.Kind == Stream, n.Kind == Append, n.Kind == Deduplicate:
		case n.Kind == Window && !strings.Contains(n.Operation, "buffering"):
		default:
			// It needs all its input before it returns a row, or reads one of its own.
			below = false
		}
		markLimited(c, below)
	}
}

// inputs returns the children that the node takes rows from.
func (n *Node) inputs() []*Node {
	var inputs []*Node
	for _, c := range n.Children {
		if !c.Subquery {
			inputs = append(inputs, c)
		}
	}
	return inputs
}

// finite keeps products of printed figures in the range that JSON can hold.
func finite(f float64) float64 {
	return math.Max(-math.MaxFloat64, math.Min(f, math.MaxFloat64))
}
