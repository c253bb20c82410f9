package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// dump writes a plan with everything that was read, for the golden files.
func dump(w io.Writer, p Plan) {
	fmt.Fprintf(w, "format=%s version=%s analyzed=%v query=%.60q\n", p.Format, p.Version, p.Analyzed, p.Query)
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "warning %d: %s\n", warning.Line, warning.Text)
	}
	for _, l := range p.Frame {
		fmt.Fprintf(w, "frame %d: %s\n", l.Number, clip(l.Text, 60))
	}
	for _, l := range p.Unread {
		fmt.Fprintf(w, "unread %d: %s\n", l.Number, clip(l.Text, 60))
	}
	for depth, n := range p.Root.All() {
		fmt.Fprintf(w, "%*s%s", depth*2, "", n.Kind)
		for _, f := range []struct{ name, value string }{
			{"heading", n.Heading}, {"table", n.Table}, {"name", n.TableName}, {"index", n.Index}, {"possible", strings.Join(n.PossibleIndexes, ",")},
			{"join", n.JoinType}, {"condition", n.Condition}, {"lookup", n.Lookup}, {"pushed", n.IndexCondition},
			{"ranges", n.Ranges}, {"detail", n.Detail},
		} {
			if f.value != "" {
				fmt.Fprintf(w, " %s=%s", f.name, clip(f.value, 70))
			}
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"implied", n.Implied}, {"covering", n.Covering}, {"reverse", n.Reverse}, {"spatial", n.Spatial},
			{"subquery", n.Subquery}, {"selectlist", n.SelectList}, {"never", n.NeverExecuted}, {"limited", n.Limited},
		} {
			if f.set {
				fmt.Fprintf(w, " %s", f.name)
			}
		}
		fmt.Fprintf(w, " lines=%d-%d", n.Line, n.EndLine)
		for _, f := range []struct {
			name  string
			value *float64
		}{{"rows", n.EstimatedRows}, {"cost", n.EstimatedCost}, {"first", n.EstimatedFirstCost}, {"filtered", n.Filtered}} {
			if f.value != nil {
				fmt.Fprintf(w, " %s=%.4g", f.name, *f.value)
			}
		}
		if n.Actual != nil {
			self, clamped, _ := n.SelfMS()
			fmt.Fprintf(w, " actual=%.4g..%.4gms*%gx%g self=%.4g", n.Actual.FirstMS, n.Actual.LastMS, n.Actual.Loops, n.Actual.Rows, self)
			if clamped {
				fmt.Fprint(w, "(clamped)")
			}
		}
		for _, a := range n.Attributes {
			fmt.Fprintf(w, " +%s", a.Name)
		}
		fmt.Fprintln(w)
		for _, note := range n.Notes() {
			fmt.Fprintf(w, "%*s! %s %v: %s\n", depth*2, "", note.Code, note.Warning, clip(note.Text, 160))
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Fatalf("%s differs (-update writes it anew) in line %d: got\n%s\nwant\n%s", file, i+1, g[i], w[i])
			}
		}
		t.Fatalf("%s differs in length: got %d lines, want %d", file, len(g), len(w))
	}
}

// TestCaptureGolden compares what is read from the captures with a file; run
// with -update to write it, and look at the difference.
func TestCaptureGolden(t *testing.T) {
	all := captures(t)
	var got bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, suffix := range []string{".tree.txt", ".v1.json", ".analyze.v2.json"} {
			if text, ok := all[name][suffix]; ok {
				fmt.Fprintf(&got, "== %s%s\n", name, suffix)
				dump(&got, mustParse(t, text))
			}
		}
	}
	golden(t, "testdata/captures.golden", got.Bytes())
}

func TestPasteGolden(t *testing.T) {
	var got bytes.Buffer
	for _, dir := range []string{"paste", "older"} {
		files, err := filepath.Glob("testdata/" + dir + "/*.*")
		if err != nil || len(files) < 6 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			plans, err := Parse(bytes.NewReader(text))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			checkLines(t, string(text), plans)
			for _, p := range plans {
				fmt.Fprintf(&got, "== %s\n", file)
				dump(&got, p)
			}
		}
	}
	golden(t, "testdata/paste.golden", got.Bytes())
}

