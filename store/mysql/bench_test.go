package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// BenchmarkScan compares ways to read the 400 rows of a window:
//
//	go test -run '^$' -bench Scan ./store/mysql
//
// "engine" is Engine.Read. The text protocol sends one packet with the values
// in the SQL; "prepared" keeps the statement on one connection.
func BenchmarkScan(b *testing.B) {
	const rows = 400
	e := open(b, Options{})
	save(b, e, cityJobs(b, 5000)...)
	s2, _, _ := numbers(geo.LatLng{Lat: 52.5, Lng: 13.4})
	a := store.Access{Index: store.IndexS2, Match: store.Match{OpenAt: now},
		Window: &store.Window{Lo: 0, At: s2, Hi: 1<<62 - 1, Each: rows / 2}}
	_, statements, err := build(a, 0)
	if err != nil {
		b.Fatal(err)
	}
	s := statements[0]
	ctx := b.Context()

	check := func(b *testing.B, n int, err error) {
		if err != nil || n != rows {
			b.Fatalf("%d rows, %v", n, err)
		}
	}
	b.Run("engine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			_, err := e.Read(ctx, a, func(cs []store.Candidate) error { n += len(cs); return nil })
			check(b, n, err)
		}
	})
	typed := func(r *sql.Rows) (n int, err error) {
		defer r.Close()
		var c store.Candidate
		for r.Next() {
			if err := r.Scan((*int64)(&c.ID), &c.Pay, &c.Posted, &c.Expires, &c.At.Lat, &c.At.Lng, &c.Number); err != nil {
				return n, err
			}
			n++
		}
		return n, r.Err()
	}
	b.Run("text/typed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := e.db.QueryContext(ctx, s.sql, s.args...)
			check(b, rows, err)
			n, err := typed(r)
			check(b, n, err)
		}
	})
	b.Run("text/RawBytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := e.db.QueryContext(ctx, s.sql, s.args...)
			check(b, rows, err)
			n, err := rawBytes(r)
			check(b, n, err)
		}
	})
	b.Run("text/sqlx", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := e.db.QueryxContext(ctx, s.sql, s.args...)
			check(b, rows, err)
			n, err := structs(r)
			check(b, n, err)
		}
	})
	b.Run("prepared/typed", func(b *testing.B) {
		conn, err := e.db.Conn(ctx)
		check(b, rows, err)
		defer conn.Close()
		p, err := conn.PrepareContext(ctx, s.sql)
		check(b, rows, err)
		defer p.Close()
		b.ReportAllocs()
		for b.Loop() {
			r, err := p.QueryContext(ctx, s.args...)
			check(b, rows, err)
			n, err := typed(r)
			check(b, n, err)
		}
	})
	b.Run("prepared/driver", func(b *testing.B) {
		conn, err := e.db.Conn(ctx)
		check(b, rows, err)
		defer conn.Close()
		err = conn.Raw(func(c any) error { return preparedDriver(ctx, b, c.(driver.ConnPrepareContext), s) })
		check(b, rows, err)
	})
}

// BenchmarkSave saves batches of 5,000 new jobs in one city.
func BenchmarkSave(b *testing.B) {
	e := open(b, Options{Timeout: time.Minute})
	const batch = 5000
	r := rand.New(rand.NewPCG(1, 2))
	next := 1
	for b.Loop() {
		b.StopTimer()
		jobs := make([]store.Job, batch)
		for i := range jobs {
			jobs[i] = job(b, next, city(r))
			next++
		}
		b.StartTimer()
		if s, err := e.Save(b.Context(), jobs); err != nil || s.Added != batch {
			b.Fatal(s, err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "jobs/s")
}

func rawBytes(r *sql.Rows) (n int, err error) {
	defer r.Close()
	var raw [7]sql.RawBytes
	var into [7]any
	for i := range raw {
		into[i] = &raw[i]
	}
	for r.Next() {
		if err := r.Scan(into[:]...); err != nil {
			return n, err
		}
		var c store.Candidate
		var errs [7]error
		id, err := strconv.ParseInt(string(raw[0]), 10, 64)
		c.ID, errs[0] = store.ID(id), err
		c.Pay, errs[1] = strconv.ParseInt(string(raw[1]), 10, 64)
		c.Posted, errs[2] = strconv.ParseInt(string(raw[2]), 10, 64)
		c.Expires, errs[3] = strconv.ParseInt(string(raw[3]), 10, 64)
		c.At.Lat, errs[4] = strconv.ParseFloat(string(raw[4]), 64)
		c.At.Lng, errs[5] = strconv.ParseFloat(string(raw[5]), 64)
		c.Number, errs[6] = strconv.ParseInt(string(raw[6]), 10, 64)
		if err := errors.Join(errs[:]...); err != nil {
			return n, err
		}
		n++
	}
	return n, r.Err()
}

func structs(r *sqlx.Rows) (n int, err error) {
	defer r.Close()
	var c struct {
		ID, Pay, Posted, Expires, S2 int64
		Lat, Lng                     float64
	}
	for r.Next() {
		if err := r.StructScan(&c); err != nil {
			return n, err
		}
		n++
	}
	return n, r.Err()
}

// preparedDriver is what Engine.Read does, with a prepared statement.
func preparedDriver(ctx context.Context, b *testing.B, c driver.ConnPrepareContext, s statement) error {
	p, err := c.PrepareContext(ctx, s.sql)
	if err != nil {
		return err
	}
	defer p.Close()
	args := make([]driver.NamedValue, len(s.args))
	for i, v := range s.args {
		if n, ok := v.(int); ok {
			v = int64(n)
		}
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := p.(driver.StmtQueryContext).QueryContext(ctx, args)
		if err != nil {
			return err
		}
		n := 0
		rd := reader{cols: columns{place: true, number: "s2"}, yield: func(cs []store.Candidate) error { n += len(cs); return nil }}
		if err := errors.Join(rd.readAll(r), rd.flush(), r.Close()); err != nil {
			return err
		}
		if n != 400 {
			b.Fatalf("%d rows", n)
		}
	}
	return nil
}
