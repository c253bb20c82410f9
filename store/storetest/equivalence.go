package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// EnvQuery names the variable with the number of one query, to run it alone.
const EnvQuery = "NEARJOB_QUERY"

// Load says how much [Equivalence] asks.
type Load struct {
	Rows    int // jobs in each made-up data set
	Queries int // random queries on each data set
	Pages   int // of each query by each strategy on each engine, at most
}

// Equivalence holds that all strategies of [search.Strategies] on all engines give
// the same pages as [Oracle]: the same jobs, records and distances to the last
// bit, the same cursors. The functions of engines are as in [Conformance].
//
// A failed query is printed with what it takes to run it again alone.
func Equivalence(t *testing.T, engines map[string]func(t *testing.T) store.Engine, load Load) {
	if len(engines) == 0 || load.Rows < 1 || load.Queries < 1 || load.Pages < 1 {
		t.Fatalf("nothing to compare: %d engines, %+v", len(engines), load)
	}
	s := seed(t)
	alone := -1
	if v := os.Getenv(EnvQuery); v != "" {
		var err error
		if alone, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s is %q: want the number of a query", EnvQuery, v)
		}
	}
	for _, set := range datasets(t, s, load.Rows) {
		t.Run(set.name, func(t *testing.T) {
			x := comparison{seed: s, load: load, set: set}
			names := slices.Sorted(maps.Keys(engines))
			for _, name := range names {
				e := engines[name](t)
				if err := e.Migrate(t.Context()); err != nil {
					t.Fatalf("migrate %s: %v", name, err)
				}
				for batch := range slices.Chunk(set.jobs, 1000) {
					if _, err := e.Save(t.Context(), batch); err != nil {
						t.Fatalf("fill %s: %v", name, err)
					}
				}
				x.add(name, e)
			}
			t.Run("Pages", func(t *testing.T) { x.testPages(t, alone) })
			if alone >= 0 {
				return
			}
			t.Run("Relations", x.testRelations)
			t.Run("Cursors", x.testCursors)
			// The last, for it changes the jobs.
			t.Run("Changes", x.testChanges)
		})
	}
}

// subject is a strategy on an engine.
type subject struct {
	name     string // engine/strategy
	strategy string
	engine   store.Engine
	finder   *search.Finder
}

func (s *subject) find(ctx context.Context, q store.Query) (store.Page, error) {
	q.Strategy = s.strategy
	p, err := s.finder.Find(ctx, q)
	if err != nil {
		return p, fmt.Errorf("%s: %w", s.name, err)
	}
	return p, nil
}

// comparison is one data set in all engines.
type comparison struct {
	seed     uint64
	load     Load
	set      dataset
	subjects []subject
	now      atomic.Int64 // what the finders' clock shows beyond clock, in nanoseconds
}

func (x *comparison) add(name string, e store.Engine) {
	strategies := search.Strategies()
	finder := search.New(e, func() time.Time { return clock.Add(time.Duration(x.now.Load())) }, strategies...)
	for _, s := range strategies {
		x.subjects = append(x.subjects, subject{name + "/" + s.Name(), s.Name(), e, finder})
	}
}

// query returns the random query of a number. Its numbers do not depend on how
// many are run, so that one can be run alone.
func (x *comparison) query(n int) store.Query {
	return randomQuery(rand.New(rand.NewPCG(x.seed, 1000+uint64(n))), x.set.jobs)
}

func (x *comparison) testPages(t *testing.T, alone int) {
	numbers := make(chan int)
	var searches, rows, empty atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := range numbers {
				if failed.Load() {
					continue // one failure at a time is enough to read
				}
				q := x.query(n)
				s, hits, err := x.compare(t.Context(), q)
				if err != nil {
					failed.Store(true)
					t.Errorf("query %d: %v\n  of jobs %v\n  again: %s=%d %s=%d go test ./store/storetest -run '%s'", n, err, q, EnvSeed, x.seed, EnvQuery, n, t.Name())
				}
				searches.Add(int64(s))
				rows.Add(int64(hits))
				if hits == 0 {
					empty.Add(1)
				}
			}
		})
	}
	if alone >= 0 {
		t.Logf("query %d: %v", alone, x.query(alone))
		numbers <- alone
	} else {
		for n := range x.load.Queries {
			numbers <- n
		}
	}
	close(numbers)
	wg.Wait()
	t.Logf("%d jobs, %d queries (%d without a hit, %d hits in all), %d searches", len(x.set.jobs), x.load.Queries, empty.Load(), rows.Load(), searches.Load())
	if alone < 0 && empty.Load() > int64(x.load.Queries)*3/4 {
		t.Errorf("%d of %d queries have no hit: they test too little", empty.Load(), x.load.Queries)
	}
}

