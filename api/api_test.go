package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	newYork = geo.LatLng{Lat: 40.7143, Lng: -74.006}
	today   = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
)

const stacked = 165 // jobs on one point

// testJobs returns the stacked jobs (ids from 1) and some around the world.
func testJobs() []store.Job {
	var list []store.Job
	add := func(title string, at geo.LatLng, change func(*store.Job)) {
		id := store.ID(len(list) + 1)
		j := store.Job{
			ID: id, Title: title, Description: "All about " + title, At: at, State: store.Open, Category: "work",
			Posted: today.Add(-time.Duration(id) * time.Hour),
		}
		if change != nil {
			change(&j)
		}
		if err := j.Normalize(); err != nil {
			panic(err)
		}
		list = append(list, j)
	}
	for i := range stacked {
		add(fmt.Sprintf("stacked %d", i), newYork, nil)
	}
	add("null island", geo.LatLng{}, func(j *store.Job) { j.Category, j.Employer = "food, drink", "Ocean & Sons" })
	add("a mile off", geo.LatLng{Lat: 0, Lng: 0.0145}, func(j *store.Job) {
		j.Category, j.Pay = "moving", store.Pay{Amount: 2550, Currency: "EUR", Per: "hour"}
		j.Expires = today.Add(time.Hour)
	})
	add("east of the line", geo.LatLng{Lat: -17, Lng: -179.9}, nil)
	add("west of the line", geo.LatLng{Lat: -17, Lng: 179.9}, nil)
	add("from anywhere", geo.LatLng{}, func(j *store.Job) { j.Remote, j.Category = true, "writing" })
	add("already taken", geo.LatLng{}, func(j *store.Job) { j.State = store.Matched })
	return list
}

func byTitle(t *testing.T, title string) store.Job {
	t.Helper()
	for _, j := range testJobs() {
		if j.Title == title {
			return j
		}
	}
	t.Fatalf("no job %q", title)
	return store.Job{}
}

// server is the API over a SQLite file with the test jobs.
func server(t testing.TB, change func(*api.Deps, *api.Options)) http.Handler {
	t.Helper()
	ctx := context.Background()
	e, err := sqlite.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Save(ctx, testJobs()); err != nil {
		t.Fatal(err)
	}
	deps := api.Deps{Search: search.New(e, func() time.Time { return today }), Jobs: e, Ready: e}
	var opts api.Options
	if change != nil {
		change(&deps, &opts)
	}
	return api.New(deps, opts)
}

func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://example.com/", nil)
	path, query, _ := strings.Cut(target, "?")
	r.URL.Path, r.URL.RawQuery = path, query // as it is: httptest refuses what clients may send
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet, target, header...))
	return w
}

// answer is a search's answer, as a client reads it.
type answer struct {
	Jobs       []map[string]any
	NextCursor *string `json:"next_cursor"`
	Stats      map[string]any
	Explain    *struct {
		Rounds []struct {
			Statements []struct {
				SQL, Plan string
				Args      []any
			}
		}
	}
}

func find(t *testing.T, h http.Handler, target string) answer {
	t.Helper()
	w := get(h, target)
	var a answer
	decode(t, w, http.StatusOK, "application/json", &a)
	return a
}

