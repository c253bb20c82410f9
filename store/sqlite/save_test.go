package sqlite

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func load(t testing.TB, e *Engine, ids ...store.ID) []store.Job {
	t.Helper()
	jobs, err := e.Jobs(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(jobs, func(a, b store.Job) int { return int(a.ID - b.ID) })
	return jobs
}

func TestSaveAndLoad(t *testing.T) {
	e := open(t, Options{})
	jobs := someJobs(t, 500)
	jobs[3].Title, jobs[3].Description, jobs[3].URL = "이사 도와주세요 🚚", "a\nb\t'quoted' \"twice\"", "https://example.org/?a=b&c=%20"
	if s := save(t, e, jobs...); s != (store.Saved{Added: 500}) {
		t.Errorf("%+v", s)
	}
	var all []store.ID
	for _, j := range jobs {
		all = append(all, j.ID)
	}
	if got := load(t, e, append(all, all[0], 9_999_999)...); !reflect.DeepEqual(got, jobs) {
		t.Errorf("what was stored differs from what was saved")
	}
	if n, err := e.Count(t.Context()); n != 500 || err != nil {
		t.Error(n, err)
	}
	if got, err := e.Jobs(t.Context(), nil); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	if s, err := e.Save(t.Context(), nil); s != (store.Saved{}) || err != nil {
		t.Error(s, err)
	}
}

func TestSaveUpdatesByPair(t *testing.T) {
	e := open(t, Options{})
	a, b := job(1, 10, 20), job(2, 11, 21)
	save(t, e, a, b)
	if err := e.Move(t.Context(), 2, store.Open, store.Matched); err != nil {
		t.Fatal(err)
	}

	// New ids and states for known pairs: both keep their own. One pair comes
	// twice, once under an id that is taken, which does not count.
	a2 := a
	a2.ID, a2.Title, a2.At, a2.State = 501, "Moved", geo.LatLng{Lat: -10, Lng: 170}, store.Expired
	b2 := b
	b2.ID, b2.Title, b2.Remote, b2.At = 502, "Remote now", true, geo.LatLng{}
	c1, c2 := job(2, 1, 1), job(3, 2, 2)
	c1.SourceID, c2.SourceID = "c", "c"
	c2.Remote, c2.At = true, geo.LatLng{}
	if s := save(t, e, a2, c1, b2, c2); s != (store.Saved{Added: 1, Updated: 2}) {
		t.Errorf("%+v", s)
	}
	a2.ID, a2.State, b2.ID, b2.State = 1, store.Open, 2, store.Matched
	a2.Version, b2.Version = 1, 2 // b was moved before
	if got := load(t, e, 1, 2, 3, 501, 502); !reflect.DeepEqual(got, []store.Job{a2, b2, c2}) {
		t.Errorf("got %+v", got)
	}
	checkTables(t, e)

	// Every single change reaches the search table; none is also counted.
	for i, change := range []func(*store.Job){
		func(j *store.Job) { j.Pay.Amount = 7 }, func(j *store.Job) { j.Category = "garden" }, func(j *store.Job) { j.Employer = "Kim" },
		func(j *store.Job) { j.Posted = posted.Add(time.Second) }, func(j *store.Job) { j.Expires = posted.Add(time.Hour) },
		func(j *store.Job) { j.At.Lng = 7 }, func(j *store.Job) { j.Remote, j.At = true, geo.LatLng{} },
		func(j *store.Job) { j.Remote, j.At = false, geo.LatLng{Lat: 3} }, func(*store.Job) {},
	} {
		was := a2
		change(&a2)
		if a2 != was {
			a2.Version++
		}
		if s := save(t, e, a2); s != (store.Saved{Updated: 1}) {
			t.Errorf("change %d: %+v", i, s)
		}
		if got := load(t, e, 1); !reflect.DeepEqual(got, []store.Job{a2}) {
			t.Errorf("change %d: %+v", i, got)
		}
		checkTables(t, e)
	}
}

func TestSaveRefusesATakenID(t *testing.T) {
	e := open(t, Options{})
	save(t, e, job(1, 10, 20))
	taken := job(1, 0, 0)
	taken.SourceID = "another"
	changed := job(1, 50, 50)
	for name, batch := range map[string][]store.Job{
		"stored":   {job(7, 1, 1), changed, taken, job(8, 1, 1)},
		"in batch": {job(7, 1, 1), {ID: 7, Source: "other", SourceID: "7", Title: "x", State: store.Open, Posted: posted}},
	} {
		if s, err := e.Save(t.Context(), batch); !errors.Is(err, store.ErrDuplicate) || s != (store.Saved{}) {
			t.Errorf("%s: %+v %v", name, s, err)
		}
		if got := load(t, e, 1, 7, 8); !reflect.DeepEqual(got, []store.Job{job(1, 10, 20)}) {
			t.Errorf("%s: a refused batch left %+v", name, got)
		}
		checkTables(t, e)
	}
	save(t, e, job(7, 1, 1)) // the connection is as before
}

func TestMove(t *testing.T) {
	e := open(t, Options{})
	r := job(2, 0, 0)
	r.Remote = true
	save(t, e, job(1, 10, 20), r)
	found := func() int {
		return len(read(t, e, store.Access{Index: store.NoIndex})) + len(read(t, e, store.Access{Index: store.IndexRemote}))
	}
	for _, id := range []store.ID{1, 2} {
		if err := e.Move(t.Context(), id, store.Open, store.Matched); err != nil {
			t.Fatal(err)
		}
		var se *store.StateError
		if err := e.Move(t.Context(), id, store.Open, store.Expired); !errors.As(err, &se) || *se != (store.StateError{ID: id, Is: store.Matched, Want: store.Open}) {
			t.Error(err)
		}
		checkTables(t, e)
	}
	if n := found(); n != 0 {
		t.Errorf("%d rows of matched jobs", n)
	}
	for _, id := range []store.ID{1, 2} {
		if err := e.Move(t.Context(), id, store.Matched, store.Open); err != nil {
			t.Fatal(err)
		}
	}
	checkTables(t, e)
	if n := found(); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if err := e.Move(t.Context(), 3, store.Open, store.Matched); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
