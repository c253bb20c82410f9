package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/storetest"
)

// memory is an engine that reads every job for each access. It is for tests: it
// follows the words of store.Access as plainly as can be.
type memory struct {
	mu       sync.RWMutex
	migrated bool
	jobs     map[store.ID]store.Job
	names    map[[2]string]store.ID
	rows     map[store.ID]*row // the search tables
}

// TestMemory runs the suites on an engine that does by the words of
// store.Access what the others do in SQL: it tests the suites themselves, and the
// strategies with many more queries.
func TestMemory(t *testing.T) {
	open := func(*testing.T) store.Engine { return newMemory() }
	t.Run("Conformance", func(t *testing.T) { storetest.Conformance(t, open) })
	load := storetest.Load{Rows: 600, Queries: 600, Pages: 12}
	if testing.Short() {
		load.Queries = 100
	}
	t.Run("Equivalence", func(t *testing.T) {
		storetest.Equivalence(t, map[string]func(*testing.T) store.Engine{"memory": open}, load)
	})
}

// row is an open job with its cell numbers.
type row struct {
	store.Candidate
	remote  bool
	numbers map[store.Index]int64
}

var _ store.Engine = (*memory)(nil)

func newMemory() *memory {
	return &memory{jobs: map[store.ID]store.Job{}, names: map[[2]string]store.ID{}, rows: map[store.ID]*row{}}
}

func (m *memory) Name() string { return "memory" }
func (m *memory) Close() error { return nil }

func (m *memory) Migrate(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.migrated = true
	return ctx.Err()
}

func (m *memory) Ready(ctx context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.migrated {
		return errors.New("not migrated")
	}
	return ctx.Err()
}

func (m *memory) Count(ctx context.Context) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.jobs), ctx.Err()
}

func (m *memory) Jobs(ctx context.Context, ids []store.ID) (jobs []store.Job, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, id := range ids {
		if j, ok := m.jobs[id]; ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, ctx.Err()
}

func (m *memory) Save(ctx context.Context, jobs []store.Job) (saved store.Saved, err error) {
	if err := ctx.Err(); err != nil {
		return saved, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := make(map[[2]string]store.Job)
	for _, j := range jobs {
		last[[2]string{j.Source, j.SourceID}] = j
	}
	added := make(map[store.ID]bool)
	for name, j := range last {
		if _, known := m.names[name]; known {
			continue
		}
		if _, taken := m.jobs[j.ID]; taken || added[j.ID] {
			return saved, fmt.Errorf("job %s: %w", j.ID, store.ErrDuplicate)
		}
		added[j.ID] = true
	}
	for name, j := range last {
		if id, known := m.names[name]; known {
			old := m.jobs[id]
			j.ID, j.State, j.Requester, j.Version = id, old.State, old.Requester, old.Version
			if j != old {
				j.Version++
			}
			saved.Updated++
		} else {
			saved.Added++
		}
		m.names[name] = j.ID
		m.put(j)
	}
	return saved, nil
}

// put stores a job and brings the search tables in line.
func (m *memory) put(j store.Job) {
	m.jobs[j.ID] = j
	delete(m.rows, j.ID)
	if j.State != store.Open {
		return
	}
	r := &row{remote: j.Remote, Candidate: store.Candidate{
		ID: j.ID, At: j.At, Category: j.Category, Employer: j.Employer,
		Pay: j.Pay.Amount, Posted: store.Millis(j.Posted), Expires: store.ExpiryMillis(j.Expires),
	}}
	if !j.Remote {
		r.numbers = map[store.Index]int64{
			store.IndexGeohash: cell.Geohash.Index(j.At),
			store.IndexH3:      cell.H3.Index(j.At),
			store.IndexS2:      cell.S2.Index(j.At),
		}
	}
	m.rows[j.ID] = r
}

func (m *memory) Move(ctx context.Context, id store.ID, from, to store.State) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j, ok := m.jobs[id]
	switch {
	case !ok:
		return fmt.Errorf("job %s: %w", id, store.ErrNotFound)
	case j.State != from:
		return &store.StateError{ID: id, Is: j.State, Want: from}
	}
	if from != to {
		j.Version++
	}
	j.State = to
	m.put(j)
	return nil
}

func (m *memory) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	if _, err := m.read(a); err != nil {
		return nil, err
	}
	return []store.Statement{{SQL: "SELECT", Args: []any{a.Match.OpenAt}, Plan: "read every job"}}, ctx.Err()
}

func (m *memory) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	rows, err := m.read(a)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(rows, 256) {
		if err := yield(some); err != nil {
			return 1, err
		}
	}
	return 1, nil
}

