package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/report/markdown"
	"github.com/nearjob/nearjob/bench/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixture is a run with real plans, read anew for each test that changes it.
func fixture(t testing.TB) *result.Run {
	t.Helper()
	f, err := os.Open("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) == 0 || len(r.Experiments) == 0 || r.Table == nil {
		t.Fatal("testdata/run.json has no cases, experiments or table: it shows nothing")
	}
	return r
}

// small is the part of the fixture that is compared with golden files: all
// strategies at one set, size and radius.
func small(t testing.TB) *result.Run {
	r := fixture(t)
	first := r.Cases[0]
	r.Cases = slices.DeleteFunc(r.Cases, func(c result.Case) bool {
		return c.Set != first.Set || c.Rows != first.Rows || c.RadiusM != first.RadiusM
	})
	r.Sets = r.Sets[:1]
	return r
}

func html(t testing.TB, r *result.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	r := small(t)
	// The page's own style and script are files of this folder: see TestSelfContained.
	page := strings.NewReplacer(string(styles()), "STYLE", pageJS, "SCRIPT", hash(string(styles())), "HASH", hash(pageJS), "HASH").Replace(html(t, r))
	var doc bytes.Buffer
	if err := JSON(&doc, r); err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, doc.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"report.html": page, "report.json": indented.String()} {
		file := filepath.Join("testdata", "golden", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range max(len(g), len(w)) {
				if i >= len(g) || i >= len(w) || g[i] != w[i] {
					t.Errorf("%s differs from its golden file at line %d (-update writes it anew):\ngot  %.300s\nwant %.300s", name, i+1, at(g, i), at(w, i))
					break
				}
			}
		}
	}
}

func at(lines []string, i int) string {
	if i >= len(lines) {
		return "(the end)"
	}
	return lines[i]
}

func TestSame(t *testing.T) {
	first, second := html(t, fixture(t)), html(t, fixture(t))
	if first != second {
		t.Error("equal runs give different pages")
	}
}

