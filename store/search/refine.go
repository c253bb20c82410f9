package search

import (
	"container/heap"
	"math"
	"slices"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// refine decides, for every strategy alike, which candidates are hits and which
// hits make the page: the k first in the order, behind the cursor. It keeps no
// more than k.
type refine struct {
	origin       geo.Origin
	inner, outer float64 // metres, as asked: no margin
	box          *geo.Rect
	match        store.Match
	sort         store.Sort
	after        *cursor
	k            int

	hits int                   // all hits, also those that are not kept
	top  []key                 // a heap with the last in the order on top
	kept map[store.ID]struct{} // the ids in top: rounds may overlap
}

// offer considers a candidate with a place and returns its distance in metres.
func (r *refine) offer(c *store.Candidate) float64 {
	d := r.origin.Distance(c.At)
	if d >= r.inner && d <= r.outer && (r.box == nil || r.box.Contains(c.At)) {
		r.consider(c, d)
	}
	return d
}

// offerRemote considers a candidate without a place.
func (r *refine) offerRemote(c *store.Candidate) { r.consider(c, math.Inf(1)) }

func (r *refine) consider(c *store.Candidate, d float64) {
	if !r.match.Accepts(c) {
		return
	}
	r.hits++
	k := key{distance: d, posted: c.Posted, id: c.ID}
	if r.after != nil && !r.after.before(k, r.sort) {
		return
	}
	if r.full() && !k.before(r.top[0], r.sort) {
		return
	}
	if _, twice := r.kept[c.ID]; twice {
		return
	}
	r.kept[c.ID] = struct{}{}
	heap.Push(r, k)
	if len(r.top) > r.k {
		delete(r.kept, heap.Pop(r).(key).id)
	}
}

// full reports whether k hits are known.
func (r *refine) full() bool { return len(r.top) >= r.k }

// worst is the distance in metres that a hit must not exceed to be on the page as
// far as is known: that of the k-th, or +Inf while there are fewer.
func (r *refine) worst() float64 {
	if r.full() {
		return r.top[0].distance
	}
	return math.Inf(1)
}

// page returns the kept hits in order. The heap is gone after it.
func (r *refine) page() []key {
	slices.SortFunc(r.top, func(a, b key) int {
		switch {
		case a.before(b, r.sort):
			return -1
		case b.before(a, r.sort):
			return 1
		}
		return 0
	})
	return r.top
}

// The methods of heap.Interface.

func (r *refine) Len() int           { return len(r.top) }
func (r *refine) Less(i, j int) bool { return r.top[j].before(r.top[i], r.sort) }
func (r *refine) Swap(i, j int)      { r.top[i], r.top[j] = r.top[j], r.top[i] }
func (r *refine) Push(x any)         { r.top = append(r.top, x.(key)) }
func (r *refine) Pop() any {
	last := r.top[len(r.top)-1]
	r.top = r.top[:len(r.top)-1]
	return last
}
