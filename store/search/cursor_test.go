package search

import (
	"encoding/base64"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

func normalized(t *testing.T, q store.Query) *store.Query {
	t.Helper()
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	return &q
}

func TestCursorRoundTrip(t *testing.T) {
	for _, by := range []store.Sort{store.ByDistance, store.ByNewest} {
		q := normalized(t, store.Query{Center: geo.LatLng{Lat: 1, Lng: 2}, Radius: 1000, Sort: by})
		for _, want := range []cursor{
			{key{distance: 0, id: 1}, 1},
			{key{distance: math.Nextafter(123.456, 0), id: math.MaxInt64}, 200},
			{key{distance: math.Inf(1), id: 7}, math.MaxInt32},
			{key{posted: 1_700_000_000_123, id: 7}, 3},
		} {
			if by == store.ByNewest {
				want.distance = 0
			} else {
				want.posted = 0
			}
			q.Cursor = want.encode(q)
			got, err := decodeCursor(q)
			if err != nil {
				t.Fatal(err)
			}
			if *got != want {
				t.Errorf("by %s: got %+v, want %+v", by, *got, want)
			}
		}
	}
}

func TestCursorOfAnotherQueryIsRefused(t *testing.T) {
	base := store.Query{Center: geo.LatLng{Lat: 1, Lng: 2}, Radius: 1000, Limit: 10}
	c := cursor{key{distance: 5, id: 9}, 10}.encode(normalized(t, base))

	same := base
	same.Limit, same.Strategy, same.Cursor = 50, "bbox", c
	if _, err := decodeCursor(normalized(t, same)); err != nil {
		t.Errorf("limit and strategy may change, but: %v", err)
	}
	box := geo.Rect{South: 0, West: 1, North: 2, East: 3}
	for name, change := range map[string]func(*store.Query){
		"lat":          func(q *store.Query) { q.Center.Lat = math.Nextafter(1, 2) },
		"lng":          func(q *store.Query) { q.Center.Lng = -2 },
		"radius":       func(q *store.Query) { q.Radius = 1001 },
		"no radius":    func(q *store.Query) { q.Radius = store.Unlimited },
		"min radius":   func(q *store.Query) { q.MinRadius = 1 },
		"sort":         func(q *store.Query) { q.Sort = store.ByNewest },
		"category":     func(q *store.Query) { q.Filter.Categories = []string{"moving"} },
		"min pay":      func(q *store.Query) { q.Filter.MinPay = 1 },
		"posted after": func(q *store.Query) { q.Filter.PostedAfter = time.UnixMilli(1) },
		"employer":     func(q *store.Query) { q.Filter.Employer = "x" },
		"remote":       func(q *store.Query) { q.Filter.Remote = store.RemoteInclude },
		"box":          func(q *store.Query) { *q = store.InBox(box); q.Sort = store.ByDistance },
	} {
		q := base
		change(&q)
		q.Cursor = c
		_, err := decodeCursor(normalized(t, q))
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) || invalid.Faults[0].Field != "cursor" {
			t.Errorf("another %s: got %v, want a fault of cursor", name, err)
		}
	}
}

// Run with: go test -fuzz=FuzzDecodeCursor ./store/search
func FuzzDecodeCursor(f *testing.F) {
	q := store.Query{Center: geo.LatLng{Lat: 1, Lng: 2}, Radius: 1000}
	if err := q.Normalize(); err != nil {
		f.Fatal(err)
	}
	good := cursor{key{distance: 5, id: 9}, 10}.encode(&q)
	raw, _ := base64.RawURLEncoding.DecodeString(good)
	for i := range raw {
		bent := append([]byte(nil), raw...)
		bent[i] ^= 0xff
		f.Add(base64.RawURLEncoding.EncodeToString(bent))
	}
	f.Add(good)
	f.Add(good + "A")
	f.Add("%%%")
	f.Fuzz(func(t *testing.T, s string) {
		q := q
		q.Cursor = s
		c, err := decodeCursor(&q)
		if err != nil {
			var invalid *store.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%q: %v is not an InvalidError", s, err)
			}
			return
		}
		if c != nil && (c.encode(&q) != s || !(c.distance >= 0) || c.id <= 0) {
			t.Fatalf("%q was read as %+v, which prints as %q", s, *c, c.encode(&q))
		}
	})
}
