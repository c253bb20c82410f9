package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// Source is a table that can be read. A Source does one thing at a time: it is not safe for
// concurrent use.
type Source struct {
	cfg           Config
	schema, table string
	view          bool
	engine        string
	online        bool // ALGORITHM=INSTANT and LOCK=NONE are to be had
	partitioned   bool

	id, lat, lng column
	columns      []string // of the whole table
	indexes      []index  // of the whole table

	rows  int // that pass Where, when Inspect counted them
	tally tally
}

// column is a column of the table, as information_schema describes it.
type column struct {
	name      string // as the server spells it
	dataType  string // "bigint"
	fullType  string // "bigint unsigned"
	charset   string // "" for what is not text
	collation string
	nullable  bool
	scale     sql.NullInt64
}

// index is a key of the table.
type index struct {
	name    string
	unique  bool
	visible bool
	kind    string // "BTREE", "SPATIAL", "FULLTEXT", "HASH"
	parts   []indexPart
}

type indexPart struct {
	column string // "" for an expression
	prefix int    // 0: the whole column
	desc   bool
}

// Name is schema.table without quotes.
func (s *Source) Name() string { return s.schema + "." + s.table }

// Rows is how many rows pass Where, as counted by Inspect.
func (s *Source) Rows() int { return s.rows }

// Sampled reports whether Jobs leaves rows out for Config.Sample.
func (s *Source) Sampled() bool { return s.cfg.Sample > 0 && s.cfg.Sample < s.rows }

// Center is where the rows are densest: the mean of the places in the fullest square of a tenth
// of a degree, for searches to start from. It reports false before a reading, and
// where no row has a usable place.
func (s *Source) Center() (geo.LatLng, bool) { return s.tally.density.Center() }

// Problems are the kinds of fault that the last reading found, complete once Jobs has been read to
// its end. The counts are of all rows that pass Where, also with a sample.
func (s *Source) Problems() []result.Problem { return s.problems() }

// MySQL's error numbers that have a meaning here.
const (
	errDBAccess      = 1044
	errBadDB         = 1049
	errTableAccess   = 1142
	errColumnAccess  = 1143
	errNoSuchTable   = 1146
	errStatementTime = 3024
	errViewInvalid   = 1356
)

func number(err error) uint16 {
	if my := new(mysql.MySQLError); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// Inspect checks that the table and its columns exist and can be used, and counts its
// rows. What is wrong with the Config is an *store.InvalidError, with the names that come
// near to one that does not exist.
func Inspect(ctx context.Context, c Config) (*Source, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Source{cfg: c}
	var err error
	if s.schema, s.table, err = parseTable(c.Table); err != nil {
		return nil, store.Invalid("table", err.Error()) // Validate has seen to it
	}
	err = s.reading(ctx, CountLimit.Milliseconds(), func(conn *sql.Conn) error {
		if err := s.findTable(ctx, conn); err != nil {
			return err
		}
		if err := s.findColumns(ctx, conn); err != nil {
			return err
		}
		if err := s.findIndexes(ctx, conn); err != nil {
			return err
		}
		return s.count(ctx, conn)
	})
	if err != nil {
		return nil, err
	}
	s.tally = newTally(s)
	return s, nil
}

// reading runs f in a read-only transaction with a consistent snapshot, on a connection
// that is closed afterwards: its session is not what others expect of the pool.
func (s *Source) reading(ctx context.Context, limitMS int64, f func(*sql.Conn) error) (err error) {
	defer func() {
		// A context that ends closes the connection, and what fails next may only say that.
		if cause := ctx.Err(); err != nil && cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err)
		}
	}()
	conn, err := s.cfg.Source.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to the server of the table: %w", err)
	}
	defer conn.Close() // by then it is closed already
	defer func() { _ = conn.Raw(func(any) error { return errDiscard }) }()
	for _, stmt := range []string{
		// An empty sql_mode makes quotes what checkWhere takes them for, and turns a text that is no
		// number into a warning. A slow reader of the rows must not end the statement.
		fmt.Sprintf("SET SESSION sql_mode = '', max_execution_time = %d, net_write_timeout = 3600, transaction_isolation = 'REPEATABLE-READ'", limitMS),
		"SET NAMES utf8mb4",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if _, err := conn.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("begin to read %s: %w", s.cfg.Table, err)
		}
	}
	if err := f(conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("end the reading of %s: %w", s.cfg.Table, err)
	}
	return nil
}

