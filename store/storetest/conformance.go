package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Conformance holds an engine to the promises of [store.Engine]. open returns an
// engine on an empty database whose schema is not made yet, and sees to it that
// it is closed and removed when the test ends.
func Conformance(t *testing.T, open func(t *testing.T) store.Engine) {
	sub := func(name string, test func(t *testing.T, e store.Engine)) {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			if err := e.Migrate(t.Context()); err != nil {
				t.Fatalf("Migrate: %v", err)
			}
			test(t, e)
		})
	}
	t.Run("Migrate", func(t *testing.T) { testMigrate(t, open(t)) })
	sub("Add", testAdd)
	sub("Update", testUpdate)
	sub("UpdateKeepsState", testUpdateKeepsState)
	sub("UpdatePlace", testUpdatePlace)
	sub("Atomic", testAtomic)
	sub("Repeated", testRepeated)
	sub("LargeBatch", testLargeBatch)
	sub("Texts", testTexts)
	sub("Numbers", testNumbers)
	sub("Jobs", testJobs)
	sub("Move", testMove)
	sub("MoveOnce", testMoveOnce)
	sub("Version", testVersion)
	sub("Cancelled", testCancelled)
	sub("Concurrent", testConcurrent)
	sub("Access", testAccess)
}

// Nodes starts several nodes at once on one database whose schema is not made
// yet, and holds that all become ready and see the same jobs.
func Nodes(t *testing.T, nodes []store.Engine) {
	t.Helper()
	if len(nodes) < 2 {
		t.Fatalf("%d nodes, want 2 or more", len(nodes))
	}
	each(t, len(nodes), func(n int) error { return nodes[n].Migrate(t.Context()) })
	for n, e := range nodes {
		if err := e.Ready(t.Context()); err != nil {
			t.Errorf("node %d is not ready: %v", n, err)
		}
	}
	each(t, len(nodes), func(n int) error {
		_, err := saveBusy(t.Context(), nodes[n], []store.Job{aJob(store.ID(n + 1))})
		return err
	})
	for n, e := range nodes {
		if got := count(t, e); got != len(nodes) {
			t.Errorf("node %d counts %d jobs, want %d", n, got, len(nodes))
		}
	}
	checkSearchTables(t, nodes[0], nil)
}

