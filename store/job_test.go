package store_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// fields returns the fields of an InvalidError, sorted.
func fields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("%v is not an InvalidError", err)
	}
	var names []string
	for _, f := range invalid.Faults {
		if f.Reason == "" {
			t.Errorf("%s has no reason", f.Field)
		}
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return names
}

func goodJob() store.Job {
	return store.Job{ID: 5, Title: "Walk the dog", Posted: time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("", 3600))}
}

func TestNormalizeFillsIn(t *testing.T) {
	j := goodJob()
	j.Title, j.Category, j.Employer = "  Walk \n the\tdog ", " Pet  Care", "김 철수"
	j.Description = " two\nlines \n"
	j.At = geo.LatLng{Lat: math.Copysign(0, -1), Lng: -180}
	j.Pay = store.Pay{Amount: 100, Currency: "krw", Per: " Hour"}
	j.Expires = j.Posted.Add(time.Hour)
	if err := j.Normalize(); err != nil {
		t.Fatal(err)
	}
	want := store.Job{
		ID: 5, Source: "nearjob", SourceID: "5", State: store.Open,
		Title: "Walk the dog", Category: "pet care", Employer: "김 철수", Description: "two\nlines",
		At: geo.LatLng{Lng: 180}, Pay: store.Pay{Amount: 100, Currency: "KRW", Per: "hour"},
		Posted: time.Date(2026, 1, 2, 2, 4, 5, 6e6, time.UTC), Expires: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
	}
	if !reflect.DeepEqual(j, want) || math.Signbit(j.At.Lat) {
		t.Errorf("got  %+v\nwant %+v", j, want)
	}
	again := j
	if err := again.Normalize(); err != nil || !reflect.DeepEqual(again, j) {
		t.Errorf("normalizing again changed it: %+v, %v", again, err)
	}
	j.Remote = true
	if err := j.Normalize(); err != nil || j.At != (geo.LatLng{}) {
		t.Errorf("a remote job is at %v, %v", j.At, err)
	}
}

func TestNormalizeRefusesWithEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*store.Job)
		want   []string
	}{
		"nothing":       {func(*store.Job) {}, nil},
		"no title":      {func(j *store.Job) { j.Title = " \n " }, []string{"title"}},
		"long title":    {func(j *store.Job) { j.Title = strings.Repeat("é", store.MaxTitle+1) }, []string{"title"}},
		"longest title": {func(j *store.Job) { j.Title = strings.Repeat("é", store.MaxTitle) }, nil},
		"not UTF-8":     {func(j *store.Job) { j.Employer = "\xff" }, []string{"employer"}},
		"control":       {func(j *store.Job) { j.Category = "a\x00b"; j.Description = "\x1b[2J" }, []string{"category", "description"}},
		"NaN":           {func(j *store.Job) { j.At.Lat = math.NaN() }, []string{"lat"}},
		"infinite":      {func(j *store.Job) { j.At.Lng = math.Inf(-1) }, []string{"lng"}},
		"beyond a pole": {func(j *store.Job) { j.At.Lat = math.Nextafter(90, 91) }, []string{"lat"}},
		"pay":           {func(j *store.Job) { j.Pay = store.Pay{Amount: -1, Currency: "EURO", Per: "moon"} }, []string{"currency", "pay", "pay_per"}},
		"never posted":  {func(j *store.Job) { j.Posted = time.Time{} }, []string{"posted"}},
		"long ago":      {func(j *store.Job) { j.Posted = time.UnixMilli(-1) }, []string{"posted"}},
		"far future":    {func(j *store.Job) { j.Expires = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, []string{"expires"}},
		"no id":         {func(j *store.Job) { j.ID = 0 }, []string{"id"}},
		"many":          {func(j *store.Job) { j.ID, j.Title, j.At.Lat = -1, "", 91 }, []string{"id", "lat", "title"}},
	} {
		j := goodJob()
		c.change(&j)
		if got := fields(t, j.Normalize()); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %v, want %v", name, got, c.want)
		}
	}
}

func TestHundredths(t *testing.T) {
	for units, want := range map[float64]int64{0: 0, 0.01: 1, 12.5: 1250, 0.29: 29, 1.15: 115, 4.35: 435, 5000.01: 500001, 999_999_999_999.99: 99_999_999_999_999, 1e12: store.MaxPay} {
		if got, ok := store.Hundredths(units); !ok || got != want {
			t.Errorf("%v: got %d, %v, want %d", units, got, ok, want)
		}
	}
	for _, units := range []float64{-0.01, 0.001, 5000.005, 12.345, math.Nextafter(12.5, 13), 1e12 + 1, math.NaN(), math.Inf(1)} {
		if got, ok := store.Hundredths(units); ok {
			t.Errorf("%v is taken for %d hundredths", units, got)
		}
	}
	// Every amount comes back from its units.
	for h := int64(0); h <= store.MaxPay; h += h/7 + 1 {
		if got, ok := store.Hundredths(store.Pay{Amount: h}.Units()); !ok || got != h {
			t.Fatalf("%d hundredths came back as %d, %v", h, got, ok)
		}
	}
}

func TestExpiryRoundTrip(t *testing.T) {
	for _, want := range []time.Time{{}, time.UnixMilli(0).UTC(), time.UnixMilli(1_790_000_000_123).UTC()} {
		if got := store.ExpiryTime(store.ExpiryMillis(want)); !got.Equal(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestParseID(t *testing.T) {
	for _, good := range []string{"1", "9223372036854775807"} {
		id, err := store.ParseID(good)
		if err != nil || id.String() != good {
			t.Errorf("%s: %v, %v", good, id, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "+1", "01", " 1", "1.0", "1e3", "0x1", "9223372036854775808", "abc"} {
		if id, err := store.ParseID(bad); err == nil {
			t.Errorf("%q is read as %v", bad, id)
		}
	}
	var v struct{ ID store.ID }
	if err := json.Unmarshal([]byte(`{"ID":"9007199254740993"}`), &v); err != nil || v.ID != 9007199254740993 {
		t.Errorf("%v, %v", v, err)
	}
	if b, err := json.Marshal(v); err != nil || string(b) != `{"ID":"9007199254740993"}` {
		t.Errorf("%s, %v", b, err)
	}
}

// Ids grow, whatever the clock does, and nodes do not meet.
func TestIDs(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	a, err := store.NewIDs(clock, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.NewIDs(clock, store.MaxNode)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[store.ID]bool{}
	last := store.ID(0)
	for i := range 20_000 {
		switch i {
		case 9000:
			now = now.Add(-time.Hour)
		case 12_000:
			now = now.Add(2 * time.Hour)
		}
		for _, s := range []*store.IDs{a, b} {
			id := s.Next()
			if seen[id] || id <= 0 {
				t.Fatalf("id %d is repeated or not positive", id)
			}
			seen[id] = true
			if s == a {
				if id <= last {
					t.Fatalf("%d comes after %d", id, last)
				}
				last = id
			}
		}
	}
	if _, err := store.NewIDs(clock, store.MaxNode+1); err == nil {
		t.Error("a node number that is too large is taken")
	}
	if s, err := store.NewIDs(clock, -1); err != nil || s.Next() <= 0 {
		t.Errorf("a random node: %v", err)
	}
}