// checkLines checks that every line of a text with several lines is in a node,
// in Frame or in Unread.
func checkLines(t testing.TB, text string, plans []Plan) {
	t.Helper()
	held := make(map[int]bool)
	for _, p := range plans {
		for _, n := range p.Root.All() {
			for line := n.Line; line <= n.EndLine; line++ {
				held[line] = true
			}
			held[n.HeadingLine] = true
		}
		if p.Format != Tree {
			// The outermost object begins above its root.
			for line := p.Line; line <= p.EndLine; line++ {
				held[line] = true
			}
		}
		for _, l := range append(slices.Clone(p.Frame), p.Unread...) {
			held[l.Number] = true
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimRight(line, "\r") != "" && !held[i+1] {
			t.Errorf("line %d is nowhere: %q", i+1, line)
		}
	}
}

// withoutPlace returns the tree without its place in the input.
func withoutPlace(n *Node) *Node {
	c := *n
	c.Line, c.EndLine, c.HeadingLine = 0, 0, 0
	// A cell is padded, which hides a space at the end of a text.
	c.Operation, c.Detail = strings.TrimRight(c.Operation, " "), strings.TrimRight(c.Detail, " ")
	c.Children = nil
	for _, child := range n.Children {
		c.Children = append(c.Children, withoutPlace(child))
	}
	// Attributes are verbatim, with the white space of the frame.
	c.Attributes = nil
	for _, a := range n.Attributes {
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.Value); err != nil {
			panic(err)
		}
		c.Attributes = append(c.Attributes, Attribute{a.Name, compact.Bytes()})
	}
	return &c
}

// frames put a plan as the clients do.
var frames = map[string]func(string) string{
	"table": func(s string) string {
		border := "+" + strings.Repeat("-", 40) + "+\n"
		return border + "| EXPLAIN" + strings.Repeat(" ", 32) + "|\n" + border + "| " + s + " |\n" + border + "1 row in set (0.01 sec)\n\n"
	},
	"every line in a cell": func(s string) string {
		border := "+" + strings.Repeat("-", 40) + "+\n"
		out := border + "| EXPLAIN |\n" + border
		for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
			out += "| " + line + "   |\n"
		}
		return out + border
	},
	"vertical": func(s string) string {
		return "mysql> EXPLAIN ANALYZE SELECT *\n    -> FROM job\\G\n*************************** 1. row ***************************\nEXPLAIN: " + s + "\n1 row in set, 1 warning (0.01 sec)\n"
	},
	"batch":       func(s string) string { return "EXPLAIN\n" + batchEscape(s) + "\n" },
	"batch cell":  func(s string) string { return "| " + batchEscape(s) + " |\n" },
	"json string": func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"json row":    func(s string) string { b, _ := json.Marshal([]map[string]string{{"EXPLAIN": s}}); return string(b) },
	"crlf":        func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"indented":    func(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") },
	"fenced": func(s string) string {
		return "Here is my plan:\n\n```\n" + strings.TrimSuffix(s, "\n") + "\n```\nWhy is it slow?\n"
	},
	"byte order":   func(s string) string { return "\ufeff" + s },
	"no-break":     func(s string) string { return indentAs(s, "\u00a0") },
	"mysql prompt": func(s string) string { return "MySQL [jobs]> EXPLAIN SELECT 1;\n" + s },
	"utf16": func(s string) string {
		var out strings.Builder
		out.WriteString("\xff\xfe")
		for _, r := range s {
			if r > 0xffff {
				panic("not in this test")
			}
			out.Write([]byte{byte(r), byte(r >> 8)})
		}
		return out.String()
	},
}

func batchEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`).Replace(s)
}

func indentAs(s, space string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, " ")
		if strings.HasPrefix(rest, "->") {
			lines[i] = strings.Repeat(space, len(line)-len(rest)) + rest
		}
	}
	return strings.Join(lines, "\n")
}

// TestFrames puts every capture in every frame and expects the same tree.
func TestFrames(t *testing.T) {
	count := 0
	for name, texts := range captures(t) {
		for suffix, text := range texts {
			want := withoutPlace(mustParse(t, text).Root)
			for frame, put := range frames {
				framed := put(text)
				plans, err := Parse(strings.NewReader(framed))
				if err != nil || len(plans) != 1 {
					t.Errorf("%s%s as %s: %d plans, %v", name, suffix, frame, len(plans), err)
					continue
				}
				count++
				if got := withoutPlace(plans[0].Root); !reflect.DeepEqual(got, want) {
					var a, b bytes.Buffer
					dump(&a, Plan{Root: got})
					dump(&b, Plan{Root: want})
					t.Errorf("%s%s as %s: got\n%swant\n%s", name, suffix, frame, &a, &b)
				}
				if frame != "utf16" {
					checkLines(t, strings.TrimPrefix(framed, "\ufeff"), plans)
				}
				if wantUnread := map[string]int{"fenced": 2}[frame]; len(plans[0].Unread) != wantUnread {
					t.Errorf("%s%s as %s: unread %v", name, suffix, frame, plans[0].Unread)
				}
			}
		}
	}
	if count < 2000 {
		t.Errorf("only %d texts", count)
	}
}

// TestAttributesKept checks that every string and number of a JSON capture is in
// its tree.
func TestAttributesKept(t *testing.T) {
	for name, texts := range captures(t) {
		for suffix, text := range texts {
			if !strings.HasSuffix(suffix, ".json") {
				continue
			}
			p := mustParse(t, text)
			kept, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			have := string(kept)
			var document any
			if err := json.Unmarshal([]byte(text), &document); err != nil {
				t.Fatal(err)
			}
			numbers := make(map[float64]bool)
			var again any
			if err := json.Unmarshal(kept, &again); err != nil {
				t.Fatal(err)
			}
			leaves(again, func(_, s string) {
				if f, ok := number(s); ok {
					numbers[f] = true
				}
			})
			leaves(document, func(path, s string) {
				if f, ok := number(s); ok {
					if !numbers[f] {
						t.Errorf("%s%s: %s %s is lost", name, suffix, path, s)
					}
					return
				}
				quoted, _ := json.Marshal(s)
				if !strings.Contains(have, string(quoted[1:len(quoted)-1])) && !strings.HasSuffix(path, "/access_type") {
					t.Errorf("%s%s: %s %q is lost", name, suffix, path, s)
				}
			})
		}
	}
}

func leaves(v any, f func(path, s string)) { leavesBelow("", v, f) }

func leavesBelow(path string, v any, f func(path, s string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			leavesBelow(path+"/"+name, m, f)
		}
	case []any:
		for _, m := range v {
			leavesBelow(path, m, f)
		}
	case string:
		f(path, v)
	case float64:
		f(path, strconv.FormatFloat(v, 'g', -1, 64))
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat(`{"inputs":[`, 5000)
	var indented strings.Builder
	for i := range MaxDepth + 2 {
		indented.WriteString(strings.Repeat(" ", i) + "-> Stream results\n")
	}
	traditional := "+----+-------------+-------+\n| id | select_type | table | possible_keys |\n| 1 | SIMPLE | job | NULL |\n"
	for _, c := range []struct {
		name, text string
		is         error
		says       string
	}{
		{"empty", "", ErrNoPlan, "empty"},
		{"blank", " \n\n", ErrNoPlan, "empty"},
		{"prose", "SELECT 1;\nhello", ErrNoPlan, `line 1 is "SELECT 1;"`},
		{"traditional", traditional, ErrNoPlan, "traditional format"},
		{"other JSON", `{"a": 1}`, ErrNoPlan, "neither query_block nor query_plan"},
		{"cut JSON", "{\n\"query_block\": {\n\"select_id\": 1,\n", ErrNoPlan, "begins in line 1 ends in the middle"},
		{"broken JSON", "\n{\n\"query_block\": {\n\"select_id\": nope\n}}", ErrNoPlan, "line 4"},
		{"deep JSON", deep, ErrTooLarge, "levels"},
		{"deep tree", indented.String(), ErrTooLarge, "levels"},
		{"many nodes", "-> Append\n" + strings.Repeat("    -> Stream results\n", MaxNodes), ErrTooLarge, "operations"},
		{"many lines", strings.Repeat("x\n", MaxLines+1), ErrTooLarge, "lines"},
		{"many escaped lines", "-> Append" + strings.Repeat(`\n`, MaxLines+2) + "\n\n", ErrTooLarge, "lines"},
		{"long", strings.Repeat("x", MaxBytes+1), ErrTooLarge, "bytes"},
	} {
		plans, err := Parse(strings.NewReader(c.text))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || plans != nil {
			t.Errorf("%s: %v, %d plans", c.name, err, len(plans))
		}
	}
	broken := errors.New("broken")
	if _, err := Parse(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("reader's error: %v", err)
	}
}

// TestOddities holds single texts with what must come out of them.
func TestOddities(t *testing.T) {
	tree := func(text string) *Node { t.Helper(); return mustParse(t, text).Root }
	// Lists of two statements, and a broken JSON object after a good plan.
	plans, err := Parse(strings.NewReader("-> Table scan on a\n\n+---+\n-> Table scan on b\n{\"query_plan\": {\"operation\": \"x\",\n {\"operation\": \"y\"}\n"))
	if err != nil || len(plans) != 2 || len(plans[1].Unread) != 2 || len(plans[1].Warnings) != 1 {
		t.Errorf("%d plans, %v", len(plans), err)
	}
	// Indentation lost: the lines are kept, and said.
	plans, err = Parse(strings.NewReader("-> Sort: x\n-> Table scan on b\n"))
	if err != nil || len(plans) != 2 || len(plans[1].Warnings) != 1 || !strings.Contains(plans[1].Warnings[0].Text, "indentation is lost") {
		t.Errorf("%d plans, %v", len(plans), err)
	}
	// A terminal of 40 columns breaks the line in the figures.
	p := mustParse(t, "-> Table scan on job  (cost=12.5 rows=12\n3) (actual time=0.1..0.2 rows=9 loops=1)\n")
	if n := p.Root; n.Operation != "Table scan on job" || *n.EstimatedRows != 123 || n.Actual.Rows != 9 || n.EndLine != 2 || len(p.Warnings) != 1 {
		t.Errorf("%+v, %v", n, p.Warnings)
	}
	// Numbers of every form.
	n := tree("-> Table scan on job  (cost=1e+6..2.5e6 rows=0.111) (actual time=350e-6..12.3 rows=1e+6 loops=6488)")
	if *n.EstimatedFirstCost != 1e6 || *n.EstimatedCost != 2.5e6 || *n.EstimatedRows != 0.111 || *n.Actual != (Actual{350e-6, 12.3, 1e6, 6488}) {
		t.Errorf("%+v %+v", n, n.Actual)
	}
	// What looks like figures and is not stays in the text.
	p = mustParse(t, "-> Table scan on job  (cost=inf rows=nan)")
	if p.Root.Operation != "Table scan on job  (cost=inf rows=nan)" || p.Root.EstimatedCost != nil || len(p.Warnings) != 1 {
		t.Errorf("%+v %v", p.Root, p.Warnings)
	}
	// An operation of a later server is a node, and said.
	p = mustParse(t, "-> Teleport rows to job  (cost=1 rows=2)\n    -> Table scan on job  (cost=1 rows=2)")
	if p.Root.Kind != Other || len(p.Root.Children) != 1 || len(p.Warnings) != 1 {
		t.Errorf("%+v %v", p.Root, p.Warnings)
	}
}
