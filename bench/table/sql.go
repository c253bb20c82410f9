package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
)

// target is a table that a search reads: the user's own, one beside a view, or the
// generated columns over text. All names are without quotes.
type target struct {
	table        string
	id, lat, lng string
}

// distanceSQL is the one expression that decides, in every query. The asin form, clamped: the acos
// form is NULL for one point in forty at distance 0, and a root may round above 1 at the antipode.
func (t target) distanceSQL(c geo.LatLng) string {
	lat, lng := quote(t.lat), quote(t.lng)
	return fmt.Sprintf("2 * %[1]s * ASIN(LEAST(1, SQRT(POW(SIN(RADIANS(%[2]s - %[3]s) / 2), 2) + "+
		"COS(RADIANS(%[6]s)) * COS(RADIANS(%[2]s)) * POW(SIN(RADIANS(%[4]s - %[5]s) / 2), 2))))",
		literal(geo.EarthRadius), lat, operand(c.Lat), lng, operand(c.Lng), literal(c.Lat))
}

// literal writes a number so that it is read back to the same bits.
func literal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// operand writes a number to stand behind a minus.
func operand(v float64) string {
	if v < 0 {
		return "(" + literal(v) + ")"
	}
	return literal(v)
}

// search is a query around a place.
type search struct {
	target
	center geo.LatLng
	radius float64 // metres
	// parts are the conditions of the innermost SELECTs, which no row fulfils two of. A ""
	// reads every row.
	parts []string
}

// inner is the derived table with the distance, which is written once.
func (s search) inner(alias string) string {
	var b strings.Builder
	for i, p := range s.parts {
		if i > 0 {
			b.WriteString("\n  UNION ALL\n")
		}
		fmt.Fprintf(&b, "  SELECT %s, %s AS %s\n  FROM %s", quote(s.id), s.distanceSQL(s.center), quote(alias), quote(s.table))
		if p != "" {
			b.WriteString("\n  WHERE " + p)
		}
	}
	return b.String()
}

// alias is the name of the distance, which must not be the id's.
func (s search) alias() string { return unused("distance_m", []string{s.id}) }

// rows is the query as it is printed: the nearest first, the id deciding between equals.
func (s search) rows(limit int) string {
	d, id := quote(s.alias()), quote(s.id)
	return fmt.Sprintf("SELECT %s, %s\nFROM (\n%s\n) AS `near`\nWHERE %s <= %s\nORDER BY %s, %s\nLIMIT %d;",
		id, d, s.inner(s.alias()), d, literal(s.radius), d, id, limit)
}

// sum counts all rows within the radius and sums them up, to compare whole answers.
func (s search) sum() string {
	d, id := quote(s.alias()), quote(s.id)
	return fmt.Sprintf("SELECT COUNT(*), COALESCE(BIT_XOR(CRC32(CONCAT_WS(',', HEX(%s), %s))), 0), COALESCE(SUM(CRC32(CONCAT_WS(',', HEX(%s), %s))), 0)\nFROM (\n%s\n) AS `near`\nWHERE %s <= %s",
		id, d, id, d, s.inner(s.alias()), d, literal(s.radius))
}

// around is the circle that boxes and cells are made for: a bit more than the
// radius, by what a distance computed in SQL may be less than geo's. With u = 2^-53 the plain haversine is off by up
// to 2R*sqrt(10u), 0.4 m, at the antipode, and by less than a millimetre from a
// kilometre away on.
func around(c geo.LatLng, radius float64) geo.Circle {
	r := radius + 1e-3 + 1e-9*radius
	if r > geo.MaxDistance-100_000 {
		r++
	}
	return geo.Circle{Center: c, Radius: r}
}

// outward rounds a box to a centimetre, so that it reads well, never inward.
func outward(r geo.Rect) geo.Rect {
	const digits = 1e7
	down := func(v, least float64) float64 { return max(least, math.Floor(v*digits)/digits) }
	up := func(v, most float64) float64 { return min(most, math.Ceil(v*digits)/digits) }
	o := geo.Rect{South: down(r.South, -90), West: down(r.West, -180), North: up(r.North, 90), East: up(r.East, 180)}
	if r.West > r.East && o.West <= o.East {
		// It reached round to itself.
		o.West, o.East = -180, 180
	}
	return o
}

// boxes are those that hold a circle. They are made for longitudes in which -180 is written
// 180; lngBetween takes either.
func boxes(c geo.Circle) []geo.Rect { return outward(c.Bound()).Split() }

