package plan

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// A treeReader builds the tree of one plan from lines such as
//
//	-> Filter: (job.pay > 3)  (cost=4.9 rows=12) (actual time=0.1..0.2 rows=9 loops=1)
//	    -> Table scan on job  (cost=4.9 rows=36) (actual time=0.1..0.2 rows=36 loops=1)
//
// A line's parent is the nearest line above with a smaller indentation.
type treeReader struct {
	plan *Plan
	open []openNode // from the root to the last node
	last *Node
	raw  strings.Builder
	bal  balance
	// seen are the figures of the last node so far; done says that its text is complete.
	seen figures
	done bool
}

type openNode struct {
	*Node
	indent int
}

// node reads one line with an arrow.
func (p *parser) node(l line) error {
	indent := indentation(l.content)
	// The end stays as it is: MySQL's text may end in a space.
	text := l.content[strings.IndexAny(l.content, "-<"):]
	if !strings.HasPrefix(text, notExecutable) {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "->"), " ")
	}
	t, lost := p.tree, false
	if t != nil {
		t.finish(p)
		// The first line lost its indentation if it stood behind a label, so the
		// root stays open below every indentation but its own.
		for len(t.open) > 0 && t.open[len(t.open)-1].indent >= indent {
			t.open = t.open[:len(t.open)-1]
		}
		if len(t.open) == 0 && !projectionHeading(text) {
			p.close()
			t, lost = nil, true
		}
	}
	n := &Node{Operation: text, Line: l.Number, EndLine: l.Number}
	if t == nil {
		t = &treeReader{plan: &Plan{Format: Tree, Root: n}}
		p.tree = t
		p.plans = append(p.plans, t.plan)
		t.open = []openNode{{n, indent}}
		if lost {
			p.warn(l.Number, "a second tree begins here without a border above; if this is one plan, its indentation is lost: paste it again, unformatted")
		}
	} else if len(t.open) == 0 {
		// A subquery of the SELECT list stands beside the root that it belongs to.
		n.SelectList, n.Subquery = true, true
		t.plan.Root.Children = append(t.plan.Root.Children, n)
		t.open = []openNode{{t.plan.Root, indent - 1}, {n, indent}}
	} else {
		parent := t.open[len(t.open)-1]
		parent.Children = append(parent.Children, n)
		t.open = append(t.open, openNode{n, indent})
	}
	t.last = n
	t.raw.Reset()
	t.raw.WriteString(text)
	t.bal = balance{}
	t.bal.feed(text)
	_, t.seen, _ = cutFigures(text)
	t.done = t.seen.any()
	return p.count(l.Number, len(t.open))
}

// indentation counts the columns before the arrow.
func indentation(s string) int {
	n := 0
	for _, r := range s {
		switch r {
		case '\t':
			n += 4
		case ' ', '\u00a0':
			n++
		default:
			return n
		}
	}
	return n
}

// continues reports whether a line without an arrow belongs to the last node:
// its text is cut in the middle, by a line break in a name or by a terminal.
func (t *treeReader) continues(start string) bool {
	// The manual breaks its examples between the figures.
	if strings.HasPrefix(start, "(actual time=") || strings.HasPrefix(start, "(never executed)") {
		return t.seen.actual == nil && !t.seen.never
	}
	return !t.done && (t.bal.open() || strings.HasPrefix(start, "(cost="))
}

func (t *treeReader) extend(l line) {
	t.raw.WriteString("\n" + l.content)
	t.bal.feed(l.content)
	t.last.EndLine = l.Number
	_, t.seen, _ = cutFigures(" " + l.content)
	t.done = t.seen.any() || strings.HasSuffix(strings.TrimSpace(l.content), ")") && !t.bal.open()
}

// finish takes the figures off the last node's text.
func (t *treeReader) finish(p *parser) {
	n := t.last
	raw := t.raw.String()
	text, f, bad := cutFigures(raw)
	if (!f.any() || bad != "") && strings.Contains(raw, "\n") {
		// A terminal breaks lines anywhere, also inside the figures.
		for _, separator := range []string{"", " "} {
			joined, figures, fault := cutFigures(strings.ReplaceAll(raw, "\n", separator))
			if figures.any() && fault == "" {
				text, f, bad = joined, figures, ""
				p.warn(n.Line, "the operation was put together from lines %d to %d", n.Line, n.EndLine)
				break
			}
		}
	}
	if bad != "" {
		p.warn(n.Line, "figures not read: %s", clip(bad, 80))
	}
	n.Operation = text
	f.apply(n)
	if n.Actual != nil || n.NeverExecuted {
		t.plan.Analyzed = true
	}
}

// close ends the plan that is being read.
func (p *parser) close() {
	t := p.tree
	if t == nil {
		return
	}
	t.finish(p)
	p.tree = nil
	settle(t.plan.Root)
	t.plan.Root = foldHeading(t.plan.Root)
	t.plan.Line = t.plan.Root.Line
	for _, n := range t.plan.Root.All() {
		t.plan.EndLine = max(t.plan.EndLine, n.EndLine)
		n.describe()
		if n.Kind == Other {
			p.warn(n.Line, "unknown operation: %s", clip(n.Operation, 80))
		}
	}
	markLimited(t.plan.Root, false)
}