// each runs f(0..n-1) at once and fails the test for each error.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := f(i); err != nil {
				t.Errorf("%d of %d: %v", i, n, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// aJob is a normalized job with something in each field.
func aJob(id store.ID) store.Job {
	return store.Job{
		ID: id, Source: "test", SourceID: "no " + id.String(),
		Title: "Walk a dog", Description: "Twice a day.\nHe is friendly.", URL: "https://example.com/" + id.String(),
		Category: "pets", Employer: "Acme", Pay: store.Pay{Amount: 1250, Currency: "EUR", Per: "hour"},
		At: geo.LatLng{Lat: 37.5663, Lng: 66.9779}, State: store.Open,
		Posted: clock.Add(-time.Hour), Expires: clock.Add(time.Hour),
	}
}

func remoteJob(id store.ID) store.Job {
	j := aJob(id)
	j.At, j.Remote = geo.LatLng{}, true
	return j
}

// save saves jobs, normalized, and checks what Save says it did.
func save(t *testing.T, e store.Engine, want store.Saved, jobs ...store.Job) {
	t.Helper()
	for i := range jobs {
		n := jobs[i]
		if err := n.Normalize(); err != nil || n != jobs[i] {
			t.Fatalf("the test saves a job that is not normalized: %v: %+v", err, jobs[i])
		}
	}
	got, err := e.Save(t.Context(), jobs)
	if err != nil {
		t.Fatalf("Save %d jobs: %v", len(jobs), err)
	}
	if got != want {
		t.Fatalf("Save = %+v, want %+v", got, want)
	}
}

// saveBusy saves jobs, again when the database was busy: it is allowed to be.
func saveBusy(ctx context.Context, e store.Engine, jobs []store.Job) (store.Saved, error) {
	return whileBusy(func() (store.Saved, error) { return e.Save(ctx, jobs) })
}

func whileBusy[T any](f func() (T, error)) (v T, err error) {
	for range 50 {
		if v, err = f(); !errors.Is(err, store.ErrBusy) {
			break
		}
	}
	return v, err
}

func count(t *testing.T, e store.Engine) int {
	t.Helper()
	n, err := e.Count(t.Context())
	if err != nil {
		t.Fatalf("Count: %v", err)
	}
	return n
}

// records returns the records of ids by id.
func records(t *testing.T, e store.Engine, ids ...store.ID) map[store.ID]store.Job {
	t.Helper()
	jobs, err := e.Jobs(t.Context(), ids)
	if err != nil {
		t.Fatalf("Jobs of %d ids: %v", len(ids), err)
	}
	byID := make(map[store.ID]store.Job, len(jobs))
	for _, j := range jobs {
		if _, twice := byID[j.ID]; twice {
			t.Fatalf("Jobs returned %s twice", j.ID)
		}
		byID[j.ID] = j
	}
	return byID
}

// checkRecords fails unless the engine has exactly these jobs.
func checkRecords(t *testing.T, e store.Engine, want ...store.Job) {
	t.Helper()
	ids := make([]store.ID, len(want))
	for i := range want {
		ids[i] = want[i].ID
	}
	got := records(t, e, ids...)
	for i := range want {
		g, ok := got[want[i].ID]
		switch {
		case !ok:
			t.Errorf("job %s is not stored", want[i].ID)
		case !sameJob(&g, &want[i]):
			t.Errorf("job %s is stored as\n%s, want\n%s", want[i].ID, show(g), show(want[i]))
		}
	}
	if n := count(t, e); n != len(want) {
		t.Errorf("Count = %d, want %d", n, len(want))
	}
	checkSearchTables(t, e, want)
}

// sameJob compares to the last bit; times also by their location, which is UTC.
// The version is left to testVersion.
func sameJob(a, b *store.Job) bool {
	c := *a
	c.Version = b.Version
	return c == *b &&
		math.Float64bits(a.At.Lat) == math.Float64bits(b.At.Lat) &&
		math.Float64bits(a.At.Lng) == math.Float64bits(b.At.Lng)
}

// show prints a value for people.
func show(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return strings.TrimSpace(b.String())
}

// checkSearchTables fails unless the search tables hold exactly the open jobs,
// each index alike, with what their records say. The jobs are those of want, or,
// when it is nil, those whose ids the search tables name.
func checkSearchTables(t *testing.T, e store.Engine, want []store.Job) {
	t.Helper()
	placed := read(t, e, store.Access{Index: store.NoIndex, Match: all})
	remote := read(t, e, store.Access{Index: store.IndexRemote, Match: all})
	if want == nil {
		ids := make([]store.ID, 0, len(placed)+len(remote))
		for _, c := range slices.Concat(placed, remote) {
			ids = append(ids, c.ID)
		}
		for _, j := range records(t, e, ids...) {
			want = append(want, j)
		}
		if len(want) != len(ids) {
			t.Errorf("the search tables have %d jobs, of which %d are stored", len(ids), len(want))
		}
		for _, j := range want {
			if j.State != store.Open {
				t.Errorf("job %s is %s, but in a search table", j.ID, j.State)
			}
		}
	}
	var wantPlaced, wantRemote []store.Candidate
	for i := range want {
		switch c := candidate(&want[i]); {
		case want[i].State != store.Open:
		case want[i].Remote:
			wantRemote = append(wantRemote, c)
		default:
			wantPlaced = append(wantPlaced, c)
		}
	}
	sameCandidates(t, "the search table", placed, wantPlaced)
	sameCandidates(t, "the table of remote jobs", remote, wantRemote)
	for _, a := range wholeIndexes() {
		a.Match = all
		sameCandidates(t, fmt.Sprintf("index %s", a.Index), read(t, e, a), wantPlaced)
	}
}

func testMigrate(t *testing.T, e store.Engine) {
	if e.Name() == "" {
		t.Error("the engine has no name")
	}
	if err := e.Ready(t.Context()); err == nil {
		t.Error("Ready is nil before Migrate")
	}
	each(t, 8, func(int) error { return e.Migrate(t.Context()) })
	save(t, e, store.Saved{Added: 1}, aJob(1))
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatalf("Migrate again: %v", err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("Ready after Migrate: %v", err)
	}
	checkRecords(t, e, aJob(1))
}

func testAdd(t *testing.T, e store.Engine) {
	checkRecords(t, e)
	save(t, e, store.Saved{})
	jobs := []store.Job{aJob(1), remoteJob(2), aJob(math.MaxInt64)}
	for i, s := range store.States() {
		j := aJob(store.ID(10 + i))
		j.State = s
		jobs = append(jobs, j)
	}
	bare := store.Job{ID: 20, Title: "x", Posted: clock}
	if err := bare.Normalize(); err != nil {
		t.Fatal(err)
	}
	jobs = append(jobs, bare)
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)
}

