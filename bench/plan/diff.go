package plan

import (
	"fmt"
	"math"
	"strings"
)

// A Status says how the two sides of a pair stand to each other.
type Status string

const (
	Same    Status = "same"    // the same operation and access
	Changed Status = "changed" // the same place, another operation or access
	Removed Status = "removed" // only in the first plan
	Added   Status = "added"   // only in the second plan
)

// A Class groups changes. Reports give them in this order.
type Class string

const (
	Shape  Class = "shape"
	Access Class = "access"
	Rows   Class = "rows"
	Time   Class = "time"
)

// A Change is one thing in which the nodes of a pair differ.
type Change struct {
	Class Class  `json:"class"`
	What  string `json:"what"`
	// A and B say what it is in either plan; one of them is empty if there is none.
	A string `json:"a"`
	B string `json:"b"`
	// Ratio is B divided by A for numbers, and 0 if there is none.
	Ratio float64 `json:"ratio,omitempty"`
	// Pair is the index of the pair in [Difference.Pairs].
	Pair int `json:"pair"`
}

// A Pair is a row of the comparison: a node of each plan, or of one of them.
type Pair struct {
	Status Status `json:"status"`
	// A and B are the nodes, or nil. IndexA and IndexB are their places in the order
	// of [Node.All], or -1; in JSON they stand for the nodes, which the plans hold.
	A      *Node `json:"-"`
	B      *Node `json:"-"`
	IndexA int   `json:"index_a"`
	IndexB int   `json:"index_b"`
	DepthA int   `json:"depth_a"`
	DepthB int   `json:"depth_b"`
	// Twin is the index of the pair that has the same table's read on the other
	// side, where its place in the plan differs (a changed join order), or -1.
	Twin    int      `json:"twin"`
	Changes []Change `json:"changes,omitempty"`
}

// A Difference compares two plans.
type Difference struct {
	A *Plan `json:"a"`
	B *Plan `json:"b"`
	// Pairs is in reading order: A's nodes are in the order of A, B's in that of B.
	Pairs []Pair `json:"pairs"`
	// Changes holds the changes of all pairs, ordered by class and pair.
	Changes []Change `json:"changes,omitempty"`
	// Totals compares the plans as a whole.
	Totals []Change `json:"totals,omitempty"`
	// Warnings say where the comparison is weaker than it looks.
	Warnings []string `json:"warnings,omitempty"`
}

// Figures that differ by less are not reported, because repeated runs of one
// statement differ by as much.
const (
	rowsNoise = 1.1
	timeNoise = 1.25
	timeFloor = 0.05 // ms
)

// Diff compares two plans of one statement, or of two that should give the same
// rows. It pairs nodes by a tree edit distance over kind, table and index, in
// which an operation may be put above or taken away from others (a filter, a
// sort) without parting those below. Equal input gives equal output.
//
// Plans of over about a thousand nodes each are paired by position, which
// [Difference.Warnings] says.
func Diff(a, b Plan) Difference {
	d := Difference{A: &a, B: &b}
	if a.Root == nil || b.Root == nil {
		d.Warnings = append(d.Warnings, "a plan is empty")
	}
	partners, exact := align(a.Root, b.Root)
	if !exact {
		d.Warnings = append(d.Warnings, "the plans are too large to be aligned exactly; their operations are paired by position")
	}
	if a.Analyzed != b.Analyzed {
		d.Warnings = append(d.Warnings, "only one plan was executed (EXPLAIN ANALYZE): actual rows and times cannot be compared")
	}
	if a.Format != b.Format && (a.Format == JSON1 || b.Format == JSON1) {
		d.Warnings = append(d.Warnings, "JSON version 1 describes tables, not operations: some differences are of the format, and conditions are not compared")
	}
	d.merge(partners)
	d.twins()
	for i := range d.Pairs {
		d.compare(i)
	}
	for _, class := range []Class{Shape, Access, Rows, Time} {
		for _, p := range d.Pairs {
			for _, c := range p.Changes {
				if c.Class == class {
					d.Changes = append(d.Changes, c)
				}
			}
		}
	}
	d.totals()
	return d
}

