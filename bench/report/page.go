package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/chart"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
)

//go:embed assets/report.html
var pageHTML string

//go:embed assets/report.css
var pageCSS string

//go:embed assets/report.js
var pageJS string

const (
	maxStatic = 24   // plans as text, for readers without the script
	maxTree   = 6000 // bytes of such a plan
)

// HTML writes the page.
func HTML(w io.Writer, r *result.Run) error {
	if r == nil {
		return errors.New("write report.html: there is no run")
	}
	t, err := template.New("report").Funcs(funcs).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	p, err := newPage(r)
	if err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	// A page that fails half way must not reach the writer.
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	return nil
}

// page is what the template shows.
type page struct {
	Run     *result.Run
	Title   string
	Made    string
	CSP     template.HTMLAttr
	CSS     template.CSS
	JS      template.JS
	Plans   template.JS
	Verdict verdict.Verdict

	// Headline is the first sentence of the verdict's, and Lead the rest of it.
	Headline, Lead string

	Points       []points
	Runs         string
	PlanWarnings []string
	Variables    []variable
	Filters      []selection
	Groups       []group
	Charts       []drawing
	HasPlans     bool
	FirstPlan    string
	DiffA, DiffB string
	Static       []staticPlan
	Experiments  []experiment
}

// points are the points of one kind.
type points struct {
	Kind   verdict.Kind
	Word   string
	Points []point
}

type point struct {
	Text     string
	Evidence []link
}

// link is a link inside the page.
type link struct {
	URL  template.URL
	Name string
}

type variable struct{ Name, Value string }

// selection is a filter of the table of cases.
type selection struct {
	Name, Key string
	Options   []option
}

type option struct{ Value, Label string }

// group is the cases of one set, size and radius, which can be compared.
type group struct {
	Set     string
	Rows    int
	RadiusM float64
	Within  int
	Lines   []line
}

type line struct {
	digest.Row
	Key   string
	Best  bool
	Equal bool   // to the best, within the noise
	Part  string // of the longest median in the group, in per cent
	Plans []link
}

type drawing struct{ SVG template.HTML }

type staticPlan struct{ Label, Tree string }

type experiment struct {
	result.Experiment
	Drawn []drawing
}

func newPage(r *result.Run) (*page, error) {
	v := verdict.Judge(r)
	p := &page{
		Run: r, Made: r.Made.UTC().Format("2 January 2006 15:04 UTC"),
		Title: "Nearjob report, " + r.Made.UTC().Format("2 January 2006"),
		CSS:   styles(), JS: template.JS(pageJS),
		Verdict: v, Points: byKind(v), Runs: runs(r), Variables: variables(r),
	}
	p.Headline, p.Lead = firstSentence(v.Headline)
	plans, warnings := digest.Plans(r)
	p.PlanWarnings = warnings
	packed := newPack(plans)
	data, err := json.Marshal(packed)
	if err != nil {
		return nil, fmt.Errorf("put the plans into the page: %w", err)
	}
	// json.Marshal writes <, > and & as escapes, so that no text of a plan can end the
	// script element.
	p.Plans = template.JS(data)
	p.HasPlans = len(plans) > 0
	p.Filters = selections(r)
	p.Groups = groups(r, plans)
	p.first(r, plans, packed)

	if p.Charts, err = draw("chart", chart.OfCases(r)); err != nil {
		return nil, err
	}
	for i, e := range r.Experiments {
		drawn, err := draw(fmt.Sprintf("experiment-%d", i+1), e.Charts)
		if err != nil {
			return nil, err
		}
		p.Experiments = append(p.Experiments, experiment{e, drawn})
	}
	p.CSP = policy(p.CSS)
	return p, nil
}

