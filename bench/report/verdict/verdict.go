// Package verdict says in plain words what a run of the laboratory (result.Run)
// means: which strategy to use for this data, how far that holds, which index or
// setting gains how much, what would change the answer, and what cannot be said.
//
// Every sentence is computed from the figures of the run; nothing is known
// beforehand but the order of simplicity below. It measures nothing and renders
// nothing. Its neighbours: bench/result is the data, bench/report/digest the words
// and the comparison of timings, bench/report and bench/report/markdown show it.
//
// # How a strategy is chosen
//
// For each set, at its largest size, a strategy's score is the geometric mean over
// the radii of its time divided by the best time there. The lowest score is the
// best. Strategies that are equal to it within the noise at every radius (the
// middle halves of their runs overlap) or faster share the first place, and of those the
// simplest to operate is named:
//
//	bbox     one ordinary B-tree on two columns that the table has already
//	spatial  a column with an SRID and an R-tree: no code, but a new kind of index
//	geohash  a column that the application fills, by arithmetic that fits on a page
//	s2       the same, with a library for the cells
//	h3       the same, with a library in C, and parents that do not contain their children
//
// Others come after these, by name. fullscan is never chosen, since its time grows
// with the table; where nothing is faster, that is said.
//
// Over several sets the same is done with all groups of all sets.
//
// # What holds means
//
// A strategy holds at a size and radius where its time is within Factor of the best
// strategy's, or within NegligibleMS of it, or equal to it within the noise, and within
// BudgetMS. What was not
// measured is not said: a strategy that holds everywhere holds "at least" to the
// largest size and radius.
//
// # Known limits
//
// The noise is that inside a run, not that between two runs or two machines. Times
// are of one search at a time; load changes them. Places where no job was found
// count as others do, which is said.
package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

const (
	// BudgetMS is the time in milliseconds that a search may take: half of the 100 ms
	// that people take for immediate, as the network and the page need the rest.
	BudgetMS = 50

	// Factor is how many times slower than the best a strategy may be.
	Factor = 2

	// NegligibleMS is how far behind the best a strategy may be whatever the factor:
	// a tenth of BudgetMS, which nobody waiting for a page can tell.
	NegligibleMS = BudgetMS / 10

	// minGain is the smallest gain that is worth a sentence: less than that is not
	// worth a change, even where it is no noise.
	minGain = 1.2

	// fewRuns is the number of runs below which a spread says little.
	fewRuns = 5

	// noisy is the spread above which a timing is called noisy.
	noisy = 0.25

	full = "fullscan"
)

// simple is the order of operational simplicity, the simplest first, and why a
// strategy stands before those after it.
var simple = [...]struct{ name, why string }{
	{"bbox", "it needs one ordinary index on two columns that the table has already"},
	{"spatial", "it needs a column and an index, but nothing that the application computes"},
	{"geohash", "its cell numbers are computed without a library"},
	{"s2", "its cells nest exactly, and its library is plain Go"},
	{"h3", "it needs a library in C"},
}

// known are the strategies that a full run measures.
var known = [...]string{full, "bbox", "spatial", "geohash", "h3", "s2"}

// rank is a strategy's place in the order of simplicity.
func rank(strategy string) int {
	for i, s := range simple {
		if s.name == strategy {
			return i
		}
	}
	return len(simple)
}

// simpler compares two strategies, the simpler one first.
func simpler(a, b string) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// Kind is what a point is about.
type Kind string

// The kinds, in the order in which they are given.
const (
	Use     Kind = "use"     // what to adopt
	Holds   Kind = "holds"   // how far it holds
	Gain    Kind = "gain"    // what an index or a setting gains
	Change  Kind = "change"  // what would change the verdict
	Caution Kind = "caution" // what cannot be said, and why
)

// Point is one sentence or two.
type Point struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
	// Evidence are the keys of the cases that it rests on (result.Case.Key), or
	// "experiment/" and an experiment's name, or "table".
	Evidence []string `json:"evidence"`
}

// Verdict is what a run means.
type Verdict struct {
	Headline string       `json:"headline"`
	Points   []Point      `json:"points"`
	Sets     []SetVerdict `json:"sets"`
}

