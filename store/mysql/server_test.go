package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/testdata/testdb"
)

var nowhere = geo.LatLng{Lat: -60, Lng: -120}

// slow is an access that returns nothing and takes seconds on a few thousand
// rows: distances for the whole earth, n times over.
func slow(n int) store.Access {
	earth := geo.Rect{South: -90, West: -180, North: 90, East: 180}
	return store.Access{Index: store.IndexLatLng, Rects: slices.Repeat([]geo.Rect{earth}, n),
		Near: &geo.Ring{Center: nowhere, Outer: 1}, Match: store.Match{OpenAt: now}}
}

// TestBig holds what needs many rows.
func TestBig(t *testing.T) {
	dsn := testdb.MySQL(t)
	e := openBare(t, Options{}, dsn)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	jobs := cityJobs(t, 20_000)
	save(t, e, jobs...)
	t.Logf("saved %d jobs in %v", len(jobs), time.Since(begin))
	for i := range 50 {
		save(t, e, remoteJob(t, 100_001+i))
	}
	for _, table := range []string{"open_job", "open_remote_job"} {
		if _, err := e.db.Exec("ANALYZE TABLE " + table); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("Plans", func(t *testing.T) { testPlans(t, e) })
	t.Run("Windows", func(t *testing.T) { testWindows(t, e, jobs) })
	t.Run("ManyRanges", func(t *testing.T) { testManyRanges(t, e, jobs) })
	t.Run("Cancel", func(t *testing.T) {
		testCancel(t, e, slow(40))  // prepared
		testCancel(t, e, slow(400)) // as text
	})
	t.Run("PoolFull", func(t *testing.T) { testPoolFull(t, dsn) })
	t.Run("Timeout", func(t *testing.T) { testTimeout(t, dsn) })
	t.Run("Yield", func(t *testing.T) { testYield(t, e, len(jobs)) })
}

// testPlans checks that each access uses the index it is meant for, as the
// optimizer is left free, and that Force holds.
func testPlans(t *testing.T, e *Engine) {
	center := geo.LatLng{Lat: 52.5, Lng: 13.4}
	box := geo.Rect{South: 52.49, West: 13.39, North: 52.51, East: 13.41}
	s2, h3, geohash := numbers(center)
	around := func(n int64) []store.Interval {
		return []store.Interval{{Lo: n - 1<<20, Hi: n - 1<<10}, {Lo: n, Hi: n + 1<<20}}
	}
	window := func(n int64) *store.Window { return &store.Window{Lo: 0, At: n, Hi: 1<<62 - 1, Each: 200} }
	near := &geo.Ring{Center: center, Outer: 1000}
	for _, c := range []struct {
		name string
		a    store.Access
		want string // in the plan
		not  string
	}{
		{"box", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{box}}, "Covering index range scan on open_job using lat_lng", ""},
		{"box near", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{box}, Near: near, Order: store.NearestFirst, Limit: 20}, "Covering index range scan on open_job using lat_lng", ""},
		{"boxes", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{box, {South: 52.49, West: 13.42, North: 52.51, East: 13.44}}, Near: near}, "Covering index range scan on open_job using lat_lng", "Table scan on open_job"},
		{"box by category", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{box}, Match: store.Match{Categories: []string{"moving"}}}, "Covering index range scan on open_job using lat_lng", ""},
		{"box by employer, forced", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{box}, Match: store.Match{Employer: "Employer number 5"}, Force: true}, "using lat_lng", ""},
		{"spatial", store.Access{Index: store.IndexSpatial, Rects: []geo.Rect{box}}, "using pt", ""},
		{"spatial near", store.Access{Index: store.IndexSpatial, Rects: []geo.Rect{box}, Near: near, Order: store.NearestFirst, Limit: 20}, "using pt", ""},
		{"s2", store.Access{Index: store.IndexS2, Ranges: around(s2)}, "using PRIMARY", ""},
		{"h3", store.Access{Index: store.IndexH3, Ranges: around(h3)}, "Covering index range scan on open_job using h3", ""},
		{"geohash", store.Access{Index: store.IndexGeohash, Ranges: around(geohash)}, "Covering index range scan on open_job using geohash", ""},
		{"s2 window", store.Access{Index: store.IndexS2, Window: window(s2)}, "using PRIMARY", "Sort"},
		{"h3 window", store.Access{Index: store.IndexH3, Window: window(h3)}, "Covering index range scan on open_job using h3", "Sort"},
		{"geohash window", store.Access{Index: store.IndexGeohash, Window: window(geohash)}, "Covering index range scan on open_job using geohash", "Sort"},
		{"scan forced", store.Access{Index: store.NoIndex, Near: near, Force: true}, "Table scan on open_job", "using"},
		{"box of all, forced", store.Access{Index: store.IndexLatLng, Rects: []geo.Rect{{South: -90, West: -180, North: 90, East: 180}}, Match: store.Match{Employer: "Employer number 5"}, Force: true}, "using lat_lng", ""},
		{"h3 of all, forced", store.Access{Index: store.IndexH3, Ranges: []store.Interval{{Lo: 0, Hi: 1<<62 - 1}}, Match: store.Match{Employer: "Employer number 5"}, Force: true}, "using h3", ""},
		{"remote by id", store.Access{Index: store.IndexRemote, Order: store.LowestIDFirst, After: &store.RemoteAfter{ID: 100_010}, Limit: 5}, "using PRIMARY", "Sort"},
		{"remote newest", store.Access{Index: store.IndexRemote, Order: store.NewestFirst, After: &store.RemoteAfter{ID: 100_040, Posted: store.Millis(start.Add(100_040 * time.Second))}, Limit: 5, Force: true}, "using posted_id", "Sort"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.Match.OpenAt = now
			// With a deadline, so that a misplaced hint shows as a warning.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			plans, err := e.Explain(ctx, c.a)
			if err != nil {
				t.Fatal(err)
			}
			if len(plans) != 1 {
				t.Fatalf("%d statements", len(plans))
			}
			p := plans[0]
			if !strings.Contains(p.Plan, c.want) || c.not != "" && strings.Contains(p.Plan, c.not) {
				t.Errorf("plan of %s lacks %q or has %q:\n%s", p.SQL, c.want, c.not, p.Plan)
			}
			if !bytes.Contains(p.PlanJSON, []byte(`"actual_rows"`)) {
				t.Errorf("the JSON plan has no actual rows: %.200s", p.PlanJSON)
			}
			for _, w := range p.Warnings {
				t.Errorf("warning %s", w)
			}
			_, statements, err := build(c.a, 2*time.Second)
			if err != nil || p.SQL != statements[0].sql || fmt.Sprint(p.Args) != fmt.Sprint(statements[0].args) {
				t.Errorf("explained %s %v", p.SQL, p.Args)
			}
		})
	}
}

