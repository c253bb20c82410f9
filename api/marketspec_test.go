package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/api"
)

// TestMarketOpenAPI: every operation is described whole. That answers are as they
// are described, every test of a market sees.
func TestMarketOpenAPI(t *testing.T) {
	m := newMarket(t, nil)
	schemas := m.spec["components"].(object)["schemas"].(object)
	walk(m.spec, "", func(path string, o object) {
		if ref, ok := o["$ref"].(string); ok && schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			t.Errorf("%s: %s leads nowhere", path, ref)
		}
	})
	scheme := m.spec["components"].(object)["securitySchemes"].(object)["bearer"].(object)
	if scheme["type"] != "http" || scheme["scheme"] != "bearer" {
		t.Errorf("%v", scheme)
	}
	ids, n := map[any]bool{}, 0
	for path, item := range m.spec["paths"].(object) {
		for method, o := range item.(object) {
			op, at := o.(object), method+" "+path
			n++
			if op["operationId"] == nil || ids[op["operationId"]] || op["summary"] == nil || op["description"] == nil || op["tags"] == nil {
				t.Errorf("%s: %v", at, op)
			}
			ids[op["operationId"]] = true
			if strings.HasPrefix(path, "/v1/") {
				security, _ := op["security"].([]any)
				optional := strings.HasPrefix(path, "/v1/strategies") || strings.HasSuffix(path, "/nearby") || strings.HasSuffix(path, "/in-box") || at == "get /v1/jobs/{id}"
				if len(security) == 0 || (len(security) == 2) != optional {
					t.Errorf("%s: security %v", at, security)
				}
				for _, status := range []string{"401", "422", "429", "503"} {
					if op["responses"].(object)[status] == nil {
						t.Errorf("%s: no %s", at, status)
					}
				}
			}
			names := map[any]bool{}
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				p := p.(object)
				if names[p["name"]] = true; p["description"] == nil || p["schema"] == nil {
					t.Errorf("%s: %v", at, p)
				}
			}
			if (method == "post") != names["Idempotency-Key"] {
				t.Errorf("%s: Idempotency-Key", at)
			}
			if body, ok := op["requestBody"].(object); ok {
				for kind, media := range body["content"].(object) {
					if (kind == "application/merge-patch+json") != (method == "patch") || media.(object)["schema"] == nil {
						t.Errorf("%s: %s", at, kind)
					}
				}
			} else if method == "patch" {
				t.Errorf("%s: no body", at)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d operations", n)
	}
	patch := schemas["JobPatch"].(object)
	if patch["required"] != nil || !reflect.DeepEqual(patch["properties"].(object)["employer"].(object)["type"], []any{"string", "null"}) {
		t.Errorf("the patch: %v", patch)
	}
}

// example is what a schema's examples make.
func example(schemas, schema object) any {
	if ref, ok := schema["$ref"].(string); ok {
		return example(schemas, schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(object))
	}
	if list, ok := schema["examples"].([]any); ok {
		return list[0]
	}
	properties, _ := schema["properties"].(object)
	out := object{}
	for name, p := range properties {
		out[name] = example(schemas, p.(object))
	}
	return out
}

// TestExamples sends every body that the description shows.
func TestExamples(t *testing.T) {
	m := newMarket(t, nil)
	schemas := m.spec["components"].(object)["schemas"].(object)
	sent := 0
	for path, item := range m.spec["paths"].(object) {
		for method, op := range item.(object) {
			body, ok := op.(object)["requestBody"].(object)
			if !ok {
				continue
			}
			var content object
			for _, media := range body["content"].(object) {
				content = media.(object)["schema"].(object)
			}
			if content["$ref"] == "#/components/schemas/JobPatch" {
				content = object{"$ref": "#/components/schemas/JobInput"}
			}
			text, err := json.Marshal(example(schemas, content))
			if err != nil || len(text) < 5 {
				t.Fatalf("%s: %s %v", path, text, err)
			}
			state := map[string]string{
				"start": "matched", "finish": "started", "confirm": "finished", "rework": "finished", "reject": "finished", "resign": "finished",
			}[path[strings.LastIndex(path, "/")+1:]]
			if state == "" {
				state = "open"
			}
			job, application := m.stage(state)
			target := strings.Replace(path, "/v1/jobs/{id}/applications/{application}", application, 1)
			target = strings.Replace(target, "/v1/jobs/{id}", job, 1)
			user := "requester"
			switch path[strings.LastIndex(path, "/")+1:] {
			case "withdraw", "start", "finish", "resign":
				user = "worker"
			case "applications":
				user = "somebody"
			}
			var header []string
			if method == "patch" {
				header = []string{"If-Match", "*"}
			}
			if w := m.call(user, strings.ToUpper(method), target, string(text), header...); w.Code >= 300 {
				t.Errorf("%s %s %s: %d %s", method, path, text, w.Code, w.Body)
			}
			sent++
		}
	}
	if sent < 10 {
		t.Errorf("only %d bodies", sent)
	}
}

// TestMergePatch has the examples of RFC 7396, appendix A, that are objects.
func TestMergePatch(t *testing.T) {
	for _, tt := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var target, patch, want any
		for i, v := range []any{&target, &patch, &want} {
			if err := json.Unmarshal([]byte(tt[i]), v); err != nil {
				t.Fatal(err)
			}
		}
		before := fmt.Sprint(target)
		if got := api.MergePatch(target, patch); !reflect.DeepEqual(got, want) {
			t.Errorf("%s with %s: %v, want %s", tt[0], tt[1], got, tt[2])
		}
		if fmt.Sprint(target) != before {
			t.Errorf("%s was changed in place", tt[0])
		}
	}
}

// FuzzBody: whatever is sent is read or refused, and what was read as a job is
// read alike when it is written again.
// go test -fuzz=FuzzBody ./api
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		sofa, "{}", "[]", "null", "", "{", `{"title":"\ud800"}`, `{"a":1,"a":2}`, `{"title":"x","lat":1e-5,"lng":-0,"pay":{"amount":1e2}}`,
		`{"title":"x","remote":true,"expires":"2026-01-31T12:00:00.5+09:00","url":"https://example.com/"}`, strings.Repeat("[", 50), "\xff",
	} {
		f.Add(s)
	}
	read := func(s string) (map[string]any, error) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body = io.NopCloser(strings.NewReader(s))
		r.Header.Set("Content-Type", "application/json")
		return api.ReadBody(r, false)
	}
	f.Fuzz(func(t *testing.T, s string) {
		job, err := read(s)
		if err != nil {
			return
		}
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		again, err := read(string(text))
		if err != nil || !reflect.DeepEqual(job, again) {
			t.Errorf("%s\nfirst %v\nthen  %v %v", text, job, again, err)
		}
	})
}

// FuzzCursor: no cursor panics, and only those of a list are taken for it.
// go test -fuzz=FuzzCursor ./api
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "AAAAAAAAAAcAAAAA", api.NewCursor("a", "b", 7), api.NewCursor("a", "b", 1<<62)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, ok := api.ParseCursor("a", "b", s)
		if ok && (key <= 0 || api.NewCursor("a", "b", key) != s) {
			t.Errorf("%q is read as %d", s, key)
		}
	})
}