// compare follows the pages of a query by all strategies on all engines.
func (x *comparison) compare(ctx context.Context, q store.Query) (searches, hits int, err error) {
	want := Oracle(x.set.jobs, q, clock)
	for page := range x.load.Pages {
		start := min(page*q.Limit, len(want))
		part := want[start:min(start+q.Limit, len(want))]
		more := start+len(part) < len(want)
		var next string
		for i := range x.subjects {
			s := &x.subjects[i]
			p, err := s.find(ctx, q)
			searches++
			if err == nil {
				err = samePage(p, part, more, s.strategy)
			}
			if err == nil && i > 0 && p.Next != next {
				err = fmt.Errorf("the next cursor is %q, by %s it is %q", p.Next, x.subjects[0].name, next)
			}
			if err != nil {
				return searches, len(want), fmt.Errorf("page %d of %d hits by %s: %w", page, len(want), s.name, err)
			}
			next = p.Next
		}
		if next == "" {
			break
		}
		q.Cursor = next
	}
	return searches, len(want), nil
}

// samePage compares a page with what it has to be.
func samePage(p store.Page, want []store.Found, more bool, strategy string) error {
	for i := range max(len(p.Jobs), len(want)) {
		switch {
		case i >= len(p.Jobs):
			return fmt.Errorf("%d rows, want %d; the first that is missing: %s", len(p.Jobs), len(want), showFound(want[i]))
		case i >= len(want):
			return fmt.Errorf("%d rows, want %d; the first that is too much: %s", len(p.Jobs), len(want), showFound(p.Jobs[i]))
		case !sameFound(&p.Jobs[i], &want[i]):
			return fmt.Errorf("row %d is\n%s, want\n%s", i, showFound(p.Jobs[i]), showFound(want[i]))
		}
	}
	if more != (p.Next != "") {
		return fmt.Errorf("the next cursor is %q, but more hits: %v", p.Next, more)
	}
	placed := 0
	for i := range want {
		if !want[i].Job.Remote {
			placed++
		}
	}
	s := p.Stats
	if s.Strategy != strategy || s.Candidates < s.Hits || s.Hits < len(want) || s.Rounds < 0 || s.Statements < min(1, len(want))*2 ||
		placed > 0 && s.Rounds < 1 || s.Database < 0 || s.Compute < 0 {
		return fmt.Errorf("the stats of %d rows do not add up: %+v", len(want), s)
	}
	return nil
}

func sameFound(a, b *store.Found) bool {
	return math.Float64bits(a.Distance) == math.Float64bits(b.Distance) && sameJob(&a.Job, &b.Job)
}

func showFound(f store.Found) string {
	return fmt.Sprintf("%v m (bits %x): %s", f.Distance, math.Float64bits(f.Distance), show(f.Job))
}

