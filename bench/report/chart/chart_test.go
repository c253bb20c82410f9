package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

func svg(t testing.TB, c result.Chart, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wellFormed reads a drawing as XML and returns its ids and texts.
func wellFormed(t testing.TB, doc string) (ids, texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(doc))
	inText := false
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return ids, texts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			inText = tok.Name.Local == "text"
			for _, a := range tok.Attr {
				if a.Name.Local == "id" {
					ids = append(ids, a.Value)
				}
			}
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts = append(texts, string(tok))
			}
		}
	}
}

func fixture(t testing.TB) *result.Run {
	t.Helper()
	f, err := os.Open("../testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// made is a chart with every kind of line, and with values that cannot be drawn.
func made() result.Chart {
	return result.Chart{
		Title: "dense, 5 km: time against rows", X: result.Axis{Label: "rows", Log: true}, Y: result.Axis{Label: "time, ms", Log: true},
		Series: []result.Series{
			{Name: "fullscan", Points: []result.Point{{X: 5000, Y: 4, Lo: 3.8, Hi: 4.4}, {X: 50_000, Y: 41}, {X: 200_000, Y: 170, Lo: 150, Hi: 190}}},
			{Name: "bbox", Points: []result.Point{{X: 5000, Y: 1.1}, {X: 50_000, Y: 9}, {X: 200_000, Y: 33, Lo: -1, Hi: 40}}},
			{Name: "s2", Points: []result.Point{{X: 200_000, Y: 1.3}, {X: 5000, Y: 1.2}, {X: 50_000, Y: 1.25}}},
			{Name: "memory <fast> & \"odd\"", Points: []result.Point{{X: 5000, Y: 0.04}, {X: 50_000, Y: 0}, {X: math.Inf(1), Y: 0.05}, {X: 200_000, Y: 0.06}}},
			{Name: "none"},
		},
	}
}

// ranges is a chart without strategies and with a range around every point.
func ranges() result.Chart {
	line := func(name string, ys ...float64) result.Series {
		s := result.Series{Name: name}
		for i, y := range ys {
			s.Points = append(s.Points, result.Point{X: []float64{0.1, 1, 10, 50}[i], Y: y, Lo: y * 0.9, Hi: y * 1.15})
		}
		return s
	}
	return result.Chart{
		Title: "Time against the part of the table read",
		X:     result.Axis{Label: "part of the table, %", Log: true}, Y: result.Axis{Label: "time, ms"},
		Series: []result.Series{line("index, not covering", 0.4, 2.1, 19, 96), line("index, covering", 0.2, 0.6, 4.8, 23), line("table scan", 31, 31, 33, 38)},
	}
}

// TestGolden compares drawings byte by byte; -update writes them anew.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		name  string
		chart result.Chart
		o     Options
	}{
		{"standalone", made(), Options{}},
		{"inline", made(), Options{ID: "dense", Inline: true, Width: 480, Height: 300}},
		{"ranges", ranges(), Options{}},
		{"empty", result.Chart{Title: "nothing"}, Options{ID: "empty"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := svg(t, tt.chart, tt.o)
			if again := svg(t, tt.chart, tt.o); again != got {
				t.Fatal("drawn again, it is another")
			}
			name := filepath.Join("testdata", tt.name+".golden.svg")
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("%v: run the test with -update once", err)
			}
			if got != string(want) {
				t.Errorf("differs from %s: look at both; -update writes it anew", name)
			}
			wellFormed(t, got)
		})
	}
}

func TestTheme(t *testing.T) {
	fixedSize := regexp.MustCompile(`<svg[^>]* (width|height)=`)
	for _, inline := range []bool{false, true} {
		doc := svg(t, made(), Options{Inline: inline})
		if strings.Contains(doc, "#0000") {
			t.Error("a mark is left for a colour")
		}
		if fixedSize.MatchString(doc) || !strings.Contains(doc, `viewBox="0 0 720 400"`) {
			t.Error("it has a size of its own")
		}
		if !strings.Contains(doc, "fill:currentColor") || !strings.Contains(doc, "stroke:currentColor") {
			t.Error("texts or axes have a colour of their own")
		}
		if got := strings.Contains(doc, "prefers-color-scheme"); got == inline {
			t.Errorf("inline %v, own dark theme %v", inline, got)
		}
		if strings.Contains(doc, "<?xml") || strings.Contains(doc, "base64") {
			t.Error("an XML head or a font in it")
		}
		for _, style := range regexp.MustCompile(`style="[^"]*"`).FindAllString(doc, -1) {
			for _, hex := range regexp.MustCompile(`#[0-9a-fA-F]{3,}`).FindAllString(style, -1) {
				if !slices.ContainsFunc(colours[:], func(c struct{ light, dark string }) bool { return c.light == hex }) {
					t.Errorf("the fixed colour %s", hex)
				}
			}
		}
	}
	if Variables(false) == Variables(true) || strings.Count(Variables(true), "--chart-") != len(colours) {
		t.Errorf("variables %s and %s", Variables(false), Variables(true))
	}
}

