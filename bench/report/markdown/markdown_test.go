package markdown_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/report/markdown"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

func fixture(t *testing.T) *result.Run {
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

func write(t *testing.T, r *result.Run, charts string) string {
	t.Helper()
	var b bytes.Buffer
	if err := markdown.Write(&b, r, verdict.Judge(r), charts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares the report of the run in ../testdata with a file; -update
// writes it anew.
func TestGolden(t *testing.T) {
	const name = "testdata/report.golden.md"
	got := write(t, fixture(t), "charts")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v: run the test with -update once", err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("line %d is\n%s\nwant\n%s\n(-update writes the golden file anew)", i+1, g[i], w[i])
		}
	}
	t.Fatalf("%d lines, want %d (-update writes the golden file anew)", len(g), len(w))
}

// wellFormed checks what can break in a Markdown file: tables whose rows differ in
// length, fences and details that do not end.
func wellFormed(t *testing.T, md string) {
	t.Helper()
	unescapedBar := regexp.MustCompile(`(^|[^\\])\|`)
	fence, columns, details := "", 0, 0
	for i, l := range strings.Split(md, "\n") {
		if fence != "" {
			if strings.TrimSpace(l) == fence {
				fence = ""
			}
			continue
		}
		if run := len(l) - len(strings.TrimLeft(l, "`")); run >= 3 && !strings.Contains(l[run:], "`") {
			fence = l[:run]
			continue
		}
		details += strings.Count(l, "<details>") - strings.Count(l, "</details>")
		if !strings.HasPrefix(l, "|") {
			columns = 0
			continue
		}
		n := len(unescapedBar.FindAllString(l, -1))
		if columns != 0 && n != columns {
			t.Errorf("line %d has %d bars in a table of %d: %s", i+1, n, columns, l)
		}
		columns = n
	}
	if fence != "" {
		t.Errorf("the fence %s does not end", fence)
	}
	if details != 0 {
		t.Errorf("%d details do not end", details)
	}
}

func TestWellFormed(t *testing.T) {
	wellFormed(t, write(t, fixture(t), ""))
}

func TestParts(t *testing.T) {
	r := fixture(t)
	r.Warnings = append(r.Warnings, "one more")
	r.Settings.Variables = map[string]string{"innodb_buffer_pool_size": "1073741824"}
	r.Table = &result.Table{Name: "shop.places", Advice: []result.Advice{{Strategy: "bbox", DDL: []string{"ALTER TABLE `shop`.`places` ADD INDEX `lat_lng` (`lat`, `lng`);"}}}}
	r.Experiments = append(r.Experiments, result.Experiment{
		Name: "one-more", Title: "One more", Findings: []result.Finding{{Claim: "it is so", Published: "7", Ours: "8", Verdict: result.Differs}},
		Charts: []result.Chart{{Title: "empty"}},
	})
	v := verdict.Judge(r)
	md := write(t, r, "charts")
	at := 0
	for _, want := range []string{
		"# Nearby search", "\n## Verdict\n", "\n## Settings\n", "innodb_buffer_pool_size", "\n### Data sets\n", "\n## Results\n", "\n## Charts\n",
		"\n## Telling plans\n", "<details>", "```sql", "```text\n-> ", "</details>", "\n## Experiments\n", "| claim | published |", "\n## Your table `shop.places`\n",
		"ALTER TABLE `shop`.`places` ADD INDEX", "\n## Warnings\n",
	} {
		i := strings.Index(md[at:], want)
		if i < 0 {
			t.Fatalf("no %q after byte %d", want, at)
		}
		at += i
	}
	if !strings.Contains(strings.ReplaceAll(md, `\`, ""), v.Headline) {
		t.Error("the headline is missing")
	}
	// A row for each case.
	row := regexp.MustCompile(`(?m)^\| [\d,]+ \| [\d.]+ k?m \| .*(fullscan|bbox|spatial|geohash|h3|s2)`)
	if got := len(row.FindAllString(md, -1)); got != len(r.Cases) {
		t.Errorf("%d rows of results, want %d", got, len(r.Cases))
	}
	// Every image is a chart and every chart an image.
	var images []string
	for _, m := range regexp.MustCompile(`!\[[^\]]*\]\(charts/([^)]+)\)`).FindAllStringSubmatch(md, -1) {
		images = append(images, m[1])
	}
	var files []string
	for name := range markdown.Charts(r) {
		files = append(files, name)
	}
	slices.Sort(images)
	slices.Sort(files)
	if len(files) == 0 || !slices.Equal(images, files) {
		t.Errorf("images %v\ncharts %v", images, files)
	}
}

func TestEscaping(t *testing.T) {
	const evil = "a | b ``` `x` <script>alert(1)</script> *c* _d_ [e](f) $g$ @user \\ \n# h\n- i"
	r := &result.Run{
		SchemaVersion: 1, Version: evil, Settings: result.Settings{Server: evil, Machine: evil, Variables: map[string]string{evil: evil}},
		Sets: []result.Set{{Name: evil, About: evil, Sums: []result.Sum{{Rows: 1}}}},
		Cases: []result.Case{{Set: evil, Rows: 1, RadiusM: 1, Strategy: evil, Free: result.Side{
			Time:       result.Timing{Runs: 9, Median: 1},
			Statements: []result.Statement{{SQL: evil, Args: []string{evil}, Tree: evil, Warnings: []result.Warning{{Level: evil, Text: evil}}}},
		}}},
		Experiments: []result.Experiment{{
			Name: evil, Title: evil, Question: evil, Notes: []string{evil},
			Findings: []result.Finding{{Claim: evil, Published: evil, Ours: evil, Verdict: evil, Why: evil}},
			Grids:    []result.Grid{{Title: evil, Columns: []string{evil + " #", "b"}, Rows: [][]string{{evil}, {evil, evil, evil}}}},
			Charts:   []result.Chart{{Title: evil}},
		}},
		Table: &result.Table{
			Name: evil, Where: evil, Problems: []result.Problem{{Kind: evil, Column: evil, Example: evil, Text: evil}},
			Advice: []result.Advice{{Strategy: evil, DDL: []string{evil}, Query: evil, Needs: evil, Gain: 3}},
		},
		Warnings: []string{evil},
	}
	md := write(t, r, "a b/(c)")
	wellFormed(t, md)
	// Outside of code there is no tag but those of the report itself, no heading of the
	// text's and no mention.
	outside := regexp.MustCompile("(?s)(````*)[^`].*?\n````*\n").ReplaceAllString(md, "")
	outside = regexp.MustCompile("(`+)[^\n]*?[^`]`{4,}").ReplaceAllString(outside, "")
	for _, bad := range []string{"\n# h", "\n- i", " <script>", "@user"} {
		if strings.Contains(outside, bad) {
			t.Errorf("%q outside of code", bad)
		}
	}
	if !strings.Contains(md, "](a%20b/%28c%29/experiment-") {
		t.Error("the folder of the charts is not escaped")
	}
	if !strings.Contains(md, "nothing to draw") {
		t.Error("no warning of the chart without points")
	}
	if !strings.Contains(md, "cannot be read") {
		t.Error("no warning of the plan that is none")
	}
}

func TestEmptyRun(t *testing.T) {
	md := write(t, &result.Run{}, "")
	wellFormed(t, md)
	if !strings.Contains(md, "Nothing was measured") {
		t.Errorf("does not say that there is nothing:\n%s", md)
	}
	if got := markdown.Charts(&result.Run{}); len(got) != 0 {
		t.Errorf("charts of nothing: %v", got)
	}
}

func TestLongLinesAreCutAndMarked(t *testing.T) {
	r := fixture(t)
	c := &r.Cases[0]
	c.Free.Statements[0].SQL = "SELECT " + strings.Repeat("x", 5000)
	c.Free.Time.Median = 1e6 // the slowest, so that it is shown
	c.Rows = 1 << 30
	md := write(t, r, "")
	if !strings.Contains(md, "(3,807 more characters)") {
		t.Error("the cut is not marked")
	}
	if strings.Contains(md, strings.Repeat("x", 1300)) {
		t.Error("the line is not cut")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestWriteError(t *testing.T) {
	if err := markdown.Write(full{}, fixture(t), verdict.Verdict{}, ""); !errors.Is(err, errFull) {
		t.Errorf("error %v, want %v", err, errFull)
	}
}
