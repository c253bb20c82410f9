package sqlite

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// maxArgs is SQLite's limit of bound values in one statement
// (SQLITE_MAX_VARIABLE_NUMBER), less what the rest of a statement needs.
const maxArgs = 32_766 - 100

// query is one statement of an access.
type query struct {
	sql  string
	args []any // int64, float64 or string

	// What the row holds after id, lat, lng, pay, posted, expires, in this order.
	category, employer, number bool
}

// build turns an access into statements that together return its rows.
//
// Ranges and boxes go in as rows of a VALUES table that is joined with the
// search table: one statement for any number of them, and the fastest of the
// forms tried (see DRIVERS.md). An OR of BETWEENs remembers every row that
// it has seen, and UNION ALL ends at 500 terms.
func build(a *store.Access) ([]query, error) {
	if err := check(a); err != nil {
		return nil, fmt.Errorf("sqlite: access by %q: %w", a.Index, err)
	}
	switch a.Index {
	case store.NoIndex:
		return []query{place(a, 0, nil)}, nil
	case store.IndexLatLng, store.IndexSpatial:
		return chunks(a, len(a.Rects), 4, func(b *builder, i int) {
			r := a.Rects[i]
			b.list(r.South, r.North, r.West, r.East)
		})
	case store.IndexGeohash, store.IndexH3, store.IndexS2:
		if a.Window != nil {
			return []query{window(a)}, nil
		}
		return chunks(a, len(a.Ranges), 2, func(b *builder, i int) {
			b.list(a.Ranges[i].Lo, a.Ranges[i].Hi)
		})
	case store.IndexRemote:
		return []query{remote(a)}, nil
	}
	return nil, fmt.Errorf("sqlite: there is no index %q", a.Index)
}