func decode(t *testing.T, w *httptest.ResponseRecorder, status int, contentType string, v any) {
	t.Helper()
	if w.Code != status || w.Header().Get("Content-Type") != contentType {
		t.Fatalf("got %d %s, want %d %s: %s", w.Code, w.Header().Get("Content-Type"), status, contentType, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
}

func (a answer) titles() []string {
	out := []string{}
	for _, j := range a.Jobs {
		out = append(out, j["title"].(string))
	}
	return out
}

// wantProblem checks a problem document and returns it.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int) api.Problem {
	t.Helper()
	var p api.Problem
	decode(t, w, status, "application/problem+json", &p)
	if p.Status != status || p.Detail == "" || p.Title == "" || p.RequestID != w.Header().Get("X-Request-Id") || p.RequestID == "" {
		t.Fatalf("problem %+v with status %d and request id %q", p, status, w.Header().Get("X-Request-Id"))
	}
	if s := http.StatusText(status); s != "" && p.Title != s {
		t.Fatalf("title %q, want %q", p.Title, s)
	}
	return p
}

func TestNearby(t *testing.T) {
	h := server(t, nil)
	tests := []struct {
		query string
		want  []string
	}{
		// 0 is a latitude, a longitude and a radius.
		{"lat=0&lng=0&radius_m=0", []string{"null island"}},
		{"lat=0&lng=0&radius_m=2000", []string{"null island", "a mile off"}},
		{"lat=-0&lng=-0.0&radius_m=2e3", []string{"null island", "a mile off"}},
		{"lat=0&lng=0&limit=2", []string{"null island", "a mile off"}}, // no radius: however far
		{"lat=0&lng=0&min_radius_m=1&radius_m=2000", []string{"a mile off"}},
		{"lat=0&lng=0&min_radius_m=0&radius_m=2000", []string{"null island", "a mile off"}},
		{"lat=-17&lng=180&radius_m=20000", []string{"east of the line", "west of the line"}},
		{"lat=-17&lng=-180&radius_m=20000&sort=newest", []string{"east of the line", "west of the line"}},
		{"lat=90&lng=180&radius_m=1", []string{}},
		{"lat=0&lng=0&radius_m=2000&min_pay=25.5", []string{"a mile off"}},
		{"lat=0&lng=0&radius_m=2000&min_pay=25.50", []string{"a mile off"}},
		{"lat=0&lng=0&radius_m=2000&min_pay=25.51", []string{}},
		{"lat=0&lng=0&radius_m=2000&min_pay=0", []string{"null island", "a mile off"}},
		{"lat=0&lng=0&radius_m=2000&category=food,%20drink", []string{"null island"}}, // a category with a comma
		{"lat=0&lng=0&radius_m=2000&category=food,%20drink&category=MOVING", []string{"null island", "a mile off"}},
		{"lat=0&lng=0&radius_m=2000&category=moving", []string{"a mile off"}},
		{"lat=0&lng=0&radius_m=2000&employer=Ocean+%26+Sons", []string{"null island"}},
		{"lat=0&lng=0&radius_m=2000&posted_after=2026-01-25T13:00:00Z", []string{"null island"}},
		{"lat=0&lng=0&radius_m=2000&posted_after=2026-01-25T14:59:59.999%2B01:00", []string{"null island"}},
		{"lat=0&lng=0&radius_m=0&remote=include", []string{"null island", "from anywhere"}},
		{"lat=0&lng=0&radius_m=0&remote=only", []string{"from anywhere"}},
		{"lat=0&lng=0&radius_m=0&remote=exclude&sort=distance&strategy=bbox&explain=false", []string{"null island"}},
	}
	for _, tt := range tests {
		got := find(t, h, "/v1/jobs/nearby?"+tt.query)
		if !slices.Equal(got.titles(), tt.want) {
			t.Errorf("%s: got %q, want %q", tt.query, got.titles(), tt.want)
		}
		if got.NextCursor != nil && !strings.Contains(tt.query, "limit") {
			t.Errorf("%s: next_cursor %q on the last page", tt.query, *got.NextCursor)
		}
	}
}

func TestInBox(t *testing.T) {
	h := server(t, nil)
	tests := []struct {
		query string
		want  []string
	}{
		{"west=-1&south=-1&east=1&north=1", []string{"null island", "a mile off"}},
		{"west=0&south=0&east=0&north=0", []string{"null island"}},
		{"west=0&south=0&east=1&north=0&sort=distance", []string{"a mile off", "null island"}},
		{"west=179&south=-20&east=-179&north=0", []string{"east of the line", "west of the line"}},
		{"west=-180&south=-20&east=-179&north=0", []string{"east of the line"}},
		{"west=0&south=0&east=0&north=0&remote=include", []string{"null island", "from anywhere"}},
		{"west=-1&south=-1&east=1&north=1&category=moving&limit=1&strategy=spatial", []string{"a mile off"}},
	}
	for _, tt := range tests {
		if got := find(t, h, "/v1/jobs/in-box?"+tt.query); !slices.Equal(got.titles(), tt.want) {
			t.Errorf("%s: got %q, want %q", tt.query, got.titles(), tt.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	h := server(t, nil)
	got := find(t, h, "/v1/jobs/nearby?lat=0&lng=0&radius_m=2000&remote=include&strategy=h3")
	want := map[string]any{
		"id": "167", "title": "a mile off", "category": "moving", "lat": 0.0, "lng": 0.0145, "remote": false, "state": "open",
		"distance_m": geo.LatLng{}.Distance(geo.LatLng{Lng: 0.0145}),
		"pay":        map[string]any{"amount": 25.5, "currency": "EUR", "per": "hour"},
		"posted":     "2026-01-25T13:00:00Z", "expires": "2026-02-01T13:00:00Z", "source": "nearjob", "source_id": "167",
	}
	if g, w := fmt.Sprint(got.Jobs[1]), fmt.Sprint(want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
	remote := got.Jobs[2]
	for _, absent := range []string{"lat", "lng", "distance_m", "pay", "expires", "url", "description"} {
		if v, ok := remote[absent]; ok {
			t.Errorf("a remote job has %s: %v", absent, v)
		}
	}
	if got.Jobs[0]["distance_m"] != 0.0 || got.Jobs[0]["lat"] != 0.0 || got.Jobs[0]["lng"] != 0.0 {
		t.Errorf("zeros are lost: %v", got.Jobs[0])
	}
	if got.Stats["strategy"] != "h3" || got.Stats["hits"] != 3.0 || got.Stats["statements"].(float64) < 2 || got.Stats["database_ms"].(float64) <= 0 {
		t.Errorf("stats %v", got.Stats)
	}
	w := get(h, "/v1/jobs/nearby?lat=-90&lng=77&radius_m=0")
	if !strings.Contains(w.Body.String(), `"jobs":[]`) {
		t.Errorf("no jobs: %s", w.Body)
	}
	if c, v := w.Header().Get("Cache-Control"), w.Header().Get("Vary"); c != "no-store" || v != "Accept" {
		t.Errorf("Cache-Control %q, Vary %q", c, v)
	}
}

// TestPages walks over the jobs on one point: each comes once.
func TestPages(t *testing.T) {
	h := server(t, nil)
	for _, q := range []string{
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=0",
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=1000&sort=newest&strategy=fullscan",
		"/v1/jobs/in-box?west=-75&south=40&east=-74&north=41",
		"/v1/jobs/in-box?west=-75&south=40&east=-74&north=41&sort=distance&strategy=geohash",
	} {
		seen := map[any]bool{}
		cursor := ""
		pages := 0
		for ; ; pages++ {
			// Limit and strategy may change on the way.
			a := find(t, h, fmt.Sprintf("%s&limit=%d%s", q, 7+pages, cursor))
			for _, j := range a.Jobs {
				if seen[j["id"]] {
					t.Fatalf("%s: job %v comes twice", q, j["id"])
				}
				seen[j["id"]] = true
			}
			if a.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(*a.NextCursor)
		}
		if len(seen) != stacked || pages < 5 {
			t.Errorf("%s: %d jobs on %d pages, want %d jobs", q, len(seen), pages+1, stacked)
		}
	}
}

func TestJob(t *testing.T) {
	h := server(t, nil)
	mile := byTitle(t, "a mile off")
	taken := byTitle(t, "already taken")
	var j map[string]any
	decode(t, get(h, "/v1/jobs/"+mile.ID.String()), http.StatusOK, "application/json", &j)
	if j["title"] != mile.Title || j["description"] != mile.Description || j["lng"] != 0.0145 || j["distance_m"] != nil {
		t.Errorf("got %v", j)
	}
	decode(t, get(h, "/v1/jobs/"+taken.ID.String()), http.StatusOK, "application/json", &j)
	if j["state"] != "matched" {
		t.Errorf("got %v", j)
	}
	var f struct {
		Type, ID string
		Geometry struct{ Coordinates []float64 }
	}
	decode(t, get(h, "/v1/jobs/"+mile.ID.String(), "Accept", "application/geo+json"), http.StatusOK, "application/geo+json", &f)
	if f.Type != "Feature" || f.ID != mile.ID.String() || !slices.Equal(f.Geometry.Coordinates, []float64{0.0145, 0}) {
		t.Errorf("got %+v", f)
	}
	wantProblem(t, get(h, "/v1/jobs/999999"), http.StatusNotFound)
	for _, id := range []string{"0", "-1", "01", "x", "9223372036854775808", "1e3", "%20"} {
		p := wantProblem(t, get(h, "/v1/jobs/"+id), http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Field != "id" {
			t.Errorf("id %s: %+v", id, p)
		}
	}
	p := wantProblem(t, get(h, "/v1/jobs/x?lat=1&b=2"), http.StatusUnprocessableEntity)
	if len(p.Errors) != 3 {
		t.Errorf("want faults of b, lat and id: %+v", p)
	}
}

func TestStrategies(t *testing.T) {
	h := server(t, nil)
	var got struct {
		Strategies []struct {
			Name, About string
			Default     bool
		}
	}
	decode(t, get(h, "/v1/strategies"), http.StatusOK, "application/json", &got)
	var defaults []string
	for i, s := range search.Strategies() {
		if i >= len(got.Strategies) || got.Strategies[i].Name != s.Name() || got.Strategies[i].About == "" {
			t.Fatalf("strategy %d: got %+v, want %s", i, got.Strategies, s.Name())
		}
		if got.Strategies[i].Default {
			defaults = append(defaults, s.Name())
		}
		a := find(t, h, "/v1/jobs/nearby?lat=0&lng=0&radius_m=2000&strategy="+s.Name())
		if !slices.Equal(a.titles(), []string{"null island", "a mile off"}) || a.Stats["strategy"] != s.Name() {
			t.Errorf("%s: %v by %v", s.Name(), a.titles(), a.Stats)
		}
	}
	a := find(t, h, "/v1/jobs/nearby?lat=0&lng=0")
	if len(defaults) != 1 || a.Stats["strategy"] != defaults[0] {
		t.Errorf("defaults %v, but used %v", defaults, a.Stats["strategy"])
	}
	wantProblem(t, get(h, "/v1/strategies?a=1"), http.StatusUnprocessableEntity)
}

func TestExplain(t *testing.T) {
	const q = "/v1/jobs/nearby?lat=0&lng=0&radius_m=2000&explain=true"
	p := wantProblem(t, get(server(t, nil), q), http.StatusForbidden)
	if !strings.Contains(p.Detail, "--allow-explain") {
		t.Errorf("does not say how to allow it: %s", p.Detail)
	}
	h := server(t, func(_ *api.Deps, o *api.Options) { o.AllowExplain = true })
	for _, q := range []string{q, "/v1/jobs/in-box?west=-1&south=-1&east=1&north=1&explain=true"} {
		a := find(t, h, q)
		if len(a.Jobs) != 2 || a.Explain == nil || len(a.Explain.Rounds) == 0 {
			t.Fatalf("%s: %+v", q, a)
		}
		s := a.Explain.Rounds[0].Statements[0]
		if !strings.Contains(s.SQL, "SELECT") || s.Plan == "" || len(s.Args) == 0 {
			t.Errorf("%s: %+v", q, s)
		}
	}
	if a := find(t, h, "/v1/jobs/nearby?lat=0&lng=0"); a.Explain != nil {
		t.Error("explained without being asked to")
	}
}

func TestGeoJSON(t *testing.T) {
	h := server(t, func(_ *api.Deps, o *api.Options) { o.AllowExplain = true })
	type collection struct {
		Type     string
		Features []struct {
			Type, ID   string
			Geometry   *json.RawMessage
			Properties map[string]any
		}
		NextCursor string `json:"next_cursor"`
		Stats      map[string]any
		Explain    any
	}
	var c collection
	w := get(h, "/v1/jobs/nearby?lat=0&lng=0&radius_m=2000&remote=include&explain=true", "Accept", "application/geo+json")
	decode(t, w, http.StatusOK, "application/geo+json", &c)
	if c.Type != "FeatureCollection" || len(c.Features) != 3 || c.Stats["hits"] != 3.0 || c.NextCursor != "" || c.Explain == nil {
		t.Fatalf("got %+v", c)
	}
	wantGeometry := []string{`{"type":"Point","coordinates":[0,0]}`, `{"type":"Point","coordinates":[0.0145,0]}`, ``}
	for i, f := range c.Features {
		g := ""
		if f.Geometry != nil {
			g = string(*f.Geometry)
		}
		if f.Type != "Feature" || g != wantGeometry[i] || f.Properties["id"] != f.ID || f.Properties["title"] == "" {
			t.Errorf("feature %d: %+v with geometry %s", i, f, g)
		}
	}
	// RFC 7946: a Feature has a geometry member, if only null.
	if !strings.Contains(w.Body.String(), `"geometry":null`) {
		t.Errorf("no null geometry: %s", w.Body)
	}
	c = collection{}
	decode(t, get(h, "/v1/jobs/in-box?west=-75&south=40&east=-74&north=41&limit=10", "Accept", "application/geo+json"),
		http.StatusOK, "application/geo+json", &c)
	if len(c.Features) != 10 || c.NextCursor == "" {
		t.Errorf("got %d features, next %q", len(c.Features), c.NextCursor)
	}
	c = collection{}
	decode(t, get(h, "/v1/jobs/nearby?lat=90&lng=0&radius_m=0", "Accept", "application/geo+json"), http.StatusOK, "application/geo+json", &c)
	if c.Features == nil {
		t.Error("no features are null, not an empty array")
	}
	// Problems stay problems, and what has no GeoJSON stays JSON.
	wantProblem(t, get(h, "/v1/jobs/nearby", "Accept", "application/geo+json"), http.StatusUnprocessableEntity)
	var any map[string]any
	decode(t, get(h, "/v1/strategies", "Accept", "application/geo+json"), http.StatusOK, "application/geo+json", &any)
}

// TestAcceptLines reads all of the header's lines, and survives any of them.
func TestAcceptLines(t *testing.T) {
	h := server(t, nil)
	const q = "/v1/jobs/nearby?lat=0&lng=0"
	if ct := get(h, q, "Accept", "text/html", "Accept", "application/geo+json").Header().Get("Content-Type"); ct != "application/geo+json" {
		t.Errorf("second line: %s", ct)
	}
	for _, accept := range []string{"", "a;q,b", "x;q,y", ";", ",", "a;,", "text/html", "application/json;q=0"} {
		if w := get(h, q, "Accept", accept); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("Accept %q: %d %s", accept, w.Code, w.Header().Get("Content-Type"))
		}
		wantProblem(t, get(h, "/v1/jobs/nearby", "Accept", accept), http.StatusUnprocessableEntity)
	}
}

// fake stands where an engine does something at will.
type fake struct {
	find  func(context.Context, store.Query) (store.Page, error)
	jobs  func(context.Context, []store.ID) ([]store.Job, error)
	ready func(context.Context) error
}

func (f fake) Find(ctx context.Context, q store.Query) (store.Page, error) { return f.find(ctx, q) }
func (f fake) Explain(ctx context.Context, q store.Query) (store.Page, search.Explanation, error) {
	p, err := f.find(ctx, q)
	return p, search.Explanation{}, err
}
func (f fake) Jobs(ctx context.Context, ids []store.ID) ([]store.Job, error) { return f.jobs(ctx, ids) }
func (f fake) Ready(ctx context.Context) error                               { return f.ready(ctx) }

func fakeAPI(f fake, change func(*api.Deps, *api.Options)) http.Handler {
	deps := api.Deps{Search: f, Jobs: f, Ready: f}
	var opts api.Options
	if change != nil {
		change(&deps, &opts)
	}
	return api.New(deps, opts)
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestUnencodable keeps a number that JSON has not from becoming half an answer.
func TestUnencodable(t *testing.T) {
	h := fakeAPI(fake{find: func(context.Context, store.Query) (store.Page, error) {
		return store.Page{Jobs: []store.Found{{Job: store.Job{ID: 1, Title: "x"}, Distance: math.NaN()}}}, nil
	}}, nil)
	wantProblem(t, get(h, "/v1/jobs/nearby?lat=0&lng=0"), http.StatusInternalServerError)
}
