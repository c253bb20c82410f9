package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestParseWarning(t *testing.T) {
	for line, want := range map[string]result.Warning{
		"Warning 3674: The spatial index on column 'pt' will not be used": {Level: "Warning", Code: 3674, Text: "The spatial index on column 'pt' will not be used"},
		"Note 1051: a: b\nc":            {Level: "Note", Code: 1051, Text: "a: b\nc"},
		"Error 1292: ":                  {Level: "Error", Code: 1292},
		"something else":                {Level: "Warning", Text: "something else"},
		"Warning 99999999999999999999:": {Level: "Warning", Text: "Warning 99999999999999999999:"},
	} {
		if got := parseWarning(line); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

// TestWarningOfServer has a real warning come through the engine in the form that
// parseWarning takes apart: ranges that need more memory than the optimizer may use.
func TestWarningOfServer(t *testing.T) {
	e, err := mysql.Open(t.Context(), testdb.MySQL(t), mysql.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DB().ExecContext(t.Context(), "SET SESSION range_optimizer_max_mem_size = 1"); err != nil {
		t.Fatal(err)
	}
	statements, err := e.Explain(t.Context(), store.Access{Index: store.IndexH3, Ranges: []store.Interval{{Lo: 1, Hi: 5}, {Lo: 9, Hi: 12}}})
	if err != nil || len(statements) != 1 {
		t.Fatalf("%v, %v", statements, err)
	}
	var got []result.Warning
	for _, w := range statements[0].Warnings {
		got = append(got, parseWarning(w))
	}
	if !slices.ContainsFunc(got, func(w result.Warning) bool {
		return w.Level == "Warning" && w.Code == 3170 && strings.Contains(w.Text, "range_optimizer_max_mem_size")
	}) {
		t.Errorf("warnings %+v", got)
	}
}

func TestLiterals(t *testing.T) {
	got := literals([]any{int64(5), 7, 0.1, 1e21, "it's a \\", nil, store.ID(9)})
	want := []string{"5", "7", "0.1", "1e+21", `'it''s a \\'`, "NULL", "9"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestInterleave: every query runs as often as its budget says, once more to warm up,
// and none runs twice before all others have run.
func TestInterleave(t *testing.T) {
	for _, tc := range []struct {
		name         string
		budget       budget
		spend        time.Duration // of a runner
		want         int
		runs, warmed int
	}{
		{"no time", budget{min: 4, max: 9, few: 2, slow: time.Hour}, 0, 4, 0, 1},
		{"much time", budget{min: 4, max: 9, few: 2, slow: time.Hour}, time.Hour, 9, 0, 1},
		{"slow", budget{min: 4, max: 9, few: 2, slow: -1}, 0, 2, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var order []int
			var all []*runner
			for i := range 5 {
				all = append(all, &runner{budget: tc.spend, run: func(context.Context) error { order = append(order, i); return nil }})
			}
			if err := tc.budget.interleave(t.Context(), rand.New(rand.NewPCG(1, 2)), all); err != nil {
				t.Fatal(err)
			}
			if len(order) != 5*(1+tc.want) {
				t.Fatalf("%d runs, want %d", len(order), 5*(1+tc.want))
			}
			for round := range slices.Chunk(order, 5) {
				if slices.Sort(round); !slices.Equal(round, []int{0, 1, 2, 3, 4}) {
					t.Errorf("a round ran %v", round)
				}
			}
			for _, r := range all {
				if len(r.times) != tc.want {
					t.Errorf("%d times, want %d", len(r.times), tc.want)
				}
			}
		})
	}
	fault := errors.New("fault")
	b := budget{min: 1, max: 1}
	err := b.interleave(t.Context(), rand.New(rand.NewPCG(1, 2)), []*runner{{run: func(context.Context) error { return fault }}})
	if !errors.Is(err, fault) {
		t.Errorf("the error is %v", err)
	}
}