// SetVerdict is the verdict for one data set.
type SetVerdict struct {
	Set string `json:"set"`
	// Use is the strategy to use, or "" if there is none to name.
	Use string `json:"use"`
	// Equal are the others that are as good within the noise, the simplest first.
	Equal []string `json:"equal"`
	Text  string   `json:"text"`
	// Rows and RadiusM are how far Use holds: at every measured size up to Rows with
	// every radius up to RadiusM. Both are 0 if it holds nowhere. AtLeast says that
	// nothing larger was measured.
	Rows    int     `json:"rows"`
	RadiusM float64 `json:"radius_m"`
	AtLeast bool    `json:"at_least"`
	// Evidence are the keys of the cases at the largest size.
	Evidence []string `json:"evidence"`
}

// group is the cases of one set, size and radius: the same search by several
// strategies.
type group struct {
	set    string
	rows   int
	radius float64
	cases  []*result.Case // in the run's order, with a time, one a strategy
}

func (g *group) of(strategy string) *result.Case {
	for _, c := range g.cases {
		if c.Strategy == strategy {
			return c
		}
	}
	return nil
}

// best is the fastest case of those that can be chosen.
func (g *group) best() *result.Case {
	var best *result.Case
	for _, c := range g.cases {
		if c.Strategy != full && (best == nil || c.Free.Time.Median < best.Free.Time.Median) {
			best = c
		}
	}
	return best
}

func (g *group) where() string {
	return fmt.Sprintf("%s rows and %s", digest.Count(g.rows), digest.Radius(g.radius))
}

// judge collects what is said.
type judge struct {
	run    *result.Run
	groups []*group // ordered as the run's cases
	points []Point
}

func (j *judge) say(k Kind, evidence []string, format string, args ...any) {
	if evidence == nil {
		evidence = []string{}
	}
	j.points = append(j.points, Point{k, fmt.Sprintf(format, args...), evidence})
}

// Judge computes the verdict. Equal runs give equal verdicts.
func Judge(r *result.Run) Verdict {
	j := &judge{run: r}
	j.collect()
	var v Verdict
	v.Sets = []SetVerdict{}
	own := j.ownTable()
	var largest [][]*group // of each set
	for _, name := range j.setNames() {
		groups := j.ofSet(name)
		top := largestSize(groups)
		largest = append(largest, top)
		v.Sets = append(v.Sets, j.judgeSet(name, groups, top))
	}
	v.Headline = j.headline(own, v.Sets, largest)
	j.gains(v.Sets, largest)
	j.changes(v.Sets)
	j.cautions(v.Sets, largest)
	v.Points = j.points
	order := []Kind{Use, Holds, Gain, Change, Caution}
	slices.SortStableFunc(v.Points, func(a, b Point) int {
		return cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind))
	})
	return v
}

// timed reports whether a timing holds figures to compute with.
func timed(t result.Timing) bool {
	return t.Runs > 0 && t.Median > 0 && !math.IsInf(t.Median, 0) && t.Spread >= 0 && !math.IsInf(t.Spread, 0)
}

// collect puts the cases into groups. Cases without a time are named and left out.
func (j *judge) collect() {
	var untimed, twice []string
	for i := range j.run.Cases {
		c := &j.run.Cases[i]
		if !timed(c.Free.Time) {
			untimed = append(untimed, c.Key())
			continue
		}
		at := slices.IndexFunc(j.groups, func(g *group) bool { return g.set == c.Set && g.rows == c.Rows && g.radius == c.RadiusM })
		if at < 0 {
			at = len(j.groups)
			j.groups = append(j.groups, &group{set: c.Set, rows: c.Rows, radius: c.RadiusM})
		}
		if j.groups[at].of(c.Strategy) != nil {
			twice = append(twice, c.Key())
			continue
		}
		j.groups[at].cases = append(j.groups[at].cases, c)
	}
	if len(untimed) > 0 {
		j.say(Caution, untimed, "%s without a time, and left out here.", many(len(untimed), "case is", "cases are"))
	}
	if len(twice) > 0 {
		j.say(Caution, twice, "%s in the run more than once; the first one counts.", many(len(twice), "case is", "cases are"))
	}
}

// setNames returns the sets that have groups, in the run's order, those that the
// run does not list behind.
func (j *judge) setNames() []string {
	var names []string
	for _, s := range j.run.Sets {
		if len(j.ofSet(s.Name)) > 0 && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	for _, g := range j.groups {
		if !slices.Contains(names, g.set) {
			names = append(names, g.set)
		}
	}
	return names
}

// ofSet returns a set's groups by size and radius.
func (j *judge) ofSet(set string) []*group {
	var out []*group
	for _, g := range j.groups {
		if g.set == set {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.rows, b.rows), cmp.Compare(a.radius, b.radius))
	})
	return out
}

