package plan

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/mysqld"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// capture writes testdata/capture anew from a server:
//
//	NEARJOB_TEST_MYSQL_DSN='root:pw@tcp(127.0.0.1:3306)/' go test ./bench/plan -run TestCapture -capture -update
var capture = flag.Bool("capture", false, "take the captures in testdata/capture anew (needs MySQL)")

// schemaName stands in the captures for the schema of the run that took them.
const schemaName = "jobs"

// The tables of the captures: indexes of every kind, small enough for a test.
var captureTables = []string{
	`CREATE TABLE job (id BIGINT PRIMARY KEY, title VARCHAR(60) NOT NULL, category INT NOT NULL, employer INT NOT NULL,
		lat DOUBLE NOT NULL, lng DOUBLE NOT NULL, created_at DATETIME NOT NULL, pay INT NULL, tags JSON NULL,
		pt POINT NOT NULL SRID 4326,
		KEY by_lat_lng (lat, lng), KEY by_category (category, pay), KEY by_created (created_at), KEY by_pay (pay),
		SPATIAL KEY by_pt (pt), FULLTEXT KEY by_title (title),
		KEY by_tags ((CAST(tags->'$[*]' AS UNSIGNED ARRAY))))`,
	`CREATE TABLE employer (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, city INT NOT NULL, UNIQUE KEY by_name (name), KEY by_city (city))`,
	`CREATE TABLE plain (a INT, b INT, c VARCHAR(20))`,
	`CREATE TABLE one (id INT PRIMARY KEY)`,
	`INSERT INTO one VALUES (1)`,
	`SET cte_max_recursion_depth = 10000`,
	`INSERT INTO employer WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100)
		SELECT i, CONCAT('employer ', i), i % 7 FROM n`,
	`INSERT INTO job WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 4000)
		SELECT i, CONCAT(ELT(1 + i % 4, 'paint a wall', 'walk the dog', 'fix a tap', 'carry boxes'), ' ', i), i % 20, 1 + i % 100,
		37 + (i * 7919 % 10000) / 10000, 127 + (i * 104729 % 10000) / 10000, '2026-01-01' + INTERVAL i MINUTE,
		IF(i % 11 = 0, NULL, i % 300), JSON_ARRAY(i % 5, i % 9),
		ST_SRID(POINT(127 + (i * 104729 % 10000) / 10000, 37 + (i * 7919 % 10000) / 10000), 4326) FROM n`,
	`INSERT INTO plain WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500)
		SELECT i % 50, i, CONCAT('x', i) FROM n`,
	`ANALYZE TABLE job, employer, plain, one`,
}

const box = `ST_GeomFromText('POLYGON((37.2 127.2,37.2 127.3,37.3 127.3,37.3 127.2,37.2 127.2))', 4326)`

func inList(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(itoa(i*7 + 1))
	}
	return b.String()
}

// A captureCase is one statement; switches are set for the session before it.
type captureCase struct {
	name, sql, switches string
	explainOnly         bool // a statement that EXPLAIN ANALYZE does not take
}