// TestContrast checks that each colour can be seen on its background: 3 is WCAG's
// bound for graphics.
func TestContrast(t *testing.T) {
	luminance := func(hex string) float64 {
		n, err := strconv.ParseUint(hex[1:], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		linear := func(v uint64) float64 {
			f := float64(v&0xff) / 255
			if f <= 0.04045 {
				return f / 12.92
			}
			return math.Pow((f+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
	}
	contrast := func(a, b string) float64 {
		x, y := luminance(a), luminance(b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	for _, c := range colours {
		if got := contrast(c.light, "#ffffff"); got < 3 {
			t.Errorf("%s on white: %.2f", c.light, got)
		}
		if got := contrast(c.dark, "#0d1117"); got < 3 {
			t.Errorf("%s on dark: %.2f", c.dark, got)
		}
	}
}

// TestLooks checks that lines of one chart differ in colour or dash, and in marker
// and dash without colour, and that strategies keep their looks.
func TestLooks(t *testing.T) {
	var series []result.Series
	for i := range 24 {
		series = append(series, result.Series{Name: fmt.Sprint("line ", i)})
	}
	for _, s := range strategies {
		series = append(series, result.Series{Name: s})
	}
	colour, grey := map[string]int{}, map[string]int{}
	for i, l := range assign(series) {
		seen := fmt.Sprint(l.mark, l.dash)
		if k, ok := colour[seen]; ok {
			t.Errorf("%s and %s look the same", series[i].Name, series[k].Name)
		}
		colour[seen] = i
		printed := fmt.Sprintf("%T %v", l.shape, l.dash)
		if k, ok := grey[printed]; ok {
			t.Errorf("%s and %s look the same in black", series[i].Name, series[k].Name)
		}
		grey[printed] = i
	}
	alone := assign([]result.Series{{Name: "h3"}})[0]
	among := assign([]result.Series{{Name: "x"}, {Name: "s2"}, {Name: "h3"}, {Name: "h3"}})
	if fmt.Sprint(alone) != fmt.Sprint(among[2]) {
		t.Error("h3 looks otherwise among others")
	}
	if fmt.Sprint(among[3]) == fmt.Sprint(among[2]) {
		t.Error("two lines of one name look the same")
	}
}

func TestIDs(t *testing.T) {
	safe := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	seen := map[string]bool{}
	for _, o := range []Options{{}, {ID: "5 km \"x\" <y>"}, {ID: "a.b"}, {ID: "ü"}, {ID: "dense"}} {
		ids, _ := wellFormed(t, svg(t, made(), o))
		if len(ids) != 3 {
			t.Errorf("%q: ids %q", o.ID, ids)
		}
		for _, id := range ids {
			if !safe.MatchString(id) || seen[id] {
				t.Errorf("%q: id %q", o.ID, id)
			}
			seen[id] = true
		}
	}
	other := made()
	other.Series[0].Points[0].Y++
	ids, _ := wellFormed(t, svg(t, other, Options{}))
	if seen[ids[0]] {
		t.Error("another chart has the same id")
	}
}

func TestTexts(t *testing.T) {
	_, texts := wellFormed(t, svg(t, made(), Options{}))
	for _, want := range []string{"dense, 5 km: time against rows", "rows", "time, ms", "10k", "100k", "1", "100", "fullscan", `memory <fast> & "odd"`} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
	doc := svg(t, made(), Options{})
	for _, want := range []string{`role="img"`, "fullscan: from 4 at 5,000 to 170 at 200,000.", "Vertical: time, ms (logarithmic).", "s2: from 1.2 at 5,000 to 1.3 at 200,000."} {
		if !strings.Contains(doc, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name  string
		chart result.Chart
		want  []string
	}{
		{"made", made(), []string{"1 left out: no finite number", "1 left out: not above 0, on a logarithmic axis", "1 without the range around it: its ends cannot be drawn", "no points: none"}},
		{"no series", result.Chart{}, []string{"nothing to draw"}},
		{"only NaN", result.Chart{Series: []result.Series{{Name: "a", Points: []result.Point{{X: 1, Y: math.NaN()}}}}},
			[]string{"1 left out: no finite number", "no points: a", "nothing to draw"}},
		{"negative on a linear axis", result.Chart{Series: []result.Series{{Name: "a", Points: []result.Point{{X: -1, Y: -3, Lo: -4, Hi: -2}}}}}, nil},
		{"ends the wrong way", result.Chart{Series: []result.Series{{Name: "a", Points: []result.Point{{X: 1, Y: 3, Lo: 4, Hi: 2}}}}},
			[]string{"1 without the range around it: its ends cannot be drawn"}},
		{"good", ranges(), nil},
	} {
		got := Check(tt.chart)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		// The drawing says the same.
		_, texts := wellFormed(t, svg(t, tt.chart, Options{Width: 2000}))
		shown := strings.Join(texts, " ")
		for _, w := range tt.want {
			if !strings.Contains(shown, w) {
				t.Errorf("%s: the drawing does not say %q: %q", tt.name, w, shown)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		log    bool
		lo, hi float64
		want   string // the labels
	}{
		{true, 1, 100, "1 2 5 10 20 50 100"},
		{true, 900, 220_000, "1k 3k 10k 30k 100k"},
		{true, 4700, 213_000, "5k 10k 20k 50k 100k 200k"},
		{true, 0.2, 0.9, "0.2 0.5"},
		{true, 0.3, 0.9, "0.3 0.4 0.5 0.6 0.7 0.8 0.9"},
		{true, 0.001, 10_000, "0.001 0.1 10 1k"},
		{true, 1.1, 1.9, "1.2 1.4 1.6 1.8"},
		{true, 1e-6, 1e9, ""},
		{false, 0, 6, "0 1 2 3 4 5 6"},
		{false, 0, 0.5, "0 0.1 0.2 0.3 0.4 0.5"},
		{false, -2, 2, "-2 -1 0 1 2"},
		{false, 0, 25_000, "0 5k 10k 15k 20k 25k"},
	} {
		var labels []string
		for _, tick := range (ticker{tt.log}).Ticks(tt.lo, tt.hi) {
			if tick.Value < tt.lo || tick.Value > tt.hi {
				t.Errorf("%v..%v: a tick at %v", tt.lo, tt.hi, tick.Value)
			}
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); tt.want != "" && got != tt.want {
			t.Errorf("%v..%v (log %v): %s, want %s", tt.lo, tt.hi, tt.log, got, tt.want)
		}
		if len(labels) < 2 || len(labels) > mostTicks+1 {
			t.Errorf("%v..%v (log %v): %d labels", tt.lo, tt.hi, tt.log, len(labels))
		}
	}
}

func TestOfCases(t *testing.T) {
	r := fixture(t)
	charts := OfCases(r)
	want := 0
	for _, s := range r.Sets {
		if len(s.Sizes) > 1 {
			want += len(s.Radii)
		}
		if len(s.Radii) > 1 {
			want++
		}
	}
	if len(charts) != want || want == 0 {
		t.Fatalf("%d charts, want %d", len(charts), want)
	}
	// Every case is in the chart of its radius, with its time.
	for _, c := range r.Cases {
		found := false
		for _, ch := range All(r) {
			if ch.Set != c.Set || ch.Chart.X.Label != "rows" || !strings.HasSuffix(ch.Name, "-"+result.Metres(c.RadiusM)) {
				continue
			}
			for _, s := range ch.Chart.Series {
				found = found || s.Name == c.Strategy && slices.ContainsFunc(s.Points, func(p result.Point) bool {
					return p.X == float64(c.Rows) && p.Y == c.Free.Time.Median && p.Lo <= p.Y && p.Y <= p.Hi
				})
			}
		}
		if !found {
			t.Errorf("%s is in no chart", c.Key())
		}
	}
	for _, c := range charts {
		if warnings := Check(c); len(warnings) > 0 {
			t.Errorf("%s: %q", c.Title, warnings)
		}
	}
	if got := OfCases(&result.Run{Cases: []result.Case{{Set: "a", Rows: 1, RadiusM: 1, Strategy: "s2"}}}); len(got) != 0 {
		t.Errorf("of one case: %v", got)
	}
	if got := OfCases(&result.Run{}); len(got) != 0 {
		t.Errorf("of no case: %v", got)
	}
}

func TestNamesAreUnique(t *testing.T) {
	e := result.Experiment{Name: "A b", Charts: []result.Chart{{Title: "x"}, {Title: "y"}}}
	r := &result.Run{
		Cases: []result.Case{
			{Set: "a!", Rows: 1, RadiusM: 1}, {Set: "a!", Rows: 2, RadiusM: 1}, {Set: "a?", Rows: 1, RadiusM: 1}, {Set: "a?", Rows: 2, RadiusM: 1},
		},
		Experiments: []result.Experiment{e, e},
	}
	var names []string
	for _, n := range All(r) {
		names = append(names, n.Name)
		if (n.Experiment == nil) == (n.Set == "") {
			t.Errorf("%s: set %q, experiment %v", n.Name, n.Set, n.Experiment)
		}
	}
	want := []string{"a-rows-1m", "a-rows-1m-2", "experiment-a-b-1", "experiment-a-b-2", "experiment-a-b-1-2", "experiment-a-b-2-2"}
	if !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

func TestUnlimitedRadius(t *testing.T) {
	r := &result.Run{}
	for _, radius := range []float64{1000, 5000, math.Inf(1)} {
		r.Cases = append(r.Cases, result.Case{Set: "a", Rows: 1, RadiusM: radius, Strategy: "s2", Free: result.Side{Time: result.Timing{Median: 1}}})
	}
	charts := OfCases(r)
	if len(charts) != 1 {
		t.Fatalf("%d charts", len(charts))
	}
	if got := Check(charts[0]); !slices.Equal(got, []string{"1 left out: no finite number"}) {
		t.Errorf("warnings %q", got)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestWriteError(t *testing.T) {
	if err := SVG(fullDisk{}, made(), Options{}); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
}

// FuzzSVG draws anything that a chart can hold: it must not panic, and be
// well-formed.
//
//	go test ./bench/report/chart -fuzz FuzzSVG -fuzzminimizetime 1x
func FuzzSVG(f *testing.F) {
	for _, v := range [][3]float64{{1, 2, 3}, {0, 0, 0}, {math.NaN(), 1, 1}, {math.Inf(1), -1, 1}, {1e-300, 1e300, 5}, {1e99, -1e99, 1e-99}, {5, 5, 5}, {1e100, 1e-100, 1}} {
		f.Add("title", "line", v[0], v[1], v[2], true, true)
		f.Add("\x00 \xff <b> \"", "", v[0], v[1], v[2], false, true)
		f.Add("", strings.Repeat("long ", 50), v[0], v[1], v[2], true, false)
		f.Add("stroke:#000010\nx\ty", "#000010", v[0], v[1], v[2], false, false)
	}
	f.Fuzz(func(t *testing.T, title, name string, a, b, c float64, logX, logY bool) {
		ch := result.Chart{
			Title: title, X: result.Axis{Label: name, Log: logX}, Y: result.Axis{Label: title, Log: logY},
			Series: []result.Series{
				{Name: name, Points: []result.Point{{X: a, Y: b, Lo: c, Hi: a}, {X: b, Y: c}, {X: c, Y: a}}},
				{Name: title, Points: []result.Point{{X: b, Y: a, Lo: b, Hi: c}}},
			},
		}
		for _, inline := range []bool{false, true} {
			ids, _ := wellFormed(t, svg(t, ch, Options{ID: title, Inline: inline, Width: a, Height: b}))
			if len(ids) != 3 {
				t.Errorf("ids %q", ids)
			}
		}
	})
}

func ExampleSVG() {
	c := result.Chart{
		Title: "time against rows", X: result.Axis{Label: "rows", Log: true}, Y: result.Axis{Label: "time, ms", Log: true},
		Series: []result.Series{{Name: "s2", Points: []result.Point{{X: 5000, Y: 1.2}, {X: 200_000, Y: 1.3}}}},
	}
	var b strings.Builder
	if err := SVG(&b, c, Options{ID: "rows"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Split(b.String(), "\n")[2])
	// Output:
	// <desc id="rows-desc">Vertical: time, ms (logarithmic). Horizontal: rows (logarithmic). s2: from 1.2 at 5,000 to 1.3 at 200,000.</desc>
}
