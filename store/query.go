package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/geo"
)

// Sort is the order of an answer.
type Sort string

// The orders. Ties go by id: ascending for distance, descending for newest.
// Remote jobs have no distance and come after all that have one.
const (
	ByDistance Sort = "distance"
	ByNewest   Sort = "newest"
)

// Remote says what becomes of the jobs that have no place.
type Remote string

// The ways to treat remote jobs.
const (
	RemoteExclude Remote = "exclude"
	RemoteInclude Remote = "include"
	RemoteOnly    Remote = "only"
)

// Limits of a query.
const (
	DefaultLimit  = 20
	MaxLimit      = 200
	MaxCategories = 20
)

// Unlimited is the Radius of a query for the nearest jobs however far.
var Unlimited = math.Inf(1)

// Query asks for the open jobs around Center, or in Box.
type Query struct {
	Center geo.LatLng

	// MinRadius and Radius in metres bound the distance, both inclusive. A
	// query by place always sets Radius; [Unlimited] means the nearest
	// however far, and 0 means exactly at Center.
	MinRadius, Radius float64

	// Box, when set, holds every hit. Center is then the box's own centre, from
	// which distances count, and Radius is Unlimited.
	Box *geo.Rect

	Filter   Filter
	Sort     Sort   // "" is ByDistance
	Limit    int    // jobs a page, 1..MaxLimit; 0 is DefaultLimit
	Cursor   string // Page.Next of the page before; "" for the first
	Strategy string // a strategy's name; "" is the default one
}

// Filter says which jobs pass. The zero Filter passes every job that has a place.
type Filter struct {
	Categories  []string  // any of these; empty: all
	MinPay      int64     // hundredths; 0: no condition
	PostedAfter time.Time // strictly after; zero: no condition
	Employer    string    // exactly; "": any
	Remote      Remote    // "" is RemoteExclude
}

// InBox returns a query for the jobs in a box, newest first.
func InBox(box geo.Rect) Query {
	return Query{Center: box.Center(), Radius: Unlimited, Box: &box, Sort: ByNewest}
}

// Normalize fills in defaults and brings filters to their stored form. It
// refuses a bad query with every fault at once; the error is an *[InvalidError].
func (q *Query) Normalize() error {
	var f faults
	if c, err := geo.NewLatLng(q.Center.Lat, q.Center.Lng); err != nil {
		f.addRange(err)
	} else {
		q.Center = c
	}
	if !(q.Radius >= 0) {
		f.add("radius_m", "%v is not a distance in metres: want 0 or more", q.Radius)
	}
	if !(q.MinRadius >= 0) || math.IsInf(q.MinRadius, 1) {
		f.add("min_radius_m", "%v is not a distance in metres: want 0 or more", q.MinRadius)
	} else if q.MinRadius > q.Radius {
		f.add("min_radius_m", "%v is more than radius_m, %v", q.MinRadius, q.Radius)
	}
	if q.Box != nil {
		if err := q.Box.Validate(); err != nil {
			f.add("box", "%v", err)
		} else if !math.IsInf(q.Radius, 1) || q.MinRadius != 0 || q.Center != q.Box.Center() {
			f.add("box", "cannot be combined with a place and radius")
		}
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.Limit < 1 || q.Limit > MaxLimit {
		f.add("limit", "%d is not 1..%d", q.Limit, MaxLimit)
	}
	switch q.Sort {
	case "":
		q.Sort = ByDistance
	case ByDistance, ByNewest:
	default:
		f.add("sort", "%.40q is not distance or newest", string(q.Sort))
	}
	q.Filter.normalize(&f)
	return f.err()
}

func (x *Filter) normalize(f *faults) {
	if len(x.Categories) > MaxCategories {
		f.add("category", "%d categories are more than %d", len(x.Categories), MaxCategories)
	} else if len(x.Categories) > 0 {
		cs := slices.Clone(x.Categories) // the caller's slice stays as it is
		for i := range cs {
			oneLine(f, "category", &cs[i], MaxCategory)
			cs[i] = strings.ToLower(cs[i])
			if cs[i] == "" {
				f.add("category", "is empty")
			}
		}
		slices.Sort(cs)
		x.Categories = slices.Compact(cs)
	}
	if x.MinPay < 0 || x.MinPay > MaxPay {
		f.add("min_pay", "is not 0..%.0f", float64(MaxPay)/100)
	}
	if !x.PostedAfter.IsZero() {
		// Posted is kept in milliseconds, so cutting the rest off changes no answer.
		x.PostedAfter = x.PostedAfter.UTC().Truncate(time.Millisecond)
		if y := x.PostedAfter.Year(); y < 1 || y > 9999 {
			f.add("posted_after", "is not in the years 1 to 9999")
		}
	}
	oneLine(f, "employer", &x.Employer, MaxEmployer)
	switch x.Remote {
	case "":
		x.Remote = RemoteExclude
	case RemoteExclude, RemoteInclude, RemoteOnly:
	default:
		f.add("remote", "%.40q is not exclude, include or only", string(x.Remote))
	}
}

// String prints the query for logs and failed tests.
func (q Query) String() string {
	var b strings.Builder
	if q.Box != nil {
		fmt.Fprintf(&b, "in %+v", *q.Box)
	} else {
		fmt.Fprintf(&b, "at %v,%v within %v..%v m", q.Center.Lat, q.Center.Lng, q.MinRadius, q.Radius)
	}
	fmt.Fprintf(&b, " by %s limit %d filter %+v", q.Sort, q.Limit, q.Filter)
	if q.Cursor != "" {
		fmt.Fprintf(&b, " after %s", q.Cursor)
	}
	if q.Strategy != "" {
		fmt.Fprintf(&b, " via %s", q.Strategy)
	}
	return b.String()
}

// Found is a job in an answer.
type Found struct {
	Job      Job
	Distance float64 // metres from the query's centre; +Inf for a remote job
}

// Page is an answer.
type Page struct {
	Jobs  []Found
	Next  string // the cursor of the next page; "" when there is none
	Stats Stats
}

// Stats says what an answer cost. Two Stats add up.
type Stats struct {
	Strategy   string
	Rounds     int           // how often the strategy went to the database to look further
	Statements int           // what was sent to the database, the page's records included
	Candidates int           // rows read from the search tables
	Hits       int           // candidates in the area that pass the filter
	Database   time.Duration // waiting for and reading from the database
	Compute    time.Duration // everything else
}

// Add returns the sum of two Stats, under the name of the first that has one.
func (s Stats) Add(t Stats) Stats {
	if s.Strategy == "" {
		s.Strategy = t.Strategy
	}
	s.Rounds += t.Rounds
	s.Statements += t.Statements
	s.Candidates += t.Candidates
	s.Hits += t.Hits
	s.Database += t.Database
	s.Compute += t.Compute
	return s
}
