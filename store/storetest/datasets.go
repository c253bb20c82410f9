package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/ingest"
)

// EnvSeed names the variable with the seed of all random choices: a number, or
// "random" for a new one, which the tests print. Without it the seed is fixed.
const EnvSeed = "NEARJOB_SEED"

const fixedSeed = 20260601

// seed returns the seed of this run.
func seed(t *testing.T) uint64 {
	t.Helper()
	switch s := os.Getenv(EnvSeed); s {
	case "":
		return fixedSeed
	case "random":
		n := rand.Uint64()
		t.Logf("%s=%d", EnvSeed, n)
		return n
	default:
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q: want a number or \"random\"", EnvSeed, s)
		}
		return n
	}
}

// clock is the time at which the data sets are searched: some jobs expire in
// just this millisecond, some in the next.
var clock = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// dataset is a named set of jobs.
type dataset struct {
	name string
	jobs []store.Job
}

// realData is where the postings of code4lib are, if they are.
const realData = "../../../shared/data/code4lib_jobs.geojson"

// shapes lists the places of the made-up data sets.
var shapes = []struct {
	name  string
	place func(r *rand.Rand, n int) geo.LatLng
}{
	{"dense", func(r *rand.Rand, _ int) geo.LatLng {
		return geo.LatLng{Lat: 37.5663 + r.NormFloat64()*0.045, Lng: 126.9779 + r.NormFloat64()*0.057}
	}},
	{"sparse", func(r *rand.Rand, n int) geo.LatLng {
		if n%10 == 0 {
			return anywhere(r)
		}
		return geo.LatLng{Lat: 47 + 6*r.Float64(), Lng: 6 + 9*r.Float64()}
	}},
	// Hundreds on each of few points, two of which are a hair apart.
	{"stacked", func(r *rand.Rand, n int) geo.LatLng {
		return []geo.LatLng{
			{Lat: 40.7142, Lng: -74.0064}, {Lat: 40.7142, Lng: math.Nextafter(-74.0064, 0)},
			{Lat: 40.7143, Lng: -74.0064}, {Lat: 40.7527, Lng: -73.9772}, {Lat: 0, Lng: 0},
		}[n%5]
	}},
	// Every two metres on a meridian, so that a gap between two rounds of a search
	// shows wherever it is; then farther and farther apart.
	{"line", func(r *rand.Rand, n int) geo.LatLng {
		metres := 2 * float64(n%1500)
		if n%8 == 0 {
			metres = math.Pow(10, 7*r.Float64())
		}
		return geo.LatLng{Lat: -1 + metres/geo.MaxDistance*180, Lng: 36.8}
	}},
	{"antimeridian", func(r *rand.Rand, n int) geo.LatLng {
		switch n % 8 {
		case 0: // on it
			return geo.LatLng{Lat: -17 + r.NormFloat64(), Lng: 180}
		case 1: // beside it, by as little as can be
			return geo.LatLng{Lat: -17 + r.NormFloat64(), Lng: math.Copysign(math.Nextafter(180, 0), r.Float64()-0.5)}
		case 2:
			return geo.LatLng{Lat: 71 + r.NormFloat64()/5, Lng: wrap(180 + r.NormFloat64())}
		}
		return geo.LatLng{Lat: -17 + r.NormFloat64()/3, Lng: wrap(180 + r.NormFloat64()/3)}
	}},
	{"polar", func(r *rand.Rand, n int) geo.LatLng {
		side := math.Copysign(1, r.Float64()-0.5)
		switch n % 6 {
		case 0: // at a pole, which has all longitudes
			return geo.LatLng{Lat: side * 90, Lng: 360*r.Float64() - 180}
		case 1:
			return geo.LatLng{Lat: side * math.Nextafter(90, 0), Lng: 45 * float64(r.IntN(8)-3)}
		case 2:
			return geo.LatLng{Lat: side * (90 - 20*r.Float64()), Lng: 360*r.Float64() - 180}
		}
		return geo.LatLng{Lat: side * (90 - math.Abs(r.NormFloat64())/4), Lng: 360*r.Float64() - 180}
	}},
}