func largestSize(groups []*group) []*group {
	most := 0
	for _, g := range groups {
		most = max(most, g.rows)
	}
	var out []*group
	for _, g := range groups {
		if g.rows == most {
			out = append(out, g)
		}
	}
	return out
}

// choice is the outcome of choose.
type choice struct {
	use   string
	best  string   // the one with the lowest score: use, or one that is equal to it
	equal []string // the others in the first place, the simplest first
	score map[string]float64
}

// choose names the strategy for some groups, of those that all groups have.
func choose(groups []*group) (choice, bool) {
	ch := choice{score: map[string]float64{}}
	if len(groups) == 0 {
		return ch, false
	}
	for _, c := range groups[0].cases {
		if c.Strategy == full {
			continue
		}
		sum, everywhere := 0.0, true
		for _, g := range groups {
			if own := g.of(c.Strategy); own == nil {
				everywhere = false
			} else {
				sum += math.Log(own.Free.Time.Median / g.best().Free.Time.Median)
			}
		}
		if everywhere {
			ch.score[c.Strategy] = math.Exp(sum / float64(len(groups)))
		}
	}
	if len(ch.score) == 0 {
		return ch, false
	}
	var names []string
	for name := range ch.score {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(ch.score[a], ch.score[b]), simpler(a, b))
	})
	ch.best = names[0]
	first := slices.DeleteFunc(names, func(name string) bool {
		return name != ch.best && slices.ContainsFunc(groups, func(g *group) bool {
			return digest.Compare(g.of(name).Free.Time, g.of(ch.best).Free.Time) > 0
		})
	})
	slices.SortFunc(first, simpler)
	ch.use, ch.equal = first[0], slices.Clone(first[1:])
	return ch, true
}

// judgeSet judges one set.
func (j *judge) judgeSet(name string, groups, top []*group) SetVerdict {
	v := SetVerdict{Set: name, Equal: []string{}, Evidence: keys(top)}
	ch, ok := choose(top)
	if !ok {
		v.Text = "No strategy with an index was measured at every radius, so none can be named."
		return v
	}
	v.Use = ch.use
	v.Equal = append(v.Equal, ch.equal...)
	var failed *group
	var holdsText string
	v.Rows, v.RadiusM, failed = holds(groups, ch.use)
	v.AtLeast = failed == nil
	switch {
	case v.AtLeast:
		last := top[len(top)-1]
		holdsText = fmt.Sprintf("It holds to at least %s, the largest measured: %s there.", last.where(), plan.Milliseconds(last.of(ch.use).Free.Time.Median))
	case v.Rows == 0:
		holdsText = fmt.Sprintf("It holds nowhere: %s.", j.why(failed, ch.use))
	default:
		holdsText = fmt.Sprintf("It holds to %s rows and a radius of %s; not further: %s.", digest.Count(v.Rows), digest.Radius(v.RadiusM), j.why(failed, ch.use))
	}
	use := fmt.Sprintf("use %s%s.", ch.use, equalText(top, ch))
	j.say(Use, v.Evidence, "%s: %s", name, use)
	v.Text = "U" + use[1:] + " " + holdsText
	evidence := keysOf(groups, ch.use)
	if failed != nil {
		evidence = keys([]*group{failed})
	}
	j.say(Holds, evidence, "%s: %s %s", name, ch.use, strings.TrimPrefix(holdsText, "It "))
	return v
}

// equalText says which strategies are as good, and why the one is named.
func equalText(groups []*group, ch choice) string {
	if len(ch.equal) == 0 {
		return ""
	}
	why := ""
	for _, s := range simple {
		if s.name == ch.use {
			why = ", the simplest to operate: " + s.why
		}
	}
	g := groups[len(groups)-1]
	times := []string{fmt.Sprintf("%s %s", ch.use, plan.Milliseconds(g.of(ch.use).Free.Time.Median))}
	for _, name := range ch.equal {
		times = append(times, fmt.Sprintf("%s %s", name, plan.Milliseconds(g.of(name).Free.Time.Median)))
	}
	verb := "is"
	if len(ch.equal) > 1 {
		verb = "are"
	}
	return fmt.Sprintf(" (%s %s equal within the noise; at %s: %s%s)", list(ch.equal), verb, g.where(), strings.Join(times, ", "), why)
}

