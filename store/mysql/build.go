package mysql

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// maxRanges is how many cell ranges one statement carries. The range optimizer
// gives up, with warning 3170 and a full scan, when a condition needs more than
// range_optimizer_max_mem_size; sessions are opened with rangeMemory of it,
// where 50,000 ranges together with all filters stay below. The smaller
// number bounds what is planned, two index dives a range, before the first row comes.
const (
	maxRanges   = 1024
	rangeMemory = 64 << 20 // bytes
)

// maxBoxWidth in degrees is how wide a box may be in one spatial predicate:
// MySQL takes the envelope of two points the shorter way round the earth, so
// from 180 degrees on it is the wrong half.
const maxBoxWidth = 90

// indexNames are the keys of open_job.
var indexNames = map[store.Index]string{
	store.IndexLatLng:  "lat_lng",
	store.IndexSpatial: "pt",
	store.IndexGeohash: "geohash",
	store.IndexH3:      "h3",
	store.IndexS2:      "PRIMARY",
}

// cellColumns are the columns of the cell numbers.
var cellColumns = map[store.Index]string{
	store.IndexGeohash: "geohash",
	store.IndexH3:      "h3",
	store.IndexS2:      "s2",
}

// columns says what a row of a statement holds, in this order.
type columns struct {
	place    bool // lat, lng
	category bool
	employer bool
	number   string // the column of the cell number; "": none
}

// list returns the select list.
func (c columns) list() string {
	s := "id, pay, posted, expires"
	if c.place {
		s += ", lat, lng"
	}
	if c.category {
		s += ", category"
	}
	if c.employer {
		s += ", employer"
	}
	if c.number != "" {
		s += ", " + c.number
	}
	return s
}

// statement is one SELECT with its arguments.
type statement struct {
	sql  string
	args []any
}

// add appends SQL and its arguments.
func (s *statement) add(sql string, args ...any) {
	s.sql += sql
	s.args = append(s.args, args...)
}

// build turns an access into statements that, together, return its rows. A
// positive limit is the time each may take on the server. Values reach the SQL
// as arguments only.
func build(a store.Access, limit time.Duration) (columns, []statement, error) {
	b := builder{Access: a, sel: "SELECT "}
	if limit > 0 {
		b.sel = "SELECT " + maxTime(limit) + " "
	}
	b.cols.category = len(a.Match.Categories) > 0
	b.cols.employer = a.Match.Employer != ""
	if err := b.check(); err != nil {
		return columns{}, nil, fmt.Errorf("mysql: access by %q: %w", a.Index, err)
	}
	if a.Index == store.IndexRemote {
		return b.cols, b.remote(), nil
	}
	b.cols.place = true
	if a.Window != nil {
		b.cols.number = cellColumns[a.Index]
		return b.cols, b.window(), nil
	}
	return b.cols, b.places(), nil
}

// maxTime is the optimizer hint for a limit.
func maxTime(limit time.Duration) string {
	// At least 1: MySQL takes 0 for no limit.
	return "/*+ MAX_EXECUTION_TIME(" + strconv.FormatInt(max(1, limit.Milliseconds()), 10) + ") */"
}

// builder builds the statements of one access.
type builder struct {
	store.Access
	cols columns
	sel  string // "SELECT " with hints, for the first SELECT of a statement
}

