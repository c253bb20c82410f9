// Package markdown writes a run of the laboratory (result.Run) as one GitHub-flavoured
// Markdown file: for a pull request, a wiki or an issue.
//
// It holds the verdict, the settings, the table of all cases, the charts as images,
// the plans of the most telling cases with their SQL and notes, the experiments
// with what was published beside, what was found in the user's own table, and every
// warning. All plans are in the HTML report and in the JSON, not here.
//
// It judges nothing and draws nothing. Its neighbours: bench/report/digest and
// bench/report/verdict compute what it shows, bench/report/chart draws the files
// that it links to (see Charts), bench/report writes the same as HTML.
//
// Texts from outside (names of sets, SQL, plans, warnings) are escaped, so that
// they show as they are and neither make nor break markup.
package markdown

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/chart"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
)

const (
	tellingCases = 5
	// A line of SQL or of a plan longer than this is cut, and marked: lists of
	// hundreds of ranges are on one line.
	maxLine = 1200
	maxKeys = 2 // cases named as evidence of a point; more are counted
)

// Charts returns the charts of the file by the names under which it looks for them,
// in the folder given to Write: draw each with chart.SVG.
func Charts(r *result.Run) map[string]result.Chart {
	out := map[string]result.Chart{}
	for _, n := range chart.All(r) {
		out[file(n)] = n.Chart
	}
	return out
}

func file(n chart.Named) string { return n.Name + ".svg" }

// Write writes the report. charts is the folder of the files that Charts names,
// relative to the report's, with slashes; "" is the same folder. The error is w's.
func Write(w io.Writer, r *result.Run, v verdict.Verdict, charts string) error {
	d := &doc{run: r, folder: charts, charts: chart.All(r)}
	d.head(v)
	d.verdict(v)
	d.settings()
	d.sets()
	d.results()
	d.caseCharts()
	d.plans()
	d.experiments()
	d.table()
	d.warnings()
	_, err := io.WriteString(w, strings.TrimRight(d.b.String(), "\n")+"\n")
	return err
}

// doc is a report in the making.
type doc struct {
	b        strings.Builder
	run      *result.Run
	folder   string
	charts   []chart.Named
	problems []string // of reading and drawing, for the warnings
}

// p writes a paragraph or another block, with an empty line behind it.
func (d *doc) p(format string, args ...any) {
	fmt.Fprintf(&d.b, format+"\n\n", args...)
}

// list writes a list of texts that are Markdown already.
func (d *doc) list(items []string) {
	for _, item := range items {
		d.b.WriteString("- " + item + "\n")
	}
	d.b.WriteString("\n")
}

// grid writes a table of cells that are Markdown already. A column whose name ends in " #"
// is set flush right.
func (d *doc) grid(columns []string, rows [][]string) {
	if len(columns) == 0 {
		return
	}
	names, rules := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		names[i], rules[i] = c, "---"
		if name, ok := strings.CutSuffix(c, " #"); ok {
			names[i], rules[i] = name, "--:"
		}
	}
	write := func(cells []string) { d.b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	write(names)
	write(rules)
	for _, row := range rows {
		// A row of another length would move cells, or lose them.
		cells := slices.Clone(row)
		for len(cells) < len(columns) {
			cells = append(cells, "")
		}
		if len(cells) > len(columns) {
			last := len(columns) - 1
			cells[last] = strings.Join(cells[last:], " · ")
			cells = cells[:len(columns)]
		}
		write(cells)
	}
	d.b.WriteString("\n")
}

// fence writes a text as it is, in a block of code.
func (d *doc) fence(language, s string) {
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	d.p("%s%s\n%s\n%s", fence, language, strings.TrimRight(cutLines(printable(s)), "\n"), fence)
}

