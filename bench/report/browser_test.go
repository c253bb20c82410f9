package report

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
)

// A browser is a headless Chrome or Chromium with the report of the fixture,
// opened from a file.
type browser struct {
	ctx  context.Context
	page string // the address of the page
}

// findBrowser names the program: NEARJOB_CHROME, or what is on the PATH. Without
// one the tests are skipped, or fail if NEARJOB_REQUIRE_CHROME is set.
func findBrowser(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("NEARJOB_CHROME"); name != "" {
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("NEARJOB_REQUIRE_CHROME") != "" {
		t.Fatal("no Chrome or Chromium on the PATH: install one, or name one with NEARJOB_CHROME")
	}
	t.Skip("no Chrome or Chromium on the PATH: install one, or name one with NEARJOB_CHROME, to test the page in a browser")
	return ""
}

func newBrowser(t *testing.T, page string) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(findBrowser(t)), chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chrome's sandbox refuses to run as root
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute) // it ends in a cleanup, after the test's own has
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	t.Cleanup(func() {
		// The browser must be gone before its folder is.
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("end the browser: %v", err)
		}
	})
	return &browser{ctx: ctx, page: (&url.URL{Scheme: "file", Path: page}).String()}
}

// A tab is the page in a tab of its own. Whatever it says on the console, and
// whatever it asks for but itself, is an error.
type tab struct {
	*testing.T
	ctx context.Context
}

func (b *browser) open(t *testing.T, hash string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	var mu sync.Mutex
	var faults []string
	fault := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithListener(func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			fault("exception: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			fault("console: %s", e.Type)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				fault("log: %s %s", e.Entry.Level, e.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if u, _, _ := strings.Cut(e.Request.URL, "#"); u != b.page {
				fault("request: %.200s", e.Request.URL)
			}
		}
	}))
	t.Cleanup(func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		for _, f := range faults {
			t.Error(f)
		}
	})
	x := &tab{t, ctx}
	x.do(chromedp.EmulateViewport(1280, 900))
	x.do(before...)
	x.do(chromedp.Navigate(b.page + hash))
	return x
}

func (x *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	x.Helper()
	if err := chromedp.Do(x.ctx, actions...); err != nil {
		x.Fatal(err)
	}
}

// eval runs JavaScript in the page and waits for it. ARG1, ARG2 and so on in it
// are the arguments.
func eval[T any](x *tab, js string, args ...any) T {
	x.Helper()
	for i, a := range args {
		b, err := json.Marshal(a)
		if err != nil {
			x.Fatal(err)
		}
		js = strings.ReplaceAll(js, fmt.Sprintf("ARG%d", i+1), string(b))
	}
	v, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		x.Fatalf("%.300s: %v", js, err)
	}
	return v
}

func (x *tab) media(media, theme string) {
	x.Helper()
	_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	if err != nil {
		x.Fatal(err)
	}
}

// screenshot writes a picture of the whole page into the folder of
// NEARJOB_SCREENSHOTS, for people to look at.
func (x *tab) screenshot(name string) {
	x.Helper()
	dir := os.Getenv("NEARJOB_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(x.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		x.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		x.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		x.Fatal(err)
	}
}