// holds returns how far a strategy holds: the largest size at which it does with
// every radius up to the largest possible, sizes before radii, and the first group
// where it does not, or nil.
func holds(groups []*group, strategy string) (rows int, radius float64, failed *group) {
	if len(groups) == 0 {
		return 0, 0, nil
	}
	ok := func(g *group) bool {
		c := g.of(strategy)
		if c == nil {
			return false
		}
		best := g.best()
		return c.Free.Time.Median <= BudgetMS && !behind(c.Free.Time, best.Free.Time)
	}
	// All radii at as many sizes as possible; where not even the smallest size has
	// all, as many radii as possible of that size.
	var sizes []int
	for _, g := range groups {
		if !slices.Contains(sizes, g.rows) {
			sizes = append(sizes, g.rows)
		}
	}
	widest := math.Inf(1) // radius that all sizes so far have
	for _, size := range sizes {
		for _, g := range groups {
			if g.rows != size {
				continue
			}
			if !ok(g) {
				failed = g
				if rows == 0 && radius > 0 {
					return size, radius, failed
				}
				if rows == 0 {
					return 0, 0, failed
				}
				return rows, widest, failed
			}
			if rows == 0 {
				radius = g.radius
			}
		}
		rows, widest = size, min(widest, largestRadius(groups, size))
	}
	return rows, widest, nil
}

// behind reports whether a time is too far behind the best.
func behind(t, best result.Timing) bool {
	return t.Median > Factor*best.Median && t.Median-best.Median > NegligibleMS && digest.Compare(t, best) > 0
}

func largestRadius(groups []*group, rows int) float64 {
	widest := 0.0
	for _, g := range groups {
		if g.rows == rows {
			widest = max(widest, g.radius)
		}
	}
	return widest
}

// why says why a strategy does not hold in a group.
func (j *judge) why(g *group, strategy string) string {
	c := g.of(strategy)
	if c == nil {
		return fmt.Sprintf("at %s it was not measured", g.where())
	}
	best := g.best()
	var parts []string
	if ms := c.Free.Time.Median; ms > BudgetMS {
		parts = append(parts, fmt.Sprintf("takes %s, over the budget of %d ms", plan.Milliseconds(ms), BudgetMS))
	}
	if behind(c.Free.Time, best.Free.Time) {
		parts = append(parts, fmt.Sprintf("is %s times slower than %s (%s against %s)", plan.Figure(c.Free.Time.Median/best.Free.Time.Median), best.Strategy,
			plan.Milliseconds(c.Free.Time.Median), plan.Milliseconds(best.Free.Time.Median)))
	}
	return fmt.Sprintf("at %s it %s", g.where(), strings.Join(parts, ", and "))
}

// ownTable says what to adopt for the user's table, if there is one with advice,
// and returns it for the headline.
func (j *judge) ownTable() string {
	t := j.run.Table
	if t == nil || len(t.Advice) == 0 {
		return ""
	}
	a := t.Advice[0]
	var gain string
	switch {
	case !(a.Gain > 0):
		gain = "what it gains was not measured"
	case a.Gain < minGain:
		gain = fmt.Sprintf("it gains little: %s times as fast as the search of today at %s", plan.Figure(a.Gain), digest.Radius(a.RadiusM))
	default:
		gain = fmt.Sprintf("%s times as fast as the search of today at %s", plan.Figure(a.Gain), digest.Radius(a.RadiusM))
	}
	j.say(Use, []string{"table"}, "%s: adopt %s: %s (%s now). %s", t.Name, a.Strategy, gain, plan.Milliseconds(a.Time.Median), needs(a.Needs))
	return fmt.Sprintf("For %s, use %s: %s.", t.Name, a.Strategy, gain)
}

// headline judges all sets together and says what to use. own is what was said of
// the user's table, which comes first.
func (j *judge) headline(own string, sets []SetVerdict, largest [][]*group) string {
	switch {
	case own == "":
		return j.overall("For this data", sets, largest)
	case len(sets) == 0:
		return own
	}
	// The same rows were searched in Nearjob's tables too.
	return own + " " + j.overall("In Nearjob's own tables", sets, largest)
}

