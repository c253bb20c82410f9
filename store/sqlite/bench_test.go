package sqlite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// city returns jobs around a city's centre, normally spread by 5 km.
func city(n int) []store.Job {
	rnd := rand.New(rand.NewPCG(1, 2))
	jobs := make([]store.Job, n)
	for i := range jobs {
		jobs[i] = job(i+1, 37.5+rnd.NormFloat64()*.045, 127+rnd.NormFloat64()*.057)
		jobs[i].Category, jobs[i].Employer, jobs[i].Description = "moving", "Employer and Sons", strings.Repeat("Carry. ", 20)
		jobs[i].Pay.Amount = int64(i)
	}
	return jobs
}

// BenchmarkImport saves 200,000 new jobs in batches.
//
//	go test -run '^$' -bench Import -benchtime 1x ./store/sqlite
func BenchmarkImport(b *testing.B) {
	const rows = 200_000
	jobs := city(rows)
	for _, size := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				e := open(b, Options{})
				b.StartTimer()
				for batch := range slices.Chunk(jobs, size) {
					save(b, e, batch...)
				}
				if n, err := e.Count(b.Context()); n != rows || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkRead reads what the strategies read, from 200,000 jobs in a city.
//
//	go test -run '^$' -bench Read -benchtime 20x ./store/sqlite
func BenchmarkRead(b *testing.B) {
	jobs := city(200_000)
	e := open(b, Options{})
	for batch := range slices.Chunk(jobs, 5000) {
		save(b, e, batch...)
	}
	center := geo.LatLng{Lat: 37.5, Lng: 127}
	ring := &geo.Ring{Center: center, Outer: 1000}
	box := []geo.Rect{geo.Circle{Center: center, Radius: 1000}.Bound()}
	for _, c := range []struct {
		name string
		a    store.Access
	}{
		{"fullscan", store.Access{Index: store.NoIndex, Near: ring}},
		{"lat_lng", store.Access{Index: store.IndexLatLng, Rects: box, Near: ring}},
		{"spatial", store.Access{Index: store.IndexSpatial, Rects: box, Near: ring}},
		{"s2", store.Access{Index: store.IndexS2, Ranges: cover(jobs, 16, 25)}},
		{"s2/filter", store.Access{Index: store.IndexS2, Ranges: cover(jobs, 16, 25), Match: store.Match{Categories: []string{"moving"}, Employer: "Employer and Sons"}}},
		{"window", store.Access{Index: store.IndexS2, Window: &store.Window{At: cell.S2.Index(center), Hi: math.MaxInt64, Each: 25}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = 0
				if _, err := e.Read(b.Context(), c.a, func(cs []store.Candidate) error {
					n += len(cs)
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
			if n == 0 {
				b.Fatal("nothing read")
			}
			b.ReportMetric(float64(n), "candidates/op")
		})
	}

	// The ways to read several ranges, of which build uses the first.
	const cols = "SELECT open_job.id, lat, lng, pay, posted, expires FROM "
	for _, n := range []int{4, 16, 64} {
		ranges := cover(jobs, n, 384/n)
		var args []any
		for _, r := range ranges {
			args = append(args, r.Lo, r.Hi)
		}
		repeat := func(s, sep string) string { return strings.Join(slices.Repeat([]string{s}, n), sep) }
		json := fmt.Sprint(ranges)
		json = strings.NewReplacer("{", "[", "} ", "],", "}", "]").Replace(json)
		json = strings.ReplaceAll(json, " ", ",")
		for _, f := range []struct {
			name, sql string
			args      []any
		}{
			{"values", "(VALUES " + repeat("(?, ?)", ", ") + ") r CROSS JOIN open_job WHERE s2 BETWEEN r.column1 AND r.column2", args},
			{"union", "open_job WHERE s2 BETWEEN ? AND ?" + strings.Repeat(" UNION ALL "+cols+"open_job WHERE s2 BETWEEN ? AND ?", n-1), args},
			{"or", "open_job WHERE " + repeat("s2 BETWEEN ? AND ?", " OR "), args},
			{"json", "json_each(?) r CROSS JOIN open_job WHERE s2 BETWEEN r.value ->> 0 AND r.value ->> 1", []any{json}},
			{"each", "open_job WHERE s2 BETWEEN ? AND ?", args},
		} {
			b.Run(fmt.Sprintf("ranges=%d/by=%s", n, f.name), func(b *testing.B) {
				found := 0
				for b.Loop() {
					found = 0
					if err := e.read(b.Context(), func(c *conn) error {
						count := func(cs []store.Candidate) error {
							found += len(cs)
							return nil
						}
						if f.name != "each" {
							return c.candidates(&query{sql: cols + f.sql, args: f.args}, count)
						}
						for part := range slices.Chunk(f.args, 2) {
							if err := c.candidates(&query{sql: cols + f.sql, args: part}, count); err != nil {
								return err
							}
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}
				if found != 384 {
					b.Fatalf("%d rows", found)
				}
			})
		}
	}
}

// cover returns n ranges of S2 cells that hold each so many jobs.
func cover(jobs []store.Job, n, each int) []store.Interval {
	var keys []int64
	for _, j := range jobs {
		keys = append(keys, cell.S2.Index(j.At))
	}
	slices.Sort(keys)
	out := make([]store.Interval, n)
	for i := range out {
		at := len(keys)/3 + i*500
		out[i] = store.Interval{Lo: keys[at], Hi: keys[at+each-1]}
	}
	return out
}
