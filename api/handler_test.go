package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/store"
)

func TestRouting(t *testing.T) {
	h := server(t, nil)
	do := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(method, path))
		return w
	}
	for _, path := range []string{"/v1", "/v1/jobs", "/v1/jobs/nearby/x", "/favicon.ico", "/docs/rapidoc/", "/docs/rapidoc/nothing", "/docs/rapidoc/..%2fdocs.html", "/metrics/x"} {
		wantProblem(t, do(http.MethodGet, path), http.StatusNotFound)
	}
	for _, path := range []string{"/", "/docs", "/openapi.json", "/metrics", "/healthz", "/readyz", "/v1/strategies", "/v1/jobs/1", "/v1/jobs/nearby"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "BREW"} {
			w := do(method, path)
			wantProblem(t, w, http.StatusMethodNotAllowed)
			if a := w.Header().Get("Allow"); a != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: Allow %q", method, path, a)
			}
		}
		w := do(http.MethodOptions, path)
		if a := w.Header().Get("Allow"); w.Code != http.StatusNoContent || a != "GET, HEAD, OPTIONS" {
			t.Errorf("OPTIONS %s: %d, Allow %q", path, w.Code, a)
		}
	}
	wantProblem(t, do(http.MethodOptions, "/nothing"), http.StatusNotFound)
	if w := do(http.MethodGet, "/"); w.Code != http.StatusFound || w.Header().Get("Location") != "/docs" {
		t.Errorf("/: %d to %q", w.Code, w.Header().Get("Location"))
	}
	if w := do(http.MethodHead, "/v1/jobs/nearby?lat=0&lng=0"); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	if w := get(h, "/v1/jobs/nearby?lat=0&lng=0"); w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Error("no nosniff")
	}
	big := request(http.MethodGet, "/v1/strategies")
	big.ContentLength = 1 << 20
	w := httptest.NewRecorder()
	h.ServeHTTP(w, big)
	wantProblem(t, w, http.StatusRequestEntityTooLarge)
}

func TestDocs(t *testing.T) {
	h := server(t, nil)
	w := get(h, "/docs")
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", w.Code, w.Header().Get("Content-Type"))
	}
	if regexp.MustCompile(`(?i)https?:|//|@import|url\(|<script>|onload`).MatchString(page) {
		t.Errorf("the page names something elsewhere, or has a script in it:\n%s", page)
	}
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy lacks %s: %s", want, csp)
		}
	}
	if strings.Contains(csp, "http") || strings.Contains(csp, "*") || strings.Contains(csp, "unsafe-eval") || strings.Contains(csp, "font-src") {
		t.Errorf("the policy is not strict: %s", csp)
	}
	if !strings.Contains(page, `load-fonts="false"`) {
		t.Error("RapiDoc would load fonts")
	}
	links := regexp.MustCompile(`(?:src|spec-url)="([^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(links) != 2 {
		t.Fatalf("links %q", links)
	}
	for _, l := range links {
		if w := get(h, "/"+l[1]); w.Code != http.StatusOK || w.Body.Len() < 1000 {
			t.Errorf("%s: %d, %d bytes", l[1], w.Code, w.Body.Len())
		}
	}
	for _, name := range []string{"LICENSE.txt", "rapidoc-min.js.LICENSE.txt"} {
		if w := get(h, "/docs/rapidoc/"+name); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "MIT") {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	tag := get(h, "/openapi.json").Header().Get("ETag")
	if w := get(h, "/openapi.json", "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified {
		t.Errorf("ETag %q: %d", tag, w.Code)
	}
}

// logLines reads what a JSON logger wrote.
func logLines(t *testing.T, b *bytes.Buffer) (lines []map[string]any) {
	t.Helper()
	for l := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		lines = append(lines, m)
	}
	return lines
}

func TestLogAndRequestID(t *testing.T) {
	var b bytes.Buffer
	h := server(t, func(d *api.Deps, _ *api.Options) { d.Log = slog.New(slog.NewJSONHandler(&b, nil)) })
	w := get(h, "/v1/jobs/nearby?lat=12.3456&lng=0&employer=topsecret", "X-Request-Id", "abc-1.2_3")
	if id := w.Header().Get("X-Request-Id"); id != "abc-1.2_3" {
		t.Errorf("request id %q", id)
	}
	lines := logLines(t, &b)
	if len(lines) != 1 {
		t.Fatalf("want one line: %v", lines)
	}
	l := lines[0]
	if l["msg"] != "request" || l["request_id"] != "abc-1.2_3" || l["method"] != "GET" || l["route"] != "/v1/jobs/nearby" ||
		l["status"] != 200.0 || l["bytes"] != float64(w.Body.Len()) || l["duration_ms"].(float64) <= 0 {
		t.Errorf("line %v", l)
	}
	if strings.Contains(b.String(), "topsecret") || strings.Contains(b.String(), "12.3456") {
		t.Errorf("the query is in the log: %s", &b)
	}
	ids := map[string]bool{}
	for _, bad := range []string{"", "two words", "a\nb", strings.Repeat("x", 65), "<script>", "é", `"`} {
		id := get(h, "/nothing", "X-Request-Id", bad).Header().Get("X-Request-Id")
		if id == bad || len(id) < 16 || ids[id] {
			t.Errorf("request id %q for %q", id, bad)
		}
		ids[id] = true
	}
	b.Reset()
	get(h, "/healthz")
	get(h, "/metrics")
	if b.Len() != 0 {
		t.Errorf("probes fill the log: %s", &b)
	}
}