func testUpdate(t *testing.T, e store.Engine) {
	was := aJob(1)
	save(t, e, store.Saved{Added: 1}, was)
	// Everything else is new, and the id and state that come with it do not count.
	now := store.Job{
		ID: 99, Source: was.Source, SourceID: was.SourceID,
		Title: "Walk a cat", Description: "", URL: "", Category: "cats", Employer: "Zenith", Pay: store.Pay{},
		At: geo.LatLng{Lat: -33.4, Lng: -70.6}, State: store.Cancelled, Posted: clock,
	}
	added := aJob(2)
	save(t, e, store.Saved{Added: 1, Updated: 1}, now, added)
	now.ID, now.State = 1, store.Open
	checkRecords(t, e, now, added)
	save(t, e, store.Saved{Updated: 2}, now, added)
	checkRecords(t, e, now, added)
}

func testUpdateKeepsState(t *testing.T, e store.Engine) {
	placed, remote := aJob(1), remoteJob(2)
	placed.State, remote.State = store.Matched, store.Expired
	save(t, e, store.Saved{Added: 2}, placed, remote)
	placed.State, remote.State = store.Open, store.Open
	placed.Title, remote.Title = "Again", "Again too"
	save(t, e, store.Saved{Updated: 2}, placed, remote)
	placed.State, remote.State = store.Matched, store.Expired
	checkRecords(t, e, placed, remote)
}

func testUpdatePlace(t *testing.T, e store.Engine) {
	other := aJob(7)
	save(t, e, store.Saved{Added: 2}, aJob(1), other)
	for _, at := range []geo.LatLng{{Lat: -17, Lng: 180}, {Lat: 90, Lng: 12}, {}, {Lat: 37.5663, Lng: 126.9779}} {
		j := aJob(1)
		j.At = at
		save(t, e, store.Saved{Updated: 1}, j)
		checkRecords(t, e, j, other)
	}
	save(t, e, store.Saved{Updated: 1}, remoteJob(1))
	checkRecords(t, e, remoteJob(1), other)
	save(t, e, store.Saved{Updated: 1}, aJob(1))
	checkRecords(t, e, aJob(1), other)
}

func testAtomic(t *testing.T, e store.Engine) {
	was := []store.Job{aJob(1), aJob(2), remoteJob(3)}
	save(t, e, store.Saved{Added: 3}, was...)
	update := aJob(1)
	update.Title, update.At = "Never", geo.LatLng{Lat: 1, Lng: 2}
	taken := aJob(2)
	taken.SourceID = "somebody else's"
	takenRemote := remoteJob(3)
	takenRemote.SourceID = "somebody else's"
	twin := aJob(50)
	twin.SourceID = "the other twin"
	for name, batch := range map[string][]store.Job{
		"taken":        {update, aJob(10), taken, aJob(11)},
		"taken remote": {update, aJob(10), takenRemote, aJob(11)},
		"twins":        {update, aJob(50), twin, aJob(10)},
	} {
		if got, err := e.Save(t.Context(), batch); !errors.Is(err, store.ErrDuplicate) || got != (store.Saved{}) {
			t.Errorf("%s: Save = %+v, %v; want ErrDuplicate", name, got, err)
		}
		checkRecords(t, e, was...)
	}
}

