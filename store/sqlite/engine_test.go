package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// posted is when the tests' jobs were posted.
var posted = time.Date(2026, 5, 4, 3, 2, 1, 7e6, time.UTC)

// open returns a migrated engine on a fresh file.
func open(t testing.TB, o Options) *Engine {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "jobs.db"), o)
}

func reopen(t testing.TB, path string, o Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func job(id int, lat, lng float64) store.Job {
	return store.Job{
		ID: store.ID(id), Source: "test", SourceID: fmt.Sprint(id), Title: "Carry boxes", State: store.Open,
		At: geo.LatLng{Lat: lat, Lng: lng}, Posted: posted,
	}
}

// someJobs are scattered over a city, the poles, the antimeridian and the rest
// of the world, with all that a Match can ask for; each 20th is remote, each 19th not open.
func someJobs(t testing.TB, n int) []store.Job {
	rnd := rand.New(rand.NewPCG(7, 11))
	jobs := make([]store.Job, n)
	for i := range jobs {
		var at geo.LatLng
		switch i % 5 {
		case 0, 1:
			at = geo.LatLng{Lat: 37.5 + rnd.NormFloat64()*.05, Lng: 127 + rnd.NormFloat64()*.05}
		case 2:
			at = geo.LatLng{Lat: math.Asin(2*rnd.Float64()-1) * 180 / math.Pi, Lng: 180 - 360*rnd.Float64()}
		case 3:
			at = geo.LatLng{Lat: rnd.NormFloat64(), Lng: 180 - rnd.Float64()}
			if i%2 == 0 {
				at.Lng = -at.Lng
			}
		case 4:
			at = geo.LatLng{Lat: 90 - rnd.Float64()*rnd.Float64(), Lng: 180 - 360*rnd.Float64()}
		}
		j := job(1000+i, at.Lat, at.Lng)
		j.Category = []string{"moving", "cleaning", "garden", ""}[rnd.IntN(4)]
		j.Employer = []string{"Smith & Sons", "smith & sons", "", "Kim"}[rnd.IntN(4)]
		j.Pay = store.Pay{Amount: int64(rnd.IntN(50)) * 100, Currency: "EUR", Per: "hour"}
		j.Posted = posted.Add(time.Duration(rnd.IntN(1000)) * time.Minute)
		if i%3 == 0 {
			j.Expires = posted.Add(time.Duration(rnd.IntN(2000)) * time.Minute)
		}
		if i%20 == 0 {
			j.Remote = true
		}
		if i%19 == 0 {
			j.State = store.Cancelled
		}
		if err := j.Normalize(); err != nil {
			t.Fatal(err)
		}
		jobs[i] = j
	}
	return jobs
}

func save(t testing.TB, e *Engine, jobs ...store.Job) store.Saved {
	t.Helper()
	s, err := e.Save(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t testing.TB, e *Engine, a store.Access) (cs []store.Candidate) {
	t.Helper()
	if _, err := e.Read(t.Context(), a, func(c []store.Candidate) error {
		cs = append(cs, c...)
		return nil
	}); err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	return cs
}

func ids(cs []store.Candidate) []store.ID {
	out := make([]store.ID, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}

// checkTables proves that the search tables hold exactly the open jobs, each
// with its own values, and that SQLite finds the file sound.
func checkTables(t testing.TB, e *Engine) {
	t.Helper()
	texts := func(sql string) (out []string) {
		t.Helper()
		if err := e.read(t.Context(), func(c *conn) error {
			return c.run(func(s *sqlite3.Stmt) error {
				out = append(out, s.ColumnText(0))
				return nil
			}, sql)
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := texts("PRAGMA integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Errorf("integrity_check: %q", got)
	}
	if got := texts("SELECT rtreecheck('open_job_rtree')"); !slices.Equal(got, []string{"ok"}) {
		t.Errorf("rtreecheck: %q", got)
	}
	const common = "id, category, employer, pay, posted, expires"
	for name, tables := range map[string][2]string{
		"open_job":        {"SELECT " + common + ", lat, lng FROM job WHERE state = 'open' AND lat IS NOT NULL", "SELECT " + common + ", lat, lng FROM open_job"},
		"open_job_rtree":  {"SELECT id FROM open_job", "SELECT job AS id FROM open_job_rtree JOIN open_job ON job = id WHERE lat BETWEEN lat0 AND lat1 AND lng BETWEEN lng0 AND lng1"},
		"the R*Tree":      {"SELECT id FROM open_job", "SELECT job AS id FROM open_job_rtree"},
		"open_remote_job": {"SELECT " + common + " FROM job WHERE state = 'open' AND lat IS NULL", "SELECT " + common + " FROM open_remote_job"},
	} {
		for what, sql := range map[string]string{
			"lacks":           "SELECT id FROM (" + tables[0] + " EXCEPT " + tables[1] + ")",
			"should not have": "SELECT id FROM (" + tables[1] + " EXCEPT " + tables[0] + ")",
		} {
			if got := texts(sql); len(got) > 0 {
				t.Errorf("%s %s %d jobs: %.200q", name, what, len(got), got)
			}
		}
	}
	if err := e.read(t.Context(), func(c *conn) error {
		return c.run(func(s *sqlite3.Stmt) error {
			p := geo.LatLng{Lat: s.ColumnFloat(1), Lng: s.ColumnFloat(2)}
			got := [3]int64{s.ColumnInt64(3), s.ColumnInt64(4), s.ColumnInt64(5)}
			if want := [3]int64{cell.S2.Index(p), cell.H3.Index(p), cell.Geohash.Index(p)}; got != want {
				t.Errorf("job %d at %v has cells %d, want %d", s.ColumnInt64(0), p, got, want)
			}
			return nil
		}, "SELECT id, lat, lng, s2, h3, geohash FROM open_job")
	}); err != nil {
		t.Fatal(err)
	}
}

// matches are what the reads below filter by.
func matches() []store.Match {
	at := store.Millis(posted)
	return []store.Match{
		{OpenAt: at + 600*60_000},
		{OpenAt: at, Categories: []string{"garden", "moving"}},
		{OpenAt: at, MinPay: 2500},
		{OpenAt: at, PostedFrom: at + 300*60_000, PostedTo: at + 700*60_000},
		{OpenAt: at, Employer: "Smith & Sons"},
		{OpenAt: at, Categories: []string{"cleaning"}, Employer: "Kim", MinPay: 100},
	}
}

// TestReadAgainstTheRecords reads through every index with every filter, forced
// and not, and compares with the records filtered in Go.
func TestReadAgainstTheRecords(t *testing.T) {
	e := open(t, Options{})
	jobs := someJobs(t, 3000)
	save(t, e, jobs...)
	checkTables(t, e)

	rects := []geo.Rect{{South: 37.4, West: 126.9, North: 37.55, East: 127.05}, {South: -2, West: 179.2, North: 1, East: 180}, {South: -2, West: -180, North: 1, East: -179.5}}
	inRects := func(c *store.Candidate) bool {
		return slices.ContainsFunc(rects, func(r geo.Rect) bool { return r.Contains(c.At) })
	}
	type access struct {
		store.Access
		holds func(*store.Candidate) bool
	}
	accesses := map[string]access{
		"all":     {store.Access{Index: store.NoIndex}, func(*store.Candidate) bool { return true }},
		"lat_lng": {store.Access{Index: store.IndexLatLng, Rects: rects}, inRects},
		"spatial": {store.Access{Index: store.IndexSpatial, Rects: rects}, inRects},
	}
	for ix, scheme := range map[store.Index]interface{ Index(geo.LatLng) int64 }{store.IndexS2: cell.S2, store.IndexH3: cell.H3, store.IndexGeohash: cell.Geohash} {
		var numbers []int64
		for _, j := range jobs {
			if !j.Remote {
				numbers = append(numbers, scheme.Index(j.At))
			}
		}
		slices.Sort(numbers)
		var ranges []store.Interval
		for i := 0; i+60 < len(numbers); i += 100 {
			if lo, hi := numbers[i]+1, numbers[i+60]; lo <= hi {
				ranges = append(ranges, store.Interval{Lo: lo, Hi: hi})
			}
		}
		accesses[string(ix)] = access{store.Access{Index: ix, Ranges: ranges}, func(c *store.Candidate) bool {
			n := scheme.Index(c.At)
			return slices.ContainsFunc(ranges, func(r store.Interval) bool { return r.Lo <= n && n <= r.Hi })
		}}
	}
	rings := []*geo.Ring{nil,
		{Center: geo.LatLng{Lat: 37.5, Lng: 127}, Outer: 4000},
		{Center: geo.LatLng{Lat: 0.3, Lng: -179.9}, Inner: 20_000, Outer: 150_000},
		{Center: geo.LatLng{Lat: 90, Lng: 5}, Outer: 60_000},
		{Center: geo.LatLng{Lat: -37.5, Lng: -53}, Outer: math.Inf(1)},
	}
	for name, ac := range accesses {
		for mi, m := range matches() {
			for _, ring := range rings {
				found := 0
				for _, force := range []bool{false, true} {
					a := ac.Access
					a.Match, a.Near, a.Force = m, ring, force
					got := map[store.ID]store.Candidate{}
					for _, c := range read(t, e, a) {
						if _, twice := got[c.ID]; twice {
							t.Fatalf("%s: job %s twice", name, c.ID)
						}
						got[c.ID] = c
					}
					for _, j := range jobs {
						want := store.Candidate{ID: j.ID, At: j.At, Category: j.Category, Employer: j.Employer,
							Pay: j.Pay.Amount, Posted: store.Millis(j.Posted), Expires: store.ExpiryMillis(j.Expires)}
						in := j.State == store.Open && !j.Remote && m.Accepts(&want) && ac.holds(&want)
						if in && ring != nil {
							d := ring.Center.Distance(j.At)
							if math.Abs(d-ring.Inner) < 1e-3 || math.Abs(d-ring.Outer) < 1e-3 {
								continue // SQL may decide otherwise
							}
							in = ring.Inner <= d && d <= ring.Outer
						}
						if len(m.Categories) == 0 {
							want.Category = ""
						}
						if m.Employer == "" {
							want.Employer = ""
						}
						c, ok := got[j.ID]
						if ok != in {
							t.Fatalf("%s, match %d, ring %+v, force %v: job %s at %v read: %v, want %v", name, mi, ring, force, j.ID, j.At, ok, in)
						}
						if ok && c != want {
							t.Fatalf("%s: %+v\nwant %+v", name, c, want)
						}
						delete(got, j.ID)
					}
					for id := range got {
						if ring == nil {
							t.Fatalf("%s: job %s is nobody's", name, id)
						}
					}
					if in := len(got); in > 0 && ring == nil {
						t.Fatalf("%d rows too many", in)
					}
					found += len(read(t, e, a))
				}
				if ring == nil && found == 0 {
					t.Errorf("%s, match %d: nothing found, the test proves nothing", name, mi)
				}
			}
		}
	}
}

func TestNearestFirst(t *testing.T) {
	e := open(t, Options{})
	jobs := someJobs(t, 1000)
	save(t, e, jobs...)
	center := geo.LatLng{Lat: 37.5, Lng: 127}
	for _, ix := range []store.Index{store.NoIndex, store.IndexLatLng, store.IndexSpatial} {
		a := store.Access{Index: ix, Rects: []geo.Rect{{South: -90, West: -180, North: 90, East: 0}, {South: -90, West: 1e-300, North: 90, East: 180}},
			Near: &geo.Ring{Center: center, Outer: math.Inf(1)}, Order: store.NearestFirst, Limit: 300}
		got := read(t, e, a)
		if len(got) != 300 {
			t.Fatalf("%s: %d rows", ix, len(got))
		}
		last := 0.0
		for _, c := range got {
			d := center.Distance(c.At)
			if d < last-1e-3 {
				t.Errorf("%s: %v m after %v m", ix, d, last)
			}
			last = d
		}
		a.Limit = 0
		nearer := 0
		for _, c := range read(t, e, a) {
			if center.Distance(c.At) < last-1e-3 {
				nearer++
			}
		}
		if nearer > 300 {
			t.Errorf("%s: %d rows are nearer than the 300th", ix, nearer)
		}
	}
}

func TestWindow(t *testing.T) {
	e := open(t, Options{})
	jobs := someJobs(t, 1000)
	for i := range 7 { // several at one place
		j := job(10+i, 37.5, 127)
		jobs = append(jobs, j)
	}
	save(t, e, jobs...)
	for ix, scheme := range map[store.Index]interface{ Index(geo.LatLng) int64 }{store.IndexS2: cell.S2, store.IndexH3: cell.H3, store.IndexGeohash: cell.Geohash} {
		at := scheme.Index(geo.LatLng{Lat: 37.5, Lng: 127})
		for _, w := range []store.Window{{Lo: 0, At: at, Hi: math.MaxInt64, Each: 40}, {Lo: at - 1e9, At: at, Hi: at, Each: 3}, {Lo: 0, At: 0, Hi: math.MaxInt64, Each: 5}} {
			a := store.Access{Index: ix, Window: &w, Match: store.Match{OpenAt: store.Millis(posted), MinPay: 1e9, Categories: []string{"x"}}}
			for _, a.Force = range []bool{false, true} {
				var want []store.Candidate
				for _, j := range jobs {
					c := store.Candidate{ID: j.ID, At: j.At, Category: j.Category, Number: scheme.Index(j.At), Pay: j.Pay.Amount,
						Posted: store.Millis(j.Posted), Expires: store.ExpiryMillis(j.Expires)}
					if j.State == store.Open && !j.Remote && c.Expires > a.Match.OpenAt {
						want = append(want, c)
					}
				}
				slices.SortFunc(want, func(a, b store.Candidate) int {
					return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID))
				})
				var above, below []store.Candidate
				for _, c := range want {
					if w.At <= c.Number && c.Number <= w.Hi && len(above) < w.Each {
						above = append(above, c)
					}
				}
				for _, c := range slices.Backward(want) {
					if w.Lo <= c.Number && c.Number < w.At && len(below) < w.Each {
						below = append(below, c)
					}
				}
				if got := read(t, e, a); !slices.Equal(got, slices.Concat(above, below)) {
					t.Errorf("%s %+v: got\n%v\nwant\n%v", ix, w, got, slices.Concat(above, below))
				}
			}
		}
	}
}

func TestRemote(t *testing.T) {
	e := open(t, Options{})
	var jobs []store.Job
	for i := range 50 {
		j := job(100+i, 0, 0)
		j.Remote = true
		j.Posted = posted.Add(time.Duration(i*7%10) * time.Hour) // ties
		jobs = append(jobs, j)
	}
	save(t, e, append(jobs, job(1, 1, 1))...)
	for _, force := range []bool{false, true} {
		var got []store.ID
		a := store.Access{Index: store.IndexRemote, Order: store.LowestIDFirst, Limit: 7, Force: force}
		for range 8 {
			page := read(t, e, a)
			got = append(got, ids(page)...)
			a.After = &store.RemoteAfter{ID: got[len(got)-1]}
		}
		if len(got) != 50 || !slices.IsSorted(got) {
			t.Errorf("by id: %v", got)
		}
		var newest []store.Candidate
		a = store.Access{Index: store.IndexRemote, Order: store.NewestFirst, Limit: 7, Force: force}
		for range 8 {
			newest = append(newest, read(t, e, a)...)
			last := newest[len(newest)-1]
			a.After = &store.RemoteAfter{ID: last.ID, Posted: last.Posted}
		}
		if len(newest) != 50 || !slices.IsSortedFunc(newest, func(a, b store.Candidate) int {
			return cmp.Or(cmp.Compare(b.Posted, a.Posted), cmp.Compare(b.ID, a.ID))
		}) {
			t.Errorf("newest: %v", newest)
		}
	}
}

func TestDoublesAreBitExact(t *testing.T) {
	e := open(t, Options{})
	rnd := rand.New(rand.NewPCG(3, 5))
	places := []geo.LatLng{{Lat: 0, Lng: 0}, {Lat: 90, Lng: 180}, {Lat: -90, Lng: 1e-310}, {Lat: 5e-324, Lng: 127.1}, {Lat: 1.0 / 3, Lng: -math.Pi}, {Lat: 45, Lng: -0.1}}
	for range 500 {
		places = append(places, geo.LatLng{Lat: 180*rnd.Float64() - 90, Lng: 180 - 360*rnd.Float64()})
	}
	var jobs []store.Job
	for i, p := range places {
		jobs = append(jobs, job(i+1, p.Lat, p.Lng))
	}
	save(t, e, jobs...)
	same := func(a, b geo.LatLng) bool {
		return math.Float64bits(a.Lat) == math.Float64bits(b.Lat) && math.Float64bits(a.Lng) == math.Float64bits(b.Lng)
	}
	world := []geo.Rect{{South: -90, West: -180, North: 90, East: 180}}
	for _, a := range []store.Access{{Index: store.NoIndex}, {Index: store.IndexLatLng, Rects: world}, {Index: store.IndexSpatial, Rects: world},
		{Index: store.IndexH3, Ranges: []store.Interval{{Lo: 0, Hi: math.MaxInt64}}}} {
		got := read(t, e, a)
		if len(got) != len(places) {
			t.Errorf("%s: %d rows, want %d", a.Index, len(got), len(places))
		}
		for _, c := range got {
			if p := places[c.ID-1]; !same(c.At, p) {
				t.Errorf("%s: %v is read as %v", a.Index, p, c.At)
			}
		}
	}
	stored, err := e.Jobs(t.Context(), []store.ID{1, 2, 3, 4, 5, 6})
	if err != nil || len(stored) != 6 {
		t.Fatal(stored, err)
	}
	for _, j := range stored {
		if !same(j.At, places[j.ID-1]) {
			t.Errorf("%v is stored as %v", places[j.ID-1], j.At)
		}
	}
}

// TestManyRanges goes over SQLite's limit of bound values.
func TestManyRanges(t *testing.T) {
	e := open(t, Options{})
	j := job(1, 1, 1)
	save(t, e, j)
	at := cell.S2.Index(j.At)
	var ranges []store.Interval
	for i := range int64(40_000) {
		ranges = append(ranges, store.Interval{Lo: at - 79_998 + 2*i, Hi: at - 79_998 + 2*i})
	}
	n := 0
	statements, err := e.Read(t.Context(), store.Access{Index: store.IndexS2, Ranges: ranges}, func(cs []store.Candidate) error {
		n += len(cs)
		return nil
	})
	if err != nil || n != 1 || statements != 3 {
		t.Errorf("%d rows by %d statements, %v", n, statements, err)
	}
	if _, err := e.Read(t.Context(), store.Access{Index: store.IndexS2, Ranges: ranges, Limit: 1}, nil); err == nil {
		t.Error("a limit over more ranges than fit into one statement was taken")
	}
	if n, err := e.Read(t.Context(), store.Access{Index: store.IndexS2}, nil); n != 0 || err != nil {
		t.Error("no ranges:", n, err)
	}
}

func TestReadReturnsYieldsError(t *testing.T) {
	e := open(t, Options{MaxReaders: 1})
	save(t, e, someJobs(t, 2000)...)
	stop := errors.New("enough")
	calls := 0
	for range 3 { // the connection stays usable
		if _, err := e.Read(t.Context(), store.Access{Index: store.NoIndex}, func(cs []store.Candidate) error {
			calls++
			return stop
		}); err != stop {
			t.Error(err)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
	if n := len(read(t, e, store.Access{Index: store.NoIndex})); n < 1000 {
		t.Errorf("%d rows", n)
	}
}