// merge lists the pairs in reading order. An alignment keeps the order of
// parents and siblings, so partners come in the same order in both plans.
func (d *Difference) merge(partners map[*Node]*Node) {
	type place struct {
		*Node
		depth int
	}
	var b []place
	for depth, n := range d.B.Root.All() {
		b = append(b, place{n, depth})
	}
	paired := make(map[*Node]bool, len(partners))
	for _, n := range partners {
		paired[n] = true
	}
	i := 0
	added := func() {
		for i < len(b) && !paired[b[i].Node] {
			d.Pairs = append(d.Pairs, Pair{Status: Added, B: b[i].Node, DepthB: b[i].depth, Twin: -1})
			i++
		}
	}
	for depth, n := range d.A.Root.All() {
		if partners[n] == nil {
			d.Pairs = append(d.Pairs, Pair{Status: Removed, A: n, DepthA: depth, Twin: -1})
			continue
		}
		added()
		d.Pairs = append(d.Pairs, Pair{Status: Same, A: n, B: b[i].Node, DepthA: depth, DepthB: b[i].depth, Twin: -1})
		i++
	}
	added()
	indexA, indexB := 0, 0
	for i := range d.Pairs {
		p := &d.Pairs[i]
		p.IndexA, p.IndexB = -1, -1
		if p.A != nil {
			p.IndexA = indexA
			indexA++
		}
		if p.B != nil {
			p.IndexB = indexB
			indexB++
		}
	}
}

// twins connects reads of one table that have no partner.
func (d *Difference) twins() {
	waiting := make(map[string][]int)
	for i, p := range d.Pairs {
		if p.Status == Removed && p.A.Kind.Reads() && p.A.Table != "" {
			waiting[p.A.Table] = append(waiting[p.A.Table], i)
		}
	}
	for i, p := range d.Pairs {
		if p.Status != Added || !p.B.Kind.Reads() {
			continue
		}
		if list := waiting[p.B.Table]; len(list) > 0 {
			d.Pairs[i].Twin, d.Pairs[list[0]].Twin = list[0], i
			waiting[p.B.Table] = list[1:]
		}
	}
}

// compare fills in the changes of a pair.
func (d *Difference) compare(i int) {
	p := &d.Pairs[i]
	a, b := p.A, p.B
	add := func(class Class, what, x, y string) {
		p.Changes = append(p.Changes, Change{Class: class, What: what, A: x, B: y, Pair: i})
	}
	switch p.Status {
	case Removed:
		what := "removed"
		if p.Twin >= 0 {
			what = "moved from here"
		}
		add(Shape, what, a.label(), "")
		return
	case Added:
		if p.Twin < 0 {
			add(Shape, "added", "", b.label())
			return
		}
		add(Shape, "moved to here", "", b.label())
		a = d.Pairs[p.Twin].A
	}
	if a.Kind != b.Kind {
		class := Shape
		if a.Kind.Reads() && b.Kind.Reads() {
			class = Access
		}
		add(class, "operation", a.label(), b.label())
	} else if a.JoinType != b.JoinType && d.A.Format == d.B.Format {
		add(Shape, "join type", a.JoinType, b.JoinType)
	}
	text := func(class Class, what, x, y string) {
		if x != y {
			add(class, what, x, y)
		}
	}
	text(Access, "table", a.Table, b.Table)
	text(Access, "index", a.Index, b.Index)
	if a.Kind.Reads() && b.Kind.Reads() {
		text(Access, "covering", covering(a), covering(b))
		text(Access, "direction", direction(a), direction(b))
	}
	if d.A.Format == d.B.Format || d.A.Format != JSON1 && d.B.Format != JSON1 {
		text(Access, "condition", a.Condition, b.Condition)
		text(Access, "lookup", a.Lookup, b.Lookup)
		text(Access, "index condition", a.IndexCondition, b.IndexCondition)
		// TREE cuts long lists of ranges short.
		if d.A.Format == d.B.Format || !strings.HasSuffix(a.Ranges, " more)") && !strings.HasSuffix(b.Ranges, " more)") {
			text(Access, "ranges", a.Ranges, b.Ranges)
		}
		if a.Kind == b.Kind {
			text(Access, "detail", a.Detail, b.Detail)
		}
	}
	if len(p.Changes) > 0 && p.Status == Same {
		p.Status = Changed
	}
	p.Changes = append(p.Changes, d.figures(a, b, i)...)
}

