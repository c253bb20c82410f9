package digest_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/report/digest"
	"github.com/nearjob/nearjob/bench/result"
)

// Plans as MySQL 9.7 prints them.
const (
	rangeTree = "-> Filter: (job.lat between 1 and 2)  (cost=10 rows=40) (actual time=0.05..1 rows=30 loops=1)\n" +
		"    -> Index range scan on job using lat_lng over (1 <= lat <= 2)  (cost=10 rows=40) (actual time=0.04..0.5 rows=50 loops=1)\n"
	offTree  = "-> Index range scan on job using lat_lng over (1 <= lat <= 2)  (cost=10 rows=10) (actual time=0.04..0.5 rows=2030 loops=1)\n"
	scanTree = "-> Filter: (job.lat between 1 and 2)  (cost=100 rows=400) (actual time=0.05..9 rows=30 loops=1)\n" +
		"    -> Table scan on job  (cost=100 rows=4000) (actual time=0.04..5 rows=4000 loops=1)\n"
	limitTree = "-> Limit: 8 row(s)  (cost=116 rows=8) (actual time=0.02..0.03 rows=8 loops=1)\n" +
		"    -> Index range scan on job using s2 over (1 <= s2 <= 9)  (cost=116 rows=5760) (actual time=0.02..0.03 rows=8 loops=1)\n"
	fullIndexTree = "-> Covering index scan on job using lat_lng  (cost=100 rows=4000) (actual time=0.04..5 rows=4000 loops=1)\n"
	forcedTree    = "-> Index range scan on job using lat_lng over (1 <= lat <= 2)  (cost=1 rows=1) (actual time=0.04..0.5 rows=2030 loops=1)\n"
	spatialTree   = "-> Index range scan on job using pt over (pt unprintable_geometry_value)  (cost=10 rows=10) (actual time=0.04..0.5 rows=2030 loops=1)\n"
	noPlan        = "Error: nothing of the kind"
)

func timing(ms, spread float64) result.Timing {
	return result.Timing{Runs: 9, Median: ms, P95: ms * 1.5, Min: ms / 2, Max: ms * 2, Spread: spread}
}

func side(ms float64, trees ...string) result.Side {
	s := result.Side{Time: timing(ms, 0.05)}
	for _, tree := range trees {
		s.Statements = append(s.Statements, result.Statement{Round: 1, SQL: "SELECT 1", Tree: tree})
	}
	return s
}

func forcedSide(ms float64, trees ...string) *result.Side {
	s := side(ms, trees...)
	return &s
}

