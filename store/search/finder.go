package search

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Strategy is a way to find the jobs near a point.
type Strategy interface {
	// Name is what a query calls it by.
	Name() string
	// About says in a sentence what it reads and what it is good for.
	About() string
	// Search reads, through the task, every row that can be on the page.
	Search(ctx context.Context, t *Task) error
}

// Source is what a Finder needs of an engine.
type Source interface {
	store.Reader
	Jobs(ctx context.Context, ids []store.ID) ([]store.Job, error)
}

// DefaultStrategy is the name of the strategy for a query that names none.
const DefaultStrategy = "s2"

// Strategies returns all strategies, the simplest first.
func Strategies() []Strategy {
	return []Strategy{fullscan{}, bbox(), spatial(), geohash(), h3(), s2()}
}

// Finder answers queries from one source. Safe for concurrent use.
type Finder struct {
	source     Source
	now        func() time.Time
	strategies []Strategy
}

// New returns a Finder that reads from src and takes the time from now. Without
// strategies it has all of [Strategies]; the default one is called
// [DefaultStrategy], or is the first when there is none of that name.
func New(src Source, now func() time.Time, strategies ...Strategy) *Finder {
	if len(strategies) == 0 {
		strategies = Strategies()
	}
	return &Finder{source: src, now: now, strategies: strategies}
}

// Find answers a query. The error is an *[store.InvalidError] for a query that
// cannot be answered, otherwise what the engine returned.
func (f *Finder) Find(ctx context.Context, q store.Query) (store.Page, error) {
	return f.find(ctx, q, nil)
}

// Explain answers a query as Find does and shows, beside, the statements with
// their plans. Every statement runs at least twice.
func (f *Finder) Explain(ctx context.Context, q store.Query) (store.Page, Explanation, error) {
	var x Explanation
	p, err := f.find(ctx, q, &x)
	return p, x, err
}

func (f *Finder) find(ctx context.Context, q store.Query, x *Explanation) (store.Page, error) {
	start := f.now()
	began := time.Now()
	if err := q.Normalize(); err != nil {
		return store.Page{}, err
	}
	strategy, err := f.strategy(q.Strategy)
	if err != nil {
		return store.Page{}, err
	}
	after, err := decodeCursor(&q)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{Stats: store.Stats{Strategy: strategy.Name()}}
	t := newTask(&q, after, f.source, start, &page.Stats)
	t.explain = x

	// A cursor among the remote jobs is behind all that have a place.
	placed := q.Sort == store.ByNewest || after == nil || !math.IsInf(after.distance, 1)
	if q.Filter.Remote != store.RemoteOnly && placed && t.Ring.Inner <= t.Ring.Outer {
		if err := strategy.Search(ctx, t); err != nil {
			return store.Page{}, fmt.Errorf("search by %s: %w", strategy.Name(), err)
		}
	}
	if q.Filter.Remote != store.RemoteExclude && (q.Sort == store.ByNewest || !t.refine.full()) {
		if err := findRemote(ctx, t, after); err != nil {
			return store.Page{}, fmt.Errorf("search remote jobs: %w", err)
		}
	}
	page.Stats.Hits = t.refine.hits
	if err := f.fill(ctx, &page, &q, t, start); err != nil {
		return store.Page{}, err
	}
	page.Stats.Compute = time.Since(began) - page.Stats.Database
	return page, nil
}

func (f *Finder) strategy(name string) (Strategy, error) {
	fallback := f.strategies[0]
	names := make([]string, len(f.strategies))
	for i, s := range f.strategies {
		names[i] = s.Name()
		if s.Name() == name {
			return s, nil
		}
		if s.Name() == DefaultStrategy {
			fallback = s
		}
	}
	if name == "" {
		return fallback, nil
	}
	return nil, store.Invalid("strategy", fmt.Sprintf("%.40q is not one of %s", name, strings.Join(names, ", ")))
}

func newTask(q *store.Query, after *cursor, r store.Reader, now time.Time, stats *store.Stats) *Task {
	match := store.Match{
		OpenAt:     store.Millis(now),
		Categories: q.Filter.Categories,
		MinPay:     q.Filter.MinPay,
		Employer:   q.Filter.Employer,
	}
	if t := q.Filter.PostedAfter; !t.IsZero() {
		match.PostedFrom = store.Millis(t) + 1
	}
	t := &Task{
		Ring:   geo.Ring{Center: q.Center, Inner: q.MinRadius, Outer: q.Radius},
		Box:    q.Box,
		Match:  match,
		Sort:   q.Sort,
		K:      q.Limit + 1,
		reader: r,
		stats:  stats,
	}
	// What refine accepts is exactly what was asked; what strategies read may be less.
	t.refine = &refine{
		origin: geo.NewOrigin(q.Center),
		inner:  q.MinRadius, outer: q.Radius,
		box: q.Box, match: match, sort: q.Sort, after: after, k: t.K,
		kept: make(map[store.ID]struct{}, t.K+1),
	}
	if after != nil {
		if q.Sort == store.ByDistance {
			t.Ring.Inner = max(t.Ring.Inner, after.distance)
			t.Seen = after.seen
		} else {
			t.Match.PostedTo = after.posted
		}
	}
	// No distance computed by geo exceeds this.
	t.Ring.Outer = min(t.Ring.Outer, geo.MaxDistance+geo.MaxError(geo.MaxDistance))
	if q.Box != nil {
		t.Ring.Outer = min(t.Ring.Outer, q.Box.MaxDistance(q.Center))
	}
	return t
}

// findRemote adds the jobs that have no place. The database orders them: by whole
// numbers, so exactly.
func findRemote(ctx context.Context, t *Task, after *cursor) error {
	a := store.Access{Index: store.IndexRemote, Order: store.LowestIDFirst, Limit: t.K}
	if t.Sort == store.ByNewest {
		a.Order = store.NewestFirst
	}
	if after != nil && (t.Sort == store.ByNewest || math.IsInf(after.distance, 1)) {
		a.After = &store.RemoteAfter{ID: after.id, Posted: after.posted}
	}
	return t.readRemote(ctx, a)
}

// fill puts the records of the hits into the page.
func (f *Finder) fill(ctx context.Context, page *store.Page, q *store.Query, t *Task, now time.Time) error {
	keys := t.refine.page()
	if len(keys) > q.Limit {
		keys = keys[:q.Limit]
		seen := len(keys)
		if t.refine.after != nil {
			seen += t.refine.after.seen
		}
		page.Next = cursor{key: keys[len(keys)-1], seen: seen}.encode(q)
	}
	if len(keys) == 0 {
		return nil
	}
	ids := make([]store.ID, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	start := time.Now()
	jobs, err := f.source.Jobs(ctx, ids)
	page.Stats.Database += time.Since(start)
	page.Stats.Statements++
	if err != nil {
		return fmt.Errorf("read the jobs of a page: %w", err)
	}
	byID := make(map[store.ID]*store.Job, len(jobs))
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	page.Jobs = make([]store.Found, 0, len(keys))
	for _, k := range keys {
		j := byID[k.id]
		if j == nil || j.State != store.Open || !j.Expires.IsZero() && !j.Expires.After(now) {
			continue // closed since its row was read
		}
		page.Jobs = append(page.Jobs, store.Found{Job: *j, Distance: k.distance})
	}
	return nil
}