func (d *doc) image(n chart.Named) {
	for _, warning := range chart.Check(n.Chart) {
		d.problems = append(d.problems, fmt.Sprintf("chart %q: %s", n.Chart.Title, warning))
	}
	target := (&url.URL{Path: path.Join(d.folder, file(n))}).EscapedPath()
	// Parentheses would end the link.
	target = strings.NewReplacer("(", "%28", ")", "%29").Replace(target)
	d.p("![%s](%s)", text(n.Chart.Title), target)
}

func (d *doc) head(v verdict.Verdict) {
	d.p("# Nearby search on MySQL: what the laboratory found")
	d.p("**%s**", text(v.Headline))
	line := "Made " + d.run.Made.UTC().Format("2006-01-02 15:04 UTC") + " by Nearjob " + text(d.run.Version)
	if d.run.Quick {
		line += ", in a quick run: a first look only"
	}
	d.p("%s.", line)
}

var kinds = map[verdict.Kind]string{
	verdict.Use: "What to use", verdict.Holds: "How far it holds", verdict.Gain: "What gains",
	verdict.Change: "What would change the verdict", verdict.Caution: "What cannot be said, and cautions",
}

func (d *doc) verdict(v verdict.Verdict) {
	d.p("## Verdict")
	for _, k := range []verdict.Kind{verdict.Use, verdict.Holds, verdict.Gain, verdict.Change, verdict.Caution} {
		var items []string
		for _, p := range v.Points {
			if p.Kind == k {
				items = append(items, text(p.Text)+evidence(p.Evidence))
			}
		}
		if len(items) > 0 {
			d.p("### %s", kinds[k])
			d.list(items)
		}
	}
	if len(v.Sets) == 0 {
		return
	}
	d.p("### By data set")
	var rows [][]string
	for _, s := range v.Sets {
		holds := "nowhere"
		if s.Rows > 0 {
			holds = fmt.Sprintf("%s rows, %s", digest.Count(s.Rows), digest.Radius(s.RadiusM))
			if s.AtLeast {
				holds = "at least " + holds
			}
		}
		use := "–"
		if s.Use != "" {
			use = "**" + text(s.Use) + "**"
		} else {
			holds = "–"
		}
		rows = append(rows, []string{text(s.Set), use, dash(texts(s.Equal)), holds})
	}
	d.grid([]string{"set", "use", "as good within the noise", "holds to"}, rows)
	d.p("Holds: within %d times the best strategy's time or %d ms of it, and within %d ms.", verdict.Factor, verdict.NegligibleMS, verdict.BudgetMS)
}

func evidence(keys []string) string {
	switch n := len(keys); {
	case n == 0:
		return ""
	case n <= maxKeys:
		marked := make([]string, n)
		for i, k := range keys {
			marked[i] = code(k)
		}
		return " (" + strings.Join(marked, ", ") + ")"
	default:
		return fmt.Sprintf(" (%s and %d more)", code(keys[0]), n-1)
	}
}

func (d *doc) settings() {
	s := d.run.Settings
	d.p("## Settings")
	where := "a server of yours"
	if s.Container {
		where = "in a container that the laboratory started on its own machine"
	}
	state := "not all warm: some times include reading from the disk"
	if s.Warm {
		state = "warm: every measured query ran before"
	}
	rows := [][]string{
		{"server", "MySQL " + text(s.Server)}, {"runs", where}, {"laboratory", text(s.Machine)}, {"cache", state},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		rows = append(rows, []string{cell(name), cell(s.Variables[name])})
	}
	d.grid([]string{"setting", "value"}, rows)
}

func (d *doc) sets() {
	if len(d.run.Sets) == 0 {
		return
	}
	d.p("### Data sets")
	var about []string
	var rows [][]string
	for _, s := range d.run.Sets {
		about = append(about, fmt.Sprintf("**%s**: %s Searches around %v, %v, %d jobs a page.", text(s.Name), text(s.About), s.Center.Lat, s.Center.Lng, s.Limit))
		for _, sum := range s.Sums {
			rows = append(rows, []string{text(s.Name), digest.Count(sum.Rows), digest.Count(sum.Open), plan.Milliseconds(sum.LoadMS),
				plan.Figure(sum.DataMB) + " MB", plan.Figure(sum.IndexMB) + " MB"})
		}
	}
	d.list(about)
	d.grid([]string{"set", "rows #", "open #", "loading the added rows #", "table #", "indexes #"}, rows)
}

