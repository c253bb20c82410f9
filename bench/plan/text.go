package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Widths of [Difference.WriteText].
const (
	MinWidth     = 60
	DefaultWidth = 120
	MaxWidth     = 400
)

// Text returns the difference for a terminal of [DefaultWidth] columns.
func (d Difference) Text() string {
	var b strings.Builder
	// A strings.Builder does not fail.
	_ = d.WriteText(&b, DefaultWidth)
	return b.String()
}

// WriteText writes the difference as plain text with lines of at most width
// columns, one column a character: first the totals, then what differs in shape
// and access, in rows, in time, then both plans side by side. A width of 0 is
// [DefaultWidth]; other widths are brought between [MinWidth] and [MaxWidth].
// Control characters of the plans are replaced, so none reaches the terminal.
func (d Difference) WriteText(w io.Writer, width int) error {
	if width == 0 {
		width = DefaultWidth
	}
	t := &textWriter{w: w, width: max(MinWidth, min(width, MaxWidth))}
	for _, c := range d.Totals {
		t.line("%-15s %s", c.What+":", changeFigures(c))
	}
	for _, warning := range d.Warnings {
		t.wrap("Note: "+warning, "      ")
	}
	for _, section := range []struct {
		title   string
		classes []Class
		none    string
	}{
		{"Shape and access", []Class{Shape, Access}, "no difference"},
		{"Rows", []Class{Rows}, "no difference of 10 % or more"},
		{"Time", []Class{Time}, "no difference of 25 % or more"},
	} {
		t.heading(section.title)
		if section.title == "Time" && !(d.A.Analyzed && d.B.Analyzed) {
			section.none = "not measured: both plans need EXPLAIN ANALYZE"
		}
		if !d.changes(t, section.classes) {
			t.line("  %s", section.none)
		}
	}
	t.heading("Side by side")
	t.line("  = same  ~ changed  - only in A  + only in B  > moved; est: estimated rows")
	half := (t.width - 5) / 2
	t.line("  %s | B: %s", pad("A: "+planName(d.A), half), planName(d.B))
	for _, p := range d.Pairs {
		mark := map[Status]string{Same: "=", Changed: "~", Removed: "-", Added: "+"}[p.Status]
		if p.Twin >= 0 {
			mark = ">"
		}
		a, figuresA := side(p.A, p.DepthA, half)
		b, figuresB := side(p.B, p.DepthB, half)
		t.line("%s %s | %s", mark, pad(a, half), b)
		if figuresA+figuresB != "" {
			t.line("  %s | %s", pad(figuresA, half), figuresB)
		}
	}
	return t.err
}

// changes writes the changes of some classes, one block a pair.
func (d Difference) changes(t *textWriter, classes []Class) (any bool) {
	for i, p := range d.Pairs {
		first := true
		operation := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.What == "operation" })
		for _, class := range classes {
			for _, c := range p.Changes {
				if c.Class != class || class == Access && operation && c.What != "operation" {
					continue // the operations' texts show the rest
				}
				any = true
				switch {
				case c.Class == Shape && c.B == "":
					t.line("  - %s: %s", c.What, clean(c.A))
				case c.Class == Shape && c.A == "":
					t.line("  + %s: %s", c.What, clean(c.B))
				default:
					if first && c.What != "operation" {
						t.line("  %s", d.name(i))
					}
					t.change(c)
				}
				first = false
			}
		}
	}
	return any
}

// name says which nodes a pair holds.
func (d Difference) name(i int) string {
	p := d.Pairs[i]
	n := p.A
	if n == nil {
		n = p.B
	}
	return clean(n.label())
}

// change writes one change: in a line if it fits, otherwise one value below the other.
func (t *textWriter) change(c Change) {
	if one := fmt.Sprintf("  ~ %s: %s", c.What, changeFigures(c)); len([]rune(one)) <= t.width {
		t.line("%s", one)
		return
	}
	t.line("  ~ %s:", c.What)
	t.line("      A %s", orNone(c.A))
	t.line("      B %s", orNone(c.B))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return clean(s)
}

func changeFigures(c Change) string {
	s := orNone(c.A) + " -> " + orNone(c.B)
	switch {
	case c.Ratio == 0 || c.Ratio > 0.995 && c.Ratio < 1.005:
	case c.Ratio > 1:
		s += fmt.Sprintf(" (%s times more)", Figure(c.Ratio))
	default:
		s += fmt.Sprintf(" (%s times less)", Figure(1/c.Ratio))
	}
	return s
}

func planName(p *Plan) string {
	s := map[Format]string{Tree: "TREE", JSON1: "JSON version 1", JSON2: "JSON version 2"}[p.Format]
	if p.Analyzed {
		return s + ", executed"
	}
	return s + ", not executed"
}

// maxIndent bounds the indentation, so that deep plans leave room for text.
const maxIndent = 20

// side returns the lines of one node in a column.
func side(n *Node, depth, width int) (operation, figures string) {
	if n == nil {
		return "", ""
	}
	indent := strings.Repeat(" ", min(depth*2, maxIndent))
	operation = fit(indent+clean(n.label()), width)
	var parts []string
	switch {
	case n.NeverExecuted:
		parts = append(parts, "never executed")
	case n.Actual != nil:
		rows, _ := n.TotalRows()
		parts = append(parts, Figure(rows)+" rows")
	}
	if n.EstimatedRows != nil {
		parts = append(parts, "est "+Figure(*n.EstimatedRows))
	}
	if n.Actual != nil {
		self, _, _ := n.SelfMS()
		total, _ := n.TotalMS()
		parts = append(parts, Milliseconds(self)+" own of "+Milliseconds(total))
		if n.Actual.Loops != 1 {
			parts = append(parts, Figure(n.Actual.Loops)+" loops")
		}
	}
	if len(parts) == 0 {
		return operation, ""
	}
	return operation, fit(indent+"  "+strings.Join(parts, ", "), width)
}

// A textWriter writes lines of bounded width and keeps the first error.
type textWriter struct {
	w     io.Writer
	width int
	err   error
}

func (t *textWriter) line(format string, args ...any) {
	if t.err == nil {
		line := strings.TrimRight(fit(fmt.Sprintf(format, args...), t.width), " ")
		_, t.err = io.WriteString(t.w, line+"\n")
	}
}

func (t *textWriter) heading(title string) {
	t.line("")
	t.line("%s", title)
}

// wrap writes words on as many lines as they take.
func (t *textWriter) wrap(s, indent string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > t.width {
			t.line("%s", line)
			line = indent + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	t.line("%s", line)
}

// fit cuts s to width characters and shows that it did.
func fit(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:width-3]) + "..."
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len([]rune(s))))
}

// clean replaces what would act on a terminal or break a line.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}