// settle moves subqueries of a SELECT list, which stand beside their query
// block, below it, and turns headings into a field of what they stand above.
func settle(n *Node) {
	for _, c := range n.Children {
		settle(c)
	}
	window := strings.HasPrefix(n.Operation, "Window")
	kept := n.Children[:0]
	var block *Node
	for _, c := range n.Children {
		if block != nil && !window && !c.SelectList && projectionHeading(c.Operation) {
			c.SelectList, c.Subquery = true, true
			block.Children = append(block.Children, c)
			continue
		}
		if block = c; c.SelectList || heading(c.Operation) {
			block = nil
		}
		kept = append(kept, c)
	}
	n.Children = kept
	for _, c := range n.Children {
		for i := range c.Children {
			c.Children[i] = foldHeading(c.Children[i])
		}
	}
	for i := range n.Children {
		n.Children[i] = foldHeading(n.Children[i])
	}
}

func foldHeading(n *Node) *Node {
	// A heading on several lines stays a node, which can say so.
	if len(n.Children) != 1 || n.EndLine != n.Line || n.EstimatedRows != nil || n.Actual != nil || n.NeverExecuted || n.Heading != "" || !heading(n.Operation) {
		return n
	}
	c := n.Children[0]
	if c.Heading != "" {
		return n
	}
	c.Heading, c.HeadingLine = n.Operation, n.Line
	c.SelectList, c.Subquery = n.SelectList, n.Subquery || selectHeading(n.Operation)
	return c
}

// Figures are what stands behind an operation.
type figures struct {
	first, cost, rows *float64
	actual            *Actual
	never             bool
}

func (f figures) any() bool { return f.cost != nil || f.actual != nil || f.never }

func (f figures) apply(n *Node) {
	n.EstimatedFirstCost, n.EstimatedCost, n.EstimatedRows = f.first, f.cost, f.rows
	n.Actual, n.NeverExecuted = f.actual, f.never
}

var (
	costFigures   = regexp.MustCompile(`^\(cost=([^\s()]+) rows=([^\s()]+)\)$`)
	actualFigures = regexp.MustCompile(`^\(actual time=([^\s()]+) rows=([^\s()]+) loops=([^\s()]+)\)$`)
)

// cutFigures takes the figures off the end of an operation's text. What looks
// like figures but has none stays in the text and is returned as bad.
func cutFigures(s string) (text string, f figures, bad string) {
	text = strings.TrimRight(s, " \t\r\n\"'|\u00a0")
	if !strings.HasSuffix(text, ")") {
		return s, f, ""
	}
	group := func() string {
		at := strings.LastIndex(text, " (")
		if at < 0 {
			return ""
		}
		return text[at+1:]
	}
	// Two spaces stand before the figures, and one between them.
	drop := func(g string) {
		text = strings.TrimSuffix(strings.TrimSuffix(text[:len(text)-len(g)], " "), " ")
	}
	switch g := group(); {
	case g == "(never executed)":
		f.never = true
		drop(g)
	case strings.HasPrefix(g, "(actual time="):
		m := actualFigures.FindStringSubmatch(g)
		if m == nil {
			return s, figures{}, g
		}
		first, last, ok := pair(m[1])
		rows, ok2 := number(m[2])
		loops, ok3 := number(m[3])
		if !ok || first == nil || !ok2 || !ok3 {
			return s, figures{}, g
		}
		f.actual = &Actual{FirstMS: *first, LastMS: last, Rows: rows, Loops: loops}
		drop(g)
	}
	if g := group(); strings.HasPrefix(g, "(cost=") {
		m := costFigures.FindStringSubmatch(g)
		if m == nil {
			return text, f, g
		}
		first, last, ok := pair(m[1])
		rows, ok2 := number(m[2])
		if !ok || !ok2 {
			return text, f, g
		}
		f.first, f.cost, f.rows = first, &last, &rows
		drop(g)
	}
	if !f.any() {
		return s, f, ""
	}
	return text, f, ""
}

// pair reads "12.5" or "4.03..129".
func pair(s string) (first *float64, last float64, ok bool) {
	a, b, two := strings.Cut(s, "..")
	if !two {
		last, ok = number(a)
		return nil, last, ok
	}
	f, ok := number(a)
	last, ok2 := number(b)
	return &f, last, ok && ok2
}

// number reads a figure such as 42, 0.111 or 2.5e+6.
func number(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// A balance follows parentheses and quotes through a text.
type balance struct {
	depth  int
	quote  byte
	escape bool
}

func (b *balance) open() bool { return b.depth > 0 || b.quote != 0 }

func (b *balance) feed(s string) {
	for i := range len(s) {
		c := s[i]
		switch {
		case b.escape:
			b.escape = false
		case b.quote != 0:
			if c == '\\' && b.quote != '`' {
				b.escape = true
			} else if c == b.quote {
				b.quote = 0
			}
		case c == '\'' || c == '"' || c == '`':
			b.quote = c
		case c == '(':
			b.depth++
		case c == ')':
			b.depth--
		}
	}
}
