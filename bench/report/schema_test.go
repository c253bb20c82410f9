package report

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSchema compares SCHEMA.md with the types that report.json is written from,
// both ways: each field is described, and nothing is described that is not there.
func TestSchema(t *testing.T) {
	b, err := os.ReadFile("SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	described := make(map[string]map[string]string) // type, field, kind
	heading := regexp.MustCompile("^## .*\\(`([a-zA-Z.]+)`\\)$")
	row := regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| ([a-z ]+) \\| (.*)\\|$")
	var now string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if m := heading.FindStringSubmatch(line); m != nil {
			now = m[1]
			described[now] = make(map[string]string)
		} else if m := row.FindStringSubmatch(line); m != nil {
			described[now][m[1]] = m[2]
			if optional := strings.HasPrefix(m[3], "optional"); optional != omitted(now, m[1]) {
				t.Errorf("%s, %s: \"optional\" is said: %v, but the field can be missing: %v", now, m[1], optional, !optional)
			}
		}
	}
	types := documentTypes()
	if len(types) < 20 {
		t.Fatalf("%d types: the walk over them ends too early", len(types))
	}
	for name, typ := range types {
		fields := described[name]
		if fields == nil {
			t.Errorf("SCHEMA.md has no section for %s", name)
			continue
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Anonymous {
				continue
			}
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if field == "" || field == "-" {
				t.Errorf("%s.%s has no name in JSON", name, f.Name)
				continue
			}
			if kind, ok := fields[field]; !ok {
				t.Errorf("SCHEMA.md does not describe %s of %s", field, name)
			} else if want := kindOf(f.Type); !strings.HasPrefix(kind, want) {
				t.Errorf("SCHEMA.md calls %s of %s %q, it is a %s", field, name, kind, want)
			}
			delete(fields, field)
		}
		for field := range fields {
			t.Errorf("SCHEMA.md describes %s of %s, which is not there", field, name)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("SCHEMA.md describes %s, which is not in report.json", name)
	}
}

// documentTypes are the structs below document by their names.
func documentTypes() map[string]reflect.Type {
	types := make(map[string]reflect.Type)
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if strings.HasPrefix(t.PkgPath(), "github.com/nearjob/") && types[t.String()] == nil {
				types[t.String()] = t
				for i := range t.NumField() {
					walk(t.Field(i).Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[document]())
	return types
}

func omitted(name, field string) bool {
	t := documentTypes()[name]
	if t == nil {
		return false
	}
	for i := range t.NumField() {
		if parts := strings.Split(t.Field(i).Tag.Get("json"), ","); parts[0] == field {
			return slices.Contains(parts[1:], "omitempty")
		}
	}
	return false
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t.String() == "time.Time":
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		if e := kindOf(t.Elem()); e == "string" || e == "number" || e == "list" {
			return "list of " + e + "s"
		}
		return "list"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	}
	return "number"
}

// TestSchemaExamples runs the commands of SCHEMA.md. Without jq, which is no part
// of Nearjob, it is left out.
func TestSchemaExamples(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("no jq on the PATH: its examples in SCHEMA.md are not run")
	}
	b, err := os.ReadFile("SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Write(dir, fixture(t)); err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`(?s)    jq (-\w) '([^']*)' report\.json`).FindAllStringSubmatch(string(b), -1)
	if len(examples) < 4 {
		t.Fatalf("%d examples in SCHEMA.md", len(examples))
	}
	for _, e := range examples {
		// The fixture is smaller than the run that the examples speak of.
		program := strings.ReplaceAll(e[2], "200000", "5000")
		out, err := exec.CommandContext(t.Context(), jq, e[1], program, filepath.Join(dir, JSONFile)).CombinedOutput()
		if err != nil && e[1] != "-e" || len(out) == 0 {
			t.Errorf("jq %s '%s': %v\n%s", e[1], program, err, out)
		}
	}
}
