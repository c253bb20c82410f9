package store

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/nearjob/nearjob/geo"
)

// Index names a way into the search table.
type Index string

// The indexes of the search table that every engine has.
const (
	NoIndex      Index = "none"    // read the whole table
	IndexLatLng  Index = "lat_lng" // the composite B-tree
	IndexSpatial Index = "spatial" // the R-tree
	IndexGeohash Index = "geohash" // a B-tree on the cell number, as the next two
	IndexH3      Index = "h3"
	IndexS2      Index = "s2"     // the clustered key
	IndexRemote  Index = "remote" // the table of jobs without a place, by id or by posting time
)

// Interval is a closed range of cell numbers.
type Interval struct {
	Lo, Hi int64
}

// Order is the order in which an engine returns candidates, needed only with a Limit.
type Order int

// The orders of an [Access].
const (
	Unordered     Order = iota
	NearestFirst        // by the distance in SQL from Near's centre: approximate, it decides nothing
	LowestIDFirst       // IndexRemote only
	NewestFirst         // IndexRemote only: posted descending, id descending
)

// Access says which rows of the search table a strategy wants: data, not SQL. An
// engine returns every row that it describes, and may return more only where a
// field says so.
type Access struct {
	Index Index

	// Rects are the boxes for IndexLatLng and IndexSpatial, none crossing the
	// antimeridian and none overlapping. None at all are no rows.
	Rects []geo.Rect

	// Ranges are the cell numbers for IndexGeohash, IndexH3 and IndexS2,
	// sorted and disjoint. None at all are no rows.
	Ranges []Interval

	// Window, when set, takes the place of Ranges and Near: the rows whose cell
	// numbers come right before and after a place on the curve, each side in
	// order going away from it. Match's conditions other than OpenAt are not applied
	// to it, so that it reads no more than it returns, but for expired rows.
	Window *Window

	// Near, when set, leaves out rows whose distance from its centre, computed
	// in SQL, is not Inner..Outer metres. The strategy has widened both by what
	// SQL's arithmetic may be off.
	Near *geo.Ring

	// Match leaves out rows that the query does not want. It is exact.
	Match Match

	// After leaves out remote rows up to a place in the order.
	After *RemoteAfter

	Order Order
	Limit int // at most so many rows; 0: all

	// Force makes the engine use Index whatever its optimizer thinks. It is for
	// the laboratory; the service leaves the optimizer free.
	Force bool
}

// Window is a piece of a cell curve: up to Each rows with At <= number <= Hi,
// lowest first, and up to Each rows with Lo <= number < At, highest first.
type Window struct {
	Lo, At, Hi int64
	Each       int
}

// RemoteAfter is a place in the order of remote jobs, which starts behind it.
type RemoteAfter struct {
	ID     ID
	Posted int64 // with NewestFirst
}

// Match is a [Filter] as engines and the refine step apply it, without its
// Remote. Every condition must hold.
type Match struct {
	OpenAt     int64    // expires after this; milliseconds
	Categories []string // sorted; empty: all
	MinPay     int64    // hundredths; 0: all
	PostedFrom int64    // milliseconds, inclusive; 0: all
	PostedTo   int64    // milliseconds, inclusive; 0: all
	Employer   string   // "": all
}

// Accepts reports whether a candidate passes.
func (m *Match) Accepts(c *Candidate) bool {
	if c.Expires <= m.OpenAt || c.Pay < m.MinPay || c.Posted < m.PostedFrom {
		return false
	}
	if m.PostedTo != 0 && c.Posted > m.PostedTo {
		return false
	}
	if m.Employer != "" && c.Employer != m.Employer {
		return false
	}
	if len(m.Categories) > 0 {
		if _, ok := slices.BinarySearch(m.Categories, c.Category); !ok {
			return false
		}
	}
	return true
}

// Candidate is a row of the search table. Category and Employer are read only
// when Match has a condition on them, Number only with a Window.
type Candidate struct {
	ID       ID
	At       geo.LatLng
	Number   int64 // the cell number in the Access's index
	Category string
	Employer string
	Pay      int64 // hundredths
	Posted   int64 // milliseconds
	Expires  int64 // milliseconds
}

// Reader is the search side of an engine.
type Reader interface {
	// Read hands the candidates of an access to yield, some at a time, and says
	// how many statements that took. The slice is only valid during the call. By
	// IndexSpatial a row may come twice while the index is being tidied up after
	// a write: MySQL's R-tree then hands out a page again. It
	// returns yield's error, ErrTimeout, ErrBusy, the context's error, or what
	// the database said.
	Read(ctx context.Context, a Access, yield func([]Candidate) error) (statements int, err error)

	// Explain runs the statements that Read would run for an access and returns
	// them with the engine's plans.
	Explain(ctx context.Context, a Access) ([]Statement, error)
}

// Statement is one SQL statement of an access with the plan that the engine
// chose for it.
type Statement struct {
	SQL      string          `json:"sql"`
	Args     []any           `json:"args"`
	Plan     string          `json:"plan"`                // MySQL: EXPLAIN ANALYZE as TREE; SQLite: EXPLAIN QUERY PLAN
	PlanJSON json.RawMessage `json:"plan_json,omitempty"` // MySQL: EXPLAIN ANALYZE as JSON
	Warnings []string        `json:"warnings,omitempty"`  // what SHOW WARNINGS said, the rewritten query left out
}

// Jobs is the record side of an engine.
type Jobs interface {
	// Jobs returns the records of those ids that exist, in no particular order.
	Jobs(ctx context.Context, ids []ID) ([]Job, error)

	// Save writes jobs in one transaction: all or none. A job whose
	// (Source, SourceID) is already stored updates that record, which keeps its
	// id, its state and its requester, and whose version grows if anything else
	// differs; otherwise it is added under its own ID, State, Requester and Version.
	// The jobs must be normalized; where one pair comes twice, the last one counts.
	// It is for imports: it leaves no event, and tells nobody.
	// It returns ErrDuplicate when an ID is taken by another job.
	Save(ctx context.Context, jobs []Job) (Saved, error)

	// Move takes a job from one state to another, and into or out of the search
	// table, in one transaction. It returns ErrNotFound or a *StateError. It is for
	// imported jobs and laboratories and knows no applications: what becomes of a job
	// that was posted here is up to [Matching].
	Move(ctx context.Context, id ID, from, to State) error

	// Count returns the number of jobs of every state together.
	Count(ctx context.Context) (int, error)
}

// Saved counts what Save did.
type Saved struct {
	Added, Updated int
}

// Admin is the operator's side of an engine.
type Admin interface {
	Name() string // "mysql", "sqlite"
	// Migrate brings the schema to this program's version. Any number of nodes
	// may call it at once.
	Migrate(ctx context.Context) error
	// Ready returns nil when the database answers and its schema is the one
	// that this program needs, otherwise the reason.
	Ready(ctx context.Context) error
	Close() error
}

// Engine is a database that Nearjob runs on.
type Engine interface {
	Reader
	Jobs
	Admin
}
