package storetest_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/sqlite"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// benchAlertsEnv adds a size to those of BenchmarkAlerts: to load 1,000,000 alerts
// takes minutes.
const benchAlertsEnv = "NEARJOB_BENCH_ALERTS"

// BenchmarkAlerts measures what it takes to match a job that was posted, by how many
// alerts there are, of 500 m to 5 km around places in a country of 400 by 400 km,
// where a job concerns few, and in a city of 40 by 40 km, where it concerns a hundred
// times as many:
//
//	go test ./store/storetest -run '^$' -bench Alerts
//	NEARJOB_BENCH_ALERTS=1000000 go test ./store/storetest -run '^$' -bench Alerts/engine=mysql/in=country/alerts=1000000
//
// An operation is one job, posting it not included. It also reports how many alerts
// are read for a job, how many of these are for it, how many users are told, alerts
// read in a second, and, for MySQL, how many rows of whatever table the server reads for a
// job by its own count. Every result is compared with that of each alert by itself.
func BenchmarkAlerts(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000}
	if text := os.Getenv(benchAlertsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("%s: %.40q is not a number of alerts", benchAlertsEnv, text)
		}
		sizes = append(sizes, n)
	}
	for _, engine := range []string{"sqlite", "mysql"} {
		for _, in := range []string{"country", "city"} {
			size := map[string]float64{"country": 1, "city": 0.1}[in]
			for _, n := range sizes {
				b.Run(fmt.Sprintf("engine=%s/in=%s/alerts=%d", engine, in, n), func(b *testing.B) {
					if engine == "mysql" && !haveMySQL() {
						b.Skipf("needs MySQL: run make bench, or set %s", testdb.EnvDSN)
					}
					benchAlerts(b, engine, newAlertField(n, size))
				})
			}
		}
	}
}

// alertField is a square of alerts, of 400 km times its size.
type alertField struct {
	r      *rand.Rand
	size   float64
	alerts []store.Alert
}

func (f *alertField) place() geo.LatLng {
	return geo.LatLng{Lat: 50 + 3.6*f.size*f.r.Float64(), Lng: 10 + 5.8*f.size*f.r.Float64()}
}

func newAlertField(n int, size float64) *alertField {
	f := &alertField{r: rand.New(rand.NewPCG(51, 52)), size: size}
	for i := range n {
		f.alerts = append(f.alerts, store.Alert{ID: store.ID(i + 1), User: store.UserID(fmt.Sprint("user ", i/20)), Center: f.place(),
			Radius: 500 * math.Pow(10, f.r.Float64()), Filter: store.Filter{Remote: store.RemoteExclude}, Created: benchTime})
	}
	return f
}

