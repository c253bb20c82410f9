package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/testdata/testdb"
)

const blurSecret = "the places of the tests"

// shown is where and how a job is shown.
type shown struct {
	at          geo.LatLng
	approximate bool
}

func place(job map[string]any) shown {
	s := shown{at: geo.LatLng{Lat: job["lat"].(float64), Lng: job["lng"].(float64)}}
	s.approximate, _ = job["approximate"].(bool)
	return s
}

// TestBlur hides where jobs are in a database that shows it already, looks at it as
// everybody does, and takes it back.
func TestBlur(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testBlur(t, tempDB(t)) })
	t.Run("mysql", func(t *testing.T) { testBlur(t, testdb.MySQL(t)) })
}

func testBlur(t *testing.T, db string) {
	exact := shown{at: geo.LatLng{Lat: 40.7143, Lng: -74.006}}
	serve := []string{"serve", "--db", db, "--jwt-secret", testSecret}
	plain := start(t, serve...)
	before := "/v1/jobs/" + plain.mustAs(t, "ann", http.MethodPost, "/v1/jobs", `{"title":"Carry a sofa","lat":40.7143,"lng":-74.006}`)["id"].(string)
	if got := place(plain.mustAs(t, "kim", http.MethodGet, before, "")); got != exact {
		t.Errorf("without a blur the job is at %v", got)
	}
	plain.stop()

	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(blurSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := append(serve, "--blur-m", "600", "--blur-secret-file", file)
	refused := func(says string, args ...string) {
		t.Helper()
		code, _, errs := call(t, "", append(args, "--addr", "127.0.0.1:0")...)
		if code != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, says) || strings.Contains(errs, blurSecret) {
			t.Errorf("%q: exit code %d, %q", args, code, errs)
		}
	}
	refused("this program is to blur them", hidden...)
	out := must(t, "", "migrate", "--db", db, "--blur-m", "600", "--blur-secret", blurSecret)
	if !strings.Contains(out, "blurred by up to 600 m") {
		t.Errorf("migrate: %s", out)
	}
	refused("this program would show where the jobs are", serve...)
	refused("another radius or secret", append(serve, "--blur-m", "500", "--blur-secret", blurSecret)...)

	s := start(t, hidden...)
	after := "/v1/jobs/" + s.mustAs(t, "ann", http.MethodPost, "/v1/jobs", `{"title":"Carry a bed","lat":40.7143,"lng":-74.006}`)["id"].(string)
	at := place(s.mustAs(t, "kim", http.MethodGet, before, ""))
	if d := geo.NewOrigin(exact.at).Distance(at.at); !at.approximate || d == 0 || d > 600 {
		t.Errorf("kim sees the job at %v, %v m from where it is", at, d)
	}
	for _, job := range []string{before, after} {
		if got := place(s.mustAs(t, "kim", http.MethodGet, job, "")); got != at {
			t.Errorf("kim sees one job of the place at %v, another at %v", at, got)
		}
		if got := place(s.mustAs(t, "ann", http.MethodGet, job, "")); got != exact {
			t.Errorf("ann sees her job at %v", got)
		}
	}
	// Search measures from the place that it shows.
	found := s.mustAs(t, "kim", http.MethodGet, "/v1/jobs/nearby?lat=40.7143&lng=-74.006", "")["jobs"].([]any)
	if len(found) != 2 {
		t.Fatalf("%d jobs are found", len(found))
	}
	for _, f := range found {
		job := f.(map[string]any)
		if d := geo.NewOrigin(exact.at).Distance(at.at); place(job) != at || job["distance_m"] != d {
			t.Errorf("a search has %v, want it at %v, %v m away", job, at, d)
		}
	}
	application := after + "/applications/" + s.mustAs(t, "kim", http.MethodPost, after+"/applications", "")["id"].(string)
	if got := place(s.mustAs(t, "kim", http.MethodGet, after, "")); got != at {
		t.Errorf("an applicant sees the job at %v", got)
	}
	s.mustAs(t, "ann", http.MethodPost, application+"/accept", "")
	if got := place(s.mustAs(t, "kim", http.MethodGet, after, "")); got != exact {
		t.Errorf("the accepted worker sees the job at %v", got)
	}
	if s.stop(); strings.Contains(s.log.String(), blurSecret) {
		t.Error("the log shows the secret")
	}

	// A forgotten setting takes nothing off; a given one does.
	if out := must(t, "", "migrate", "--db", db); strings.Contains(out, "places") {
		t.Errorf("migrate: %s", out)
	}
	refused("would show where", serve...)
	if out := must(t, "", "migrate", "--db", db, "--blur-m", "0"); !strings.Contains(out, "not blurred") {
		t.Errorf("migrate: %s", out)
	}
	plain = start(t, serve...)
	if got := place(plain.mustAs(t, "kim", http.MethodGet, before, "")); got != exact {
		t.Errorf("without a blur again the job is at %v", got)
	}
}

func TestBlurWrongUse(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"at least 16", []string{"--blur-m", "500"}},
		{"at least 16", []string{"--blur-m", "500", "--blur-secret", "short"}},
		{"5 is not 10..100000 metres", []string{"--blur-m", "5", "--blur-secret", blurSecret}},
		{"NaN is not", []string{"--blur-m", "NaN", "--blur-secret", blurSecret}},
		{"-1 is not", []string{"--blur-m=-1", "--blur-secret", blurSecret}},
		{"without --blur-m", []string{"--blur-secret", blurSecret}},
		{"NEARJOB_BLUR_SECRET", []string{"--blur-m", "500", "--blur-secret", blurSecret, "--blur-secret-file", empty}},
		{"is empty", []string{"--blur-m", "500", "--blur-secret-file", empty}},
	} {
		code, _, errs := call(t, "", append([]string{"doctor", "--db", tempDB(t)}, c.args...)...)
		if code != 2 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) || strings.Contains(errs, blurSecret) {
			t.Errorf("%q: exit code %d, %q", c.args, code, errs)
		}
	}
}