func testRepeated(t *testing.T, e store.Engine) {
	first, last := aJob(1), remoteJob(2)
	last.SourceID, last.Title = first.SourceID, "The last counts"
	save(t, e, store.Saved{Added: 1}, first, last)
	checkRecords(t, e, last)
	// The ids of an update do not count, whichever comes last.
	last.Title = "And again"
	save(t, e, store.Saved{Updated: 1}, first, last)
	checkRecords(t, e, last)
}

func testLargeBatch(t *testing.T, e store.Engine) {
	r := rand.New(rand.NewPCG(seed(t), 100))
	jobs := makeJobs(t, r, 2500, func(r *rand.Rand, _ int) geo.LatLng { return anywhere(r) })
	for i := range 60 {
		jobs[i*40].Description = strings.Repeat("🚲", store.MaxDescription)
	}
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)
	for i := range jobs {
		jobs[i].Title += " again"
	}
	save(t, e, store.Saved{Updated: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)
}

// trickyTexts are alike, invisible or special to some database, but each is a
// normalized text of its own. The empty text is not among them.
var trickyTexts = []string{
	"a", "A", "á", "a\u0301", "à", "å", "a\u200b", "a\u00ad", "\u200ba", "ａ", "ª",
	"straße", "strasse", "ﬁ", "fi", "ı", "i", "İ", "Å", "\u212b", "ж", "Ж",
	"배달", "배\u200d달", "👩‍🔧", "👩", "🔧", "\U0001f1f0\U0001f1f7", "\U0010ffff", "\ufeffx", "x", "ﷺ",
	"O'Brien", `O"Brien`, "O`Brien", `O\Brien`, `O\\Brien`, `\`, `'`, `''`, `"`, "`", "; DROP TABLE job; --", "/* x */", "?", "$1", ":id", "@x",
	"%", "_", "a%", "a_", "ab", "NULL", "null", "0", "00", "1", "1.0", "1e0", "true", "{}", "<b>&amp;</b>", "\u2028",
}

func testTexts(t *testing.T, e store.Engine) {
	var jobs []store.Job
	add := func(change func(*store.Job)) {
		j := aJob(store.ID(len(jobs) + 1))
		change(&j)
		jobs = append(jobs, j)
	}
	var texts []string
	for _, s := range trickyTexts {
		j := aJob(1)
		j.Title = s
		if j.Normalize() == nil && j.Title == s {
			texts = append(texts, s)
		}
	}
	if len(texts) < len(trickyTexts)-3 {
		t.Fatalf("only %d of %d texts are normalized", len(texts), len(trickyTexts))
	}
	for _, s := range texts {
		add(func(j *store.Job) {
			j.Source, j.SourceID, j.Title, j.Description, j.URL, j.Employer = s, s, s, s, s, s
			j.Category = strings.ToLower(s)
		})
		// The same pair but for what parts it.
		add(func(j *store.Job) { j.Source, j.SourceID = s, s+" "+s })
		add(func(j *store.Job) { j.Source, j.SourceID = s+" "+s, s })
	}
	add(func(j *store.Job) { j.Description = "a\n\n\tb\r\nc  d" })
	add(func(j *store.Job) {
		j.Source, j.SourceID = strings.Repeat("가", store.MaxSource), strings.Repeat("🚲", store.MaxSourceID)
		j.Title, j.Description = strings.Repeat("🚲", store.MaxTitle), strings.Repeat("🚲", store.MaxDescription)
		j.URL, j.Category = strings.Repeat("🚲", store.MaxURL), strings.Repeat("🚲", store.MaxCategory)
		j.Employer = strings.Repeat("🚲", store.MaxEmployer)
	})
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)
	save(t, e, store.Saved{Updated: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)

	// A filter takes a text as it is: blanks count, too.
	for _, s := range append(texts, "a ", " a", "A ", "x\t", "nobody's") {
		for _, m := range []store.Match{{Employer: s}, {Categories: []string{s}}, {Categories: slices.Sorted(slices.Values([]string{s, "배달"}))}} {
			var want []store.ID
			for i := range jobs {
				if accepts(&m, &jobs[i]) {
					want = append(want, jobs[i].ID)
				}
			}
			got := read(t, e, store.Access{Index: store.NoIndex, Match: m})
			sameIDs(t, fmt.Sprintf("jobs with %+v", m), idsOf(got), want)
			for _, c := range got {
				if !m.Accepts(&c) {
					t.Errorf("%+v came with %+v, and not with what that is about", c, m)
				}
			}
		}
	}
}

