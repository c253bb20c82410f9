package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// AlertVenue is an engine that does the matching and tells of jobs that open.
type AlertVenue interface {
	Venue
	store.Alerts
}

// Alerts holds an engine to the promises of [store.Alerts]: the same alerts as by
// comparing each with each, on every place of the earth, and nobody told twice, whoever
// matches at once and wherever one of them dies. open is that of [Conformance].
func Alerts(t *testing.T, open func(t *testing.T) AlertVenue) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *alerted)
	}{
		{"Book", testAlertBook}, {"Limit", testAlertLimit}, {"BruteForce", testAlertsBruteForce}, {"Once", testAlertsOnce},
		{"Silent", testAlertsSilent}, {"Pieces", testAlertPieces}, {"Matchers", testAlertMatchers}, {"Lane", testAlertsHoldNothingUp}, {"Killed", testAlertsKilled},
	} {
		t.Run(part.name, func(t *testing.T) {
			e := open(t)
			if err := e.Migrate(t.Context()); err != nil {
				t.Fatalf("Migrate: %v", err)
			}
			part.test(t, &alerted{market: market{e: e}, e: e})
		})
	}
}

// alerted is a market with alerts.
type alerted struct {
	market
	e      AlertVenue
	alerts atomic.Int64 // the last id
}

// put puts an alert of a user around a place.
func (m *alerted) put(t *testing.T, user store.UserID, at geo.LatLng, radius float64, f store.Filter) store.Alert {
	t.Helper()
	f.Remote = store.RemoteExclude
	a := store.Alert{ID: store.ID(m.alerts.Add(1)), User: user, Center: at, Radius: radius, Filter: f, Created: clock}
	if err := m.e.PutAlert(t.Context(), a); err != nil {
		t.Fatalf("PutAlert: %v", err)
	}
	return a
}

func now() time.Time { return clock }

// match matches all that is pending, and leaves nothing pending.
func (m *alerted) match(t *testing.T) store.AlertMatch {
	t.Helper()
	sum, err := store.MatchPending(t.Context(), m.e, 100, now)
	if err != nil {
		t.Fatalf("MatchPending: %v", err)
	}
	if left := m.pending(t); len(left) > 0 {
		t.Fatalf("%d openings are left", len(left))
	}
	return sum
}

func (m *alerted) pending(t *testing.T) []store.Opening {
	t.Helper()
	return wholeList(t, func(o store.Opening) int64 { return int64(o.Event) }, m.e.PendingAlerts)
}

// told returns whom alerts have told of which job, sorted, one line for each message.
func (m *alerted) told(t *testing.T) []string {
	t.Helper()
	var lines []string
	for event, ms := range m.messages(t) {
		for _, msg := range ms {
			if msg.Action != store.ActOpened {
				continue
			}
			if msg.Event != event || msg.Role != store.RoleWorker || msg.Title == "" || msg.JobState != store.Open || msg.Actor != "" || msg.State != store.Pending {
				t.Errorf("message %+v", msg)
			}
			lines = append(lines, tellLine(msg.Recipient, msg.Job))
		}
	}
	slices.Sort(lines)
	return lines
}

func tellLine(user store.UserID, job store.ID) string { return fmt.Sprintf("%s: job %s", user, job) }

// wantTold compares told with what it should be.
func (m *alerted) wantTold(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := m.told(t); !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	street  = geo.LatLng{Lat: 37.5663, Lng: 66.9779} // of aJob
	faraway = geo.LatLng{Lat: -33, Lng: 151}
)