var captureCases = []captureCase{
	{name: "fullscan", sql: `SELECT id FROM job WHERE lng > 127.5 AND title LIKE '%wall%'`},
	{name: "box_btree", sql: `SELECT id, lat, lng FROM job WHERE lat BETWEEN 37.2 AND 37.25 AND lng BETWEEN 127.2 AND 127.3`},
	{name: "box_covering_reverse", sql: `SELECT lat FROM job FORCE INDEX (by_lat_lng) WHERE lat > 37.9 ORDER BY lat DESC LIMIT 3`},
	{name: "box_ignored", sql: `SELECT * FROM job WHERE lat BETWEEN 37.0 AND 37.9 AND pay > 10`},
	{name: "spatial", sql: `SELECT id FROM job WHERE MBRContains(` + box + `, pt)`},
	{name: "spatial_forced", sql: `SELECT id FROM job FORCE INDEX (by_pt) WHERE MBRContains(` + box + `, pt)`},
	{name: "spatial_union", sql: `SELECT id FROM job WHERE MBRContains(` + box + `, pt) UNION ALL SELECT id FROM job WHERE lat = 37.5`},
	{name: "derived_distance", sql: `SELECT id, d FROM (SELECT id, ST_Distance_Sphere(pt, ST_SRID(POINT(127.2,37.2),4326)) d FROM job WHERE lat BETWEEN 37.2 AND 37.25 LIMIT 100) c WHERE d < 5000 ORDER BY d, id LIMIT 5`},
	{name: "json_multi_value", sql: `SELECT id FROM job WHERE 3 MEMBER OF (tags->'$[*]')`},
	{name: "fulltext", sql: `SELECT id FROM job WHERE MATCH (title) AGAINST ('wall')`},
	{name: "lookup", sql: `SELECT id, title FROM job WHERE category = 3 AND pay > 100 ORDER BY pay`},
	{name: "lookup_or_null", sql: `SELECT id FROM job WHERE category = 3 AND (pay = 7 OR pay IS NULL)`},
	{name: "primary_key", sql: `SELECT title FROM job WHERE id = 17`},
	{name: "in_few", sql: `SELECT title FROM job WHERE id IN (1, 5, 9)`},
	{name: "in_many", sql: `SELECT title FROM job WHERE pay IN (` + inList(250) + `)`},
	{name: "in_too_many_scan", sql: `SELECT a FROM plain WHERE b IN (` + inList(250) + `)`},
	{name: "ranges_or", sql: `SELECT title FROM job WHERE id BETWEEN 1 AND 5 OR id BETWEEN 100 AND 110 OR id BETWEEN 200 AND 210 OR id > 3990`},
	{name: "index_merge", sql: `SELECT /*+ INDEX_MERGE(job by_pay, by_created) */ id FROM job WHERE pay = 5 OR created_at = '2026-01-01 00:10:00'`},
	{name: "index_intersect", sql: `SELECT /*+ INDEX_MERGE(job by_pay, by_category) */ id FROM job WHERE pay = 5 AND category = 5`},
	{name: "skip_scan", sql: `SELECT /*+ SKIP_SCAN(job by_category) NO_INDEX(job by_pay) */ category, pay FROM job WHERE pay > 297`},
	{name: "join_nested", sql: `SELECT j.id, e.name FROM job j JOIN employer e ON e.id = j.employer WHERE j.category = 3 ORDER BY e.name LIMIT 5`},
	{name: "join_three", sql: `SELECT j.id FROM employer e JOIN job j ON j.category = e.id JOIN plain p ON p.a = j.category WHERE e.city = 2`},
	{name: "join_left_hash", sql: `SELECT count(*) FROM plain p LEFT JOIN plain q ON p.a = q.b AND p.c < q.c`},
	{name: "join_cross", sql: `SELECT count(*) FROM plain p, employer e WHERE p.a < e.city`},
	{name: "semijoin", sql: `SELECT name FROM employer WHERE id IN (SELECT employer FROM job WHERE pay > 290)`},
	{name: "antijoin", sql: `SELECT name FROM employer e WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.category = e.id)`},
	{name: "subquery_select", sql: `SELECT e.name, (SELECT max(pay) FROM job j WHERE j.category = e.id) FROM employer e WHERE e.city = 3`},
	{name: "subquery_where", sql: `SELECT id FROM job j WHERE pay = (SELECT max(pay) FROM job k WHERE k.category = j.category) AND category < 3`},
	{name: "subquery_in_union", sql: `SELECT a FROM plain WHERE a IN (SELECT id FROM employer WHERE city = 1 UNION SELECT id FROM one)`},
	{name: "subquery_two_levels", sql: `SELECT (SELECT (SELECT count(*) FROM plain p WHERE p.a = e.id) FROM one) FROM employer e WHERE city = 1`},
	{name: "never_executed", sql: `SELECT j.id FROM employer e JOIN job j ON j.category = e.id WHERE e.city = 99`},
	{name: "group_temp", sql: `SELECT a, count(*), sum(b) FROM plain GROUP BY a ORDER BY 2 DESC LIMIT 4`},
	{name: "group_index", sql: `SELECT category, max(pay) FROM job GROUP BY category`},
	{name: "group_rollup", sql: `SELECT a, count(*) FROM plain GROUP BY a WITH ROLLUP`},
	{name: "distinct", sql: `SELECT DISTINCT a FROM plain ORDER BY a`},
	{name: "count_all", sql: `SELECT count(*) FROM plain`},
	{name: "having", sql: `SELECT a, avg(b) m FROM plain GROUP BY a HAVING m > 240`},
	{name: "window", sql: `SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) n FROM plain`},
	{name: "window_frames", sql: `SELECT a, sum(b) OVER (PARTITION BY a ORDER BY b ROWS 3 PRECEDING) s, lead(b) OVER (ORDER BY b) l FROM plain`},
	{name: "union_distinct", sql: `SELECT a FROM plain UNION SELECT id FROM employer ORDER BY 1 LIMIT 3`},
	{name: "union_limit_offset", sql: `(SELECT id FROM job ORDER BY created_at LIMIT 3) UNION ALL (SELECT id FROM job ORDER BY pay DESC LIMIT 3, 4)`},
	{name: "intersect_except", sql: `SELECT a FROM plain INTERSECT SELECT id FROM employer EXCEPT SELECT id FROM one`},
	{name: "cte_twice", sql: `WITH c AS (SELECT a, count(*) n FROM plain GROUP BY a) SELECT x.a FROM c x JOIN c y ON x.n = y.n WHERE x.a < 3`},
	{name: "cte_recursive", sql: `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT * FROM n`},
	{name: "lateral", sql: `SELECT e.name, t.id FROM employer e, LATERAL (SELECT id FROM job j WHERE j.category = e.id ORDER BY pay DESC LIMIT 2) t WHERE e.city = 1`},
	{name: "json_table", sql: `SELECT j.id, t.v FROM job j, JSON_TABLE(j.tags, '$[*]' COLUMNS (v INT PATH '$')) t WHERE j.id < 4`},
	{name: "values", sql: `VALUES ROW(1, 2), ROW(3, 4)`},
	{name: "no_table", sql: `SELECT 1`},
	{name: "impossible", sql: `SELECT id FROM job WHERE 1 = 0`},
	{name: "quotes", sql: `SELECT id FROM job WHERE title LIKE 'p|%' AND title <> 'a\nb' AND title <> '-> x (cost=1 rows=2)' AND title <> 'it''s "x"'`},
	{name: "odd_names", sql: `SELECT count(*) FROM plain AS ` + "`p using q`" + ` WHERE a = 1`},
	{name: "information_schema", sql: `SELECT count(*) FROM performance_schema.global_variables WHERE variable_name LIKE 'a%'`},
	{name: "insert_select", sql: `INSERT INTO plain SELECT id, city, name FROM employer WHERE city = 1`, explainOnly: true},
	{name: "update", sql: `UPDATE plain SET b = b + 1 WHERE a = 3`, explainOnly: true},
	{name: "delete_join", sql: `DELETE plain FROM plain JOIN one ON one.id = plain.a`, explainOnly: true},
	{name: "hyper_join", switches: "hypergraph_optimizer=on", sql: `SELECT j.id, e.name FROM job j JOIN employer e ON e.id = j.employer WHERE j.lat BETWEEN 37.2 AND 37.25 ORDER BY e.name LIMIT 5`},
	{name: "hyper_spatial", switches: "hypergraph_optimizer=on", sql: `SELECT id FROM job WHERE MBRContains(` + box + `, pt) ORDER BY pay`},
	{name: "hyper_subquery", switches: "hypergraph_optimizer=on", sql: `SELECT name FROM employer e WHERE EXISTS (SELECT 1 FROM job j WHERE j.employer = e.id AND pay > 290) AND city = 2`},
	{name: "hyper_group", switches: "hypergraph_optimizer=on", sql: `SELECT a, count(*) FROM plain GROUP BY a UNION SELECT city, 1 FROM employer`},
	{name: "weedout", switches: "materialization=off,firstmatch=off,loosescan=off", sql: `SELECT name FROM employer WHERE id IN (SELECT category FROM job WHERE pay > 290)`},
	{name: "bka", switches: "mrr=on,mrr_cost_based=off,batched_key_access=on", sql: `SELECT j.title FROM employer e JOIN job j ON j.category = e.id WHERE e.city = 2`},
	{name: "in_to_exists", switches: "materialization=off,semijoin=off", sql: `SELECT a FROM plain WHERE b NOT IN (SELECT pay FROM job WHERE pay > 290)`},
}

