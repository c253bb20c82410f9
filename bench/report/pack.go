package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// Longest texts in the page, in bytes. What is cut is marked, and whole in
// report.json.
const (
	maxSQL       = 2000
	maxArgs      = 600
	maxCondition = 500

	manySame = 6 // parts of a statement that are shown once if they come so often
)

// A pack is what the page's script needs of all plans: about 1,000 of them in
// a full run. What repeats is stored once and named by its index: texts, shapes
// and pairings. Keys are one or two letters for the same reason. The script
// reads it and no one else: report.json is the form for machines.
type pack struct {
	Texts  []string `json:"t"`
	Shapes []shape  `json:"s"`
	Plans  []packed `json:"p"`
	// Pairings are lists of plan.Diff's pairs, three numbers each: the index in A,
	// the index in B, and the pair that holds the same table's read on the other
	// side. -1 is none.
	Pairings [][]int `json:"g"`
	// Use says which pairing belongs to the shapes of A and B: Use[A][B].
	Use [][]use `json:"u"`
}

// A shape is what many plans have in common: their operations in the order of
// plan.Node.All, without figures and literals.
type shape struct {
	Nodes []static `json:"n"`
	// Format: plan.Diff compares fewer texts between different formats.
	Format plan.Format `json:"f"`
}

// static is the part of a node that belongs to the shape.
type static struct {
	Depth    int       `json:"d"`
	Kind     plan.Kind `json:"k"`
	Head     string    `json:"h"` // the operation without its texts
	Heading  string    `json:"e,omitempty"`
	Table    string    `json:"t,omitempty"`
	Index    string    `json:"i,omitempty"`
	Join     string    `json:"j,omitempty"`
	Subquery bool      `json:"q,omitempty"`
	Covering bool      `json:"c,omitempty"`
	Reverse  bool      `json:"r,omitempty"`
	Spatial  bool      `json:"sp,omitempty"`
	Reads    bool      `json:"rd,omitempty"`
}

// packed is one plan with its statement.
type packed struct {
	ID        string       `json:"id"`
	Label     string       `json:"l"`
	Set       string       `json:"s"`
	Rows      int          `json:"r"`
	Radius    string       `json:"m"` // as in keys: "1000m"
	Strategy  string       `json:"y"`
	Forced    bool         `json:"f,omitempty"`
	Statement int          `json:"i"` // from 1, in the side
	Of        int          `json:"o"` // statements of the side
	Round     int          `json:"d"`
	Shape     int          `json:"h"`
	Analyzed  bool         `json:"z,omitempty"`
	SQL       int          `json:"q"`
	Args      int          `json:"a"`
	MS        float64      `json:"ms,omitempty"` // median of the statement without EXPLAIN
	Examined  float64      `json:"x"`
	Returned  float64      `json:"rr"`
	Nodes     []packedNode `json:"n"`
	Notes     []packedNote `json:"k,omitempty"`
	Trace     *packedTrace `json:"c,omitempty"`
	Warnings  []int        `json:"w,omitempty"` // SHOW WARNINGS, and of the parser
}

// packedNode is the part of a node that differs from plan to plan.
type packedNode struct {
	Estimated *float64 `json:"e,omitempty"`
	Cost      *float64 `json:"c,omitempty"`
	Rows      *float64 `json:"r,omitempty"` // of one loop
	Loops     float64  `json:"l,omitempty"`
	Total     float64  `json:"t,omitempty"` // ms, all loops
	Self      float64  `json:"s,omitempty"` // ms, all loops
	Off       int      `json:"o,omitempty"` // 10, 100, 1000
	Never     bool     `json:"v,omitempty"`
	// Texts: condition, lookup, detail, index condition, ranges. Plans with the same
	// number have the same text, before it was cut.
	Condition int `json:"q,omitempty"`
	Lookup    int `json:"k,omitempty"`
	Detail    int `json:"d,omitempty"`
	Pushed    int `json:"p,omitempty"`
	Ranges    int `json:"g,omitempty"`
}

// packedNote is a note on a node; node -1 is the whole plan.
type packedNote struct {
	Node int   `json:"n"`
	Warn bool  `json:"w,omitempty"`
	Text []int `json:"t"` // sentence by sentence, because most of them repeat
}

type packedTrace struct {
	ScanRows float64             `json:"r"`
	ScanCost float64             `json:"c"`
	Ways     []packedAlternative `json:"a,omitempty"`
	Chosen   int                 `json:"h"`
	Cost     float64             `json:"hc"`
	Cause    int                 `json:"w"`
	Missing  int                 `json:"m,omitempty"`
}

