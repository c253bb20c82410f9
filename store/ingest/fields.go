package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/store"
)

// Field is a field of a job that a file can fill.
type Field string

// The fields.
const (
	Lat         Field = "lat"
	Lng         Field = "lng"
	ID          Field = "id"
	URL         Field = "url"
	Title       Field = "title"
	Description Field = "description"
	Category    Field = "category"
	Employer    Field = "employer"
	Pay         Field = "pay"
	Currency    Field = "currency"
	PayPer      Field = "pay_per"
	Posted      Field = "posted"
	Expires     Field = "expires"
	Remote      Field = "remote"
)

// fieldNames are the names under which files have the fields, as squash writes them.
var fieldNames = []struct {
	field Field
	names []string
}{
	{Lat, []string{"lat", "latitude", "y", "latdeg", "latitudedeg", "latdegrees"}},
	{Lng, []string{"lng", "lon", "long", "longitude", "x", "lngdeg", "londeg", "longitudedeg", "lngdegrees", "londegrees"}},
	{ID, []string{"id", "jobid", "sourceid", "identifier"}},
	{URL, []string{"url", "link", "href", "joburl"}},
	{Title, []string{"title", "jobtitle", "positiontitle", "headline"}},
	{Description, []string{"description", "desc", "jobdescription"}},
	{Category, []string{"category", "jobcategory"}},
	{Employer, []string{"employer", "employername", "company", "companyname", "organization", "organisation", "organizationname", "hiringorganization"}},
	{Pay, []string{"pay", "salary", "wage", "minpay", "paymin", "minsalary", "salarymin", "payamount"}},
	{Currency, []string{"currency", "paycurrency", "salarycurrency"}},
	{PayPer, []string{"payper", "per", "unit", "unittext", "payunit", "salaryunit", "payperiod", "salaryperiod"}},
	{Posted, []string{"posted", "postedat", "postedon", "dateposted", "posteddate", "created", "createdat", "date", "published", "publishedat", "publicationdate"}},
	{Expires, []string{"expires", "expiresat", "expiry", "expirationdate", "validthrough", "validuntil", "closingdate", "deadline", "applicationdeadline"}},
	{Remote, []string{"remote", "isremote", "telecommute"}},
}

// Fields lists the fields that [Options.Map] can name.
func Fields() []Field {
	var fs []Field
	for _, f := range fieldNames {
		fs = append(fs, f.field)
	}
	return fs
}

// squash writes a column's name without what differs by taste: case, blanks, "_" and "-".
func squash(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '_', '-', '\u00a0', '\ufeff':
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// fieldOf returns the field that usually has a name, or "".
func fieldOf(name string) Field {
	name = squash(name)
	for _, f := range fieldNames {
		if slices.Contains(f.names, name) {
			return f.field
		}
	}
	return ""
}

// mapping is a checked Options.Map.
type mapping map[Field]string

func newMapping(from map[string]string) (mapping, error) {
	var f []store.Fault
	m := mapping{}
	for field, column := range from {
		if !slices.Contains(Fields(), Field(field)) {
			f = append(f, store.Fault{Field: "map", Reason: fmt.Sprintf("%.40q is not a field; want one of %s", field, list(Fields()))})
		}
		m[Field(field)] = strings.TrimSpace(column)
	}
	if len(f) > 0 {
		slices.SortFunc(f, func(a, b store.Fault) int { return strings.Compare(a.Reason, b.Reason) })
		return nil, &store.InvalidError{Faults: f}
	}
	return m, nil
}

// find says which of a file's columns fills which field, by index. Its error
// names every column that is missing or ambiguous.
func (m mapping) find(columns []string) (map[Field]int, error) {
	var f []store.Fault
	add := func(format string, args ...any) {
		f = append(f, store.Fault{Field: "map", Reason: fmt.Sprintf(format, args...)})
	}
	found := map[Field]int{}
	byName := map[Field][]int{}
	for i, c := range columns {
		if field := fieldOf(c); field != "" {
			byName[field] = append(byName[field], i)
		}
	}
	for _, field := range Fields() {
		column, mapped := m[field]
		is := byName[field]
		if mapped {
			if column == "" {
				continue // --map pay= leaves it out
			}
			if is = indexes(columns, column); len(is) == 0 {
				add("there is no column %.60q for %s; the columns are %s", column, field, list(columns))
				continue
			}
		}
		switch {
		case len(is) == 1:
			found[field] = is[0]
		case len(is) > 1:
			var names []string
			for _, i := range is {
				names = append(names, fmt.Sprintf("%.60q", strings.TrimSpace(columns[i])))
			}
			if names[0] == names[1] {
				add("several columns are named %s; give all but one another name in the file", names[0])
				break
			}
			add("%s could all be %s; choose with --map %s=COLUMN", strings.Join(names, " and "), field, field)
		}
	}
	if len(f) > 0 {
		return nil, &store.InvalidError{Faults: f}
	}
	return found, nil
}

// indexes returns the columns of exactly this name, or else those whose name
// differs only by taste.
func indexes(columns []string, name string) []int {
	var exact, alike []int
	for i, c := range columns {
		if strings.TrimSpace(c) == name {
			exact = append(exact, i)
		}
		if squash(c) == squash(name) {
			alike = append(alike, i)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return alike
}

// list writes names for a message, not too many.
func list[S ~string](names []S) string {
	var b strings.Builder
	for i, n := range names {
		if i == 30 {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.60s", strings.TrimSpace(string(n)))
	}
	return b.String()
}
