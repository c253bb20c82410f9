package lab

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// shuffleSeed orders the jobs of every set. Another one makes other data of each
// size, which the content hash in the captures tells.
const shuffleSeed = 20_260_601

// data is a set made ready: its jobs in the shuffled order, of which a size is a prefix.
type data struct {
	*Set
	now    time.Time
	sizes  []int    // ascending, each at most the number of jobs
	order  []int32  // indices of Set.Jobs, as many as the largest size
	spots  []spot   // of the same jobs
	hashes []string // of the content of each size
}

// spot is what decides whether a job can be found.
type spot struct {
	id      store.ID
	at      geo.LatLng
	expires int64 // milliseconds
	placed  bool  // open and not remote
}

// prepare checks and orders the jobs of a set.
func prepare(ctx context.Context, s *Set, rows []int) (*data, error) {
	d := &data{Set: s, now: s.Now}
	if s.Now.IsZero() {
		// Of all jobs, so that it does not depend on the sizes.
		for i := range s.Jobs {
			if p := s.Jobs[i].Posted; p.After(d.now) {
				d.now = p
			}
		}
	}
	d.now = d.now.UTC().Truncate(time.Millisecond)
	for _, n := range rows {
		if n = min(n, len(s.Jobs)); len(d.sizes) == 0 || d.sizes[len(d.sizes)-1] != n {
			d.sizes = append(d.sizes, n)
		}
	}
	if len(s.Jobs) > math.MaxInt32 {
		return nil, store.Invalid("sets", fmt.Sprintf("%q has %d jobs, more than can be measured", s.Name, len(s.Jobs)))
	}
	order := make([]int32, len(s.Jobs))
	for i := range order {
		order[i] = int32(i)
	}
	// By id first, so that the order in which the jobs came does not matter.
	slices.SortFunc(order, func(a, b int32) int {
		switch x, y := s.Jobs[a].ID, s.Jobs[b].ID; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for i := 1; i < len(order); i++ {
		if id := s.Jobs[order[i]].ID; id == s.Jobs[order[i-1]].ID {
			return nil, store.Invalid("sets", fmt.Sprintf("two jobs of %q have the id %s", s.Name, id))
		}
	}
	r := rand.New(rand.NewPCG(shuffleSeed, 0))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	d.order = slices.Clip(order[:d.sizes[len(d.sizes)-1]])

	type name struct{ source, id string }
	names := make(map[name]struct{}, len(d.order))
	content := newContent()
	for n := range d.order {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		j, err := d.job(n)
		if err != nil {
			return nil, err
		}
		k := name{j.Source, j.SourceID}
		if _, ok := names[k]; ok {
			return nil, store.Invalid("sets", fmt.Sprintf("two jobs of %q have the source %q and source_id %.60q", s.Name, j.Source, j.SourceID))
		}
		names[k] = struct{}{}
		d.spots = append(d.spots, spot{j.ID, j.At, store.ExpiryMillis(j.Expires), j.State == store.Open && !j.Remote})
		content.add(&j)
		if n+1 == d.sizes[len(d.hashes)] {
			d.hashes = append(d.hashes, content.sum())
		}
	}
	return d, nil
}

// job returns the n-th job of the shuffled order, in the form in which it is stored.
func (d *data) job(n int) (store.Job, error) {
	j := d.Jobs[d.order[n]]
	err := j.Normalize()
	var invalid *store.InvalidError
	if errors.As(err, &invalid) {
		out := &store.InvalidError{Faults: slices.Clone(invalid.Faults)}
		for i := range out.Faults {
			f := &out.Faults[i]
			f.Field = fmt.Sprintf("sets %q job %s %s", d.Name, j.ID, f.Field)
		}
		return j, out
	}
	return j, err
}

// hit is a job inside the circle.
type hit struct {
	id       store.ID
	distance float64
}

// within returns the jobs of the first rows that a search must find, in its order: a
// loop over all of them, with nothing in common with the strategies but the distance.
func (d *data) within(rows int, radius float64) []hit {
	var hits []hit
	now := store.Millis(d.now)
	from := geo.NewOrigin(d.Center)
	for i := range d.spots[:rows] {
		s := &d.spots[i]
		if !s.placed || s.expires <= now {
			continue
		}
		if m := from.Distance(s.at); m <= radius {
			hits = append(hits, hit{s.id, m})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		switch {
		case a.distance < b.distance:
			return -1
		case a.distance > b.distance:
			return 1
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	return hits
}

// content hashes jobs. It writes lengths before texts, so that no two lists of jobs
// are written alike.
type content struct {
	h   hash.Hash
	buf []byte
}

func newContent() *content { return &content{h: sha256.New()} }

func (c *content) add(j *store.Job) {
	b := c.buf[:0]
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	number(int64(j.ID))
	for _, s := range []string{j.Source, j.SourceID, j.Title, j.Description, j.URL, j.Category, j.Employer,
		j.Pay.Currency, j.Pay.Per, string(j.State)} {
		number(int64(len(s)))
		b = append(b, s...)
	}
	number(j.Pay.Amount)
	number(int64(math.Float64bits(j.At.Lat)))
	number(int64(math.Float64bits(j.At.Lng)))
	number(store.Millis(j.Posted))
	number(store.ExpiryMillis(j.Expires))
	remote := byte(0)
	if j.Remote {
		remote = 1
	}
	b = append(b, remote)
	c.h.Write(b) // never fails, by its documentation
	c.buf = b
}

// sum is of all jobs so far; more may follow.
func (c *content) sum() string { return hex.EncodeToString(c.h.Sum(nil)[:16]) }