func covering(n *Node) string {
	if n.Covering {
		return "yes"
	}
	return "no"
}

func direction(n *Node) string {
	if n.Reverse {
		return "backwards"
	}
	return "forwards"
}

// figures compares rows and times.
func (d *Difference) figures(a, b *Node, pair int) []Change {
	var changes []Change
	number := func(class Class, what string, x, y float64, noise float64, write func(float64) string) {
		ratio, differ := compareFigures(x, y, noise)
		if differ {
			changes = append(changes, Change{Class: class, What: what, A: write(x), B: write(y), Ratio: ratio, Pair: pair})
		}
	}
	if a.EstimatedRows != nil && b.EstimatedRows != nil {
		number(Rows, "estimated rows", *a.EstimatedRows, *b.EstimatedRows, rowsNoise, Figure)
	}
	if a.NeverExecuted != b.NeverExecuted && d.A.Analyzed && d.B.Analyzed {
		x, y := "executed", "never executed"
		if a.NeverExecuted {
			x, y = y, x
		}
		return append(changes, Change{Class: Rows, What: "execution", A: x, B: y, Pair: pair})
	}
	if a.Actual == nil || b.Actual == nil {
		return changes
	}
	rowsA, _ := a.TotalRows()
	rowsB, _ := b.TotalRows()
	number(Rows, "actual rows", rowsA, rowsB, rowsNoise, Figure)
	number(Rows, "loops", a.Actual.Loops, b.Actual.Loops, rowsNoise, Figure)
	selfA, _, _ := a.SelfMS()
	selfB, _, _ := b.SelfMS()
	if math.Abs(selfA-selfB) >= timeFloor {
		number(Time, "own time", selfA, selfB, timeNoise, Milliseconds)
	}
	totalA, _ := a.TotalMS()
	totalB, _ := b.TotalMS()
	if math.Abs(totalA-totalB) >= timeFloor {
		number(Time, "total time", totalA, totalB, timeNoise, Milliseconds)
	}
	return changes
}

// compareFigures returns y/x, or 0 if one of them is 0, and whether they differ
// by more than noise.
func compareFigures(x, y, noise float64) (ratio float64, differ bool) {
	if x == y {
		return 1, false
	}
	if x <= 0 || y <= 0 {
		return 0, true
	}
	ratio = finite(y / x)
	if ratio == 0 { // underflow
		return 0, true
	}
	return ratio, ratio >= noise || ratio <= 1/noise
}

// totals compares the plans as a whole.
func (d *Difference) totals() {
	a, b := d.A.Root, d.B.Root
	if a == nil || b == nil {
		return
	}
	add := func(class Class, what string, x, y float64, write func(float64) string) {
		ratio, _ := compareFigures(x, y, 1)
		d.Totals = append(d.Totals, Change{Class: class, What: what, A: write(x), B: write(y), Ratio: ratio})
	}
	if a.Actual != nil && b.Actual != nil {
		x, _ := a.TotalMS()
		y, _ := b.TotalMS()
		add(Time, "total time", x, y, Milliseconds)
		examinedA, returnedA, _ := a.Examined()
		examinedB, returnedB, _ := b.Examined()
		add(Rows, "rows read", examinedA, examinedB, Figure)
		add(Rows, "rows returned", returnedA, returnedB, Figure)
	}
	if a.EstimatedCost != nil && b.EstimatedCost != nil {
		add(Rows, "estimated cost", *a.EstimatedCost, *b.EstimatedCost, Figure)
	}
}

// label names the node in one line.
func (n *Node) label() string {
	if n.Heading != "" {
		return fmt.Sprintf("%s [%s]", n.Operation, n.Heading)
	}
	return n.Operation
}
