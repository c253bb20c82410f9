package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func seed(f *testing.F, add func(text string)) {
	for _, pattern := range []string{"testdata/paste/*.*", "testdata/older/*.*", "testdata/capture/*join*", "testdata/capture/*subquery*", "testdata/capture/union*", "testdata/capture/quotes*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no files %s, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			add(string(text))
		}
	}
}

// FuzzParse checks that any text gives plans that hold every line, or an error.
//
//	go test ./bench/plan -run - -fuzz FuzzParse -fuzztime 2m -fuzzminimizetime 5x
func FuzzParse(f *testing.F) {
	seed(f, func(text string) { f.Add(text) })
	f.Fuzz(func(t *testing.T, text string) {
		plans, err := Parse(strings.NewReader(text))
		if err != nil {
			if plans != nil || err.Error() == "" {
				t.Fatalf("%d plans and %v", len(plans), err)
			}
			return
		}
		if len(plans) == 0 {
			t.Fatal("neither plan nor error")
		}
		if !strings.HasPrefix(text, "\xff\xfe") && !strings.HasPrefix(text, "\xfe\xff") {
			checkLines(t, strings.TrimPrefix(text, "\ufeff"), plans)
		}
		for _, p := range plans {
			if _, err := json.Marshal(p); err != nil {
				t.Fatal(err)
			}
			for _, n := range p.Root.All() {
				n.Notes()
				n.Examined()
			}
		}
	})
}

// FuzzDiff checks the comparison of any two plans, and of a plan with itself.
//
//	go test ./bench/plan -run - -fuzz FuzzDiff -fuzztime 2m -fuzzminimizetime 5x
func FuzzDiff(f *testing.F) {
	var last string
	seed(f, func(text string) {
		f.Add(last, text)
		last = text
	})
	f.Fuzz(func(t *testing.T, x, y string) {
		a, err := Parse(strings.NewReader(x))
		if err != nil {
			return
		}
		if d := Diff(a[0], a[0]); len(d.Changes) > 0 {
			t.Fatalf("a plan differs from itself: %+v", d.Changes)
		}
		b, err := Parse(strings.NewReader(y))
		if err != nil {
			return
		}
		d := Diff(a[0], b[0])
		checkDifference(t, a[0], b[0], d)
		if _, err := json.Marshal(d); err != nil {
			t.Fatal(err)
		}
	})
}
