package store_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var alertTime = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func anAlert() store.Alert {
	return store.Alert{ID: 7, User: "ann", Center: geo.LatLng{Lat: 37.5, Lng: 127}, Radius: 1000, Created: alertTime,
		Filter: store.Filter{Remote: store.RemoteExclude}}
}

func TestAlertNormalize(t *testing.T) {
	a := anAlert()
	a.Center.Lng = -180
	a.Created = alertTime.Add(999 * time.Microsecond).In(time.FixedZone("", 3600))
	a.Filter = store.Filter{Categories: []string{" Pets", "cleaning ", "pets"}, MinPay: 100, Employer: "  Acme   Inc "}
	if err := a.Normalize(); err != nil {
		t.Fatal(err)
	}
	if a.Center.Lng != 180 || a.Created != alertTime || !slices.Equal(a.Filter.Categories, []string{"cleaning", "pets"}) ||
		a.Filter.Employer != "Acme Inc" || a.Filter.Remote != store.RemoteExclude {
		t.Errorf("%+v", a)
	}
	back := store.StoredAlert(a.ID, a.User, a.Center, a.Radius, store.AlertCategories(a.Filter.Categories), a.Filter.MinPay, a.Filter.Employer, store.Millis(a.Created))
	if !slices.Equal(back.Filter.Categories, a.Filter.Categories) || back.Filter.Employer != "Acme Inc" || back.Created != a.Created {
		t.Errorf("stored and back: %+v", back)
	}
	for name, c := range map[string]struct {
		change func(*store.Alert)
		fields string // of the faults, in order
	}{
		"id":        {func(a *store.Alert) { a.ID = 0 }, "id"},
		"user":      {func(a *store.Alert) { a.User = "" }, "user"},
		"place":     {func(a *store.Alert) { a.Center.Lat = 91 }, "lat"},
		"NaN":       {func(a *store.Alert) { a.Center.Lng = math.NaN() }, "lng"},
		"small":     {func(a *store.Alert) { a.Radius = math.Nextafter(1, 0) }, "radius_m"},
		"big":       {func(a *store.Alert) { a.Radius = math.Nextafter(100_000, 1e9) }, "radius_m"},
		"radius":    {func(a *store.Alert) { a.Radius = math.NaN() }, "radius_m"},
		"posted":    {func(a *store.Alert) { a.Filter.PostedAfter = alertTime }, "posted_after"},
		"remote":    {func(a *store.Alert) { a.Filter.Remote = store.RemoteInclude }, "remote"},
		"strange":   {func(a *store.Alert) { a.Filter.Remote = "x" }, "remote"},
		"pay":       {func(a *store.Alert) { a.Filter.MinPay = -1 }, "min_pay"},
		"created":   {func(a *store.Alert) { a.Created = time.Time{} }, "created"},
		"all":       {func(a *store.Alert) { *a = store.Alert{Center: geo.LatLng{Lat: 91}} }, "id user lat radius_m created"},
		"smallest":  {func(a *store.Alert) { a.Radius = 1 }, ""},
		"biggest":   {func(a *store.Alert) { a.Radius = 100_000 }, ""},
		"the poles": {func(a *store.Alert) { a.Center.Lat = -90 }, ""},
	} {
		a := anAlert()
		c.change(&a)
		err := a.Normalize()
		var fields []string
		var ie *store.InvalidError
		if errors.As(err, &ie) {
			for _, f := range ie.Faults {
				fields = append(fields, f.Field)
			}
		} else if err != nil {
			t.Errorf("%s: %v is no InvalidError", name, err)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%s: faults of %q, want %q", name, got, c.fields)
		}
	}
}

