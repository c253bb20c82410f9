package mysql

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// edgePoints are points where boxes like to go wrong: on poles, meridians and
// corners, and where |lng| < 90, so that swapped axes stay in range.
func edgePoints(r *rand.Rand) []geo.LatLng {
	lats := []float64{-90, math.Nextafter(-90, 0), -45.5, 0, 12.25, 45.5, math.Nextafter(90, 0), 90}
	lngs := []float64{math.Nextafter(-180, 0), -179.5, -90, -12.25, 0, 45.5, 90, 135.75, math.Nextafter(180, 0), 180}
	var all []geo.LatLng
	for _, lat := range lats {
		for _, lng := range lngs {
			all = append(all, geo.LatLng{Lat: lat, Lng: lng})
		}
	}
	for range 400 {
		all = append(all, geo.LatLng{Lat: r.Float64()*180 - 90, Lng: r.Float64()*360 - 180})
	}
	return all
}

// TestBoxes checks, for boxes whose edges run through stored points, that the
// two indexes of boxes return exactly the points inside, edges included.
func TestBoxes(t *testing.T) {
	e := open(t, Options{})
	r := rand.New(rand.NewPCG(3, 4))
	points := edgePoints(r)
	jobs := make([]store.Job, len(points))
	for i, p := range points {
		jobs[i] = job(t, i+1, p)
	}
	save(t, e, jobs...)

	boxes := []geo.Rect{
		{South: -90, West: -180, North: 90, East: 180},
		{South: 0, West: -180, North: 90, East: 180},
		{South: 90, West: -180, North: 90, East: 180},
		{South: -90, West: -180, North: -90, East: 180},
		{South: 12.25, West: -90, North: 45.5, East: 90}, // 180 degrees wide
		{South: -45.5, West: -179.5, North: 45.5, East: 180},
		{South: -90, West: 180, North: 90, East: 180},
		{South: -90, West: -180, North: 90, East: -180},
		{South: -90, West: 135.75, North: 90, East: -90}, // over the antimeridian
	}
	for len(boxes) < 250 {
		a, b := points[r.IntN(len(points))], points[r.IntN(len(points))]
		box := geo.Rect{South: min(a.Lat, b.Lat), West: min(a.Lng, b.Lng), North: max(a.Lat, b.Lat), East: max(a.Lng, b.Lng)}
		switch r.IntN(6) {
		case 0: // a point
			box = geo.Rect{South: a.Lat, West: a.Lng, North: a.Lat, East: a.Lng}
		case 1: // a piece of a parallel
			box.North = box.South
		case 2: // a piece of a meridian
			box.East = box.West
		}
		boxes = append(boxes, box)
	}
	for _, box := range boxes {
		var want []store.ID
		for _, j := range jobs {
			if box.Contains(j.At) {
				want = append(want, j.ID)
			}
		}
		for _, index := range []store.Index{store.IndexLatLng, store.IndexSpatial} {
			for _, force := range []bool{false, true} {
				a := store.Access{Index: index, Rects: []geo.Rect{box}, Match: store.Match{OpenAt: now}, Force: force}
				if got := ids(read(t, e, a)); !slices.Equal(got, want) {
					t.Errorf("%s force=%v %+v: %d points, want %d", index, force, box, len(got), len(want))
				}
			}
		}
	}
}

// ids returns the ids of candidates in order.
func ids(cs []store.Candidate) []store.ID {
	var all []store.ID
	for _, c := range cs {
		all = append(all, c.ID)
	}
	slices.Sort(all)
	return all
}