// datasets returns the data sets with about rows jobs each, the real one as it
// is. Equal seeds make equal sets.
func datasets(t *testing.T, seed uint64, rows int) []dataset {
	t.Helper()
	var sets []dataset
	for i, s := range shapes {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		sets = append(sets, dataset{s.name, makeJobs(t, r, rows, s.place)})
	}
	if real, ok := readReal(t); ok {
		sets = append(sets, real)
	}
	return sets
}

// makeJobs makes normalized jobs with everything that filters and orders tell
// apart, and with many ties in it.
func makeJobs(t *testing.T, r *rand.Rand, rows int, place func(*rand.Rand, int) geo.LatLng) []store.Job {
	t.Helper()
	ids := make(map[store.ID]bool, rows)
	jobs := make([]store.Job, 0, rows)
	for n := range rows {
		// Not in the order of anything else.
		id := store.ID(1 + r.Int64N(math.MaxInt64))
		for ids[id] {
			id = store.ID(1 + r.Int64N(math.MaxInt64))
		}
		ids[id] = true
		j := store.Job{
			ID: id, Source: "test", SourceID: strconv.Itoa(n), Title: fmt.Sprintf("Job %d", n),
			Category: pick(r, categories), Employer: pick(r, employers),
			At: place(r, n), State: store.Open,
			Posted: clock.Add(-time.Duration(r.IntN(40*24)) * time.Hour),
		}
		if r.IntN(8) != 0 {
			j.Pay = store.Pay{Amount: int64(1+r.IntN(50)) * 1000, Currency: "EUR", Per: "hour"}
		}
		if r.IntN(3) == 0 {
			j.Expires = clock.Add(pick(r, []time.Duration{-24 * time.Hour, -time.Millisecond, 0, time.Millisecond, time.Hour, 1000 * time.Hour}))
		}
		switch r.IntN(25) {
		case 0:
			j.Remote = true
		case 1:
			j.State = pick(r, []store.State{store.Matched, store.Cancelled, store.Expired})
		}
		if err := j.Normalize(); err != nil {
			t.Fatalf("job %d of a data set: %v", n, err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// The texts that filters compare: alike to a careless collation, but different.
var (
	categories = []string{"delivery", "cleaning", "café", "cafe", "moving", "배달", "it & repair", "100%", "100_"}
	employers  = []string{"", "Acme", "acme", "ACME", "Ácme", "O'Brien \"& Sons\"", `back\slash`, "길동이네", "🚲 Riders", "Straße", "Strasse", "a%", "ab"}
)

// readReal reads the real postings, or says loudly that there are none.
func readReal(t *testing.T) (dataset, bool) {
	t.Helper()
	f, err := os.Open(realData)
	if err != nil {
		t.Logf("WARNING: NO REAL DATA: the tests run without the postings of code4lib: %v", err)
		return dataset{}, false
	}
	defer f.Close()
	ids, err := store.NewIDs(func() time.Time { return clock }, 1)
	if err != nil {
		t.Fatal(err)
	}
	var all collector
	if _, err := ingest.Import(t.Context(), f, realData, &all, ingest.Options{Now: clock, IDs: ids}); err != nil {
		t.Fatal(err)
	}
	if len(all) < 2000 {
		t.Fatalf("%s has %d usable jobs, want at least 2000", realData, len(all))
	}
	return dataset{"real", all}, true
}

// collector keeps what an import saves.
type collector []store.Job

func (c *collector) Save(_ context.Context, jobs []store.Job) (store.Saved, error) {
	*c = append(*c, jobs...)
	return store.Saved{Added: len(jobs)}, nil
}

var _ ingest.Saver = (*collector)(nil)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// anywhere returns a point with a uniform distribution on the sphere.
func anywhere(r *rand.Rand) geo.LatLng {
	return geo.LatLng{Lat: math.Asin(2*r.Float64()-1) * 180 / math.Pi, Lng: 360*r.Float64() - 180}
}

// wrap brings a longitude that is out by less than a turn into -180..180.
func wrap(lng float64) float64 {
	switch {
	case lng > 180:
		return lng - 360
	case lng < -180:
		return lng + 360
	}
	return lng
}
