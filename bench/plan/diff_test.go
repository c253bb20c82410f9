package plan

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkDifference checks what holds of any comparison.
func checkDifference(t testing.TB, a, b Plan, d Difference) {
	t.Helper()
	next := func(p Plan) func(*Node, int) {
		var nodes []*Node
		for _, n := range p.Root.All() {
			nodes = append(nodes, n)
		}
		i := 0
		return func(n *Node, index int) {
			if n == nil {
				if i != len(nodes) {
					t.Fatalf("%d of %d nodes in the comparison", i, len(nodes))
				}
				return
			}
			if i == len(nodes) || nodes[i] != n || index != i {
				t.Fatalf("%s is missing, repeated or out of order", n.Operation)
			}
			i++
		}
	}
	nextA, nextB := next(a), next(b)
	for i, p := range d.Pairs {
		if p.A != nil {
			nextA(p.A, p.IndexA)
		}
		if p.B != nil {
			nextB(p.B, p.IndexB)
		}
		if want := p.A == nil; want != (p.Status == Added) {
			t.Fatalf("status %s of %+v", p.Status, p)
		}
		if want := p.B == nil; want != (p.Status == Removed) {
			t.Fatalf("status %s of %+v", p.Status, p)
		}
		if p.Twin >= 0 && d.Pairs[p.Twin].Twin != i {
			t.Fatalf("pair %d has twin %d, which has %d", i, p.Twin, d.Pairs[p.Twin].Twin)
		}
		for _, c := range p.Changes {
			if c.Pair != i {
				t.Fatalf("a change of pair %d names %d", i, c.Pair)
			}
		}
	}
	nextA(nil, 0)
	nextB(nil, 0)
	for _, width := range []int{1, 80, 1000} {
		var text bytes.Buffer
		if err := d.WriteText(&text, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > max(MinWidth, min(width, MaxWidth)) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
				t.Fatalf("width %d: %d characters in %q", width, n, line)
			}
		}
	}
}

// TestDiffOfItself expects no difference, also across formats that hold the same.
func TestDiffOfItself(t *testing.T) {
	for name, texts := range captures(t) {
		for suffix, text := range texts {
			a, b := mustParse(t, text), mustParse(t, text)
			d := Diff(a, b)
			checkDifference(t, a, b, d)
			if len(d.Changes) > 0 || len(d.Warnings) > 0 {
				t.Errorf("%s%s: %v %v", name, suffix, d.Changes, d.Warnings)
			}
		}
		a, b := mustParse(t, texts[".tree.txt"]), mustParse(t, texts[".v2.json"])
		for _, c := range Diff(a, b).Changes {
			t.Errorf("%s: TREE and JSON: %+v", name, c)
		}
	}
}

