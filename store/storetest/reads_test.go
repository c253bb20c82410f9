package storetest_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/store/storetest"
)

// TestReads holds that the cell strategies read few rows where there are many: in a
// city of 200,000 jobs (a normal spread of 5 km), for the nearest 100 within 3 km,
// at most 4 candidates for each job returned and 3 rounds, in the median.
func TestReads(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testReads(t, sqliteFile) })
	t.Run("mysql", func(t *testing.T) { testReads(t, mysqlSchema) })
}

func testReads(t *testing.T, db database) {
	if testing.Short() {
		t.Skip("fills a database with 200,000 jobs")
	}
	t.Parallel() // loading MySQL is waiting for the most part
	const (
		queries       = 200
		maxCandidates = 4 // for each job returned
		maxRounds     = 3
	)
	set := loadSet(t, db, dataset.Dense, 200_000)
	r := rand.New(rand.NewPCG(1, 1))
	for _, strategy := range []string{"geohash", "h3", "s2"} {
		var candidates, rounds, statements []float64
		for range queries {
			q := benchQuery(dataset.Dense, set.near(r))
			q.Strategy = strategy
			p, err := set.finder.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Jobs) == 0 {
				continue // a centre on the outskirts
			}
			candidates = append(candidates, float64(p.Stats.Candidates)/float64(len(p.Jobs)))
			rounds = append(rounds, float64(p.Stats.Rounds))
			statements = append(statements, float64(p.Stats.Statements))
		}
		if len(candidates) < queries*9/10 {
			t.Fatalf("only %d of %d queries found something", len(candidates), queries)
		}
		c, n := median(candidates), median(rounds)
		t.Logf("%s: candidates for each job returned: median %.2f, 95%% below %.2f; rounds: median %.0f, 95%% at most %.0f; statements: median %.0f",
			strategy, c, quantile(candidates, 0.95), n, quantile(rounds, 0.95), median(statements))
		if c > maxCandidates {
			t.Errorf("%s reads %.2f candidates for each job returned, want at most %d", strategy, c, maxCandidates)
		}
		if n > maxRounds {
			t.Errorf("%s takes %.0f rounds, want at most %d", strategy, n, maxRounds)
		}
	}
}

func median(xs []float64) float64 { return quantile(xs, 0.5) }

func quantile(xs []float64, p float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[min(len(xs)-1, int(p*float64(len(xs))))]
}

// loaded is a data set in an engine.
type loaded struct {
	jobs   []store.Job
	places []geo.LatLng // of the jobs that have one
	finder *search.Finder

	// What is measured, and the ids that the oracle finds.
	queries []store.Query
	want    [][]store.ID
}

// near returns a point some hundred metres from a job.
func (s *loaded) near(r *rand.Rand) geo.LatLng {
	p := s.places[r.IntN(len(s.places))]
	return geo.LatLng{Lat: p.Lat + r.NormFloat64()*0.002, Lng: p.Lng + r.NormFloat64()*0.002}
}

func now() time.Time { return dataset.DefaultPosted() }

// loadSet fills a new database.
func loadSet(tb testing.TB, db database, shape dataset.Shape, rows int) *loaded {
	tb.Helper()
	e := db(tb)(tb)
	ctx := tb.Context()
	if err := e.Migrate(ctx); err != nil {
		tb.Fatal(err)
	}
	s := &loaded{jobs: slices.Collect(dataset.Config{Rows: rows, Shape: shape, Center: dataset.Seoul(), Seed: 1}.Jobs())}
	for batch := range slices.Chunk(s.jobs, 5000) {
		if _, err := e.Save(ctx, batch); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range s.jobs {
		if !s.jobs[i].Remote {
			s.places = append(s.places, s.jobs[i].At)
		}
	}
	s.finder = search.New(e, now)
	r := rand.New(rand.NewPCG(2, 2)) // the same centres for all engines
	for range 32 {
		q := benchQuery(shape, s.near(r))
		s.queries = append(s.queries, q)
		s.want = append(s.want, oracleIDs(s.jobs, q))
	}
	return s
}

// benchQuery is what is measured: in a city the nearest 100 within 3 km, in a
// country the nearest 20 within 50 km.
func benchQuery(shape dataset.Shape, center geo.LatLng) store.Query {
	if shape == dataset.Dense {
		return store.Query{Center: center, Radius: 3000, Limit: 100}
	}
	return store.Query{Center: center, Radius: 50_000, Limit: 20}
}

// oracleIDs are the ids of the first page of a query.
func oracleIDs(jobs []store.Job, q store.Query) (ids []store.ID) {
	for _, f := range storetest.Oracle(jobs, q, now()) {
		if len(ids) == q.Limit {
			break
		}
		ids = append(ids, f.Job.ID)
	}
	return ids
}
