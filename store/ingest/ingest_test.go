package ingest

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// memory is a Saver as store.Jobs describes it.
type memory struct {
	jobs  map[[2]string]store.Job
	calls int
	fail  func(call int) error
}

var _ Saver = (*memory)(nil)

func (m *memory) Save(ctx context.Context, jobs []store.Job) (store.Saved, error) {
	m.calls++
	if m.fail != nil {
		if err := m.fail(m.calls); err != nil {
			return store.Saved{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return store.Saved{}, err
	}
	if m.jobs == nil {
		m.jobs = map[[2]string]store.Job{}
	}
	var s store.Saved
	for _, j := range jobs {
		norm := j
		if err := norm.Normalize(); err != nil || norm != j {
			return store.Saved{}, fmt.Errorf("not normalized: %+v: %v", j, err)
		}
		key := [2]string{j.Source, j.SourceID}
		if old, ok := m.jobs[key]; ok {
			s.Updated++
			j.ID = old.ID
		} else {
			s.Added++
		}
		m.jobs[key] = j
	}
	return s, nil
}

func options(t testing.TB) Options {
	ids, err := store.NewIDs(func() time.Time { return now }, 1)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Now: now, IDs: ids, Backoff: time.Nanosecond}
}

// read collects the records of a text.
func read(t testing.TB, text string, o Options) (recs []Record, err error) {
	t.Helper()
	_, seq, err := Records(strings.NewReader(text), "test", o)
	if err != nil {
		return nil, err
	}
	for r, err := range seq {
		if err != nil {
			return recs, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}

func TestCSVHeaders(t *testing.T) {
	want := store.Job{Source: "test", SourceID: "7", Title: "Mow, please", At: geo.LatLng{Lat: 1.5, Lng: -2.25}, State: store.Open, Posted: now}
	for _, text := range []string{
		"id,title,lat,lng\n7,\"Mow, please\",1.5,-2.25\n",
		"\ufeffid,title,lat,lng\r\n7,\"Mow, please\",1.5,-2.25\r\n",
		"Id;Job Title;LATITUDE;Longitude\n7;Mow, please;1.5;-2.25",
		"ID\tJob_Title\t Y \tX\n7\tMow, please\t1.5\t-2.25\n",
		"lon,lat_deg,TITLE, id \n-2.25, 1.5 ,\"Mow, please\",7\n",
		"\n\nlong, latitude , \"title\" ,id\n\n-2.25,1.5, \"Mow, please\" ,7\n\n",
		"id;title;x;y\n7;\"Mow, please\";-2.25;1.5\n",
	} {
		recs, err := read(t, text, options(t))
		if err != nil || len(recs) != 1 || recs[0].Rejected != nil || recs[0].Job != want {
			t.Errorf("%q: %+v, %v", text, recs, err)
		}
	}
}

func TestAllFields(t *testing.T) {
	want := store.Job{Source: "test", SourceID: "a-1", Title: "Walk", Description: "Two\nlines", URL: "https://x.example/1", Category: "petcare",
		Employer: "Ann", Pay: store.Pay{Amount: 1250, Currency: "EUR", Per: "hour"}, At: geo.LatLng{Lat: 48, Lng: 180}, State: store.Open,
		Posted: now.Add(-time.Hour), Expires: time.Date(2026, 4, 1, 23, 59, 59, 999e6, time.UTC)}
	for _, text := range []string{
		"id,title,description,url,category,employer,pay,currency,pay_per,lat,lng,posted,expires,remote\n" +
			"a-1, Walk ,\"Two\r\nlines\",https://x.example/1,PetCare,Ann,12.50,eur,hourly,48,-180,2026-03-01T12:00:00+01:00,2026-04-01,no\n",
		`{"type":"FeatureCollection","features":[{"type":"Feature","id":"a-1","geometry":{"type":"Point","coordinates":[-180,48,12]},"properties":` +
			`{"title":" Walk ","description":"Two\nlines","link":"https://x.example/1","Category":"PetCare","company":"Ann","salary":12.50,` +
			`"currency":"EUR","unitText":"HOUR","datePosted":"2026-03-01 11:00:00","validThrough":"2026-04-01","remote":false}}]}`,
	} {
		recs, err := read(t, text, options(t))
		if err != nil || len(recs) != 1 || recs[0].Job != want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", text, recs, err, want)
		}
	}
}

func TestRejected(t *testing.T) {
	header := "id,title,lat,lng,pay,posted,remote\n"
	for _, c := range []struct {
		row  string
		want Reason // "": accepted
	}{
		{"1,T,1,2,,,", ""},
		{"1,T,0,2,,,", ""},
		{"1,T,2,0,,,", ""},
		{"1,T,90,-180,,,", ""},
		{"1,T,1e1,+2.0,,,", ""},
		{"1,T,,,,,yes", ""},
		{"1,T,nowhere,0,,,true", ""},
		{"1,T,,2,,,", MissingCoordinates},
		{"1,T,1,,,,", MissingCoordinates},
		{"1,T, , ,,,no", MissingCoordinates},
		{"1,T,x,2,,,", TextInNumber},
		{"1,T,\"37,5\",2,,,", TextInNumber},
		{"1,T,37.5N,2,,,", TextInNumber},
		{"1,T,NaN,2,,,", TextInNumber},
		{"1,T,Inf,2,,,", TextInNumber},
		{"1,T,0x10,2,,,", TextInNumber},
		{"1,T,1_0,2,,,", TextInNumber},
		{"1,T,--1,2,,,", TextInNumber},
		{"1,T,-,2,,,", TextInNumber},
		{"1,T,90.0001,2,,,", OutOfRange},
		{"1,T,1,-180.5,,,", OutOfRange},
		{"1,T,1e999,2,,,", OutOfRange},
		{"1,T,0,0,,,", Placeholder},
		{"1,T,0.000,-0,,,", Placeholder},
		{"1,  ,1,2,,,", MissingTitle},
		{"1,T,1,2,$12,,", TextInNumber},
		{"1,T,1,2,-3,,", OutOfRange},
		{"1,T,1,2,12.345,,", BadValue},
		{"1,T,1,2,,3/4/2026,", BadDate},
		{"1,T,1,2,,2026-02-30,", BadDate},
		{"1,T,1,2,,1969-01-01,", BadDate},
		{"1,T,1,2,,,maybe", BadValue},
		{"1,T\x07,1,2,,,", BadValue},
		{"1,\xe9t\xe9,1,2,,,", NotUTF8},
		{"1," + strings.Repeat("T", 301) + ",1,2,,,", BadValue},
		{"1,T,1,2,,", Malformed},
		{"1,T,1,2,,,,", Malformed},
		{"1,T\"x,1,2,,,", Malformed},
		{"1,\"T\"x,1,2,,,", Malformed},
		{"1,\"T,1,2,,,", Malformed},
		{strings.Repeat("x", MaxRecord+1), Malformed},
		{strings.Repeat(",", MaxColumns), Malformed},
	} {
		// The row after it is there all the same, and on its line.
		recs, err := read(t, header+c.row+"\n2,Next,5,6,,,\n", options(t))
		if err != nil || len(recs) != 2 {
			t.Errorf("%.60q: %d records, %v", c.row, len(recs), err)
			continue
		}
		var got Reason
		if r := recs[0].Rejected; r != nil {
			if got = r.Reason; r.Detail == "" || len(c.row) < 1000 && r.Raw != c.row {
				t.Errorf("%.60q: %+v", c.row, r)
			}
		}
		if got != c.want || recs[0].Line != 2 {
			t.Errorf("%.60q: %q in line %d, want %q", c.row, got, recs[0].Line, c.want)
		}
		if recs[1].Line != 3 || recs[1].Job.Title != "Next" {
			t.Errorf("%.60q: then %+v", c.row, recs[1])
		}
	}
}

func TestRejectedGeoJSON(t *testing.T) {
	feature := func(geometry, properties string) string {
		return `{"type":"Feature","geometry":` + geometry + `,"properties":` + properties + `}`
	}
	point := func(c string) string { return `{"type":"Point","coordinates":` + c + `}` }
	title := `{"title":"T"}`
	for _, c := range []struct {
		feature string
		want    Reason
	}{
		{feature(point("[1,2]"), title), ""},
		{feature(point("[1.5e1,2,99]"), title), ""},
		{feature("null", `{"title":"T","remote":true}`), ""},
		{feature("null", title), MissingCoordinates},
		{feature(point("[]"), title), MissingCoordinates},
		{feature(point("[1]"), title), MissingCoordinates},
		{feature(point("[1,null]"), title), MissingCoordinates},
		{feature(point("null"), title), MissingCoordinates},
		{feature(point(`["1",2]`), title), TextInNumber},
		{feature(point("[1,91]"), title), OutOfRange},
		{feature(point("[181,9]"), title), OutOfRange},
		{feature(point("[1e400,9]"), title), OutOfRange},
		{feature(point("[0,0]"), title), Placeholder},
		{feature(`{"type":"LineString","coordinates":[[1,2],[3,4]]}`, title), NotAPoint},
		{feature(point("[1,2]"), "{}"), MissingTitle},
		{feature(point("[1,2]"), "null"), MissingTitle},
		{feature(point("[1,2]"), `{"title":null}`), MissingTitle},
		{feature(point("[1,2]"), `{"title":"T","created":"yesterday"}`), BadDate},
		{feature(point("[1,2]"), `{"title":["T"]}`), BadValue},
		{feature(point("[1,2]"), "{\"title\":\"\xe9\"}"), NotUTF8},
		{feature(point("[1,2]"), "[]"), Malformed},
		{feature("7", title), Malformed},
		{feature(point("7"), title), Malformed},
		{`{"type":"Point","coordinates":[1,2]}`, Malformed},
		{`{"type":"Feature","id":{},"geometry":null}`, Malformed},
		{`7`, Malformed},
	} {
		next := feature(point("[5,6]"), `{"title":"Next"}`)
		texts := []string{"{\"type\":\"FeatureCollection\",\"features\":[\n" + c.feature + ",\n" + next + "\n]}"}
		if c.feature[0] == '{' {
			texts = append(texts, "\n"+c.feature+"\n"+next, "\x1e\n"+c.feature+"\n\x1e"+next)
		}
		for _, text := range texts {
			recs, err := read(t, text, options(t))
			if err != nil || len(recs) != 2 {
				t.Errorf("%q: %d records, %v", text, len(recs), err)
				continue
			}
			var got Reason
			if r := recs[0].Rejected; r != nil {
				got = r.Reason
			}
			if got != c.want || recs[0].Line != 2 {
				t.Errorf("%q: %+v in line %d, want %q", text, recs[0].Rejected, recs[0].Line, c.want)
			}
			if recs[1].Line != 3 || recs[1].Job.Title != "Next" {
				t.Errorf("%q: then %+v", text, recs[1])
			}
		}
	}
}

// TestErrors are files and options that end a reading, and what the message must name.
func TestErrors(t *testing.T) {
	collection := `{"type":"FeatureCollection","features":[` + "\n"
	good := `{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},"properties":{"title":"T"}}`
	for _, c := range []struct {
		name, text string
		m          map[string]string
		line       int // of a SyntaxError; 0: an InvalidError
		want       string
	}{
		{"empty", "", nil, 1, "empty"},
		{"blank", "\ufeff \n\n", nil, 1, "empty"},
		{"words", "just some words", nil, 1, "format is not known"},
		{"other JSON", `{"hits":[]}`, nil, 1, "format is not known"},
		{"XML", "<a>,</a>", nil, 1, "format is not known"},
		{"gzip", "\x1f\x8b\x08,", nil, 1, "compressed"},
		{"UTF-16", "\xff\xfel\x00a\x00,\x00", nil, 1, "UTF-16"},
		{"no coordinates", "id,title\n1,T\n", nil, 0, "--map lat=COLUMN"},
		{"one coordinate", "id,title,lat,remote\n1,T,1,\n", nil, 0, "--map lng=COLUMN"},
		{"no title", "id,lat,lng\n1,1,1\n", nil, 0, "--map title=COLUMN"},
		{"two latitudes", "title,lat,y,lng\nT,1,2,3\n", nil, 0, `"lat" and "y" could all be lat; choose with --map lat=COLUMN`},
		{"same name twice", "title,lat,lng,lng\nT,1,2,3\n", nil, 0, "several columns are named"},
		{"unknown field", "title,lat,lng\n", map[string]string{"latt": "lat"}, 0, `"latt" is not a field`},
		{"unknown column", "title,lat,lng\n", map[string]string{"pay": "lohn"}, 0, `no column "lohn" for pay`},
		{"broken header", "title,\"lat,lng\n", nil, 1, "never closed"},
		{"two properties", collection + good + ",\n" + strings.Replace(good, `"title"`, `"created":"2026-01-01","date":"2026-01-01","title"`, 1) + "]}", nil, 0, "--map posted=COLUMN"},
		{"syntax", collection + good + ",\n{\"type\":\n\"Feature\",,}]}", nil, 4, "not GeoJSON"},
		{"no comma", collection + good + "\n" + good + "]}", nil, 3, "not GeoJSON"},
		{"cut", collection + good + ",\n{\"type\":\"Feat", nil, 3, "ends in the middle"},
		{"cut between", collection + good + ",\n", nil, 3, "ends in the middle"},
		{"cut at the end", collection + good + "\n]", nil, 3, "ends in the middle"},
		{"not an array", `{"type":"FeatureCollection","features":{}}`, nil, 1, "not an array"},
		{"array behind", good + "\n[]", nil, 2, "object is wanted"},
		{"long", collection + good + ",\n{\"type\":\"" + strings.Repeat("x", 3*MaxRecord) + `"}]}`, nil, 2, "more than 1048576 bytes"},
		{"deep", collection + good + ",\n" + strings.Repeat("[", 20_000), nil, 3, "depth"},
	} {
		o := options(t)
		o.Map = c.m
		_, err := read(t, c.text, o)
		var syntax *SyntaxError
		var invalid *store.InvalidError
		switch {
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.line == 0 && !errors.As(err, &invalid):
			t.Errorf("%s: %T is not an InvalidError", c.name, err)
		case c.line > 0 && (!errors.As(err, &syntax) || syntax.Line != c.line):
			t.Errorf("%s: %#v, want line %d", c.name, err, c.line)
		}
	}
}

func TestMap(t *testing.T) {
	o := options(t)
	o.Map = map[string]string{"lat": "breite", "lng": "LÄNGE", "title": "stadt", "category": "stadt", "pay": "", "id": ""}
	recs, err := read(t, "id,Breite, länge ,lat,lng,stadt,pay\n1,50,8,x,x,Mainz,viel\n", o)
	if err != nil || len(recs) != 1 || recs[0].Rejected != nil {
		t.Fatalf("%+v, %v", recs, err)
	}
	j := recs[0].Job
	if j.At != (geo.LatLng{Lat: 50, Lng: 8}) || j.Title != "Mainz" || j.Category != "mainz" || j.Pay.Amount != 0 || !strings.HasPrefix(j.SourceID, "sha256:") {
		t.Errorf("%+v", j)
	}

	o.Map = map[string]string{"title": "name", "lat": "la", "lng": "lo", "pay": "lohn"}
	o.IDs = options(t).IDs
	var m memory
	sum, err := Import(context.Background(), strings.NewReader(
		`{"type":"Feature","id":5,"geometry":null,"properties":{"name":"N","la":"1.5","lo":2,"title":"no"}}`), "x.json", &m, o)
	if err != nil || sum.Added != 1 || sum.Warnings[NoColumn] != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if j := m.jobs[[2]string{"x", "5"}]; j.Title != "N" || j.At != (geo.LatLng{Lat: 1.5, Lng: 2}) {
		t.Errorf("%+v", j)
	}
}

func TestSourceID(t *testing.T) {
	id := func(text string) string {
		t.Helper()
		recs, err := read(t, text, options(t))
		if err != nil || len(recs) != 1 || recs[0].Rejected != nil {
			t.Fatalf("%q: %+v, %v", text, recs, err)
		}
		return recs[0].Job.SourceID
	}
	if got := id("url,title,lat,lng\nhttp://a.example/1,T,1,2\n"); got != "http://a.example/1" {
		t.Error(got)
	}
	a := id("title,lat,lng,zip\nT,1,2,10001\n")
	if b := id("title;lat;lng;zip\r\n\"T\"; 1;2;10001"); a != b {
		t.Errorf("the same content, %s and %s", a, b)
	}
	if b := id("title,lat,lng,zip\nT,1,2,10002\n"); a == b {
		t.Error("other content, the same id")
	}
	if b := id("title,lat,lng,zip\nT,1,21,0001\n"); a == b {
		t.Error("other content, the same id")
	}
	one := `{ "type":"Feature", "properties": {"title":"T"}, "geometry":{"type":"Point","coordinates":[1,2]} }`
	a = id(one)
	if b := id(`{"features":[` + strings.ReplaceAll(one, " ", "\n") + `]}`); a != b {
		t.Errorf("the same feature, %s and %s", a, b)
	}
	if long := id("id,title,lat,lng\n" + strings.Repeat("i", 400) + ",T,1,2\n"); !strings.HasPrefix(long, "sha256:") {
		t.Error(long)
	}
}

func TestDates(t *testing.T) {
	at := time.Date(2026, 1, 31, 8, 30, 0, 0, time.UTC)
	for s, want := range map[string]struct {
		t     time.Time
		zoned bool
	}{
		"2026-01-31T08:30:00Z":          {at, true},
		"2026-01-31T08:30:00.000+00:00": {at, true},
		"2026-01-31T17:30:00+09:00":     {at, true},
		"2026-01-31T17:30:00+0900":      {at, true},
		"2026-01-31 08:30:00+00":        {at, true},
		"2026-01-31 08:30:00 +0000":     {at, true},
		"2026-01-31 08:30:00 UTC":       {at, true},
		"20260131T083000Z":              {at, true},
		"2026-01-31T08:30:00.0000":      {at, false},
		"2026-01-31 08:30:00":           {at, false},
		"2026-01-31T08:30":              {at, false},
		"2026-01-31":                    {at.Truncate(24 * time.Hour), true},
		"20260131":                      {at.Truncate(24 * time.Hour), true},
	} {
		got, zoned, no := date(Posted, s, false)
		if no != nil || !got.Equal(want.t) || zoned != want.zoned {
			t.Errorf("%s: %v, %v, %v", s, got, zoned, no)
		}
	}
	for _, s := range []string{"31.01.2026", "1/31/2026", "1769848200", "2026-13-01", "2026-W05", "soon"} {
		if got, _, no := date(Posted, s, false); no == nil {
			t.Errorf("%s is read as %v", s, got)
		}
	}
}

// TestLines: the line is where a record starts, also behind records of several lines.
func TestLines(t *testing.T) {
	text := "id,title,description,lat,lng\r\n" +
		"2,T,\"one\r\n\r\ntwo \"\"quoted\"\"\",1,2\r\n" +
		"\r\n" +
		"6,T,\"open\n" + // broken: closed by the next line's quote, with text behind it
		"7,T,\"fine\",1,2\n" +
		"8,T,\"a\nb\nc\",1,2\n" +
		"11,T,\"never closed,1,2\n" +
		"12,T,,1,2"
	recs, err := read(t, text, options(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range recs {
		if r.Rejected != nil {
			got = append(got, fmt.Sprintf("%d!", r.Line))
			continue
		}
		got = append(got, fmt.Sprint(r.Line))
		if r.Job.SourceID != fmt.Sprint(r.Line) {
			t.Errorf("record %s is said to be in line %d", r.Job.SourceID, r.Line)
		}
	}
	if s := strings.Join(got, " "); s != "2 6! 7 8 11! 12" {
		t.Error(s)
	}
	if d := recs[0].Job.Description; d != "one\n\ntwo \"quoted\"" {
		t.Errorf("%q", d)
	}
}

// TestUnclosedQuote: a quote that is never closed costs its line, not the file.
func TestUnclosedQuote(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,title,lat,lng\n0,\"T,1,2\n")
	rows := 2*MaxRecord/10 + 1
	for i := range rows {
		fmt.Fprintf(&b, "%d,T,1,2\n", i+1)
	}
	n, rejected := 0, 0
	_, seq, err := Records(iotest.OneByteReader(strings.NewReader(b.String())), "test", options(t))
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		if n++; r.Rejected != nil {
			rejected++
		}
	}
	if n != rows+1 || rejected != 1 {
		t.Errorf("%d records, %d rejected", n, rejected)
	}
}

func rows(n int) string {
	var b strings.Builder
	b.WriteString("id,title,lat,lng\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,T,%d,2\n", i, i%90)
	}
	return b.String()
}

func TestImportAgain(t *testing.T) {
	var m memory
	o := options(t)
	o.Batch = 10
	var seen []Progress
	o.Progress = func(p Progress) { seen = append(seen, p) }
	text := rows(95) + "3,Again,4,5\nbad,,1,1\n"
	sum, err := Import(context.Background(), strings.NewReader(text), "dir/jobs.csv", &m, o)
	if err != nil || sum.Added != 95 || sum.Updated != 1 || sum.Rows != 97 || sum.Batches != 10 ||
		sum.Skipped() != 1 || sum.Rejected[MissingTitle] != 1 || sum.Warnings[NoPosted] != 96 {
		t.Errorf("%+v, %v", sum, err)
	}
	if last := seen[len(seen)-1]; last != (Progress{int64(len(text)), 97}) || len(seen) != 10 {
		t.Errorf("%+v", seen)
	}
	if m.jobs[[2]string{"jobs", "3"}].Title != "Again" {
		t.Error("the later record of one id does not count")
	}
	before := len(m.jobs)
	sum, err = Import(context.Background(), strings.NewReader(text), "other/jobs.csv", &m, o)
	if err != nil || sum.Added != 0 || sum.Updated != 96 || len(m.jobs) != before {
		t.Errorf("again: %+v, %v", sum, err)
	}
	want := "other/jobs.csv (CSV, source jobs): 97 rows, 0 jobs added, 96 updated, 1 rows left out\n" +
		"  left out: 1, missing title\n" +
		"  note: 96, no posting date, so the time of the import was taken\n"
	if sum.String() != want {
		t.Errorf("%s", sum)
	}
}

func TestImportRepeatedInBatch(t *testing.T) {
	var m memory
	sum, err := Import(context.Background(), strings.NewReader("id,title,lat,lng\n1,A,1,2\n1,B,1,2\n2,C,1,2\n"), "-", &m, options(t))
	if err != nil || sum.Added != 2 || sum.Updated != 0 || sum.Warnings[Repeated] != 1 || m.jobs[[2]string{"stdin", "1"}].Title != "B" {
		t.Errorf("%+v, %v, %+v", sum, err, m.jobs)
	}
}

func TestRejectsFile(t *testing.T) {
	var out bytes.Buffer
	o := options(t)
	o.Rejects = NewRejects(&out)
	for _, name := range []string{"a.csv", "b.csv"} {
		text := "id,title,lat,lng\n1,\"x\ny\",0,0\n2,T,1,2\n3,\"T\"\"\",abc,2\n"
		if _, err := Import(context.Background(), strings.NewReader(text), name, &memory{}, o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(got) != 5 {
		t.Fatalf("%q, %v", got, err)
	}
	for i, want := range []string{
		"file|line|reason|detail|record",
		"a.csv|2|0,0 placeholder|0,0 stands for an unknown place|1,\"x\ny\",0,0",
		`a.csv|5|text in a number|lat: "abc" is not a decimal number|3,"T""",abc,2`,
	} {
		if s := strings.Join(got[i], "|"); s != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
	o.Rejects = NewRejects(failing{})
	if _, err := Import(context.Background(), strings.NewReader("id,title,lat,lng\n1,T,0,0\n"), "a.csv", &memory{}, o); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestBrokenOff: whole batches stay, the message says how to go on, and going on does.
func TestBrokenOff(t *testing.T) {
	var b strings.Builder
	b.WriteString("{\"features\":[\n")
	for i := range 25 {
		fmt.Fprintf(&b, `{"type":"Feature","id":%d,"geometry":{"type":"Point","coordinates":[1,2]},"properties":{"title":"T","posted":"2026-01-01"}},`+"\n", i)
	}
	whole := strings.TrimSuffix(b.String(), ",\n") + "]}"
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		src  func() io.Reader
		fail func(int) error
		want string
		is   error
		safe int
	}{
		{"cut", func() io.Reader { return strings.NewReader(b.String()) }, nil,
			"f.json: line 27: the file ends in the middle; 20 jobs up to line 21 are saved; mend the file and run the same command again: it updates what is there and adds the rest", nil, 20},
		{"unreadable", func() io.Reader { return io.MultiReader(strings.NewReader(b.String()), iotest.ErrReader(boom)) }, nil,
			"f.json: line 26: cannot be read: boom; 20 jobs up to line 21 are saved; run the same command again", boom, 20},
		{"refused", func() io.Reader { return strings.NewReader(whole) }, func(call int) error {
			if call == 2 {
				return boom
			}
			return nil
		}, "f.json: line 21: boom; 10 jobs up to line 11 are saved; run the same command again", boom, 10},
		{"busy", func() io.Reader { return strings.NewReader(whole) }, func(call int) error {
			if call > 1 {
				return fmt.Errorf("lock: %w", store.ErrBusy)
			}
			return nil
		}, "f.json: line 21: lock: the database is busy; 10 jobs", store.ErrBusy, 10},
	} {
		m := memory{fail: c.fail}
		o := options(t)
		o.Batch = 10
		sum, err := Import(context.Background(), c.src(), "f.json", &m, o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
		if len(m.jobs) != c.safe || sum.Added != c.safe {
			t.Errorf("%s: %d jobs in the store, %+v", c.name, len(m.jobs), sum)
		}
		m.fail = nil
		if sum, err = Import(context.Background(), strings.NewReader(whole), "f.json", &m, o); err != nil || sum.Updated != c.safe || sum.Added != 25-c.safe {
			t.Errorf("%s, again: %+v, %v", c.name, sum, err)
		}
	}
}

func TestBusyThenFree(t *testing.T) {
	m := memory{fail: func(call int) error {
		if call < tries {
			return store.ErrBusy
		}
		return nil
	}}
	sum, err := Import(context.Background(), strings.NewReader(rows(3)), "f.csv", &m, options(t))
	if err != nil || sum.Added != 3 || m.calls != tries {
		t.Errorf("%+v, %v, %d calls", sum, err, m.calls)
	}
}

func TestCancelled(t *testing.T) {
	for _, at := range []int{0, 10, 13} {
		ctx, cancel := context.WithCancel(context.Background())
		m := memory{}
		o := options(t)
		o.Batch = 10
		n := 0
		o.IDs = idFunc(func() store.ID {
			if n++; n == at {
				cancel()
			}
			return store.ID(n)
		})
		if at == 0 {
			cancel()
		}
		sum, err := Import(ctx, strings.NewReader(rows(100)), "f.csv", &m, o)
		if !errors.Is(err, context.Canceled) || len(m.jobs) != sum.Added || len(m.jobs)%10 != 0 || len(m.jobs) > at {
			t.Errorf("at %d: %+v, %v, %d jobs", at, sum, err, len(m.jobs))
		}
		cancel()
	}
	// A wait for a busy database ends too.
	ctx, cancel := context.WithCancel(context.Background())
	m := memory{fail: func(int) error { cancel(); return store.ErrBusy }}
	o := options(t)
	o.Backoff = time.Hour
	if _, err := Import(ctx, strings.NewReader(rows(1)), "f.csv", &m, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type idFunc func() store.ID

func (f idFunc) Next() store.ID { return f() }

func TestOptions(t *testing.T) {
	for name, want := range map[string]string{"-": "stdin", "": "stdin", "a/b.c.csv": "b.c", "x": "x", "/.csv": ".csv"} {
		var o Options
		if o.EnsureDefaults(name); o.Source != want {
			t.Errorf("%q: source %q", name, o.Source)
		}
	}
	o := Options{Map: map[string]string{"a": "b", "c": "d"}, Source: "nearjob", Batch: -1, Backoff: -1}
	var invalid *store.InvalidError
	if err := o.Validate(); !errors.As(err, &invalid) || len(invalid.Faults) != 6 {
		t.Errorf("want six faults, got %v", err)
	}
	if _, err := Import(context.Background(), strings.NewReader(rows(1)), strings.Repeat("n", 70)+".csv", &memory{}, options(t)); !errors.As(err, &invalid) {
		t.Errorf("a long source: %v", err)
	}
	if _, err := Import(context.Background(), strings.NewReader(rows(1)), "a.csv", &memory{}, Options{Now: now}); !errors.As(err, &invalid) {
		t.Errorf("no ids: %v", err)
	}
}

// TestRealFiles reads what people published; the files are not part of the project.
func TestRealFiles(t *testing.T) {
	open := func(name string) io.Reader {
		f, err := os.Open("../../../shared/data/" + name)
		if errors.Is(err, os.ErrNotExist) {
			t.Skipf("NOT TESTED: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Run("code4lib", func(t *testing.T) {
		var m memory
		sum, err := Import(context.Background(), open("code4lib_jobs.geojson"), "code4lib_jobs.geojson", &m, options(t))
		if err != nil || sum.Added != 2585 || sum.Rows != 2585 || sum.Skipped() != 0 || len(sum.Warnings) != 0 {
			t.Errorf("%+v, %v", sum, err)
		}
		at := map[geo.LatLng]int{}
		most := 0
		for _, j := range m.jobs {
			at[j.At]++
			most = max(most, at[j.At])
		}
		if len(at) != 602 || most != 165 {
			t.Errorf("%d points, %d jobs on one", len(at), most)
		}
	})
	t.Run("us_zip", func(t *testing.T) {
		o := options(t)
		o.Map = map[string]string{"title": "city"}
		var m memory
		sum, err := Import(context.Background(), open("us_zip.csv"), "us_zip.csv", &m, o)
		if err != nil || sum.Rows != 42555 || sum.Rejected[Placeholder] != 306 || sum.Added != 42555-306 || sum.Skipped() != 306 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

func TestStopsEarly(t *testing.T) {
	for _, text := range []string{rows(10), `{"type":"Feature"}{"type":"Feature"}`, `{"features":[{},{}]}`} {
		_, seq, err := Records(strings.NewReader(text), "x", options(t))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range seq {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%q: %d", text, n)
		}
	}
}

// features writes jobs as GeoJSON, for the round trip.
func features(jobs []store.Job, lines bool) string {
	var b strings.Builder
	if !lines {
		b.WriteString(`{"type":"FeatureCollection","features":[` + "\n")
	}
	for i, j := range jobs {
		p := map[string]any{"title": j.Title, "description": j.Description, "url": j.URL, "category": j.Category, "employer": j.Employer,
			"currency": j.Pay.Currency, "pay_per": j.Pay.Per, "posted": j.Posted.Format(time.RFC3339Nano), "remote": j.Remote}
		if j.Pay.Amount != 0 {
			p["pay"] = json.Number(units(j.Pay.Amount))
		}
		if !j.Expires.IsZero() {
			p["expires"] = j.Expires.Format(time.RFC3339Nano)
		}
		var g any
		if !j.Remote {
			g = map[string]any{"type": "Point", "coordinates": []float64{j.At.Lng, j.At.Lat}}
		}
		line, err := json.Marshal(map[string]any{"type": "Feature", "id": j.SourceID, "geometry": g, "properties": p})
		if err != nil {
			panic(err)
		}
		if i > 0 && !lines {
			b.WriteString(",\n")
		} else if i > 0 {
			b.WriteString("\n")
		}
		b.Write(line)
	}
	if !lines {
		b.WriteString("\n]}")
	}
	return b.String()
}

func units(hundredths int64) string { return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100) }
