package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// BlurVenue is an engine that blurs places.
type BlurVenue interface {
	AlertVenue
	store.Reblurrer
}

// BlurredDatabase is an empty database, which it opens with a blur, or none, as often as
// it is told to.
type BlurredDatabase func(t *testing.T, b *store.Blur) BlurVenue

// Blurred holds an engine to the promises of [store.Blur] and [store.Reblurrer]: a search
// knows only the blurred places, whatever is asked and however often, and places of
// two blurs do not come together.
func Blurred(t *testing.T, empty func(t *testing.T) BlurredDatabase) {
	for _, part := range []struct {
		name string
		test func(*testing.T, BlurredDatabase)
	}{
		{"Equal", testBlurEqual}, {"Life", testBlurLife}, {"Attack", testBlurAttack}, {"Alerts", testBlurAlerts},
		{"Adopted", testBlurAdopted}, {"Refused", testBlurRefused}, {"Changed", testBlurChanged}, {"Interrupted", testBlurInterrupted}, {"Beside", testBlurBeside},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, empty(t)) })
	}
}

// aBlur returns a blur of 600 m, by a secret of its own for each name.
func aBlur(t *testing.T, name string) *store.Blur {
	t.Helper()
	b, err := store.NewBlur([]byte("a secret for tests: "+name), 600)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// migrated opens a database that is ready.
func (open BlurredDatabase) migrated(t *testing.T, b *store.Blur) BlurVenue {
	t.Helper()
	e := open(t, b)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Fatalf("Ready: %v", err)
	}
	return e
}

// blurred returns jobs as a search is to see them.
func blurred(b *store.Blur, jobs []store.Job) []store.Job {
	out := slices.Clone(jobs)
	for i := range out {
		out[i].At = b.Place(&out[i])
	}
	return out
}