// findTable sets what is known of the table itself.
func (s *Source) findTable(ctx context.Context, conn *sql.Conn) error {
	if s.schema == "" {
		var current sql.NullString
		if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&current); err != nil {
			return fmt.Errorf("ask for the current schema: %w", err)
		}
		if !current.Valid {
			return store.Invalid("table", fmt.Sprintf("%.80q names no schema, and the connection has none: want schema.table", s.cfg.Table))
		}
		s.schema = current.String
	}
	var kind string
	var engine, format, options sql.NullString
	err := conn.QueryRowContext(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, ROW_FORMAT, CREATE_OPTIONS"+
		" FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", s.schema, s.table).
		Scan(&s.schema, &s.table, &kind, &engine, &format, &options)
	if errors.Is(err, sql.ErrNoRows) {
		return s.noTable(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("look for the table %s: %w", s.Name(), err)
	}
	s.view = kind != "BASE TABLE"
	s.engine = engine.String
	s.partitioned = strings.Contains(strings.ToLower(options.String), "partitioned")
	s.online = s.innoDB() && !strings.EqualFold(format.String, "Compressed")
	return nil
}

// noTable says which tables come near to one that does not exist, or that the account
// does not see: MySQL makes no difference between the two.
func (s *Source) noTable(ctx context.Context, conn *sql.Conn) error {
	schemas, err := texts(ctx, conn, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA")
	if err != nil {
		return fmt.Errorf("list the schemas: %w", err)
	}
	reason := fmt.Sprintf("there is no table %s that this account may read", s.Name())
	if !slices.Contains(schemas, s.schema) {
		if near := nearest(s.schema, schemas); near != "" {
			return store.Invalid("table", fmt.Sprintf("there is no schema %s that this account may read; did you mean %s.%s?", s.schema, near, s.table))
		}
	} else {
		tables, err := texts(ctx, conn, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?", s.schema)
		if err != nil {
			return fmt.Errorf("list the tables of %s: %w", s.schema, err)
		}
		if near := nearest(s.table, tables); near != "" {
			return store.Invalid("table", fmt.Sprintf("%s; did you mean %s.%s?", reason, s.schema, near))
		}
	}
	return store.Invalid("table", reason+": check the name, or "+s.grant())
}

// grant is what lets an account read the table.
func (s *Source) grant() string {
	return fmt.Sprintf("GRANT SELECT ON %s.%s to the account", quote(s.schema), quote(s.table))
}

func texts(ctx context.Context, conn *sql.Conn, query string, args ...any) ([]string, error) {
	rows, err := conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var t string
		if err := rows.Scan(&t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

// plainType is what a column's type may look like to be written into the DDL of the copy.
var (
	plainType    = regexp.MustCompile(`^[a-z]+(\([0-9]+(,[0-9]+)?\))?( unsigned)?( zerofill)?$`)
	plainCharset = regexp.MustCompile(`^[a-z0-9_]*$`)
)

// findColumns sets the three columns, with every fault at once.
func (s *Source) findColumns(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),"+
		" IS_NULLABLE = 'YES', NUMERIC_SCALE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION",
		s.schema, s.table)
	if err != nil {
		return fmt.Errorf("list the columns of %s: %w", s.Name(), err)
	}
	defer rows.Close()
	var all []column
	s.columns = nil
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.dataType, &c.fullType, &c.charset, &c.collation, &c.nullable, &c.scale); err != nil {
			return fmt.Errorf("list the columns of %s: %w", s.Name(), err)
		}
		c.dataType, c.fullType = strings.ToLower(c.dataType), strings.ToLower(c.fullType)
		all = append(all, c)
		s.columns = append(s.columns, c.name)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list the columns of %s: %w", s.Name(), err)
	}
	var faults []store.Fault
	for i, n := range s.cfg.columnNames() {
		name, err := parseColumn(n.name)
		if err != nil {
			return store.Invalid(n.field, err.Error()) // Validate has seen to it
		}
		at := slices.IndexFunc(all, func(c column) bool { return strings.EqualFold(c.name, name) })
		if at < 0 {
			reason := fmt.Sprintf("there is no column %s in %s that this account may read", name, s.Name())
			if near := nearest(name, s.columns); near != "" {
				reason += "; did you mean " + near + "?"
			} else {
				reason += ": it has " + list(s.columns)
			}
			faults = append(faults, store.Fault{Field: n.field, Reason: reason})
			continue
		}
		c := all[at]
		reason := c.unfitPlace(s)
		if n.field == "id" {
			reason = c.unfitID()
		}
		if reason == "" && !(plainType.MatchString(c.fullType) && plainCharset.MatchString(c.charset) && plainCharset.MatchString(c.collation)) {
			reason = fmt.Sprintf("%s is %s, which cannot be copied", c.name, c.fullType)
		}
		if reason != "" {
			faults = append(faults, store.Fault{Field: n.field, Reason: reason})
		}
		*[]*column{&s.id, &s.lat, &s.lng}[i] = c
	}
	if len(faults) > 0 {
		return &store.InvalidError{Faults: faults}
	}
	return nil
}

