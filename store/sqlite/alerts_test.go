package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// count1 returns the number that a statement counts.
func count1(t *testing.T, e *Engine, sql string, args ...any) (n int) {
	t.Helper()
	if err := e.read(t.Context(), func(c *conn) error {
		return c.run(func(s *sqlite3.Stmt) error { n = s.ColumnInt(0); return nil }, sql, args...)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAlertsKilledAnywhere kills a matcher at each of its writing connection's
// statements in turn, and holds that all or nothing of a piece is there, and that in the end
// each user was told once.
func TestAlertsKilledAnywhere(t *testing.T) {
	kill, at, statements := context.CancelFunc(nil), 0, 0
	e := open(t, Options{OnWrite: func(string) {
		if statements++; statements == at {
			kill()
		}
	}})
	here := geo.LatLng{Lat: 52, Lng: 13}
	const users = 5
	for i := range users {
		if err := e.PutAlert(t.Context(), store.Alert{ID: store.ID(i + 1), User: store.UserID(fmt.Sprint("user ", i)), Center: here, Radius: 1000, Created: posted}); err != nil {
			t.Fatal(err)
		}
	}
	now := func() time.Time { return posted }
	kills, jobs := 0, 0
	for n := 1; ; n++ {
		if jobs++; jobs > 200 {
			t.Fatal("it never comes to its end")
		}
		if _, err := e.Post(t.Context(), store.Job{ID: store.ID(jobs), Title: "Walk a dog", At: here, Posted: posted, Requester: "rita"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		kill, at, statements = cancel, n, 0
		_, err := store.MatchPending(ctx, e, 2, now)
		at = 0
		cancel()
		hits := count1(t, e, "SELECT count(*) FROM alert_hit WHERE job = ?", int64(jobs))
		messages := count1(t, e, "SELECT count(*) FROM outbox WHERE action = 'opened' AND job = ?", int64(jobs))
		left := count1(t, e, "SELECT count(*) FROM alert_opening WHERE job = ?", int64(jobs))
		if hits != messages || hits%2 == 1 && hits != users || left == 0 && hits != users {
			t.Fatalf("killed at statement %d: %d hits, %d messages, %d openings left", n, hits, messages, left)
		}
		if statements < n {
			if err != nil {
				t.Fatalf("not killed: %v", err)
			}
			break
		}
		if err != nil {
			if kills++; !errors.Is(err, context.Canceled) {
				t.Fatalf("killed at statement %d: %v", n, err)
			}
		}
		if _, err := store.MatchPending(t.Context(), e, 2, now); err != nil {
			t.Fatal(err)
		}
		if got := count1(t, e, "SELECT count(DISTINCT recipient) FROM outbox WHERE action = 'opened' AND job = ?", int64(jobs)); got != users {
			t.Fatalf("killed at statement %d: %d users were told in the end", n, got)
		}
		if got := count1(t, e, "SELECT count(*) FROM outbox WHERE action = 'opened' AND job = ?", int64(jobs)); got != users {
			t.Fatalf("killed at statement %d: %d messages in the end", n, got)
		}
	}
	if kills < 30 {
		t.Errorf("only %d kills", kills)
	}
}

// TestAlertsLateCommit: an opening with a lower id than what is matched already is matched.
func TestAlertsLateCommit(t *testing.T) {
	e := open(t, Options{})
	job := ritasJob(t, e)
	now := func() time.Time { return posted }
	if sum, err := store.MatchPending(t.Context(), e, 9, now); err != nil || sum.Openings != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if err := e.write(t.Context(), func(c *conn) error {
		return c.run(nil, "INSERT INTO job_event ("+eventColumns+") VALUES (?, 2, 1, 0, 'resign', 'worker', 'ann', 1, 'matched', 'open', '', '', '', 0)", int64(job.ID))
	}); err != nil {
		t.Fatal(err)
	}
	if sum, err := store.MatchPending(t.Context(), e, 9, now); err != nil || sum.Openings != 1 {
		t.Errorf("%+v, %v, want the late one", sum, err)
	}
}

// TestAlertPlans holds that no statement of the alerts scans a table or sorts.
func TestAlertPlans(t *testing.T) {
	e := open(t, Options{})
	for _, sql := range []string{
		myAlertsSQL, countAlertsSQL, openingsSQL, openingSQL, aroundSQL, hitsSQL, appliedSQL, pruneHitsSQL,
		"SELECT owner FROM alert WHERE id = ?", "DELETE FROM alert_cell WHERE alert = ?",
		"DELETE FROM alert WHERE id = ? AND owner = ?", "DELETE FROM alert_opening WHERE event = ?",
	} {
		var plan []string
		if err := e.read(t.Context(), func(c *conn) error {
			return c.run(func(s *sqlite3.Stmt) error {
				plan = append(plan, s.ColumnText(3))
				return nil
			}, "EXPLAIN QUERY PLAN "+sql)
		}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		all := strings.Join(plan, "\n")
		if !strings.Contains(all, "SEARCH") || strings.Contains(all, "SCAN") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", sql, all)
		}
	}
}
