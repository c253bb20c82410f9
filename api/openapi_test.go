package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/store"
)

type object = map[string]any

func description(t *testing.T, h http.Handler) object {
	t.Helper()
	var spec object
	decode(t, get(h, "/openapi.json"), http.StatusOK, "application/json", &spec)
	return spec
}

// walk calls f for every object of a JSON document.
func walk(v any, path string, f func(path string, o object)) {
	switch v := v.(type) {
	case object:
		f(path, v)
		for k, x := range v {
			walk(x, path+"/"+k, f)
		}
	case []any:
		for i, x := range v {
			walk(x, fmt.Sprintf("%s/%d", path, i), f)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	h := server(t, nil)
	spec := description(t, h)
	if spec["openapi"] != "3.1.0" || spec["info"].(object)["title"] == "" || spec["info"].(object)["version"] == "" {
		t.Fatalf("not OpenAPI 3.1: %v", spec["openapi"])
	}
	schemas := spec["components"].(object)["schemas"].(object)
	walk(spec, "", func(path string, o object) {
		if ref, ok := o["$ref"].(string); ok {
			if _, ok := schemas[strings.TrimPrefix(ref, "#/components/schemas/")]; !ok {
				t.Errorf("%s: %s leads nowhere", path, ref)
			}
		}
		if _, ok := o["$schema"]; ok {
			t.Errorf("%s: has a $schema", path)
		}
	})
	if schemas["Problem"] == nil || schemas["ErrorModel"] != nil {
		t.Errorf("schemas of problems: Problem %v, ErrorModel %v", schemas["Problem"], schemas["ErrorModel"])
	}
	ids := map[any]bool{}
	paths := spec["paths"].(object)
	for path, item := range paths {
		op, ok := item.(object)["get"].(object)
		if !ok {
			t.Errorf("%s: no get", path)
			continue
		}
		id := op["operationId"]
		if id == nil || ids[id] || op["summary"] == nil || op["description"] == nil {
			t.Errorf("%s: operationId %v, summary %v", path, id, op["summary"])
		}
		ids[id] = true
		params, _ := op["parameters"].([]any)
		for _, p := range params {
			p := p.(object)
			schema := p["schema"].(object)
			if p["name"] == "" || p["description"] == nil || schema["type"] == nil {
				t.Errorf("%s: parameter %v lacks a description or type", path, p["name"])
			}
			if schema["examples"] == nil && schema["enum"] == nil && schema["type"] != "boolean" && p["name"] != "cursor" {
				t.Errorf("%s: parameter %v has no example", path, p["name"])
			}
			wantRequired := p["in"] == "path" || slices.Contains([]any{"lat", "lng", "west", "south", "east", "north"}, p["name"])
			if got := p["required"] == true; got != wantRequired {
				t.Errorf("%s: parameter %v required: %v", path, p["name"], got)
			}
			if strings.Contains(path, "{"+fmt.Sprint(p["name"])+"}") != (p["in"] == "path") {
				t.Errorf("%s: parameter %v is in %v", path, p["name"], p["in"])
			}
		}
		for status, r := range op["responses"].(object) {
			r := r.(object)
			want := "application/json"
			if status != "200" {
				want = "application/problem+json"
			}
			content, _ := r["content"].(object)
			if r["description"] == "" || content[want] == nil || content[want].(object)["schema"] == nil {
				t.Errorf("%s: response %s: %v", path, status, r)
			}
		}
	}
	for _, path := range []string{"/v1/jobs/nearby", "/v1/jobs/in-box", "/v1/jobs/{id}", "/v1/strategies", "/healthz", "/readyz"} {
		if paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	for _, p := range paths["/v1/jobs/nearby"].(object)["get"].(object)["parameters"].([]any) {
		if p := p.(object); p["name"] == "limit" {
			if s := p["schema"].(object); s["default"] != 20.0 || s["minimum"] != 1.0 || s["maximum"] != 200.0 {
				t.Errorf("limit: %v", s)
			}
		}
	}
	raw := get(h, "/openapi.json").Body.String()
	for _, u := range regexp.MustCompile(`https?://[^"]*`).FindAllString(raw, -1) {
		if !strings.HasPrefix(u, "https://example.com/") {
			t.Errorf("a URL of somewhere else: %s", u)
		}
	}
}

// TestAnswersAsDescribed holds real answers against their schemas.
func TestAnswersAsDescribed(t *testing.T) {
	h := server(t, func(_ *api.Deps, o *api.Options) { o.AllowExplain = true })
	spec := description(t, h)
	schemas := spec["components"].(object)["schemas"].(object)
	const query = "lat=0&lng=0&radius_m=2000&remote=include&explain=true"
	for _, tt := range []struct{ path, target, contentType string }{
		{"/v1/jobs/nearby", "/v1/jobs/nearby?" + query, "application/json"},
		{"/v1/jobs/nearby", "/v1/jobs/nearby?" + query, "application/geo+json"},
		{"/v1/jobs/in-box", "/v1/jobs/in-box?west=-75&south=40&east=-74&north=41&limit=3", "application/json"},
		{"/v1/jobs/{id}", "/v1/jobs/167", "application/json"},
		{"/v1/jobs/{id}", "/v1/jobs/170", "application/geo+json"},
		{"/v1/strategies", "/v1/strategies", "application/json"},
		{"/healthz", "/healthz", "application/json"},
		{"/v1/jobs/nearby", "/v1/jobs/nearby?a=1", "application/problem+json"},
		{"/v1/jobs/{id}", "/v1/jobs/12345", "application/problem+json"},
	} {
		w := get(h, tt.target, "Accept", tt.contentType)
		var v any
		decode(t, w, w.Code, tt.contentType, &v)
		responses := spec["paths"].(object)[tt.path].(object)["get"].(object)["responses"].(object)
		content := responses[fmt.Sprint(w.Code)].(object)["content"].(object)
		for _, fault := range mismatch(schemas, content[tt.contentType].(object)["schema"].(object), v, "") {
			t.Errorf("%s as %s: %s", tt.target, tt.contentType, fault)
		}
	}
}

// mismatch says where a value is not as a schema has it.
func mismatch(schemas, schema object, v any, at string) (faults []string) {
	if ref, ok := schema["$ref"].(string); ok {
		return mismatch(schemas, schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(object), v, at)
	}
	if any, ok := schema["oneOf"].([]any); ok {
		fits := 0
		for _, s := range any {
			if len(mismatch(schemas, s.(object), v, at)) == 0 {
				fits++
			}
		}
		if fits != 1 {
			return []string{fmt.Sprintf("%s: %v fits %d of the schemas", at, v, fits)}
		}
		return nil
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		faults = append(faults, fmt.Sprintf("%s: %v is not one of %v", at, v, enum))
	}
	types, ok := schema["type"].([]any)
	if !ok {
		if schema["type"] == nil {
			return faults // anything
		}
		types = []any{schema["type"]}
	}
	is := ""
	switch v := v.(type) {
	case nil:
		is = "null"
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		is = "number"
		if v == float64(int64(v)) && !slices.Contains(types, any("number")) {
			is = "integer"
		}
	case []any:
		is = "array"
		for i, x := range v {
			if items, ok := schema["items"].(object); ok {
				faults = append(faults, mismatch(schemas, items, x, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case object:
		is = "object"
		properties, _ := schema["properties"].(object)
		for name, x := range v {
			if s, ok := properties[name].(object); ok {
				faults = append(faults, mismatch(schemas, s, x, at+"."+name)...)
			} else {
				faults = append(faults, fmt.Sprintf("%s.%s is not described", at, name))
			}
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				faults = append(faults, fmt.Sprintf("%s.%s is missing", at, name))
			}
		}
	}
	if !slices.Contains(types, any(is)) {
		faults = append(faults, fmt.Sprintf("%s is %s, not %v", at, is, types))
	}
	return faults
}

// TestDescribedErrors brings about every error that the description has.
func TestDescribedErrors(t *testing.T) {
	failing := func(err error) http.Handler {
		return fakeAPI(fake{
			find:  func(context.Context, store.Query) (store.Page, error) { return store.Page{}, err },
			jobs:  func(context.Context, []store.ID) ([]store.Job, error) { return nil, err },
			ready: func(context.Context) error { return err },
		}, nil)
	}
	secret := errors.New("dial tcp 10.0.0.7: password is hunter2")
	targets := map[string]string{
		"/v1/jobs/nearby": "/v1/jobs/nearby?lat=1&lng=2", "/v1/jobs/in-box": "/v1/jobs/in-box?west=1&south=1&east=2&north=2",
		"/v1/jobs/{id}": "/v1/jobs/7", "/v1/strategies": "/v1/strategies", "/healthz": "/healthz", "/readyz": "/readyz",
	}
	produce := map[string]func(target string) *httptest.ResponseRecorder{
		"403": func(target string) *httptest.ResponseRecorder { return get(failing(nil), target+"&explain=true") },
		"404": func(target string) *httptest.ResponseRecorder { return get(failing(nil), target) },
		"422": func(target string) *httptest.ResponseRecorder {
			return get(failing(nil), strings.Replace(target+"?", "?", "?bad=1&", 1))
		},
		"500": func(target string) *httptest.ResponseRecorder { return get(failing(secret), target) },
		"503": func(target string) *httptest.ResponseRecorder {
			w := get(failing(fmt.Errorf("read: %w", store.ErrBusy)), target)
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: no Retry-After", target)
			}
			return w
		},
		"504": func(target string) *httptest.ResponseRecorder { return get(failing(store.ErrTimeout), target) },
	}
	seen := 0
	for path, item := range description(t, failing(nil))["paths"].(object) {
		for status := range item.(object)["get"].(object)["responses"].(object) {
			if status == "200" {
				continue
			}
			if produce[status] == nil {
				t.Errorf("%s: %s is described, but this test cannot bring it about", path, status)
				continue
			}
			w := produce[status](targets[path])
			if fmt.Sprint(w.Code) != status {
				t.Errorf("%s: want %s, got %d %s", path, status, w.Code, w.Body)
				continue
			}
			wantProblem(t, w, w.Code)
			if strings.Contains(w.Body.String(), "hunter2") {
				t.Errorf("%s: %s tells the cause: %s", path, status, w.Body)
			}
			seen++
		}
	}
	if seen < 15 {
		t.Errorf("only %d errors are described", seen)
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	wait := fake{find: func(ctx context.Context, _ store.Query) (store.Page, error) {
		<-ctx.Done()
		return store.Page{}, fmt.Errorf("search: %w", ctx.Err())
	}}
	h := fakeAPI(wait, func(_ *api.Deps, o *api.Options) { o.RequestTimeout = time.Millisecond })
	wantProblem(t, get(h, "/v1/jobs/nearby?lat=1&lng=2"), http.StatusGatewayTimeout)

	h = fakeAPI(wait, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet, "/v1/jobs/nearby?lat=1&lng=2").WithContext(ctx))
	wantProblem(t, w, 499)

	// Cancelled somewhere inside, while the client waits, is a fault of ours.
	h = fakeAPI(fake{find: func(context.Context, store.Query) (store.Page, error) {
		return store.Page{}, context.Canceled
	}}, nil)
	wantProblem(t, get(h, "/v1/jobs/nearby?lat=1&lng=2"), http.StatusInternalServerError)
}

func TestReady(t *testing.T) {
	h := fakeAPI(fake{ready: func(context.Context) error {
		return errors.New("the schema is at version 2, want 3: run nearjob migrate")
	}}, nil)
	if p := wantProblem(t, get(h, "/readyz"), http.StatusServiceUnavailable); !strings.Contains(p.Detail, "run nearjob migrate") {
		t.Errorf("no reason: %s", p.Detail)
	}
	if w := get(h, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}
	if w := get(server(t, nil), "/readyz"); w.Code != http.StatusOK {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	var p map[string]json.RawMessage
	decode(t, get(h, "/healthz"), http.StatusOK, "application/json", &p)
}