func testAlertBook(t *testing.T, m *alerted) {
	first := m.put(t, "ann", street, 1000, store.Filter{Categories: []string{"cleaning", "pets"}, MinPay: 5, Employer: "Acme"})
	second := m.put(t, "ann", faraway, 1, store.Filter{})
	m.put(t, "bob", street, 100_000, store.Filter{})
	list := func(user store.UserID) (all []store.Alert) {
		for k := (store.Keys{Limit: 1}); ; k.After = int64(all[len(all)-1].ID) {
			some, err := m.e.MyAlerts(t.Context(), user, k)
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				return all
			}
			all = append(all, some...)
		}
	}
	check := func(user store.UserID, want ...store.Alert) {
		t.Helper()
		if got := fmt.Sprintf("%+v", list(user)); got != fmt.Sprintf("%+v", want) {
			t.Errorf("%s has\n%s, want\n%+v", user, got, want)
		}
	}
	check("ann", first, second)
	check("cho")
	// In the place of the first: found at the new place only.
	first.Center, first.Filter = faraway, store.Filter{Remote: store.RemoteExclude}
	if err := m.e.PutAlert(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	check("ann", first, second)
	here := m.post(t, "rita", nil)
	there := m.post(t, "rita", func(j *store.Job) { j.At = faraway })
	m.match(t)
	m.wantTold(t, tellLine("bob", here.ID), tellLine("ann", there.ID))
	stolen := first
	stolen.User = "bob"
	if err := m.e.PutAlert(t.Context(), stolen); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("another user's: %v", err)
	}
	var ie *store.InvalidError
	if err := m.e.PutAlert(t.Context(), store.Alert{}); !errors.As(err, &ie) || len(ie.Faults) < 4 {
		t.Errorf("an alert that is none: %v", err)
	}
	for _, d := range []struct {
		user store.UserID
		id   store.ID
	}{{"bob", first.ID}, {"ann", 999}, {"ann", second.ID}} {
		if err := m.e.DeleteAlert(t.Context(), d.user, d.id); err != nil {
			t.Fatal(err)
		}
	}
	check("ann", first)
	if err := m.e.DeleteAlert(t.Context(), "ann", first.ID); err != nil {
		t.Fatal(err)
	}
	m.post(t, "rita", func(j *store.Job) { j.At = faraway })
	if sum := m.match(t); sum.Read != 0 || sum.Told != 0 || sum.Openings != 1 {
		t.Errorf("after all there were deleted: %+v", sum)
	}
	if _, err := m.e.MyAlerts(t.Context(), "ann", store.Keys{}); !errors.As(err, &ie) {
		t.Errorf("no limit: %v", err)
	}
	if _, _, err := m.e.MatchAlerts(t.Context(), store.Opening{Event: 1, Job: 1}, store.AlertKey{}, 0, clock); !errors.As(err, &ie) {
		t.Errorf("a piece of nothing: %v", err)
	}
	// What never was, or is matched, is neither an error nor done again.
	for _, o := range []store.Opening{{Event: 12345, Job: 12345}, {Event: 12345, Job: here.ID}} {
		if done, next, err := m.e.MatchAlerts(t.Context(), o, store.AlertKey{}, 10, clock); err != nil || next != nil || done != (store.AlertMatch{}) {
			t.Errorf("%+v: %+v, %+v, %v", o, done, next, err)
		}
	}
}

// testAlertLimit has a user put more alerts than he may, from several nodes' threads at once.
func testAlertLimit(t *testing.T, m *alerted) {
	var put, full atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range store.MaxAlerts / 4 {
				_, err := whileBusy(func() (struct{}, error) {
					return struct{}{}, m.e.PutAlert(t.Context(), store.Alert{ID: store.ID(1000*worker + i + 1), User: "ann", Center: street, Radius: 10, Created: clock})
				})
				switch {
				case err == nil:
					put.Add(1)
				case errors.Is(err, store.ErrTooManyAlerts):
					full.Add(1)
				default:
					t.Errorf("PutAlert: %v", err)
				}
			}
		})
	}
	wg.Wait()
	all, err := m.e.MyAlerts(t.Context(), "ann", store.Keys{Limit: store.MaxKeys})
	if err != nil || len(all) != store.MaxAlerts || put.Load() != store.MaxAlerts || full.Load() != 8*(store.MaxAlerts/4)-store.MaxAlerts {
		t.Fatalf("%v: %d alerts, %d were put and %d refused", err, len(all), put.Load(), full.Load())
	}
	// Changing one still goes, and one that is deleted makes room.
	a := all[7]
	a.Radius = 20
	if err := m.e.PutAlert(t.Context(), a); err != nil {
		t.Error(err)
	}
	if err := m.e.DeleteAlert(t.Context(), "ann", all[0].ID); err != nil {
		t.Error(err)
	}
	a.ID = 1_000_000
	if err := m.e.PutAlert(t.Context(), a); err != nil {
		t.Error(err)
	}
	a.ID++
	if err := m.e.PutAlert(t.Context(), a); !errors.Is(err, store.ErrTooManyAlerts) {
		t.Errorf("one too many: %v", err)
	}
}