type packedAlternative struct {
	Index  int     `json:"i"`
	Usable bool    `json:"u,omitempty"`
	Ranges int     `json:"g,omitempty"`
	Rows   float64 `json:"r,omitempty"`
	Cost   float64 `json:"c,omitempty"`
	Only   bool    `json:"o,omitempty"`
	Dives  bool    `json:"d,omitempty"`
	Chosen bool    `json:"h,omitempty"`
	Cause  int     `json:"w,omitempty"`
}

// A packer collects the parts of a pack.
type packer struct {
	pack
	texts  map[string]int
	shapes map[string]int
	// same holds for each plan a number for each node: two nodes with the same number
	// have the same condition, lookup and detail, which is what plan.Diff's pairing
	// looks at beside the shape.
	same   [][]int
	sameOf map[[3]string]int
	// full holds the plans as they were read.
	full []plan.Plan
}

func newPacker() *packer {
	p := &packer{texts: make(map[string]int), shapes: make(map[string]int), sameOf: make(map[[3]string]int)}
	p.text("", 0) // 0 is the empty text, which JSON leaves out
	return p
}

// text returns the number of a text, of which the page gets at most limit bytes.
func (p *packer) text(s string, limit int) int {
	if i, ok := p.texts[s]; ok {
		return i
	}
	i := len(p.Texts)
	p.texts[s] = i
	p.Texts = append(p.Texts, shorten(s, limit))
	return i
}

// shorten cuts s to about limit bytes and says how much is missing. It keeps the
// end, where ORDER BY and LIMIT stand.
func shorten(s string, limit int) string {
	if limit <= 0 || len(s) <= limit+limit/5 {
		return s
	}
	head, tail := limit*3/4, len(s)-limit/4
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s … [%s characters cut: whole in report.json] … %s",
		s[:head], plan.Figure(float64(utf8.RuneCountInString(s[head:tail]))), s[tail:])
}

// collapse writes conditions and values that come many times in a statement once,
// with their number: "a BETWEEN ? AND ? OR … [14 more of these] OR …". Their
// arguments stand beside.
func collapse(sql string) string {
	for _, separator := range []string{" OR ", ", "} {
		parts := strings.Split(sql, separator)
		var kept []string
		for i := 0; i < len(parts); {
			end := i + 1
			for end < len(parts) && parts[end] == parts[i] {
				end++
			}
			kept = append(kept, parts[i])
			if more := end - i - 1; more >= manySame && strings.Contains(parts[i], "?") {
				kept = append(kept, fmt.Sprintf("… [%s more of these]", plan.Figure(float64(more))))
			} else {
				kept = append(kept, parts[i+1:end]...)
			}
			i = end
		}
		sql = strings.Join(kept, separator)
	}
	return sql
}

// sqlText is how the page shows a statement.
func sqlText(sql string) string { return shorten(collapse(sql), maxSQL) }

// round4 keeps four significant digits, one more than MySQL prints.
func round4(f float64) float64 {
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 4, 64), 64)
	if err != nil {
		return 0
	}
	if math.Abs(f) >= 1000 && math.Abs(f) < 1e15 { // rows are whole numbers, and shown as such
		return math.Round(f)
	}
	return r
}

func round4p(f *float64) *float64 {
	if f == nil {
		return nil
	}
	r := round4(*f)
	return &r
}

// head returns an operation without the texts that the page shows on their own:
// "Filter: (a > 1)" is "Filter".
func head(n *plan.Node) string {
	s := n.Operation
	for _, cut := range []string{n.Condition, n.Lookup, n.Ranges, n.IndexCondition, n.Detail} {
		if cut == "" {
			continue
		}
		if at := strings.Index(s, cut); at > 0 {
			s = s[:at]
		}
	}
	if at := strings.Index(s, " over ("); at > 0 && n.Kind.Reads() {
		s = s[:at]
	}
	s = strings.TrimRight(s, " :(,")
	s = strings.TrimSuffix(s, " over")
	s = strings.TrimSuffix(s, ", with index condition")
	return shorten(s, 160)
}

