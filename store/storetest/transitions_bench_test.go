package storetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/sqlite"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// BenchmarkTransitions measures whole lives of jobs: post, two applications, accept
// (which passes the other applicant over), start, finish, confirm, 7 transactions
// in all, by one user after the other and by 16 at once on jobs of their own. It
// also reports how many statements and commits each action costs:
//
//	go test ./store/storetest -run '^$' -bench Transitions
//
// On SQLite each transition waits for the disk; on MySQL for it and the network,
// and commits that come together share the wait.
func BenchmarkTransitions(b *testing.B) {
	for _, engine := range []struct {
		name string
		open func(b *testing.B) (storetest.Venue, func(b *testing.B) (statements, commits int))
	}{{"sqlite", countedSQLite}, {"mysql", countedMySQL}} {
		b.Run("engine="+engine.name, func(b *testing.B) {
			if engine.name == "mysql" && !haveMySQL() {
				b.Skipf("needs MySQL: run make bench, or set %s", testdb.EnvDSN)
			}
			e, counted := engine.open(b)
			var jobs atomic.Int64
			b.Run("costs", func(b *testing.B) {
				var costs [][3]any
				at := 0
				was, wasCommits := counted(b)
				if _, err := life(b.Context(), e, &jobs, func(a store.Action) {
					now, commits := counted(b)
					at++
					costs = append(costs, [3]any{fmt.Sprintf("%d-%s", at, a), now - was, commits - wasCommits})
					was, wasCommits = counted(b)
				}); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := life(b.Context(), e, &jobs, nil); err != nil {
						b.Fatal(err)
					}
				}
				for _, c := range costs {
					statements, commits := c[1].(int), c[2].(int)
					if commits != 1 {
						b.Errorf("%v took %d commits, want 1", c[0], commits)
					}
					b.ReportMetric(float64(statements), fmt.Sprintf("statements/%v", c[0]))
					b.ReportMetric(float64(commits), fmt.Sprintf("commits/%v", c[0]))
				}
			})
			for _, users := range []int{1, 16} {
				b.Run(fmt.Sprintf("users=%d", users), func(b *testing.B) {
					var done atomic.Int64
					var left atomic.Int64
					left.Store(int64(b.N))
					begin := time.Now()
					var wg sync.WaitGroup
					for range users {
						wg.Go(func() {
							for left.Add(-1) >= 0 {
								n, err := life(b.Context(), e, &jobs, nil)
								done.Add(int64(n))
								if err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					if want := int64(b.N) * 7; done.Load() != want {
						b.Fatalf("%d transitions, want %d", done.Load(), want)
					}
					b.ReportMetric(float64(done.Load())/time.Since(begin).Seconds(), "transitions/s")
				})
			}
		})
	}
}

// life takes a job of its own through its life and returns the number of transitions.
func life(ctx context.Context, e storetest.Venue, jobs *atomic.Int64, after func(store.Action)) (n int, err error) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	id := store.ID(jobs.Add(1))
	done := func(a store.Action, out store.Outcome, err error) (store.Outcome, error) {
		if err == nil {
			n++
			if after != nil {
				after(a)
			}
		}
		return out, err
	}
	act := func(c store.Command) (store.Outcome, error) {
		c.Job, c.At = id, at
		out, err := e.Act(ctx, c)
		return done(c.Action, out, err)
	}
	out, err := e.Post(ctx, store.Job{ID: id, Title: "Walk a dog", Category: "pets", At: geo.LatLng{Lat: 37.5 + float64(id%1000)/1e4, Lng: 127},
		Posted: at, Requester: "rita"})
	if _, err := done(store.ActPost, out, err); err != nil {
		return n, err
	}
	var app store.ID
	for _, c := range []store.Command{
		{Action: store.ActApply, By: "ann"}, {Action: store.ActApply, By: "bob"}, {Action: store.ActAccept, By: "rita"},
		{Action: store.ActStart, By: "ann"}, {Action: store.ActFinish, By: "ann"}, {Action: store.ActConfirm, By: "rita"},
	} {
		if c.Action == store.ActAccept {
			c.Application = app
		}
		out, err := act(c)
		if err != nil {
			return n, err
		}
		if c.By == "ann" {
			app = out.Application.ID
		}
	}
	return n, nil
}

func countedSQLite(b *testing.B) (storetest.Venue, func(*testing.B) (int, int)) {
	var statements, commits atomic.Int64
	e, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "nearjob.db"), sqlite.Options{OnWrite: func(sql string) {
		statements.Add(1)
		if sql == "COMMIT" {
			commits.Add(1)
		}
	}})
	return migrated(b, e, err), func(*testing.B) (int, int) { return int(statements.Load()), int(commits.Load()) }
}

// countedMySQL counts on a session of its own, the only one of an engine, to which
// the others' do not add.
func countedMySQL(b *testing.B) (storetest.Venue, func(*testing.B) (int, int)) {
	e, err := mysql.Open(b.Context(), testdb.MySQL(b), mysql.Options{MaxConns: 16})
	v := migrated(b, e, err)
	asked := 0 // the asking counts too
	return v, func(b *testing.B) (int, int) {
		asked++
		e.DB().SetMaxOpenConns(1) // until the costs are known
		b.Cleanup(func() { e.DB().SetMaxOpenConns(16) })
		counts := make(map[string]int)
		var rows []struct {
			Name  string `db:"Variable_name"`
			Value int    `db:"Value"`
		}
		if err := e.DB().SelectContext(b.Context(), &rows, "SHOW SESSION STATUS WHERE Variable_name IN ('Questions', 'Com_commit')"); err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			counts[r.Name] = r.Value
		}
		return counts["Questions"] - asked, counts["Com_commit"]
	}
}

// migrated returns an engine with its tables, closed when the benchmark ends.
func migrated(b *testing.B, e storetest.Venue, err error) storetest.Venue {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := e.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return e
}
