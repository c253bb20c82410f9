package search

import (
	"context"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// fullscan computes the distance of every open job in SQL.
type fullscan struct{}

func (fullscan) Name() string { return "fullscan" }

func (fullscan) About() string {
	return "Reads every open job and computes the haversine distance of each in SQL. Needs no index; good for some hundreds of jobs, and as the yardstick for the others."
}

func (fullscan) Search(ctx context.Context, t *Task) error {
	return t.nearest(ctx, store.Access{Index: store.NoIndex}, t.Ring)
}

// boxed reads the boxes around the circle through an index that knows boxes.
type boxed struct {
	name, about string
	index       store.Index
}

func bbox() Strategy {
	return boxed{"bbox", "Reads the box around the circle from the composite B-tree on (lat, lng): the latitude bounds the range, the longitude is checked within the index. Good where circles are small or few jobs share a latitude.", store.IndexLatLng}
}

func spatial() Strategy {
	return boxed{"spatial", "Reads the box around the circle from the R-tree. Good for small circles anywhere; reads and sorts all that is in a large one.", store.IndexSpatial}
}

func (s boxed) Name() string  { return s.name }
func (s boxed) About() string { return s.about }

func (s boxed) Search(ctx context.Context, t *Task) error {
	bounded := t.Box != nil || t.Sort != store.ByDistance || t.refine.outer <= geo.MaxDistance
	if bounded {
		return t.nearest(ctx, store.Access{Index: s.index, Rects: t.rects(t.Ring)}, t.Ring)
	}
	// However far: boxes of growing size, until one holds enough.
	ring := t.Ring
	for width := firstReach; ; width *= reachGrowth {
		ring.Outer = min(t.Ring.Outer, t.Ring.Inner+width)
		a := store.Access{Index: s.index, Rects: t.rects(ring)}
		if err := t.nearest(ctx, a, ring); err != nil {
			return err
		}
		if t.Worst() <= ring.Outer || ring.Outer >= t.Ring.Outer {
			return nil
		}
		ring.Inner = ring.Outer
	}
}

// firstReach is how far, in metres, a search without a radius looks first, and
// reachGrowth by what it looks farther in each round that did not find enough.
const (
	firstReach  = 1000.0
	reachGrowth = 4
)

var (
	_ Strategy = fullscan{}
	_ Strategy = boxed{}
)