// add packs one plan.
func (p *packer) add(d *digest.Plan, statement, of int) {
	st := d.Statement
	out := packed{
		ID: d.ID, Label: d.Label, Set: d.Case.Set, Rows: d.Case.Rows, Radius: result.Metres(d.Case.RadiusM),
		Strategy: d.Case.Strategy, Forced: d.Forced, Statement: statement, Of: of, Round: st.Round, Analyzed: d.Plan.Analyzed,
		SQL: p.text(sqlText(st.SQL), 0), Args: p.text(strings.Join(st.Args, ", "), maxArgs), MS: round4(st.Time.Median),
	}
	sh := shape{Format: d.Plan.Format}
	var same []int
	nodes := make(map[*plan.Node]int)
	for depth, n := range d.Plan.Root.All() {
		nodes[n] = len(nodes)
		sh.Nodes = append(sh.Nodes, static{
			Depth: depth, Kind: n.Kind, Head: head(n), Heading: n.Heading, Table: n.Table, Index: n.Index, Join: n.JoinType,
			Subquery: n.Subquery, Covering: n.Covering, Reverse: n.Reverse, Spatial: n.Spatial, Reads: n.Kind.Reads(),
		})
		total, _ := n.TotalMS()
		self, _, _ := n.SelfMS()
		node := packedNode{
			Estimated: round4p(n.EstimatedRows), Cost: round4p(n.EstimatedCost),
			Total: round4(total), Self: round4(self), Off: n.Misestimate(), Never: n.NeverExecuted,
			Condition: p.text(n.Condition, maxCondition), Lookup: p.text(n.Lookup, maxCondition), Detail: p.text(n.Detail, maxCondition),
			Pushed: p.text(n.IndexCondition, maxCondition), Ranges: p.text(n.Ranges, maxCondition),
		}
		if d.Forced {
			node.Off = 0 // with FORCE INDEX MySQL does not estimate rows, so nothing is off
		}
		if n.Actual != nil {
			node.Rows, node.Loops = round4p(&n.Actual.Rows), n.Actual.Loops
		}
		out.Nodes = append(out.Nodes, node)
		key := [3]string{n.Condition, n.Lookup, n.Detail}
		if _, ok := p.sameOf[key]; !ok {
			p.sameOf[key] = len(p.sameOf)
		}
		same = append(same, p.sameOf[key])
	}
	if d.Plan.Root != nil {
		examined, returned, _ := d.Plan.Root.Examined()
		out.Examined, out.Returned = round4(examined), round4(returned)
	}
	key := fmt.Sprintf("%#v", sh)
	if _, ok := p.shapes[key]; !ok {
		p.shapes[key] = len(p.Shapes)
		p.Shapes = append(p.Shapes, sh)
	}
	out.Shape = p.shapes[key]
	for _, note := range d.Notes {
		at, ok := nodes[note.Node]
		if !ok {
			at = -1
		}
		out.Notes = append(out.Notes, packedNote{Node: at, Warn: note.Warning, Text: p.sentences(note.Text)})
	}
	if st.Trace != nil {
		out.Trace = p.trace(st.Trace)
	}
	for _, w := range st.Warnings {
		out.Warnings = append(out.Warnings, p.text(fmt.Sprintf("%s %d: %s", w.Level, w.Code, w.Text), maxCondition))
	}
	for _, w := range d.Plan.Warnings {
		out.Warnings = append(out.Warnings, p.text(w.Text, maxCondition))
	}
	p.Plans = append(p.Plans, out)
	p.same = append(p.same, same)
	p.full = append(p.full, d.Plan)
}

// sentences splits a text so that the sentences without figures are stored once.
func (p *packer) sentences(text string) []int {
	var list []int
	for s := range strings.SplitAfterSeq(text, ". ") {
		list = append(list, p.text(s, 0))
	}
	return list
}

func (p *packer) trace(t *result.Trace) *packedTrace {
	out := &packedTrace{
		ScanRows: round4(t.ScanRows), ScanCost: round4(t.ScanCost), Chosen: p.text(t.Chosen, maxCondition),
		Cost: round4(t.ChosenCost), Cause: p.text(t.Cause, maxCondition), Missing: t.MissingBytes,
	}
	for _, a := range t.Alternatives {
		out.Ways = append(out.Ways, packedAlternative{
			Index: p.text(a.Index, 0), Usable: a.Usable, Ranges: a.Ranges, Rows: round4(a.Rows), Cost: round4(a.Cost),
			Only: a.IndexOnly, Dives: a.Dives, Chosen: a.Chosen, Cause: p.text(a.Cause, maxCondition),
		})
	}
	return out
}

// newPack packs all plans and pairs each with each.
func newPack(plans []digest.Plan) *pack {
	p := newPacker()
	type side struct {
		c      *result.Case
		forced bool
	}
	of := make(map[side]int)
	for i := range plans {
		of[side{plans[i].Case, plans[i].Forced}]++
	}
	seen := make(map[side]int)
	for i := range plans {
		s := side{plans[i].Case, plans[i].Forced}
		seen[s]++
		p.add(&plans[i], seen[s], of[s])
	}
	p.pair()
	return &p.pack
}