// TestBrowser opens the page as a reader would.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	r := fixture(t)
	dir := t.TempDir()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	plans, _ := digest.Plans(r)
	b := newBrowser(t, filepath.Join(dir, HTMLFile))

	t.Run("looks", func(t *testing.T) {
		x := b.open(t, "")
		for _, theme := range []string{"light", "dark"} {
			x.media("screen", theme)
			for _, width := range []int64{1280, 375} {
				x.do(chromedp.EmulateViewport(width, 900))
				if got := eval[[]float64](x, `[document.documentElement.scrollWidth, innerWidth]`); got[0] > got[1] {
					t.Errorf("%s, %d wide: the page scrolls sideways, it is %v wide: %v", theme, width, got[0], eval[[]string](x, wide))
				}
				for _, fault := range eval[[]string](x, contrast) {
					t.Errorf("%s, %d wide: %s", theme, width, fault)
				}
				x.screenshot(fmt.Sprintf("%s-%d", theme, width))
			}
		}
		light := `getComputedStyle(document.body).backgroundColor`
		x.media("screen", "light")
		day := eval[string](x, light)
		x.media("screen", "dark")
		if night := eval[string](x, light); day == night {
			t.Errorf("the page has the ground %s in both themes", day)
		}
	})

	t.Run("toggle", func(t *testing.T) {
		x := b.open(t, "")
		state := func() []string {
			return eval[[]string](x, `[document.getElementById("theme").textContent, getComputedStyle(document.body).backgroundColor,
				getComputedStyle(document.documentElement).getPropertyValue("--chart-1").trim()]`)
		}
		x.media("screen", "light")
		first := state()
		var seen [][]string
		for range 3 {
			x.do(chromedp.Click(chromedp.CSS("#theme")))
			seen = append(seen, state())
		}
		if seen[0][0] != "Theme: light" || seen[1][0] != "Theme: dark" || seen[2][0] != "Theme: auto" {
			t.Errorf("the button says %q", seen)
		}
		if seen[0][1] != first[1] || seen[1][1] == first[1] || seen[2][1] != first[1] {
			t.Errorf("grounds %q after %q", seen, first)
		}
		if seen[1][2] == first[2] || first[2] == "" || seen[2][2] != first[2] {
			t.Errorf("the charts do not follow the button: %q after %q", seen, first)
		}
	})

	t.Run("filters", func(t *testing.T) {
		x := b.open(t, "")
		const shown = `[...document.querySelectorAll("#cases tr[data-strategy]")].filter(tr => tr.offsetParent !== null).map(tr => tr.id)`
		if got := eval[[]string](x, shown); len(got) != len(r.Cases) {
			t.Fatalf("%d rows for %d cases", len(got), len(r.Cases))
		}
		const choose = `document.querySelector("select[data-filter=" + ARG1 + "]").value = ARG2;
			document.querySelector("select[data-filter=set]").dispatchEvent(new Event("change")); 0`
		want := 0
		for i := range r.Cases {
			if c := &r.Cases[i]; c.Set == r.Cases[0].Set && c.Strategy == "bbox" {
				want++
			}
		}
		eval[int](x, choose, "set", r.Cases[0].Set)
		eval[int](x, choose, "strategy", "bbox")
		got := eval[[]string](x, shown)
		if len(got) != want || want == 0 || slices.ContainsFunc(got, func(id string) bool { return !strings.HasSuffix(id, "-bbox") }) {
			t.Errorf("rows %q, want %d of bbox", got, want)
		}
		if text := eval[string](x, `document.getElementById("shown").textContent`); text != fmt.Sprintf("%d of %d searches", want, len(r.Cases)) {
			t.Errorf("the page says %q", text)
		}
		x.do(chromedp.Click(chromedp.CSS(`#measurements button[type="reset"]`)))
		if got := eval[[]string](x, `new Promise(done => setTimeout(() => done(`+shown+`), 20))`); len(got) != len(r.Cases) {
			t.Errorf("%d rows after the reset", len(got))
		}
	})

	t.Run("plans", func(t *testing.T) {
		last := plans[len(plans)-1]
		for _, p := range plans {
			if p.Statement.Trace != nil && len(p.Notes) > 0 {
				last = p
			}
		}
		x := b.open(t, string(fragment("plan", last.ID)))
		const title = `document.getElementById("plan-title").textContent`
		if got := eval[string](x, title); got != last.Label {
			t.Errorf("the fragment shows %q, want %q", got, last.Label)
		}
		if got := eval[int](x, `document.querySelectorAll("#plan-view .trace tbody tr").length`); last.Statement.Trace != nil && got != len(last.Statement.Trace.Alternatives)+1 {
			t.Errorf("%d ways in the optimizer trace, want %d and the scan", got, len(last.Statement.Trace.Alternatives))
		}
		x.screenshot("trace")
		nodes := 0
		for range last.Plan.Root.All() {
			nodes++
		}
		if got := eval[int](x, `document.querySelectorAll("#plan-view table.tree tbody th").length`); got != nodes {
			t.Errorf("%d operations, want %d", got, nodes)
		}
		if got := eval[string](x, `document.querySelector("#plan-view pre code").textContent`); got != sqlText(last.Statement.SQL) {
			t.Errorf("the statement is %q", got)
		}
		// All plans can be reached by their fragments, and their notes are there.
		type shown struct {
			Title string
			Notes int
		}
		var ids []string
		for i := 0; i < len(plans); i += 7 {
			ids = append(ids, plans[i].ID)
		}
		list := eval[[]shown](x, goTo+`(async () => {
			const list = [];
			for (const id of ARG1) {
				await goTo("#plan:" + encodeURIComponent(id));
				list.push({ Title: document.getElementById("plan-title").textContent, Notes: document.querySelectorAll("#plan-view .tree .notes li").length });
			}
			return list;
		})()`, ids)
		notes := 0
		for i, got := range list {
			p := plans[i*7]
			if got.Title != p.Label || got.Notes != len(p.Notes) {
				t.Errorf("%s shows %q with %d notes, want %d", p.ID, got.Title, got.Notes, len(p.Notes))
			}
			notes += got.Notes
		}
		if notes == 0 {
			t.Error("no plan has a note")
		}
		// A choice in a list shows another plan, and its fragment.
		if got := eval[string](x, `(() => { const s = document.querySelectorAll("#plan-pick select")[3]; s.value = "bbox"; s.dispatchEvent(new Event("change")); return location.hash; })()`); !strings.Contains(got, "bbox") {
			t.Errorf("after choosing bbox the fragment is %q", got)
		}
		if got := eval[string](x, title); !strings.Contains(got, "bbox") {
			t.Errorf("after choosing bbox the plan is %q", got)
		}
		// A fragment that is nowhere does no harm.
		eval[int](x, goTo+`goTo("#plan:nowhere").then(() => goTo("#diff:%E0%A4%A")).then(() => 0)`)
		x.screenshot("plan")
	})

	t.Run("diff", func(t *testing.T) {
		x := b.open(t, "")
		// Plans of all shapes, each with itself and with some of the others.
		packed := newPack(plans)
		of := make([]int, len(packed.Shapes))
		for i, p := range packed.Plans {
			of[p.Shape] = i
		}
		var pairs [][2]int
		for i, a := range of {
			for _, step := range []int{0, 1, 5, 11} {
				pairs = append(pairs, [2]int{a, of[(i+step)%len(of)]})
			}
		}
		var ids [][2]string
		for _, p := range pairs {
			ids = append(ids, [2]string{plans[p[0]].ID, plans[p[1]].ID})
		}
		type seen struct {
			Pairs   [][]int
			Status  []string
			Changes []string
		}
		all := eval[[]seen](x, goTo+`(async () => {
			const list = [];
			for (const [a, b] of ARG1) {
				await goTo("#diff:" + encodeURIComponent(a) + ":" + encodeURIComponent(b));
				const rows = [...document.querySelectorAll("#diff-view .pairs tbody tr")];
				list.push({
					Pairs: rows.map(tr => [Number(tr.dataset.a), Number(tr.dataset.b), Number(tr.dataset.twin)]),
					Status: rows.map(tr => tr.dataset.status),
					Changes: [...document.querySelectorAll("#diff-view .changes li")].map(li => li.dataset.pair + " " + li.dataset.class + " " + li.dataset.what),
				});
			}
			return list;
		})()`, ids)
		changes := 0
		for i, got := range all {
			d := plan.Diff(plans[pairs[i][0]].Plan, plans[pairs[i][1]].Plan)
			name := fmt.Sprintf("%s and %s", ids[i][0], ids[i][1])
			if flat, want := slices.Concat(got.Pairs...), pairing(d); !slices.Equal(flat, want) {
				t.Errorf("%s: the page pairs %v, plan.Diff %v", name, flat, want)
			}
			for k, p := range d.Pairs {
				if k < len(got.Status) && got.Status[k] != string(p.Status) {
					t.Errorf("%s: pair %d is %s in the page, %s in plan.Diff", name, k, got.Status[k], p.Status)
				}
			}
			var want []string
			for _, c := range d.Changes {
				estimate := c.What == "estimated rows" && (plans[pairs[i][0]].Forced || plans[pairs[i][1]].Forced)
				if !edge(&d, c.Pair) && !estimate {
					want = append(want, fmt.Sprintf("%d %s %s", c.Pair, c.Class, c.What))
				}
			}
			changed := slices.DeleteFunc(got.Changes, func(c string) bool {
				var pair int
				if _, err := fmt.Sscan(c, &pair); err != nil {
					t.Fatal(err)
				}
				return edge(&d, pair)
			})
			if !slices.Equal(changed, want) {
				t.Errorf("%s: changes\n%q, plan.Diff has\n%q", name, changed, want)
			}
			changes += len(want)
		}
		if changes == 0 {
			t.Error("no two plans differ: the test shows nothing")
		}
		x.screenshot("diff")
		x.do(chromedp.EmulateViewport(375, 900))
		x.screenshot("diff-375")
		x.do(chromedp.EmulateViewport(1280, 900))
		// Swapping changes sides.
		before := eval[string](x, `location.hash`)
		x.do(chromedp.Click(chromedp.CSS("#swap")))
		parts := strings.Split(before, ":")
		if after, want := eval[string](x, `location.hash`), parts[0]+":"+parts[2]+":"+parts[1]; after != want {
			t.Errorf("after the swap %s, want %s", after, want)
		}
	})

	t.Run("print", func(t *testing.T) {
		x := b.open(t, "")
		x.media("print", "dark")
		got := eval[[]string](x, `[getComputedStyle(document.querySelector("nav")).display, getComputedStyle(document.querySelector("#measurements form")).display,
			getComputedStyle(document.body).backgroundColor]`)
		if got[0] != "none" || got[1] != "none" {
			t.Errorf("the navigation and the filters are printed: %q", got)
		}
		if fill := eval[string](x, `getComputedStyle(document.documentElement).colorScheme`); fill != "light" {
			t.Errorf("printed in the colours of the theme %q", fill)
		}
		for _, fault := range eval[[]string](x, contrast) {
			t.Errorf("printed: %s", fault)
		}
		x.do(chromedp.EmulateViewport(688, 900)) // a page of A4 without its margins
		if got := eval[[]float64](x, `[document.documentElement.scrollWidth, innerWidth]`); got[0] > got[1] {
			t.Errorf("printed on A4 the page is %v wide, for %v: %v", got[0], got[1], eval[[]string](x, wide))
		}
		x.screenshot("print")
		x.do(chromedp.EmulateViewport(1280, 900))
		closed := `document.querySelectorAll("details:not([open])").length`
		n := eval[int](x, closed)
		eval[int](x, `dispatchEvent(new Event("beforeprint")), 0`)
		if left := eval[int](x, closed); left != 0 || n == 0 {
			t.Errorf("%d of %d details stay closed in print", left, n)
		}
		eval[int](x, `dispatchEvent(new Event("afterprint")), 0`)
		if again := eval[int](x, closed); again != n {
			t.Errorf("%d details are closed after printing, %d before", again, n)
		}
		x.media("screen", "light")
		pdf, err := chromedp.Run(x.ctx, chromedp.PrintToPDF())
		if err != nil || len(pdf) < 10_000 {
			t.Fatalf("a PDF of %d bytes: %v", len(pdf), err)
		}
		if dir := os.Getenv("NEARJOB_SCREENSHOTS"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "report.pdf"), pdf, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("without script", func(t *testing.T) {
		x := b.open(t, "", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
			_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
			return chromedp.Void{}, err
		})
		text, err := chromedp.Run(x.ctx, chromedp.Text(chromedp.CSS("body")))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := firstSentence(newVerdict(t))
		for _, want := range []string{first, "95th percentile", r.Experiments[0].Title, r.Table.Name, "most telling"} {
			if !strings.Contains(text, want) {
				t.Errorf("without the script %q cannot be read", want)
			}
		}
		for _, not := range []string{"Theme:", "Swap A and B", "Show all"} {
			if strings.Contains(text, not) {
				t.Errorf("without the script %q is there, and does nothing", not)
			}
		}
		x.screenshot("without-script")
	})

	t.Run("copy", func(t *testing.T) {
		x := b.open(t, "#table")
		got := eval[[]string](x, `(async () => {
			const b = document.querySelector("button.copy"), code = b.parentElement.querySelector("code").textContent;
			b.click();
			await new Promise(done => setTimeout(done, 200));
			return [b.textContent, getSelection().toString() || code, code];
		})()`)
		if got[0] == "Copy" || strings.TrimSpace(got[1]) != strings.TrimSpace(got[2]) {
			t.Errorf("after a click the button says %q and %q is marked, want %q", got[0], got[1], got[2])
		}
	})
}

