package table

import (
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/store"
)

// Time limits of statements on the user's table, enforced by its server.
const (
	CountLimit = 10 * time.Minute
	ReadLimit  = 6 * time.Hour
)

// Config says which table to look at and how.
type Config struct {
	// Source reads the table. SELECT on it is enough.
	Source *sql.DB

	// Server is where the copy is made; the same server as Source's or another one.
	// Only Advise needs it.
	Server *scratch.Server

	// Table is a table or a view, as table or schema.table. Without a schema it is that of
	// Source's connections. A name with a full stop in it is written with backticks,
	// as in SQL: `my.schema`.`table`.
	Table string

	// ID, Lat and Lng are columns: what identifies a row, and where it is in degrees.
	ID, Lat, Lng string

	// Where is a condition on the rows in SQL, "" for all. See the package comment.
	Where string

	// Sample is about how many rows to copy, the same ones each time with the same Seed; 0 copies all.
	// Every row is read and checked all the same.
	Sample int

	// Radii of the searches in metres. None are DefaultRadii. Unlimited ones are left
	// out: "the nearest however far" is no condition that an index could serve.
	Radii []float64

	// Limit is how many rows a search returns at most; 0 is store.DefaultLimit.
	Limit int

	// Seed chooses the sample, and the rows around which answers are compared.
	Seed uint64

	// Now is the clock for ids and posting times of the jobs; nil is time.Now.
	Now func() time.Time

	// Progress is told how far it is, with total 0 where that is unknown; nil: nobody is.
	Progress func(done, total int, what string)
}

// DefaultRadii are the radii of a Config that names none, in metres.
func DefaultRadii() []float64 { return []float64{1000, 5000, 25_000} }

// Validate reports every fault at once, as an *store.InvalidError whose fields are the command's: table, id,
// lat, lng, where, sample, radii, limit. It does not ask the database.
func (c *Config) Validate() error {
	var faults []store.Fault
	add := func(field, format string, args ...any) {
		faults = append(faults, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if c.Source == nil {
		add("source", "is missing: a connection to the server of the table")
	}
	if _, _, err := parseTable(c.Table); err != nil {
		add("table", "%v", err)
	}
	names := make(map[string]string)
	for _, n := range c.columnNames() {
		name, err := parseColumn(n.name)
		if err != nil {
			add(n.field, "%v", err)
			continue
		}
		if other, ok := names[strings.ToLower(name)]; ok {
			add(n.field, "is the same column as %s: id, latitude and longitude are three columns (a geometry column does not do for two)", other)
		} else {
			names[strings.ToLower(name)] = n.field
		}
	}
	if err := checkWhere(c.Where); err != nil {
		add("where", "%v", err)
	}
	if c.Sample < 0 {
		add("sample", "%d is negative: want a number of rows, or 0 for all", c.Sample)
	}
	for _, r := range c.Radii {
		if !(r > 0) {
			add("radii", "%v is not a positive number of metres", r)
		}
	}
	if c.Limit < 0 || c.Limit > store.MaxLimit {
		add("limit", "%d is not 1..%d", c.Limit, store.MaxLimit)
	}
	if len(faults) > 0 {
		return &store.InvalidError{Faults: faults}
	}
	return nil
}

type fieldName struct{ field, name string }

func (c *Config) columnNames() []fieldName {
	return []fieldName{{"id", c.ID}, {"lat", c.Lat}, {"lng", c.Lng}}
}

// radii returns the finite radii in order, or the defaults.
func (c *Config) radii() []float64 {
	all := slices.DeleteFunc(slices.Clone(c.Radii), func(r float64) bool { return math.IsInf(r, 1) })
	if len(all) == 0 {
		all = DefaultRadii()
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *Config) limit() int {
	if c.Limit == 0 {
		return store.DefaultLimit
	}
	return c.Limit
}

func (c *Config) now() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

func (c *Config) progress(done, total int, what string) {
	if c.Progress != nil {
		c.Progress(done, total, what)
	}
}

// parseTable reads table, schema.table, or either with names in backticks. The schema
// is "" where none is named.
func parseTable(s string) (schema, table string, err error) {
	if strings.TrimSpace(s) == "" {
		return "", "", fmt.Errorf("is missing: want schema.table")
	}
	var parts []string
	for rest := s; ; {
		part, after, err := nextName(rest)
		if err != nil {
			return "", "", err
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		if after[0] != '.' {
			return "", "", fmt.Errorf("%.80q goes on after the closing backtick: want `schema`.`table`", s)
		}
		rest = after[1:]
	}
	if len(parts) > 2 {
		return "", "", fmt.Errorf("%.80q has %d parts: want schema.table, with names that hold a full stop in backticks", s, len(parts))
	}
	for _, p := range parts {
		if err := checkName(p); err != nil {
			return "", "", err
		}
	}
	if len(parts) == 1 {
		return "", parts[0], nil
	}
	return parts[0], parts[1], nil
}

// nextName reads a name up to a full stop, or one in backticks.
func nextName(s string) (name, rest string, err error) {
	if !strings.HasPrefix(s, "`") {
		i := strings.IndexByte(s, '.')
		if i < 0 {
			return s, "", nil
		}
		return s[:i], s[i:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '`' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		return b.String(), s[i+1:], nil
	}
	return "", "", fmt.Errorf("%.80q has no closing backtick", s)
}

// parseColumn reads a column's name as it is, or in backticks.
func parseColumn(s string) (string, error) {
	if strings.TrimSpace(s) == "" {
		return "", fmt.Errorf("is missing: want the name of a column")
	}
	name := s
	if strings.HasPrefix(s, "`") {
		n, rest, err := nextName(s)
		if err != nil {
			return "", err
		}
		if rest != "" {
			return "", fmt.Errorf("%.80q goes on after the closing backtick: want `column`", s)
		}
		name = n
	}
	return name, checkName(name)
}

// checkName accepts what MySQL takes as a quoted identifier
// ("Schema Object Names" in its manual).
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("has an empty name in it")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %.80q is not valid UTF-8", name)
	case utf8.RuneCountInString(name) > 64:
		return fmt.Errorf("the name %.80q is longer than MySQL's 64 characters", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r == 0 || r > 0xFFFF }):
		return fmt.Errorf("the name %.80q has a character that MySQL allows in no name", name)
	case strings.HasSuffix(name, " "):
		return fmt.Errorf("the name %.80q ends with a space, which MySQL allows in no name", name)
	}
	return nil
}

// quote writes a name that checkName accepts, or that MySQL told, as an identifier.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// unused returns the name, or the name with a number, that is not among taken; MySQL
// compares names of columns and keys without case.
func unused(name string, taken []string) string {
	try := truncate(name, 64)
	for n := 2; slices.ContainsFunc(taken, func(t string) bool { return strings.EqualFold(t, try) }); n++ {
		suffix := fmt.Sprintf("_%d", n)
		try = truncate(name, 64-len(suffix)) + suffix
	}
	return try
}

// truncate keeps the first n characters.
func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n]), " ")
	}
	return s
}