// walk returns all rows of a query by following its pages.
func (s *subject) walk(ctx context.Context, q store.Query) (rows []store.Found, err error) {
	seen := make(map[store.ID]bool)
	for {
		p, err := s.find(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, f := range p.Jobs {
			if seen[f.Job.ID] {
				return nil, fmt.Errorf("%s: job %s is on two pages", s.name, f.Job.ID)
			}
			seen[f.Job.ID] = true
		}
		rows = append(rows, p.Jobs...)
		if p.Next == "" {
			return rows, nil
		}
		if len(p.Jobs) != q.Limit {
			return nil, fmt.Errorf("%s: a page of %d rows, not %d, has a next one", s.name, len(p.Jobs), q.Limit)
		}
		q.Cursor = p.Next
	}
}

// testRelations checks what holds between answers, without the oracle.
func (x *comparison) testRelations(t *testing.T) {
	r := rand.New(rand.NewPCG(x.seed, 500))
	for n := range 2 {
		small := store.Query{Center: somePlace(r, x.set.jobs), Limit: store.MaxLimit}
		// Some hundred hits, or all that share one place.
		wide := Oracle(x.set.jobs, store.Query{Center: small.Center, Radius: store.Unlimited}, clock)
		at := func(share float64) float64 { return wide[int(share*float64(min(300, len(wide)-1)))].Distance }
		small.Radius = at(0.2 + 0.2*r.Float64())
		large := small
		large.Radius = at(1)
		ring := large
		// The ring begins with the next number, so that no hit is in both.
		ring.MinRadius = math.Nextafter(small.Radius, math.Inf(1))
		if ring.MinRadius > ring.Radius {
			ring.Radius = ring.MinRadius
			large.Radius = ring.MinRadius
		}
		paged := large
		paged.Limit = 23 + n*30
		newest := large
		newest.Sort = store.ByNewest
		for i := range x.subjects {
			s := &x.subjects[i]
			var rows [5][]store.Found
			for k, q := range []store.Query{small, ring, large, paged, newest} {
				var err error
				if rows[k], err = s.walk(t.Context(), q); err != nil {
					t.Fatalf("%v: %v", q, err)
				}
			}
			equal := func(what string, a, b []store.Found) {
				if !slices.EqualFunc(a, b, func(a, b store.Found) bool { return sameFound(&a, &b) }) {
					t.Errorf("%s: %v: %s differ: %d rows and %d rows", s.name, large, what, len(a), len(b))
				}
			}
			equal("the inner circle with its ring, and the whole circle", slices.Concat(rows[0], rows[1]), rows[2])
			equal("small pages and large ones", rows[3], rows[2])
			byDistance := slices.Clone(rows[4])
			slices.SortFunc(byDistance, func(a, b store.Found) int {
				if a.Distance != b.Distance {
					if a.Distance < b.Distance {
						return -1
					}
					return 1
				}
				return int(max(-1, min(1, int64(a.Job.ID-b.Job.ID))))
			})
			equal("the newest and the nearest", byDistance, rows[2])
			if len(rows[0]) == 0 || len(rows[2]) < 2 {
				t.Errorf("%s: %v: %d rows, in the inner circle %d, are too few to test with", s.name, large, len(rows[2]), len(rows[0]))
			}
		}
	}
}

// testCursors holds that a cursor goes on with its own query and no other.
func (x *comparison) testCursors(t *testing.T) {
	q := store.Query{Center: somePlace(rand.New(rand.NewPCG(x.seed, 501)), x.set.jobs), Radius: store.Unlimited, Limit: 5}
	box := geo.Rect{South: -90, West: -180, North: 90, East: 180}
	others := map[string]func(*store.Query){
		"centre":       func(q *store.Query) { q.Center.Lat = math.Nextafter(q.Center.Lat, 0.5) },
		"radius":       func(q *store.Query) { q.Radius = 1e7 },
		"inner radius": func(q *store.Query) { q.MinRadius = math.SmallestNonzeroFloat64 },
		"sort":         func(q *store.Query) { q.Sort = store.ByNewest },
		"category":     func(q *store.Query) { q.Filter.Categories = []string{"cafe"} },
		"pay":          func(q *store.Query) { q.Filter.MinPay = 1 },
		"posted":       func(q *store.Query) { q.Filter.PostedAfter = time.UnixMilli(-1) },
		"employer":     func(q *store.Query) { q.Filter.Employer = "Acme" },
		"remote":       func(q *store.Query) { q.Filter.Remote = store.RemoteInclude },
		"box":          func(q *store.Query) { *q = store.InBox(box); q.Sort, q.Limit = store.ByDistance, 5 },
	}
	refused := func(s *subject, what string, q store.Query) {
		t.Helper()
		p, err := s.find(t.Context(), q)
		var ie *store.InvalidError
		if !errors.As(err, &ie) || len(ie.Faults) != 1 || ie.Faults[0].Field != "cursor" || ie.Faults[0].Reason == "" {
			t.Errorf("%s: %s: got %d rows and error %v, want an InvalidError about cursor", s.name, what, len(p.Jobs), err)
		}
	}
	for i := range x.subjects {
		s, other := &x.subjects[i], &x.subjects[(i+1)%len(x.subjects)]
		first, err := s.find(t.Context(), q)
		if err != nil || first.Next == "" {
			t.Fatalf("%v: %v, next cursor %q", q, err, first.Next)
		}
		q2 := q
		q2.Cursor = first.Next
		// Another strategy, on another engine where there are two, goes on with it, also with other pages.
		q2.Limit = 9
		p, err := other.find(t.Context(), q2)
		if err == nil {
			want := Oracle(x.set.jobs, q, clock)
			err = samePage(p, want[5:14], len(want) > 14, other.strategy)
		}
		if err != nil {
			t.Errorf("the cursor of %s under %s: %v", s.name, other.name, err)
		}
		for what, change := range others {
			changed := q
			change(&changed)
			changed.Cursor = first.Next
			refused(s, "the cursor of a query with another "+what, changed)
		}
		// Boxes of different size have one centre.
		inBox := store.InBox(box)
		inBox.Limit = 5
		if p, err := s.find(t.Context(), inBox); err != nil || p.Next == "" {
			t.Errorf("%s: %v: %v, next cursor %q", s.name, inBox, err, p.Next)
		} else {
			smaller := store.InBox(geo.Rect{South: box.South / 2, West: box.West, North: box.North / 2, East: box.East})
			smaller.Limit, smaller.Cursor = 5, p.Next
			refused(s, "the cursor of another box", smaller)
		}
		// Each byte of it counts.
		for n := range len(first.Next) {
			b := []byte(first.Next)
			b[n] = '!'
			q2.Cursor = string(b)
			refused(s, "a damaged cursor", q2)
		}
		for _, c := range []string{first.Next + "A", first.Next[1:], first.Next[:len(first.Next)-1], "x", " ", "🚲", first.Next + first.Next} {
			q2.Cursor = c
			refused(s, "no cursor", q2)
		}
	}
}

// testChanges holds that a job that is matched, or expires, between two pages is
// not on the second, and that all others are.
func (x *comparison) testChanges(t *testing.T) {
	x.now.Store(0)
	q := store.Query{Center: somePlace(rand.New(rand.NewPCG(x.seed, 502)), x.set.jobs), Radius: store.Unlimited, Limit: 10}
	jobs := slices.Clone(x.set.jobs)
	before := Oracle(jobs, q, clock)
	if len(before) < 40 {
		t.Fatalf("%d hits are too few to test with", len(before))
	}
	first := make([]store.Page, len(x.subjects))
	for i := range x.subjects {
		var err error
		if first[i], err = x.subjects[i].find(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	// One of the first page, the first and some more of the second.
	var gone []store.ID
	for _, n := range []int{3, 10, 13, 19, 20} {
		gone = append(gone, before[n].Job.ID)
	}
	moved := make(map[store.Engine]bool)
	for i := range x.subjects {
		if e := x.subjects[i].engine; !moved[e] {
			moved[e] = true
			for _, id := range gone {
				if err := e.Move(t.Context(), id, store.Open, store.Matched); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range jobs {
		if slices.Contains(gone, jobs[i].ID) {
			jobs[i].State = store.Matched
		}
	}
	check := func(what string, at time.Time) {
		x.now.Store(int64(at.Sub(clock)))
		want := Oracle(jobs, q, at)
		rest := slices.Clone(want)
		last := before[9]
		for len(rest) > 0 && (rest[0].Distance < last.Distance || rest[0].Distance == last.Distance && rest[0].Job.ID <= last.Job.ID) {
			rest = rest[1:]
		}
		for i := range x.subjects {
			s := &x.subjects[i]
			q := q
			q.Cursor = first[i].Next
			p, err := s.find(t.Context(), q)
			if err == nil {
				err = samePage(p, rest[:min(q.Limit, len(rest))], len(rest) > q.Limit, s.strategy)
			}
			if err != nil {
				t.Errorf("%s: the second page after %s: %v", s.name, what, err)
			}
		}
	}
	check("some jobs were matched", clock)
	expired := 0
	for _, d := range []time.Duration{time.Millisecond, 2 * time.Hour, 2000 * time.Hour} {
		check(fmt.Sprintf("%v", d), clock.Add(d))
		expired = len(Oracle(jobs, q, clock)) - len(Oracle(jobs, q, clock.Add(d)))
	}
	if expired == 0 && x.set.name != "real" { // those never expire
		t.Error("no job expired")
	}
}