func (j *judge) overall(where string, sets []SetVerdict, largest [][]*group) string {
	var all []*group
	var named []SetVerdict
	for i, s := range sets {
		if s.Use != "" {
			named = append(named, s)
			all = append(all, largest[i]...)
		}
	}
	ch, ok := choose(all)
	switch {
	case len(named) == 0 && len(sets) == 0:
		return "Nothing was measured, so nothing can be said: run the laboratory with at least one data set."
	case len(named) == 0:
		return "No strategy with an index was measured at every radius, so none can be named: run the laboratory with all strategies."
	case !ok:
		var each []string
		for _, s := range named {
			each = append(each, fmt.Sprintf("%s for %s", s.Use, s.Set))
		}
		return fmt.Sprintf("Use %s: no strategy was measured in all sets, so that there is none for all.", list(each))
	}
	var same, other []string
	worst, worstAt := 1.0, all[0]
	for _, g := range all {
		if ratio := g.of(ch.use).Free.Time.Median / g.best().Free.Time.Median; ratio > worst && digest.Compare(g.of(ch.use).Free.Time, g.best().Free.Time) > 0 {
			worst, worstAt = ratio, g
		}
	}
	for _, s := range named {
		if s.Use == ch.use || slices.Contains(s.Equal, ch.use) {
			same = append(same, s.Set)
		} else {
			other = append(other, fmt.Sprintf("%s for %s", s.Use, s.Set))
		}
	}
	text := where + ", use " + ch.use
	if len(other) == 0 {
		switch {
		case len(named) == 1 && worst == 1:
			text += ": nothing else is faster beyond the noise"
		case worst == 1:
			text += fmt.Sprintf(": nothing else is faster beyond the noise, in any of the %d sets", len(named))
		default:
			text += fmt.Sprintf(": the best over all radii, at worst %s times slower than %s (%s, %s)", plan.Figure(worst), worstAt.best().Strategy, worstAt.set, digest.Radius(worstAt.radius))
		}
	} else {
		text += ": the best over all sets together"
		if len(same) > 0 {
			text += fmt.Sprintf(", and first for %s", list(same))
		}
		text += fmt.Sprintf("; taken alone, %s is better", list(other))
		if len(other) > 1 {
			text = strings.TrimSuffix(text, "is better") + "are better"
		}
		text += fmt.Sprintf(" (%s is at worst %s times slower than the best)", ch.use, plan.Figure(worst))
	}
	return text + ". " + holdsOver(named, ch.use, j)
}

// holdsOver says how far a strategy holds in all sets, those that agree together.
func holdsOver(named []SetVerdict, use string, j *judge) string {
	var order []string
	in := map[string][]string{}
	for _, s := range named {
		rows, radius, failed := holds(j.ofSet(s.Set), use)
		far := fmt.Sprintf("to %s rows and %s", digest.Count(rows), digest.Radius(radius))
		switch {
		case failed == nil:
			far = fmt.Sprintf("to at least %s rows and %s", digest.Count(rows), digest.Radius(radius))
		case rows == 0:
			far = "nowhere"
		}
		if in[far] == nil {
			order = append(order, far)
		}
		in[far] = append(in[far], s.Set)
		if failed != nil && s.Use != use {
			j.say(Holds, keys([]*group{failed}), "%s: %s, the choice for all sets, does not hold there: %s.", s.Set, use, j.why(failed, use))
		}
	}
	if len(named) == 1 {
		return fmt.Sprintf("It holds %s.", order[0])
	}
	if len(order) == 1 {
		return fmt.Sprintf("It holds %s in every set.", order[0])
	}
	parts := make([]string, len(order))
	for i, far := range order {
		parts[i] = fmt.Sprintf("%s in %s", far, list(in[far]))
	}
	return fmt.Sprintf("It holds %s.", strings.Join(parts, ", "))
}

func needs(s string) string {
	if s == "" {
		return "SQL is enough for it."
	}
	return s
}

// keys returns the keys of all cases of some groups.
func keys(groups []*group) []string {
	out := []string{}
	for _, g := range groups {
		for _, c := range g.cases {
			out = append(out, c.Key())
		}
	}
	return out
}

// keysOf returns the keys of a strategy's cases in some groups.
func keysOf(groups []*group, strategies ...string) []string {
	out := []string{}
	for _, g := range groups {
		for _, s := range strategies {
			if c := g.of(s); c != nil {
				out = append(out, c.Key())
			}
		}
	}
	return out
}

// list joins words as in a sentence.
func list(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// many writes a number with the right one of two words.
func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return digest.Count(n) + " " + more
}
