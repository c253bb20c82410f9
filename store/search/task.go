package search

import (
	"context"
	"math"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Task is a query on its way through a strategy: where the hits can be, and what
// is known so far.
type Task struct {
	// Ring holds every hit that can still be on the page: the query's own ring,
	// cut at the cursor when the order is by distance, and at the far corner of a
	// box. Outer is at most geo.MaxDistance and a bit.
	Ring geo.Ring

	// Box, when set, holds every hit too.
	Box *geo.Rect

	// Match is for the accesses.
	Match store.Match

	// Sort is the order. By distance a strategy may stop early; newest first it
	// has to read the whole area.
	Sort store.Sort

	// K is how many hits decide the page: one more than its limit.
	K int

	// Seen is how many hits lie within Ring.Inner on the pages before: a hint at
	// the density.
	Seen int

	reader  store.Reader
	refine  *refine
	stats   *store.Stats
	explain *Explanation // nil unless asked for
}

// Worst is the distance in metres of the K-th hit known so far, +Inf while fewer
// are known. With every row up to that distance read, the page is decided.
func (t *Task) Worst() float64 { return t.refine.worst() }

// Kept is how many hits are known, at most K.
func (t *Task) Kept() int { return len(t.refine.top) }

// Round begins another round.
func (t *Task) Round() {
	t.stats.Rounds++
	if t.explain != nil {
		t.explain.Rounds = append(t.explain.Rounds, Round{})
	}
}

// Read carries out an access and refines what it returns; see, when not nil, is
// shown every candidate with its distance in metres. It returns the number of candidates.
func (t *Task) Read(ctx context.Context, a store.Access, see func(c *store.Candidate, distance float64)) (int, error) {
	return t.read(ctx, a, func(c *store.Candidate) {
		d := t.refine.offer(c)
		if see != nil {
			see(c, d)
		}
	})
}

// readRemote is Read for the jobs that have no place.
func (t *Task) readRemote(ctx context.Context, a store.Access) error {
	_, err := t.read(ctx, a, t.refine.offerRemote)
	return err
}

func (t *Task) read(ctx context.Context, a store.Access, each func(*store.Candidate)) (int, error) {
	a.Match = t.Match
	if t.explain != nil {
		if err := t.explain.add(ctx, t.reader, a); err != nil {
			return 0, err
		}
	}
	n := 0
	var inGo time.Duration
	start := time.Now()
	statements, err := t.reader.Read(ctx, a, func(cs []store.Candidate) error {
		began := time.Now()
		for i := range cs {
			each(&cs[i])
		}
		n += len(cs)
		inGo += time.Since(began)
		return nil
	})
	t.stats.Database += time.Since(start) - inGo
	t.stats.Statements += statements
	t.stats.Candidates += n
	return n, err
}

// rects returns the boxes that hold a ring of the task, none crossing the
// antimeridian.
func (t *Task) rects(ring geo.Ring) []geo.Rect {
	if t.Box != nil {
		return t.Box.Split()
	}
	return geo.Circle{Center: ring.Center, Radius: ring.Outer}.Bound().Split()
}

// nearest reads the hits of a ring through an access that computes the distance
// in SQL. By distance it asks for the first K only, and then makes sure that SQL's
// arithmetic has not cut a hit off: SQL filters and orders with a margin, and
// decides nothing.
func (t *Task) nearest(ctx context.Context, a store.Access, ring geo.Ring) error {
	t.Round()
	a.Near = widened(ring)
	if t.Sort != store.ByDistance {
		_, err := t.Read(ctx, a, nil)
		return err
	}
	a.Order, a.Limit = store.NearestFirst, t.K+spare
	farthest := 0.0
	n, err := t.Read(ctx, a, func(_ *store.Candidate, d float64) { farthest = max(farthest, d) })
	if err != nil || n < a.Limit {
		return err
	}
	// A row that was not read has, in SQL, at least the distance of those that
	// were, so exactly at least this:
	unread := farthest - 2*slack(farthest)
	if t.Worst() < unread {
		return nil
	}
	// Many jobs at about the same distance, or rows that SQL let through and refine did not.
	t.Round()
	if w := t.Worst(); w < ring.Outer {
		ring.Outer = w
		a.Near = widened(ring)
	}
	a.Order, a.Limit = store.Unordered, 0
	_, err = t.Read(ctx, a, nil)
	return err
}

// spare is how many rows more than K are asked for in the order of SQL's
// distance, so that its last digits seldom make a second statement necessary.
const spare = 4

// slack bounds in metres how far a distance computed in SQL is from geo's. Both
// round, and MySQL's point column is off in the last digit: for that a millimetre
// and a part in a thousand million are plenty. SQL's is the plain haversine, which
// loses half its digits towards the antipode: with u = 2^-53 it is off there by up to
// 2R*sqrt(10u), 0.4 m, and by less than a millimetre from a kilometre away on.
func slack(d float64) float64 {
	s := 1e-3 + 1e-9*d
	if d > geo.MaxDistance-100_000 {
		s++
	}
	return s
}

// widened makes room for what SQL's distance may be off.
func widened(r geo.Ring) *geo.Ring {
	if r.Inner > 0 {
		r.Inner = max(0, r.Inner-slack(r.Inner))
	}
	if r.Outer < geo.MaxDistance {
		r.Outer += slack(r.Outer)
	} else {
		r.Outer = math.Inf(1)
	}
	return &r
}