// TestNear checks the prefilter by distance against geo, away from its edges by
// a millimetre, and the order.
func TestNear(t *testing.T) {
	e := open(t, Options{})
	r := rand.New(rand.NewPCG(5, 6))
	points := edgePoints(r)
	jobs := make([]store.Job, len(points))
	for i, p := range points {
		jobs[i] = job(t, i+1, p)
	}
	save(t, e, jobs...)
	earth := []geo.Rect{{South: -90, West: -180, North: 90, East: 180}}
	for range 40 {
		c, far := points[r.IntN(len(points))], points[r.IntN(len(points))]
		// Exactly as far as a point: it must not be lost to a margin of 1 mm.
		near := geo.Ring{Center: c, Inner: max(0, c.Distance(points[0])-1e-3), Outer: c.Distance(far) + 1e-3}
		if near.Inner > near.Outer {
			near.Inner = 0
		}
		byID := map[store.ID]float64{}
		var want []store.ID
		for _, j := range jobs {
			d := c.Distance(j.At)
			byID[j.ID] = d
			if near.Inner <= d && d <= near.Outer {
				want = append(want, j.ID)
			}
		}
		for _, index := range []store.Index{store.NoIndex, store.IndexLatLng, store.IndexSpatial} {
			a := store.Access{Index: index, Rects: earth, Near: &near, Match: store.Match{OpenAt: now}, Order: store.NearestFirst}
			all := read(t, e, a)
			if got := ids(all); !slices.Equal(got, want) {
				t.Errorf("%s %+v: %d points, want %d", index, near, len(got), len(want))
			}
			for i := 1; i < len(all); i++ {
				// Near the antipode the haversine is off by centimetres.
				if byID[all[i].ID] < byID[all[i-1].ID]-0.2 {
					t.Errorf("%s %+v: %v m after %v m", index, near, byID[all[i].ID], byID[all[i-1].ID])
				}
			}
			a.Limit = 7
			if got := len(read(t, e, a)); got != min(7, len(want)) {
				t.Errorf("%s: %d rows with limit 7", index, got)
			}
		}
	}
}

// TestDoubles checks that coordinates of any bit pattern come back as they were,
// and are found by a box of exactly that point.
func TestDoubles(t *testing.T) {
	e := open(t, Options{})
	r := rand.New(rand.NewPCG(7, 8))
	coordinate := func(most float64) float64 {
		for {
			if v := math.Float64frombits(r.Uint64()); math.Abs(v) <= most {
				return v
			}
			if r.IntN(2) == 0 {
				return (r.Float64()*2 - 1) * most
			}
		}
	}
	var jobs []store.Job
	for i := range 500 {
		p, err := geo.NewLatLng(coordinate(90), coordinate(180))
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job(t, i+1, p))
	}
	jobs = append(jobs, job(t, 501, geo.LatLng{Lat: math.SmallestNonzeroFloat64, Lng: -math.SmallestNonzeroFloat64}))
	save(t, e, jobs...)
	check := func(how string, got []store.Candidate) {
		t.Helper()
		if len(got) == 0 {
			t.Errorf("%s: nothing found", how)
		}
		for _, c := range got {
			want := jobs[c.ID-1].At
			if math.Float64bits(c.At.Lat) != math.Float64bits(want.Lat) || math.Float64bits(c.At.Lng) != math.Float64bits(want.Lng) {
				t.Errorf("%s: job %v is at %b, want %b", how, c.ID, c.At, want)
			}
		}
	}
	a := store.Access{Index: store.NoIndex, Match: store.Match{OpenAt: now}}
	all := read(t, e, a)
	check("scan", all)
	if len(all) != len(jobs) {
		t.Errorf("%d rows, want %d", len(all), len(jobs))
	}
	records, err := e.Jobs(t.Context(), ids(all))
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range records {
		if want := jobs[j.ID-1]; j != want {
			t.Errorf("record is %+v, want %+v", j, want)
		}
	}
	for _, j := range jobs {
		rect := geo.Rect{South: j.At.Lat, West: j.At.Lng, North: j.At.Lat, East: j.At.Lng}
		for _, index := range []store.Index{store.IndexLatLng, store.IndexSpatial} {
			a := store.Access{Index: index, Match: a.Match, Rects: []geo.Rect{rect}}
			got := read(t, e, a)
			if len(got) != 1 || got[0].ID != j.ID {
				t.Errorf("%s: box of the point %v found %v", index, j.At, got)
			}
		}
		// As text, which long statements are sent as.
		a := store.Access{Index: store.IndexLatLng, Match: a.Match, Rects: slices.Repeat([]geo.Rect{rect}, maxPreparedArgs/5+1)}
		if got := read(t, e, a); len(got) != maxPreparedArgs/5+1 {
			t.Errorf("as text: box of the point %v found %d times", j.At, len(got))
		} else {
			check("text", got)
		}
	}
}