// captureForms are the statements that give each file of a case.
var captureForms = []struct {
	suffix, explain, version string
	analyze                  bool
}{
	{".tree.txt", "EXPLAIN FORMAT=TREE ", "2", false},
	{".v1.json", "EXPLAIN FORMAT=JSON ", "1", false},
	{".v2.json", "EXPLAIN FORMAT=JSON ", "2", false},
	{".analyze.txt", "EXPLAIN ANALYZE FORMAT=TREE ", "2", true},
	{".analyze.v2.json", "EXPLAIN ANALYZE FORMAT=JSON ", "2", true},
}

// skip reports whether a case has no capture in a form.
func (c captureCase) skip(suffix string) bool {
	// The hypergraph optimizer does not print version 1.
	return suffix == ".v1.json" && strings.Contains(c.switches, "hypergraph")
}

// TestCapture explains every case on a server, in every format, and checks that
// the texts agree as the stored ones do. With -capture it stores them.
func TestCapture(t *testing.T) {
	address := testdb.MySQL(t)
	dsn, err := mysqld.DriverDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", clip(statement, 100), err)
		}
	}
	for _, statement := range captureTables {
		exec(statement)
	}
	var schema, switches string
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE(), @@optimizer_switch").Scan(&schema, &switches); err != nil {
		t.Fatal(err)
	}
	if *capture {
		old, err := filepath.Glob("testdata/capture/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range old {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll("testdata/capture", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range captureCases {
		t.Run(c.name, func(t *testing.T) {
			exec("SET optimizer_switch = '" + switches + "'")
			if c.switches != "" {
				exec("SET optimizer_switch = '" + c.switches + "'")
			}
			texts := make(map[string]string)
			for _, form := range captureForms {
				if form.analyze && c.explainOnly || c.skip(form.suffix) {
					continue
				}
				exec("SET explain_json_format_version = " + form.version)
				var text string
				if err := conn.QueryRowContext(ctx, form.explain+c.sql).Scan(&text); err != nil {
					t.Errorf("%s: %v", form.suffix, err)
					continue
				}
				text = strings.ReplaceAll(text, schema, schemaName)
				texts[form.suffix] = text
				if *capture {
					if err := os.WriteFile(filepath.Join("testdata/capture", c.name+form.suffix), []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			crossCheck(t, c.name, texts)
		})
	}
}