// policy allows no request of any kind, and no script or style but those of the
// page, by their hashes. Style attributes are not allowed either: the script
// sets properties one by one, which a policy does not stop, and charts have
// attributes instead (see presentation).
func policy(css template.CSS) template.HTMLAttr {
	csp := "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(string(css)) + "; base-uri 'none'; form-action 'none'"
	return template.HTMLAttr(`content="` + csp + `"`)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// styles are the page's rules, with the colours of the charts for both themes,
// whether the reader's system or the button chooses.
func styles() template.CSS {
	light, dark := chart.Variables(false), chart.Variables(true)
	return template.CSS(pageCSS + fmt.Sprintf(`
:root { %s }
@media screen and (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { %s } }
@media screen { :root[data-theme="dark"] { %[2]s } }
`, light, dark))
}

// draw draws charts for the page. What id begins with must be unique in it.
func draw(id string, charts []result.Chart) ([]drawing, error) {
	var list []drawing
	for i, c := range charts {
		var b bytes.Buffer
		o := chart.Options{Inline: true, ID: fmt.Sprintf("%s-%d", id, i+1), Width: 600, Height: 380}
		if err := chart.SVG(&b, c, o); err != nil {
			return nil, err
		}
		// chart.SVG escapes what comes from the data.
		list = append(list, drawing{template.HTML(presentation(b.String()))})
	}
	return list, nil
}

var stylePattern = regexp.MustCompile(`\s+style="([^"]*)"`)

// presentation turns style attributes of SVG, which the page's policy does not
// allow, into the presentation attributes that SVG has for each property.
func presentation(svg string) string {
	return stylePattern.ReplaceAllStringFunc(svg, func(style string) string {
		var b strings.Builder
		for declaration := range strings.SplitSeq(stylePattern.FindStringSubmatch(style)[1], ";") {
			if name, value, ok := strings.Cut(declaration, ":"); ok {
				fmt.Fprintf(&b, ` %s="%s"`, strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
		return b.String()
	})
}

var words = map[verdict.Kind]string{
	verdict.Use: "Use", verdict.Holds: "Holds", verdict.Gain: "Gains", verdict.Change: "Would change it", verdict.Caution: "Caution",
}

// byKind puts points that follow each other and are of one kind together.
func byKind(v verdict.Verdict) []points {
	var list []points
	for _, p := range v.Points {
		if len(list) == 0 || list[len(list)-1].Kind != p.Kind {
			word, ok := words[p.Kind]
			if !ok {
				word = string(p.Kind)
			}
			list = append(list, points{Kind: p.Kind, Word: word})
		}
		out := point{Text: p.Text}
		for _, e := range p.Evidence {
			out.Evidence = append(out.Evidence, evidence(e))
		}
		last := &list[len(list)-1]
		last.Points = append(last.Points, out)
	}
	return list
}

// firstSentence parts a text after its first sentence. A full stop in a figure or
// a name has no space after it.
func firstSentence(s string) (first, rest string) {
	first, rest, found := strings.Cut(s, ". ")
	if found {
		first += "."
	}
	return first, rest
}

// evidence links to what a point rests on.
func evidence(e string) link {
	if name, ok := strings.CutPrefix(e, "experiment/"); ok {
		return link{fragment("experiment", name), "experiment " + name}
	}
	if e == "table" {
		return link{"#table", "your table"}
	}
	return link{fragment("case", e), e}
}

// fragment names a place of the page. The parts are data, and escaped.
func fragment(kind string, ids ...string) template.URL {
	s := "#" + kind
	for _, id := range ids {
		s += ":" + url.PathEscape(id)
	}
	return template.URL(s)
}

// runs says how often each search ran.
func runs(r *result.Run) string {
	if len(r.Cases) == 0 {
		return ""
	}
	least, most := r.Cases[0].Free.Time.Runs, r.Cases[0].Free.Time.Runs
	for _, c := range r.Cases {
		least, most = min(least, c.Free.Time.Runs), max(most, c.Free.Time.Runs)
	}
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func variables(r *result.Run) []variable {
	var list []variable
	for _, name := range slices.Sorted(maps.Keys(r.Settings.Variables)) {
		list = append(list, variable{name, r.Settings.Variables[name]})
	}
	return list
}

// selections are the filters, with the values in the order of the run.
func selections(r *result.Run) []selection {
	list := []selection{{Name: "Data set", Key: "set"}, {Name: "Rows", Key: "rows"}, {Name: "Radius", Key: "radius"}, {Name: "Strategy", Key: "strategy"}}
	for _, c := range r.Cases {
		for i, o := range []option{
			{c.Set, c.Set},
			{strconv.Itoa(c.Rows), digest.Count(c.Rows)},
			{result.Metres(c.RadiusM), digest.Radius(c.RadiusM)},
			{c.Strategy, c.Strategy},
		} {
			if !slices.Contains(list[i].Options, o) {
				list[i].Options = append(list[i].Options, o)
			}
		}
	}
	return list
}

// groups are the lines of the table, in the order of the run.
func groups(r *result.Run, plans []digest.Plan) []group {
	links := make(map[*result.Case][]link)
	seen := make(map[*result.Case]map[bool]int)
	for _, p := range plans {
		if seen[p.Case] == nil {
			seen[p.Case] = make(map[bool]int)
		}
		if seen[p.Case][p.Forced]++; seen[p.Case][p.Forced] > 1 {
			continue // the page of the first statement leads to the others
		}
		name := "free"
		if p.Forced {
			name = "forced"
		}
		links[p.Case] = append(links[p.Case], link{fragment("plan", p.ID), name})
	}
	type of struct {
		set    string
		rows   int
		radius float64
	}
	var list []group
	at := make(map[of]int)
	for _, row := range digest.Rows(r) {
		c := row.Case
		key := of{c.Set, c.Rows, c.RadiusM}
		if _, ok := at[key]; !ok {
			at[key] = len(list)
			list = append(list, group{Set: c.Set, Rows: c.Rows, RadiusM: c.RadiusM, Within: c.Within})
		}
		g := &list[at[key]]
		g.Lines = append(g.Lines, line{Row: row, Key: c.Key(), Plans: links[c]})
	}
	for i := range list {
		rank(list[i].Lines)
	}
	return list
}

// rank marks the best of a group, and those that cannot be told from it.
func rank(lines []line) {
	best, longest := -1, 0.0
	for i, l := range lines {
		t := l.Case.Free.Time
		if t.Runs == 0 {
			continue
		}
		longest = max(longest, t.Median)
		if best < 0 || t.Median < lines[best].Case.Free.Time.Median {
			best = i
		}
	}
	if best < 0 || len(lines) < 2 {
		return
	}
	for i := range lines {
		l := &lines[i]
		l.Part = "0"
		if longest > 0 {
			l.Part = strconv.FormatFloat(100*l.Case.Free.Time.Median/longest, 'f', 1, 64)
		}
		l.Best = i == best
		l.Equal = i != best && l.Case.Free.Time.Runs > 0 && digest.Compare(l.Case.Free.Time, lines[best].Case.Free.Time) == 0
	}
}

// first chooses what the views of plans show at first, from the most telling
// cases, and what readers without the script get.
func (p *page) first(r *result.Run, plans []digest.Plan, packed *pack) {
	if len(plans) == 0 {
		return
	}
	of := make(map[*result.Case][]int)
	for i := range plans {
		of[plans[i].Case] = append(of[plans[i].Case], i)
	}
	telling := digest.TellingCases(digest.Rows(r), maxStatic)
	p.FirstPlan, p.DiffA, p.DiffB = plans[0].ID, plans[0].ID, plans[len(plans)-1].ID
	if len(telling) > 0 {
		p.FirstPlan = plans[of[telling[0].Row.Case][0]].ID
	}
	// Side by side, best are two plans of one statement with different shapes: what the
	// optimizer chose, and what it would have done with the index.
	for _, t := range slices.Backward(telling) {
		for _, i := range of[t.Row.Case] {
			for _, j := range of[t.Row.Case] {
				a, b := packed.Plans[i], packed.Plans[j]
				if !a.Forced && b.Forced && a.Statement == b.Statement && a.Shape != b.Shape {
					p.DiffA, p.DiffB = a.ID, b.ID
				}
			}
		}
	}
	for _, t := range telling {
		for _, i := range of[t.Row.Case] {
			if pl := plans[i]; !pl.Forced && len(p.Static) < maxStatic {
				p.Static = append(p.Static, staticPlan{pl.Label + ": " + t.Why, shorten(pl.Statement.Tree, maxTree)})
			}
		}
	}
}

type column struct {
	Name string
	Num  bool
}

var funcs = template.FuncMap{
	"whole":  digest.Count,
	"figure": plan.Figure,
	"ms":     plan.Milliseconds,
	"radius": digest.Radius,
	"metres": result.Metres,
	"percent": func(f float64) string {
		if f < 0.0995 {
			return strconv.FormatFloat(100*f, 'f', 1, 64) + " %"
		}
		return plan.Figure(math.Round(100*f)) + " %"
	},
	"estimate": func(l line, rows float64) string {
		if l.Compared == 0 {
			return "–"
		}
		return plan.Figure(rows)
	},
	"radii": func(list []float64) string {
		var words []string
		for _, m := range list {
			words = append(words, digest.Radius(m))
		}
		return strings.Join(words, ", ")
	},
	"degrees": func(c result.LatLng) string {
		return fmt.Sprintf("%.4f, %.4f", c.Lat, c.Lng)
	},
	"forced": func(l line) string {
		switch {
		case l.Case.Forced == nil || l.ForceGain <= 0:
			return ""
		case digest.Compare(l.Case.Free.Time, l.Case.Forced.Time) == 0:
			return "equal"
		case l.ForceGain >= 1:
			return plan.Figure(l.ForceGain) + "× faster"
		}
		return plan.Figure(1/l.ForceGain) + "× slower"
	},
	"columns": func(g result.Grid) []column {
		var list []column
		for _, c := range g.Columns {
			name, num := strings.CutSuffix(c, " #")
			list = append(list, column{name, num})
		}
		return list
	},
	"number": func(columns []column, i int) bool { return i < len(columns) && columns[i].Num },
	"outcome": func(o result.Outcome) string {
		switch o {
		case result.Confirmed, result.Refuted, result.Unclear:
			return string(o)
		case result.Differs:
			return "differs-outcome"
		}
		return "unclear"
	},
	"ddl": func(statements []string) string {
		var b strings.Builder
		for _, s := range statements {
			b.WriteString(strings.TrimRight(strings.TrimSpace(s), ";"))
			b.WriteString(";\n")
		}
		return b.String()
	},
	"gain": func(a result.Advice) string {
		s := fmt.Sprintf("%s at %s", plan.Milliseconds(a.Time.Median), digest.Radius(a.RadiusM))
		switch {
		case a.Gain >= 1.05:
			return s + ": " + plan.Figure(a.Gain) + " times faster than today."
		case a.Gain > 0.95:
			return s + ": as fast as today."
		case a.Gain > 0:
			return s + ": " + plan.Figure(1/a.Gain) + " times slower than today."
		}
		return s + "."
	},
}
