package ingest

import (
	"bufio"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// anyJob draws a job that a store could hold. Lone CRs are left out: CSV cannot
// tell them from line ends.
func anyJob(t *rapid.T) store.Job {
	text := rapid.StringOfN(rapid.OneOf(
		rapid.SampledFrom([]rune("\",;\t\n' ab0\\<&\u00e9\u4e16\U0001f600")),
		rapid.RuneFrom([]rune("xyz"))), 0, 12, -1)
	line := rapid.Map(text, func(s string) string { return strings.Join(strings.Fields(s), " ") })
	j := store.Job{
		ID: 1, Source: "test",
		SourceID:    "i" + line.Draw(t, "id"),
		Title:       "t" + line.Draw(t, "title"),
		Description: text.Draw(t, "description"),
		URL:         line.Draw(t, "url"),
		Category:    line.Draw(t, "category"),
		Employer:    line.Draw(t, "employer"),
		Remote:      rapid.Bool().Draw(t, "remote"),
		At: geo.LatLng{
			Lat: rapid.Float64Range(-90, 90).Draw(t, "lat"),
			Lng: rapid.Float64Range(-180, 180).Draw(t, "lng"),
		},
		Posted: time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "posted")),
	}
	if j.At == (geo.LatLng{}) {
		j.At.Lat = 1
	}
	if rapid.Bool().Draw(t, "paid") {
		j.Pay = store.Pay{Amount: rapid.Int64Range(0, 1e12).Draw(t, "pay"), Currency: "EUR", Per: "hour"}
	}
	if rapid.Bool().Draw(t, "ends") {
		j.Expires = time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "expires"))
	}
	if err := j.Normalize(); err != nil {
		t.Fatal(err)
	}
	j.ID = 0
	return j
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.SliceOfN(rapid.Custom(anyJob), 1, 5).Draw(t, "jobs")
		for name, text := range map[string]string{
			"csv":      table(jobs, rapid.SampledFrom([]rune(separators)).Draw(t, "separator"), rapid.Bool().Draw(t, "crlf")),
			"features": features(jobs, false),
			"lines":    features(jobs, true),
		} {
			_, seq, err := Records(strings.NewReader(text), "test", Options{Now: now})
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			var got []store.Job
			for r, err := range seq {
				if err != nil || r.Rejected != nil {
					t.Fatalf("%s: %+v, %v\n%s", name, r.Rejected, err, text)
				}
				got = append(got, r.Job)
			}
			if !slices.Equal(got, jobs) {
				t.Fatalf("%s: got %+v\nwant %+v\n%s", name, got, jobs, text)
			}
		}
	})
}

// table writes jobs as CSV.
func table(jobs []store.Job, sep rune, crlf bool) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Comma, w.UseCRLF = sep, crlf
	w.Write([]string{"id", "title", "description", "url", "category", "employer", "pay", "currency", "per", "lat", "lng", "remote", "posted", "expires"})
	for _, j := range jobs {
		var pay, lat, lng, expires string
		if j.Pay.Amount != 0 {
			pay = units(j.Pay.Amount)
		}
		if !j.Remote {
			lat, lng = strconv.FormatFloat(j.At.Lat, 'g', -1, 64), strconv.FormatFloat(j.At.Lng, 'g', -1, 64)
		}
		if !j.Expires.IsZero() {
			expires = j.Expires.Format(time.RFC3339Nano)
		}
		w.Write([]string{j.SourceID, j.Title, j.Description, j.URL, j.Category, j.Employer, pay, j.Pay.Currency, j.Pay.Per,
			lat, lng, map[bool]string{true: "yes", false: "no"}[j.Remote], j.Posted.Format(time.RFC3339Nano), expires})
	}
	w.Flush()
	return b.String()
}

// check reads a text and looks at what holds for every file.
func check(t *testing.T, text string) (recs []Record) {
	_, seq, err := Records(strings.NewReader(text), "test", Options{Now: now})
	if err != nil {
		return nil
	}
	last := 0
	for r, err := range seq {
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return recs
		}
		if r.Line < max(last, 1) || r.Line > strings.Count(text, "\n")+1 {
			t.Fatalf("line %d behind %d", r.Line, last)
		}
		last = r.Line
		if r.Rejected == nil {
			j := r.Job
			j.ID = 1
			if norm := j; norm.Normalize() != nil || norm != j || j.SourceID == "" {
				t.Fatalf("not normalized: %+v", r.Job)
			}
		} else if r.Rejected.Reason == "" || r.Rejected.Detail == "" {
			t.Fatalf("rejected without a reason: %+v", r)
		}
		recs = append(recs, r)
	}
	return recs
}

// Run with: go test -run=NONE -fuzz=FuzzCSV -fuzztime=1m ./store/ingest
func FuzzCSV(f *testing.F) {
	f.Add("id,title,lat,lng\n1,T,1,2\n")
	f.Add("\ufefftitle;y;x\r\n\"a;\"\"b\"\"\";1;2\r\n\"open;1;2\n")
	f.Fuzz(func(t *testing.T, text string) {
		check(t, text)
		// What encoding/csv accepts is read here in the same way.
		std := csv.NewReader(strings.NewReader(text))
		std.FieldsPerRecord = -1
		want, err := std.ReadAll()
		wide := func(fields []string) bool { return len(fields) > MaxColumns }
		if err != nil || len(text) > MaxRecord || slices.ContainsFunc(want, wide) {
			return
		}
		in := &lines{r: bufio.NewReader(strings.NewReader(text))}
		var got [][]string
		for {
			row, err := record(in, ',')
			if err == io.EOF {
				break
			}
			if err != nil || row.Rejected != nil {
				t.Fatalf("%+v, %v\nwant %q", row, err, want)
			}
			got = append(got, row.Parts)
		}
		// A line of blanks is skipped here.
		if got, want = slices.DeleteFunc(got, blank), slices.DeleteFunc(want, blank); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}

func blank(fields []string) bool { return len(fields) == 1 && strings.TrimSpace(fields[0]) == "" }

// Run with: go test -run=NONE -fuzz=FuzzGeoJSON -fuzztime=1m ./store/ingest
func FuzzGeoJSON(f *testing.F) {
	good := `{"type":"Feature","id":1,"geometry":{"type":"Point","coordinates":[1,2]},"properties":{"title":"T"}}`
	f.Add(good)
	f.Add(`{"type":"FeatureCollection","features":[` + good + ",\n" + good + `]}`)
	f.Add("\x1e" + good + "\n\x1e" + good + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range check(t, text) {
			if r.Rejected == nil && !utf8.ValidString(r.Job.Title) {
				t.Fatalf("%q", r.Job.Title)
			}
		}
	})
}