func TestAlertWants(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*store.Alert, *store.Job)
		want   bool
	}{
		"here":        {func(*store.Alert, *store.Job) {}, true},
		"own":         {func(a *store.Alert, j *store.Job) { j.Requester = a.User }, false},
		"remote":      {func(a *store.Alert, j *store.Job) { j.Remote = true }, false},
		"on the edge": {func(a *store.Alert, j *store.Job) { j.At.Lat += .01; a.Radius = a.Center.Distance(j.At) }, true},
		"outside": {func(a *store.Alert, j *store.Job) {
			j.At.Lat += .01
			a.Radius = math.Nextafter(a.Center.Distance(j.At), 0)
		}, false},
		"category":      {func(a *store.Alert, j *store.Job) { a.Filter.Categories = []string{"cleaning", "pets"} }, true},
		"no category":   {func(a *store.Alert, j *store.Job) { a.Filter.Categories = []string{"cleaning"} }, false},
		"pay":           {func(a *store.Alert, j *store.Job) { a.Filter.MinPay = 1250 }, true},
		"more pay":      {func(a *store.Alert, j *store.Job) { a.Filter.MinPay = 1251 }, false},
		"employer":      {func(a *store.Alert, j *store.Job) { a.Filter.Employer = "Acme" }, true},
		"no employer":   {func(a *store.Alert, j *store.Job) { a.Filter.Employer = "acme" }, false},
		"over the line": {func(a *store.Alert, j *store.Job) { a.Center.Lng, j.At.Lng = 179.999, -179.999 }, true},
	} {
		a := anAlert()
		j := store.Job{At: a.Center, Category: "pets", Employer: "Acme", Pay: store.Pay{Amount: 1250}, Requester: "rita"}
		c.change(&a, &j)
		if got := a.Wants(&j); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTellAlerts(t *testing.T) {
	var hits []store.Alert
	for i, user := range []store.UserID{"ann", "bob", "ann", "cho", "dan", "bob"} {
		a := anAlert()
		a.ID, a.User = store.ID(i+1), user
		hits = append(hits, a)
	}
	// bob was told by his alert 2, dan has applied.
	news, messages := store.TellAlerts(&store.Job{ID: 3, Title: "Walk a dog", State: store.Open}, store.Opening{Event: 9, Job: 3, At: alertTime},
		hits, map[store.ID]store.UserID{2: "bob"}, map[store.UserID]bool{"dan": true}, alertTime.Add(time.Second))
	var ids []store.ID
	for _, a := range news {
		ids = append(ids, a.ID)
	}
	if !slices.Equal(ids, []store.ID{1, 3, 4, 6}) {
		t.Errorf("new hits %v, want 1 3 4 6", ids)
	}
	if len(messages) != 2 || messages[0].Recipient != "ann" || messages[1].Recipient != "cho" {
		t.Fatalf("messages %+v, want one to ann and one to cho", messages)
	}
	want := store.Message{Event: 9, Job: 3, Recipient: "ann", Role: store.RoleWorker, Action: store.ActOpened, At: alertTime,
		Title: "Walk a dog", JobState: store.Open, State: store.Pending, Due: alertTime.Add(time.Second)}
	if messages[0] != want {
		t.Errorf("%+v, want %+v", messages[0], want)
	}
}

// TestOpens: what opens a job are the steps of the table that lead to open from elsewhere.
func TestOpens(t *testing.T) {
	opening := map[store.Action]bool{store.ActPost: true, store.ActResign: true, store.ActReject: true}
	for _, tr := range store.Transitions() {
		for _, s := range tr.Steps {
			v := store.Event{Action: tr.Action, FromJob: s.Job, ToJob: s.ToJob}
			if v.Opens() != opening[tr.Action] {
				t.Errorf("%s from %q to %q opens: %v", tr.Action, s.Job, s.ToJob, v.Opens())
			}
		}
	}
}

// halfMatcher matches in two pieces, and fails for one job.
type halfMatcher struct {
	pending []store.Opening
	bad     store.ID
	pieces  int
}

func (m *halfMatcher) PendingAlerts(_ context.Context, k store.Keys) (some []store.Opening, err error) {
	for _, o := range m.pending {
		if int64(o.Event) > k.After && len(some) < k.Limit {
			some = append(some, o)
		}
	}
	return some, nil
}

func (m *halfMatcher) MatchAlerts(_ context.Context, o store.Opening, after store.AlertKey, limit int, now time.Time) (store.AlertMatch, *store.AlertKey, error) {
	m.pieces++
	switch {
	case o.Job == m.bad:
		return store.AlertMatch{}, nil, store.ErrBusy
	case after == store.AlertKey{}:
		return store.AlertMatch{Read: limit, Told: 1}, &store.AlertKey{Version: 1, Cell: 5}, nil
	}
	return store.AlertMatch{Openings: 1, Read: 1}, nil, nil
}

func (m *halfMatcher) PruneAlertHits(context.Context, time.Time, int) (int, error) { return 0, nil }

func TestMatchPending(t *testing.T) {
	m := &halfMatcher{bad: 17}
	for i := range 250 {
		m.pending = append(m.pending, store.Opening{Event: store.ID(i + 1), Job: store.ID(i + 1)})
	}
	sum, err := store.MatchPending(t.Context(), m, 10, func() time.Time { return alertTime })
	if want := (store.AlertMatch{Openings: 249, Read: 249 * 11, Told: 249}); sum != want || m.pieces != 249*2+1 {
		t.Errorf("%+v in %d pieces, want %+v in %d", sum, m.pieces, want, 249*2+1)
	}
	if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "job 17") {
		t.Errorf("%v, want the error of job 17", err)
	}
}
