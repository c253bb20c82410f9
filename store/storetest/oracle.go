// Package storetest is what every engine and every search strategy must pass.
//
// [Conformance] holds an engine to each promise of package store's interfaces.
// [Equivalence] loads the same jobs into several engines, asks every strategy of
// store/search on each of them thousands of random questions, and compares every
// page with an oracle that looks at every job. [Nodes] starts several nodes on
// one database.
//
// A new engine is tested by handing it to these from a test in this folder; a
// new strategy is tested by being listed in search.Strategies.
//
// The package imports no engine, and only tests import it. The oracle shares
// geo.LatLng.Distance and geo.Rect.Contains with the product and nothing else:
// those two are tested in package geo, against other formulas.
//
// Known limits: the suite does not kill processes or cut connections, and it
// does not measure time; the engines' own tests and the benchmark here do.
package storetest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Oracle returns every hit of a query among jobs, in the order of the answer,
// by looking at each job: all pages together. It ignores the query's Limit, Cursor and
// Strategy, and takes its other fields as they are, so they must be valid.
func Oracle(jobs []store.Job, q store.Query, now time.Time) []store.Found {
	var hits []store.Found
	for _, j := range jobs {
		if passes(&j, &q.Filter, now) {
			if d, in := inArea(&j, &q); in {
				hits = append(hits, store.Found{Job: j, Distance: d})
			}
		}
	}
	slices.SortFunc(hits, func(a, b store.Found) int {
		if q.Sort == store.ByNewest {
			return cmp.Or(b.Job.Posted.Compare(a.Job.Posted), cmp.Compare(b.Job.ID, a.Job.ID))
		}
		// A remote job is infinitely far, so it comes last.
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	return hits
}

// passes says whether a job is open and wanted, wherever it is.
func passes(j *store.Job, f *store.Filter, now time.Time) bool {
	switch {
	case j.State != store.Open:
		return false
	case !j.Expires.IsZero() && !j.Expires.After(now):
		return false
	case j.Remote && f.Remote != store.RemoteInclude && f.Remote != store.RemoteOnly:
		return false
	case !j.Remote && f.Remote == store.RemoteOnly:
		return false
	case len(f.Categories) > 0 && !slices.Contains(f.Categories, j.Category):
		return false
	case j.Pay.Amount < f.MinPay:
		return false
	case !f.PostedAfter.IsZero() && !j.Posted.After(f.PostedAfter):
		return false
	case f.Employer != "" && j.Employer != f.Employer:
		return false
	}
	return true
}

// inArea says whether a job is where the query looks, and how far away. A remote
// job is nowhere, and no area leaves it out.
func inArea(j *store.Job, q *store.Query) (metres float64, in bool) {
	if j.Remote {
		return math.Inf(1), true
	}
	d := q.Center.Distance(j.At)
	if q.Box != nil {
		return d, q.Box.Contains(j.At)
	}
	return d, q.MinRadius <= d && d <= q.Radius
}
