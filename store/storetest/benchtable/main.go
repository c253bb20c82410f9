// Command benchtable turns the output of BenchmarkNearby on standard input into
// Markdown tables on standard output: for each engine, data set and size the
// strategies with their median time, its spread over the runs, and how many times
// as fast as fullscan they are in the same input.
//
//	go test ./store/storetest -run '^$' -bench Nearby -count 5 | go run ./store/storetest/benchtable
//
// Lines that are no benchmarks are left out; a benchmark's line that cannot be
// read is reported on standard error, and the rest goes on. Input without any result is an
// error. It compares medians only: whether a small difference is one, benchstat says.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

// yardstick is the strategy that the others are compared with.
const yardstick = "fullscan"

// table is one engine, data set and size.
type table struct {
	engine, data string
	rows         int
	strategies   []*strategy // in the order of the input
}

// strategy has a value for each run.
type strategy struct {
	name                            string
	seconds, candidates, statements []float64
}

func run(in io.Reader, out, warnings io.Writer) error {
	var tables []*table
	results := benchfmt.NewReader(in, "stdin")
	for results.Scan() {
		switch rec := results.Result().(type) {
		case *benchfmt.SyntaxError:
			fmt.Fprintln(warnings, "benchtable: left out:", rec)
		case *benchfmt.Result:
			var err error
			if tables, err = add(tables, rec); err != nil {
				file, line := rec.Pos()
				fmt.Fprintf(warnings, "benchtable: left out: %s:%d: %v\n", file, line, err)
			}
		}
	}
	if err := results.Err(); err != nil {
		return err
	}
	if len(tables) == 0 {
		return errors.New("the input has no results of BenchmarkNearby: did its pattern match one?")
	}
	slices.SortStableFunc(tables, func(a, b *table) int {
		return cmp.Or(cmp.Compare(a.engine, b.engine), cmp.Compare(a.data, b.data), cmp.Compare(a.rows, b.rows))
	})
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(out)
		}
		t.print(out)
	}
	return nil
}

// add puts a result into its table.
func add(tables []*table, r *benchfmt.Result) ([]*table, error) {
	base, parts := r.Name.Parts()
	if string(base) != "Nearby" {
		return tables, nil
	}
	label := make(map[string]string)
	for _, p := range parts {
		if k, v, ok := strings.Cut(strings.TrimPrefix(string(p), "/"), "="); ok {
			label[k] = v
		}
	}
	rows, err := strconv.Atoi(label["rows"])
	seconds, ok := r.Value("sec/op")
	if err != nil || !ok || label["engine"] == "" || label["data"] == "" || label["strategy"] == "" {
		return tables, fmt.Errorf("%s has no engine, strategy, data, rows or time", r.Name)
	}
	i := slices.IndexFunc(tables, func(t *table) bool {
		return t.engine == label["engine"] && t.data == label["data"] && t.rows == rows
	})
	if i < 0 {
		i = len(tables)
		tables = append(tables, &table{engine: label["engine"], data: label["data"], rows: rows})
	}
	s := tables[i].strategy(label["strategy"])
	if s == nil {
		s = &strategy{name: label["strategy"]}
		tables[i].strategies = append(tables[i].strategies, s)
	}
	s.seconds = append(s.seconds, seconds)
	if v, ok := r.Value("candidates/op"); ok {
		s.candidates = append(s.candidates, v)
	}
	if v, ok := r.Value("statements/op"); ok {
		s.statements = append(s.statements, v)
	}
	return tables, nil
}

func (t *table) strategy(name string) *strategy {
	for _, s := range t.strategies {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "%s, %s data, %d jobs:\n\n", t.engine, t.data, t.rows)
	fmt.Fprintln(out, "| strategy | median time | spread | against "+yardstick+" | candidates | statements |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|")
	against := t.strategy(yardstick)
	for _, s := range t.strategies {
		middle := median(s.seconds)
		ratio := "?"
		if against != nil {
			ratio = fmt.Sprintf("%.3g x", median(against.seconds)/middle)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", s.name, duration(middle), spread(s.seconds, middle), ratio, number(s.candidates), number(s.statements))
	}
}

// spread is how far the runs are from the median, at most.
func spread(xs []float64, middle float64) string {
	if len(xs) < 2 {
		return "one run"
	}
	far := max(slices.Max(xs)-middle, middle-slices.Min(xs))
	return fmt.Sprintf("± %.0f %%", 100*far/middle)
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

func number(xs []float64) string {
	if len(xs) == 0 {
		return "?"
	}
	return strconv.FormatFloat(median(xs), 'f', 1, 64)
}

// duration has three digits that count.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