// lngBetween is the condition that a longitude is in a box of boxes.
func (t target) lngBetween(r geo.Rect) string {
	lng := quote(t.lng)
	s := fmt.Sprintf("%s BETWEEN %s AND %s", lng, literal(r.West), literal(r.East))
	if r.East == 180 {
		s = fmt.Sprintf("(%s OR %s = -180)", s, lng)
	}
	return s
}

func (t target) latBetween(r geo.Rect) string {
	return fmt.Sprintf("%s BETWEEN %s AND %s", quote(t.lat), literal(r.South), literal(r.North))
}

// valid is the condition that a row has a place.
func (t target) valid() string {
	return fmt.Sprintf("%s BETWEEN -90 AND 90 AND %s BETWEEN -180 AND 180", quote(t.lat), quote(t.lng))
}

// inBoxes is one condition for the boxes of a circle, which share their latitudes: MySQL
// reads the range of latitudes from the index and checks longitudes inside it.
func (t target) inBoxes(c geo.Circle) []string {
	all := boxes(c)
	lngs := make([]string, len(all))
	for i, r := range all {
		lngs[i] = t.lngBetween(r)
	}
	lng := strings.Join(lngs, " OR ")
	if len(lngs) > 1 {
		lng = "(" + lng + ")"
	}
	return []string{t.latBetween(all[0]) + " AND " + lng}
}

const (
	// envelopeMargin in degrees (0.1 mm on the ground) is added around an envelope: MySQL
	// turns its corners into radians and back, and loses points that lie exactly on an edge.
	envelopeMargin = 1e-9

	// maxBoxWidth in degrees is how wide a box may be in one spatial predicate: MySQL takes the
	// envelope of two points the shorter way round the earth.
	maxBoxWidth = 90
)

// leastLng is the least longitude in an envelope: MySQL refuses -180.
var leastLng = math.Nextafter(-180, 0)

// inEnvelopes is one condition for each box that MySQL answers from its R-tree. An OR of two is
// not answered from it, hence one SELECT each. The envelope of two points is the box
// alone; between the corners of a polygon MySQL follows the geodesics. The
// exact box leaves out what the margin let in and what is filed at the pole for want of a place.
func (t target) inEnvelopes(point string, c geo.Circle) []string {
	var parts []string
	for _, r := range boxes(c) {
		for _, r := range narrow(r) {
			corner := func(lng, lat float64) string {
				return literal(min(max(lng, leastLng), 180)) + " " + literal(min(max(lat, -90), 90))
			}
			parts = append(parts, fmt.Sprintf("MBRIntersects(ST_GeomFromText('MULTIPOINT(%s, %s)', 4326, 'axis-order=long-lat'), %s)\n    AND %s AND %s",
				corner(r.West-envelopeMargin, r.South-envelopeMargin), corner(r.East+envelopeMargin, r.North+envelopeMargin),
				quote(point), t.latBetween(r), t.lngBetween(r)))
		}
	}
	return parts
}

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

// maxRanges keeps a query short enough to read and paste. The service uses more.
const maxRanges = 8

// inCells is the condition that the cell column is in the ranges that cover a circle.
func inCells(column string, s cell.Scheme, c geo.Circle) []string {
	ranges := cell.Cover(s, geo.Ring{Center: c.Center, Outer: c.Radius}, maxRanges)
	if len(ranges) == 0 {
		return []string{"FALSE"}
	}
	terms := make([]string, len(ranges))
	for i, r := range ranges {
		terms[i] = fmt.Sprintf("%s BETWEEN %d AND %d", quote(column), r.Lo, r.Hi)
	}
	return []string{"(" + strings.Join(terms, "\n    OR ") + ")"}
}

// textNumber is an expression for the number in a column of text, NULL where there is none.
// It accepts what degreesText does. The first test is for line ends, which $ would let through.
func textNumber(column string) string {
	c := quote(column)
	return fmt.Sprintf("IF(TRIM(%[1]s) NOT REGEXP '[^-+.0-9]' AND TRIM(%[1]s) REGEXP '^[-+]?([0-9]{1,9}([.][0-9]*)?|[.][0-9]+)$', CAST(TRIM(%[1]s) AS DOUBLE), NULL)", c)
}

// pointExpression is a generated column's: a point for every row, since an R-tree takes no
// NULL. Rows without a place are filed at the South Pole.
func (t target) pointExpression() string {
	lat, lng := quote(t.lat), quote(t.lng)
	return fmt.Sprintf("IF(%[1]s, ST_SRID(POINT(IF(%[3]s = -180, 180, %[3]s), %[2]s), 4326), ST_SRID(POINT(0, -90), 4326))", t.valid(), lat, lng)
}
