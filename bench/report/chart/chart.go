package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"html"
	"image/color"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// Options say how a chart is drawn. The zero value is a file of its own.
type Options struct {
	// ID begins the ids in the drawing; what is not fit for an id is replaced.
	// Drawings in one page need different ones. "" makes one of the content.
	ID string
	// Inline is for a drawing inside an HTML page: without colours for a dark theme
	// of its own, but with the page's variables.
	Inline bool
	// Width and Height are the proportions, and in relation to the texts, which have
	// a size of about 12, the room. 0 is 720 and 400; they are brought between
	// 320 and 4000, and 200 and 4000.
	Width, Height float64
}

// colours is the palette: Okabe and Ito's, with the light tones darkened for light
// pages and the dark tones lightened for dark ones, so that each has a contrast of at
// least 3 with its background. A line has the index of its look in it.
var colours = [...]struct{ light, dark string }{
	{"#5f6670", "#b6bcc6"}, // grey
	{"#0072b2", "#56b4e9"}, // blue
	{"#c24e00", "#ff8f4d"}, // vermilion
	{"#00805c", "#2fc89b"}, // bluish green
	{"#a8497f", "#e59ac6"}, // reddish purple
	{"#8a6a00", "#e6b422"}, // ochre
	{"#4b4bc4", "#a5a5ff"}, // indigo
	{"#7a3b1e", "#d9a58a"}, // brown
}

// strategies have the looks of their place here, in every chart.
var strategies = [...]string{"fullscan", "bbox", "spatial", "geohash", "h3", "s2"}

// Variables returns the declarations of the CSS variables that inline drawings
// use, for a rule of the page: once for light and once for dark.
func Variables(dark bool) string {
	var b strings.Builder
	for i, c := range colours {
		fmt.Fprintf(&b, "%s:%s;", variable(i), map[bool]string{false: c.light, true: c.dark}[dark])
	}
	return b.String()
}

func variable(i int) string { return fmt.Sprintf("--chart-%d", i+1) }

// look is how a line is drawn.
type look struct {
	mark  color.Color // stands for the colour until the end
	shape draw.GlyphDrawer
	dash  []vg.Length
}

// lookOf returns the n-th look. From the ninth on, colours and markers come again, with
// another dash.
func lookOf(n int) look {
	shapes := [...]draw.GlyphDrawer{
		draw.CrossGlyph{}, draw.CircleGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{},
		draw.RingGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.PlusGlyph{},
	}
	dashes := [...][]vg.Length{
		{2, 3}, {}, {8, 3}, {8, 3, 2, 3}, {4, 2}, {12, 4}, {8, 2, 2, 2, 2, 2}, {1, 2},
	}
	round := n / len(colours)
	return look{
		mark: seriesMark(n % len(colours)), shape: shapes[n%len(shapes)],
		dash: dashes[(n+3*round)%len(dashes)],
	}
}

// Colours stand in gonum's SVG as six hex digits. These are no colours of a drawing but
// marks for where to put one. Black is left out by gonum and so no mark.
var markPattern = regexp.MustCompile(`#0000([0-9A-F]{2})`)

const (
	inkMark  = 1    // text and axes
	gridMark = 2    // lines behind
	lineMark = 0x10 // series, and those after it
)

func mark(n int) color.Color       { return color.RGBA{B: uint8(n), A: 255} }
func seriesMark(n int) color.Color { return mark(lineMark + n) }

// paint replaces a mark by what is seen.
func paint(hex string) string {
	var n int
	if _, err := fmt.Sscanf(hex, "#0000%02X", &n); err != nil {
		return hex
	}
	switch {
	case n == inkMark:
		return "currentColor"
	case n == gridMark:
		return "currentColor;stroke-opacity:.16"
	case n >= lineMark && n < lineMark+len(colours):
		return fmt.Sprintf("var(%s,%s)", variable(n-lineMark), colours[n-lineMark].light)
	}
	return hex
}

