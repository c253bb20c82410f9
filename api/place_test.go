package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// The places of the tests, as their answers have them.
const (
	exactLat, exactLng = "40.714312", "-74.006123"
	otherLat, otherLng = "40.725", "-74.0125"

	atExactly = `{"title":"Carry a sofa","description":"Two people","lat":` + exactLat + `,"lng":` + exactLng + `}`
)

// hiding is a market that hides places.
func hiding(t *testing.T, change func(*api.Deps, *api.Options)) *market {
	return newMarket(t, func(d *api.Deps, o *api.Options) {
		d.Limits, o.AllowExplain = nil, true
		d.Place = func(j *store.Job) geo.LatLng {
			if j.Remote {
				t.Error("asked for the place of a remote job")
			}
			return geo.LatLng{Lat: 40.725, Lng: -74.0125}
		}
		if change != nil {
			change(d, o)
		}
	})
}

// shown says which of the places is anywhere in an answer: "exact", "other", "" for
// none, or both.
func shown(body string) string {
	var out []string
	if strings.Contains(body, exactLat) || strings.Contains(body, exactLng) {
		out = append(out, "exact")
	}
	if strings.Contains(body, otherLat) || strings.Contains(body, otherLng) {
		out = append(out, "other")
	}
	return strings.Join(out, " and ")
}

// standing is a job in some state, with the paths of those who have applied for it.
type standing struct {
	job string
	of  map[string]string // applications by worker
}

// stand posts a job at the exact place, applied for by worker, applicant, declined
// and withdrawn, and brings it to where the worker's steps lead.
func (m *market) stand(steps ...string) standing {
	m.t.Helper()
	check := func(who, what, body, want string) {
		m.t.Helper()
		if got := shown(body); got != want {
			m.t.Errorf("%s, answered to %s, shows %q, want %q: %s", what, who, got, want, body)
		}
	}
	w := m.call("requester", "POST", "/v1/jobs", atExactly)
	check("requester", "POST /v1/jobs", w.Body.String(), "exact")
	var j struct{ ID string }
	decode(m.t, w, http.StatusCreated, "application/json", &j)
	s := standing{"/v1/jobs/" + j.ID, map[string]string{}}
	do := func(who, path, body string) {
		m.t.Helper()
		w := m.call(who, "POST", path, body)
		if w.Code >= 300 {
			m.t.Fatalf("%s as %s: %d %s", path, who, w.Code, w.Body)
		}
		want := ""
		if path == s.job+"/cancel" {
			want = "exact"
		}
		check(who, path, w.Body.String(), want)
	}
	for _, who := range []string{"worker", "applicant", "declined", "withdrawn"} {
		s.of[who] = m.apply(who, s.job)
	}
	do("requester", s.of["declined"]+"/decline", "")
	do("withdrawn", s.of["withdrawn"]+"/withdraw", "")
	for _, step := range steps {
		switch step {
		case "cancel":
			do("requester", s.job+"/cancel", "")
		case "accept", "confirm":
			do("requester", s.of["worker"]+"/"+step, "")
		case "reject":
			do("requester", s.of["worker"]+"/reject", `{"reason":"Not done."}`)
		default:
			do("worker", s.of["worker"]+"/"+step, "")
		}
	}
	return s
}

