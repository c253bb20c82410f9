package api_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nearjob/nearjob/store"
)

// fields lists the fields that a problem names.
func fields(t *testing.T, h http.Handler, target string) []string {
	t.Helper()
	w := get(h, target)
	if w.Code == http.StatusOK {
		t.Errorf("%s: no fault found", target)
		return nil
	}
	p := wantProblem(t, w, http.StatusUnprocessableEntity)
	var out []string
	for _, e := range p.Errors {
		if e.Reason == "" {
			t.Errorf("%s: no reason for %s", target, e.Field)
		}
		out = append(out, e.Field)
	}
	return out
}

func TestBadParameters(t *testing.T) {
	h := server(t, nil)
	const near, box = "/v1/jobs/nearby?lat=1&lng=2", "/v1/jobs/in-box?west=1&south=2&east=3&north=4"
	notNumbers := []string{"", "%20", "x", "NaN", "nan", "Inf", "-Inf", "infinity", "0x1p3", "0x10", "1_0", "1,5", "1.", ".5", "%2B1", "1e", "1e999", "--1", "1%202", "1%00", "٣"}

	check := func(target, field string) {
		t.Helper()
		if got := fields(t, h, target); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: faults in %q, want %s alone", target, got, field)
		}
	}
	without := func(target, field string) string { // the target without a parameter
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Del(field)
		return u.Path + "?" + q.Encode()
	}
	bad := func(target, field string, values ...string) {
		t.Helper()
		for _, v := range values {
			check(without(target, field)+"&"+field+"="+v, field)
		}
		check(without(target, field)+"&"+field+"=1&"+field+"=1", field) // repeated
	}
	for _, field := range []string{"lat", "lng", "radius_m", "min_radius_m"} {
		bad(near, field, notNumbers...)
	}
	for _, field := range []string{"west", "south", "east", "north"} {
		bad(box, field, notNumbers...)
		check(without(box, field), field)
	}
	check(without(near, "lat"), "lat")
	check(without(near, "lng"), "lng")
	bad(near, "lat", "90.0000001", "-91", "1e9", "-1e300")
	bad(near, "lng", "180.0000001", "-181", "360")
	bad(near, "radius_m", "-1", "-0.0001", "-1e300")
	bad(near, "min_radius_m", "-1")
	bad(near+"&radius_m=10", "min_radius_m", "10.001", "1e300")
	bad(box, "south", "-90.1", "4.1")
	bad(box, "north", "90.1")
	bad(box, "west", "-180.1", "181")
	bad(box, "east", "-180.1", "181")
	for _, target := range []string{near, box} {
		bad(target, "limit", "", "0", "-1", "201", "1.5", "1e1", "x", "0x10", "99999999999999999999")
		bad(target, "min_pay", "", "-1", "-0.01", "1.234", "5000.005", "123456789.125", "1e3", "1000000000000.01", "9999999999999", "NaN", "x", "12.", ".5")
		bad(target, "posted_after", "", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00+01:00", "2026-02-30T12:00:00Z", "2026-01-31T25:00:00Z", "2026-01-31T1:00:00Z", "2026-01-31T12:00:00,5Z", "1769860800")
		bad(target, "remote", "", "yes", "EXCLUDE", "include,only")
		bad(target, "sort", "", "pay", "Newest")
		bad(target, "strategy", "", "quadtree", "s2%20", "S2")
		bad(target, "explain", "", "1", "yes", "TRUE")
		bad(target, "employer", "", "%20", "%00", "%ff", strings.Repeat("x", store.MaxEmployer+1))
		bad(target, "cursor", "", "x", "abc!", "%00", strings.Repeat("A", 10_000), "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		for _, v := range []string{"category=", "category=a&category=", "category=%20", "category=%ff", "category=" + strings.Repeat("x", store.MaxCategory+1), strings.Repeat("category=a&", 21)} {
			check(target+"&"+v, "category")
		}
		for _, v := range []string{"radius", "Lat", "lat%20", "page", "%E2%82%AC", strings.Repeat("n", 40)} {
			name, _ := url.QueryUnescape(v)
			check(target+"&"+v+"=1", name)
		}
		for _, v := range []string{"&x=%zz", "&a;b", "&%"} {
			if got := fields(t, h, target+v); !slices.Contains(got, "query") {
				t.Errorf("%s%s: faults in %q, want query", target, v, got)
			}
		}
	}
	check("/v1/jobs/in-box?west=1&south=2&east=3&north=4&lat=1", "lat")
	check(near+"&west=1", "west")
}