// testWindows compares windows with what a sorted slice gives.
func testWindows(t *testing.T, e *Engine, jobs []store.Job) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, index := range []store.Index{store.IndexS2, store.IndexH3, store.IndexGeohash} {
		number := func(p geo.LatLng) int64 {
			s2, h3, geohash := numbers(p)
			return map[store.Index]int64{store.IndexS2: s2, store.IndexH3: h3, store.IndexGeohash: geohash}[index]
		}
		rows := make([]int64, len(jobs))
		byID := make(map[store.ID]int64, len(jobs))
		for i, j := range jobs {
			rows[i] = number(j.At)
			byID[j.ID] = rows[i]
		}
		slices.Sort(rows)
		for range 30 {
			w := store.Window{Lo: rows[r.IntN(200)], At: number(city(r)), Hi: rows[len(rows)-1-r.IntN(200)], Each: 1 + r.IntN(300)}
			if r.IntN(3) == 0 {
				w.At = rows[r.IntN(len(rows))] // belongs to the upper half
			}
			if r.IntN(4) == 0 {
				w.Lo, w.Hi = w.At-1<<20, w.At+1<<20 // holds fewer than Each
			}
			from, _ := slices.BinarySearch(rows, max(w.Lo, 0))
			at, _ := slices.BinarySearch(rows, w.At)
			to, _ := slices.BinarySearch(rows, w.Hi+1)
			from, at = min(from, at), max(from, at)
			want := slices.Concat(rows[max(from, at-w.Each):at], rows[at:max(at, min(to, at+w.Each))])
			a := store.Access{Index: index, Window: &w, Match: store.Match{OpenAt: now, Categories: []string{"no such"}, MinPay: 1e14}}
			var got []int64
			for _, c := range read(t, e, a) {
				if byID[c.ID] != c.Number || c.Category == "" || c.Employer != "" {
					t.Fatalf("%s: candidate %+v, want number %d and a category", index, c, byID[c.ID])
				}
				got = append(got, c.Number)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s %+v: %d rows, want %d", index, w, len(got), len(want))
			}
			a.Match.OpenAt = 1 << 60
			if got := read(t, e, a); len(got) != 0 {
				t.Errorf("%s: %d expired rows", index, len(got))
			}
		}
	}
}