// TestPlace: each endpoint, asked by each person, of a job in each state.
func TestPlace(t *testing.T) {
	states := []struct {
		name        string
		steps       []string
		open, holds bool
	}{
		{"open", nil, true, false},
		{"accepted", []string{"accept"}, false, true},
		{"started", []string{"accept", "start"}, false, true},
		{"finished", []string{"accept", "start", "finish"}, false, true},
		{"confirmed", []string{"accept", "start", "finish", "confirm"}, false, true},
		{"resigned", []string{"accept", "start", "resign"}, true, false},
		{"rejected", []string{"accept", "start", "finish", "reject"}, true, false},
		{"cancelled", []string{"accept", "start", "cancel"}, false, false},
	}
	const geoJSON, around = "application/geo+json", "lat=40.72&lng=-74.01&radius_m=5000"
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			m := hiding(t, nil)
			m.must(201, "stranger", "POST", "/v1/me/alerts", `{"lat":40.72,"lng":-74.01,"radius_m":5000}`)
			s := m.stand(state.steps...)
			if _, err := store.MatchPending(t.Context(), m.engine, 100, m.clock); err != nil {
				t.Fatal(err)
			}
			for _, who := range []string{"", "stranger", "applicant", "declined", "withdrawn", "worker", "requester"} {
				place := "other"
				if who == "requester" || who == "worker" && state.holds {
					place = "exact"
				}
				search := "" // finds open jobs only
				if state.open {
					search = place
				}
				mine := ""
				if who == "requester" {
					mine = "exact"
				}
				own := s.of[who]
				if own == "" {
					own = s.of["worker"]
				}
				for _, ask := range []struct {
					method, target, accept, body, want string
				}{
					{"GET", s.job, "", "", place},
					{"GET", s.job, geoJSON, "", place},
					{"GET", "/v1/jobs/nearby?" + around, "", "", search},
					{"GET", "/v1/jobs/nearby?" + around, geoJSON, "", search},
					{"GET", "/v1/jobs/nearby?explain=true&strategy=bbox&" + around, "", "", search},
					{"GET", "/v1/jobs/nearby?sort=newest&" + around, "", "", search},
					{"GET", "/v1/jobs/in-box?west=-75&south=40&east=-74&north=41", "", "", search},
					{"GET", "/v1/jobs/in-box?west=-75&south=40&east=-74&north=41", geoJSON, "", search},
					{"GET", "/v1/me/jobs", "", "", mine},
					{"GET", "/v1/me/applications", "", "", ""},
					{"GET", "/v1/me/messages", "", "", ""},
					{"GET", s.job + "/events", "", "", ""},
					{"GET", s.job + "/applications", "", "", ""},
					{"GET", "/v1/applications/" + own[strings.LastIndex(own, "/")+1:], "", "", ""},
					{"POST", own + "/rework", "", `{"reason":1}`, ""}, // refused, as are the following ones
					{"POST", s.of["declined"] + "/accept", "", "", ""},
				} {
					header := []string{"Accept", ask.accept}
					w := m.call(who, ask.method, ask.target, ask.body, header...)
					if got := shown(w.Body.String()); got != ask.want {
						t.Errorf("%s %s %s to %q shows %q, want %q: %d %.400s", ask.method, ask.target, ask.accept, who, got, ask.want, w.Code, w.Body)
					}
					if marked := strings.Contains(w.Body.String(), `"approximate":true`); marked != (ask.want == "other") {
						t.Errorf("%s %s %s to %q: approximate is %v: %.400s", ask.method, ask.target, ask.accept, who, marked, w.Body)
					}
				}
				if who == "requester" {
					continue
				}
				for _, ask := range [][2]string{{"PATCH", s.job}, {"POST", s.job + "/cancel"}} {
					w := m.call(who, ask[0], ask[1], `{"title":"Mine now","lat":1}`, "If-Match", "*")
					if got := shown(w.Body.String()); got != "" || w.Code < 400 {
						t.Errorf("%s %s to %q shows %q: %d %s", ask[0], ask[1], who, got, w.Code, w.Body)
					}
				}
			}
			// The alert did tell, or what is said of its message above means nothing.
			list := m.must(200, "stranger", "GET", "/v1/me/messages", "")["messages"].([]any)
			if told := len(list) == 1 && list[0].(object)["action"] == "opened"; told != state.open {
				t.Errorf("the alert has told: %v", list)
			}
		})
	}
}

