package storetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// randomQuery returns a valid query that has something to do with the jobs: it
// looks where they are, to edges that are just at one, for what some of them have.
func randomQuery(r *rand.Rand, jobs []store.Job) store.Query {
	var q store.Query
	if r.IntN(6) == 0 {
		box := randomBox(r, jobs)
		q = store.InBox(box)
	} else {
		q.Center = randomCenter(r, jobs)
		q.MinRadius, q.Radius = randomRadii(r, q.Center, jobs)
	}
	q.Filter = randomFilter(r, jobs)
	q.Sort = pick(r, []store.Sort{store.ByDistance, store.ByDistance, store.ByNewest})
	switch r.IntN(4) {
	case 0:
		q.Limit = store.MaxLimit
	case 1:
		q.Limit = 1 + r.IntN(store.MaxLimit)
	default: // log-uniform
		q.Limit = int(math.Exp(r.Float64() * math.Log(store.MaxLimit+0.99)))
	}
	return q
}

// place returns where some job is that has a place.
func somePlace(r *rand.Rand, jobs []store.Job) geo.LatLng {
	for {
		if j := &jobs[r.IntN(len(jobs))]; !j.Remote {
			return j.At
		}
	}
}

func randomCenter(r *rand.Rand, jobs []store.Job) geo.LatLng {
	switch r.IntN(10) {
	case 0:
		return anywhere(r)
	case 1:
		return pick(r, []geo.LatLng{
			{}, {Lat: 90}, {Lat: -90}, {Lat: 90, Lng: 180}, {Lat: -90, Lng: -73.5}, {Lng: 180},
			{Lat: -17, Lng: 180}, {Lat: math.Nextafter(90, 0), Lng: 12}, {Lat: -17, Lng: math.Nextafter(-180, 0)},
		})
	case 2, 3, 4: // just where a job is
		return somePlace(r, jobs)
	case 5: // just opposite
		p := somePlace(r, jobs)
		return geo.LatLng{Lat: 0 - p.Lat, Lng: wrap(p.Lng - 180)}
	}
	p := somePlace(r, jobs)
	spread := math.Pow(10, 1-5*r.Float64()) // degrees
	return geo.LatLng{
		Lat: min(90, max(-90, p.Lat+spread*r.NormFloat64())),
		Lng: wrap(p.Lng + max(-180, min(180, spread*r.NormFloat64()))),
	}
}

// randomRadii returns the edges of a ring, which mostly is a circle.
func randomRadii(r *rand.Rand, center geo.LatLng, jobs []store.Job) (inner, outer float64) {
	radius := func() float64 {
		switch r.IntN(8) {
		case 0: // just to a job
			return center.Distance(somePlace(r, jobs))
		case 1: // just not
			return math.Nextafter(center.Distance(somePlace(r, jobs)), 0)
		}
		// Log-uniform from 0.1 m to half the earth.
		return math.Exp(math.Log(0.1) + r.Float64()*(math.Log(geo.MaxDistance)-math.Log(0.1)))
	}
	switch r.IntN(12) {
	case 0:
		outer = 0
	case 1, 2:
		outer = store.Unlimited
	case 3:
		outer = pick(r, []float64{geo.MaxDistance, 2 * geo.MaxDistance, 1e300, math.SmallestNonzeroFloat64})
	default:
		outer = radius()
	}
	switch r.IntN(6) {
	case 0:
		if inner = radius(); inner > outer {
			if math.IsInf(outer, 1) {
				return outer, outer
			}
			inner, outer = outer, inner
		}
	case 1:
		if r.IntN(5) == 0 && !math.IsInf(outer, 1) {
			inner = outer
		}
	}
	return inner, outer
}

func randomBox(r *rand.Rand, jobs []store.Job) geo.Rect {
	a, b := somePlace(r, jobs), somePlace(r, jobs)
	switch r.IntN(6) {
	case 0: // a point, a meridian or a parallel
		if r.IntN(2) == 0 {
			b.Lat = a.Lat
		}
		if r.IntN(2) == 0 {
			b.Lng = a.Lng
		}
	case 1:
		return pick(r, []geo.Rect{
			{South: -90, West: -180, North: 90, East: 180}, {South: -90, West: 180, North: 90, East: -180},
			{South: -90, West: 0, North: 90, East: 0}, {South: 90, West: -180, North: 90, East: 180},
			{South: -20, West: 179, North: -10, East: -179}, {South: -20, West: -180, North: -10, East: -179},
			{South: -20, West: 180, North: -10, East: -179}, {South: -20, West: 179, North: -10, East: 180},
			{South: -20, West: 179, North: -10, East: -180}, {South: -90, West: 180, North: 90, East: 180},
			{South: -90, West: 10, North: 90, East: 9}, {South: -90, West: -10, North: 90, East: 170},
		})
	case 2, 3: // around a job
		h, w := math.Pow(10, 1-4*r.Float64()), math.Pow(10, 1-4*r.Float64())
		b = geo.LatLng{Lat: min(90, a.Lat+h), Lng: wrap(a.Lng + w)}
		a = geo.LatLng{Lat: max(-90, a.Lat-h), Lng: wrap(a.Lng - w)}
	}
	// With jobs just on the edges, and by chance the long way round.
	return geo.Rect{South: min(a.Lat, b.Lat), West: a.Lng, North: max(a.Lat, b.Lat), East: b.Lng}
}

func randomFilter(r *rand.Rand, jobs []store.Job) (f store.Filter) {
	if r.IntN(3) == 0 {
		return f
	}
	some := func() bool { return r.IntN(3) == 0 }
	j := pick(r, jobs)
	if some() && j.Category != "" {
		f.Categories = []string{j.Category}
		for range r.IntN(3) {
			if c := pick(r, jobs).Category; c != "" {
				f.Categories = append(f.Categories, c)
			}
		}
		if r.IntN(8) == 0 {
			f.Categories = []string{"none has this"}
		}
	}
	if some() {
		f.MinPay = max(0, j.Pay.Amount+int64(r.IntN(3))-1)
	}
	if some() {
		f.PostedAfter = pick(r, jobs).Posted.Add(time.Duration(r.IntN(3)-1) * time.Millisecond / 2)
	}
	if some() {
		f.Employer = j.Employer
	}
	if some() {
		f.Remote = pick(r, []store.Remote{store.RemoteExclude, store.RemoteInclude, store.RemoteInclude, store.RemoteOnly})
	}
	return f
}
