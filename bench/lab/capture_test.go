package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/result"
)

// TestConditions: every field makes another capture, and a difference in it is told.
func TestConditions(t *testing.T) {
	base := conditions{Server: "9.7"}
	if d := base.differs(base); d != "" {
		t.Errorf("equal conditions differ in %q", d)
	}
	v := reflect.TypeFor[conditions]()
	if v.NumField() < 10 {
		t.Fatalf("%d fields", v.NumField())
	}
	for i := range v.NumField() {
		c := base
		f := reflect.ValueOf(&c).Elem().Field(i)
		switch f.Kind() {
		case reflect.Int:
			f.SetInt(7)
		case reflect.Float64:
			f.SetFloat(7)
		case reflect.String:
			f.SetString("other")
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("%s is a %s: teach this test", v.Field(i).Name, f.Kind())
		}
		if base.differs(c) == "" {
			t.Errorf("a difference in %s is not told", v.Field(i).Name)
		}
	}
}

// TestEnvironmentHashes: whatever shapes plans is in one of the hashes.
func TestEnvironmentHashes(t *testing.T) {
	base := func() *environment {
		return &environment{Settings: result.Settings{Server: "a", Machine: "m", Variables: map[string]string{"x": "1", "y": "2"}},
			Tables: map[string]string{"t": "ddl"}, Migration: 3}
	}
	same := base()
	if same.settingsHash() != base().settingsHash() || same.tablesHash() != base().tablesHash() {
		t.Fatal("equal environments have other hashes")
	}
	for name, change := range map[string]func(e *environment){
		"server":    func(e *environment) { e.Settings.Server = "b" },
		"machine":   func(e *environment) { e.Settings.Machine = "b" },
		"container": func(e *environment) { e.Settings.Container = true },
		"warm":      func(e *environment) { e.Settings.Warm = true },
		"value":     func(e *environment) { e.Settings.Variables["x"] = "9" },
		"variable":  func(e *environment) { e.Settings.Variables["z"] = "" },
		"table":     func(e *environment) { e.Tables["t"] = "other" },
		"migration": func(e *environment) { e.Migration++ },
	} {
		e := base()
		change(e)
		if e.settingsHash() == base().settingsHash() && e.tablesHash() == base().tablesHash() {
			t.Errorf("%s is in no hash", name)
		}
	}
}

func TestCaptures(t *testing.T) {
	out := t.TempDir()
	c, err := openCaptures(out)
	if err != nil {
		t.Fatal(err)
	}
	cond := conditions{Server: "9.7", Rows: 5}
	if f, err := c.find("a", cond); f != nil || err != nil {
		t.Errorf("nothing is there: %v, %v", f, err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := c.write(key, &capture{Conditions: cond, Sum: &result.Sum{Rows: 5, DataMB: 1.25}}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := c.find("a", cond)
	if err != nil || f == nil || f.Sum == nil || *f.Sum != (result.Sum{Rows: 5, DataMB: 1.25}) {
		t.Errorf("read back: %+v, %v", f, err)
	}
	if w := c.warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	// Two do not fit for one reason, one is damaged.
	other := cond
	other.Server = "8.4"
	for _, key := range []string{"a", "b"} {
		if f, err := c.find(key, other); f != nil || err != nil {
			t.Errorf("%s of another server: %v, %v", key, f, err)
		}
	}
	if err := os.WriteFile(c.path("c"), []byte(`{"conditions": {`), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := c.find("c", cond); f != nil || err != nil {
		t.Errorf("a damaged file: %v, %v", f, err)
	}
	w := strings.Join(c.warnings(), "\n")
	for _, want := range []string{filepath.Join("captures", "a.json") + " and 1 other captures", "the server", "damaged", "measured again"} {
		if !strings.Contains(w, want) {
			t.Errorf("the warnings %q do not say %q", w, want)
		}
	}
	// Nothing else is left in the folder.
	entries, err := os.ReadDir(filepath.Join(out, capturesDir))
	if err != nil || len(entries) != 3 {
		t.Errorf("%d files, %v: want 3", len(entries), err)
	}
	// A value that cannot be written leaves what was there.
	before, err := os.ReadFile(c.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.write("a", &capture{Traces: []json.RawMessage{json.RawMessage("{")}}); err == nil {
		t.Error("JSON that is not is written")
	}
	if after, err := os.ReadFile(c.path("a")); err != nil || string(after) != string(before) {
		t.Errorf("a failed write changed the file: %v", err)
	}
	if none, err := openCaptures(""); err != nil || none.write("a", &capture{}) != nil {
		t.Errorf("no folder: %v", err)
	}
	if _, err := openCaptures(c.path("a")); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// TestTrimmed: what is long is cut in the copy alone, with a word about the rest.
func TestTrimmed(t *testing.T) {
	long := strings.Repeat("한", maxText) // three bytes each, so that the cut is inside one
	args := slices.Repeat([]string{"12345"}, maxText)
	whole := result.Statement{SQL: long, Tree: long, Args: args, JSON: json.RawMessage(`"` + long + `"`)}
	short := result.Statement{SQL: "SELECT 1", Tree: "-> Rows", Args: []string{"1"}, JSON: json.RawMessage("{ \"a\": [ 1 ] }")}
	c := result.Case{Free: result.Side{Statements: []result.Statement{whole, short}}, Forced: &result.Side{Statements: []result.Statement{whole}}}
	got := trimmed(&c, "the whole is elsewhere")
	for _, s := range []result.Statement{got.Free.Statements[0], got.Forced.Statements[0]} {
		for _, text := range []string{s.SQL, s.Tree, s.Args[len(s.Args)-1]} {
			if !strings.Contains(text, "the whole is elsewhere") || len(text) > maxText+200 || strings.ContainsRune(text, '\uFFFD') {
				t.Errorf("%d bytes, ends in %q", len(text), text[max(0, len(text)-100):])
			}
		}
		if s.JSON != nil || len(s.Args) > maxText/5+1 {
			t.Errorf("JSON of %d bytes, %d arguments", len(s.JSON), len(s.Args))
		}
	}
	if s := got.Free.Statements[1]; s.SQL != short.SQL || s.Tree != short.Tree || !slices.Equal(s.Args, short.Args) || string(s.JSON) != `{"a":[1]}` {
		t.Errorf("a short statement became %+v", s)
	}
	if c.Free.Statements[0].Tree != long || c.Forced.Statements[0].JSON == nil || len(c.Free.Statements[0].Args) != maxText {
		t.Error("the case itself was cut")
	}
}