// TestPlaceOfEdit: the requester edits the exact place, and moves it.
func TestPlaceOfEdit(t *testing.T) {
	m := hiding(t, nil)
	s := m.stand()
	w := m.call("requester", "PATCH", s.job, `{"title":"Carry two sofas"}`, "If-Match", "*")
	if w.Code != 200 || shown(w.Body.String()) != "exact" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// What is stored is still the exact one, not what others see.
	j := m.must(200, "requester", "GET", s.job, "")
	if fmt.Sprint(j["lat"], " ", j["lng"]) != exactLat+" "+exactLng || j["approximate"] != nil {
		t.Errorf("%v", j)
	}
	j = m.must(200, "requester", "PATCH", s.job, `{"lat":40.5}`, "If-Match", "*")
	if j["lat"] != 40.5 {
		t.Errorf("%v", j)
	}
	// A replay is the answer to its own user, and nobody else's with the same key.
	for range 2 {
		w := m.call("requester", "POST", "/v1/jobs", atExactly, "Idempotency-Key", "k")
		if w.Code != 201 || shown(w.Body.String()) != "exact" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	w = m.call("worker", "POST", s.job+"/cancel", "", "Idempotency-Key", "k")
	if w.Code != 403 || shown(w.Body.String()) != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestSourceID: what is stored of a request's key and body is not shown.
func TestSourceID(t *testing.T) {
	m := hiding(t, nil)
	id := m.must(201, "owner", "POST", "/v1/jobs", atExactly, "Idempotency-Key", "1")["id"].(string)
	for _, who := range []string{"", "stranger", "owner"} {
		if got := m.must(200, who, "GET", "/v1/jobs/"+id, "")["source_id"]; got != id {
			t.Errorf("source_id to %q: %v, want %s", who, got, id)
		}
	}
}

// TestPlaceOfOthers: an imported job is nobody's, a remote one is nowhere, and without
// matching a requester is one all the same.
func TestPlaceOfOthers(t *testing.T) {
	m := hiding(t, func(d *api.Deps, _ *api.Options) { d.Market, d.Alerts = nil, nil })
	at := geo.LatLng{Lat: 40.714312, Lng: -74.006123}
	imported := store.Job{ID: 5, Title: "imported", At: at, State: store.Open, Posted: m.clock().Add(-time.Hour), Source: "feed", SourceID: "5"}
	remote := store.Job{ID: 6, Title: "remote", Remote: true, State: store.Open, Posted: m.clock().Add(-time.Hour), Source: "feed", SourceID: "6"}
	for _, j := range []*store.Job{&imported, &remote} {
		if err := j.Normalize(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.engine.Save(t.Context(), []store.Job{imported, remote}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.engine.Post(t.Context(), store.Job{ID: 7, Title: "posted", At: at, State: store.Open, Posted: m.clock(), Requester: "owner"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ who, job, want string }{
		{"", "5", "other"}, {"owner", "5", "other"}, {"", "6", ""}, {"owner", "6", ""},
		{"", "7", "other"}, {"kim", "7", "other"}, {"Owner", "7", "other"}, {"owner", "7", "exact"},
	} {
		for _, accept := range []string{"application/json", "application/geo+json"} {
			one := m.call(tt.who, "GET", "/v1/jobs/"+tt.job, "", "Accept", accept)
			if got := shown(one.Body.String()); one.Code != 200 || got != tt.want {
				t.Errorf("%s to %q: %q, want %q: %d %s", tt.job, tt.who, got, tt.want, one.Code, one.Body)
			}
			var page struct{ Jobs, Features []json.RawMessage }
			all := m.call(tt.who, "GET", "/v1/jobs/nearby?lat=40.72&lng=-74.01&remote=include", "", "Accept", accept)
			decode(t, all, 200, accept, &page)
			list := slices.Concat(page.Jobs, page.Features)
			if len(list) != 3 {
				t.Fatalf("%d jobs: %s", len(list), all.Body)
			}
			for _, j := range list {
				if strings.Contains(string(j), `"id":"`+tt.job+`"`) && shown(string(j)) != tt.want {
					t.Errorf("%s in a search of %q: want %q: %s", tt.job, tt.who, tt.want, j)
				}
			}
		}
	}
}

// TestNoPlace: a server that hides nothing marks nothing, and neither does one whose
// place of a job is the exact one.
func TestNoPlace(t *testing.T) {
	for _, place := range []func(*store.Job) geo.LatLng{nil, func(j *store.Job) geo.LatLng { return j.At }} {
		m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Place = place })
		job := "/v1/jobs/" + m.must(201, "owner", "POST", "/v1/jobs", atExactly)["id"].(string)
		for _, target := range []string{job, "/v1/jobs/nearby?lat=40.7&lng=-74"} {
			w := m.call("", "GET", target, "")
			if shown(w.Body.String()) != "exact" || strings.Contains(w.Body.String(), "approximate") {
				t.Errorf("%s: %s", target, w.Body)
			}
		}
	}
}