func (m *memory) read(a store.Access) ([]store.Candidate, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	isCell := a.Index == store.IndexGeohash || a.Index == store.IndexH3 || a.Index == store.IndexS2
	switch a.Index {
	case store.NoIndex, store.IndexLatLng, store.IndexSpatial, store.IndexRemote:
	default:
		if !isCell {
			return nil, fmt.Errorf("memory: no index %q", a.Index)
		}
	}
	if isCell && a.Window != nil {
		return m.window(a), nil
	}
	var found []store.Candidate
	for _, r := range m.rows {
		if r.remote != (a.Index == store.IndexRemote) || !a.Match.Accepts(&r.Candidate) {
			continue
		}
		in := true
		switch {
		case a.Index == store.IndexLatLng || a.Index == store.IndexSpatial:
			in = slices.ContainsFunc(a.Rects, func(x geo.Rect) bool { return x.Contains(r.At) })
		case isCell:
			in = inRanges(a.Ranges, r.numbers[a.Index])
		case r.remote:
			in = a.After == nil || remoteOrder(a.Order)(r.Candidate, store.Candidate{ID: a.After.ID, Posted: a.After.Posted}) > 0
		}
		if in && (a.Near == nil || inRing(a.Near, r.At)) {
			found = append(found, r.Candidate)
		}
	}
	switch a.Order {
	case store.NearestFirst:
		distance := make(map[store.ID]float64, len(found))
		for i := range found {
			distance[found[i].ID] = roughDistance(a.Near.Center, found[i].At)
		}
		slices.SortFunc(found, func(b, c store.Candidate) int { return cmp.Compare(distance[b.ID], distance[c.ID]) })
	case store.LowestIDFirst, store.NewestFirst:
		slices.SortFunc(found, remoteOrder(a.Order))
	}
	if a.Limit > 0 {
		found = found[:min(a.Limit, len(found))]
	}
	// What nobody may rely on is not there.
	for i := range found {
		if len(a.Match.Categories) == 0 {
			found[i].Category = ""
		}
		if a.Match.Employer == "" {
			found[i].Employer = ""
		}
	}
	return found, nil
}

func inRanges(ranges []store.Interval, n int64) bool {
	i, _ := slices.BinarySearchFunc(ranges, n, func(v store.Interval, n int64) int { return cmp.Compare(v.Hi, n) })
	return i < len(ranges) && ranges[i].Lo <= n
}

func remoteOrder(o store.Order) func(a, b store.Candidate) int {
	return func(a, b store.Candidate) int {
		if o == store.NewestFirst {
			return cmp.Or(cmp.Compare(b.Posted, a.Posted), cmp.Compare(b.ID, a.ID))
		}
		return cmp.Compare(a.ID, b.ID)
	}
}

// window returns the rows above and then those below.
func (m *memory) window(a store.Access) []store.Candidate {
	w := a.Window
	var above, below []store.Candidate
	for _, r := range m.rows {
		n := r.numbers[a.Index]
		if r.remote || r.Expires <= a.Match.OpenAt || n < w.Lo || n > w.Hi {
			continue
		}
		c := r.Candidate
		c.Number = n
		if len(a.Match.Categories) == 0 {
			c.Category = ""
		}
		if a.Match.Employer == "" {
			c.Employer = ""
		}
		if n >= w.At {
			above = append(above, c)
		} else {
			below = append(below, c)
		}
	}
	slices.SortFunc(above, func(b, c store.Candidate) int { return cmp.Compare(b.Number, c.Number) })
	slices.SortFunc(below, func(b, c store.Candidate) int { return cmp.Compare(c.Number, b.Number) })
	return append(above[:min(w.Each, len(above))], below[:min(w.Each, len(below))]...)
}

func inRing(r *geo.Ring, p geo.LatLng) bool {
	d := roughDistance(r.Center, p)
	return r.Inner <= d && d <= r.Outer
}

// roughDistance is as far from geo's distance as SQL's may be: it is the plain
// haversine, and as much again is added or taken away by the digits of the place.
func roughDistance(p, q geo.LatLng) float64 {
	const rad = math.Pi / 180
	s1 := math.Sin((q.Lat - p.Lat) * rad / 2)
	s2 := math.Sin((q.Lng - p.Lng) * rad / 2)
	a := s1*s1 + math.Cos(p.Lat*rad)*math.Cos(q.Lat*rad)*s2*s2
	d := 2 * geo.EarthRadius * math.Asin(math.Sqrt(min(1, a)))
	slack := 0.9 * (1e-3 + 1e-9*d)
	if (math.Float64bits(q.Lat)^math.Float64bits(q.Lng))&1 == 0 {
		return d + slack
	}
	return max(0, d-slack)
}
