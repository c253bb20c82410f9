package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// place is where a schema for a test is.
type place struct {
	dsn, schema string
	db          *sql.DB // as an account that may do everything
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{dsn: testdb.MySQL(t)}
	u, err := url.Parse(p.dsn)
	if err != nil {
		t.Fatal("the address of the test's schema cannot be read")
	}
	p.schema = strings.TrimPrefix(u.Path, "/")
	p.db = open(t, p.dsn)
	return p
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.DriverConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		t.Fatal("the address of the test's schema cannot be used")
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (p place) server(t *testing.T) *scratch.Server {
	t.Helper()
	s, err := scratch.Open(t.Context(), p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// account makes an account with the given rights, and returns the address of the schema for it.
func (p place) account(t *testing.T, grants ...string) string {
	t.Helper()
	name := fmt.Sprintf("nj%x", rand.Uint64())
	exec(t, p.db, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'secret'")
	t.Cleanup(func() {
		if _, err := p.db.ExecContext(context.WithoutCancel(t.Context()), "DROP USER '"+name+"'@'%'"); err != nil {
			t.Error(err)
		}
	})
	for _, g := range grants {
		exec(t, p.db, "GRANT "+g+" TO '"+name+"'@'%'")
	}
	u, err := url.Parse(p.dsn)
	if err != nil {
		t.Fatal("the address of the test's schema cannot be read")
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

func exec(t *testing.T, db *sql.DB, stmt string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), stmt, args...); err != nil {
		t.Fatalf("%.300s: %v", stmt, err)
	}
}

// sample is a row to put into a table; lat and lng are as they are written.
type sample struct {
	id       any
	lat, lng any
}

// scatter makes n rows around a place, several of them at one point.
func scatter(center geo.LatLng, n int, id func(i int) any) []sample {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	all := make([]sample, n)
	for i := range all {
		lat := center.Lat + 0.3*(rng.Float64()-0.5)
		lng := center.Lng + 0.3*(rng.Float64()-0.5)
		if i%10 == 0 && i > 0 {
			all[i] = sample{id(i), all[i/10].lat, all[i/10].lng}
			continue
		}
		if lng > 180 {
			lng -= 360
		}
		if lat < -90 {
			lat = -180 - lat // on the other side of the pole
		}
		lat, lng = math.Round(lat*1e6)/1e6, math.Round(lng*1e6)/1e6
		all[i] = sample{id(i), lat, lng}
	}
	return all
}

func insert(t *testing.T, db *sql.DB, table string, columns [3]string, rows []sample) {
	t.Helper()
	for part := range slices.Chunk(rows, 500) {
		q := fmt.Sprintf("INSERT INTO %s (%s, %s, %s) VALUES ", quote(table), quote(columns[0]), quote(columns[1]), quote(columns[2]))
		var args []any
		for i, r := range part {
			if i > 0 {
				q += ", "
			}
			q += "(?, ?, ?)"
			args = append(args, r.id, r.lat, r.lng)
		}
		exec(t, db, q, args...)
	}
}

var (
	berlin = geo.LatLng{Lat: 52.52, Lng: 13.405}
	fiji   = geo.LatLng{Lat: -17.8, Lng: 179.99}
	plainN = func(i int) any { return i + 1 }
)

// shapes are the tables that advice is tried on.
var shapes = []struct {
	name    string
	ddl     []string // %s is the table, quoted
	table   string
	columns [3]string
	center  geo.LatLng
	id      func(i int) any
	more    []sample // rows with something wrong, or at an edge
	text    bool     // coordinates are written as text
	radii   []float64
	where   string

	strategies []string // nil: all
	noDDL      string   // the strategy that needs none
	notes      bool     // the DDL says that writes wait
	problems   map[string]int
}{
	{
		name: "plain", ddl: []string{"CREATE TABLE %s (id BIGINT PRIMARY KEY, title VARCHAR(40) NOT NULL DEFAULT 'x', lat DOUBLE NOT NULL, lng DOUBLE NOT NULL, KEY title_lat (title, lat), KEY lng (lng))"},
		center: berlin, id: plainN, problems: map[string]int{},
	},
	{
		name: "as it is", ddl: []string{"CREATE TABLE %s (n INT AUTO_INCREMENT PRIMARY KEY, id BIGINT UNSIGNED NULL, lat DECIMAL(9,6) NULL, lng DECIMAL(9,6) NULL, KEY id (id), KEY lat (lat DESC))"},
		center: berlin, id: func(i int) any { return uint64(math.MaxInt64) + uint64(i) },
		more: []sample{
			{1, nil, 13.4}, {2, 52.5, nil}, {3, nil, nil}, {4, 91.5, 181.0}, {5, 52.5, -200.0}, {6, 113.4, 52.5}, {7, 0.0, 0.0}, {8, 0.0, 0.0},
			{9, 52.52, 13.405}, {9, 52.521, 13.405}, {9, 52.52, 13.405}, {nil, 52.52, 13.405}, {10, 52.52, 373.405}, {11, 52.52, -180.0},
		},
		problems: map[string]int{"null lat": 2, "null lng": 2, "null id": 1, "out-of-range lat": 1, "out-of-range lng": 3, "swapped lat": 1, "zero-zero lat": 2, "duplicate-id id": 2},
	},
	{
		name: "text", ddl: []string{"CREATE TABLE %s (id VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY, lat VARCHAR(20), lng TEXT, lat_deg INT)"},
		center: berlin, id: func(i int) any { return fmt.Sprintf("jöb-%d", i*7919%10_007) }, text: true,
		more: []sample{
			{"comma", "52,52", "13.405"}, {"words", "abc", "13.405"}, {"empty", "", "13.405"}, {"cr", "52.52\r", "13.405"}, {"lf", "52.52\n", "13.405"},
			{"spaces", " 52.52 ", " +13.405"}, {"dot", "52.", "13.405"}, {"nan", "nan", "13.405"}, {"hex", "0x34", "13.405"}, {"exp", "5.2e1", "13.405"},
			{"far", "52.52", "373.405"}, {"none", nil, "13.405"}, {"two  spaces", "52.52", "13.405"}, {"long", "52.52", "13." + strings.Repeat("4", 40)},
		},
		problems: map[string]int{"not-a-number lat": 8, "out-of-range lng": 1, "null lat": 1, "number-as-text lat": rowsOfShape + 5, "number-as-text lng": rowsOfShape + 13, "id-not-integer id": rowsOfShape + 14, "id-form id": 1},
	},
	{
		name: "float", ddl: []string{"CREATE TABLE %s (id CHAR(36) PRIMARY KEY, lat FLOAT NOT NULL, lng FLOAT NOT NULL)"},
		center: berlin, id: func(i int) any { return fmt.Sprintf("%08x-0000-4000-8000-%012x", i*2654435761%(1<<32), i) },
		problems: map[string]int{"float-precision lat": rowsOfShape, "float-precision lng": rowsOfShape, "id-not-integer id": rowsOfShape},
	},
	{
		name: "binary", ddl: []string{"CREATE TABLE %s (id BINARY(16) PRIMARY KEY, lat DOUBLE, lng DOUBLE) PARTITION BY KEY (id) PARTITIONS 3"},
		center: berlin, id: func(i int) any { return fmt.Appendf(nil, "%016x", i*2654435761)[:16] },
		strategies: []string{"bbox", "s2", "geohash", "h3"},
		problems:   map[string]int{"id-form id": rowsOfShape, "id-not-integer id": rowsOfShape, "partitioned ": rowsOfShape},
	},
	{
		name: "names", table: "the `order`.by", columns: [3]string{"distance_m", "s2", "select`"},
		ddl:    []string{"CREATE TABLE %s (`distance_m` INT ZEROFILL PRIMARY KEY, `s2` DOUBLE NULL, `select``` DOUBLE NULL, `pt` INT, `key %%s` INT, KEY `lat_lng` (`pt`))"},
		center: berlin, id: plainN, problems: map[string]int{},
	},
	{
		name: "view", ddl: []string{
			"CREATE TABLE base (id BIGINT PRIMARY KEY, lat VARCHAR(20), lng DECIMAL(10,7), hidden BOOL NOT NULL DEFAULT FALSE)",
			"CREATE VIEW %s AS SELECT id, lat, lng FROM base WHERE NOT hidden",
		},
		center: berlin, id: plainN, text: true,
		more:     []sample{{5001, "abc", "13"}, {5002, nil, nil}, {5003, "52.5", "200"}, {5004, " 52.52", "13.4"}},
		problems: map[string]int{"not-a-number lat": 1, "null lat": 1, "null lng": 1, "out-of-range lng": 1, "number-as-text lat": rowsOfShape + 2, "view ": rowsOfShape + 4},
	},
	{
		name: "indexed", ddl: []string{"CREATE TABLE %s (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE, KEY place (lat, lng))"},
		center: berlin, id: plainN, noDDL: "bbox", problems: map[string]int{},
	},
	{
		name: "antimeridian", ddl: []string{"CREATE TABLE %s (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE)"},
		center: fiji, id: plainN, radii: []float64{500, 4000, 15_000},
		more:     []sample{{9001, -17.8, 180.0}, {9002, -17.8, -180.0}, {9003, -17.8, 180.0}, {9004, -17.81, -180.0}, {9005, nil, nil}},
		problems: map[string]int{"null lat": 1, "null lng": 1},
	},
	{
		name: "pole", ddl: []string{"CREATE TABLE %s (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE)"},
		center: geo.LatLng{Lat: -89.9, Lng: 10}, id: plainN, radii: []float64{1000, 30_000, 20_015_115},
		more:     []sample{{9001, -90.0, 0.0}, {9002, -90.0, -180.0}, {9003, -90.0, 77.0}, {9004, nil, 0.0}, {9005, -95.0, 0.0}, {9006, 89.9, -170.0}, {9007, -89.99, -180.0}},
		problems: map[string]int{"null lat": 1, "swapped lat": 1},
	},
	{
		name: "fulltext", ddl: []string{"CREATE TABLE %s (id DECIMAL(20,0) PRIMARY KEY, lat DECIMAL(6,3), lng INT, note VARCHAR(20) DEFAULT 'a', FULLTEXT KEY (note)) ENGINE = InnoDB"},
		center: berlin, id: plainN, notes: true, radii: []float64{50_000},
		problems: map[string]int{"coarse-precision lat": rowsOfShape, "coarse-precision lng": rowsOfShape, "id-not-integer id": rowsOfShape},
	},
	{
		name: "other engine", ddl: []string{"CREATE TABLE %s (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE) ENGINE = MyISAM"},
		center: berlin, id: plainN, notes: true, more: []sample{{9001, nil, 400.0}}, strategies: []string{"bbox", "s2", "geohash", "h3"},
		problems: map[string]int{"null lat": 1, "out-of-range lng": 1, "storage-engine ": rowsOfShape + 1},
	},
	{
		name: "condition", ddl: []string{"CREATE TABLE %s (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE, status VARCHAR(10) NOT NULL DEFAULT 'open')"},
		center: berlin, id: plainN, where: "status = 'open' OR status = ')'", problems: map[string]int{"where ": rowsOfShape},
	},
}

const rowsOfShape = 600

// TestAdvise proves on each table that the advice works when it is pasted: in a schema where the
// whole table stands, not our copy of it, and against distances that package geo computes.
func TestAdvise(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			if testing.Short() && shape.name != "plain" && shape.name != "as it is" && shape.name != "antimeridian" {
				t.Skip("short: three tables of all")
			}
			if shape.table == "" {
				shape.table = "my_jobs"
			}
			if shape.columns[0] == "" {
				shape.columns = [3]string{"id", "lat", "lng"}
			}
			if shape.radii == nil {
				shape.radii = []float64{300, 2000, 12_000}
			}
			rows := append(scatter(shape.center, rowsOfShape, shape.id), shape.more...)
			if shape.text {
				for i, r := range rows[:rowsOfShape] {
					rows[i].lat = strconv.FormatFloat(r.lat.(float64), 'f', -1, 64)
					rows[i].lng = strconv.FormatFloat(r.lng.(float64), 'f', -1, 64)
				}
			}
			build := func(p place) {
				for _, ddl := range shape.ddl {
					if strings.Contains(ddl, "%s") {
						ddl = fmt.Sprintf(ddl, quote(shape.table))
					}
					exec(t, p.db, ddl)
				}
				insert(t, p.db, shape.table, shape.columns, rows)
			}
			p := newPlace(t)
			build(p)

			c := Config{
				Source: p.db, Server: p.server(t), Table: quote(p.schema) + "." + quote(shape.table),
				ID: shape.columns[0], Lat: shape.columns[1], Lng: quote(shape.columns[2]), Where: shape.where,
				Radii: shape.radii, Limit: 40, Seed: 3, Now: time.Now,
			}
			src, err := Inspect(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			run := &result.Run{Sets: []result.Set{{Name: c.Table, Center: result.LatLng{Lat: shape.center.Lat, Lng: shape.center.Lng}}}}
			got, err := Advise(t.Context(), c, src, run)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rows != len(rows) || got.Copied != len(rows) || got.Sampled || got.Where != shape.where || got.Name != p.schema+"."+shape.table {
				t.Errorf("got %d rows, %d copied, sampled %v, where %q, name %q", got.Rows, got.Copied, got.Sampled, got.Where, got.Name)
			}
			checkProblems(t, got.Problems, shape.problems)
			checkToday(t, got, shape.radii)

			var strategies []string
			for _, a := range got.Advice {
				strategies = append(strategies, a.Strategy)
			}
			want := shape.strategies
			if want == nil {
				want = []string{"bbox", "spatial", "s2", "geohash", "h3"}
			}
			slices.Sort(strategies)
			if want = slices.Sorted(slices.Values(want)); !slices.Equal(strategies, want) {
				t.Fatalf("got advice for %v, want %v", strategies, want)
			}
			if !slices.IsSortedFunc(got.Advice, func(a, b result.Advice) int { return -cmpFloat(a.Gain, b.Gain) }) {
				t.Error("the advice is not in the order of its gain")
			}
			paste := newPlace(t)
			for _, a := range got.Advice {
				t.Run(a.Strategy, func(t *testing.T) {
					if a.Gain != got.Today[len(shape.radii)/2].Time.Median/a.Time.Median || a.Time.Runs < fewestRuns || a.RadiusM != shape.radii[len(shape.radii)/2] || a.Needs == "" {
						t.Errorf("got a gain of %v, %d runs, radius %v, needs %q", a.Gain, a.Time.Runs, a.RadiusM, a.Needs)
					}
					if (len(a.DDL) == 0) != (a.Strategy == shape.noDDL) || a.DDL == nil {
						t.Errorf("got DDL %q", a.DDL)
					}
					if waits := strings.Contains(strings.Join(a.DDL, ""), noteOffline); waits != shape.notes {
						t.Errorf("the DDL says that writes wait: %v, want %v: %q", waits, shape.notes, a.DDL)
					}
					if shape.where != "" && !strings.Contains(a.Needs, "("+shape.where+")") {
						t.Errorf("%q does not tell the condition", a.Needs)
					}
					if shape.name != "plain" && (a.Strategy == "geohash" || a.Strategy == "h3") {
						return // pasted as s2 is, but for the numbers, which Advise has compared
					}
					empty(t, paste)
					build(paste)
					for i, ddl := range a.DDL {
						if scheme := schemeOf(a.Strategy); scheme != nil && i == len(a.DDL)-1 {
							fillColumn(t, paste.db, a.DDL[i-1], shape.columns, scheme)
						}
						exec(t, paste.db, ddl)
					}
					checkPasted(t, paste.db, a.Query, shape.table, shape.columns, shape.center, a.RadiusM, c.Limit)
					if shape.name == "plain" {
						checkUsed(t, paste.db, a)
					}
				})
			}
		})
	}
}

// empty drops what an earlier strategy has left.
func empty(t *testing.T, p place) {
	t.Helper()
	rows, err := p.db.QueryContext(t.Context(), "SELECT TABLE_NAME, TABLE_TYPE = 'VIEW' FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var name string
		var view bool
		if err := rows.Scan(&name, &view); err != nil {
			t.Fatal(err)
		}
		drops = append(drops, "DROP "+map[bool]string{true: "VIEW ", false: "TABLE "}[view]+quote(name))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, d := range drops {
		exec(t, p.db, d)
	}
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func checkProblems(t *testing.T, problems []result.Problem, want map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for _, p := range problems {
		got[p.Kind+" "+p.Column] = p.Count
		if p.Text == "" || !strings.HasSuffix(p.Text, ".") {
			t.Errorf("%s: the text %q is no sentence", p.Kind, p.Text)
		}
		if strings.Contains(p.Text, "%!") {
			t.Errorf("%s: %q", p.Kind, p.Text)
		}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%s: got %d, want %d", k, got[k], n)
		}
	}
	for k, n := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: got %d, want none", k, n)
		}
	}
}

func checkToday(t *testing.T, got *result.Table, radii []float64) {
	t.Helper()
	if len(got.Today) != len(radii) {
		t.Fatalf("got %d cases of today, want %d", len(got.Today), len(radii))
	}
	within := 0
	for i, c := range got.Today {
		if c.RadiusM != radii[i] || c.Within < within || c.Time.Runs < fewestRuns {
			t.Errorf("today %d: got %+v", i, c)
		}
		within = c.Within
	}
	if within == 0 {
		t.Error("nothing is within the largest radius")
	}
}

func schemeOf(strategy string) cell.Scheme {
	switch strategy {
	case "s2":
		return cell.S2
	case "geohash":
		return cell.Geohash
	case "h3":
		return cell.H3
	}
	return nil
}

// fillColumn does what Needs tells the application: the table and the column are read from
// the statement that adds the column.
func fillColumn(t *testing.T, db *sql.DB, ddl string, columns [3]string, scheme cell.Scheme) {
	t.Helper()
	_, rest, _ := strings.Cut(ddl, "ALTER TABLE ")
	table, rest, _ := strings.Cut(rest, " ADD COLUMN ")
	column, _, ok := strings.Cut(rest, " BIGINT")
	if !ok {
		t.Fatalf("no column is added by %q", ddl)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() // does nothing after Commit
	update, err := tx.PrepareContext(t.Context(), fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s <=> ? AND CAST(%s AS DOUBLE) = ? AND CAST(%s AS DOUBLE) = ?",
		table, column, quote(columns[0]), quote(columns[1]), quote(columns[2])))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRows(t, db, table, columns) {
		if !r.ok {
			continue
		}
		if _, err := update.ExecContext(t.Context(), scheme.Index(r.at), r.id, r.lat, r.lng); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

type readRow struct {
	id       sql.NullString
	lat, lng float64
	at       geo.LatLng
	ok       bool
}

// readRows reads a table by other means than the package: the driver's numbers for numbers,
// and for text a parser of its own.
func readRows(t *testing.T, db *sql.DB, table string, columns [3]string) []readRow {
	t.Helper()
	// CONCAT makes text of any kind, and a FLOAT loses nothing as a DOUBLE.
	coordinate := func(c string) string {
		return fmt.Sprintf("%[1]s IS NOT NULL, CONCAT(%[1]s, ''), CAST(%[1]s AS DOUBLE)", quote(c))
	}
	rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s, %s, %s FROM %s", quote(columns[0]), coordinate(columns[1]), coordinate(columns[2]), table))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []readRow
	for rows.Next() {
		var r readRow
		var latText, lngText sql.NullString
		var hasLat, hasLng bool
		var lat, lng sql.NullFloat64
		if err := rows.Scan(&r.id, &hasLat, &latText, &lat, &hasLng, &lngText, &lng); err != nil {
			t.Fatal(err)
		}
		r.lat, r.lng = lat.Float64, lng.Float64
		isNumber := func(s string) bool {
			s = strings.Trim(s, " ")
			digits := strings.TrimLeft(s, "+-")
			return digits != "" && len(s)-len(digits) <= 1 && strings.Trim(digits, "0123456789.") == "" && strings.Count(digits, ".") <= 1
		}
		if hasLat && hasLng && isNumber(latText.String) && isNumber(lngText.String) {
			at, err := geo.NewLatLng(r.lat, r.lng)
			r.at, r.ok = at, err == nil
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkPasted runs a query as printed and compares it with the distances of package geo.
func checkPasted(t *testing.T, db *sql.DB, query, table string, columns [3]string, center geo.LatLng, radius float64, limit int) {
	t.Helper()
	left := make(map[string][]float64) // the distances of each id
	var want []float64
	for _, r := range readRows(t, db, quote(table), columns) {
		if r.ok {
			if d := center.Distance(r.at); d <= radius {
				want = append(want, d)
				left[r.id.String] = append(left[r.id.String], d)
			}
		}
	}
	slices.Sort(want)
	want = want[:min(len(want), limit)]
	if len(want) == 0 {
		t.Fatal("nothing is expected: the test shows nothing")
	}
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id sql.RawBytes
		var d float64
		if err := rows.Scan(&id, &d); err != nil {
			t.Fatal(err)
		}
		if n >= len(want) || math.Abs(d-want[n]) > 1e-3 {
			t.Fatalf("row %d has distance %v, want %v in %v", n, d, want[min(n, len(want)-1)], query)
		}
		i := slices.IndexFunc(left[string(id)], func(w float64) bool { return math.Abs(w-d) <= 1e-3 })
		if i < 0 {
			t.Fatalf("row %d with id %q is not %v m away, or came before", n, id, d)
		}
		left[string(id)] = slices.Delete(left[string(id)], i, i+1)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if n != len(want) {
		t.Errorf("got %d rows, want %d in %v", n, len(want), query)
	}
}

// checkUsed makes sure that the index that was added is read.
func checkUsed(t *testing.T, db *sql.DB, a result.Advice) {
	t.Helper()
	exec(t, db, "ANALYZE TABLE my_jobs")
	rows, err := db.QueryContext(t.Context(), "EXPLAIN FORMAT=TREE "+a.Query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan string
	for rows.Next() {
		if err := rows.Scan(&plan); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(plan, "range scan") {
		t.Errorf("%s does not read an index:\n%s", a.Query, plan)
	}
}

// newSource makes a table and inspects it.
func newSource(t *testing.T, p place, ddl string, rows []sample, change func(*Config)) *Source {
	t.Helper()
	exec(t, p.db, ddl)
	insert(t, p.db, "my_jobs", [3]string{"id", "lat", "lng"}, rows)
	c := Config{Source: p.db, Table: p.schema + ".my_jobs", ID: "id", Lat: "lat", Lng: "lng", Now: fixed}
	if change != nil {
		change(&c)
	}
	s, err := Inspect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fixed() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

const plainTable = "CREATE TABLE my_jobs (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE, status VARCHAR(10) NOT NULL DEFAULT 'open')"

func collect(t *testing.T, s *Source) []store.Job {
	t.Helper()
	var all []store.Job
	for j, err := range s.Jobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

func TestJobs(t *testing.T) {
	p := newPlace(t)
	s := newSource(t, p, "CREATE TABLE my_jobs (id VARCHAR(400), lat DOUBLE, lng DOUBLE)", []sample{
		{"b", 1.0, 2.0}, {"a", 1.5, -180.0}, {"a", 3.0, 3.0}, {nil, 1.0, 1.0}, {"c", nil, 1.0}, {"d", 1.0, 181.0}, {"", 5.0, 5.0}, {"x  y", 6.0, 6.0},
		{"A", 7.0, 7.0}, {strings.Repeat("é ", 150) + "é", 8.0, 8.0}, {"0x41", 9.0, 9.0},
	}, nil)
	got := collect(t, s)
	want := []struct {
		id string
		at geo.LatLng
	}{
		{"0x", geo.LatLng{Lat: 5, Lng: 5}},
		{"0x30783431", geo.LatLng{Lat: 9, Lng: 9}}, // so that no text is taken for hexadecimal
		{"A", geo.LatLng{Lat: 7, Lng: 7}},
		{"a", geo.LatLng{Lat: 1.5, Lng: 180}},
		{"b", geo.LatLng{Lat: 1, Lng: 2}},
		{"sha256:", geo.LatLng{Lat: 8, Lng: 8}},
		{"0x78202079", geo.LatLng{Lat: 6, Lng: 6}},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d jobs, want %d", len(got), len(want))
	}
	var last store.ID
	for i, j := range got {
		// Of the two rows "a" either comes first: nothing tells them apart.
		if !strings.HasPrefix(j.SourceID, want[i].id) || j.At != want[i].at && !(j.SourceID == "a" && j.At == geo.LatLng{Lat: 3, Lng: 3}) {
			t.Errorf("%d: got %q at %v, want %q at %v", i, j.SourceID, j.At, want[i].id, want[i].at)
		}
		if j.Source != SourceName || j.ID <= last || j.State != store.Open || !j.Posted.Equal(fixed()) || !j.Expires.IsZero() {
			t.Errorf("%d: got %+v", i, j)
		}
		last = j.ID
	}
	checkProblems(t, s.Problems(), map[string]int{
		"null id": 1, "null lat": 1, "out-of-range lng": 1, "duplicate-id id": 1, "id-form id": 4, "id-not-integer id": 11,
	})
	// Again from the start, and the counts with it.
	if again := collect(t, s); !slices.Equal(again, got) && len(again) != len(got) {
		t.Errorf("got %d jobs in the second reading, want %d", len(again), len(got))
	}
	for _, p := range s.Problems() {
		if p.Kind == KindDuplicate && (p.Count != 1 || p.Example != "a") {
			t.Errorf("after two readings: %+v", p)
		}
	}
}

func TestJobsFloat(t *testing.T) {
	p := newPlace(t)
	s := newSource(t, p, "CREATE TABLE my_jobs (id INT PRIMARY KEY, lat FLOAT, lng FLOAT)", []sample{{1, 37.774929, -122.41942}}, nil)
	got := collect(t, s)
	want := geo.LatLng{Lat: float64(float32(37.774929)), Lng: float64(float32(-122.41942))}
	if len(got) != 1 || got[0].At != want {
		t.Errorf("got %v, want %v: not what MySQL prints of a FLOAT", got, want)
	}
}

func TestSample(t *testing.T) {
	p := newPlace(t)
	const n = 5000
	s := newSource(t, p, plainTable, append(scatter(berlin, n, plainN), sample{n + 1, nil, nil}), func(c *Config) { c.Sample = 500 })
	if !s.Sampled() || s.Rows() != n+1 {
		t.Fatalf("got %d rows, sampled %v", s.Rows(), s.Sampled())
	}
	ids := func(s *Source) []string {
		var all []string
		for _, j := range collect(t, s) {
			all = append(all, j.SourceID)
		}
		return all
	}
	first := ids(s)
	if len(first) < 400 || len(first) > 600 {
		t.Errorf("got %d rows, want about 500", len(first))
	}
	if !slices.Equal(first, ids(s)) {
		t.Error("the second reading chose other rows")
	}
	checkProblems(t, s.Problems(), map[string]int{"null lat": 1, "null lng": 1}) // of all rows
	s.cfg.Seed++
	if slices.Equal(first, ids(s)) {
		t.Error("another seed chose the same rows")
	}
	if c, ok := s.Center(); !ok || berlin.Distance(c) > 30_000 {
		t.Errorf("got the centre %v, %v, want one near %v", c, ok, berlin)
	}
	s.cfg.Sample = n + 1
	if got := len(ids(s)); s.Sampled() || got != n {
		t.Errorf("a sample of all rows has %d, want %d", got, n)
	}
	s.cfg.Sample, s.cfg.Server = 500, p.server(t)
	got, err := Advise(t.Context(), s.cfg, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Sampled || got.Rows != n+1 || got.Copied < 400 || got.Copied > 600 || len(got.Advice) != 5 {
		t.Errorf("got sampled %v, %d rows, %d copied, %d times advice", got.Sampled, got.Rows, got.Copied, len(got.Advice))
	}
}

func TestJobsStopped(t *testing.T) {
	p := newPlace(t)
	s := newSource(t, p, plainTable, scatter(berlin, 3000, plainN), nil)
	n := 0
	for _, err := range s.Jobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("got %d jobs before the break", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n = 0
	for _, err := range s.Jobs(ctx) {
		n++
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) || n == 0 {
		t.Errorf("after cancel: got %d jobs and %v, want context.Canceled", n, last)
	}
	// The sessions of a reading are not left to others.
	var readOnly, mode string
	if err := p.db.QueryRowContext(t.Context(), "SELECT @@max_execution_time, @@sql_mode").Scan(&readOnly, &mode); err != nil {
		t.Fatal(err)
	}
	if readOnly != "0" || mode == "" {
		t.Errorf("the pool got a session with max_execution_time %s and sql_mode %q", readOnly, mode)
	}
	if got := collect(t, s); len(got) != 3000 {
		t.Errorf("got %d jobs afterwards, want 3000", len(got))
	}
}

func TestInspectRefuses(t *testing.T) {
	p := newPlace(t)
	exec(t, p.db, "CREATE TABLE my_jobs (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE, loc POINT SRID 4326, made DATE, doc JSON, notes TEXT, status ENUM('open'), raw VARBINARY(20))")
	exec(t, p.db, "INSERT INTO my_jobs (id, lat, lng) VALUES (1, 1, 1)")
	exec(t, p.db, "CREATE FUNCTION wipe() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN DELETE FROM my_jobs; RETURN 1; END")
	tests := []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"column", func(c *Config) { c.Lat = "latt" }, []string{"lat: there is no column latt", "did you mean lat?"}},
		{"columns", func(c *Config) { c.Lat, c.Lng = "latt", "lon" }, []string{"did you mean lat?", "did you mean lng?"}},
		{"no column", func(c *Config) { c.ID = "zzz" }, []string{"id: there is no column zzz", "it has id, lat, lng"}},
		{"table", func(c *Config) { c.Table = p.schema + ".my_job" }, []string{"table: there is no table", "did you mean " + p.schema + ".my_jobs?"}},
		{"no table", func(c *Config) { c.Table = p.schema + ".zzz" }, []string{"table: there is no table", "GRANT SELECT ON"}},
		{"schema", func(c *Config) { c.Table = p.schema + "x.my_jobs" }, []string{"table: there is no schema", "did you mean nearjob_test_"}},
		{"geometry", func(c *Config) { c.Lat = "loc" }, []string{"lat: loc is a point column", "CREATE VIEW `my_jobs_ll` AS SELECT `id`, ST_Latitude(`loc`) AS lat"}},
		{"place", func(c *Config) { c.Lat, c.Lng = "made", "doc" }, []string{"lat: made is date", "lng: doc is json"}},
		{"bytes", func(c *Config) { c.Lat, c.Lng = "raw", "status" }, []string{"lat: raw is varbinary(20)", "lng: status is enum"}},
		{"id", func(c *Config) { c.ID = "notes" }, []string{"id: notes is text: want an integer"}},
		{"condition", func(c *Config) { c.Where = "statu = 1" }, []string{"where: MySQL does not take the condition", "Unknown column 'statu'"}},
		{"no SQL", func(c *Config) { c.Where = "AND" }, []string{"where: MySQL does not take the condition", "syntax"}},
		{"write", func(c *Config) { c.Where = p.schema + ".wipe() = 1" }, []string{"where: MySQL does not take the condition"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{Source: p.db, Table: p.schema + ".my_jobs", ID: "id", Lat: "lat", Lng: "lng"}
			tt.change(&c)
			_, err := Inspect(t.Context(), c)
			var invalid *store.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
		})
	}
	var n int
	if err := p.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM my_jobs").Scan(&n); err != nil || n != 1 {
		t.Errorf("the table has %d rows (%v), want 1", n, err)
	}
	// The view that the refusal tells is one that works.
	exec(t, p.db, "CREATE VIEW `my_jobs_ll` AS SELECT `id`, ST_Latitude(`loc`) AS lat, ST_Longitude(`loc`) AS lng FROM `my_jobs`")
	exec(t, p.db, "UPDATE my_jobs SET loc = ST_SRID(POINT(13, 52), 4326)")
	// Without a schema it is that of the connection.
	s, err := Inspect(t.Context(), Config{Source: p.db, Table: "my_jobs_ll", ID: "id", Lat: "lat", Lng: "lng"})
	if err != nil {
		t.Fatal(err)
	}
	if got := collect(t, s); len(got) != 1 || math.Abs(got[0].At.Lat-52) > 1e-9 || math.Abs(got[0].At.Lng-13) > 1e-9 || s.Name() != p.schema+".my_jobs_ll" {
		t.Errorf("%s: got %v, want one job at 52,13", s.Name(), got)
	}
}

func TestInspectWithoutSchema(t *testing.T) {
	p := newPlace(t)
	u, err := url.Parse(p.dsn)
	if err != nil {
		t.Fatal("the address of the test's schema cannot be read")
	}
	u.Path = "/"
	_, err = Inspect(t.Context(), Config{Source: open(t, u.String()), Table: "my_jobs", ID: "id", Lat: "lat", Lng: "lng"})
	if err == nil || !strings.Contains(err.Error(), "want schema.table") {
		t.Errorf("got %v, want to be told to name a schema", err)
	}
}

func TestAccountWithoutSelect(t *testing.T) {
	p := newPlace(t)
	exec(t, p.db, plainTable)
	on := " ON " + quote(p.schema) + ".my_jobs"
	tests := []struct {
		name, grant string
		want        string
	}{
		{"nothing", "USAGE ON *.*", "GRANT SELECT ON `" + p.schema + "`.`my_jobs` to the account"},
		{"other right", "INSERT" + on, "this account may not read " + p.schema + ".my_jobs: GRANT SELECT ON `" + p.schema + "`.`my_jobs`"},
		{"other columns", "SELECT (id, lat)" + on, "lng: there is no column lng in " + p.schema + ".my_jobs that this account may read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := url.Parse(p.account(t, tt.grant))
			if err != nil {
				t.Fatal("the address cannot be read")
			}
			u.Path = "/" // an account without rights cannot enter the schema
			_, err = Inspect(t.Context(), Config{Source: open(t, u.String()), Table: p.schema + ".my_jobs", ID: "id", Lat: "lat", Lng: "lng"})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestSelectOnly runs everything with an account that may read the one table and work in
// scratch schemas, and do nothing else: whatever else was tried would be an error.
func TestSelectOnly(t *testing.T) {
	p := newPlace(t)
	exec(t, p.db, "CREATE TABLE my_jobs (id INT PRIMARY KEY, lat DOUBLE, lng DOUBLE, KEY lat (lat))")
	exec(t, p.db, "CREATE TABLE bystander (id INT PRIMARY KEY)")
	insert(t, p.db, "my_jobs", [3]string{"id", "lat", "lng"}, append(scatter(berlin, 1000, plainN), sample{5000, nil, 1.0}))
	reader := p.account(t, "SELECT ON "+quote(p.schema)+".my_jobs")
	worker := p.account(t, "ALL ON `nearjob\\_lab\\_%`.*")
	server, err := scratch.Open(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	state := func() string {
		var b strings.Builder
		for _, q := range []string{
			"SHOW CREATE TABLE my_jobs", "CHECKSUM TABLE my_jobs, bystander",
			"SELECT COUNT(*) FROM my_jobs",
			"SELECT TABLE_NAME, TABLE_TYPE, CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1",
		} {
			rows, err := p.db.QueryContext(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			columns, err := rows.Columns()
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				values := make([]sql.NullString, len(columns))
				to := make([]any, len(columns))
				for i := range values {
					to[i] = &values[i]
				}
				if err := rows.Scan(to...); err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(&b, values)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	before := state()
	schemas := leftovers(t, server)

	c := Config{Source: open(t, reader), Server: server, Table: p.schema + ".my_jobs", ID: "id", Lat: "lat", Lng: "lng"}
	var told []string
	c.Progress = func(done, total int, what string) { told = append(told, fmt.Sprintf("%d/%d %s", done, total, what)) }
	s, err := Inspect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	jobs := collect(t, s)
	if len(jobs) != 1000 {
		t.Errorf("got %d jobs, want 1000", len(jobs))
	}
	center, _ := s.Center()
	run := &result.Run{
		Sets:  []result.Set{{Name: s.Name(), Center: result.LatLng{Lat: center.Lat, Lng: center.Lng}}},
		Cases: []result.Case{{Set: s.Name(), Rows: len(jobs), RadiusM: 5000, Within: countWithin(jobs, center, 5000)}, {Set: s.Name(), Rows: len(jobs), RadiusM: 1000, Within: 777_777}},
	}
	got, err := Advise(t.Context(), c, s, run)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Advice) != 5 || len(got.Today) != 3 {
		t.Errorf("got %d times advice for %d radii", len(got.Advice), len(got.Today))
	}
	changed := 0
	for _, p := range got.Problems {
		if p.Kind == KindChanged {
			changed++
			if !strings.Contains(p.Text, "777777") {
				t.Errorf("got %+v, though both found the same", p)
			}
		}
	}
	if changed != 1 {
		t.Errorf("got %d notes of a change, want 1", changed)
	}
	if after := state(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	for name := range leftovers(t, server) {
		if !schemas[name] {
			t.Errorf("the schema %s was left", name)
		}
	}
	if len(told) < 8 {
		t.Errorf("progress was told %q", told)
	}
}

func countWithin(jobs []store.Job, center geo.LatLng, radius float64) int {
	n := 0
	for _, j := range jobs {
		if center.Distance(j.At) <= radius {
			n++
		}
	}
	return n
}

// leftovers are the scratch schemas of this package. The account sees those of all others;
// tests of the package run in one process, and this one not beside others.
func leftovers(t *testing.T, s *scratch.Server) map[string]bool {
	t.Helper()
	names, err := s.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, n := range names {
		if strings.HasPrefix(n, scratch.Prefix+"table_") {
			all[n] = true
		}
	}
	return all
}

// A failure leaves no schema either.
func TestAdviseCancelled(t *testing.T) {
	p := newPlace(t)
	s := newSource(t, p, plainTable, scatter(berlin, 500, plainN), nil)
	server := p.server(t)
	before := leftovers(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	c := s.cfg
	c.Server = server
	c.Progress = func(_, _ int, what string) {
		if strings.HasPrefix(what, "trying") {
			cancel()
		}
	}
	if _, err := Advise(ctx, c, s, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	for name := range leftovers(t, server) {
		if !before[name] {
			t.Errorf("the schema %s was left", name)
		}
	}
}

func TestAdviseWithoutPlaces(t *testing.T) {
	p := newPlace(t)
	s := newSource(t, p, plainTable, []sample{{1, nil, nil}, {2, 100.0, 200.0}}, nil)
	c := s.cfg
	c.Server = p.server(t)
	got, err := Advise(t.Context(), c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rows != 2 || got.Copied != 2 || len(got.Advice) != 0 || got.Advice == nil || len(got.Today) != 0 {
		t.Errorf("got %+v", got)
	}
	checkProblems(t, got.Problems, map[string]int{"null lat": 1, "null lng": 1, "out-of-range lat": 1, "out-of-range lng": 1})

	c.Lat = "lng"
	c.Lng = "lat"
	if _, err := Advise(t.Context(), c, s, nil); err == nil || !strings.Contains(err.Error(), "inspect it first") {
		t.Errorf("got %v for another table, want to be told to inspect it", err)
	}
	c = s.cfg
	c.Server = nil
	if _, err := Advise(t.Context(), c, s, nil); err == nil || !strings.Contains(err.Error(), "server: is missing") {
		t.Errorf("got %v without a server", err)
	}
}
