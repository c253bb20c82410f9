package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	rangePlan = "-> Filter: (t.a > 1)  (cost=10.5 rows=100) (actual time=0.05..1.5 rows=90 loops=1)\n" +
		"    -> Index range scan on t using a over (1 < a)  (cost=10.5 rows=100) (actual time=0.04..1.2 rows=90 loops=1)\n"
	scanPlan = "-> Filter: (t.a > 1)  (cost=1005 rows=3333) (actual time=0.05..150 rows=90 loops=1)\n" +
		"    -> Table scan on t  (cost=1005 rows=10000) (actual time=0.04..120 rows=10000 loops=1)\n"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlansDiff(t *testing.T) {
	a := writeFile(t, "a.txt", rangePlan)
	// As mysql -t prints it.
	b := "+---+\n| EXPLAIN |\n+---+\n| " + scanPlan + " |\n+---+\n1 row in set (0.01 sec)\n"
	out := must(t, b, "plans", "diff", a, "-")
	shape, rows := strings.Index(out, "operation: Index range scan on t using a over (1 < a) -> Table scan on t"), strings.Index(out, "rows: 90 -> 10,000")
	if shape < 0 || rows < shape {
		t.Errorf("want the access first, then the rows:\n%s", out)
	}
	var d struct {
		Changes []struct{ Class, What, A, B string }
	}
	if err := json.Unmarshal([]byte(must(t, b, "plans", "diff", "--json", a, "-")), &d); err != nil || len(d.Changes) == 0 {
		t.Errorf("%v, %+v", err, d)
	}
	if out := must(t, "", "plans", "diff", a, a); strings.Count(out, "no difference") != 3 {
		t.Errorf("a plan differs from itself:\n%s", out)
	}
}

func TestPlansDiffSaysWhatItCannotRead(t *testing.T) {
	a := writeFile(t, "a.txt", rangePlan)
	code, _, errs := call(t, "", "plans", "diff", a, writeFile(t, "b.txt", "no plan at all\n"))
	if code != 1 || !strings.Contains(errs, "b.txt") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, errs)
	}
	code, _, errs = call(t, "", "plans", "diff", a, writeFile(t, "c.txt", "-- a comment\n"+rangePlan))
	if code != 0 || !strings.Contains(errs, "c.txt:1: not read") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if code, _, errs = call(t, "", "plans", "diff", "-", "-"); code != 2 {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