// check refuses what has no meaning.
func (b *builder) check() error {
	_, isCell := cellColumns[b.Index]
	switch {
	case !isCell && b.Index != store.NoIndex && b.Index != store.IndexLatLng && b.Index != store.IndexSpatial && b.Index != store.IndexRemote:
		return errors.New("there is no such index")
	case b.Window != nil && !isCell:
		return errors.New("a window needs an index of cell numbers")
	case b.Limit < 0 || b.Window != nil && b.Window.Each < 0:
		return errors.New("the limit is negative")
	}
	switch b.Order {
	case store.Unordered:
	case store.NearestFirst:
		// The ranges of cells may need several statements, which have no common order.
		if b.Near == nil || isCell || b.Index == store.IndexRemote {
			return errors.New("nearest first needs a centre, and an index other than cells")
		}
	case store.LowestIDFirst, store.NewestFirst:
		if b.Index != store.IndexRemote {
			return errors.New("the order by id or posting time is for remote jobs")
		}
	default:
		return fmt.Errorf("there is no order %d", b.Order)
	}
	if n := b.Near; n != nil && !(n.Inner <= n.Outer) && !(n.Inner > n.Outer) {
		return errors.New("a distance is not a number")
	}
	for _, r := range b.Rects {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// table returns the search table with the hint that Force asks for.
func (b *builder) table() string {
	if !b.Force {
		return "open_job"
	}
	if b.Index == store.NoIndex {
		return "open_job USE INDEX ()"
	}
	return "open_job FORCE INDEX (" + indexNames[b.Index] + ")"
}

// match adds the conditions of Match behind a WHERE clause that has a first condition.
func (b *builder) match(s *statement) {
	m := &b.Match
	s.add("expires > ?", m.OpenAt)
	if n := len(m.Categories); n > 0 {
		s.add(" AND category IN (?" + strings.Repeat(", ?", n-1) + ")")
		for _, c := range m.Categories {
			s.args = append(s.args, c)
		}
	}
	if m.Employer != "" {
		s.add(" AND employer = ?", m.Employer)
	}
	if m.MinPay > 0 {
		s.add(" AND pay >= ?", m.MinPay)
	}
	if m.PostedFrom > 0 {
		s.add(" AND posted >= ?", m.PostedFrom)
	}
	if m.PostedTo != 0 {
		s.add(" AND posted <= ?", m.PostedTo)
	}
}

// where returns the conditions of each SELECT of an access, one SELECT a box
// (MySQL leaves its R-tree for an OR of boxes), and how many of them may share a statement.
func (b *builder) where() (conditions []statement) {
	switch b.Index {
	case store.NoIndex:
		return []statement{{}}
	case store.IndexLatLng:
		for _, r := range b.Rects {
			for _, r := range r.Split() {
				conditions = append(conditions, inBox(r))
			}
		}
	case store.IndexSpatial:
		for _, r := range b.Rects {
			for _, r := range r.Split() {
				for _, r := range narrow(r) {
					c := inEnvelope(r)
					box := inBox(r)
					c.add(box.sql, box.args...)
					conditions = append(conditions, c)
				}
			}
		}
	default:
		col := cellColumns[b.Index]
		for ranges := range slices.Chunk(b.Ranges, maxRanges) {
			// The last range is repeated up to a power of two, so that a session
			// has few statements to prepare. It costs nothing: the optimizer
			// merges equal ranges, and a row of an earlier range does not get there.
			n := 1 << bits.Len(uint(len(ranges)-1))
			c := statement{args: make([]any, 0, 2*n+8)}
			between := col + " BETWEEN ? AND ?"
			c.sql = "(" + between + strings.Repeat(" OR "+between, n-1) + ") AND "
			for i := range n {
				r := ranges[min(i, len(ranges)-1)]
				c.args = append(c.args, r.Lo, r.Hi)
			}
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// places returns the statements over open_job that are not a window.
func (b *builder) places() []statement {
	conditions := b.where()
	if len(conditions) == 0 {
		return nil
	}
	if _, isCell := cellColumns[b.Index]; !isCell {
		return []statement{b.union(conditions)}
	}
	var all []statement
	for _, c := range conditions {
		all = append(all, b.union([]statement{c}))
	}
	return all
}

// union returns one statement for several conditions that no row fulfils two of.
func (b *builder) union(conditions []statement) statement {
	lower := b.Near != nil && b.Near.Inner > 0
	upper := b.Near != nil && b.Near.Outer < geo.MaxDistance
	ordered := b.Order == store.NearestFirst
	if lower && math.IsInf(b.Near.Inner, 1) {
		lower, upper, b.Limit = false, false, 0
		conditions = []statement{{sql: "FALSE AND "}}
		ordered = false
	}
	measured := lower || upper || ordered

	var s statement
	list := b.cols.list()
	if measured {
		// The distance is written once, in a derived table: MySQL merges it
		// when there is one SELECT, and evaluates it once for the condition and
		// once more for what is sorted. Told not to merge, it took 1.4 times as long.
		s.add(b.sel + list + " FROM (")
	}
	for i, c := range conditions {
		switch {
		case i > 0:
			s.add(" UNION ALL SELECT " + list)
		case measured:
			s.add("SELECT " + list)
		default:
			s.add(b.sel + list)
		}
		if measured {
			b.distance(&s)
		}
		s.add(" FROM " + b.table() + " WHERE ")
		s.add(c.sql, c.args...)
		b.match(&s)
	}
	if measured {
		s.add(") AS d")
		where := " WHERE "
		if lower {
			s.add(where+"dist >= ?", b.Near.Inner)
			where = " AND "
		}
		if upper {
			s.add(where+"dist <= ?", b.Near.Outer)
		}
		if ordered {
			s.add(" ORDER BY dist")
		}
	}
	b.limit(&s)
	return s
}

// distance adds the distance from Near's centre as a column.
func (b *builder) distance(s *statement) {
	c := b.Near.Center
	if b.Index == store.IndexSpatial {
		// POINT takes longitude first, whatever the SRID.
		s.add(", ST_Distance_Sphere(pt, ST_SRID(POINT(?, ?), 4326), ?) AS dist", c.Lng, c.Lat, geo.EarthRadius)
		return
	}
	// The asin form: the acos form is NULL for one point in forty at distance 0.
	s.add(", 2 * ? * ASIN(LEAST(1, SQRT(POW(SIN(RADIANS(lat - ?) / 2), 2)"+
		" + COS(RADIANS(?)) * COS(RADIANS(lat)) * POW(SIN(RADIANS(lng - ?) / 2), 2)))) AS dist",
		geo.EarthRadius, c.Lat, c.Lat, c.Lng)
}

func (b *builder) limit(s *statement) {
	if b.Limit > 0 {
		s.add(" LIMIT ?", b.Limit)
	}
}

// window returns the two halves of a window as one statement.
func (b *builder) window() []statement {
	w := b.Window
	half := " FROM " + b.table() + " WHERE %[1]s >= ? AND %[1]s %[2]s ? AND expires > ? ORDER BY %[1]s%[3]s LIMIT ?)"
	var s statement
	s.add("("+b.sel+b.cols.list()+fmt.Sprintf(half, b.cols.number, "<=", ""), w.At, w.Hi, b.Match.OpenAt, w.Each)
	s.add(" UNION ALL (SELECT "+b.cols.list()+fmt.Sprintf(half, b.cols.number, "<", " DESC"), w.Lo, w.At, b.Match.OpenAt, w.Each)
	b.limit(&s)
	return []statement{s}
}

// remote returns the statement over open_remote_job.
func (b *builder) remote() []statement {
	var s statement
	s.add(b.sel + b.cols.list() + " FROM open_remote_job")
	if b.Force {
		if b.Order == store.NewestFirst {
			s.add(" FORCE INDEX (posted_id)")
		} else {
			s.add(" FORCE INDEX (PRIMARY)")
		}
	}
	s.add(" WHERE ")
	switch {
	case b.After == nil:
	case b.Order == store.NewestFirst:
		// Not (posted, id) < (?, ?), for which MySQL makes no range.
		s.add("posted <= ? AND (posted < ? OR id < ?) AND ", b.After.Posted, b.After.Posted, int64(b.After.ID))
	default:
		s.add("id > ? AND ", int64(b.After.ID))
	}
	b.match(&s)
	switch b.Order {
	case store.NewestFirst:
		s.add(" ORDER BY posted DESC, id DESC")
	case store.LowestIDFirst:
		s.add(" ORDER BY id")
	}
	b.limit(&s)
	return []statement{s}
}

// inBox is the exact condition for a box.
func inBox(r geo.Rect) statement {
	return statement{"lat BETWEEN ? AND ? AND lng BETWEEN ? AND ? AND ", []any{r.South, r.North, r.West, r.East}}
}

// envelopeMargin in degrees (0.1 mm on the ground) is added around an envelope.
// MySQL turns its corners into radians and back, and lost one point in a
// thousand of those that lay exactly on an edge. inBox leaves out what is too much.
const envelopeMargin = 1e-9

// inEnvelope is the condition that MySQL answers from its R-tree. Of the
// predicates that it does that for, MBRIntersects is the one that holds for a
// point on the edge (MBRContains and MBRWithin do not). The envelope of two
// points is the box alone: between the corners of a polygon MySQL follows the
// geodesics, which bulge out of it.
func inEnvelope(r geo.Rect) statement {
	corner := func(lng, lat float64) string {
		return degrees(min(max(lng, leastLng), 180)) + " " + degrees(min(max(lat, -90), 90))
	}
	return statement{"MBRIntersects(ST_GeomFromText(?, 4326, 'axis-order=long-lat'), pt) AND ",
		[]any{"MULTIPOINT(" + corner(r.West-envelopeMargin, r.South-envelopeMargin) + ", " +
			corner(r.East+envelopeMargin, r.North+envelopeMargin) + ")"}}
}

// leastLng is the least longitude of a stored point. MySQL would take -180 for 180.
var leastLng = math.Nextafter(-180, 0)

// degrees writes a coordinate so that it is read back to the same bits.
func degrees(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// narrow cuts a box into boxes of at most maxBoxWidth that have no point in common.
func narrow(r geo.Rect) []geo.Rect {
	var all []geo.Rect
	for r.East-r.West > maxBoxWidth {
		left := r
		left.East = r.West + maxBoxWidth
		all = append(all, left)
		r.West = math.Nextafter(left.East, 180)
	}
	return append(all, r)
}
