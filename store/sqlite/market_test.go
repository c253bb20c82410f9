package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// ritasJob posts a job.
func ritasJob(t *testing.T, e *Engine) store.Job {
	t.Helper()
	out, err := e.Post(t.Context(), store.Job{ID: 1, Title: "Walk a dog", At: geo.LatLng{Lat: 52, Lng: 13}, Posted: posted, Requester: "rita"})
	if err != nil {
		t.Fatal(err)
	}
	return out.Job
}

// TestMarketMaxApplicants: a job takes so many applicants and not one more, and
// all of them are passed over in one transaction.
func TestMarketMaxApplicants(t *testing.T) {
	e := open(t, Options{})
	job := ritasJob(t, e)
	if err := e.write(t.Context(), func(c *conn) error {
		return c.run(nil, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version)
			SELECT 1, i, 'worker ' || i, 'applied', '', '', 0, 1, 1, 1 FROM n`, int64(store.MaxApplicants-1))
	}); err != nil {
		t.Fatal(err)
	}
	at := posted.Add(time.Minute)
	apply := store.Command{Action: store.ActApply, Job: job.ID, By: "ann", At: at}
	out, err := e.Act(t.Context(), apply)
	if err != nil {
		t.Fatal(err)
	}
	apply.By = "bob"
	var te *store.TransitionError
	if _, err := e.Act(t.Context(), apply); !errors.As(err, &te) || te.Why == "" {
		t.Errorf("%v, want a TransitionError that says why", err)
	}
	if _, err := e.Act(t.Context(), store.Command{Action: store.ActAccept, Application: out.Application.ID, By: "rita", At: at}); err != nil {
		t.Fatal(err)
	}
	var declined, told int
	if err := e.read(t.Context(), func(c *conn) error {
		return errors.Join(
			c.run(func(s *sqlite3.Stmt) error { declined = s.ColumnInt(0); return nil },
				"SELECT count(*) FROM application WHERE state = 'declined' AND version = 2 AND may_reapply"),
			c.run(func(s *sqlite3.Stmt) error { told = s.ColumnInt(0); return nil },
				"SELECT count(DISTINCT recipient) FROM outbox WHERE action = 'pass_over'"))
	}); err != nil {
		t.Fatal(err)
	}
	if declined != store.MaxApplicants-1 || told != declined {
		t.Errorf("%d are declined and %d told, want %d", declined, told, store.MaxApplicants-1)
	}
}

// TestMarketConstraints: the database itself refuses a second holder, a second
// application of a worker, a fork of the history, and a second message.
func TestMarketConstraints(t *testing.T) {
	e := open(t, Options{})
	ritasJob(t, e)
	for _, sql := range []string{
		"INSERT INTO application (" + appColumns + ") SELECT %d, 1, 'w' || %[1]d, 'accepted', '', '', 0, 1, 1, 1",
		"INSERT INTO application (" + appColumns + ") SELECT %d + 10, 1, 'same', 'applied', '', '', 0, 1, 1, 1",
		"INSERT INTO job_event (" + eventColumns + ") SELECT 1, 2, %d + 10, 0, '', '', '', 1, '', '', '', '', '', 0",
		"INSERT INTO outbox (" + messageColumns + ") SELECT %d + 10, 5, 1, 0, 'ann', '', '', '', 1, '', '', '', 'pending', 0, 1, '', ''",
	} {
		for i := 1; i <= 2; i++ {
			err := e.write(t.Context(), func(c *conn) error { return c.run(nil, fmt.Sprintf(sql, i)) })
			if (i == 1) != (err == nil) || i == 2 && !errors.Is(err, store.ErrDuplicate) {
				t.Errorf("%s, time %d: %v", sql, i, err)
			}
		}
	}
}

// TestMarketPlans holds that the hot reads go along an index, in its order.
func TestMarketPlans(t *testing.T) {
	e := open(t, Options{})
	for _, sql := range []string{
		"SELECT " + jobColumns + ", seq FROM job WHERE id = ?",
		"SELECT " + appColumns + " FROM application WHERE id = ?",
		"SELECT " + appColumns + " FROM application WHERE job = ? AND worker = ?",
		"SELECT " + appColumns + " FROM application WHERE job = ? AND state IN ('accepted', 'started', 'finished', 'confirmed')",
		"SELECT count(*) FROM application WHERE job = ? AND state = 'applied'",
		expireSQL, appsOfSQL, myJobsSQL, myAppsSQL, eventsSQL, claimableSQL, listSQL, inboxSQL,
		"SELECT at FROM outbox WHERE state = 'pending' ORDER BY id LIMIT 1",
		"SELECT id FROM outbox WHERE recipient = ? ORDER BY id DESC LIMIT 1",
		"SELECT body_hash, until, status, header, body FROM answer WHERE id = ?",
		"SELECT id FROM answer WHERE began < ? LIMIT ?",
		"SELECT token, owner, created FROM device WHERE owner = ? ORDER BY created DESC LIMIT ?",
		"SELECT id, owner, url, secret, created, disabled FROM webhook WHERE owner = ? ORDER BY id LIMIT ?",
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

// TestMigrateDown takes a file with matching in it down and up again: jobs stay.
func TestMigrateDown(t *testing.T) {
	e := open(t, Options{})
	ritasJob(t, e)
	p, done, err := e.migrations()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for range 2 {
		if _, err := p.DownTo(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(t.Context()); err == nil {
			t.Error("ready without the tables")
		}
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	jobs, err := e.Jobs(t.Context(), []store.ID{1})
	if err != nil || len(jobs) != 1 || jobs[0].Title != "Walk a dog" || jobs[0].Requester != "" {
		t.Errorf("%v: %+v", err, jobs)
	}
}

// TestEventIDTaken: where two processes have made one id for an event by accident, the
// second takes another.
func TestEventIDTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	for id := range store.ID(2) {
		ids, err := store.NewIDs(func() time.Time { return posted }, 7)
		if err != nil {
			t.Fatal(err)
		}
		e := reopen(t, path, Options{IDs: ids})
		j := store.Job{ID: id + 1, Title: "Walk a dog", At: geo.LatLng{Lat: 52, Lng: 13}, Posted: posted, Requester: "rita"}
		if _, err := e.Post(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Act(t.Context(), store.Command{Action: store.ActApply, Job: j.ID, By: "ann", At: posted}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Post(t.Context(), j); !errors.Is(err, store.ErrDuplicate) {
			t.Errorf("posted twice: %v", err)
		}
	}
}
