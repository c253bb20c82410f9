// Package workload is what store/sqlite asks of a SQLite driver, cut down to
// its hot paths and timed: the comparison behind the choice of a driver. The
// programs beside it run it, one a driver, so that build time and size can be
// compared as well.
package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Rows in the search table.
const Rows = 200_000

// Reader runs a query on one connection and hands over rows of id, lat, lng,
// pay, posted, expires. It returns how many there were.
type Reader func(ctx context.Context, query string, args ...any) (int, error)

const schema = `
CREATE TABLE open_job(id INTEGER NOT NULL UNIQUE, lat REAL NOT NULL, lng REAL NOT NULL, s2 INTEGER NOT NULL,
 h3 INTEGER NOT NULL, geohash INTEGER NOT NULL, category TEXT NOT NULL, employer TEXT NOT NULL,
 pay INTEGER NOT NULL, posted INTEGER NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY(s2, id)) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE box USING rtree(id, lat0, lat1, lng0, lng1, +s2);`

const cols = `id, lat, lng, pay, posted, expires`

// Run opens dsn through the named driver and prints one line a measurement.
// native, if not nil, reads through
// the driver's own interface where the others use database/sql/driver's.
func Run(name, dsnFormat string, native func(path string) (Reader, error)) error {
	dir, err := os.MkdirTemp("", "drivers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "db")
	db, err := sql.Open(name, fmt.Sprintf(dsnFormat, path))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		fmt.Println("schema (is there an R*Tree?):", err)
		return nil
	}
	var version, mode string
	if err := db.QueryRow(`SELECT sqlite_version()`).Scan(&version); err != nil {
		return err
	}
	if err := db.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil {
		return err
	}
	fmt.Println("SQLite", version, "journal", mode)
	var f float64
	if err := db.QueryRow(`SELECT asin(sqrt(sin(radians(30))*cos(0)))`).Scan(&f); err != nil {
		fmt.Println("no math functions:", err)
	}

	rnd := rand.New(rand.NewPCG(1, 2))
	insert := func(n, from int) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		a, err := tx.Prepare(`INSERT INTO open_job VALUES(?,?,?,?,?,?,?,?,?,?,?)`)
		if err != nil {
			return err
		}
		b, err := tx.Prepare(`INSERT INTO box VALUES(?,?,?,?,?,?)`)
		if err != nil {
			return err
		}
		for i := range n {
			lat, lng := 40+rnd.NormFloat64()*.05, 127+rnd.NormFloat64()*.05
			key := int64(lat*1e5)<<32 | int64(lng*1e5)
			if _, err := a.Exec(from+i, lat, lng, key, key, key, "moving", "Employer and Sons", 100*i, i, i); err != nil {
				return err
			}
			if _, err := b.Exec(from+i, lat, lat, lng, lng, key); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	start := time.Now()
	for i := 0; i < Rows; i += 2000 {
		if err := insert(2000, i); err != nil {
			return err
		}
	}
	line("insert 200,000 rows + R*Tree, batches of 2,000", time.Since(start))

	read := Reader(func(ctx context.Context, q string, args ...any) (int, error) {
		rows, err := db.QueryContext(ctx, q, args...)
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			var id, pay, posted, expires int64
			var lat, lng float64
			if err := rows.Scan(&id, &lat, &lng, &pay, &posted, &expires); err != nil {
				return n, err
			}
			n++
		}
		return n, rows.Err()
	})
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // closes the prepared statements too
	prepared := map[string]driver.Stmt{}
	raw := Reader(func(ctx context.Context, q string, args ...any) (n int, err error) {
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		return n, conn.Raw(func(c any) error {
			s := prepared[q]
			if s == nil {
				if s, err = c.(driver.ConnPrepareContext).PrepareContext(ctx, q); err != nil {
					return err
				}
				prepared[q] = s
			}
			rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, named)
			if err != nil {
				return err
			}
			defer rows.Close()
			dest := make([]driver.Value, 6)
			for {
				switch err := rows.Next(dest); err {
				case nil:
					n++
				case io.EOF:
					return nil
				default:
					return err
				}
			}
		})
	})
	if err := measure("database/sql", db, read); err != nil {
		return err
	}
	below := raw
	if native != nil {
		if below, err = native(path); err != nil {
			return err
		}
	}
	if err := measure("driver, prepared", db, below); err != nil {
		return err
	}
	// Four readers while one writes.
	wctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	var reads, writes atomic.Int64
	var wg sync.WaitGroup
	keys, err := someKeys(db)
	if err != nil {
		return err
	}
	for range 4 {
		wg.Go(func() {
			for wctx.Err() == nil {
				n, err := read(ctx, ranges16(), rangeArgs(keys)...)
				if err != nil || n == 0 {
					fmt.Println("reader:", n, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	wg.Go(func() {
		for i := Rows; wctx.Err() == nil; i += 100 {
			if err := insert(100, i); err != nil {
				fmt.Println("writer:", err)
				return
			}
			writes.Add(1)
		}
	})
	wg.Wait()
	fmt.Printf("%-56s %d reads, %d batches of 100 written in 3 s\n", "4 readers, 1 writer", reads.Load(), writes.Load())

	cctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	start = time.Now()
	_, err = read(cctx, `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 100000000) SELECT count(*),1.,1.,1,1,1 FROM c`)
	fmt.Printf("%-56s %v (%v)\n", "cancelled after 50 ms", time.Since(start).Round(time.Millisecond), errors.Is(err, context.DeadlineExceeded))
	return nil
}

func ranges16() string {
	q := ""
	for i := range 16 {
		if i > 0 {
			q += " UNION ALL "
		}
		q += `SELECT ` + cols + ` FROM open_job WHERE s2 BETWEEN ? AND ?`
	}
	return q
}

func someKeys(db *sql.DB) (keys []int64, err error) {
	rows, err := db.Query(`SELECT s2 FROM open_job ORDER BY s2`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var k int64
		if err := rows.Scan(&k); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// rangeArgs makes 16 ranges of 25 rows each.
func rangeArgs(keys []int64) (args []any) {
	for i := range 16 {
		at := len(keys)/3 + i*500
		args = append(args, keys[at], keys[at+24])
	}
	return args
}

func measure(how string, db *sql.DB, read Reader) error {
	keys, err := someKeys(db)
	if err != nil {
		return err
	}
	cases := []struct {
		name  string
		times int
		query string
		args  []any
	}{
		{"400 rows by 16 key ranges", 300, ranges16(), rangeArgs(keys)},
		{"R*Tree box, join, 5,000 rows", 30, `SELECT o.id, o.lat, o.lng, pay, posted, expires FROM box b CROSS JOIN open_job o ON o.s2=b.s2 AND o.id=b.id
			WHERE b.lat1>=? AND b.lat0<=? AND b.lng1>=? AND b.lng0<=?`, []any{39.99, 40.01, 126.99, 127.01}},
		{"haversine scan of all rows", 7, `SELECT ` + cols + ` FROM (SELECT *, asin(min(1,sqrt(
			pow(sin(radians(lat-?)/2),2)+cos(radians(?))*cos(radians(lat))*pow(sin(radians(lng-?)/2),2)))) d FROM open_job) WHERE d < 1e-4`,
			[]any{40.0, 40.0, 127.0}},
	}
	for _, c := range cases {
		var ds []time.Duration
		n := 0
		for range c.times {
			start := time.Now()
			n, err = read(context.Background(), c.query, c.args...)
			if err != nil {
				fmt.Println(how, c.name, err)
				break
			}
			ds = append(ds, time.Since(start))
		}
		if len(ds) > 0 {
			slices.Sort(ds)
			line(fmt.Sprintf("%s: %s (%d)", how, c.name, n), ds[len(ds)/2])
		}
	}
	return nil
}

func line(what string, d time.Duration) { fmt.Printf("%-56s %v\n", what, d.Round(time.Microsecond)) }