// assign gives each line its look: a strategy its own, the others what is left.
func assign(series []result.Series) []look {
	looks := make([]look, len(series))
	taken := map[int]bool{}
	given := make([]bool, len(series))
	for i, s := range series {
		if n := slices.Index(strategies[:], s.Name); n >= 0 && !taken[n] {
			looks[i], taken[n], given[i] = lookOf(n), true, true
		}
	}
	next := 1 // grey is for the full scan: first where all others are taken
	for i := range series {
		if given[i] {
			continue
		}
		for taken[next] {
			next++
		}
		taken[next] = true
		looks[i] = lookOf(next)
	}
	return looks
}

const (
	typeface  = "Liberation"
	fontSize  = 12
	titleSize = 14
	thumb     = 34 // width of a line's sample in the legend
	gap       = 8
)

// SVG draws a chart. What cannot be drawn is left out, and the drawing says so at
// its foot, as Check does; a chart without a point is an empty frame that says so.
// The error is the writer's.
func SVG(w io.Writer, c result.Chart, o Options) error {
	width, height := bounded(o.Width, 720, 320), bounded(o.Height, 400, 200)
	shown, warnings := clean(c)
	canvas := vgsvg.New(vg.Length(width), vg.Length(height))
	drawAll(draw.New(canvas), shown, warnings)
	var raw bytes.Buffer
	if _, err := canvas.WriteTo(&raw); err != nil {
		return fmt.Errorf("draw the chart %q: %w", c.Title, err)
	}
	body, err := inner(raw.String())
	if err != nil {
		return fmt.Errorf("draw the chart %q: %w", c.Title, err)
	}
	id := o.ID
	if id == "" {
		id = "chart-" + fingerprint(c)
	}
	id = digest.Slug(id)
	if id[0] >= '0' && id[0] <= '9' {
		id = "c" + id // CSS takes no digit first
	}
	id = strings.ReplaceAll(id, ".", "-") // nor a dot
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" id="%s" viewBox="0 0 %g %g" role="img" aria-labelledby="%[1]s-title %[1]s-desc">`+"\n", id, width, height)
	fmt.Fprintf(&b, "<title id=\"%s-title\">%s</title>\n<desc id=\"%[1]s-desc\">%[3]s</desc>\n", id, escape(c.Title), escape(describe(shown, warnings)))
	if !o.Inline {
		fmt.Fprintf(&b, "<style>#%s{color:#1f2328;%s}@media(prefers-color-scheme:dark){#%[1]s{color:#e6edf3;%[3]s}}</style>\n", id, Variables(false), Variables(true))
	}
	b.WriteString(body)
	b.WriteString("</svg>\n")
	_, err = io.WriteString(w, b.String())
	return err
}

func bounded(v, usual, least float64) float64 {
	if !(v > 0) {
		return usual
	}
	return min(max(math.Round(v), least), 4000)
}

// fingerprint is the same for equal charts.
func fingerprint(c result.Chart) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %v", c.Title, c) // a hash's Write returns no error
	return fmt.Sprintf("%016x", h.Sum64())
}

// escape makes a text safe in XML, which has no form at all for some characters.
func escape(s string) string { return html.EscapeString(printable(s)) }

// printable replaces what XML cannot hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// longest is how much of a text is measured and shown: more has no room, and fitting
// it takes the square of its length. Titles and descriptions have all of it.
const longest = 400

// line is printable on one line.
func line(s string) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}

