package dataset

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Shape says how the places of a data set lie.
type Shape string

// The shapes.
const (
	Dense   Shape = "dense"   // one city: a normal spread of 5 km on both axes around Center
	Sparse  Shape = "sparse"  // a country of 600 km by 600 km around Center: towns, and jobs between them
	Stacked Shape = "stacked" // all exactly at Center
	Mixed   Shape = "mixed"   // alternately Dense and Sparse
	Cities  Shape = "cities"  // the cities of the world by population; Center has no meaning
)

// Shapes lists every shape.
func Shapes() []Shape { return []Shape{Dense, Sparse, Stacked, Mixed, Cities} }

// Source is the Source of every generated job.
const Source = "generated"

// Limits and defaults of a [Config].
const (
	DefaultRows = 20_000
	MaxRows     = 100_000_000

	// Span is how long before Config.Posted the first job was posted.
	Span = 60 * 24 * time.Hour
)

// DefaultPosted is the Posted of a Config that states none. It is a fixed time,
// because the rows must not depend on when they are made.
func DefaultPosted() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }

// Seoul is a centre to begin with: the City Hall.
func Seoul() geo.LatLng { return geo.LatLng{Lat: 37.5663, Lng: 126.9779} }

// Config describes a data set. Equal Configs have equal rows.
type Config struct {
	Rows   int        // 1..MaxRows; 0 is DefaultRows
	Shape  Shape      // "" is Mixed
	Center geo.LatLng // any place, 0,0 and the poles too; it has no default
	Seed   uint64

	// Posted is when the newest jobs are posted; the others are spread evenly over the
	// Span before. Zero is DefaultPosted. With the present time the rows look
	// fresh, but differ from one day to another.
	Posted time.Time

	Currency string // KRW, USD or EUR; "" is KRW
}

// EnsureDefaults fills in what is not stated.
func (c *Config) EnsureDefaults() {
	if c.Rows == 0 {
		c.Rows = DefaultRows
	}
	if c.Shape == "" {
		c.Shape = Mixed
	}
	if c.Posted.IsZero() {
		c.Posted = DefaultPosted()
	}
	if c.Currency == "" {
		c.Currency = "KRW"
	}
}

// idEpoch is where the time in a store.ID starts. Its place above idLow bits is
// the same as in the ids of a store.IDs, so that all sort by time together.
var idEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	idLow    = 22
	idMillis = int64(1) << (63 - idLow)
)

// Validate reports every fault of a Config at once, after EnsureDefaults; the
// error is a *[store.InvalidError].
func (c *Config) Validate() error {
	var f []store.Fault
	add := func(field, format string, args ...any) {
		f = append(f, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if c.Rows < 1 || c.Rows > MaxRows {
		add("rows", "%d is not 1..%d", c.Rows, MaxRows)
	}
	if !slices.Contains(Shapes(), c.Shape) {
		add("shape", "%.40q is not one of %s", string(c.Shape), shapeNames())
	}
	if _, err := geo.NewLatLng(c.Center.Lat, c.Center.Lng); err != nil {
		field := "center"
		if re := new(geo.RangeError); errors.As(err, &re) {
			field = "center." + re.Field
		}
		add(field, "%v", err)
	}
	first, end := idEpoch.Add(Span), time.UnixMilli(idEpoch.UnixMilli()+idMillis).UTC()
	if c.Posted.Before(first) || !c.Posted.Before(end) {
		add("posted", "%s is not from %s to %s, which ids can tell apart",
			c.Posted.Format(time.DateOnly), first.Format(time.DateOnly), end.Format(time.DateOnly))
	}
	if _, ok := currencies[c.Currency]; !ok {
		add("currency", "%.20q is not KRW, USD or EUR", c.Currency)
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

func shapeNames() string {
	var names []string
	for _, s := range Shapes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// Jobs yields the rows, oldest first, in the form that store.Job.Normalize gives
// them. Defaults are filled in; a Config that does not pass Validate panics.
//
// Source is [Source] and SourceID "<shape>-<seed>-<n>", n from 0: saving the
// same Config twice adds nothing, and one with other Rows, Center or Posted but the same
// Shape and Seed updates the rows that are there. Ids are positive and grow with
// Posted. Sets of different shapes never share an id; two sets of one shape that
// differ otherwise do with a probability below 1 in 100,000.
//
// About 3 in 100 jobs are remote, 20 state no pay, and 40 expire 30 to 120 days
// after they were posted, so that about 3 in 100 have expired at Config.Posted.
func (c Config) Jobs() iter.Seq[store.Job] {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		panic("dataset: " + err.Error())
	}
	c.Center, _ = geo.NewLatLng(c.Center.Lat, c.Center.Lng)
	c.Posted = c.Posted.UTC().Truncate(time.Millisecond)
	return func(yield func(store.Job) bool) {
		shape := uint64(slices.Index(Shapes(), c.Shape))
		// Two streams, so that a change to the texts leaves the places alone.
		places := c.placer(newRandom(c.Seed, shape))
		r := newRandom(c.Seed, shape+1<<32)
		w := newWriter(c.Currency)

		low := c.idTag(shape)
		start := c.Posted.Add(-Span)
		slot := Span.Milliseconds() / int64(c.Rows) // at least 51 ms, so no two rows share one
		for n := range c.Rows {
			j := store.Job{
				Source:   Source,
				SourceID: fmt.Sprintf("%s-%d-%d", c.Shape, c.Seed, n),
				At:       places(n),
				State:    store.Open,
				Posted:   start.Add(time.Duration(int64(n)*slot+1+r.below(slot)) * time.Millisecond),
			}
			j.ID = store.ID(j.Posted.Sub(idEpoch).Milliseconds()<<idLow | low)
			w.write(&j, r)
			if !yield(j) {
				return
			}
		}
	}
}

// idTag is the lower part of the ids of a set: 3 bits of shape, 19 bits of a hash
// of the rest.
func (c *Config) idTag(shape uint64) int64 {
	h := fnv.New64a()
	fmt.Fprint(h, c.Rows, c.Seed, math.Float64bits(c.Center.Lat), math.Float64bits(c.Center.Lng), c.Posted.UnixMilli())
	return int64(shape<<19 | h.Sum64()>>(64-19))
}