// TestDiffAny compares captures of different statements.
func TestDiffAny(t *testing.T) {
	var plans []Plan
	for _, texts := range captures(t) {
		for _, text := range texts {
			plans = append(plans, mustParse(t, text))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		a, b := plans[r.IntN(len(plans))], plans[r.IntN(len(plans))]
		d := Diff(a, b)
		checkDifference(t, a, b, d)
		if again := Diff(a, b); !reflect.DeepEqual(d.Pairs, again.Pairs) {
			t.Fatal("two comparisons differ")
		}
		back := Diff(b, a)
		if len(back.Pairs) != len(d.Pairs) {
			// The number of partners may differ where two alignments cost the same,
			// but not the cost.
			if x, y := cost(d), cost(back); x != y {
				t.Fatalf("cost %d forth and %d back", x, y)
			}
		}
	}
}

// cost is what the alignment of a difference costs.
func cost(d Difference) int {
	sum := 0
	for _, p := range d.Pairs {
		if p.A == nil || p.B == nil {
			sum += edit
		} else {
			sum += matchCost(p.A, p.B)
		}
	}
	return sum
}

// TestAlignmentIsBest compares the alignment with all possible ones of small trees.
func TestAlignmentIsBest(t *testing.T) {
	kinds := []Kind{Filter, Sort, TableScan, NestedLoop}
	r := rand.New(rand.NewPCG(3, 4))
	var random func(size int) *Node
	random = func(size int) *Node {
		n := &Node{Kind: kinds[r.IntN(len(kinds))], Table: []string{"", "a", "b"}[r.IntN(3)]}
		size--
		for size > 0 {
			part := 1 + r.IntN(size)
			n.Children = append(n.Children, random(part))
			size -= part
		}
		return n
	}
	for range 500 {
		a, b := random(1+r.IntN(6)), random(1+r.IntN(6))
		d := Diff(Plan{Root: a}, Plan{Root: b})
		if got, want := cost(d), bestForest([]*Node{a}, []*Node{b}); got != want {
			t.Fatalf("cost %d, best is %d", got, want)
		}
	}
}

// bestForest is the edit distance by its definition: the last root of either
// forest goes, or both are partners.
func bestForest(a, b []*Node) int {
	if len(a) == 0 && len(b) == 0 {
		return 0
	}
	best := math.MaxInt
	if len(a) > 0 {
		last := a[len(a)-1]
		best = min(best, edit+bestForest(append(append([]*Node(nil), a[:len(a)-1]...), last.Children...), b))
	}
	if len(b) > 0 {
		last := b[len(b)-1]
		best = min(best, edit+bestForest(a, append(append([]*Node(nil), b[:len(b)-1]...), last.Children...)))
	}
	if len(a) > 0 && len(b) > 0 {
		x, y := a[len(a)-1], b[len(b)-1]
		best = min(best, matchCost(x, y)+bestForest(x.Children, y.Children)+bestForest(a[:len(a)-1], b[:len(b)-1]))
	}
	return best
}

func TestLargePlans(t *testing.T) {
	wide := func(scans int) Plan {
		return mustParse(t, "-> Append\n"+strings.Repeat("    -> Table scan on a\n", scans))
	}
	a, b := wide(3000), wide(3001)
	d := Diff(a, b)
	checkDifference(t, a, b, d)
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "by position") {
		t.Errorf("warnings %q", d.Warnings)
	}
	var deep strings.Builder
	for i := range MaxDepth {
		deep.WriteString(strings.Repeat(" ", i) + "-> Filter: (a)\n")
	}
	a = mustParse(t, deep.String())
	checkDifference(t, a, a, Diff(a, a))
}

// TestDiffGolden compares the text of some comparisons with files; run with
// -update to write them, and read them.
func TestDiffGolden(t *testing.T) {
	all := captures(t)
	for _, c := range [][3]string{
		{"scan_to_index", "box_ignored.analyze.txt", "box_btree.analyze.txt"},
		{"optimizer", "join_nested.analyze.txt", "hyper_join.analyze.txt"},
		{"spatial_forced", "spatial.analyze.v2.json", "spatial_forced.analyze.txt"},
		{"not_executed", "spatial.tree.txt", "spatial.analyze.txt"},
		{"version_1", "join_nested.v1.json", "join_nested.v2.json"},
		{"never_executed", "join_three.analyze.txt", "never_executed.analyze.txt"},
		{"same", "lookup.analyze.txt", "lookup.analyze.txt"},
	} {
		plan := func(file string) Plan {
			name, suffix, _ := strings.Cut(file, ".")
			text, ok := all[name]["."+suffix]
			if !ok {
				t.Fatalf("no capture %s", file)
			}
			return mustParse(t, text)
		}
		a, b := plan(c[1]), plan(c[2])
		d := Diff(a, b)
		checkDifference(t, a, b, d)
		if err := os.MkdirAll("testdata/diff", 0o755); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata/diff", c[0]+".txt"), []byte(d.Text()))
	}
}

// TestMoved pairs the reads of a table whose place in the join order changed.
func TestMoved(t *testing.T) {
	a := mustParse(t, "-> Nested loop inner join\n    -> Table scan on e  (cost=1 rows=5)\n    -> Index lookup on j using k (x = e.x)  (cost=1 rows=50)\n")
	b := mustParse(t, "-> Nested loop inner join\n    -> Table scan on j  (cost=1 rows=500)\n    -> Single-row index lookup on e using PRIMARY (id = j.e)  (cost=1 rows=1)\n")
	d := Diff(a, b)
	checkDifference(t, a, b, d)
	moved := 0
	for _, p := range d.Pairs {
		if p.Twin >= 0 {
			moved++
		}
	}
	if moved == 0 {
		t.Errorf("nothing moved:\n%s", d.Text())
	}
}

func TestWriteTextError(t *testing.T) {
	p := mustParse(t, "-> Table scan on a")
	if err := Diff(p, p).WriteText(failingWriter{}, 80); err == nil {
		t.Error("the writer's error is lost")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }
