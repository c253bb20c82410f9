package api

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// The types of parameters. A value stays as it was written until it is read
// here, so that each fault is told in our words and together with the others.
type (
	number  string
	amount  string
	boolean string
	limit   string
)

func (number) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeNumber} }

func (amount) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Minimum: ptr(0.0), Maximum: ptr(float64(store.MaxPay) / 100)}
}

func (boolean) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeBoolean, Default: false}
}

func (limit) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Minimum: ptr(1.0), Maximum: ptr(float64(store.MaxLimit)), Default: store.DefaultLimit}
}

func ptr[T any](v T) *T { return &v }

// FilterParams are the parameters that every search has. The type is exported
// because huma reads no other embedded struct.
type FilterParams struct {
	Category    []string `query:"category,explode" nullable:"false" maxItems:"20" example:"[\"delivery\",\"cleaning\"]" doc:"Only jobs in one of these categories. Repeat the parameter for several: a category may hold a comma."`
	MinPay      amount   `query:"min_pay" example:"12.50" doc:"Only jobs that pay at least this much, in units of their own currency with up to two decimals. A job that states no pay is left out, unless this is 0."`
	PostedAfter string   `query:"posted_after" format:"date-time" example:"2026-01-31T00:00:00Z" doc:"Only jobs posted after this moment (RFC 3339). Write + as %2B."`
	Employer    string   `query:"employer" maxLength:"200" example:"Kenyon College" doc:"Only jobs of this employer, spelled exactly so."`
	Remote      string   `query:"remote" enum:"exclude,include,only" default:"exclude" doc:"What becomes of jobs that have no place. Included, they come after all that have a distance."`
	Limit       limit    `query:"limit" example:"20" doc:"Jobs a page."`
	Cursor      string   `query:"cursor" maxLength:"200" doc:"next_cursor of the page before, for the page after it. All other parameters but limit, strategy and explain must stay the same."`
	Strategy    string   `query:"strategy" example:"s2" doc:"How to search: a name from /v1/strategies. Every strategy gives the same jobs."`
	Explain     boolean  `query:"explain" doc:"Show the SQL, its arguments and the database's plans too. Every statement then runs at least twice. Only where the server allows it."`
}

type nearbyParams struct {
	Lat        number `query:"lat" required:"true" minimum:"-90" maximum:"90" example:"40.7143" doc:"Latitude in degrees."`
	Lng        number `query:"lng" required:"true" minimum:"-180" maximum:"180" example:"-74.006" doc:"Longitude in degrees."`
	RadiusM    number `query:"radius_m" minimum:"0" example:"5000" doc:"Only jobs at most so many metres away. 0 is exactly here. Left out: the nearest jobs, however far."`
	MinRadiusM number `query:"min_radius_m" minimum:"0" example:"0" doc:"Only jobs at least so many metres away."`
	FilterParams
	Sort string `query:"sort" enum:"distance,newest" default:"distance" doc:"The order: nearest first, or newest first."`
}

type boxParams struct {
	West  number `query:"west" required:"true" minimum:"-180" maximum:"180" example:"-74.1" doc:"Longitude of the western edge in degrees. West of more than east crosses the antimeridian."`
	South number `query:"south" required:"true" minimum:"-90" maximum:"90" example:"40.6" doc:"Latitude of the southern edge in degrees."`
	East  number `query:"east" required:"true" minimum:"-180" maximum:"180" example:"-73.9" doc:"Longitude of the eastern edge in degrees."`
	North number `query:"north" required:"true" minimum:"-90" maximum:"90" example:"40.8" doc:"Latitude of the northern edge in degrees."`
	FilterParams
	Sort string `query:"sort" enum:"distance,newest" default:"newest" doc:"The order: newest first, or nearest to the box's centre first."`
}

// query reads the parameters. Its faults are in f.
func (p *nearbyParams) query(f *faults, s strategies) store.Query {
	q := store.Query{
		Center:    geo.LatLng{Lat: f.required("lat", p.Lat), Lng: f.required("lng", p.Lng)},
		Radius:    f.distance("radius_m", p.RadiusM, store.Unlimited),
		MinRadius: f.distance("min_radius_m", p.MinRadiusM, 0),
	}
	p.fill(&q, p.Sort, f, s)
	return q
}

// query reads the parameters. Its faults are in f.
func (p *boxParams) query(f *faults, s strategies) store.Query {
	edge := func(field string, n number, most float64) float64 {
		v := f.required(field, n)
		if !(v >= -most && v <= most) {
			f.add(field, "%v is not %v..%v degrees", v, -most, most)
		}
		return v
	}
	box := geo.Rect{
		West: edge("west", p.West, 180), South: edge("south", p.South, 90),
		East: edge("east", p.East, 180), North: edge("north", p.North, 90),
	}
	if box.South > box.North && !f.has("south") && !f.has("north") {
		f.add("south", "%v is north of north, %v", box.South, box.North)
	}
	if slices.ContainsFunc([]string{"west", "south", "east", "north"}, f.has) {
		box = geo.Rect{West: -180, South: -90, East: 180, North: 90} // to find the other faults
	}
	q := store.InBox(box)
	p.fill(&q, p.Sort, f, s)
	return q
}

func (p *FilterParams) fill(q *store.Query, sort string, f *faults, s strategies) {
	q.Filter = store.Filter{
		Categories:  p.Category,
		MinPay:      f.hundredths("min_pay", p.MinPay),
		PostedAfter: f.time("posted_after", p.PostedAfter),
		Employer:    p.Employer,
		Remote:      store.Remote(p.Remote),
	}
	q.Sort = store.Sort(sort)
	q.Limit = f.limit("limit", p.Limit)
	q.Cursor = f.cursor("cursor", p.Cursor)
	q.Strategy = p.Strategy
	if p.Strategy != "" && !s.has(p.Strategy) {
		f.add("strategy", "%.40q is not one of %s", p.Strategy, s.names())
	}
	f.merge(q.Normalize())
}