func TestPanics(t *testing.T) {
	var b bytes.Buffer
	var next any
	h := fakeAPI(fake{find: func(context.Context, store.Query) (store.Page, error) { panic(next) }},
		func(d *api.Deps, _ *api.Options) { d.Log = slog.New(slog.NewJSONHandler(&b, nil)) })
	const target = "/v1/jobs/nearby?lat=0&lng=0"
	for _, next = range []any{"boom", fmt.Errorf("hunter2"), []int{1}} {
		b.Reset()
		w := get(h, target)
		p := wantProblem(t, w, http.StatusInternalServerError)
		if strings.Contains(w.Body.String(), "boom") || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("tells the cause: %s", w.Body)
		}
		lines := logLines(t, &b)
		if len(lines) != 2 || lines[0]["msg"] != "panic" || lines[0]["request_id"] != p.RequestID || lines[0]["panic"] != fmt.Sprint(next) ||
			!strings.Contains(lines[0]["stack"].(string), "handler_test.go") || lines[1]["status"] != 500.0 {
			t.Errorf("lines %v", lines)
		}
	}
	next = http.ErrAbortHandler
	b.Reset()
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("ErrAbortHandler came out as %v", p)
			}
		}()
		get(h, target)
	}()
	if lines := logLines(t, &b); len(lines) != 1 || lines[0]["aborted"] != true {
		t.Errorf("lines %v", lines)
	}
}

// TestErrorLog has the cause, under the id that the client sees.
func TestErrorLog(t *testing.T) {
	var b bytes.Buffer
	h := fakeAPI(fake{find: func(context.Context, store.Query) (store.Page, error) {
		return store.Page{}, fmt.Errorf("table is on fire")
	}}, func(d *api.Deps, _ *api.Options) { d.Log = slog.New(slog.NewJSONHandler(&b, nil)) })
	p := wantProblem(t, get(h, "/v1/jobs/nearby?lat=0&lng=0"), http.StatusInternalServerError)
	lines := logLines(t, &b)
	if len(lines) != 2 || lines[0]["error"] != "table is on fire" || lines[0]["request_id"] != p.RequestID {
		t.Errorf("lines %v", lines)
	}
}

func TestCORS(t *testing.T) {
	h := server(t, func(_ *api.Deps, o *api.Options) { o.CORSOrigins = []string{"https://map.example"} })
	const target = "/v1/jobs/nearby?lat=0&lng=0"
	w := get(h, target, "Origin", "https://map.example")
	if w.Header().Get("Access-Control-Allow-Origin") != "https://map.example" || !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Origin") {
		t.Errorf("headers %v", w.Header())
	}
	if w := get(h, target, "Origin", "https://evil.example"); w.Header().Get("Access-Control-Allow-Origin") != "" || w.Code != http.StatusOK {
		t.Errorf("another origin: %d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodOptions, target, "Origin", "https://map.example", "Access-Control-Request-Method", "GET"))
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Methods") != "GET, HEAD" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	if w := get(server(t, nil), target, "Origin", "https://map.example"); w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("allowed without being told to")
	}
	all := server(t, func(_ *api.Deps, o *api.Options) { o.CORSOrigins = []string{"*"} })
	if w := get(all, target, "Origin", "https://x.example"); w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("headers %v", w.Header())
	}
}

func TestMetrics(t *testing.T) {
	pool := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_pool_open", Help: "Test."})
	pool.Set(7)
	h := server(t, func(d *api.Deps, _ *api.Options) { d.Collectors = []prometheus.Collector{pool} })
	for i := range 50 {
		find(t, h, fmt.Sprintf("/v1/jobs/nearby?lat=%d&lng=0&strategy=s2", i))
		get(h, fmt.Sprintf("/v1/jobs/%d", i+1))
		get(h, fmt.Sprintf("/nothing/%d", i))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(fmt.Sprintf("M%d", i), "/v1/strategies"))
		wantProblem(t, w, http.StatusMethodNotAllowed)
	}
	text := get(h, "/metrics").Body.String()
	for _, want := range []string{
		`nearjob_http_request_duration_seconds_count{method="GET",route="/v1/jobs/nearby",status="200"} 50`,
		`nearjob_http_request_duration_seconds_count{method="GET",route="/v1/jobs/{id}",status="200"} 50`,
		`nearjob_http_request_duration_seconds_count{method="GET",route="none",status="404"} 50`,
		`nearjob_http_request_duration_seconds_count{method="other",route="none",status="405"} 50`,
		`nearjob_searches_total{strategy="s2"} 50`,
		`nearjob_search_candidates_total{strategy="s2"} `,
		`nearjob_search_rounds_total{strategy="s2"} `,
		`nearjob_search_statements_total{strategy="s2"} `,
		`nearjob_http_requests_in_flight 1`, // this one
		`test_pool_open 7`,
		`go_goroutines `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	series := strings.Count(text, "nearjob_http_request_duration_seconds_count{")
	if series != 4 {
		t.Errorf("%d series for 4 kinds of request", series)
	}
}
