package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example.com/x
BenchmarkNearby/engine=sqlite/strategy=fullscan/data=dense/rows=20000-2 	 100 	 12000000 ns/op	 101.0 candidates/op	 2.000 statements/op
BenchmarkNearby/engine=sqlite/strategy=fullscan/data=dense/rows=20000-2 	 100 	 10000000 ns/op	 101.0 candidates/op	 2.000 statements/op
BenchmarkNearby/engine=sqlite/strategy=fullscan/data=dense/rows=20000-2 	 100 	 11000000 ns/op	 101.0 candidates/op	 2.000 statements/op
BenchmarkNearby/engine=sqlite/strategy=s2/data=dense/rows=20000-2 	 1000 	 220456 ns/op	 250.4 candidates/op	 3.500 statements/op
BenchmarkNearby/engine=sqlite/strategy=s2/data=dense/rows=5000-2 	 1000 	 100000 ns/op
BenchmarkNearby/engine=sqlite/strategy=s2/data=dense/rows=5000-2 	 1000 	 oops ns/op
BenchmarkNearby/engine=sqlite/data=dense/rows=many-2 	 1000 	 1 ns/op
BenchmarkOther-2 	 1000 	 1 ns/op
ok  	example.com/x	5.432s
`

const want = `sqlite, dense data, 5000 jobs:

| strategy | median time | spread | against fullscan | candidates | statements |
|---|--:|--:|--:|--:|--:|
| s2 | 100µs | one run | ? | ? | ? |

sqlite, dense data, 20000 jobs:

| strategy | median time | spread | against fullscan | candidates | statements |
|---|--:|--:|--:|--:|--:|
| fullscan | 11ms | ± 9 % | 1 x | 101.0 | 2.0 |
| s2 | 220µs | one run | 49.9 x | 250.4 | 3.5 |
`

func TestRun(t *testing.T) {
	var out, warnings strings.Builder
	if err := run(strings.NewReader(output), &out, &warnings); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if w := warnings.String(); strings.Count(w, "\n") != 2 || !strings.Contains(w, "stdin:8") || !strings.Contains(w, "stdin:9") {
		t.Errorf("warnings:\n%s", w)
	}
}

func TestRunNothing(t *testing.T) {
	for _, in := range []string{"", "PASS\n", "BenchmarkOther-2 	 1000 	 1 ns/op\n"} {
		var out strings.Builder
		if err := run(strings.NewReader(in), &out, &out); err == nil || out.Len() > 0 {
			t.Errorf("input %q: error %v, output %q", in, err, out.String())
		}
	}
}