func TestJSONIsReadAsRun(t *testing.T) {
	r := fixture(t)
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	again, err := result.Read(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, again) {
		t.Error("report.json does not hold the run that it was made of")
	}
	var v struct {
		Verdict struct {
			Headline string `json:"headline"`
		} `json:"verdict"`
	}
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.Verdict.Headline == "" {
		t.Error("report.json has no verdict")
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	r := fixture(t)
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	want := []string{HTMLFile, JSONFile, MarkdownFile}
	for name := range markdown.Charts(r) {
		want = append(want, filepath.Join(ChartsFolder, name))
	}
	slices.Sort(want)
	list := func() []string {
		var files []string
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			files = append(files, name)
			if info, err := d.Info(); err != nil || info.Size() == 0 || info.Mode().Perm()&0o044 == 0 {
				t.Errorf("%s is empty or cannot be read by others: %v", name, err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		return files
	}
	if got := list(); !slices.Equal(got, want) || len(want) < 4 {
		t.Errorf("files %q, want %q", got, want)
	}
	page, err := os.ReadFile(filepath.Join(dir, HTMLFile))
	if err != nil {
		t.Fatal(err)
	}
	// A report over another leaves no other files.
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("files after the second time %q, want %q", got, want)
	}
	// What cannot be written leaves the report that was there as it was.
	bad := fixture(t)
	bad.Cases[0].Free.Statements[0].JSON = json.RawMessage("{broken")
	if err := Write(dir, bad); err == nil || !strings.Contains(err.Error(), JSONFile) {
		t.Errorf("a run that is no JSON: %v, want an error that names %s", err, JSONFile)
	}
	if after, err := os.ReadFile(filepath.Join(dir, HTMLFile)); err != nil || !bytes.Equal(after, page) {
		t.Errorf("the page that was there has changed (%v)", err)
	}
}

func TestWriteFails(t *testing.T) {
	r := small(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, r); err == nil {
		t.Error("a file in the place of the folder: no error")
	}
	// A folder in the place of a file: the rename fails, and the temporary file goes.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, HTMLFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, r); err == nil {
		t.Error("a folder in the place of the page: no error")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files stay: %q, %v", left, err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"HTML": func(w io.Writer) error { return HTML(w, r) },
		"JSON": func(w io.Writer) error { return JSON(w, r) },
	} {
		if err := write(broken{}); !errors.Is(err, errBroken) {
			t.Errorf("%s to a broken writer: %v", name, err)
		}
	}
	for name, err := range map[string]error{"Write": Write(dir, nil), "HTML": HTML(io.Discard, nil), "JSON": JSON(io.Discard, nil)} {
		if err == nil {
			t.Errorf("%s without a run: no error", name)
		}
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// TestEmpty writes pages of runs that lack something.
func TestEmpty(t *testing.T) {
	unread := small(t)
	for i := range unread.Cases {
		for k := range unread.Cases[i].Free.Statements {
			unread.Cases[i].Free.Statements[k].Tree, unread.Cases[i].Free.Statements[k].JSON = "no plan", nil
		}
	}
	bare := small(t)
	bare.Sets, bare.Experiments, bare.Table, bare.Warnings = nil, nil, nil, nil
	for name, r := range map[string]*result.Run{"nothing": {}, "no set": bare, "unread plans": unread} {
		page := html(t, r)
		if !strings.Contains(page, "</html>") {
			t.Errorf("%s: the page is not whole", name)
		}
		if err := Write(t.TempDir(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if page := html(t, unread); !strings.Contains(page, "could not be read") {
		t.Error("plans that cannot be read: no word about it")
	}
}

// TestHostile puts markup into every text of a run and looks for it in the page.
func TestHostile(t *testing.T) {
	r := fixture(t)
	const evil = `</script></style><img src=x onerror="alert(1)"><!--'` + "`" + `{{.}} ` + "\u2028"
	taint(reflect.ValueOf(r).Elem(), evil)
	page := html(t, r)
	for _, s := range []string{"<img", "<!--"} {
		if strings.Contains(page, s) {
			at := strings.Index(page, s)
			t.Errorf("%q reaches the page: …%.200s", s, page[max(0, at-100):])
		}
	}
	// One style, two scripts: the plans and the page's own.
	for pattern, want := range map[string]int{"<style": 1, "</style": 1, "<script": 2, "</script": 2} {
		if got := strings.Count(page, pattern); got != want {
			t.Errorf("%d times %s, want %d", got, pattern, want)
		}
	}
	if !strings.Contains(page, "&lt;img src=x") {
		t.Error("the texts are not in the page at all")
	}
}

// taint adds a text to every string below v but plans, which would not be read
// any more.
func taint(v reflect.Value, evil string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + evil)
	case reflect.Pointer:
		if !v.IsNil() {
			taint(v.Elem(), evil)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			taint(v.Index(i), evil)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			for _, k := range v.MapKeys() {
				v.SetMapIndex(k, reflect.ValueOf(v.MapIndex(k).String()+evil))
			}
		}
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), "github.com/nearjob/") {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Tree" {
				taint(v.Field(i), evil)
			}
		}
	}
}

// TestSelfContained looks for whatever could make a browser ask for something, and
// checks that the policy names exactly the style and script of the page.
func TestSelfContained(t *testing.T) {
	page := html(t, fixture(t))
	for _, pattern := range []string{
		`<link\b`, `<iframe\b`, `<object\b`, `<embed\b`, `<base\b`, `@import`, `\bsrc\s*=`, `<image\b`, `xlink:href`, `\bstyle\s*=`, `\son[a-z]+\s*=\s*"`,
		`url\(\s*['"]?[^#'")]`, `https?://[^w]`,
	} {
		if found := regexp.MustCompile(pattern).FindStringIndex(page); found != nil {
			t.Errorf("%s is in the page: …%s", pattern, page[max(0, found[0]-60):min(len(page), found[1]+60)])
		}
	}
	for name, s := range map[string]string{"style": string(styles()), "script": pageJS} {
		if !strings.Contains(page, name+"-src "+hash(s)) {
			t.Errorf("the policy does not name the page's %s", name)
		}
		if !strings.Contains(page, "<"+name+">"+s+"</"+name+">") {
			t.Errorf("the %s is not in the page byte by byte", name)
		}
	}
	for _, id := range regexp.MustCompile(`href="#([^":]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+id[1]+`"`) {
			t.Errorf("a link to #%s, which is not there", id[1])
		}
	}
	seen := make(map[string]bool)
	for _, id := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if seen[id[1]] {
			t.Errorf("the id %s is there twice", id[1])
		}
		seen[id[1]] = true
	}
}