func TestForeignCursor(t *testing.T) {
	h := server(t, nil)
	const target = "/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=100&limit=5"
	next := "&cursor=" + *find(t, h, target).NextCursor
	if a := find(t, h, target+next); len(a.Jobs) != 5 {
		t.Fatalf("own cursor: %+v", a)
	}
	for _, other := range []string{
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=101",
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006",
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=100&sort=newest",
		"/v1/jobs/nearby?lat=40.7143&lng=-74.006&radius_m=100&remote=include",
		"/v1/jobs/in-box?west=-75&south=40&east=-74&north=41",
	} {
		if got := fields(t, h, other+next); !slices.Equal(got, []string{"cursor"}) {
			t.Errorf("%s: faults in %q", other, got)
		}
	}
}

// TestAllFaultsAtOnce mixes faults of every kind that is found in a different place.
func TestAllFaultsAtOnce(t *testing.T) {
	h := server(t, nil)
	got := fields(t, h, "/v1/jobs/nearby?lat=91&lng=x&radius_m=-1&min_radius_m=NaN&limit=0&min_pay=1.234&posted_after=now"+
		"&remote=maybe&sort=up&strategy=luck&explain=2&cursor=!&category=&employer=a&employer=b&radius=5&zoom=3")
	want := []string{"category", "cursor", "employer", "explain", "lat", "limit", "lng", "min_pay", "min_radius_m",
		"posted_after", "radius", "radius_m", "remote", "sort", "strategy", "zoom"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	got = fields(t, h, "/v1/jobs/in-box?west=181&south=91&east=x&limit=999&remote=x")
	want = []string{"east", "limit", "north", "remote", "south", "west"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestManyUnknown bounds the answer to thousands of unknown parameters.
func TestManyUnknown(t *testing.T) {
	h := server(t, nil)
	var b strings.Builder
	for i := range 5000 {
		b.WriteString("&")
		b.WriteString(strings.Repeat("z", i%7+1))
		b.WriteByte(byte('a' + i%26))
	}
	w := get(h, "/v1/jobs/nearby?lat=1&lng=1"+b.String())
	wantProblem(t, w, http.StatusUnprocessableEntity)
	if w.Body.Len() > 8<<10 {
		t.Errorf("an answer of %d bytes", w.Body.Len())
	}
}

// FuzzQuery looks for a query string that ends in a panic or a 500, or that
// reaches the search in a form that the domain refuses.
// Run: go test -fuzz FuzzQuery ./api
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"", "lat=0&lng=0", "lat=1e999&lng=0x1", "lat=%zz;", "category=a&category=b&category=", "cursor=AAAA&limit=0", "&&=&=1",
		"west=179&south=-1&east=-179&north=1&sort=newest&remote=only", "explain", "lat&lng=1", "posted_after=2026-01-01T00:00:00Z&min_pay=12.50",
	} {
		f.Add(q, "")
		f.Add(q, "a;q,b")
	}
	h := fakeAPI(fake{find: func(_ context.Context, q store.Query) (store.Page, error) {
		err := q.Normalize()
		if err != nil {
			panic(err)
		}
		return store.Page{}, nil
	}}, nil)
	f.Fuzz(func(t *testing.T, query, accept string) {
		for _, path := range []string{"/v1/jobs/nearby", "/v1/jobs/in-box"} {
			w := get(h, path+"?"+query, "Accept", accept)
			switch w.Code {
			case http.StatusOK, http.StatusForbidden, http.StatusUnprocessableEntity:
			default:
				t.Errorf("%s?%q: %d %s", path, query, w.Code, w.Body)
			}
			if !utf8.Valid(w.Body.Bytes()) {
				t.Errorf("%s?%q: an answer that is not UTF-8", path, query)
			}
		}
	})
}