func newVerdict(t *testing.T) string {
	t.Helper()
	p, err := newPage(fixture(t))
	if err != nil {
		t.Fatal(err)
	}
	return p.Verdict.Headline
}

// edge says that figures of a pair differ by nearly what plan.Diff takes for
// noise: there four digits, which the page has, can decide otherwise.
func edge(d *plan.Difference, pair int) bool {
	p := d.Pairs[pair]
	a, b := p.A, p.B
	if p.Status == plan.Added && p.Twin >= 0 {
		a = d.Pairs[p.Twin].A
	}
	if a == nil || b == nil {
		return false
	}
	near := func(x, y float64) bool {
		for _, noise := range []float64{1.1, 1.25} {
			for _, r := range []float64{x / y, y / x} {
				if math.Abs(r/noise-1) < 0.002 {
					return true
				}
			}
		}
		return math.Abs(math.Abs(x-y)-0.05) < 0.002*max(x, y, 0.05)
	}
	var figures [][2]float64
	if a.EstimatedRows != nil && b.EstimatedRows != nil {
		figures = append(figures, [2]float64{*a.EstimatedRows, *b.EstimatedRows})
	}
	for _, of := range []func(*plan.Node) float64{
		func(n *plan.Node) float64 { f, _ := n.TotalRows(); return f },
		func(n *plan.Node) float64 { f, _ := n.TotalMS(); return f },
		func(n *plan.Node) float64 { f, _, _ := n.SelfMS(); return f },
	} {
		figures = append(figures, [2]float64{of(a), of(b)})
	}
	return slices.ContainsFunc(figures, func(f [2]float64) bool { return near(f[0], f[1]) })
}