func TestRows(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    result.Case
		want digest.Row
	}{
		{"one statement", result.Case{Returned: 10, Free: side(2, rangeTree), Forced: forcedSide(1, rangeTree)},
			digest.Row{Index: "lat_lng", Examined: 50, PerReturned: 5, Estimated: 40, Actual: 50, Compared: 1, FreeMS: 2, ForcedMS: 1, ForceGain: 2}},
		{"several statements add up", result.Case{Returned: 10, Free: side(2, rangeTree, rangeTree, offTree)},
			digest.Row{Index: "lat_lng", Examined: 2130, PerReturned: 213, Estimated: 90, Actual: 2130, Compared: 3, Misestimate: 100, FreeMS: 2}},
		{"a limit makes estimates incomparable", result.Case{Returned: 8, Free: side(2, limitTree)},
			digest.Row{Index: "s2", Examined: 8, PerReturned: 1, FreeMS: 2}},
		{"index ignored", result.Case{Returned: 4, Free: side(4, scanTree), Forced: forcedSide(1, forcedTree)},
			digest.Row{Index: digest.TableScan, Examined: 4000, PerReturned: 1000, Estimated: 4000, Actual: 4000, Compared: 1, Ignored: true, FreeMS: 4, ForcedMS: 1, ForceGain: 4}},
		{"no index to ignore", result.Case{Returned: 4, Free: side(4, scanTree)},
			digest.Row{Index: digest.TableScan, Examined: 4000, PerReturned: 1000, Estimated: 4000, Actual: 4000, Compared: 1, FreeMS: 4}},
		{"forced it scans too", result.Case{Returned: 4, Free: side(4, fullIndexTree), Forced: forcedSide(4, fullIndexTree)},
			digest.Row{Index: "lat_lng (all of it)", Examined: 4000, PerReturned: 1000, Estimated: 4000, Actual: 4000, Compared: 1, FreeMS: 4, ForcedMS: 4, ForceGain: 1}},
		{"nothing returned", result.Case{Free: side(2, rangeTree)},
			digest.Row{Index: "lat_lng", Examined: 50, PerReturned: 50, Estimated: 40, Actual: 50, Compared: 1, FreeMS: 2}},
		{"several indexes, one plan unreadable", result.Case{Returned: 1, Free: side(2, rangeTree, noPlan, scanTree)},
			digest.Row{Index: "lat_lng, table scan", Examined: 4050, PerReturned: 4050, Estimated: 4040, Actual: 4050, Compared: 2, FreeMS: 2}},
		{"no plan", result.Case{Returned: 1, Free: side(2)}, digest.Row{FreeMS: 2}},
		{"estimates of forced plans never count", result.Case{Returned: 1, Free: side(2, rangeTree), Forced: forcedSide(2, forcedTree)},
			digest.Row{Index: "lat_lng", Examined: 50, PerReturned: 50, Estimated: 40, Actual: 50, Compared: 1, FreeMS: 2, ForcedMS: 2, ForceGain: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &result.Run{Cases: []result.Case{tt.c}}
			rows := digest.Rows(r)
			if len(rows) != 1 || rows[0].Case != &r.Cases[0] {
				t.Fatalf("rows %v", rows)
			}
			tt.want.Case = rows[0].Case
			if rows[0] != tt.want {
				t.Errorf("got  %+v\nwant %+v", rows[0], tt.want)
			}
		})
	}
}

// TestRowsAddUp checks loops: figures of a plan are for one of them.
func TestRowsAddUp(t *testing.T) {
	const tree = "-> Nested loop inner join  (cost=50 rows=30) (actual time=1..9 rows=60 loops=1)\n" +
		"    -> Table scan on a  (cost=1 rows=3) (actual time=0.04..5 rows=3 loops=1)\n" +
		"    -> Index lookup on b using k (k=a.k)  (cost=5 rows=10) (actual time=0.04..5 rows=20 loops=3)\n"
	row := digest.Rows(&result.Run{Cases: []result.Case{{Returned: 60, Free: side(2, tree)}}})[0]
	if row.Estimated != 33 || row.Actual != 63 || row.Examined != 63 || row.Index != "table scan, k" {
		t.Errorf("got %+v", row)
	}
}

func TestPlansPreferJSON(t *testing.T) {
	r := readFixture(t)
	json2 := 0
	plans, warnings := digest.Plans(r)
	if len(warnings) > 0 {
		t.Errorf("warnings %q", warnings)
	}
	for _, p := range plans {
		switch {
		case p.Plan.Root == nil:
			t.Errorf("%s: no plan", p.ID)
		case len(p.Statement.JSON) > 0:
			json2++
			if p.Plan.Format != plan.JSON2 {
				t.Errorf("%s: read from %s, but there is JSON", p.ID, p.Plan.Format)
			}
		case p.Plan.Format != plan.Tree:
			t.Errorf("%s: read from %s", p.ID, p.Plan.Format)
		}
	}
	if json2 == 0 {
		t.Error("no plan from JSON: " + fixtureFile + " does not test this")
	}
}