var benchTime = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func benchAlerts(b *testing.B, engine string, f *alertField) {
	var v storetest.AlertVenue
	var rows func() int // read by the server so far; nil: it is not known
	if engine == "mysql" {
		e, err := mysql.Open(b.Context(), testdb.MySQL(b), mysql.Options{MaxConns: 1, Timeout: time.Minute})
		migrated(b, e, err)
		f.load(b, e.DB().DB, "INSERT INTO alert (id, owner, slot, lat, lng, radius, categories, min_pay, employer, created) VALUES ",
			func(i int, a *store.Alert) []any {
				return []any{int64(a.ID), string(a.User), i % 20, a.Center.Lat, a.Center.Lng, a.Radius, "", 0, "", store.Millis(a.Created)}
			})
		if _, err := e.DB().ExecContext(b.Context(), "ANALYZE TABLE alert, alert_cell"); err != nil {
			b.Fatal(err)
		}
		v, rows = e, func() (n int) {
			b.Helper()
			if err := e.DB().GetContext(b.Context(), &n, "SELECT CAST(SUM(variable_value) AS SIGNED) FROM performance_schema.session_status"+
				" WHERE variable_name LIKE 'Handler_read%'"); err != nil {
				b.Fatal(err)
			}
			return n
		}
	} else {
		e, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "nearjob.db"), sqlite.Options{})
		migrated(b, e, err)
		db, err := driver.Open("file:" + e.Path())
		if err != nil {
			b.Fatal(err)
		}
		f.load(b, db, "INSERT INTO alert (id, owner, lat, lng, radius, categories, min_pay, employer, created) VALUES ",
			func(_ int, a *store.Alert) []any {
				return []any{int64(a.ID), string(a.User), a.Center.Lat, a.Center.Lng, a.Radius, "", int64(0), "", store.Millis(a.Created)}
			})
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		v = e
	}
	var sum store.AlertMatch
	id := store.ID(0)
	post := func() store.Job {
		id++
		out, err := v.Post(b.Context(), store.Job{ID: id, Title: "Walk a dog", At: f.place(), Posted: benchTime, Requester: "rita"})
		if err != nil {
			b.Fatal(err)
		}
		return out.Job
	}
	match := func() store.AlertMatch {
		one, err := store.MatchPending(b.Context(), v, store.MaxKeys, func() time.Time { return benchTime })
		if err != nil {
			b.Fatal(err)
		}
		sum = sum.Add(one)
		return one
	}
	check := func(j store.Job, got store.AlertMatch) {
		want := 0
		for i := range f.alerts {
			if f.alerts[i].Wants(&j) {
				want++
			}
		}
		if got.Hits != want || got.Openings != 1 || got.Told > want || want > 0 && got.Told == 0 {
			b.Fatalf("job at %v: %+v, want %d hits", j.At, got, want)
		}
	}
	check(post(), match()) // both caches are warm for one place at least
	sum = store.AlertMatch{}
	for b.Loop() {
		b.StopTimer()
		j := post()
		b.StartTimer()
		got := match()
		b.StopTimer()
		check(j, got)
		b.StartTimer()
	}
	jobs := float64(sum.Openings)
	b.ReportMetric(float64(sum.Read)/jobs, "read/op")
	b.ReportMetric(float64(sum.Hits)/jobs, "hits/op")
	b.ReportMetric(float64(sum.Told)/jobs, "told/op")
	b.ReportMetric(float64(sum.Read)/b.Elapsed().Seconds(), "alerts/s")
	if rows == nil {
		return
	}
	const asked = 20
	read := 0
	for range asked {
		post()
		first := rows()
		asking := rows() - first
		match()
		read += rows() - first - 2*asking
	}
	b.ReportMetric(float64(read)/asked, "rows/op")
}

// load writes the alerts and their cells, many in a statement and in a transaction.
func (f *alertField) load(b *testing.B, db *sql.DB, head string, args func(i int, a *store.Alert) []any) {
	b.Helper()
	const inOne = 20_000
	for from := 0; from < len(f.alerts); from += inOne {
		if err := f.loadSome(b.Context(), db, from, min(from+inOne, len(f.alerts)), head, args); err != nil {
			b.Fatalf("load the alerts: %v", err)
		}
	}
}

func (f *alertField) loadSome(ctx context.Context, db *sql.DB, from, to int, head string, args func(i int, a *store.Alert) []any) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of no effect after the COMMIT
	alerts, cells := bulk{head: head}, bulk{head: "INSERT INTO alert_cell (cell, alert) VALUES "}
	for i := from; i < to; i++ {
		a := &f.alerts[i]
		if err := alerts.add(ctx, tx, args(i, a)); err != nil {
			return err
		}
		for _, k := range cell.Areas().Keys(geo.Circle{Center: a.Center, Radius: a.Radius}) {
			if err := cells.add(ctx, tx, []any{k, int64(a.ID)}); err != nil {
				return err
			}
		}
	}
	for _, rest := range []*bulk{&alerts, &cells} {
		if err := rest.flush(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// bulk gathers rows into statements.
type bulk struct {
	head string
	args []any
	rows int
	row  string
}

func (u *bulk) add(ctx context.Context, tx *sql.Tx, row []any) error {
	u.row = "(?" + strings.Repeat(", ?", len(row)-1) + ")"
	u.args, u.rows = append(u.args, row...), u.rows+1
	if u.rows < 500 {
		return nil
	}
	return u.flush(ctx, tx)
}

func (u *bulk) flush(ctx context.Context, tx *sql.Tx) error {
	if u.rows == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, u.head+u.row+strings.Repeat(", "+u.row, u.rows-1), u.args...)
	u.args, u.rows = u.args[:0], 0
	return err
}