var (
	stylePattern = regexp.MustCompile(`style="[^"]*"`) // texts have their quotes escaped
	fontPattern  = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;?`)
)

// inner takes the drawing out of gonum's document and makes its colours and fonts
// those of the reader.
func inner(doc string) (string, error) {
	_, rest, ok := strings.Cut(doc, "<svg ")
	if !ok {
		return "", errors.New("gonum's SVG has no svg element")
	}
	_, rest, ok = strings.Cut(rest, ">")
	if !ok {
		return "", errors.New("gonum's SVG ends in its first element")
	}
	rest, _, ok = strings.Cut(rest, "</svg>")
	if !ok {
		return "", errors.New("gonum's SVG has no end")
	}
	body := stylePattern.ReplaceAllStringFunc(rest, func(style string) string {
		bold := strings.Contains(style, "font-weight:bold")
		style = fontPattern.ReplaceAllString(style, "")
		if bold {
			style = strings.TrimSuffix(style, `"`) + `;font-weight:bold"`
		}
		return markPattern.ReplaceAllStringFunc(style, paint)
	})
	return `<g font-family="Liberation Sans, Arial, Helvetica, sans-serif">` + strings.TrimSpace(body) + "</g>\n", nil
}

func style(size font.Length, bold bool) text.Style {
	f := font.Font{Typeface: typeface, Variant: "Sans", Size: size}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	return text.Style{Color: mark(inkMark), Font: f, Handler: plot.DefaultTextHandler}
}

// drawAll draws the title, the plot, the legend and the warnings.
func drawAll(c draw.Canvas, ch result.Chart, warnings []string) {
	c = draw.Crop(c, gap, -gap, gap, -gap)
	// Title and warnings on as many lines as they take.
	title := style(titleSize, true)
	title.YAlign = text.YTop
	y := c.Max.Y
	for _, l := range wrap(title, line(ch.Title), c.Size().X, 2) {
		c.FillText(title, vg.Point{X: c.Min.X, Y: y}, l)
		y -= titleSize * 1.3
	}
	top := c.Max.Y - y + gap/2
	note := style(fontSize-1, false)
	bottom := vg.Length(0)
	if len(warnings) > 0 {
		lines := wrap(note, line(strings.Join(warnings, "; ")+"."), c.Size().X, 3)
		for i, l := range slices.Backward(lines) {
			c.FillText(note, vg.Point{X: c.Min.X, Y: c.Min.Y + vg.Length(len(lines)-1-i)*fontSize*1.2 + 3}, l)
		}
		bottom = vg.Length(len(lines))*fontSize*1.2 + gap
	}

	looks := assign(ch.Series)
	order := byHeight(ch.Series)
	legend := style(fontSize, false)
	wide := vg.Length(0)
	for _, s := range ch.Series {
		wide = max(wide, legend.Width(line(s.Name)))
	}
	wide = min(wide, c.Size().X*0.3)
	right := vg.Length(0)
	if len(ch.Series) > 0 {
		right = thumb + wide + 3*gap
	}

	p := newPlot(ch)
	for i, s := range ch.Series {
		p.Add(drawn{s, looks[i]})
	}
	area := draw.Crop(c, 0, -right, bottom, -top)
	p.X.Label.Text = fit(p.X.Label.TextStyle, line(ch.X.Label), area.Size().X*0.8)
	p.Y.Label.Text = fit(p.Y.Label.TextStyle, line(ch.Y.Label), area.Size().Y*0.8)
	p.Draw(area)

	// The legend stands beside the plot, so it covers no line, and in the order in which
	// the lines end there. Where it is too long, the last entry says how many more.
	x := c.Max.X - right + 2*gap
	y = c.Max.Y - top - fontSize
	room := max(1, int((y-c.Min.Y-bottom)/(fontSize*1.5)))
	for k, i := range order {
		if k == room-1 && len(order) > room {
			c.FillText(legend, vg.Point{X: x, Y: y}, fit(legend, fmt.Sprintf("and %d more", len(order)-k), thumb+wide+gap))
			break
		}
		at := vg.Point{X: x, Y: y + fontSize*0.33}
		stroke(c, looks[i], []vg.Point{at, {X: at.X + thumb, Y: at.Y}})
		c.DrawGlyph(glyph(looks[i]), vg.Point{X: at.X + thumb/2, Y: at.Y})
		c.FillText(legend, vg.Point{X: x + thumb + gap/2, Y: y}, fit(legend, line(ch.Series[i].Name), wide+1))
		y -= fontSize * 1.5
	}
}

// byHeight returns the lines' indexes, that with the highest last point first.
func byHeight(series []result.Series) []int {
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	end := func(i int) float64 {
		if n := len(series[i].Points); n > 0 {
			return series[i].Points[n-1].Y
		}
		return math.Inf(-1)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(end(b), end(a)) })
	return order
}

// newPlot returns a plot with its axes, for a chart that is clean.
func newPlot(ch result.Chart) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	var xs, ys []float64
	for _, s := range ch.Series {
		for _, pt := range s.Points {
			xs = append(xs, pt.X)
			ys = append(ys, pt.Y)
			if pt.Lo != 0 || pt.Hi != 0 {
				ys = append(ys, pt.Lo, pt.Hi)
			}
		}
	}
	for _, a := range []struct {
		axis   *plot.Axis
		of     result.Axis
		values []float64
	}{{&p.X, ch.X, xs}, {&p.Y, ch.Y, ys}} {
		a.axis.Min, a.axis.Max = limits(a.of, a.values)
		a.axis.Tick.Marker = ticker{a.of.Log}
		if a.of.Log {
			a.axis.Scale = plot.LogScale{}
		}
		a.axis.Color = mark(inkMark)
		a.axis.LineStyle.Width = 0.75
		a.axis.Tick.LineStyle.Color = mark(inkMark)
		a.axis.Tick.LineStyle.Width = 0.75
		a.axis.Padding = 0
		label := style(fontSize, false)
		label.XAlign, label.YAlign, label.Rotation = a.axis.Label.TextStyle.XAlign, a.axis.Label.TextStyle.YAlign, a.axis.Label.TextStyle.Rotation
		a.axis.Label.TextStyle = label
		tick := style(fontSize-1, false)
		tick.XAlign, tick.YAlign = a.axis.Tick.Label.XAlign, a.axis.Tick.Label.YAlign
		a.axis.Tick.Label = tick
	}
	p.Add(grid{})
	return p
}

// grid draws lines behind the labelled ticks.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	s := draw.LineStyle{Color: mark(gridMark), Width: 0.75}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(s, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(s, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}

// drawn is a line with its markers and ranges.
type drawn struct {
	series result.Series
	look   look
}

var (
	_ plot.Plotter = drawn{}
	_ plot.Plotter = grid{}
)

// Plot implements plot.Plotter.
func (d drawn) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	points := make([]vg.Point, len(d.series.Points))
	for i, pt := range d.series.Points {
		points[i] = vg.Point{X: x(pt.X), Y: y(pt.Y)}
		if pt.Lo != 0 || pt.Hi != 0 {
			const half = 3
			s := draw.LineStyle{Color: d.look.mark, Width: 1}
			lo, hi, at := y(pt.Lo), y(pt.Hi), points[i].X
			c.StrokeLine2(s, at, lo, at, hi)
			c.StrokeLine2(s, at-half, lo, at+half, lo)
			c.StrokeLine2(s, at-half, hi, at+half, hi)
		}
	}
	if len(points) > 1 {
		stroke(c, d.look, points)
	}
	for _, at := range points {
		c.DrawGlyph(glyph(d.look), at)
	}
}

func stroke(c draw.Canvas, l look, points []vg.Point) {
	c.StrokeLines(draw.LineStyle{Color: l.mark, Width: 1.75, Dashes: l.dash}, points)
}

func glyph(l look) draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.mark, Radius: 3.5, Shape: l.shape}
}

// fit cuts a text to a width.
func fit(s text.Style, txt string, width vg.Length) string {
	if s.Width(txt) <= width {
		return txt
	}
	r := []rune(txt)
	for len(r) > 1 && s.Width(string(r)+"…") > width {
		r = r[:len(r)-1]
	}
	return strings.TrimSpace(string(r)) + "…"
}

// wrap breaks a text into lines of at most a width, the last of at most so many cut.
func wrap(s text.Style, txt string, width vg.Length, most int) []string {
	var lines []string
	current := ""
	words := strings.Fields(txt)
	for i, word := range words {
		next := strings.TrimSpace(current + " " + word)
		if current == "" || s.Width(next) <= width {
			current = next
			continue
		}
		if len(lines) == most-1 {
			return append(lines, fit(s, current+" "+strings.Join(words[i:], " "), width))
		}
		lines = append(lines, fit(s, current, width))
		current = word
	}
	if current != "" {
		lines = append(lines, fit(s, current, width))
	}
	return lines
}