func testNumbers(t *testing.T, e store.Engine) {
	tiny := math.SmallestNonzeroFloat64
	lats := []float64{0, tiny, -tiny, 1e-300, 0.1 + 0.2, 1.0 / 3, -37.566300000000005, 89.99999999999999, math.Nextafter(90, 0), 90, -90}
	lngs := []float64{0, tiny, -tiny, 1e-300, 0.1 + 0.2, 127.1, 127.10000000000001, -179.99999999999997, math.Nextafter(180, 0), 180, math.Nextafter(-180, 0)}
	var jobs []store.Job
	for _, lat := range lats {
		for _, lng := range lngs {
			j := aJob(store.ID(len(jobs) + 1))
			j.At = geo.LatLng{Lat: lat, Lng: lng}
			jobs = append(jobs, j)
		}
	}
	day := 24 * time.Hour
	for _, posted := range []time.Time{time.UnixMilli(0).UTC(), clock.Add(-time.Millisecond), time.Date(9999, 12, 31, 23, 59, 59, 998e6, time.UTC)} {
		for _, expires := range []time.Time{{}, time.UnixMilli(1).UTC(), posted, clock.Add(100 * 365 * day)} {
			j := aJob(store.ID(len(jobs) + 1))
			j.Posted, j.Expires = posted, expires
			jobs = append(jobs, j)
		}
	}
	for _, pay := range []store.Pay{{}, {Amount: 1}, {Amount: store.MaxPay, Currency: "KRW", Per: "month"}, {Amount: 99_999_999_999_999, Per: "job"}, {Currency: "USD"}} {
		j := aJob(store.ID(len(jobs) + 1))
		j.Pay = pay
		jobs = append(jobs, j)
	}
	for _, id := range []store.ID{1<<53 + 1, math.MaxInt64, math.MaxInt64 - 1} {
		jobs = append(jobs, aJob(id), remoteJob(id-5))
	}
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	checkRecords(t, e, jobs...)
}

func testJobs(t *testing.T, e store.Engine) {
	var jobs []store.Job
	for i := range 2500 {
		jobs = append(jobs, aJob(store.ID(2*i+2)))
	}
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	if got := records(t, e); len(got) != 0 {
		t.Errorf("Jobs of no ids returned %d", len(got))
	}
	if got := records(t, e, 1, 5001, math.MaxInt64, 0, -2); len(got) != 0 {
		t.Errorf("Jobs of ids that do not exist returned %d", len(got))
	}
	var ids []store.ID
	for i := range store.ID(5002) {
		ids = append(ids, 5001-i)
	}
	got := records(t, e, ids...)
	if len(got) != len(jobs) {
		t.Errorf("Jobs of %d ids returned %d, want %d", len(ids), len(got), len(jobs))
	}
	for i := range jobs {
		if g := got[jobs[i].ID]; !sameJob(&g, &jobs[i]) {
			t.Fatalf("Jobs returned %s, want %s", show(g), show(jobs[i]))
		}
	}
}