// list names the first few.
func list(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

func (c *column) isInteger() bool {
	switch c.dataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return true
	}
	return false
}

func (c *column) isNumber() bool {
	switch c.dataType {
	case "decimal", "double", "float":
		return true
	}
	return c.isInteger()
}

func (c *column) isText() bool { return c.charset != "" && c.charset != "binary" && !c.isList() }

func (c *column) isList() bool { return c.dataType == "enum" || c.dataType == "set" }

func (c *column) isGeometry() bool {
	switch c.dataType {
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection":
		return true
	}
	return false
}

// unfitID says why a column cannot identify rows, or "".
func (c *column) unfitID() string {
	switch c.dataType {
	case "decimal", "char", "varchar", "binary", "varbinary":
		return ""
	}
	if c.isInteger() {
		return ""
	}
	return fmt.Sprintf("%s is %s: want an integer, decimal, char, varchar, binary or varbinary column that identifies a row", c.name, c.fullType)
}

// unfitPlace says why a column cannot be a coordinate, or "".
func (c *column) unfitPlace(s *Source) string {
	switch {
	case c.isNumber(), c.isText():
		return ""
	case c.isGeometry():
		return fmt.Sprintf("%[1]s is a %[2]s column: want two columns of degrees. Name a view that has them: "+
			"CREATE VIEW %[3]s AS SELECT %[4]s, ST_Latitude(%[5]s) AS lat, ST_Longitude(%[5]s) AS lng FROM %[6]s "+
			"(for SRID 0, where x is the longitude: ST_Y and ST_X)",
			c.name, c.dataType, quote(truncate(s.table, 60)+"_ll"), quote(s.cfg.ID), quote(c.name), quote(s.table))
	}
	return fmt.Sprintf("%s is %s: want degrees as a number (DOUBLE), or as text that is one", c.name, c.fullType)
}

// ddl is the column as it stands in CREATE TABLE.
func (c *column) ddl() string {
	var b strings.Builder
	b.WriteString(quote(c.name) + " " + c.fullType)
	if c.charset != "" {
		b.WriteString(" CHARACTER SET " + c.charset + " COLLATE " + c.collation)
	}
	if c.nullable {
		b.WriteString(" NULL")
	} else {
		b.WriteString(" NOT NULL")
	}
	return b.String()
}

