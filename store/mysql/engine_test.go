package mysql

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// start is when the test's jobs were posted, and now when the tests look.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// now is the OpenAt of accesses, in milliseconds.
const now = 1_780_000_000_000

// open returns an engine on an empty schema, migrated.
func open(tb testing.TB, o Options) *Engine {
	tb.Helper()
	e := openBare(tb, o, testdb.MySQL(tb))
	if err := e.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return e
}

func openBare(tb testing.TB, o Options, dsn string) *Engine {
	tb.Helper()
	e, err := Open(tb.Context(), dsn, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// job returns a normalized job.
func job(tb testing.TB, id int, at geo.LatLng) store.Job {
	tb.Helper()
	j := store.Job{
		ID: store.ID(id), Source: "test", SourceID: fmt.Sprint("s", id), Title: fmt.Sprint("Job ", id),
		Category: []string{"cleaning", "plumbing", "gardening", "moving", "delivery"}[id%5],
		Employer: fmt.Sprint("Employer number ", id%100),
		Pay:      store.Pay{Amount: int64(id%1000) * 100, Currency: "EUR", Per: "hour"},
		At:       at, Posted: start.Add(time.Duration(id) * time.Second),
	}
	if err := j.Normalize(); err != nil {
		tb.Fatal(err)
	}
	return j
}

// remoteJob returns a normalized job without a place.
func remoteJob(tb testing.TB, id int) store.Job {
	j := job(tb, id, geo.LatLng{})
	j.Remote = true
	return j
}

func save(tb testing.TB, e *Engine, jobs ...store.Job) store.Saved {
	tb.Helper()
	var all store.Saved
	for len(jobs) > 0 {
		n := min(len(jobs), 5000)
		s, err := e.Save(tb.Context(), jobs[:n])
		if err != nil {
			tb.Fatal(err)
		}
		all.Added += s.Added
		all.Updated += s.Updated
		jobs = jobs[n:]
	}
	return all
}

// read returns the candidates of an access by id, and in order.
func read(tb testing.TB, e *Engine, a store.Access) []store.Candidate {
	tb.Helper()
	var all []store.Candidate
	_, err := e.Read(tb.Context(), a, func(cs []store.Candidate) error {
		all = append(all, cs...)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func city(r *rand.Rand) geo.LatLng {
	return geo.LatLng{Lat: 52.5 + r.NormFloat64()*0.045, Lng: 13.4 + r.NormFloat64()*0.07}
}

// cityJobs returns n jobs with a normal spread of 5 km.
func cityJobs(tb testing.TB, n int) []store.Job {
	r := rand.New(rand.NewPCG(1, 2))
	jobs := make([]store.Job, n)
	for i := range jobs {
		jobs[i] = job(tb, i+1, city(r))
	}
	return jobs
}

func TestConformance(t *testing.T) {
	storetest.Conformance(t, func(t *testing.T) store.Engine { return openBare(t, Options{}, testdb.MySQL(t)) })
}