func (d *doc) results() {
	if len(d.run.Cases) == 0 {
		return
	}
	d.p("## Results")
	d.p("Median of the whole search, ± half the width of the middle half of its runs; **bold** is the fastest of its size and radius. " +
		"Rows examined are those the plans show, for each job on the page. Estimated and actual are the rows of all reads whose estimate can be " +
		"compared; ✗10, ✗100 and ✗1000 mark that at least one read is off by that factor. Forced is the same search with its index named.")
	rows := digest.Rows(d.run)
	for start := 0; start < len(rows); {
		set := rows[start].Case.Set
		end := start
		for end < len(rows) && rows[end].Case.Set == set {
			end++
		}
		d.p("### %s", text(set))
		var cells [][]string
		for _, row := range rows[start:end] {
			cells = append(cells, resultCells(row, fastest(rows[start:end], row.Case)))
		}
		d.grid([]string{"rows #", "radius #", "in circle #", "strategy", "time #", "p95 #", "examined per row returned #", "index used", "estimated #", "actual #", "off", "forced #", "gain #"}, cells)
		start = end
	}
}

// fastest reports whether no other case of the same size and radius took less.
func fastest(rows []digest.Row, c *result.Case) bool {
	return !slices.ContainsFunc(rows, func(r digest.Row) bool {
		return r.Case.Rows == c.Rows && r.Case.RadiusM == c.RadiusM && r.FreeMS < c.Free.Time.Median
	})
}

func resultCells(row digest.Row, fastest bool) []string {
	c := row.Case
	time := plan.Milliseconds(c.Free.Time.Median) + fmt.Sprintf(" ± %.0f %%", c.Free.Time.Spread*100)
	if fastest {
		time = "**" + time + "**"
	}
	estimated, actual, off := "–", "–", ""
	if row.Compared > 0 {
		estimated, actual = plan.Figure(row.Estimated), plan.Figure(row.Actual)
	}
	if row.Misestimate > 0 {
		off = fmt.Sprintf("✗%d", row.Misestimate)
	}
	index := dash(text(row.Index))
	if row.Ignored {
		index += " (**index ignored**)"
	}
	forced, gain := "–", "–"
	if row.ForceGain > 0 {
		forced, gain = plan.Milliseconds(row.ForcedMS), plan.Figure(row.ForceGain)+"×"
	}
	return []string{digest.Count(c.Rows), digest.Radius(c.RadiusM), digest.Count(c.Within), text(c.Strategy), time, plan.Milliseconds(c.Free.Time.P95),
		plan.Figure(row.PerReturned), index, estimated, actual, off, forced, gain}
}

func (d *doc) caseCharts() {
	first := true
	for _, n := range d.charts {
		if n.Experiment != nil {
			continue
		}
		if first {
			d.p("## Charts")
			first = false
		}
		d.image(n)
	}
}

func (d *doc) plans() {
	plans, problems := digest.Plans(d.run)
	d.problems = append(d.problems, problems...)
	telling := digest.TellingCases(digest.Rows(d.run), tellingCases)
	if len(telling) == 0 {
		return
	}
	d.p("## Telling plans")
	d.p("As the optimizer chose them, from `EXPLAIN ANALYZE`. Times in a plan are slower than the search itself, since measuring each row takes time.")
	for _, t := range telling {
		d.p("### %s", text(digest.CaseLabel(t.Row.Case)))
		d.p("%s", text(t.Why))
		for i := range plans {
			if p := &plans[i]; p.Case == t.Row.Case && !p.Forced {
				d.plan(p)
			}
		}
	}
}