// testBlurEqual: every strategy gives the answer of the oracle that knows the blurred
// places only, and the records of the jobs with their own.
func testBlurEqual(t *testing.T, open BlurredDatabase) {
	b := aBlur(t, "equal")
	e := open.migrated(t, b)
	var all []store.Job
	for i, s := range shapes {
		jobs := makeJobs(t, rand.New(rand.NewPCG(seed(t), uint64(i))), 250, s.place)
		for k := range jobs {
			jobs[k].Source = s.name
		}
		all = append(all, jobs...)
	}
	if _, err := e.Save(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	seen := blurred(b, all)
	checkSearchTables(t, e, seen)
	exact := make(map[store.ID]*store.Job, len(all))
	for i := range all {
		exact[all[i].ID] = &all[i]
	}
	finder := search.New(e, now)
	r := rand.New(rand.NewPCG(seed(t), 700))
	hits := 0
	for n := range 60 {
		q := randomQuery(r, seen) // its edges are at the blurred places
		want := Oracle(seen, q, clock)
		hits += len(want)
		want = want[:min(len(want), q.Limit)]
		for _, s := range search.Strategies() {
			q.Strategy = s.Name()
			p, err := finder.Find(t.Context(), q)
			if err != nil {
				t.Fatalf("query %d: %v: %v", n, q, err)
			}
			if len(p.Jobs) != len(want) {
				t.Fatalf("query %d: %v: %d rows, want %d", n, q, len(p.Jobs), len(want))
			}
			for i, f := range p.Jobs {
				if f.Job.ID != want[i].Job.ID || f.Distance != want[i].Distance || !sameJob(&f.Job, exact[f.Job.ID]) {
					t.Fatalf("query %d: %v: row %d is %s, want job %s at %v m", n, q, i, showFound(f), want[i].Job.ID, want[i].Distance)
				}
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d hits: the queries test too little", hits)
	}
}

// testBlurLife: whatever brings a job into the search table brings the blurred place.
func testBlurLife(t *testing.T, open BlurredDatabase) {
	b := aBlur(t, "life")
	e := open.migrated(t, b)
	m := &market{e: e}
	var ids []store.ID
	check := func(after string) {
		t.Helper()
		var jobs []store.Job
		for _, j := range records(t, e, ids...) {
			if p := b.Place(&j); !j.Remote && p == j.At {
				t.Fatalf("job %s is blurred to its own place", j.ID)
			}
			jobs = append(jobs, j)
		}
		if len(jobs) != len(ids) {
			t.Fatalf("%d jobs, want %d", len(jobs), len(ids))
		}
		checkSearchTables(t, e, blurred(b, jobs))
		if t.Failed() {
			t.Fatalf("after %s", after)
		}
	}
	job := m.post(t, "ann", nil)
	ids = append(ids, job.ID)
	check("post")
	edit := func(after string, change func(*store.Job)) {
		t.Helper()
		if _, err := e.Edit(t.Context(), store.Edit{Job: job.ID, By: "ann", At: clock, Change: func(j *store.Job) error { change(j); return nil }}); err != nil {
			t.Fatal(err)
		}
		check(after)
	}
	edit("another title", func(j *store.Job) { j.Title = "Walk two dogs" })
	edit("another place", func(j *store.Job) { j.At = geo.LatLng{Lat: -33.1, Lng: 180} })
	edit("remote", func(j *store.Job) { j.At, j.Remote = geo.LatLng{}, true })
	edit("not remote any more", func(j *store.Job) { j.At, j.Remote = geo.LatLng{Lat: 90, Lng: 12}, false })

	app := m.apply(t, job.ID, "bob")
	m.must(t, store.Command{Action: store.ActAccept, Application: app.ID, By: "ann"})
	check("accept")
	m.must(t, store.Command{Action: store.ActResign, Application: app.ID, By: "bob"})
	check("resign")
	if err := e.Move(t.Context(), job.ID, store.Open, store.Matched); err != nil {
		t.Fatal(err)
	}
	check("a move out")
	if err := e.Move(t.Context(), job.ID, store.Matched, store.Open); err != nil {
		t.Fatal(err)
	}
	check("a move back")

	imported := []store.Job{aJob(1001), aJob(1002), remoteJob(1003)}
	ids = append(ids, 1001, 1002, 1003)
	save(t, e, store.Saved{Added: 3}, imported...)
	check("an import")
	imported[0].At.Lng, imported[1].Title, imported[2].At, imported[2].Remote = -12, "Walk a cat", geo.LatLng{Lat: 1, Lng: 2}, false
	save(t, e, store.Saved{Updated: 3}, imported...)
	check("another import")
	// As a file that was written out of this database has it: without the requester.
	again := records(t, e, job.ID)[job.ID]
	again.Requester, again.Description = "", "Changed."
	save(t, e, store.Saved{Updated: 1}, again)
	check("an import of a job that was posted")
}

// spy finds out what it can about the job of an id, by searching.
type spy struct {
	finder   *search.Finder
	strategy string
	id       store.ID
}

// ask returns the distance that a query gives the job, and whether it gives the job.
func (s spy) ask(t *testing.T, q store.Query) (metres float64, found bool) {
	t.Helper()
	q.Strategy, q.Limit = s.strategy, store.MaxLimit
	p, err := s.finder.Find(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if p.Next != "" {
		t.Fatal("the spy sees only one page")
	}
	for _, f := range p.Jobs {
		if f.Job.ID == s.id {
			return f.Distance, true
		}
	}
	return 0, false
}

// edge returns where, between in and out, the answer turns from having the job to not
// having it.
func (s spy) edge(t *testing.T, in, out float64, query func(float64) store.Query) float64 {
	t.Helper()
	if _, found := s.ask(t, query(in)); !found {
		t.Fatalf("the job is not within %v", in)
	}
	if _, found := s.ask(t, query(out)); found {
		t.Fatalf("the job is within %v", out)
	}
	for range 40 {
		middle := (in + out) / 2
		if _, found := s.ask(t, query(middle)); found {
			in = middle
		} else {
			out = middle
		}
	}
	return in
}

// locate returns the place whose distances from some points fit those that were
// measured best, by least squares, beginning from a guess.
func locate(from []geo.LatLng, metres []float64, guess geo.LatLng) geo.LatLng {
	const step = 1e-6 // degrees
	p := guess
	for range 30 {
		var a, b, c, u, v float64 // of the normal equations
		for i, f := range from {
			d := f.Distance(p)
			dlat := (f.Distance(geo.LatLng{Lat: p.Lat + step, Lng: p.Lng}) - d) / step
			dlng := (f.Distance(geo.LatLng{Lat: p.Lat, Lng: p.Lng + step}) - d) / step
			a, b, c = a+dlat*dlat, b+dlat*dlng, c+dlng*dlng
			u, v = u+dlat*(metres[i]-d), v+dlng*(metres[i]-d)
		}
		det := a*c - b*b
		p.Lat += (c*u - b*v) / det
		p.Lng += (a*v - b*u) / det
	}
	return p
}

// testBlurAttack attacks the place of a home as somebody would who has only the search:
// by the distances from many points, the edges of circles and boxes, and many jobs.
// Everything leads to the blurred place, and nothing nearer to the home.
func testBlurAttack(t *testing.T, open BlurredDatabase) {
	b := aBlur(t, "attack")
	e := open.migrated(t, b)
	m := &market{e: e}
	home := geo.LatLng{Lat: 37.56631, Lng: 126.97794}
	at := func(p geo.LatLng) func(*store.Job) { return func(j *store.Job) { j.At = p } }
	job := m.post(t, "ann", at(home))
	other := m.post(t, "eve", at(home)) // eve posts at ann's home, to learn how it is blurred
	place := b.Place(&job)
	if d := home.Distance(place); d < 200 {
		t.Fatalf("the home is blurred by only %v m: with it the test shows little", d)
	}
	finder := search.New(e, now)
	r := rand.New(rand.NewPCG(seed(t), 800))
	from := make([]geo.LatLng, 25)
	for i := range from {
		from[i] = geo.LatLng{Lat: home.Lat + 0.04*(r.Float64()-0.5), Lng: home.Lng + 0.04*(r.Float64()-0.5)}
	}
	from[0] = home // whoever suspects it
	for _, strategy := range search.Strategies() {
		s := spy{finder, strategy.Name(), job.ID}
		metres := make([]float64, len(from))
		for i, p := range from {
			d, found := s.ask(t, store.Query{Center: p, Radius: store.Unlimited})
			if !found {
				t.Fatalf("%s does not find the job from %v", s.strategy, p)
			}
			metres[i] = d
			if want := p.Distance(place); d != want {
				t.Errorf("%s: %v m from %v, want %v: it tells of another place than the blurred one", s.strategy, d, p, want)
			}
		}
		if got := locate(from, metres, home); got.Distance(place) > 0.01 {
			t.Errorf("%s: the distances lead to %v, %v m from the blurred place %v", s.strategy, got, got.Distance(place), place)
		}
		// Where circles and boxes end.
		for _, p := range from[:2] {
			d := s.edge(t, 5000, 0, func(radius float64) store.Query { return store.Query{Center: p, Radius: radius} })
			if want := p.Distance(place); math.Abs(d-want) > 1e-6 {
				t.Errorf("%s: circles around %v begin to have the job at %v m, want %v", s.strategy, p, d, want)
			}
		}
		box := func(change func(*geo.Rect, float64)) func(float64) store.Query {
			return func(v float64) store.Query {
				r := geo.Rect{South: 37, West: 126, North: 38, East: 128}
				change(&r, v)
				return store.InBox(r)
			}
		}
		lat := s.edge(t, 37.1, 37.9, box(func(r *geo.Rect, v float64) { r.South = v }))
		lng := s.edge(t, 127.9, 126.1, box(func(r *geo.Rect, v float64) { r.East = v }))
		if got := (geo.LatLng{Lat: lat, Lng: lng}); got.Distance(place) > 0.01 {
			t.Errorf("%s: the edges of boxes lead to %v, %v m from the blurred place", s.strategy, got, got.Distance(place))
		}
	}

	// Again and again from the same home, as exactly as a phone knows where it is.
	points := map[geo.LatLng]int{}
	var lat, lng float64
	const times = 60
	for range times {
		j := m.post(t, "ann", at(geo.LatLng{Lat: home.Lat + 5e-5*(r.Float64()-0.5), Lng: home.Lng + 5e-5*(r.Float64()-0.5)}))
		s := spy{finder, "", j.ID}
		metres := make([]float64, 6)
		for i, p := range from[:len(metres)] {
			metres[i], _ = s.ask(t, store.Query{Center: p, Radius: store.Unlimited})
		}
		p := locate(from[:len(metres)], metres, place)
		points[geo.LatLng{Lat: math.Round(p.Lat * 1e6), Lng: math.Round(p.Lng * 1e6)}]++
		lat, lng = lat+p.Lat/times, lng+p.Lng/times
		m.must(t, store.Command{Action: store.ActCancel, Job: j.ID, By: "ann"})
	}
	if len(points) > 4 {
		t.Errorf("%d jobs from one home are at %d points: there is something to take the mean of", times, len(points))
	}
	if d := home.Distance(geo.LatLng{Lat: lat, Lng: lng}); d < 200 {
		t.Errorf("the mean of %d jobs is %v m from the home", times, d)
	}
	// What eve has learnt of her own job is of no use.
	if p := b.Place(&other); p.Distance(place) < 50 {
		t.Errorf("a job that somebody else posts at the home is blurred to nearly the same place: %v and %v", p, place)
	}
}

// testBlurAlerts: an alert around the exact place tells of nothing.
func testBlurAlerts(t *testing.T, open BlurredDatabase) {
	b := aBlur(t, "alerts")
	e := open.migrated(t, b)
	m := &alerted{market: market{e: e}, e: e}
	j := aJob(m.nextID())
	j.Source, j.SourceID, j.Requester = "", "", "ann"
	place := b.Place(&j)
	d := j.At.Distance(place)
	if d < 100 {
		t.Fatalf("blurred by only %v m", d)
	}
	m.put(t, "at the home", j.At, d-1, store.Filter{})
	m.put(t, "at the blurred place", place, 1, store.Filter{})
	m.put(t, "around both", j.At, d+1, store.Filter{})
	if _, err := e.Post(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	m.match(t)
	m.wantTold(t, tellLine("at the blurred place", j.ID), tellLine("around both", j.ID))
}

// testBlurAdopted: a database without a place takes the first blur, and keeps it.
func testBlurAdopted(t *testing.T, open BlurredDatabase) {
	b := aBlur(t, "adopted")
	plain := open.migrated(t, nil)
	e := open.migrated(t, b) // with the schema there already
	wantErrPlaces(t, "Ready without a blur", plain.Ready(t.Context()), "would show where")
	if err := plain.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErrPlaces(t, "Ready without a blur, after Migrate", plain.Ready(t.Context()), "would show where")
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	if err := e.Reblur(t.Context(), func(int) { t.Error("Reblur did something") }); err != nil {
		t.Errorf("Reblur with nothing to do: %v", err)
	}
}

func wantErrPlaces(t *testing.T, what string, err error, says string) {
	t.Helper()
	if !errors.Is(err, store.ErrPlaces) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "a secret for tests") {
		t.Errorf("%s: %v, want ErrPlaces that says %q", what, err, says)
	}
}

// testBlurRefused: an engine with another setting writes no place, tells no alert and is
// not ready, and Migrate changes nothing about that.
func testBlurRefused(t *testing.T, open BlurredDatabase) {
	for _, c := range []struct {
		name     string
		has, own *store.Blur
		says     string
	}{
		{"on", nil, aBlur(t, "one"), "own places"},
		{"another secret", aBlur(t, "one"), aBlur(t, "two"), "another radius or secret"},
		{"off", aBlur(t, "two"), nil, "would show where"},
	} {
		e := open(t, c.has)
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Reblur(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		m := &market{e: e}
		m.last.Store(int64(1000 * len(c.name)))
		job, closed := m.post(t, "ann", nil), m.post(t, "ann", nil)
		if err := e.Move(t.Context(), closed.ID, store.Open, store.Matched); err != nil {
			t.Fatal(err)
		}
		other := open(t, c.own)
		if err := other.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := read(t, e, store.Access{Index: store.NoIndex, Match: all})
		events := len(m.events(t, job.ID))
		next := aJob(m.nextID())
		for what, do := range map[string]func() error{
			"Ready": func() error { return other.Ready(t.Context()) },
			"Save":  func() error { _, err := other.Save(t.Context(), []store.Job{next}); return err },
			"Move":  func() error { return other.Move(t.Context(), closed.ID, store.Matched, store.Open) },
			"Post": func() error {
				j := next
				j.Source, j.SourceID, j.Requester = "", "", "ann"
				_, err := other.Post(t.Context(), j)
				return err
			},
			"Edit": func() error {
				_, err := other.Edit(t.Context(), store.Edit{Job: job.ID, By: "ann", At: clock, Change: func(j *store.Job) error { j.Title += "!"; return nil }})
				return err
			},
			"MatchPending": func() error { _, err := store.MatchPending(t.Context(), other, 10, now); return err },
		} {
			wantErrPlaces(t, c.name+": "+what, do(), c.says)
		}
		if after := read(t, e, store.Access{Index: store.NoIndex, Match: all}); !slices.Equal(before, after) {
			t.Errorf("%s: the search table has changed", c.name)
		}
		if got := len(m.events(t, job.ID)); got != events {
			t.Errorf("%s: %d events, want %d", c.name, got, events)
		}
		// What needs no place goes on.
		if _, err := other.Save(t.Context(), []store.Job{remoteJob(m.nextID())}); err != nil {
			t.Errorf("%s: a remote job: %v", c.name, err)
		}
		if err := other.Move(t.Context(), job.ID, store.Open, store.Matched); err != nil {
			t.Errorf("%s: a job that closes: %v", c.name, err)
		}
	}
}

// fillForBlur saves jobs for more than two of Reblur's transactions, and posts some.
func fillForBlur(t *testing.T, e BlurVenue) []store.ID {
	t.Helper()
	r := rand.New(rand.NewPCG(seed(t), 900))
	jobs := makeJobs(t, r, 1250, func(r *rand.Rand, _ int) geo.LatLng { return anywhere(r) })
	var ids []store.ID
	for i := range jobs {
		jobs[i].ID = store.ID(i + 1)
		ids = append(ids, jobs[i].ID)
	}
	if _, err := e.Save(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	m := &market{e: e}
	m.last.Store(5000)
	for range 5 {
		ids = append(ids, m.post(t, "ann", nil).ID)
	}
	return ids
}

// checkBlurred fails unless the search tables have every open job where a blur puts it.
func checkBlurred(t *testing.T, e BlurVenue, b *store.Blur, ids []store.ID) {
	t.Helper()
	var jobs []store.Job
	for _, j := range records(t, e, ids...) {
		jobs = append(jobs, j)
	}
	checkSearchTables(t, e, blurred(b, jobs))
}

// testBlurChanged: on, another secret, off again.
func testBlurChanged(t *testing.T, open BlurredDatabase) {
	e := open.migrated(t, nil)
	ids := fillForBlur(t, e)
	for _, b := range []*store.Blur{aBlur(t, "one"), aBlur(t, "two"), nil} {
		e := open(t, b)
		var told []int
		if err := e.Reblur(t.Context(), func(done int) { told = append(told, done) }); err != nil {
			t.Fatal(err)
		}
		open := len(read(t, e, store.Access{Index: store.NoIndex, Match: all}))
		if len(told) < 3 || !slices.IsSorted(told) || told[len(told)-1] != open {
			t.Errorf("progress was %v, want at least 3 steps to %d", told, open)
		}
		if err := e.Ready(t.Context()); err != nil {
			t.Errorf("Ready after Reblur: %v", err)
		}
		checkBlurred(t, e, b, ids)
	}
}

// testBlurInterrupted: no engine is ready until a Reblur that was cut off has run again.
func testBlurInterrupted(t *testing.T, open BlurredDatabase) {
	plain := open.migrated(t, nil)
	ids := fillForBlur(t, plain)
	b := aBlur(t, "interrupted")
	e := open(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := e.Reblur(ctx, func(int) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("Reblur that is interrupted: %v", err)
	}
	wantErrPlaces(t, "Ready", e.Ready(t.Context()), "run it again")
	wantErrPlaces(t, "Ready without the blur", plain.Ready(t.Context()), "would show where")
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantErrPlaces(t, "Ready after Migrate", e.Ready(t.Context()), "run it again")
	if err := e.Reblur(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	checkBlurred(t, e, b, ids)
}

// testBlurBeside: jobs open, move and close, on nodes with the old setting and with
// the new one, while two nodes change all places; in the end all are where they belong.
func testBlurBeside(t *testing.T, open BlurredDatabase) {
	plain := open.migrated(t, nil)
	ids := fillForBlur(t, plain)
	b := aBlur(t, "beside")
	nodes := []BlurVenue{open(t, b), open(t, b)}
	busy := func(f func() error) error {
		_, err := whileBusy(func() (struct{}, error) { return struct{}{}, f() })
		return err
	}
	const writers, steps = 3, 40
	var refusedWrites, written atomic.Int64
	posted := make([][]store.ID, writers)
	each(t, writers+len(nodes), func(n int) error {
		if n >= writers {
			return busy(func() error { return nodes[n-writers].Reblur(t.Context(), nil) })
		}
		r := rand.New(rand.NewPCG(seed(t), uint64(n)))
		for i := range steps {
			// Each writer has jobs of its own among those that are there.
			id := store.ID(1 + n + writers*r.IntN(1250/writers))
			e := BlurVenue(nodes[i%2])
			if i%3 == 0 {
				e = plain
			}
			err := busy(func() error {
				switch i % 4 {
				case 0:
					j := aJob(store.ID(10_000 + 1000*n + i))
					j.At, j.Source, j.SourceID, j.Requester = anywhere(r), "", "", store.UserID(fmt.Sprint("user ", n))
					_, err := e.Post(t.Context(), j)
					if err == nil {
						posted[n] = append(posted[n], j.ID)
					}
					return err
				case 1:
					return refusedMove(e.Move(t.Context(), id, store.Open, store.Matched))
				default:
					return refusedMove(e.Move(t.Context(), id, store.Matched, store.Open))
				}
			})
			switch {
			case errors.Is(err, store.ErrPlaces):
				refusedWrites.Add(1)
			case err != nil:
				return err
			default:
				written.Add(1)
			}
		}
		return nil
	})
	t.Logf("%d writes done, %d refused", written.Load(), refusedWrites.Load())
	if written.Load() == 0 {
		t.Error("nothing was written beside Reblur")
	}
	if err := nodes[1].Ready(t.Context()); err != nil {
		t.Error(err)
	}
	checkBlurred(t, nodes[0], b, slices.Concat(ids, slices.Concat(posted...)))
}

// refusedMove lets pass that a job is not in the state to move from.
func refusedMove(err error) error {
	var se *store.StateError
	if errors.As(err, &se) {
		return nil
	}
	return err
}