// testManyRanges reads by more ranges than a statement holds, and checks that
// the largest statement is within the range optimizer's memory.
func testManyRanges(t *testing.T, e *Engine, jobs []store.Job) {
	numbers2 := make([]int64, len(jobs))
	for i, j := range jobs {
		numbers2[i], _, _ = numbers(j.At)
	}
	slices.Sort(numbers2)
	var ranges []store.Interval
	for i := 0; i+1 < len(numbers2); i += 8 {
		if numbers2[i] != numbers2[i+1] && (len(ranges) == 0 || ranges[len(ranges)-1].Hi < numbers2[i]) {
			ranges = append(ranges, store.Interval{Lo: numbers2[i], Hi: numbers2[i]})
		}
	}
	want := 0
	for _, n := range numbers2 {
		if _, ok := slices.BinarySearchFunc(ranges, n, func(r store.Interval, n int64) int { return int(min(1, max(-1, r.Lo-n))) }); ok {
			want++
		}
	}
	a := store.Access{Index: store.IndexS2, Ranges: ranges, Match: store.Match{OpenAt: now}}
	n := 0
	statements, err := e.Read(t.Context(), a, func(cs []store.Candidate) error { n += len(cs); return nil })
	if err != nil || n != want || statements != (len(ranges)+maxRanges-1)/maxRanges || statements < 2 {
		t.Errorf("%d ranges: %d rows in %d statements, want %d; %v", len(ranges), n, statements, want, err)
	}
	a.Match.Categories = slices.Repeat([]string{"cleaning"}, store.MaxCategories)
	a.Match.Employer = "Employer number 5"
	plans, err := e.Explain(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if len(p.Warnings) != 0 || !strings.Contains(p.Plan, "Index range scan on open_job using PRIMARY") {
			t.Errorf("%v\n%.300s", p.Warnings, p.Plan)
		}
	}
	a.Limit = 10
	a.Match = store.Match{OpenAt: now}
	n = 0
	if statements, err := e.Read(t.Context(), a, func(cs []store.Candidate) error { n += len(cs); return nil }); n != 10 || statements != 1 || err != nil {
		t.Errorf("with limit 10: %d rows, %d statements, %v", n, statements, err)
	}
}

