package lab

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// traces returns the captured optimizer traces by name. Those of MySQL 9.7.4 are as the
// server printed them, of statements of store/mysql over some thousand rows, and of
// a few that a search does not send.
func traces(tb testing.TB) map[string][]byte {
	tb.Helper()
	paths, err := filepath.Glob("testdata/trace/*.json")
	if err != nil || len(paths) < 10 {
		tb.Fatalf("%d traces, %v", len(paths), err)
	}
	all := make(map[string][]byte)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(p), ".json")] = b
	}
	return all
}

// TestParseTraceGolden keeps everything that is read from the captures.
func TestParseTraceGolden(t *testing.T) {
	got := make(map[string]any)
	for name, b := range traces(t) {
		parsed, err := ParseTrace(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got[name] = parsed
	}
	b, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	const golden = "testdata/trace.golden"
	if *update {
		if err := os.WriteFile(golden, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != string(want) {
		t.Errorf("the traces read otherwise than in %s (go test -run Golden -update writes it anew):\n%s", golden, b)
	}
}

// TestParseTrace checks against what was read in the captures by eye.
func TestParseTrace(t *testing.T) {
	all := traces(t)
	for _, tc := range []struct {
		name       string
		scanRows   float64
		scanCost   float64
		chosen     string
		chosenCost float64
		index      string // an alternative
		usable     bool
		ranges     int
		rows, cost float64
		covering   bool
		taken      bool
		cause      string // of the alternative
		why        string // part of the trace's cause
	}{
		{"range", 4936, 519.95, "range on lat_lng", 153.429, "lat_lng", true, 1, 732, 80.2285, true, true, "",
			"lat_lng: 732 rows at cost 80.2 against 520 for the scan of 4,936 rows, so the range was chosen"},
		{"rtree", 4936, 519.95, "range on pt", 26.81, "pt", true, 1, 59, 20.91, false, true, "",
			"the R-tree's estimate comes from its root page alone: 59 rows guessed"},
		{"rtree_refused", 4765, 502.85, "table scan", 500.75, "pt", true, 1, 4765, 1668.01, false, false, "cost",
			"834 for 2,382 rows by lat_lng and 1,668 for 4,765 rows by pt, so the table is scanned"},
		{"scan", 4936, 519.95, "table scan", 517.85, "lat_lng", false, 0, 0, 0, false, false, "no_valid_range_for_this_index",
			"no index has a range for these conditions"},
		{"skip_scan", 4765, 502.85, "skip scan on lat_lng", 414.544, "pt", false, 0, 0, 0, false, false, "not_applicable",
			"few different values lead the index"},
		{"ranges", 4936, 519.95, "range on PRIMARY", 18.1314, "PRIMARY", true, 21, 64, 11.7314, false, true, "", "64 rows at cost 11.7"},
		{"window", 4936, 519.95, "range on PRIMARY", 7.70129, "PRIMARY", true, 1, 37, 4.00129, false, true, "", "SELECT 2: PRIMARY: 39 rows at cost 4.2 "},
		{"order", 2902, 316.55, "index scan on PRIMARY", 314.45, "lat_lng", true, 1, 1451, 508.11, false, false, "cost", "the rows come sorted from PRIMARY"},
		{"ref", 2902, 316.55, "ref on lat_lng", 0.35, "h3", true, 1, 1, 0.61, false, false, "cost", "ref on lat_lng was chosen at cost 0.35"},
		{"union", 2902, 316.55, "range on pt", 0.71, "pt", true, 1, 1, 0.61, false, true, "", "1 row guessed; SELECT 2: pt: 1 row at cost 0.61"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseTrace(all[tc.name])
			if err != nil {
				t.Fatal(err)
			}
			if got.ScanRows != tc.scanRows || got.ScanCost != tc.scanCost || got.Chosen != tc.chosen || got.ChosenCost != tc.chosenCost {
				t.Errorf("scan %v at %v, chosen %q at %v; want %v at %v, %q at %v",
					got.ScanRows, got.ScanCost, got.Chosen, got.ChosenCost, tc.scanRows, tc.scanCost, tc.chosen, tc.chosenCost)
			}
			if !strings.Contains(got.Cause, tc.why) {
				t.Errorf("the cause %q does not say %q", got.Cause, tc.why)
			}
			for _, a := range got.Alternatives {
				if a.Index != tc.index {
					continue
				}
				if a.Usable != tc.usable || a.Ranges != tc.ranges || a.Rows != tc.rows || a.Cost != tc.cost ||
					a.IndexOnly != tc.covering || a.Chosen != tc.taken || a.Cause != tc.cause {
					t.Errorf("alternative %+v", a)
				}
				return
			}
			t.Errorf("no alternative %s in %+v", tc.index, got.Alternatives)
		})
	}
}

// TestParseTraceGuess: without dives the cause says that rows are guessed.
func TestParseTraceGuess(t *testing.T) {
	b := traces(t)["ranges"]
	mended := strings.Replace(string(b), `"index_dives_for_eq_ranges": true`, `"index_dives_for_eq_ranges": false`, 1)
	if mended == string(b) {
		t.Fatal("the capture has no dives")
	}
	got, err := ParseTrace([]byte(mended))
	if err != nil || got.Alternatives[0].Dives || !strings.Contains(got.Cause, "guessed from its statistics") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseTraceFaults(t *testing.T) {
	deep := strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)
	for name, tc := range map[string][2]string{
		"empty":      {"", "EOF"},
		"cut":        {string(traces(t)["range"][:3000]), "unexpected EOF"},
		"other":      {`{"steps": [{"join_execution": {}}]}`, "no join_optimization"},
		"deep":       {deep, "deeper than"},
		"not object": {`[1, null, "x"]`, "no join_optimization"},
	} {
		if got, err := ParseTrace([]byte(tc[0])); err == nil || !strings.Contains(err.Error(), tc[1]) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestMend: the plan tells what the trace leaves out.
func TestMend(t *testing.T) {
	const covering = "-> Filter: (open_job.expires > 1)  (cost=518 rows=4936)\n    -> Covering index scan on open_job using lat_lng  (cost=518 rows=4936)\n"
	const rtree = "-> Index range scan on open_job using pt over (pt unprintable_geometry_value)  (cost=7.44..7.44 rows=1)\n"
	const whole = "-> Table scan on open_job  (cost=518 rows=4936)\n"
	for _, tc := range []struct{ trace, tree, want, cause string }{
		{"scan", covering, "index scan on lat_lng", "the whole index lat_lng is read"},
		{"scan", whole, "table scan", "no index has a range"},
		{"scan", "no plan at all", "table scan", "no index has a range"},
		{"range", covering, "range on lat_lng", "so the range was chosen"},
		{"hypergraph", rtree, "range on pt", "hypergraph"},
		{"const", "-> Zero rows (no matching row in const table)  (cost=0..0 rows=0)\n", "", "nothing to choose"},
	} {
		got, err := ParseTrace(traces(t)[tc.trace])
		if err != nil {
			t.Fatal(err)
		}
		mend(got, tc.tree)
		if got.Chosen != tc.want || !strings.Contains(got.Cause, tc.cause) {
			t.Errorf("%s: %q because %q", tc.trace, got.Chosen, got.Cause)
		}
	}
}

// FuzzParseTrace:
//
//	go test -fuzz ParseTrace ./bench/lab
func FuzzParseTrace(f *testing.F) {
	for _, b := range traces(f) {
		f.Add(b)
	}
	f.Add([]byte(`{"join_optimization": {"select#": 1e999, "steps": [{"rows_estimation": [{"range_analysis": {"table_scan": {"rows": -5}}}]}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseTrace(b)
		if (got == nil) == (err == nil) {
			t.Fatalf("%+v, %v", got, err)
		}
		if err != nil {
			return
		}
		if got.Cause == "" {
			t.Error("no cause")
		}
		// It goes into a report, where nothing may be infinite.
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
		again, err := ParseTrace(b)
		if err != nil || again.Cause != got.Cause || !slices.Equal(again.Alternatives, got.Alternatives) {
			t.Errorf("read twice: %+v and %+v, %v", got, again, err)
		}
	})
}