// findIndexes sets all keys of the table.
func (s *Source) findIndexes(ctx context.Context, conn *sql.Conn) error {
	rows, err := conn.QueryContext(ctx, "SELECT INDEX_NAME, NON_UNIQUE = 0, IS_VISIBLE = 'YES', INDEX_TYPE, COALESCE(COLUMN_NAME, ''),"+
		" COALESCE(SUB_PART, 0), COALESCE(COLLATION, 'A') = 'D' FROM information_schema.STATISTICS"+
		" WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX", s.schema, s.table)
	if err != nil {
		return fmt.Errorf("list the indexes of %s: %w", s.Name(), err)
	}
	defer rows.Close()
	s.indexes = nil
	for rows.Next() {
		var ix index
		var p indexPart
		if err := rows.Scan(&ix.name, &ix.unique, &ix.visible, &ix.kind, &p.column, &p.prefix, &p.desc); err != nil {
			return fmt.Errorf("list the indexes of %s: %w", s.Name(), err)
		}
		if n := len(s.indexes); n == 0 || s.indexes[n-1].name != ix.name {
			s.indexes = append(s.indexes, ix)
		}
		last := &s.indexes[len(s.indexes)-1]
		last.parts = append(last.parts, p)
		if ix.kind == "FULLTEXT" {
			s.online = false
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list the indexes of %s: %w", s.Name(), err)
	}
	return nil
}

// unique reports whether no two rows can have the same id, and none is without.
func (s *Source) unique() bool {
	return !s.id.nullable && slices.ContainsFunc(s.indexes, func(ix index) bool {
		return ix.unique && len(ix.parts) == 1 && ix.parts[0].column == s.id.name && ix.parts[0].prefix == 0
	})
}

func (s *Source) innoDB() bool { return strings.EqualFold(s.engine, "InnoDB") }

// clustered reports whether the primary key holds the id, so that every other key of
// InnoDB does too.
func (s *Source) clustered() bool {
	return s.innoDB() && slices.ContainsFunc(s.indexes, func(ix index) bool {
		return ix.name == "PRIMARY" && slices.ContainsFunc(ix.parts, func(p indexPart) bool { return p.column == s.id.name && p.prefix == 0 })
	})
}

// from is FROM with the condition.
func (s *Source) from() string {
	f := " FROM " + quote(s.schema) + "." + quote(s.table)
	if s.cfg.Where != "" {
		f += " WHERE (" + s.cfg.Where + ")"
	}
	return f
}

// count counts the rows; it is the first statement that reads the table.
func (s *Source) count(ctx context.Context, conn *sql.Conn) error {
	s.cfg.progress(0, 0, "counting the rows of "+s.Name())
	// The columns are read too, so that a missing right shows here.
	check := fmt.Sprintf("SELECT %s, %s, %s%s LIMIT 1", quote(s.id.name), quote(s.lat.name), quote(s.lng.name), s.from())
	rows, err := conn.QueryContext(ctx, check)
	if err == nil {
		for rows.Next() {
			continue
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT COUNT(*)"+s.from()).Scan(&s.rows)
	}
	return s.readError(ctx, err)
}

// readError says what an error of a SELECT on the table is about.
func (s *Source) readError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch number(err) {
	case errTableAccess, errColumnAccess, errDBAccess:
		return fmt.Errorf("this account may not read %s: %s: %w", s.Name(), s.grant(), err)
	case errViewInvalid:
		return fmt.Errorf("the view %s cannot be read: %w", s.Name(), err)
	case errStatementTime:
		return fmt.Errorf("read %s: %w, after %v for the count or %v for a reading: narrow it with where: %w",
			s.Name(), store.ErrTimeout, CountLimit, ReadLimit, err)
	case errNoSuchTable, errBadDB:
		return fmt.Errorf("read %s, which is gone: %w", s.Name(), err)
	}
	// Without the condition the statement is ours and right, so what MySQL has against
	// its SQL (42: syntax and names, 22: data, 21: several rows for one, 25: a write) is
	// against the condition.
	if my := new(mysql.MySQLError); s.cfg.Where != "" && errors.As(err, &my) {
		switch string(my.SQLState[:2]) {
		case "42", "22", "21", "25":
			return fmt.Errorf("%w (%w)", store.Invalid("where", "MySQL does not take the condition"), err)
		}
	}
	return fmt.Errorf("read %s: %w", s.Name(), err)
}