// TestLinks checks that evidence and plans lead somewhere.
func TestLinks(t *testing.T) {
	r := fixture(t)
	page := html(t, r)
	plans, _ := digest.Plans(r)
	ids := make(map[string]bool)
	for _, p := range plans {
		ids[string(fragment("plan", p.ID))] = true
	}
	places := make(map[string]bool)
	for _, id := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		places["#"+id[1]] = true
	}
	links := regexp.MustCompile(`href="(#[^"]+)"`).FindAllStringSubmatch(page, -1)
	count := 0
	for _, l := range links {
		if strings.HasPrefix(l[1], "#plan:") {
			count++
			if !ids[l[1]] {
				t.Errorf("a link to %s, which is no plan", l[1])
			}
		} else if !places[l[1]] {
			t.Errorf("a link to %s, which is not there", l[1])
		}
	}
	if count < len(r.Cases) {
		t.Errorf("%d links to plans for %d cases", count, len(r.Cases))
	}
}

// full is a run of the size of a real one: sizes and radii are added by copying
// the fixture's cases, with other literals, until there are 360.
func full(t testing.TB) *result.Run {
	r := fixture(t)
	base := slices.Clone(r.Cases)
	digits := regexp.MustCompile(`\d{6,}|\d+\.\d{3,}`)
	for round := 1; len(r.Cases) < 360; round++ {
		// Texts of a plan are different for each size and radius.
		other := func(s string) string {
			return digits.ReplaceAllStringFunc(s, func(d string) string {
				return d[:len(d)-1] + fmt.Sprint((int(d[len(d)-1])+round)%10)
			})
		}
		side := func(s result.Side) result.Side {
			s.Statements = slices.Clone(s.Statements)
			for i := range s.Statements {
				st := &s.Statements[i]
				st.Tree = other(st.Tree)
				if len(st.JSON) > 0 {
					st.JSON = json.RawMessage(other(string(st.JSON)))
				}
				st.Args = slices.Clone(st.Args)
				for k, a := range st.Args {
					st.Args[k] = other(a)
				}
				st.SQL += fmt.Sprintf(" /* size %d */", round) // more and other ranges
			}
			return s
		}
		for _, c := range base {
			if len(r.Cases) == 360 {
				break
			}
			c.Rows *= 1 + round
			c.Free = side(c.Free)
			if c.Forced != nil {
				forced := side(*c.Forced)
				c.Forced = &forced
			}
			r.Cases = append(r.Cases, c)
		}
	}
	return r
}

func TestSize(t *testing.T) {
	r := full(t)
	plans, _ := digest.Plans(r)
	page := html(t, r)
	t.Logf("%d cases, %d plans: %d KB", len(r.Cases), len(plans), len(page)/1000)
	if len(plans) < 700 {
		t.Fatalf("%d plans are not a full run", len(plans))
	}
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes, over 3 MB", len(page))
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("é", 1000)
	got := shorten(long, 100)
	if len(got) > 200 || !strings.Contains(got, "cut: whole in report.json") || strings.Contains(got, "\ufffd") || !strings.HasSuffix(got, "é") {
		t.Errorf("shorten gives %q", got)
	}
	for _, s := range []string{"", "short", strings.Repeat("a", 110)} {
		if got := shorten(s, 100); got != s {
			t.Errorf("shorten(%q) = %q", s, got)
		}
	}
}

func TestCollapse(t *testing.T) {
	ranges := func(n int) string {
		return "SELECT a FROM t WHERE (" + strings.Repeat("s2 BETWEEN ? AND ? OR ", n-1) + "s2 BETWEEN ? AND ?) AND x > ?"
	}
	values := func(n int) string {
		return "SELECT a, b FROM t WHERE s2 IN (" + strings.Repeat("?, ", n-1) + "?)"
	}
	for sql, want := range map[string]string{
		ranges(2): ranges(2), ranges(8): ranges(8), values(8): values(8),
		ranges(40): "SELECT a FROM t WHERE (s2 BETWEEN ? AND ? OR s2 BETWEEN ? AND ? OR … [37 more of these] OR s2 BETWEEN ? AND ?) AND x > ?",
		values(40): "SELECT a, b FROM t WHERE s2 IN (?, ?, … [37 more of these], ?)",
		"SELECT a": "SELECT a",
	} {
		if got := collapse(sql); got != want {
			t.Errorf("collapse(%q)\ngot  %q\nwant %q", sql, got, want)
		}
	}
}

func TestFragment(t *testing.T) {
	if got, want := fragment("diff", `a b"<`, "é:#"), template.URL("#diff:a%20b%22%3C:%C3%A9:%23"); got != want {
		t.Errorf("fragment: %s, want %s", got, want)
	}
}