func TestPlansUnreadable(t *testing.T) {
	broken := json.RawMessage(`{"query_plan": 7}`)
	for _, tt := range []struct {
		name     string
		st       result.Statement
		root     bool
		warnings []string
	}{
		{"broken JSON, readable TREE", result.Statement{Tree: rangeTree, JSON: broken}, true, []string{"the plan as JSON cannot be read"}},
		{"both broken", result.Statement{Tree: noPlan, JSON: broken}, false, []string{"the plan as JSON cannot be read", "the plan as TREE cannot be read"}},
		{"null JSON", result.Statement{Tree: rangeTree, JSON: json.RawMessage("null")}, true, nil},
		{"none", result.Statement{}, false, []string{"no plan was kept"}},
		{"in part", result.Statement{Tree: rangeTree + "something else\n"}, true, []string{"lines that cannot be read"}},
		{"two", result.Statement{Tree: rangeTree + "\n" + scanTree}, true, []string{"holds 2 plans"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &result.Run{Cases: []result.Case{{Set: "a", Rows: 5000, RadiusM: 500, Strategy: "bbox", Free: result.Side{Statements: []result.Statement{tt.st}}}}}
			plans, warnings := digest.Plans(r)
			if len(plans) != 1 || (plans[0].Plan.Root != nil) != tt.root {
				t.Fatalf("plans %+v", plans)
			}
			if len(warnings) != len(tt.warnings) {
				t.Fatalf("warnings %q, want %q", warnings, tt.warnings)
			}
			for i, w := range tt.warnings {
				if !strings.Contains(warnings[i], w) || !strings.HasPrefix(warnings[i], "a, 5,000 rows, 500 m, bbox, free: ") {
					t.Errorf("warning %q, want %q", warnings[i], w)
				}
			}
		})
	}
}

func TestPlanNames(t *testing.T) {
	c := result.Case{Set: "My Table!", Rows: 10, RadiusM: 1, Strategy: "s2", Free: side(1, rangeTree, rangeTree), Forced: forcedSide(1, rangeTree)}
	d := c
	d.Set = "my table?" // another set with the same slug
	plans, _ := digest.Plans(&result.Run{Cases: []result.Case{c, d}})
	var ids []string
	for _, p := range plans {
		ids = append(ids, p.ID)
	}
	want := []string{
		"my-table-10-1m-s2-free-1", "my-table-10-1m-s2-free-2", "my-table-10-1m-s2-forced-1",
		"my-table-10-1m-s2-free-1-2", "my-table-10-1m-s2-free-2-2", "my-table-10-1m-s2-forced-1-2",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("ids %q\nwant %q", ids, want)
	}
	if got, want := plans[1].Label, "My Table!, 10 rows, 1 m, s2, free, statement 2 of 2"; got != want {
		t.Errorf("label %q, want %q", got, want)
	}
	if got, want := plans[2].Label, "My Table!, 10 rows, 1 m, s2, forced"; got != want || !plans[2].Forced {
		t.Errorf("label %q, want %q", got, want)
	}
}