// A use is the pairing of two shapes: the index in pack.Pairings, or, where the
// pairing depends on which conditions are the same, a choice.
type use struct {
	One    int
	Choice *choice
}

// A choice is decided by comparing the texts of some nodes: for each of Tests
// (index in A, index in B) "1" if they have the same texts and "0" otherwise,
// put together, is the key.
type choice struct {
	Tests [][2]int       `json:"e"`
	Use   map[string]int `json:"v"`
}

// MarshalJSON writes a number or a choice.
func (u use) MarshalJSON() ([]byte, error) {
	if u.Choice != nil {
		return json.Marshal(u.Choice)
	}
	return strconv.AppendInt(nil, int64(u.One), 10), nil
}

// pair fills Pairings and Use, so that the page shows for any two plans what
// plan.Diff says about them, and holds no second alignment.
//
// plan.Diff pairs nodes by the shape of the trees, by kind, table, index and
// subquery of each node, and by whether the condition, lookup and detail of two
// nodes are equal, whatever they are. The first part is the same for all plans
// of a shape. The second part is a bit for each pair of nodes. So the pairing of
// two plans is that of any other two with the same shapes and bits, and Diff
// runs once for each of those. It takes time in the square of the number of
// plans, but only to compare a few integers: see BenchmarkPack.
func (p *packer) pair() {
	interned := make(map[string]int)
	type variants struct {
		tests [][2]int
		use   map[string]int
	}
	count := len(p.Shapes)
	all := make([]*variants, count*count)
	members := make([][]int, count)
	for i, pl := range p.Plans {
		members[pl.Shape] = append(members[pl.Shape], i)
	}
	var bits []byte
	for a := range count {
		for b := range count {
			v := &variants{tests: tests(p.Shapes[a], p.Shapes[b]), use: make(map[string]int)}
			all[a*count+b] = v
			for _, i := range members[a] {
				for _, j := range members[b] {
					bits = bits[:0]
					for _, t := range v.tests {
						bit := byte('0')
						if p.same[i][t[0]] == p.same[j][t[1]] {
							bit = '1'
						}
						bits = append(bits, bit)
					}
					if _, ok := v.use[string(bits)]; ok {
						continue
					}
					pairing := pairing(plan.Diff(p.full[i], p.full[j]))
					key := fmt.Sprint(pairing)
					at, ok := interned[key]
					if !ok {
						at = len(p.Pairings)
						interned[key] = at
						p.Pairings = append(p.Pairings, pairing)
					}
					v.use[string(bits)] = at
				}
			}
		}
	}
	p.Use = make([][]use, count)
	for a := range count {
		p.Use[a] = make([]use, count)
		for b := range count {
			p.Use[a][b] = settle(all[a*count+b].tests, all[a*count+b].use)
		}
	}
}

// settle drops the tests that decide nothing.
func settle(tests [][2]int, by map[string]int) use {
	if one, same := single(by); same {
		return use{One: one}
	}
	for i := 0; i < len(tests); {
		shorter := make(map[string]int, len(by))
		needed := false
		for key, at := range by {
			k := key[:i] + key[i+1:]
			if other, ok := shorter[k]; ok && other != at {
				needed = true
				break
			}
			shorter[k] = at
		}
		if needed {
			i++
			continue
		}
		tests, by = slices.Delete(slices.Clone(tests), i, i+1), shorter
	}
	return use{Choice: &choice{Tests: tests, Use: by}}
}

func single(by map[string]int) (one int, same bool) {
	first := true
	for _, at := range by {
		if !first && at != one {
			return 0, false
		}
		one, first = at, false
	}
	return one, true
}

// tests lists the nodes of two shapes whose texts may decide about their
// pairing: others are too unlike to be paired whatever their texts. To take too
// many costs time only, so this is a little wider than plan.Diff's rule.
func tests(a, b shape) [][2]int {
	var list [][2]int
	for i, x := range a.Nodes {
		for j, y := range b.Nodes {
			if x.Kind == y.Kind || x.Reads == y.Reads {
				list = append(list, [2]int{i, j})
			}
		}
	}
	return list
}

// pairing flattens the pairs of a difference.
func pairing(d plan.Difference) []int {
	list := make([]int, 0, 3*len(d.Pairs))
	for _, p := range d.Pairs {
		list = append(list, p.IndexA, p.IndexB, p.Twin)
	}
	return list
}