// running returns the connections of this test's schema, but for the asking one's, that
// execute something.
func running(t *testing.T, e *Engine) (ids []int64) {
	t.Helper()
	err := e.db.Select(&ids, "SELECT id FROM performance_schema.processlist WHERE db = DATABASE() AND command <> 'Sleep' AND id <> CONNECTION_ID()")
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// awaitRunning waits until so many connections execute something.
func awaitRunning(t *testing.T, e *Engine, n int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for len(running(t, e)) != n {
		if time.Now().After(deadline) {
			t.Fatalf("%d statements run, want %d", len(running(t, e)), n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitQuiet fails the test when something still runs after a second: a killed
// session looks for the kill at its next row.
func awaitQuiet(t *testing.T, e *Engine) {
	t.Helper()
	deadline := time.Now().Add(time.Second)
	for len(running(t, e)) > 0 {
		if time.Now().After(deadline) {
			t.Errorf("connections %v still execute on the server", running(t, e))
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func testCancel(t *testing.T, e *Engine, a store.Access) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := e.Read(ctx, a, func([]store.Candidate) error { return errors.New("a row") })
		done <- err
	}()
	awaitRunning(t, e, 1)
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("Read returned %v", err)
	}
	awaitQuiet(t, e)
}

// testPoolFull cancels when every connection of the pool is taken.
func testPoolFull(t *testing.T, dsn string) {
	e, watch := openBare(t, Options{MaxConns: 2}, dsn), openBare(t, Options{}, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := e.Read(ctx, slow(60), func([]store.Candidate) error { return nil }); err != context.Canceled {
				t.Errorf("Read returned %v", err)
			}
		})
	}
	awaitRunning(t, watch, 2)
	cancel()
	wg.Wait()
	awaitQuiet(t, watch)
}

func testTimeout(t *testing.T, dsn string) {
	var log bytes.Buffer
	watch := openBare(t, Options{}, dsn)
	e := openBare(t, Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))}, dsn)
	nothing := func([]store.Candidate) error { return nil }
	for name, a := range map[string]store.Access{"prepared": slow(60), "text": slow(200)} {
		if _, err := e.Read(t.Context(), a, nothing); !errors.Is(err, store.ErrTimeout) || !hasNumber(err, errStatementTime) {
			t.Errorf("%s: Read past the limit returned %v", name, err)
		}
		awaitQuiet(t, watch)
		if _, err := e.Explain(t.Context(), a); !errors.Is(err, store.ErrTimeout) {
			t.Errorf("%s: Explain past the limit returned %v", name, err)
		}
		awaitQuiet(t, watch)
	}
	// A context's deadline, which comes sooner, is the context's error.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := watch.Read(ctx, slow(60), nothing); err != context.DeadlineExceeded {
		t.Errorf("Read past the deadline returned %v", err)
	}
	awaitQuiet(t, watch)
	// The server's own limit, as set for that deadline, is enough without the kill.
	_, statements, err := build(slow(60), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.db.Exec(statements[0].sql, statements[0].args...); !hasNumber(err, errStatementTime) {
		t.Errorf("the hint gave %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// testYield checks that an error of the callback ends the reading and comes
// back, and that chunks are bounded.
func testYield(t *testing.T, e *Engine, rows int) {
	stop := errors.New("enough")
	a := store.Access{Index: store.NoIndex, Match: store.Match{OpenAt: now}}
	calls := 0
	if _, err := e.Read(t.Context(), a, func([]store.Candidate) error { calls++; return stop }); err != stop || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	n, most := 0, 0
	if _, err := e.Read(t.Context(), a, func(cs []store.Candidate) error { n += len(cs); most = max(most, len(cs)); return nil }); err != nil || n != rows || most != chunk {
		t.Errorf("%d rows in chunks of %d, %v", n, most, err)
	}
}

// TestWriteLimits checks that writes which wait for a lock end with the limit,
// with a cancelled context, and leave nothing behind on the server.
func TestWriteLimits(t *testing.T) {
	dsn := testdb.MySQL(t)
	watch := openBare(t, Options{}, dsn)
	e := openBare(t, Options{Timeout: time.Second}, dsn)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	j := job(t, 1, geo.LatLng{Lat: 1, Lng: 2})
	save(t, e, j)
	tx, err := watch.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE job SET title = 'locked'"); err != nil {
		t.Fatal(err)
	}
	if err := e.Move(t.Context(), j.ID, store.Open, store.Matched); !errors.Is(err, store.ErrBusy) || !hasNumber(err, errLockWait) {
		t.Errorf("Move against a lock: %v", err)
	}
	if _, err := e.Save(t.Context(), []store.Job{j}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("Save against a lock: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- e.Move(ctx, j.ID, store.Open, store.Matched) }()
	awaitRunning(t, watch, 1)
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("cancelled Move: %v", err)
	}
	awaitQuiet(t, watch)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := e.Move(t.Context(), j.ID, store.Open, store.Matched); err != nil {
		t.Errorf("Move after all: %v", err)
	}
}

// TestConcurrentSaves saves one file from several nodes at once, in different orders.
func TestConcurrentSaves(t *testing.T) {
	dsn := testdb.MySQL(t)
	const nodes, n = 4, 1500
	engines := make([]*Engine, nodes)
	for i := range engines {
		engines[i] = openBare(t, Options{Timeout: 30 * time.Second}, dsn)
	}
	if err := engines[0].Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var total store.Saved
	var wg sync.WaitGroup
	for node, e := range engines {
		jobs := cityJobs(t, n)
		r := rand.New(rand.NewPCG(uint64(node), 1))
		r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		for i := range jobs {
			jobs[i].ID += store.ID(node * 1_000_000) // each node makes its own ids
		}
		wg.Go(func() {
			for part := range slices.Chunk(jobs, 300) {
				s, err := e.Save(t.Context(), part)
				for errors.Is(err, store.ErrBusy) {
					t.Logf("node %d tries again after %v", node, err)
					s, err = e.Save(t.Context(), part)
				}
				if err != nil {
					t.Errorf("node %d: %v", node, err)
				}
				mu.Lock()
				total.Added += s.Added
				total.Updated += s.Updated
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if want := (store.Saved{Added: n, Updated: (nodes - 1) * n}); total != want {
		t.Errorf("saved %+v, want %+v", total, want)
	}
	e := engines[0]
	if got, err := e.Count(t.Context()); err != nil || got != n {
		t.Errorf("%d jobs, %v, want %d", got, err, n)
	}
	var different int
	if err := e.db.Get(&different, "SELECT COUNT(*) FROM job LEFT JOIN open_job AS o USING (id) WHERE o.id IS NULL OR o.lat <> job.lat OR o.lng <> job.lng"); err != nil || different != 0 {
		t.Errorf("%d jobs are not in the search table, %v", different, err)
	}
	if got := len(read(t, e, store.Access{Index: store.NoIndex, Match: store.Match{OpenAt: now}})); got != n {
		t.Errorf("%d open jobs, want %d", got, n)
	}
}