func (d *doc) plan(p *digest.Plan) {
	st := p.Statement
	d.p("<details><summary>%s: %s</summary>", htmlText(p.Label), htmlText(plan.Milliseconds(st.Time.Median)))
	d.fence("sql", st.SQL)
	if len(st.Args) > 0 {
		d.p("Arguments: %s", code(cut(strings.Join(st.Args, ", "), maxLine)))
	}
	if strings.TrimSpace(st.Tree) != "" {
		d.fence("text", st.Tree)
	} else {
		d.p("No plan as text was kept.")
	}
	var items []string
	for _, n := range p.Notes {
		mark := ""
		if n.Warning {
			mark = "⚠ "
		}
		items = append(items, fmt.Sprintf("%s%s – %s", mark, code(cut(n.Node.Operation, 80)), text(n.Text)))
	}
	if len(items) > 0 {
		d.list(items)
	}
	if t := st.Trace; t != nil && len(t.Alternatives) > 0 {
		d.p("What the optimizer considered (%s): %s", text(t.Chosen), text(t.Cause))
		rows := [][]string{{"table scan", "", plan.Figure(t.ScanRows), plan.Figure(t.ScanCost), "", "", ""}}
		for _, a := range t.Alternatives {
			cause := a.Cause
			if !a.Usable {
				cause = strings.TrimSpace("not usable " + cause)
			}
			rows = append(rows, []string{text(a.Index), digest.Count(a.Ranges), plan.Figure(a.Rows), plan.Figure(a.Cost), yes(a.IndexOnly), yes(a.Chosen), text(cause)})
		}
		d.grid([]string{"access", "ranges #", "rows #", "cost #", "covering", "cheapest so far", "cause"}, rows)
	}
	d.p("</details>")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (d *doc) experiments() {
	if len(d.run.Experiments) == 0 {
		return
	}
	d.p("## Experiments")
	for i := range d.run.Experiments {
		e := &d.run.Experiments[i]
		d.p("### %s", text(e.Title))
		d.p("%s", text(e.Question))
		if e.Quick {
			d.p("A quick run: fewer rows and repeats, for a first look only.")
		}
		var rows [][]string
		for _, f := range e.Findings {
			rows = append(rows, []string{text(f.Claim), text(f.Published), text(f.Ours), "**" + text(string(f.Verdict)) + "**", text(f.Why)})
		}
		if len(rows) > 0 {
			d.grid([]string{"claim", "published", "ours", "", "why"}, rows)
		}
		for _, n := range d.charts {
			if n.Experiment == e {
				d.image(n)
			}
		}
		for _, g := range e.Grids {
			if g.Title != "" {
				d.p("%s:", text(g.Title))
			}
			var cells [][]string
			for _, row := range g.Rows {
				line := make([]string, len(row))
				for k, c := range row {
					line[k] = text(c)
				}
				cells = append(cells, line)
			}
			columns := make([]string, len(g.Columns))
			for k, c := range g.Columns {
				name, right := strings.CutSuffix(c, " #")
				columns[k] = text(name)
				if right {
					columns[k] += " #"
				}
			}
			d.grid(columns, cells)
		}
		var notes []string
		for _, n := range e.Notes {
			notes = append(notes, text(n))
		}
		if len(notes) > 0 {
			d.list(notes)
		}
	}
}

func (d *doc) table() {
	t := d.run.Table
	if t == nil {
		return
	}
	d.p("## Your table %s", code(t.Name))
	line := fmt.Sprintf("%s rows", digest.Count(t.Rows))
	if t.Where != "" {
		line += " pass " + code(t.Where)
	}
	line += fmt.Sprintf("; %s were copied", digest.Count(t.Copied))
	if t.Sampled {
		line += ", a sample: the whole table is slower"
	}
	d.p("%s. Everything was measured on the copy; the table itself was only read.", line)
	if len(t.Problems) > 0 {
		d.p("### Rows that cannot be used as they are")
		var rows [][]string
		for _, p := range t.Problems {
			rows = append(rows, []string{text(p.Kind), cell(p.Column), digest.Count(p.Count), dash(text(p.Example)), text(p.Text)})
		}
		d.grid([]string{"problem", "column", "rows #", "example (id)", ""}, rows)
	}
	if len(t.Today) > 0 {
		d.p("### The search of today")
		d.p("The distance computed for every row, on a copy with the table's own indexes.")
		var rows [][]string
		for _, c := range t.Today {
			rows = append(rows, []string{digest.Radius(c.RadiusM), digest.Count(c.Within), timing(c.Time), plan.Milliseconds(c.Time.P95)})
		}
		d.grid([]string{"radius #", "in circle #", "time #", "p95 #"}, rows)
	}
	for i, a := range t.Advice {
		head := "Or"
		if i == 0 {
			head = "Adopt"
		}
		d.p("### %s %s", head, text(a.Strategy))
		gain := "What it gains was not measured"
		if a.Gain > 0 {
			gain = fmt.Sprintf("%s times as fast as today at %s: %s", plan.Figure(a.Gain), digest.Radius(a.RadiusM), timing(a.Time))
		}
		d.p("%s.", gain)
		if a.Needs != "" {
			d.p("%s", text(a.Needs))
		}
		if len(a.DDL) > 0 {
			d.fence("sql", strings.Join(a.DDL, "\n"))
		}
		if a.Query != "" {
			d.p("A search at %s:", digest.Radius(a.RadiusM))
			d.fence("sql", a.Query)
		}
	}
}

func timing(t result.Timing) string {
	return fmt.Sprintf("%s ± %.0f %%", plan.Milliseconds(t.Median), t.Spread*100)
}

func (d *doc) warnings() {
	all := slices.Concat(d.run.Warnings, d.problems)
	if len(all) == 0 {
		return
	}
	d.p("## Warnings")
	items := make([]string, len(all))
	for i, w := range all {
		items[i] = text(w)
	}
	d.list(items)
}

func texts(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = text(w)
	}
	return strings.Join(out, ", ")
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// printable replaces control characters other than newlines and tabs, and what is
// no UTF-8.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// text escapes a text, on one line, so that it shows as it is. Underscores within
// words make no emphasis in this Markdown, and stay readable.
func text(s string) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	var b strings.Builder
	var before rune
	for i, r := range s {
		switch r {
		case '\\', '`', '*', '[', ']', '<', '>', '#', '|', '~', '&', '$':
			b.WriteByte('\\')
		case '_':
			after, _ := utf8.DecodeRuneInString(s[i+1:])
			if !word(before) || !word(after) {
				b.WriteByte('\\')
			}
		case '-', '+', '=':
			if i == 0 {
				b.WriteByte('\\') // begins a list, or underlines a heading
			}
		case '.', ')':
			if i > 0 && strings.Trim(s[:i], "0123456789") == "" && (i+1 == len(s) || s[i+1] == ' ') {
				b.WriteByte('\\') // "1. " begins a list
			}
		case '@':
			b.WriteString("@<!-- -->") // mentions nobody
			before = r
			continue
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

func word(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// htmlText is text inside an HTML element of a Markdown file.
func htmlText(s string) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "|", "&#124;").Replace(s)
}

// code is a text as code within a line.
func code(s string) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if s == "" {
		return "–"
	}
	marks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return marks + s + marks
}

// cell is code in a table, where a bar has to be escaped even in code.
func cell(s string) string { return strings.ReplaceAll(code(s), "|", `\|`) }

// longestRun returns the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// cut shortens a line and says by how much.
func cut(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%s more characters)", string(r[:most]), digest.Count(len(r)-most))
}

func cutLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = cut(l, maxLine)
	}
	return strings.Join(lines, "\n")
}
