package storetest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// BenchmarkNearby measures one page by each strategy on each engine, warm. What is
// measured is the whole of Find: all rounds, and the records of the page. Run a
// part of it, for each data set takes up to a minute to load, only when asked for:
//
//	go test ./store/storetest -run '^$' -bench 'Nearby/engine=sqlite/strategy=(s2|bbox)/data=dense/rows=50000$'
//
// The output is for benchstat (-col /strategy), or for the command benchtable below
// this folder, which makes a table of it.
func BenchmarkNearby(b *testing.B) {
	sets := make(map[string]*loaded)
	for _, engine := range []struct {
		name string
		db   database
	}{{"sqlite", sqliteFile}, {"mysql", mysqlSchema}} {
		b.Run("engine="+engine.name, func(engineB *testing.B) {
			if engine.name == "mysql" && !haveMySQL() {
				engineB.Skipf("needs MySQL: run make bench, or set %s", testdb.EnvDSN)
			}
			for _, strategy := range search.Strategies() {
				engineB.Run("strategy="+strategy.Name(), func(b *testing.B) {
					for _, shape := range []dataset.Shape{dataset.Dense, dataset.Sparse} {
						b.Run("data="+string(shape), func(b *testing.B) {
							for _, rows := range []int{5000, 20_000, 50_000, 100_000, 200_000} {
								b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
									key := fmt.Sprint(engine.name, shape, rows)
									if sets[key] == nil {
										// Of the engine's benchmark, so that it outlives this one.
										sets[key] = loadSet(engineB, engine.db, shape, rows)
									}
									benchmarkNearby(b, sets[key], strategy.Name())
								})
							}
						})
					}
				})
			}
		})
	}
}

func benchmarkNearby(b *testing.B, set *loaded, strategy string) {
	ctx := b.Context()
	find := func(n int) store.Page {
		q := set.queries[n%len(set.queries)]
		q.Strategy = strategy
		p, err := set.finder.Find(ctx, q)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	for n, want := range set.want {
		if p := find(n); !slices.EqualFunc(p.Jobs, want, func(f store.Found, id store.ID) bool { return f.Job.ID == id }) {
			b.Fatalf("%v: the rows are not those of the oracle", set.queries[n])
		}
	}
	var sum store.Stats
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		p := find(n)
		if want := len(set.want[n%len(set.want)]); len(p.Jobs) != want {
			b.Fatalf("%d rows, want %d", len(p.Jobs), want)
		}
		sum = sum.Add(p.Stats)
		n++
	}
	b.ReportMetric(float64(sum.Candidates)/float64(n), "candidates/op")
	b.ReportMetric(float64(sum.Statements)/float64(n), "statements/op")
}