// testAlertsBruteForce compares with each alert against each job, by geo's distance
// and conditions written anew, where the earth's grids have their edges.
func testAlertsBruteForce(t *testing.T, m *alerted) {
	r := rand.New(rand.NewPCG(41, 42))
	places := []geo.LatLng{
		street, {Lat: 90}, {Lat: -90, Lng: 77}, {Lat: 89.9995, Lng: -120}, {Lat: -89.9995, Lng: 10}, {Lat: 10, Lng: 180}, {Lat: -65, Lng: -179.9999},
		{Lat: 0, Lng: 179.9999}, {}, {Lat: 35.2643897, Lng: 45}, {Lat: 45, Lng: 90}, {Lat: 0, Lng: -45},
	}
	around := func(p geo.LatLng, metres float64) geo.LatLng {
		const degree = math.Pi / 180 * geo.EarthRadius
		q := geo.LatLng{Lat: p.Lat + metres*(2*r.Float64()-1)/degree, Lng: p.Lng}
		q.Lng += metres * (2*r.Float64() - 1) / (degree * max(1e-7, math.Cos(p.Lat*math.Pi/180)))
		if q.Lat > 90 || q.Lat < -90 { // over the pole
			q.Lat, q.Lng = math.Copysign(180, q.Lat)-q.Lat, q.Lng+180
		}
		q, err := geo.NewLatLng(q.Lat, math.Remainder(q.Lng, 360))
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	radius := func() float64 { return math.Pow(10, 5*r.Float64()) }
	var jobs []store.Job
	for i := range 90 {
		p := places[i%len(places)]
		if i >= len(places) {
			p = around(p, radius())
		}
		jobs = append(jobs, m.post(t, store.UserID(fmt.Sprint("user ", i%40)), func(j *store.Job) {
			j.At, j.Category, j.Employer, j.Pay.Amount = p, []string{"pets", "cleaning", "moving"}[r.IntN(3)], []string{"Acme", "Best"}[r.IntN(2)], int64(r.IntN(3000))
		}))
	}
	var alerts []store.Alert
	edges := 0
	for i := range 360 {
		a := geo.Circle{Center: around(places[i%len(places)], radius()), Radius: radius()}
		if d := a.Center.Distance(jobs[r.IntN(len(jobs))].At); i%3 == 0 {
			// On the edge, or next to it, of one of those around.
			for _, j := range jobs {
				if x := a.Center.Distance(j.At); x >= 2 && (d > store.MaxAlertRadius || r.IntN(5) == 0 && x <= store.MaxAlertRadius) {
					d = x
				}
			}
			if d >= 2 && d <= store.MaxAlertRadius {
				a.Radius = []float64{d, math.Nextafter(d, 0)}[r.IntN(2)]
				edges++
			}
		}
		var f store.Filter
		if r.IntN(4) == 0 {
			f.Categories = []string{"cleaning", "pets"}[:1+r.IntN(2)]
		}
		if r.IntN(5) == 0 {
			f.MinPay = int64(r.IntN(3000))
		}
		if r.IntN(6) == 0 {
			f.Employer = "Acme"
		}
		alerts = append(alerts, m.put(t, store.UserID(fmt.Sprint("user ", r.IntN(40))), a.Center, a.Radius, f))
	}
	want := map[string]bool{}
	hits, onEdge := 0, 0
	for _, a := range alerts {
		for _, j := range jobs {
			d := a.Center.Distance(j.At)
			if d > a.Radius || j.Requester == a.User || j.Pay.Amount < a.Filter.MinPay || a.Filter.Employer != "" && a.Filter.Employer != j.Employer ||
				len(a.Filter.Categories) > 0 && !slices.Contains(a.Filter.Categories, j.Category) {
				continue
			}
			want[tellLine(a.User, j.ID)] = true
			hits++
			if d == a.Radius {
				onEdge++
			}
		}
	}
	if hits < 300 || edges < 30 || onEdge < 5 {
		t.Fatalf("only %d hits, %d circles through a job, %d hits on an edge", hits, edges, onEdge)
	}
	sum := m.match(t)
	var lines []string
	for line := range want {
		lines = append(lines, line)
	}
	m.wantTold(t, lines...)
	if sum.Hits != hits || sum.Told != len(want) || sum.Openings != len(jobs) {
		t.Errorf("%+v, want %d openings, %d hits, %d told", sum, len(jobs), hits, len(want))
	}
	// The cells keep apart what is far: of 360 alerts a job reads those around it.
	if sum.Read > len(jobs)*len(alerts)/4 {
		t.Errorf("%d alerts were read for %d jobs, of %d", sum.Read, len(jobs), len(alerts))
	}
}

// reopen has a worker apply for a job, be accepted, and resign.
func (m *alerted) reopen(t *testing.T, job store.Job, worker store.UserID) {
	t.Helper()
	app := m.apply(t, job.ID, worker)
	m.must(t, store.Command{Action: store.ActAccept, Application: app.ID, By: job.Requester},
		store.Command{Action: store.ActResign, Job: job.ID, By: worker})
}

func testAlertsOnce(t *testing.T, m *alerted) {
	m.put(t, "ann", street, 1000, store.Filter{})
	m.put(t, "ann", street, 2000, store.Filter{}) // tells of nothing that the first has told of
	job := m.post(t, "rita", nil)
	if sum := m.match(t); sum != (store.AlertMatch{Openings: 1, Read: 2, Hits: 2, Told: 1}) {
		t.Errorf("posted: %+v", sum)
	}
	ann := tellLine("ann", job.ID)
	m.wantTold(t, ann)
	// It reopens: bob, who came later, is told, ann is not.
	m.put(t, "bob", street, 1000, store.Filter{})
	m.reopen(t, job, "wim")
	m.match(t)
	bob := tellLine("bob", job.ID)
	m.wantTold(t, ann, bob)
	// An alert put anew, or in another's place, tells nothing again.
	if err := m.e.DeleteAlert(t.Context(), "ann", 1); err != nil {
		t.Fatal(err)
	}
	m.put(t, "ann", street, 5000, store.Filter{})
	m.reopen(t, job, "wes")
	m.match(t)
	m.wantTold(t, ann, bob)
	// Rejected work reopens a job too; cho is told, and wes, whom it was rejected of, and
	// wim, who have applied before, are not, whatever alerts they have.
	for _, user := range []store.UserID{"cho", "wes", "wim", "wanda"} {
		m.put(t, user, street, 700, store.Filter{})
	}
	app := m.apply(t, job.ID, "wanda")
	m.must(t, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"}, store.Command{Action: store.ActStart, Job: job.ID, By: "wanda"},
		store.Command{Action: store.ActFinish, Job: job.ID, By: "wanda"}, store.Command{Action: store.ActReject, Job: job.ID, By: "rita", Reason: "no"})
	m.match(t)
	cho := tellLine("cho", job.ID)
	m.wantTold(t, ann, bob, cho)
	// Forgotten hits are told of again, when the job reopens once more.
	if n, err := m.e.PruneAlertHits(t.Context(), clock, 100); err != nil || n != 0 {
		t.Errorf("pruned %d, %v: none is that old", n, err)
	}
	for _, want := range []int{3, 2, 0} { // ann's two alerts of the first opening, bob's and cho's: 5 by then
		if n, err := m.e.PruneAlertHits(t.Context(), clock.Add(time.Second), 3); err != nil || n != min(3, want) {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	m.reopen(t, job, "wil")
	m.match(t)
	m.wantTold(t, ann, ann, bob, bob, cho, cho)
}

// testAlertsSilent has what tells nobody.
func testAlertsSilent(t *testing.T, m *alerted) {
	for _, user := range []store.UserID{"ann", "rita"} {
		m.put(t, user, street, 1000, store.Filter{})
	}
	imported := aJob(m.nextID())
	save(t, m.e, store.Saved{Added: 1}, imported)
	if err := m.e.Move(t.Context(), imported.ID, store.Open, store.Cancelled); err != nil {
		t.Fatal(err)
	}
	if err := m.e.Move(t.Context(), imported.ID, store.Cancelled, store.Open); err != nil {
		t.Fatal(err)
	}
	if p := m.pending(t); len(p) != 0 {
		t.Errorf("imported, and pending: %+v", p)
	}
	m.post(t, "rita", func(j *store.Job) { j.At, j.Remote = geo.LatLng{}, true })
	late := m.post(t, "rita", func(j *store.Job) { j.Posted = clock.Add(-time.Hour); j.Expires = clock })
	gone := m.post(t, "rita", nil)
	m.must(t, store.Command{Action: store.ActCancel, Job: gone.ID, By: "rita"})
	taken := m.post(t, "rita", nil)
	m.must(t, store.Command{Action: store.ActAccept, Application: m.apply(t, taken.ID, "wim").ID, By: "rita"})
	if sum := m.match(t); sum != (store.AlertMatch{Openings: 4}) {
		t.Errorf("%+v, want 4 openings that tell nobody", sum)
	}
	m.wantTold(t)
	// A job that is edited is not opened by that, but one that was posted elsewhere and
	// edited before it was matched is told of where it is.
	moved := m.post(t, "rita", func(j *store.Job) { j.At = faraway })
	edit := func(at geo.LatLng) {
		t.Helper()
		if _, err := m.e.Edit(t.Context(), store.Edit{Job: moved.ID, By: "rita", At: clock, Change: func(j *store.Job) error { j.At = at; return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	edit(street)
	if p := m.pending(t); len(p) != 1 || p[0].Job != moved.ID || !p[0].At.Equal(moved.Posted) {
		t.Errorf("pending: %+v", p)
	}
	m.match(t)
	m.wantTold(t, tellLine("ann", moved.ID))
	m.put(t, "bob", faraway, 1000, store.Filter{})
	edit(faraway)
	if sum := m.match(t); sum.Openings != 0 {
		t.Errorf("an edit: %+v", sum)
	}
	// The taken one falls through, and now it is told of; the late one is past its time.
	m.must(t, store.Command{Action: store.ActResign, Job: taken.ID, By: "wim"})
	if _, err := m.e.Expire(t.Context(), clock, 10); err != nil {
		t.Fatal(err)
	}
	if got := records(t, m.e, late.ID)[late.ID]; got.State != store.Expired {
		t.Errorf("the late job is %s", got.State)
	}
	m.match(t)
	m.wantTold(t, tellLine("ann", moved.ID), tellLine("ann", taken.ID))
}

// testAlertPieces matches by pieces of every size, with an edit in between.
func testAlertPieces(t *testing.T, m *alerted) {
	const users = 23
	var want []string
	for i := range users {
		m.put(t, store.UserID(fmt.Sprint("user ", i)), street, 100*math.Pow(1.3, float64(i)), store.Filter{})
	}
	for _, piece := range []int{1, 2, 5, users - 1, users, users + 1, store.MaxKeys} {
		job := m.post(t, "rita", nil)
		for i := range users {
			want = append(want, tellLine(store.UserID(fmt.Sprint("user ", i)), job.ID))
		}
		open := m.pending(t)
		if len(open) != 1 {
			t.Fatalf("pending %+v", open)
		}
		sum, pieces, edited := store.AlertMatch{}, 0, false
		var after store.AlertKey
		for {
			done, next, err := m.e.MatchAlerts(t.Context(), open[0], after, piece, clock)
			if err != nil {
				t.Fatal(err)
			}
			sum, pieces = sum.Add(done), pieces+1
			if done.Read > piece || (done.Read == piece) != (next != nil) || (next == nil) != (done.Openings == 1) {
				t.Fatalf("piece of %d: %+v, next %+v", piece, done, next)
			}
			if next == nil {
				break
			}
			if len(m.pending(t)) != 1 {
				t.Fatal("matched before its end")
			}
			after = *next
			if piece == 5 && !edited {
				edited = true
				if _, err := m.e.Edit(t.Context(), store.Edit{Job: job.ID, By: "rita", At: clock, Change: func(j *store.Job) error { j.At.Lat += 1e-5; return nil }}); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantRead := users
		if edited {
			wantRead += 5 // begun anew
		}
		if sum.Hits != users || sum.Told != users || sum.Read != wantRead || pieces != wantRead/piece+1 {
			t.Errorf("pieces of %d: %+v in %d pieces, want %d read", piece, sum, pieces, wantRead)
		}
	}
	m.wantTold(t, want...)
}

// crowd posts jobs among the alerts of users, and returns what is to be told.
func (m *alerted) crowd(t *testing.T, users, jobs int) (want []string) {
	t.Helper()
	for i := range users {
		m.put(t, store.UserID(fmt.Sprint("user ", i)), street, 500+float64(i), store.Filter{})
		if i%3 == 0 {
			m.put(t, store.UserID(fmt.Sprint("user ", i)), street, 50_000, store.Filter{})
		}
	}
	for range jobs {
		job := m.post(t, "rita", nil)
		for i := range users {
			want = append(want, tellLine(store.UserID(fmt.Sprint("user ", i)), job.ID))
		}
	}
	return want
}

// testAlertMatchers has several nodes match the same jobs at once, while users act.
func testAlertMatchers(t *testing.T, m *alerted) {
	want := m.crowd(t, 21, 8)
	var told atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				sum, err := store.MatchPending(t.Context(), m.e, 6, now)
				told.Add(int64(sum.Told))
				switch {
				case err == nil:
					return
				case !errors.Is(err, store.ErrBusy):
					t.Errorf("MatchPending: %v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for id := store.ID(1); id <= 8; id++ {
			if _, err := m.act(t.Context(), store.Command{Action: store.ActApply, Job: id, By: "wim"}); err != nil {
				t.Errorf("apply: %v", err)
			}
		}
	})
	wg.Wait()
	m.match(t)
	m.wantTold(t, want...)
	if told.Load() != int64(len(want)) {
		t.Errorf("%d were told as it was counted, want %d", told.Load(), len(want))
	}
}

// testAlertsKilled ends matchers at all points of their work.
func testAlertsKilled(t *testing.T, m *alerted) {
	want := m.crowd(t, 12, 6)
	r := rand.New(rand.NewPCG(43, 44))
	killed := 0
	for round := range 60 {
		ctx, kill := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(200*time.Microsecond)*int64(1+round/2))), kill)
		_, err := store.MatchPending(ctx, m.e, 2, now)
		timer.Stop()
		kill()
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrUnknownOutcome):
			killed++
		default:
			t.Fatalf("a killed matcher: %v", err)
		}
	}
	if killed == 0 {
		t.Fatal("no matcher was killed")
	}
	// No hit without its message, no message without its hit: who was told is not told again.
	m.match(t)
	m.wantTold(t, want...)
}

// testAlertsHoldNothingUp: what alerts tell of a job goes out at once, and what its
// requester is told does not wait for it.
func testAlertsHoldNothingUp(t *testing.T, m *alerted) {
	m.crowd(t, 12, 1)
	m.match(t)
	m.apply(t, 1, "wim")
	m.apply(t, 1, "wes")
	counts := map[store.Action]int{}
	held := m.claim(t, "a", 100, clock)
	for _, msg := range held {
		counts[msg.Action]++
	}
	if counts[store.ActOpened] != 12 || counts[store.ActApply] != 1 || len(held) != 13 {
		t.Errorf("claimed %v, want all 12 of the alerts and the first of the job", counts)
	}
	for _, msg := range held {
		if msg.Action == store.ActApply {
			if err := m.e.Done(t.Context(), msg, clock); err != nil {
				t.Fatal(err)
			}
		}
	}
	if held := m.claim(t, "b", 100, clock); len(held) != 1 || held[0].Action != store.ActApply {
		t.Errorf("claimed %+v, want the second of the job", held)
	}
	// Nor do those of another job wait for what is due before them.
	m.post(t, "rita", nil)
	m.match(t)
	other := m.post(t, "omar", func(j *store.Job) { j.At = faraway })
	m.must(t, store.Command{Action: store.ActApply, Job: other.ID, By: "wim", At: later(time.Second)})
	if held := m.claim(t, "c", 2, later(2*time.Second)); len(held) != 2 || held[0].Job != other.ID && held[1].Job != other.ID {
		t.Errorf("claimed %+v, want that of job %s before what alerts tell", held, other.ID)
	}
}
