package lab

import (
	"math"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/store"
)

func TestCompare(t *testing.T) {
	base := answer{by: "a", rows: []hit{{1, 0.5}, {2, 7}}, more: true}
	for name, tc := range map[string]struct {
		b     answer
		equal bool
		rows  []int // that differ
	}{
		"equal":        {answer{"b", []hit{{1, 0.5}, {2, 7}}, true}, true, nil},
		"last bit":     {answer{"b", []hit{{1, 0.5}, {2, math.Nextafter(7, 8)}}, true}, false, []int{2}},
		"other job":    {answer{"b", []hit{{3, 0.5}, {2, 7}}, true}, false, []int{1}},
		"order":        {answer{"b", []hit{{2, 7}, {1, 0.5}}, true}, false, []int{1, 2}},
		"short":        {answer{"b", []hit{{1, 0.5}}, true}, false, []int{2}},
		"long":         {answer{"b", []hit{{1, 0.5}, {2, 7}, {3, 8}}, true}, false, []int{3}},
		"no next page": {answer{"b", []hit{{1, 0.5}, {2, 7}}, false}, false, nil},
	} {
		e := compare(base, tc.b)
		if (e == nil) != tc.equal {
			t.Errorf("%s: %v", name, e)
			continue
		}
		if e == nil {
			continue
		}
		var rows []int
		for _, d := range e.Differences {
			rows = append(rows, d.Row)
		}
		if len(rows) != len(tc.rows) {
			t.Errorf("%s: rows %v differ, want %v", name, rows, tc.rows)
		}
		for i := range rows {
			if rows[i] != tc.rows[i] {
				t.Errorf("%s: rows %v differ, want %v", name, rows, tc.rows)
			}
		}
	}
	long := answer{by: "b"}
	for i := range 100 {
		long.rows = append(long.rows, hit{store.ID(i + 10), 1})
	}
	if e := compare(base, long); len(e.Differences) != maxShown || e.LenB != 100 {
		t.Errorf("%d differences shown of %d rows", len(e.Differences), e.LenB)
	}
}

func TestDifferenceError(t *testing.T) {
	e := compare(answer{"fullscan", []hit{{1, 0.25}}, true}, answer{"h3, forced", []hit{{1, 0.5}, {2, 1}}, false})
	e.Set, e.Rows, e.Query = "dense", 300, store.Query{Radius: 5000, Limit: 100}
	text := e.Error()
	for _, want := range []string{"fullscan and h3, forced", `"dense" with 300 rows`, "5000", "1 jobs and a next page against 2",
		"row 1: job 1 at 0.25 m against job 1 at 0.5 m", "row 2: none against job 2 at 1 m"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
