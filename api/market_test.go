package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/search"
	"github.com/nearjob/nearjob/store/sqlite"
	"github.com/nearjob/nearjob/testdata/testdb"
)

const testSecret = auth.Secret("0123456789abcdef0123456789abcdef")

// market is an API with matching, over a SQLite file, at a time of the test's.
type market struct {
	t *testing.T
	http.Handler
	engine engine
	spec   object

	mu  sync.Mutex
	now time.Time
}

func (m *market) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// pass lets time go by.
func (m *market) pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

type engine interface {
	store.Engine
	store.Market
	store.Alerts
}

func newMarket(t *testing.T, change func(*api.Deps, *api.Options)) *market {
	t.Helper()
	return newMarketOn(t, "sqlite", change)
}

// onEngines runs a test on each engine; on MySQL where testdb has a server.
func onEngines(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range []string{"sqlite", "mysql"} {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

func newMarketOn(t *testing.T, name string, change func(*api.Deps, *api.Options)) *market {
	t.Helper()
	ctx := context.Background()
	m := &market{t: t, now: today}
	var err error
	if name == "mysql" {
		m.engine, err = mysql.Open(ctx, testdb.MySQL(t), mysql.Options{})
	} else {
		m.engine, err = sqlite.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := m.engine.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	ids, err := store.NewIDs(m.clock, 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.New(ctx, auth.Config{Secret: testSecret, Now: m.clock})
	if err != nil {
		t.Fatal(err)
	}
	deps := api.Deps{
		Search: search.New(m.engine, m.clock), Jobs: m.engine, Ready: m.engine,
		Market: m.engine, Alerts: m.engine, Auth: v, IDs: ids, Now: m.clock, Limits: &api.Limits{},
		Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", auth.User(r.Context()))
		}),
	}
	opts := api.Options{CORSOrigins: []string{"https://example.com"}}
	if change != nil {
		change(&deps, &opts)
	}
	m.Handler = api.New(deps, opts)
	m.spec = description(t, m.Handler)
	return m
}

func (m *market) token(user string) string {
	m.t.Helper()
	token, err := auth.Mint(testSecret, user, 24*time.Hour, "", "", m.clock())
	if err != nil {
		m.t.Fatal(err)
	}
	return token
}

// call asks as a user, "" for nobody. A body goes as JSON, or as a merge patch.
func (m *market) call(user, method, target, body string, header ...string) *httptest.ResponseRecorder {
	m.t.Helper()
	r := request(method, target)
	if body != "" {
		r.Body = httptest.NewRequest(method, "/", strings.NewReader(body)).Body
		r.ContentLength = int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	if user != "" {
		r.Header.Set("Authorization", "Bearer "+m.token(user))
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	m.described(r, w)
	return w
}

// described holds an answer against the description: so every test does.
func (m *market) described(r *http.Request, w *httptest.ResponseRecorder) {
	m.t.Helper()
	if r.Method == http.MethodOptions {
		return
	}
	schemas := m.spec["components"].(object)["schemas"].(object)
	var op object
	fewest := 99 // parameters: /v1/jobs/nearby is not /v1/jobs/{id}
	for path, item := range m.spec["paths"].(object) {
		pattern := "^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "[^/]+") + "$"
		if n := strings.Count(path, "{"); n < fewest && regexp.MustCompile(pattern).MatchString(r.URL.Path) {
			if o, ok := item.(object)[strings.ToLower(r.Method)].(object); ok {
				op, fewest = o, n
			}
		}
	}
	if op == nil {
		return // a page, or nothing at all
	}
	response, ok := op["responses"].(object)[fmt.Sprint(w.Code)].(object)
	if !ok {
		m.t.Errorf("%s %s: %d is not described: %s", r.Method, r.URL.Path, w.Code, w.Body)
		return
	}
	content, _ := response["content"].(object)
	if w.Body.Len() == 0 {
		if content != nil {
			m.t.Errorf("%s %s: %d without a body", r.Method, r.URL.Path, w.Code)
		}
		return
	}
	media, ok := content[w.Header().Get("Content-Type")].(object)
	if !ok {
		m.t.Errorf("%s %s: %d as %s is not described", r.Method, r.URL.Path, w.Code, w.Header().Get("Content-Type"))
		return
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		m.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	for _, fault := range mismatch(schemas, media["schema"].(object), v, "") {
		m.t.Errorf("%s %s: %d: %s", r.Method, r.URL.Path, w.Code, fault)
	}
	for name := range response["headers"].(object) {
		if w.Header().Get(name) == "" && name != "Idempotency-Replayed" && (name != "Location" || w.Code == 201) {
			m.t.Errorf("%s %s: %d without %s", r.Method, r.URL.Path, w.Code, name)
		}
	}
}

// must asks, and wants a status.
func (m *market) must(status int, user, method, target, body string, header ...string) object {
	m.t.Helper()
	w := m.call(user, method, target, body, header...)
	if w.Code != status {
		m.t.Fatalf("%s %s %s as %q: %d, want %d: %s", method, target, body, user, w.Code, status, w.Body)
	}
	o := object{"etag": w.Header().Get("ETag")}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
			m.t.Fatalf("%s %s: %v: %s", method, target, err, w.Body)
		}
	}
	return o
}

const sofa = `{"title":"Carry a sofa","description":"<b>Two</b> people","category":"moving","lat":40.7143,"lng":-74.006,"pay":{"amount":25.5,"currency":"eur","per":"job"}}`

// post posts a job and returns its path.
func (m *market) post(user string) string {
	m.t.Helper()
	return "/v1/jobs/" + m.must(201, user, "POST", "/v1/jobs", sofa)["id"].(string)
}

// apply applies for a job and returns the application's path below the job.
func (m *market) apply(user, job string) string {
	m.t.Helper()
	return job + "/applications/" + m.must(201, user, "POST", job+"/applications", `{"message":"I have a van."}`)["id"].(string)
}

// found reports whether a search finds a job.
func (m *market) found(job string) bool {
	m.t.Helper()
	for _, strategy := range []string{"s2", "bbox"} {
		a := m.must(200, "", "GET", "/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=1000&strategy="+strategy, "")
		in := slices.ContainsFunc(a["jobs"].([]any), func(j any) bool { return "/v1/jobs/"+j.(object)["id"].(string) == job })
		if !in {
			return false
		}
	}
	return true
}

func names(list any) (out []string) {
	for _, a := range list.([]any) {
		out = append(out, a.(object)["action"].(string))
	}
	return out
}

// TestMatch walks a whole match: posted, applied for, declined, accepted, resigned,
// accepted again, started, finished, sent back, finished, confirmed.
func TestMatch(t *testing.T) { onEngines(t, testMatch) }

func testMatch(t *testing.T, engine string) {
	m := newMarketOn(t, engine, nil)
	job := m.post("owner")
	if !m.found(job) {
		t.Fatal("what was posted is not found")
	}
	kim, lee, bad := m.apply("kim", job), m.apply("lee", job), m.apply("bad", job)
	o := m.must(200, "owner", "GET", job, "")
	if c := o["applications"].(object); c["undecided"] != 3.0 || c["total"] != 3.0 || o["requester"] != "owner" {
		t.Errorf("the requester sees %v", o)
	}
	m.must(200, "owner", "POST", bad+"/decline", `{"reason":"No van."}`)
	a := m.must(200, "owner", "POST", kim+"/accept", "")
	if a["state"] != "accepted" || a["job_state"] != "matched" || !slices.Equal(names(a["actions"]), nil) {
		t.Errorf("accepted: %v", a)
	}
	if m.found(job) {
		t.Error("a matched job is found")
	}
	if a := m.must(200, "lee", "GET", "/v1/applications/"+lee[strings.LastIndex(lee, "/")+1:], ""); a["state"] != "declined" || a["may_reapply"] != true {
		t.Errorf("passed over: %v", a)
	}
	m.must(200, "kim", "POST", kim+"/resign", `{"reason":"My van broke."}`)
	if !m.found(job) {
		t.Error("a reopened job is not found")
	}
	if again := m.must(200, "lee", "POST", job+"/applications", ""); job+"/applications/"+again["id"].(string) != lee || again["version"] != 3.0 {
		t.Errorf("applied again: %v", again)
	}
	if p := m.must(409, "bad", "POST", job+"/applications", ""); p["application_state"] != "declined" || p["can"] != nil {
		t.Errorf("declined, applies again: %v", p)
	}
	m.must(200, "owner", "POST", lee+"/accept", "")
	m.must(200, "lee", "POST", lee+"/start", "")
	a = m.must(200, "lee", "POST", lee+"/finish", "")
	if !slices.Equal(names(a["actions"]), []string{"resign"}) {
		t.Errorf("the worker who has finished can %v", a["actions"])
	}
	o = m.must(200, "owner", "GET", job, "")
	if got := names(o["actions"]); !slices.Equal(got, []string{"cancel", "confirm", "rework", "reject"}) {
		t.Errorf("the requester can %v", got)
	}
	m.must(422, "owner", "POST", lee+"/rework", "")
	m.must(200, "owner", "POST", lee+"/rework", `{"reason":"The legs are missing."}`)
	m.must(200, "lee", "POST", lee+"/finish", "")
	a = m.must(200, "owner", "POST", lee+"/confirm", "")
	if a["state"] != "confirmed" || a["job_state"] != "completed" || m.found(job) {
		t.Errorf("confirmed: %v", a)
	}
	p := m.must(409, "owner", "POST", lee+"/reject", `{"reason":"too late"}`)
	if p["job_state"] != "completed" || p["application_state"] != "confirmed" || p["can"] != nil {
		t.Errorf("rejected after all: %v", p)
	}

	// The history, as each of them sees it.
	events := func(user string) (out []string) {
		for target := job + "/events?limit=3"; ; {
			e := m.must(200, user, "GET", target, "")
			for _, x := range e["events"].([]any) {
				x := x.(object)
				out = append(out, fmt.Sprint(x["action"], " ", x["actor"]))
				if user != "owner" && (x["told"] != nil || x["actor"] != nil && x["actor"] != user) {
					t.Errorf("%s sees %v", user, x)
				}
			}
			next, more := e["next_cursor"]
			if !more {
				return out
			}
			target = fmt.Sprintf("%s/events?limit=3&cursor=%s", job, next)
		}
	}
	want := []string{
		"post owner", "apply kim", "apply lee", "apply bad", "decline owner", "accept owner", "pass_over <nil>", "resign kim", "reopen <nil>",
		"apply lee", "accept owner", "start lee", "finish lee", "rework owner", "finish lee", "confirm owner",
	}
	if got := events("owner"); !slices.Equal(got, want) {
		t.Errorf("the requester sees %q", got)
	}
	want = []string{
		"post <nil>", "apply lee", "pass_over <nil>", "reopen <nil>", "apply lee", "accept <nil>", "start lee", "finish lee", "rework <nil>",
		"finish lee", "confirm <nil>",
	}
	if got := events("lee"); !slices.Equal(got, want) {
		t.Errorf("the worker sees %q", got)
	}
	want = []string{"post <nil>", "apply bad", "decline <nil>", "reopen <nil>"}
	if got := events("bad"); !slices.Equal(got, want) {
		t.Errorf("the declined see %q", got)
	}

	// What they were told.
	told := func(user string) (out []string) {
		for _, x := range m.must(200, user, "GET", "/v1/me/messages?limit=200", "")["messages"].([]any) {
			out = append(out, fmt.Sprint(x.(object)["action"], " ", x.(object)["note"]))
		}
		return out
	}
	if got := told("lee"); !slices.Equal(got, []string{"pass_over <nil>", "reopen <nil>", "accept <nil>", "rework The legs are missing.", "confirm <nil>"}) {
		t.Errorf("lee was told %q", got)
	}
	if got := told("bad"); !slices.Equal(got, []string{"decline No van."}) {
		t.Errorf("bad was told %q", got)
	}
	if got := m.must(200, "stranger", "GET", "/v1/me/messages", "")["messages"].([]any); len(got) != 0 {
		t.Errorf("a stranger was told %v", got)
	}
}

// people are those that the matrix is about.
var people = []string{"", "stranger", "applicant", "worker", "requester"}

// matrix says what each endpoint answers to nobody, a stranger, an applicant (who
// waits for an answer, or was passed over), the accepted worker and the requester.
// Each cell gets a job of its own, in the state that the row names: "open" with two
// applications, or what has become of it with the worker. The one that is named in
// {application} is the worker's.
var matrix = []struct {
	route, state, body string
	want               [5]int
}{
	{"POST /v1/jobs", "", sofa, [5]int{401, 201, 201, 201, 201}},
	{"GET /v1/jobs/{id}", "matched", "", [5]int{200, 200, 200, 200, 200}},
	{"PATCH /v1/jobs/{id}", "open", `{"title":"Carry two sofas"}`, [5]int{401, 403, 403, 403, 200}},
	{"POST /v1/jobs/{id}/cancel", "open", "", [5]int{401, 403, 403, 403, 200}},
	{"POST /v1/jobs/{id}/cancel", "started", "", [5]int{401, 403, 403, 403, 200}},
	{"GET /v1/jobs/{id}/events", "matched", "", [5]int{401, 403, 200, 200, 200}},
	{"POST /v1/jobs/{id}/applications", "open", "", [5]int{401, 201, 409, 409, 403}},
	{"POST /v1/jobs/{id}/applications", "matched", "", [5]int{401, 409, 409, 409, 403}},
	{"GET /v1/jobs/{id}/applications", "open", "", [5]int{401, 200, 200, 200, 200}},
	{"GET /v1/applications/{id}", "open", "", [5]int{401, 404, 404, 200, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/accept", "open", "", [5]int{401, 404, 404, 403, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/decline", "open", "", [5]int{401, 404, 404, 403, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/withdraw", "open", "", [5]int{401, 404, 404, 200, 403}},
	{"POST /v1/jobs/{id}/applications/{application}/start", "matched", "", [5]int{401, 404, 404, 200, 403}},
	{"POST /v1/jobs/{id}/applications/{application}/finish", "started", "", [5]int{401, 404, 404, 200, 403}},
	{"POST /v1/jobs/{id}/applications/{application}/confirm", "finished", "", [5]int{401, 404, 404, 403, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/rework", "finished", `{"reason":"x"}`, [5]int{401, 404, 404, 403, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/reject", "finished", `{"reason":"x"}`, [5]int{401, 404, 404, 403, 200}},
	{"POST /v1/jobs/{id}/applications/{application}/resign", "finished", "", [5]int{401, 404, 404, 200, 403}},
	// From a state that the action does not lead from: 409 only for who could do it.
	{"POST /v1/jobs/{id}/applications/{application}/accept", "matched", "", [5]int{401, 404, 404, 403, 409}},
	{"POST /v1/jobs/{id}/applications/{application}/confirm", "started", "", [5]int{401, 404, 404, 403, 409}},
	{"POST /v1/jobs/{id}/applications/{application}/start", "open", "", [5]int{401, 404, 404, 409, 403}},
	{"POST /v1/jobs/{id}/applications/{application}/resign", "open", "", [5]int{401, 404, 404, 409, 403}},
	{"GET /v1/me/jobs", "", "", [5]int{401, 200, 200, 200, 200}},
	{"GET /v1/me/applications", "open", "", [5]int{401, 200, 200, 200, 200}},
	{"GET /v1/me/messages", "matched", "", [5]int{401, 200, 200, 200, 200}},
	{"GET /v1/me/settings", "", "", [5]int{401, 200, 200, 200, 200}},
	{"PUT /v1/me/settings", "", `{"language":"ko"}`, [5]int{401, 200, 200, 200, 200}},
	{"PUT /v1/me/devices/{token}", "", "", [5]int{401, 204, 204, 204, 204}},
	{"DELETE /v1/me/devices/{token}", "", "", [5]int{401, 204, 204, 204, 204}},
	{"GET /v1/me/webhooks", "", "", [5]int{401, 200, 200, 200, 200}},
	{"POST /v1/me/webhooks", "", `{"url":"https://example.com/hook"}`, [5]int{401, 201, 201, 201, 201}},
	{"DELETE /v1/me/webhooks/{id}", "", "", [5]int{401, 204, 204, 204, 204}},
	{"GET /v1/me/alerts", "", "", [5]int{401, 200, 200, 200, 200}},
	{"POST /v1/me/alerts", "", `{"lat":40.7,"lng":-74,"radius_m":500}`, [5]int{401, 201, 201, 201, 201}},
	{"DELETE /v1/me/alerts/{id}", "", "", [5]int{401, 204, 204, 204, 204}},
	{"GET /v1/me/stream", "", "", [5]int{401, 200, 200, 200, 200}},
	{"GET /v1/jobs/nearby", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /v1/jobs/in-box", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /v1/strategies", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /healthz", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /readyz", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /metrics", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /openapi.json", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /docs", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /docs/rapidoc/LICENSE.txt", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /docs/rapidoc/rapidoc-min.js", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /docs/rapidoc/rapidoc-min.js.LICENSE.txt", "", "", [5]int{200, 200, 200, 200, 200}},
	{"GET /{$}", "", "", [5]int{302, 302, 302, 302, 302}},
}

// stage posts a job and brings it to a state.
func (m *market) stage(state string) (job, application string) {
	m.t.Helper()
	job = m.post("requester")
	m.apply("applicant", job)
	application = m.apply("worker", job)
	steps := []struct{ name, by, action string }{
		{"open", "", ""}, {"matched", "requester", "accept"}, {"started", "worker", "start"}, {"finished", "worker", "finish"},
	}
	for _, s := range steps {
		if s.action != "" {
			m.must(200, s.by, "POST", application+"/"+s.action, "")
		}
		if s.name == state {
			return job, application
		}
	}
	m.t.Fatalf("no state %q", state)
	return
}

func TestMatrix(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	covered := map[string]bool{}
	for _, row := range matrix {
		covered[row.route] = true
		for i, user := range people {
			method, target, _ := strings.Cut(row.route, " ")
			var header []string
			if row.state != "" {
				job, application := m.stage(row.state)
				id := application[strings.LastIndex(application, "/")+1:]
				target = strings.Replace(target, "/v1/jobs/{id}/applications/{application}", application, 1)
				target = strings.Replace(target, "/v1/jobs/{id}", job, 1)
				target = strings.Replace(target, "/v1/applications/{id}", "/v1/applications/"+id, 1)
			}
			target = strings.NewReplacer("{token}", "abc:def", "/webhooks/{id}", "/webhooks/7", "/alerts/{id}", "/alerts/7", "{$}", "").Replace(target)
			switch target {
			case "/v1/jobs/nearby":
				target += "?lat=1&lng=2"
			case "/v1/jobs/in-box":
				target += "?west=1&south=1&east=2&north=2"
			}
			if method == http.MethodPatch {
				header = []string{"If-Match", `"1"`}
			}
			if strings.ContainsAny(target, "{}") {
				t.Fatalf("%s: what to ask for in %s?", row.route, target)
			}
			w := m.call(user, method, target, row.body, header...)
			if w.Code != row.want[i] {
				t.Errorf("%s (%s) as %q: %d, want %d: %.200s", row.route, row.state, user, w.Code, row.want[i], w.Body)
			}
			if w.Code == http.StatusUnauthorized && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: 401 without a challenge", row.route)
			}
			if w.Code >= 400 {
				wantProblem(t, w, w.Code)
			}
			// What only the requester sees, and what only who is concerned sees.
			body := w.Body.String()
			if user != "requester" && row.state != "" && (strings.Contains(body, `"requester":`) || strings.Contains(body, `"undecided"`)) {
				t.Errorf("%s shows %q the requester or a count: %s", row.route, user, body)
			}
			if (user == "" || user == "stranger") && row.state != "" && w.Code == 200 && !strings.Contains(row.route, "/me/") &&
				(strings.Contains(body, "worker") || strings.Contains(body, "actions") || strings.Contains(body, "application_id")) {
				t.Errorf("%s shows %q what is not theirs: %s", row.route, user, body)
			}
			if user == "applicant" && strings.Contains(body, `"worker":"worker"`) {
				t.Errorf("%s shows an applicant another's application: %s", row.route, body)
			}
		}
	}
	routes := api.Patterns(m.Handler)
	if len(routes) < 30 {
		t.Fatalf("only %d routes: %v", len(routes), routes)
	}
	for _, p := range routes {
		if !covered[p] {
			t.Errorf("%s is not in the matrix", p)
		}
		delete(covered, p)
	}
	for p := range covered {
		t.Errorf("%s is in the matrix, but there is no such route", p)
	}
}

// TestNoHints: what one may not know of looks like what does not exist.
func TestNoHints(t *testing.T) {
	m := newMarket(t, nil)
	job, application := m.stage("open")
	id := application[strings.LastIndex(application, "/")+1:]
	text := func(w *httptest.ResponseRecorder) string {
		p := wantProblem(t, w, http.StatusNotFound)
		return p.Detail
	}
	if a, b := text(m.call("stranger", "GET", "/v1/applications/"+id, "")), text(m.call("stranger", "GET", "/v1/applications/7", "")); a != b {
		t.Errorf("%q, but %q", a, b)
	}
	other := m.post("requester")
	if a, b := text(m.call("stranger", "POST", application+"/accept", "")), text(m.call("requester", "POST", other+"/applications/"+id+"/accept", "")); a != b {
		t.Errorf("%q, but %q", a, b)
	}
	for _, user := range []string{"stranger", "applicant"} {
		list := m.must(200, user, "GET", job+"/applications", "")["applications"].([]any)
		want := 0
		if user == "applicant" {
			want = 1
		}
		if len(list) != want {
			t.Errorf("%s sees %d applications", user, len(list))
		}
	}
	if list := m.must(200, "requester", "GET", job+"/applications", "")["applications"].([]any); len(list) != 2 {
		t.Errorf("the requester sees %d applications", len(list))
	}
	// A token's claims give nobody a right: only sub counts, and it is exact.
	m.must(403, "Requester", "POST", job+"/cancel", "")
	m.must(403, "requester2", "POST", job+"/cancel", "")
}

func TestEdit(t *testing.T) {
	m := newMarket(t, nil)
	job := m.post("owner")
	worker := m.apply("kim", job)
	j := m.must(200, "owner", "GET", job, "")
	if j["etag"] != `"1"` || j["description"] != "<b>Two</b> people" || j["pay"].(object)["currency"] != "EUR" {
		t.Fatalf("%v", j)
	}
	m.must(428, "owner", "PATCH", job, `{"title":"x"}`)
	p := m.must(422, "owner", "PATCH", job, `{"title":null,"lat":91,"lng":"x","pay":{"amount":1.234,"tip":null},"colour":null}`, "If-Match", `"1"`)
	var fields []string
	for _, f := range p["errors"].([]any) {
		fields = append(fields, f.(object)["field"].(string))
	}
	slices.Sort(fields)
	if !slices.Equal(fields, []string{"colour", "lat", "lng", "pay.amount", "pay.tip", "title"}) {
		t.Errorf("faults in %v: %v", fields, p["errors"])
	}
	p = m.must(422, "owner", "PATCH", job, `{"title":"x"}`, "If-Match", `1`)
	if !strings.Contains(fmt.Sprint(p["errors"]), "If-Match") {
		t.Errorf("%v", p)
	}
	j = m.must(200, "owner", "PATCH", job, `{"title":"  Carry \u0065\u0301 sofas ","category":null,"pay":{"per":null}}`, "If-Match", `"9", "1"`)
	if j["etag"] != `"2"` || j["title"] != "Carry \u00e9 sofas" || j["category"] != nil || j["pay"].(object)["per"] != nil || j["pay"].(object)["amount"] != 25.5 {
		t.Errorf("edited: %v", j)
	}
	for _, tag := range []string{`"1"`, `W/"2"`} {
		w := m.call("owner", "PATCH", job, `{"title":"y"}`, "If-Match", tag)
		if wantProblem(t, w, 412); w.Header().Get("ETag") != `"2"` {
			t.Errorf("If-Match %s: the ETag now is %q", tag, w.Header().Get("ETag"))
		}
	}
	// Nothing changes: the version stays.
	if j := m.must(200, "owner", "PATCH", job, `{}`, "If-Match", "*"); j["etag"] != `"2"` {
		t.Errorf("%v", j)
	}
	// It moves, and a search follows; then it loses its place.
	m.must(200, "owner", "PATCH", job, `{"lat":0,"lng":0}`, "If-Match", `"2"`)
	if m.found(job) {
		t.Error("found where it no longer is")
	}
	m.must(422, "owner", "PATCH", job, `{"remote":true}`, "If-Match", `"3"`)
	j = m.must(200, "owner", "PATCH", job, `{"remote":true,"lat":null,"lng":null}`, "If-Match", `"3"`)
	if j["remote"] != true || j["lat"] != nil {
		t.Errorf("%v", j)
	}
	// If-Match of an action is that of the application.
	m.must(412, "owner", "POST", worker+"/accept", "", "If-Match", `"4"`)
	m.must(200, "owner", "POST", worker+"/accept", "", "If-Match", `"1"`)
	p = m.must(409, "owner", "PATCH", job, `{"title":"late"}`, "If-Match", "*")
	if p["job_state"] != "matched" || !slices.Equal(names(p["can"]), []string{"cancel"}) {
		t.Errorf("edit of a matched job: %v", p)
	}
	m.must(412, "owner", "POST", job+"/cancel", "", "If-Match", `"1"`)
	m.must(200, "owner", "POST", job+"/cancel", `{"reason":"Sold it."}`, "If-Match", m.must(200, "owner", "GET", job, "")["etag"].(string))
	m.must(422, "owner", "PUT", "/v1/me/settings", `{}`, "If-Match", `"1"`)
}

// TestBodies: what a body can be and not be.
func TestBodies(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	with := func(s string) string { return strings.TrimSuffix(sofa, "}") + "," + s + "}" }
	for _, tt := range []struct {
		body, header string
		status       int
		want         string // in the answer
	}{
		{"", "", 422, "body: is missing"},
		{"{", "", 400, "byte 1"},
		{sofa + sofa, "", 400, "not one JSON value"},
		{sofa + "\n ", "", 201, ""},
		{"[]", "", 422, "a list, not an object"},
		{"null", "", 422, "body: is null, not an object"},
		{`"x"`, "", 422, "text, not an object"},
		{"\xff", "", 400, "UTF-8"},
		{`{"title":"\ud800"}`, "", 422, "surrogate"},
		{`{"title":"\ufffd","lat":1,"lng":2}`, "", 201, ""},
		{strings.Repeat(`{"pay":`, 40) + "1" + strings.Repeat("}", 40), "", 400, "deeper"},
		{with(`"title":"again"`), "", 422, "title: is given twice"},
		{with(`"pay":{}`), "", 422, "pay: is given twice"},
		{with(`"Title":"x"`), "", 422, "Title: is not known here"},
		{with(`"requester":"me"`), "", 422, "requester: is not known here"},
		{with(`"state":"matched"`), "", 422, "state: is not known here"},
		{with(`"employer":null`), "", 422, "employer: is null, not text: leave it out"},
		{with(`"employer":["x"]`), "", 422, "employer: is a list, not text"},
		{with(`"employer":"a\u0000b"`), "", 422, "employer: has a control character"},
		{with(`"employer":"a\u202eb"`), "", 422, "employer: has a character that turns"},
		{`{"title":"x","lat":1,"lng":2,"description":"a\u2067b"}`, "", 422, "description: has a character that turns"},
		{with(`"employer":"\u200fשלום"`), "", 201, ""},
		{with(`"employer":"a\nb"`), "", 422, "employer: has a control character"},
		{with(`"expires":"tomorrow"`), "", 422, "RFC 3339"},
		{with(`"expires":"2020-01-01T00:00:00Z"`), "", 422, "expires: is not in the future"},
		{with(`"url":"javascript:alert(1)"`), "", 422, "url"},
		{with(`"url":"https://example.com/x?y=<b>"`), "", 201, ""},
		{with(`"remote":"yes"`), "", 422, "remote: is text, not true or false"},
		{`{"title":"x","lat":"1","lng":1e400}`, "", 422, "lat: is text, not a number"},
		{`{"title":"x","remote":true}`, "", 201, ""},
		{`{"title":"x","remote":true,"lat":1}`, "", 422, "lat: is of no use"},
		{`{"title":"x","lat":1,"lng":2,"pay":{"currency":"KRW"}}`, "", 422, "pay.amount: is missing"},
		{`{"title":"x","lat":1,"lng":2,"pay":{"amount":-1}}`, "", 422, "pay.amount"},
		{`{"title":"x","lat":1,"lng":2,"pay":{"amount":1,"currency":"Euro","per":"minute"}}`, "", 422, "pay.currency"},
		{`{"title":"` + strings.Repeat("x", 301) + `","lat":1,"lng":2}`, "", 422, "title: is longer than 300"},
		{`{"title":"x","lat":1,"lng":2,"description":"` + strings.Repeat("\U0001F6CB", 20000) + `"}`, "", 201, ""},
		{`{"title":"` + strings.Repeat("x", 131072) + `"}`, "", 413, "131072"},
		{sofa, "text/plain", 415, "application/json"},
		{sofa, "application/json; charset=latin1", 415, "utf-8"},
		{sofa, "application/json; charset=UTF-8", 201, ""},
	} {
		var header []string
		if tt.header != "" {
			header = []string{"Content-Type", tt.header}
		}
		w := m.call("owner", "POST", "/v1/jobs", tt.body, header...)
		var p api.Problem
		if tt.status >= 400 {
			p = wantProblem(t, w, w.Code)
		}
		text := p.Detail
		for _, e := range p.Errors {
			text += "\n" + e.Field + ": " + e.Reason
		}
		if w.Code != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%.80s: %d %s", tt.body, w.Code, text)
		}
	}
	m.must(422, "owner", "DELETE", "/v1/me/devices/x", sofa)
	job := m.post("owner")
	p := m.must(422, "kim", "POST", job+"/applications", `{"message":"`+strings.Repeat("x", 2001)+`","reason":"y"}`)
	if len(p["errors"].([]any)) != 2 {
		t.Errorf("%v", p["errors"])
	}
	if w := m.call("owner", "POST", "/v1/jobs", "", "Content-Encoding", "gzip"); w.Code != 422 {
		t.Errorf("no body: %d", w.Code)
	}
	if w := m.call("owner", "POST", "/v1/jobs", sofa, "Content-Encoding", "gzip"); w.Code != 415 {
		t.Errorf("gzip: %d", w.Code)
	}
}

func TestIdempotency(t *testing.T) { onEngines(t, testIdempotency) }

func testIdempotency(t *testing.T, engine string) {
	m := newMarketOn(t, engine, nil)
	key := []string{"Idempotency-Key", "k-1"}
	first := m.call("owner", "POST", "/v1/jobs", sofa, key...)
	again := m.call("owner", "POST", "/v1/jobs", sofa, key...)
	if first.Code != 201 || again.Code != 201 || first.Body.String() != again.Body.String() ||
		again.Header().Get("Idempotency-Replayed") != "true" || again.Header().Get("ETag") != first.Header().Get("ETag") {
		t.Fatalf("%d %s\n%d %s", first.Code, first.Body, again.Code, again.Body)
	}
	m.must(422, "owner", "POST", "/v1/jobs", strings.Replace(sofa, "sofa", "bed", 1), key...)
	m.must(400, "owner", "POST", "/v1/jobs", sofa, "Idempotency-Key", "a b")
	m.must(201, "other", "POST", "/v1/jobs", sofa, key...)
	if n := len(m.must(200, "owner", "GET", "/v1/me/jobs", "")["jobs"].([]any)); n != 1 {
		t.Errorf("%d jobs", n)
	}

	// The answer was lost after the commit, as where the process died: the job
	// is there all the same, and not posted twice.
	for range 3 {
		n, err := m.engine.SweepAnswers(t.Context(), m.clock().Add(time.Minute), 100)
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		if w := m.call("owner", "POST", "/v1/jobs", sofa, key...); w.Code != 201 || w.Body.String() != first.Body.String() {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	// Two days later the key is anybody's again.
	m.pass(48 * time.Hour)
	if n, err := api.SweepAnswers(t.Context(), m.engine, m.clock); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	third := m.must(201, "owner", "POST", "/v1/jobs", sofa, key...)
	if n := len(m.must(200, "owner", "GET", "/v1/me/jobs", "")["jobs"].([]any)); n != 2 {
		t.Errorf("%d jobs", n)
	}

	// Everything that is posted: an action too.
	job := "/v1/jobs/" + third["id"].(string)
	for i, want := range []string{"", "true"} {
		w := m.call("kim", "POST", job+"/applications", "", "Idempotency-Key", "apply")
		if w.Code != 201 || w.Header().Get("Idempotency-Replayed") != want {
			t.Errorf("apply %d: %d %s", i, w.Code, w.Body)
		}
	}
	m.must(409, "kim", "POST", job+"/applications", "")
	p := m.must(409, "kim", "POST", job+"/applications", "")
	if !slices.Equal(names(p["can"]), []string{"withdraw"}) {
		t.Errorf("who has applied can %v", p["can"])
	}
	// The link leads there.
	m.must(200, "kim", "POST", p["can"].([]any)[0].(object)["href"].(string), "")
}

// TestPaging: page by page, every list is whole, and a cursor belongs to its list.
func TestPaging(t *testing.T) {
	m := newMarket(t, nil)
	const n = 7
	job := m.post("owner")
	for i := range n {
		m.apply(fmt.Sprintf("w%d", i), job)
		m.pass(time.Second)
		m.apply("busy", m.post("owner"))
	}
	cursors := map[string]string{}
	for _, tt := range []struct {
		user, target, list string
		want               int
	}{
		{"owner", job + "/applications", "applications", n}, {"owner", job + "/events", "events", n + 1},
		{"w3", job + "/events", "events", 2},
		{"owner", "/v1/me/jobs", "jobs", n + 1}, {"busy", "/v1/me/applications", "applications", n},
		{"owner", "/v1/me/messages", "messages", 2 * n},
	} {
		seen := map[any]bool{}
		for target := tt.target + "?limit=1"; ; {
			p := m.must(200, tt.user, "GET", target, "")
			for _, x := range p[tt.list].([]any) {
				if id := x.(object)["id"]; seen[id] {
					t.Fatalf("%s: %v comes twice", tt.target, id)
				} else {
					seen[id] = true
				}
			}
			next, more := p["next_cursor"].(string)
			if !more {
				break
			}
			cursors[tt.user+" "+tt.target] = next
			target = tt.target + "?limit=1&cursor=" + next
		}
		if len(seen) != tt.want {
			t.Errorf("%s: %d of %d", tt.target, len(seen), tt.want)
		}
	}
	for of, c := range cursors {
		for other := range maps.Keys(cursors) {
			user, target, _ := strings.Cut(other, " ")
			want := 422
			if other == of {
				want = 200
			}
			m.must(want, user, "GET", target+"?cursor="+c, "")
		}
	}
	m.must(422, "owner", "GET", "/v1/me/jobs?limit=0", "")
	m.must(422, "owner", "GET", "/v1/me/jobs?limit=201&page=2", "")
}

func TestMe(t *testing.T) {
	m := newMarket(t, nil)
	set := func(body string) object { t.Helper(); return m.must(200, "u", "PUT", "/v1/me/settings", body) }
	read := func() string {
		t.Helper()
		return strings.TrimSpace(m.call("u", "GET", "/v1/me/settings", "").Body.String())
	}
	if got := read(); got != "{}" {
		t.Errorf("nothing chosen: %s", got)
	}
	for _, tt := range [][2]string{
		{`{"language":"ko","channels":["webhook","push","push"]}`, `{"language":"ko","channels":["push","webhook"]}`},
		{`{"channels":[]}`, `{"channels":[]}`}, {`{}`, `{}`},
	} {
		if set(tt[0]); read() != tt[1] {
			t.Errorf("set %s, read %s", tt[0], read())
		}
	}
	m.must(422, "u", "PUT", "/v1/me/settings", `{"language":"","channels":["fax",7]}`)

	const token = "f%2Fx:APA91b+_-%20z" // a token is taken as it is, whatever it is made of
	m.must(204, "u", "PUT", "/v1/me/devices/"+token, "")
	list, err := m.engine.Devices(t.Context(), "u")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	m.must(204, "v", "DELETE", "/v1/me/devices/"+token, "")
	m.must(204, "v", "PUT", "/v1/me/devices/"+token, "")
	if list, err := m.engine.Devices(t.Context(), "u"); err != nil || len(list) != 0 {
		t.Errorf("a device that changed hands: %v %v", list, err)
	}
	m.must(204, "v", "DELETE", "/v1/me/devices/"+token, "")
	if list, err := m.engine.Devices(t.Context(), "v"); err != nil || len(list) != 0 {
		t.Errorf("a device that was removed: %v %v", list, err)
	}
	for i := range store.MaxPerUser {
		m.must(204, "many", "PUT", fmt.Sprint("/v1/me/devices/", i), "")
	}
	m.must(422, "many", "PUT", "/v1/me/devices/more", "")
	m.must(204, "many", "PUT", "/v1/me/devices/7", "")

	for _, u := range []string{"http://example.com/", "https://127.0.0.1/", "ftp://example.com/", "x", ""} {
		m.must(422, "u", "POST", "/v1/me/webhooks", fmt.Sprintf(`{"url":%q}`, u))
	}
	m.must(422, "u", "POST", "/v1/me/webhooks", `{"url":"https://example.com/","secret":"hunter2"}`)
	w := m.must(201, "u", "POST", "/v1/me/webhooks", `{"url":"https://example.com/h"}`)
	if s, _ := w["secret"].(string); !strings.HasPrefix(s, "whsec_") || len(s) < 30 {
		t.Errorf("%v", w)
	}
	hooks := m.must(200, "u", "GET", "/v1/me/webhooks", "")["webhooks"].([]any)
	if len(hooks) != 1 || hooks[0].(object)["id"] != w["id"] || hooks[0].(object)["secret"] != nil {
		t.Errorf("%v", hooks)
	}
	m.must(204, "v", "DELETE", "/v1/me/webhooks/"+w["id"].(string), "")
	if n := len(m.must(200, "u", "GET", "/v1/me/webhooks", "")["webhooks"].([]any)); n != 1 {
		t.Error("somebody else removed it")
	}
	m.must(204, "u", "DELETE", "/v1/me/webhooks/"+w["id"].(string), "")
	if n := len(m.must(200, "u", "GET", "/v1/me/webhooks", "")["webhooks"].([]any)); n != 0 {
		t.Error("it is still there")
	}
}

func TestAlerts(t *testing.T) {
	m := newMarket(t, func(d *api.Deps, _ *api.Options) { d.Limits = nil })
	for _, body := range []string{
		``, `{}`, `{"lat":91,"lng":0,"radius_m":5}`, `{"lat":1,"lng":1}`, `{"lat":1,"lng":1,"radius_m":0}`, `{"lat":1,"lng":1,"radius_m":100001}`,
		`{"lat":1,"lng":1,"radius_m":5,"colour":"red"}`, `{"lat":"1","lng":1,"radius_m":5}`, `{"lat":1,"lng":1,"radius_m":5,"min_pay":-1}`,
	} {
		if w := m.call("kim", "POST", "/v1/me/alerts", body, "Content-Type", "application/json"); w.Code != 422 && w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	a := m.must(201, "kim", "POST", "/v1/me/alerts", `{"lat":40.7143,"lng":-180,"radius_m":500,"categories":["Moving"],"min_pay":12.5,"employer":"Kenyon College"}`)
	if a["lng"] != 180.0 || a["min_pay"] != 12.5 || fmt.Sprint(a["categories"]) != "[moving]" {
		t.Errorf("%v", a)
	}
	m.must(204, "lee", "DELETE", "/v1/me/alerts/"+a["id"].(string), "")
	if list := m.must(200, "kim", "GET", "/v1/me/alerts", "")["alerts"].([]any); len(list) != 1 || list[0].(object)["id"] != a["id"] {
		t.Errorf("%v", list)
	}
	if list := m.must(200, "lee", "GET", "/v1/me/alerts", "")["alerts"].([]any); len(list) != 0 {
		t.Errorf("somebody else sees %v", list)
	}
	for range store.MaxAlerts - 1 {
		m.must(201, "kim", "POST", "/v1/me/alerts", `{"lat":1,"lng":1,"radius_m":5}`)
	}
	w := m.call("kim", "POST", "/v1/me/alerts", `{"lat":1,"lng":1,"radius_m":5}`)
	if w.Code != 409 || !strings.Contains(w.Body.String(), "You have 50 alerts") {
		t.Errorf("one alert too many: %d %s", w.Code, w.Body)
	}
	first := m.must(200, "kim", "GET", "/v1/me/alerts?limit=40", "")
	rest := m.must(200, "kim", "GET", "/v1/me/alerts?limit=40&cursor="+first["next_cursor"].(string), "")
	if n, more := len(first["alerts"].([]any)), len(rest["alerts"].([]any)); n != 40 || more != 10 || rest["next_cursor"] != nil {
		t.Errorf("pages of %d and %d", n, more)
	}
	m.must(204, "kim", "DELETE", "/v1/me/alerts/"+a["id"].(string), "")
	m.must(204, "kim", "DELETE", "/v1/me/alerts/"+a["id"].(string), "")
	m.must(201, "kim", "POST", "/v1/me/alerts", `{"lat":1,"lng":1,"radius_m":5}`)
}