func testMove(t *testing.T, e store.Engine) {
	jobs := []store.Job{aJob(1), remoteJob(2), aJob(3)}
	jobs[2].Expires = clock.Add(-time.Hour) // whoever reopens it
	save(t, e, store.Saved{Added: 3}, jobs...)
	states := store.States()
	// Each step is to each other state, by all ways.
	for _, to := range append(states[1:], store.Open, store.Matched, store.Cancelled, store.Matched, store.Expired, store.Cancelled, store.Open) {
		for i := range jobs {
			from := jobs[i].State
			for _, wrong := range states {
				if wrong == from {
					continue
				}
				err := e.Move(t.Context(), jobs[i].ID, wrong, to)
				var se *store.StateError
				if !errors.As(err, &se) || *se != (store.StateError{ID: jobs[i].ID, Is: from, Want: wrong}) {
					t.Errorf("Move from %s, where the job is %s: %v", wrong, from, err)
				}
			}
			checkRecords(t, e, jobs...)
			if err := e.Move(t.Context(), jobs[i].ID, from, to); err != nil {
				t.Fatalf("Move from %s to %s: %v", from, to, err)
			}
			jobs[i].State = to
			checkRecords(t, e, jobs...)
		}
	}
	for _, id := range []store.ID{4, math.MaxInt64, 0} {
		if err := e.Move(t.Context(), id, store.Open, store.Matched); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Move of job %d, which does not exist: %v, want ErrNotFound", id, err)
		}
	}
	got := read(t, e, store.Access{Index: store.NoIndex, Match: store.Match{OpenAt: store.Millis(clock)}})
	sameIDs(t, "unexpired jobs", idsOf(got), []store.ID{1})
}

// testVersion holds that a job's version grows with each change of it, and with
// nothing else.
func testVersion(t *testing.T, e store.Engine) {
	placed, remote, given := aJob(1), remoteJob(2), aJob(3)
	given.Requester, given.Version = "kim", 7
	jobs := []store.Job{placed, remote, given}
	save(t, e, store.Saved{Added: 3}, jobs...)
	check := func(what string, want ...int64) {
		t.Helper()
		got := records(t, e, 1, 2, 3)
		for i, v := range want {
			if g := got[store.ID(i+1)].Version; g != v {
				t.Errorf("%s: job %d is at version %d, want %d", what, i+1, g, v)
			}
		}
	}
	check("added", 0, 0, 7)
	save(t, e, store.Saved{Updated: 3}, jobs...)
	check("saved as it is", 0, 0, 7)
	n := int64(0)
	for _, change := range []func(*store.Job){
		func(j *store.Job) { j.Title = "Walk a cat" }, func(j *store.Job) { j.Description = "" }, func(j *store.Job) { j.URL = "" },
		func(j *store.Job) { j.Category = "cats" }, func(j *store.Job) { j.Employer = "Kim" }, func(j *store.Job) { j.Pay.Amount = 7 },
		func(j *store.Job) { j.Pay.Currency = "USD" }, func(j *store.Job) { j.Pay.Per = "day" },
		func(j *store.Job) { j.Posted = clock }, func(j *store.Job) { j.Expires = time.Time{} },
	} {
		n++
		for i := range jobs {
			change(&jobs[i])
		}
		save(t, e, store.Saved{Updated: 3}, jobs...)
		check("changed", n, n, 7+n)
	}
	jobs[0].At.Lat, jobs[2].At.Lng = 1, 1
	jobs[1].Remote, jobs[1].At = false, geo.LatLng{}
	save(t, e, store.Saved{Updated: 3}, jobs...)
	check("another place", n+1, n+1, n+8)
	if g := records(t, e, 3)[3]; g.Requester != "kim" {
		t.Errorf("the requester is %q, want kim", g.Requester)
	}
	for _, to := range []store.State{store.Open, store.Matched} {
		if err := e.Move(t.Context(), 1, store.Open, to); err != nil {
			t.Fatal(err)
		}
	}
	check("moved once", n+2)
}

func testMoveOnce(t *testing.T, e store.Engine) {
	for id := store.ID(1); id <= 5; id++ {
		save(t, e, store.Saved{Added: 1}, aJob(id))
		var mu sync.Mutex
		won := 0
		each(t, 8, func(int) error {
			_, err := whileBusy(func() (struct{}, error) { return struct{}{}, e.Move(t.Context(), id, store.Open, store.Matched) })
			var se *store.StateError
			if errors.As(err, &se) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			won++
			return err
		})
		if won != 1 {
			t.Errorf("%d workers were matched with job %d, want 1", won, id)
		}
	}
}