func (b boolean) isTrue(f *faults, field string) bool {
	switch b {
	case "", "false":
	case "true":
		return true
	default:
		f.add(field, "%.40q is not true or false", string(b))
	}
	return false
}

// faults collects what is wrong with a request, at most one fault a field except
// where package store tells of several.
type faults struct {
	list []store.Fault
}

func (f *faults) add(field, format string, args ...any) {
	if !f.has(field) {
		f.list = append(f.list, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
}

func (f *faults) has(field string) bool {
	return slices.ContainsFunc(f.list, func(x store.Fault) bool { return x.Field == field })
}

// merge adds the faults that the domain found, except in fields that could not
// be read: there it saw only a stand-in.
func (f *faults) merge(err error) {
	known := f.list
	for _, x := range asFaults(err) {
		if !slices.ContainsFunc(known, func(y store.Fault) bool { return x.Field == y.Field }) {
			f.list = append(f.list, x)
		}
	}
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &store.InvalidError{Faults: f.list}
}

// maxUnknown bounds the answer to a request with thousands of parameters.
const maxUnknown = 10

// check finds the faults that need no knowledge of a parameter's meaning: a query
// that cannot be decoded, unknown, repeated and blank parameters.
func (f *faults) check(rawQuery string, params []*huma.Param) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		f.add("query", "the part after ? cannot be decoded: write names and values percent-encoded, with & between them")
	}
	var names []string
	many := map[string]bool{}
	for _, p := range params {
		if p.In == "query" {
			names = append(names, p.Name)
			many[p.Name] = p.Schema.Type == huma.TypeArray
		}
	}
	want := "this request takes none"
	if len(names) > 0 {
		want = "want " + strings.Join(names, ", ")
	}
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list, known := many[name]
		switch {
		case !known:
			if unknown++; unknown <= maxUnknown {
				f.add(fmt.Sprintf("%.40s", strings.ToValidUTF8(name, "\uFFFD")), "is not a parameter: %s", want)
			}
		case !list && len(values[name]) > 1:
			f.add(name, "is given %d times: want it once", len(values[name]))
		case slices.ContainsFunc(values[name], func(v string) bool { return strings.TrimSpace(v) == "" }):
			f.add(name, "is blank: give it a value or leave it out")
		case slices.ContainsFunc(values[name], func(v string) bool { return !utf8.ValidString(v) }):
			f.add(name, "is not valid UTF-8")
		}
	}
	if unknown > maxUnknown {
		f.add("query", "%d parameters are unknown, of which %d are listed", unknown, maxUnknown)
	}
}

// decimal is a number as JSON writes it: ParseFloat alone would take hexadecimal,
// "Inf" and "NaN" too.
var decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// number reads a number. It returns absent where there is none, or a faulty one.
func (f *faults) number(field string, n number, absent float64) float64 {
	if n == "" || f.has(field) {
		return absent
	}
	if !decimal.MatchString(string(n)) {
		f.add(field, "%.40q is not a decimal number such as 12.5", string(n))
		return absent
	}
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		f.add(field, "%.40q is too large", string(n))
		return absent
	}
	return v
}

func (f *faults) distance(field string, n number, absent float64) float64 {
	v := f.number(field, n, absent)
	if v < 0 {
		f.add(field, "%v is not a distance in metres: want 0 or more", v)
		return absent
	}
	return v
}

func (f *faults) required(field string, n number) float64 {
	if n == "" {
		f.add(field, "is missing: want degrees")
	}
	return f.number(field, n, 0)
}

func (f *faults) limit(field string, n limit) int {
	if n == "" || f.has(field) {
		return 0
	}
	v, err := strconv.Atoi(string(n))
	if err != nil || v < 1 || v > store.MaxLimit { // 0 would mean the default to store
		f.add(field, "%.40q is not a whole number 1..%d", string(n), store.MaxLimit)
		return 0
	}
	return v
}

var money = regexp.MustCompile(`^([0-9]{1,13})(?:\.([0-9]{1,2}))?$`)

// hundredths reads an amount of money digit by digit: as a float64 a third
// decimal of a large amount would go unseen.
func (f *faults) hundredths(field string, n amount) int64 {
	if n == "" || f.has(field) {
		return 0
	}
	m := money.FindStringSubmatch(string(n))
	if m == nil {
		f.add(field, "%.40q is not an amount of 0..%.0f with up to two decimals, such as 12.50", string(n), float64(store.MaxPay)/100)
		return 0
	}
	v, err := strconv.ParseInt(m[1]+(m[2] + "00")[:2], 10, 64)
	if err != nil {
		f.add(field, "%.40q is too large", string(n))
	}
	return v
}

// moment is RFC 3339 to the letter: package time would take an hour of one digit
// and a comma before the fraction.
var moment = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`)

func (f *faults) time(field, s string) time.Time {
	if s == "" || f.has(field) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !moment.MatchString(s) {
		f.add(field, "%.40q is not a moment in RFC 3339 such as 2026-01-31T12:00:00Z (write + as %%2B)", s)
		return time.Time{}
	}
	return t
}

// maxCursor is several times the length of a cursor.
const maxCursor = 200

func (f *faults) cursor(field, s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if f.has(field) {
		return ""
	}
	if len(s) > maxCursor || strings.Trim(s, alphabet) != "" {
		f.add(field, "is not a cursor of this service: take next_cursor from the page before as it is, or leave it out for the first page")
		return ""
	}
	return s
}