// check refuses what has no meaning.
func check(a *store.Access) error {
	_, isCell := numbers[a.Index]
	isRemote := a.Index == store.IndexRemote
	switch {
	case a.Limit < 0 || a.Window != nil && a.Window.Each < 0:
		return errors.New("the limit is negative")
	case a.Window != nil && !isCell:
		return errors.New("a window needs an index of cell numbers")
	case a.Window != nil && a.Near != nil:
		return errors.New("a window is not cut by a distance")
	case a.Near != nil && isRemote:
		return errors.New("remote jobs have no distance")
	case a.Near != nil && (math.IsNaN(a.Near.Inner) || math.IsNaN(a.Near.Outer)):
		return errors.New("a distance is not a number")
	}
	for _, r := range a.Rects {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	switch a.Order {
	case store.Unordered:
	case store.NearestFirst:
		if a.Near == nil || isCell {
			return errors.New("nearest first needs a centre, and an index other than cells")
		}
	case store.LowestIDFirst, store.NewestFirst:
		if !isRemote {
			return errors.New("the order by id or posting time is for remote jobs")
		}
	default:
		return fmt.Errorf("there is no order %d", a.Order)
	}
	return nil
}

// chunks makes statements of as many ranges or boxes as fit into one. With a
// limit everything must fit: rows of two statements have no common order.
func chunks(a *store.Access, n, width int, values func(*builder, int)) ([]query, error) {
	most := maxArgs / width
	if a.Limit > 0 && n > most {
		return nil, fmt.Errorf("%d ranges are more than %d, the most that a limit works with", n, most)
	}
	var qs []query
	for from := 0; from < n; from += most {
		qs = append(qs, place(a, min(most, n-from), func(b *builder, i int) { values(b, from+i) }))
	}
	return qs, nil
}

// place reads jobs with a place: where n > 0, only what lies in one of n ranges
// or boxes.
func place(a *store.Access, n int, values func(*builder, int)) query {
	b := newBuilder(a)
	for i := range n {
		if i == 0 {
			if _, isCell := numbers[a.Index]; isCell {
				b.text("WITH r(lo, hi) AS (VALUES ")
			} else {
				b.text("WITH r(south, north, west, east) AS (VALUES ")
			}
		} else {
			b.text(", ")
		}
		values(b, i)
	}
	if n > 0 {
		b.text(")\n")
	}
	b.text("SELECT ", b.columns())
	if a.Near != nil {
		// In a subquery, so that the formula is written and computed once.
		b.text(" FROM (SELECT ", b.columns(), ", ")
		b.haversine(a.Near.Center)
		b.text(" AS hav")
	}
	b.text("\nFROM ")
	if n > 0 {
		b.text("r CROSS JOIN ") // CROSS: the ranges first, whatever the planner thinks
	}
	if n > 0 && a.Index == store.IndexSpatial {
		b.text("open_job_rtree CROSS JOIN ")
	}
	b.text("open_job")
	if a.Force {
		b.text(hints[a.Index])
	}
	b.text("\nWHERE ")
	switch {
	case n == 0:
	case a.Index == store.IndexLatLng:
		b.text("lat BETWEEN south AND north AND lng BETWEEN west AND east AND ")
	case a.Index == store.IndexSpatial:
		b.text("lat1 >= south AND lat0 <= north AND lng1 >= west AND lng0 <= east",
			" AND id = job AND lat BETWEEN south AND north AND lng BETWEEN west AND east AND ")
	default:
		b.text(numbers[a.Index], " BETWEEN lo AND hi AND ")
	}
	b.match(&a.Match)
	if a.Near != nil {
		b.text(")\nWHERE hav")
		b.within(a.Near)
	}
	if a.Order == store.NearestFirst {
		b.text("\nORDER BY hav")
	}
	b.limit(a.Limit)
	return b.query()
}

// hints make the planner use an index. The clustered key is not an index to
// SQLite: it is what remains when no other may be used.
var hints = map[store.Index]string{
	store.NoIndex:      " NOT INDEXED",
	store.IndexLatLng:  " INDEXED BY open_job_lat_lng",
	store.IndexGeohash: " INDEXED BY open_job_geohash",
	store.IndexH3:      " INDEXED BY open_job_h3",
	store.IndexS2:      " NOT INDEXED",
}

// numbers are the columns of the cell numbers.
var numbers = map[store.Index]string{
	store.IndexGeohash: "geohash",
	store.IndexH3:      "h3",
	store.IndexS2:      "s2",
}

// window reads both halves of a window.
func window(a *store.Access) query {
	b := newBuilder(a)
	b.q.number = true
	number := numbers[a.Index]
	half := func(from, to int64, below, order string) {
		b.text("SELECT * FROM (SELECT ", b.columns(), ", ", number, " FROM open_job")
		if a.Force {
			b.text(hints[a.Index])
		}
		b.text("\nWHERE ", number, " >= ")
		b.arg(from)
		b.text(" AND ", number, below)
		b.arg(to)
		b.text(" AND expires > ")
		b.arg(a.Match.OpenAt)
		b.text("\nORDER BY ", number, order, ", id", order, " LIMIT ")
		b.arg(int64(a.Window.Each))
		b.text(")")
	}
	half(a.Window.At, a.Window.Hi, " <= ", "")
	b.text("\nUNION ALL\n")
	half(a.Window.Lo, a.Window.At, " < ", " DESC")
	b.limit(a.Limit)
	return b.query()
}

// remote reads from the table of jobs without a place.
func remote(a *store.Access) query {
	b := newBuilder(a)
	b.text("SELECT ", strings.Replace(b.columns(), "lat, lng", "0.0, 0.0", 1), "\nFROM open_remote_job")
	if a.Force && a.Order == store.NewestFirst {
		b.text(" INDEXED BY open_remote_job_posted")
	}
	b.text("\nWHERE ")
	b.match(&a.Match)
	if a.After != nil && a.Order == store.NewestFirst {
		b.text(" AND (posted, id) < (")
		b.arg(a.After.Posted)
		b.text(", ")
		b.arg(int64(a.After.ID))
		b.text(")")
	} else if a.After != nil {
		b.text(" AND id > ")
		b.arg(int64(a.After.ID))
	}
	switch a.Order {
	case store.LowestIDFirst:
		b.text("\nORDER BY id")
	case store.NewestFirst:
		b.text("\nORDER BY posted DESC, id DESC")
	}
	b.limit(a.Limit)
	return b.query()
}

// builder writes a statement and collects its values in the order of their
// question marks. Only constants of this file become text.
type builder struct {
	sql strings.Builder
	q   query
}

func newBuilder(a *store.Access) *builder {
	b := &builder{}
	b.sql.Grow(512)
	b.q.args = make([]any, 0, 16+4*len(a.Rects)+2*len(a.Ranges))
	b.q.category = len(a.Match.Categories) > 0
	b.q.employer = a.Match.Employer != ""
	return b
}

func (b *builder) query() query {
	b.q.sql = b.sql.String()
	return b.q
}

func (b *builder) text(parts ...string) {
	for _, s := range parts {
		b.sql.WriteString(s)
	}
}

func (b *builder) arg(v any) {
	b.sql.WriteByte('?')
	b.q.args = append(b.q.args, v)
}

func (b *builder) list(vs ...any) {
	b.sql.WriteByte('(')
	for i, v := range vs {
		if i > 0 {
			b.sql.WriteString(", ")
		}
		b.arg(v)
	}
	b.sql.WriteByte(')')
}

func (b *builder) columns() string {
	switch {
	case b.q.category && b.q.employer:
		return "id, lat, lng, pay, posted, expires, category, employer"
	case b.q.category:
		return "id, lat, lng, pay, posted, expires, category"
	case b.q.employer:
		return "id, lat, lng, pay, posted, expires, employer"
	}
	return "id, lat, lng, pay, posted, expires"
}

func (b *builder) match(m *store.Match) {
	b.text("expires > ")
	b.arg(m.OpenAt)
	if m.MinPay > 0 {
		b.text(" AND pay >= ")
		b.arg(m.MinPay)
	}
	if m.PostedFrom != 0 {
		b.text(" AND posted >= ")
		b.arg(m.PostedFrom)
	}
	if m.PostedTo != 0 {
		b.text(" AND posted <= ")
		b.arg(m.PostedTo)
	}
	if len(m.Categories) > 0 {
		b.text(" AND category IN ")
		vs := make([]any, len(m.Categories))
		for i, c := range m.Categories {
			vs[i] = c
		}
		b.list(vs...)
	}
	if m.Employer != "" {
		b.text(" AND employer = ")
		b.arg(m.Employer)
	}
}

func (b *builder) limit(n int) {
	if n > 0 {
		b.text(" LIMIT ")
		b.arg(int64(n))
	}
}

const radPerDeg = math.Pi / 180

// haversine writes hav(d/R) = sin²(d/2R), from 0 (the same point) to about 1
// (the antipode). It grows with the distance, so that neither the root nor the
// arc sine is needed for each row.
func (b *builder) haversine(c geo.LatLng) {
	b.text("pow(sin((lat - ")
	b.arg(c.Lat)
	b.text(") * 0.008726646259971648), 2) + ")
	b.arg(math.Cos(c.Lat * radPerDeg))
	b.text(" * cos(lat * 0.017453292519943295) * pow(sin((lng - ")
	b.arg(c.Lng)
	b.text(") * 0.008726646259971648), 2)")
}

// within writes the condition that a haversine is between those of the ring's
// distances. Both are moved outward by more than the rounding of this function:
// a few parts in 2^53.
func (b *builder) within(r *geo.Ring) {
	hav := func(d float64) float64 {
		s := math.Sin(d / (2 * geo.EarthRadius))
		return s * s
	}
	const rounding = 1e-15
	lo := hav(min(max(0, r.Inner), geo.MaxDistance)) * (1 - rounding)
	if r.Outer >= geo.MaxDistance {
		b.text(" >= ")
		b.arg(lo)
		return
	}
	b.text(" BETWEEN ")
	b.arg(lo)
	b.text(" AND ")
	b.arg(hav(r.Outer) * (1 + rounding))
}