func testCancelled(t *testing.T, e store.Engine) {
	save(t, e, store.Saved{Added: 1}, aJob(1))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {late, context.DeadlineExceeded}} {
		for name, call := range map[string]func() error{
			"Read": func() error {
				_, err := e.Read(c.ctx, store.Access{Index: store.NoIndex}, func([]store.Candidate) error { return nil })
				return err
			},
			"Explain": func() error { _, err := e.Explain(c.ctx, store.Access{Index: store.NoIndex}); return err },
			"Jobs":    func() error { _, err := e.Jobs(c.ctx, []store.ID{1}); return err },
			"Save":    func() error { _, err := e.Save(c.ctx, []store.Job{aJob(2)}); return err },
			"Move":    func() error { return e.Move(c.ctx, 1, store.Open, store.Matched) },
			"Count":   func() error { _, err := e.Count(c.ctx); return err },
			"Ready":   func() error { return e.Ready(c.ctx) },
		} {
			if err := call(); !errors.Is(err, c.want) {
				t.Errorf("%s: error %v, want %v", name, err, c.want)
			}
		}
	}
	checkRecords(t, e, aJob(1))

	var jobs []store.Job
	for id := store.ID(2); id < 3000; id++ {
		jobs = append(jobs, aJob(id))
	}
	save(t, e, store.Saved{Added: len(jobs)}, jobs...)
	enough := errors.New("enough")
	calls := 0
	_, err := e.Read(t.Context(), store.Access{Index: store.NoIndex}, func([]store.Candidate) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("Read = %v after %d calls of yield, want yield's first error", err, calls)
	}
	// The engine works on after all that.
	checkRecords(t, e, append(jobs, aJob(1))...)
}

// testConcurrent lets writers, movers and readers at the same few jobs, and
// checks afterwards that the search tables and the records agree.
func testConcurrent(t *testing.T, e store.Engine) {
	const jobs, workers, steps = 60, 8, 25
	var first []store.Job
	for id := store.ID(1); id <= jobs; id++ {
		first = append(first, aJob(id))
	}
	save(t, e, store.Saved{Added: jobs}, first...)
	s := seed(t)
	each(t, workers, func(w int) error {
		r := rand.New(rand.NewPCG(s, 200+uint64(w)))
		for step := range steps {
			switch w % 4 {
			case 0, 1: // save some, in any order, with or without a place
				var batch []store.Job
				for _, n := range r.Perm(jobs)[:10] {
					j := aJob(store.ID(n + 1))
					if r.IntN(4) == 0 {
						j = remoteJob(j.ID)
					} else {
						j.At = anywhere(r)
					}
					j.Title = fmt.Sprintf("by %d in step %d", w, step)
					batch = append(batch, j)
				}
				j := aJob(store.ID(1000 + w*steps + step))
				batch = append(batch, j)
				if _, err := saveBusy(t.Context(), e, batch); err != nil {
					return fmt.Errorf("save: %w", err)
				}
			case 2: // match and reopen some
				id := store.ID(1 + r.IntN(jobs))
				from, to := store.Open, store.Matched
				if r.IntN(2) == 0 {
					from, to = to, from
				}
				_, err := whileBusy(func() (struct{}, error) { return struct{}{}, e.Move(t.Context(), id, from, to) })
				if se := new(store.StateError); err != nil && !errors.As(err, &se) {
					return fmt.Errorf("move: %w", err)
				}
			case 3: // read, and find no job twice
				seen := make(map[store.ID]bool)
				_, err := whileBusy(func() (int, error) {
					clear(seen)
					return e.Read(t.Context(), store.Access{Index: store.NoIndex}, func(cs []store.Candidate) error {
						for _, c := range cs {
							if seen[c.ID] {
								return fmt.Errorf("job %s is in the search table twice", c.ID)
							}
							seen[c.ID] = true
						}
						return nil
					})
				})
				if err != nil {
					return fmt.Errorf("read: %w", err)
				}
			}
		}
		return nil
	})
	var ids []store.ID
	for id := store.ID(1); id <= jobs; id++ {
		ids = append(ids, id)
	}
	for w := range workers {
		for step := range steps {
			ids = append(ids, store.ID(1000+w*steps+step))
		}
	}
	var now []store.Job
	for _, j := range records(t, e, ids...) {
		now = append(now, j)
	}
	if want := jobs + workers/2*steps; len(now) != want {
		t.Errorf("%d jobs are stored, want %d", len(now), want)
	}
	checkRecords(t, e, now...)
}