// goTo changes the fragment and waits until the page has followed.
const goTo = `var goTo = (hash) => new Promise(done => {
	if (location.hash === hash) { done(); return; }
	addEventListener("hashchange", () => setTimeout(done), { once: true });
	location.hash = hash;
});
`

// wide names the elements that stick out of the page.
const wide = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && (matchMedia("print").matches || !e.closest(".wide, figure, nav ul, pre")))
	.slice(0, 5).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 60))`

// contrast lists texts whose contrast with their ground is under 4.5 (WCAG 2.2,
// 1.4.3), each kind once. A ground is the nearest one that is not transparent.
const contrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(srgb") ? [...m.slice(0, 3).map(v => v * 255), m[3] ?? 1] : m; };
	const light = ([r, g, b]) => {
		const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const found = new Map();
	let texts = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || e.closest("script, style, noscript, title, desc") || !e.checkVisibility()) continue;
		texts++;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		let ground = [255, 255, 255], up = e;
		for (; up; up = up.parentElement) {
			const c = parse(getComputedStyle(up).backgroundColor);
			if (c[3] === undefined || c[3] > 0) { ground = c; break; }
		}
		const ink = parse(svg ? style.fill : style.color);
		const a = light(ink), b = light(ground), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (!(ratio >= 4.5)) found.set(e.tagName + "." + (e.getAttribute("class") || ""), ratio.toFixed(2) + " for <" + e.tagName + " " + (e.getAttribute("class") || "") + "> " + walk.currentNode.data.trim().slice(0, 40) + " " + style.color + " on " + ground);
	}
	return texts < 100 ? ["only " + texts + " texts were looked at"] : [...found.values()];
})()`