func TestNotes(t *testing.T) {
	trace := &result.Trace{ScanRows: 4000, ScanCost: 100, Alternatives: []result.Alternative{{Index: "lat_lng", Usable: true, Rows: 3900, Cost: 1200, Cause: "cost"}}}
	withCause := *trace
	withCause.Cause = "Reading 98 % of the table by the index costs 12 times a scan."
	unusable := &result.Trace{Alternatives: []result.Alternative{{Index: "lat_lng", Cause: "no_spatial_support"}}}
	undived := &result.Trace{Alternatives: []result.Alternative{{Index: "lat_lng", Usable: true, Chosen: true, Ranges: 50}}}
	type has struct {
		code plan.NoteCode
		text string
	}
	for _, tt := range []struct {
		name   string
		free   result.Statement
		forced *result.Side // 1 ms; the free side takes 4
		limit  string       // eq_range_index_dive_limit
		want   []has
		not    []plan.NoteCode
	}{
		{"ignored, no trace", result.Statement{Tree: scanTree}, forcedSide(1, forcedTree), "",
			[]has{{plan.NoteIndexIgnored, "lat_lng could serve"}, {plan.NoteIndexIgnored, "No optimizer trace"}, {plan.NoteIndexIgnored, "4 ms, and 1 ms with the index forced, 4 times less"}, {plan.NoteFullScan, "4,000 rows"}}, nil},
		{"ignored, equal", result.Statement{Tree: scanTree}, forcedSide(4.1, forcedTree), "", []has{{plan.NoteIndexIgnored, "equal within the noise"}}, nil},
		{"ignored, rightly", result.Statement{Tree: scanTree}, forcedSide(9, forcedTree), "", []has{{plan.NoteIndexIgnored, "That is right"}}, nil},
		{"ignored, with figures", result.Statement{Tree: scanTree, Trace: trace}, forcedSide(1, forcedTree), "",
			[]has{{plan.NoteIndexIgnored, "lat_lng at a cost of 1,200 for 3,900 rows, the scan at 100 for 4,000 (cause: cost)"}}, nil},
		{"ignored, with its cause", result.Statement{Tree: scanTree, Trace: &withCause}, forcedSide(1, forcedTree), "",
			[]has{{plan.NoteIndexIgnored, withCause.Cause}}, nil},
		{"ignored, not usable", result.Statement{Tree: scanTree, Trace: unusable}, forcedSide(1, forcedTree), "",
			[]has{{plan.NoteIndexIgnored, "not usable (cause: no_spatial_support)"}}, nil},
		{"no index to ignore", result.Statement{Tree: scanTree}, nil, "", []has{{plan.NoteFullScan, ""}}, []plan.NoteCode{plan.NoteIndexIgnored}},
		{"estimate", result.Statement{Tree: offTree}, nil, "", []has{{plan.NoteMisestimate, "203 times more rows"}}, []plan.NoteCode{digest.NoteRootEstimate}},
		{"estimate of an R-tree", result.Statement{Tree: spatialTree}, nil, "", []has{{plan.NoteMisestimate, "203 times"}, {digest.NoteRootEstimate, "root page"}}, nil},
		{"too many ranges", result.Statement{Tree: scanTree, Warnings: []result.Warning{{Level: "Warning", Code: 3170, Text: "Memory capacity exceeded"}}}, nil, "",
			[]has{{digest.NoteServerWarning, "Memory capacity exceeded"}, {digest.NoteServerWarning, "fewer ranges"}}, nil},
		{"past the dive limit of the plan", result.Statement{Tree: "-> Index range scan on job using k over (k = 1) OR (k = 2) OR (248 more)  (cost=1 rows=250) (actual time=0.1..1 rows=260 loops=1)\n"}, nil, "",
			[]has{{plan.NoteManyRanges, "250 single values"}}, nil},
		{"past the server's own dive limit", result.Statement{Tree: rangeTree, Trace: undived}, nil, "40", []has{{plan.NoteManyRanges, "50 ranges, at or past eq_range_index_dive_limit (40)"}}, nil},
		{"within the default limit", result.Statement{Tree: rangeTree, Trace: undived}, nil, "", nil, []plan.NoteCode{plan.NoteManyRanges}},
		{"no limit", result.Statement{Tree: rangeTree, Trace: undived}, nil, "0", nil, []plan.NoteCode{plan.NoteManyRanges}},
		{"another index", result.Statement{Tree: spatialTree}, forcedSide(1, forcedTree), "", []has{{digest.NoteOtherIndex, "with pt, not with lat_lng"}}, nil},
		{"trace cut", result.Statement{Tree: rangeTree, Trace: &result.Trace{MissingBytes: 1234}}, nil, "", []has{{digest.NoteTraceCut, "1,234 bytes"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &result.Run{
				Settings: result.Settings{Variables: map[string]string{"eq_range_index_dive_limit": tt.limit}},
				Cases:    []result.Case{{Free: result.Side{Time: timing(4, 0.05), Statements: []result.Statement{tt.free}}, Forced: tt.forced}},
			}
			plans, warnings := digest.Plans(r)
			if len(warnings) > 0 {
				t.Fatalf("warnings %q", warnings)
			}
			notes := plans[0].Notes
			for _, w := range tt.want {
				if !slices.ContainsFunc(notes, func(n digest.Note) bool {
					return n.Code == w.code && strings.Contains(n.Text, w.text) && n.Node != nil
				}) {
					t.Errorf("no note %s with %q in %+v", w.code, w.text, notes)
				}
			}
			for _, code := range tt.not {
				if slices.ContainsFunc(notes, func(n digest.Note) bool { return n.Code == code }) {
					t.Errorf("a note %s in %+v", code, notes)
				}
			}
		})
	}
}

// TestForcedEstimates checks that estimates of forced plans, which MySQL does not
// make, are not held against it.
func TestForcedEstimates(t *testing.T) {
	plans, _ := digest.Plans(&result.Run{Cases: []result.Case{{Free: side(1, offTree), Forced: forcedSide(1, forcedTree)}}})
	for _, p := range plans {
		got := slices.ContainsFunc(p.Notes, func(n digest.Note) bool { return n.Code == plan.NoteMisestimate })
		if got == p.Forced {
			t.Errorf("forced %v: note of the estimate: %v", p.Forced, got)
		}
	}
	if len(plans) != 2 {
		t.Errorf("%d plans", len(plans))
	}
}

func TestTellingCases(t *testing.T) {
	r := &result.Run{Cases: []result.Case{
		{Set: "a", Rows: 10, Strategy: "dull", Returned: 1, Free: side(1, rangeTree)},
		{Set: "a", Rows: 10, Strategy: "ignored", Returned: 1, Free: side(4, scanTree), Forced: forcedSide(1, forcedTree)},
		{Set: "a", Rows: 10, Strategy: "off", Returned: 1, Free: side(4, offTree)},
		{Set: "a", Rows: 99, Strategy: "fast", Returned: 1, Free: side(0.5, rangeTree)},
		{Set: "a", Rows: 99, Strategy: "slow", Returned: 1, Free: side(50, scanTree)},
		{Set: "a", Rows: 99, Strategy: "empty", Free: side(0.1, rangeTree)},
		{Set: "a", Rows: 99, Strategy: "vain", Returned: 1, Free: side(2, rangeTree), Forced: forcedSide(2, rangeTree)},
	}}
	for _, tt := range []struct {
		most int
		want string
	}{{0, ""}, {2, "ignored off"}, {9, "ignored off fast slow vain"}} {
		var got []string
		for _, x := range digest.TellingCases(digest.Rows(r), tt.most) {
			got = append(got, x.Row.Case.Strategy)
			if x.Why == "" {
				t.Errorf("%s: no reason", x.Row.Case.Strategy)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("most %d: %v, want %s", tt.most, got, tt.want)
		}
	}
	if got := digest.TellingCases(nil, 5); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestSamePlan(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    result.Case
		want bool
	}{
		{"same", result.Case{Free: side(1, offTree), Forced: forcedSide(1, forcedTree)}, true},
		{"other access", result.Case{Free: side(1, scanTree), Forced: forcedSide(1, forcedTree)}, false},
		{"other index", result.Case{Free: side(1, spatialTree), Forced: forcedSide(1, forcedTree)}, false},
		{"more statements", result.Case{Free: side(1, offTree, offTree), Forced: forcedSide(1, forcedTree)}, false},
		{"nothing forced", result.Case{Free: side(1, offTree)}, false},
		{"unreadable", result.Case{Free: side(1, noPlan), Forced: forcedSide(1, noPlan)}, false},
	} {
		if got := digest.SamePlan(&tt.c); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		a, b result.Timing
		want int
	}{
		{timing(10, 0.1), timing(11, 0.1), 0},
		{timing(10, 0.01), timing(11, 0.01), -1},
		{timing(11, 0.01), timing(10, 0.01), 1},
		{timing(10, 0), timing(10, 0), 0},
		{timing(10, 0.9), timing(2, 0.01), 0},
	} {
		if got := digest.Compare(tt.a, tt.b); got != tt.want {
			t.Errorf("Compare(%v ± %v, %v ± %v) = %d, want %d", tt.a.Median, tt.a.Spread, tt.b.Median, tt.b.Spread, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100: "100"} {
		if got := digest.Count(in); got != want {
			t.Errorf("Count(%d) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[float64]string{0: "0 m", 500: "500 m", 1000: "1 km", 2500: "2.5 km", math.Inf(1): "any distance"} {
		if got := digest.Radius(in); got != want {
			t.Errorf("Radius(%v) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"dense": "dense", "shop.places": "shop.places", "../../etc": "etc", "A  B--c": "a-b-c", "é": "x", "": "x", "-a-": "a",
		"<b id='x'>": "b-id-x",
	} {
		if got := digest.Slug(in); got != want {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzSlug: go test ./bench/report/digest -fuzz FuzzSlug
func FuzzSlug(f *testing.F) {
	for _, s := range []string{"", "dense-5000-1km", "../..", "a b", "\xff", "İ"} {
		f.Add(s)
	}
	safe := regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	f.Fuzz(func(t *testing.T, s string) {
		got := digest.Slug(s)
		if !safe.MatchString(got) {
			t.Errorf("Slug(%q) = %q", s, got)
		}
		if again := digest.Slug(got); again != got {
			t.Errorf("Slug(%q) = %q, but its slug is %q", s, got, again)
		}
	})
}

func TestFind(t *testing.T) {
	r := &result.Run{Cases: []result.Case{{Set: "a", Rows: 10, RadiusM: 5, Strategy: "s2"}}}
	if got := digest.Find(r, "a-10-5m-s2"); got != &r.Cases[0] {
		t.Errorf("found %v", got)
	}
	if got := digest.Find(r, "a-10-5m-h3"); got != nil {
		t.Errorf("found %v", got)
	}
}

func readFixture(t *testing.T) *result.Run {
	t.Helper()
	f, err := os.Open(fixtureFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := result.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) == 0 {
		t.Fatal("no cases in " + fixtureFile)
	}
	return r
}

// TestRealPlans checks rows of a real run against what the search itself counted.
func TestRealPlans(t *testing.T) {
	r := readFixture(t)
	for _, row := range digest.Rows(r) {
		c := row.Case
		if row.Index == "" || row.FreeMS <= 0 {
			t.Errorf("%s: %+v", c.Key(), row)
		}
		// The plans ran apart from the search, on the same rows. What a search
		// saw, its statements have read. MySQL prints large numbers with three digits.
		if row.Examined < 0.99*float64(c.Stats.Candidates) {
			t.Errorf("%s: %v rows examined for %d candidates", c.Key(), row.Examined, c.Stats.Candidates)
		}
		if (c.Forced == nil) != (row.ForceGain == 0) || c.Forced == nil && row.Ignored {
			t.Errorf("%s: forced %v: %+v", c.Key(), c.Forced != nil, row)
		}
		if c.Strategy == "fullscan" && row.Examined < 0.99*float64(c.Within) {
			t.Errorf("%s: %v rows examined for %d in the circle", c.Key(), row.Examined, c.Within)
		}
	}
}

func ExampleRows() {
	r := &result.Run{Cases: []result.Case{{
		Set: "dense", Rows: 5000, RadiusM: 1000, Strategy: "bbox", Returned: 10,
		Free: result.Side{
			Time: result.NewTiming([]time.Duration{2 * time.Millisecond}),
			Statements: []result.Statement{{
				Tree: "-> Table scan on open_job  (cost=524 rows=4995) (actual time=0.04..2.05 rows=4845 loops=1)",
			}},
		},
		Forced: &result.Side{
			Time: result.NewTiming([]time.Duration{time.Millisecond}),
			Statements: []result.Statement{{
				Tree: "-> Index range scan on open_job using lat_lng over (1 <= lat <= 2)  (cost=1 rows=1) (actual time=0.04..0.5 rows=900 loops=1)",
			}},
		},
	}}}
	for _, row := range digest.Rows(r) {
		fmt.Printf("%s: %s, %v rows for each returned, index ignored: %v, forcing it gains %v times\n",
			digest.CaseLabel(row.Case), row.Index, row.PerReturned, row.Ignored, row.ForceGain)
	}
	// Output:
	// dense, 5,000 rows, 1 km, bbox: table scan, 484.5 rows for each returned, index ignored: true, forcing it gains 2 times
}
