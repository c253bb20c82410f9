package mysql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// posted posts a job of rita's.
func posted(t *testing.T, e *Engine, id int) store.Job {
	t.Helper()
	j := job(t, id, geo.LatLng{Lat: 52, Lng: 13})
	j.Requester = "rita"
	out, err := e.Post(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return out.Job
}

func act(t *testing.T, e *Engine, c store.Command) store.Outcome {
	t.Helper()
	out, err := tryAct(t.Context(), e, c)
	if err != nil {
		t.Fatalf("%s: %v", c.Action, err)
	}
	return out
}

func tryAct(ctx context.Context, e *Engine, c store.Command) (store.Outcome, error) {
	c.At = start.Add(time.Hour)
	return e.Act(ctx, c)
}

// history returns the actions of a job's events, and how many messages it has made.
func history(t *testing.T, e *Engine, id store.ID) (actions string, messages int) {
	t.Helper()
	events, err := e.Events(t.Context(), id, store.Keys{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range events {
		actions += " " + string(v.Action)
	}
	if err := e.db.Get(&messages, "SELECT COUNT(*) FROM outbox WHERE job = ?", int64(id)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(actions), messages
}

// retries collects what OnRetry is told.
type retries struct {
	mu   sync.Mutex
	errs []error
	then func(error)
}

func (r *retries) hook(_ string, err error) {
	r.mu.Lock()
	r.errs = append(r.errs, err)
	r.mu.Unlock()
	if r.then != nil {
		r.then(err)
	}
}

func (r *retries) count(number uint16) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errs {
		if hasNumber(err, number) {
			n++
		}
	}
	return n
}

// TestDeadlock provokes real deadlocks, which the transition loses because the
// rival has changed more rows, and holds that it is then done, once.
func TestDeadlock(t *testing.T) {
	var r retries
	e := open(t, Options{OnRetry: r.hook})
	if _, err := e.db.Exec("CREATE TABLE weight (n INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		j := posted(t, e, 1+round)
		app := act(t, e, store.Command{Action: store.ActApply, Job: j.ID, By: "ann"}).Application
		before := r.count(errDeadlock)
		rival, err := e.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		// The rival holds the application ...
		for _, sql := range []string{
			"INSERT INTO weight WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n",
			"UPDATE application SET reason = 'mine' WHERE job = " + j.ID.String(),
		} {
			if _, err := rival.Exec(sql); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := tryAct(t.Context(), e, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"})
			done <- err
		}()
		// ... the transition holds the job and waits for it ...
		waitFor(t, e, "application")
		// ... and now the rival wants the job.
		if _, err := rival.Exec("SELECT id FROM job WHERE id = ? FOR UPDATE", int64(j.ID)); err != nil {
			t.Fatalf("the rival lost: %v", err)
		}
		if err := rival.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if n := r.count(errDeadlock); n == before {
			t.Errorf("round %d: no deadlock was told of", round)
		}
		if actions, messages := history(t, e, j.ID); actions != "post apply accept" || messages != 2 {
			t.Errorf("round %d: %s, %d messages", round, actions, messages)
		}
	}
}

// waitFor waits until some statement waits for a lock of a table.
func waitFor(t *testing.T, e *Engine, table string) {
	t.Helper()
	for range 2000 {
		var n int
		if err := e.db.Get(&n, "SELECT COUNT(*) FROM performance_schema.data_locks WHERE object_schema = DATABASE() AND object_name = ? AND lock_status = 'WAITING'",
			table); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("nothing waits for a lock of %s", table)
}

// TestLockWait: a wait for a lock that lasted too long is tried again.
func TestLockWait(t *testing.T) {
	var r retries
	e := open(t, Options{Timeout: time.Second, OnRetry: r.hook})
	j := posted(t, e, 1)
	rival, err := e.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	if _, err := rival.Exec("UPDATE job SET title = 'held' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	r.then = func(error) { once.Do(func() { _ = rival.Rollback() }) }
	act(t, e, store.Command{Action: store.ActApply, Job: j.ID, By: "ann"})
	if r.count(errLockWait) == 0 {
		t.Errorf("told of %v, want a wait for a lock", r.errs)
	}
	if actions, messages := history(t, e, j.ID); actions != "post apply" || messages != 1 {
		t.Errorf("%s, %d messages", actions, messages)
	}
	// One that never ends is given up, as busy, and nothing was done.
	rival, err = e.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	if _, err := rival.Exec("UPDATE job SET title = 'held' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := tryAct(t.Context(), e, store.Command{Action: store.ActApply, Job: j.ID, By: "bob"}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if err := rival.Rollback(); err != nil {
		t.Fatal(err)
	}
	if actions, _ := history(t, e, j.ID); actions != "post apply" {
		t.Errorf("%s", actions)
	}
}

// cutter is a proxy before the server that can cut a client off at its COMMIT.
type cutter struct {
	server string
	listen net.Listener
	plan   atomic.Int32 // what to do with the next COMMIT
	cuts   atomic.Int32
	closed atomic.Bool // to new connections
}

// The plans of a cutter.
const (
	pass        = iota
	cutBefore   // the server does not get it, and does not learn of the cut
	cutAfter    // the server has carried it out, the client does not learn of it
	cutMeantime // the server gets it a while after the client was cut off
	cutForGood  // as cutAfter, and no connection is let through any more
)

// behindCutter returns the address of a schema through a cutter.
func behindCutter(t *testing.T, dsn string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{server: u.Host, listen: l}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	if c.closed.Load() {
		return
	}
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	var answers sync.WaitGroup
	var mute atomic.Bool
	answered := make(chan struct{}, 64)
	answers.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if mute.Load() {
				answered <- struct{}{}
				continue
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer server.Close()
	for {
		packet, err := readPacket(client)
		if err != nil {
			return
		}
		if string(packet[4:]) != "\x03COMMIT" || c.plan.Load() == pass {
			if _, err := server.Write(packet); err != nil {
				return
			}
			continue
		}
		plan := c.plan.Swap(pass)
		c.cuts.Add(1)
		switch plan {
		case cutBefore:
			client.Close()
			// The session goes on, with its locks, until somebody ends it.
			_, _ = io.Copy(io.Discard, server)
		case cutAfter, cutForGood:
			mute.Store(true)
			c.closed.Store(plan == cutForGood)
			_, _ = server.Write(packet)
			<-answered
			client.Close()
		case cutMeantime:
			mute.Store(true)
			client.Close()
			time.Sleep(50 * time.Millisecond)
			_, _ = server.Write(packet)
			select {
			case <-answered:
			case <-time.After(5 * time.Second): // it was killed before
			}
		}
		return
	}
}

// readPacket reads one packet of MySQL's protocol with its header.
func readPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	packet := make([]byte, 4+n)
	copy(packet, head[:])
	_, err := io.ReadFull(r, packet[4:])
	return packet, err
}

// TestUnknownOutcome cuts the connection at the COMMIT, before and after the
// server has it, and holds that each action is done once and its outcome known.
func TestUnknownOutcome(t *testing.T) {
	dsn := testdb.MySQL(t)
	cut, through := behindCutter(t, dsn)
	var r retries
	e := openBare(t, Options{OnRetry: r.hook}, through)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := openBare(t, Options{}, dsn)
	id := 0
	for plan, name := range map[int32]string{cutBefore: "before", cutAfter: "after", cutMeantime: "meantime"} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				id++
				before, cuts := len(r.errs), cut.cuts.Load()
				cut.plan.Store(plan)
				j := posted(t, e, id)
				cut.plan.Store(plan)
				app := act(t, e, store.Command{Action: store.ActApply, Job: j.ID, By: "ann"}).Application
				cut.plan.Store(plan)
				out := act(t, e, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"})
				if n := cut.cuts.Load() - cuts; n != 3 {
					t.Errorf("%d commits were cut, want 3", n)
				}
				if len(r.errs) < before+3 {
					t.Errorf("told of %v", r.errs[before:])
				}
				stored, err := direct.Jobs(t.Context(), []store.ID{j.ID})
				if err != nil || len(stored) != 1 || stored[0] != out.Job || out.Job.State != store.Matched || out.Job.Version != 2 {
					t.Errorf("%v: stored %+v, the outcome is %+v", err, stored, out.Job)
				}
				events, err := direct.Events(t.Context(), j.ID, store.Keys{Limit: 10})
				if err != nil || events[len(events)-1] != out.Event {
					t.Errorf("%v: events %+v, the outcome's is %+v", err, events, out.Event)
				}
				if actions, messages := history(t, direct, j.ID); actions != "post apply accept" || messages != 2 {
					t.Errorf("%s, %d messages", actions, messages)
				}
			}
		})
	}
	t.Run("for good", func(t *testing.T) {
		j := posted(t, e, 100)
		cut.plan.Store(cutForGood)
		_, err := tryAct(t.Context(), e, store.Command{Action: store.ActApply, Job: j.ID, By: "ann"})
		if !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%v, want ErrUnknownOutcome", err)
		}
		if actions, _ := history(t, direct, j.ID); actions != "post apply" {
			t.Errorf("%s", actions)
		}
		cut.closed.Store(false)
	})
}

// TestBehind shows what Claim asks a second time: of a job's pending messages, all
// but the first are behind another, and a dead one holds up nobody.
func TestBehind(t *testing.T) {
	e := open(t, Options{})
	j := posted(t, e, 1)
	for _, who := range []store.UserID{"ann", "bob", "cho"} {
		act(t, e, store.Command{Action: store.ActApply, Job: j.ID, By: who})
	}
	var ids []int64
	if err := e.db.Select(&ids, "SELECT id FROM outbox ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	for dead := range 3 {
		tx, err := e.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		late, err := e.behind(t.Context(), tx, ids)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		// The dead ones before are behind nothing; the first pending one neither.
		if want := ids[dead+1:]; !slices.Equal(slices.Sorted(slices.Values(late)), want) {
			t.Errorf("%d dead: %v are behind another, want %v", dead, late, want)
		}
		if _, err := e.db.Exec("UPDATE outbox SET state = 'dead' WHERE id = ?", ids[dead]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMarketConstraints: the database itself refuses a second holder, a second
// application of a worker, a fork of the history, and a second message.
func TestMarketConstraints(t *testing.T) {
	e := open(t, Options{})
	posted(t, e, 1)
	for _, sql := range []string{
		"INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version) VALUES (1, %d, 'w%[1]d', 'accepted', '', '', 0, 1, 1, 1)",
		"INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version) VALUES (1, %d + 10, 'same', 'applied', '', '', 0, 1, 1, 1)",
		"INSERT INTO job_event (" + eventColumns + ") VALUES (1, 2, %d + 10, 0, '', '', '', 1, '', '', '', '', '', 0)",
		"INSERT INTO outbox (" + messageColumns + ") VALUES (%d + 10, 5, 1, 0, 'ann', '', '', '', 1, '', '', '', 'pending', 0, 1, '', '')",
	} {
		for i := 1; i <= 2; i++ {
			_, err := e.db.Exec(fmt.Sprintf(sql, i))
			if (i == 1) != (err == nil) || i == 2 && !hasNumber(err, errDuplicate) {
				t.Errorf("%s, time %d: %v", sql, i, err)
			}
		}
	}
}

// TestMaxApplicants: a job takes so many applicants and not one more.
func TestMaxApplicants(t *testing.T) {
	e := open(t, Options{})
	j := posted(t, e, 1)
	fillApplicants(t, e, j.ID, store.MaxApplicants-1)
	act(t, e, store.Command{Action: store.ActApply, Job: j.ID, By: "ann"})
	var te *store.TransitionError
	if _, err := tryAct(t.Context(), e, store.Command{Action: store.ActApply, Job: j.ID, By: "bob"}); !errors.As(err, &te) || te.Why == "" {
		t.Errorf("%v, want a TransitionError that says why", err)
	}
	// All of them are passed over in one transaction.
	app, err := e.ApplicationFor(t.Context(), j.ID, "ann")
	if err != nil {
		t.Fatal(err)
	}
	act(t, e, store.Command{Action: store.ActAccept, Application: app.ID, By: "rita"})
	var declined, told int
	if err := e.db.Get(&declined, "SELECT COUNT(*) FROM application WHERE state = 'declined' AND version = 2 AND may_reapply"); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Get(&told, "SELECT COUNT(DISTINCT recipient) FROM outbox WHERE action = 'pass_over'"); err != nil {
		t.Fatal(err)
	}
	if declined != store.MaxApplicants-1 || told != declined {
		t.Errorf("%d are declined and %d told, want %d", declined, told, store.MaxApplicants-1)
	}
}

// fillApplicants adds n undecided applications for a job.
func fillApplicants(t *testing.T, e *Engine, job store.ID, n int) {
	t.Helper()
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, %d, 'worker %d', 'applied', '', '', FALSE, 1, 1, 1)", job, 1000+i, i)
	}
	if _, err := e.db.Exec("INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version) VALUES " +
		strings.Join(rows, ", ")); err != nil {
		t.Fatal(err)
	}
}

// TestMarketPlans holds that the hot reads go along an index, and read no more of
// it than they return, in tables of some thousand rows.
func TestMarketPlans(t *testing.T) {
	e := open(t, Options{})
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT "
	for _, sql := range []string{
		"INSERT INTO job (id, source, source_id, title, description, url, category, employer, pay, currency, pay_per, lat, lng, remote, state, posted, expires, requester)" +
			numbers + "i, 'x', i, 't', '', '', '', '', 0, '', '', 1, 1, FALSE, IF(i % 3, 'open', 'matched'), 1, i, CONCAT('u', i % 50) FROM n",
		"INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version)" +
			numbers + "i % 90, i, CONCAT('w', i), 'applied', '', '', FALSE, 1, 1, 1 FROM n",
		"INSERT INTO job_event (job, seq, id, application, action, role, actor, at, from_job, to_job, from_app, to_app, reason, told)" +
			numbers + "i % 90, i, i, 0, '', '', '', 1, '', '', '', '', '', 0 FROM n",
		"INSERT INTO outbox (event, job, application, recipient, role, action, actor, at, title, job_state, note, state, attempts, due, node, last_error)" +
			numbers + "i, i % 90, 0, CONCAT('u', i % 50), '', '', '', 1, '', '', '', IF(i % 9, 'delivered', 'pending'), 0, i, '', '' FROM n",
		"INSERT INTO answer (id, body_hash, token, began, until, status, header, body)" + numbers + "UNHEX(SHA2(i, 256)), UNHEX(SHA2(i, 256)), 1, i, 1, 0, '', '' FROM n",
		"INSERT INTO device (id, token, owner, created)" + numbers + "UNHEX(SHA2(i, 256)), i, CONCAT('u', i % 50), i FROM n",
		"INSERT INTO webhook (id, owner, url, secret, created, disabled)" + numbers + "i, CONCAT('u', i % 50), '', '', 1, '' FROM n",
		"ANALYZE TABLE job, application, job_event, outbox, answer, device, webhook",
	} {
		if _, err := e.db.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	far := int64(1 << 62)
	for _, q := range []struct {
		sql  string
		args []any
		rows float64 // at most so many are estimated
	}{
		{"SELECT " + jobColumns + ", seq FROM job WHERE id = ? FOR UPDATE", []any{7}, 1},
		{"SELECT 1 FROM job_event WHERE id = ?", []any{7}, 1},
		{"SELECT job FROM application WHERE id = ?", []any{7}, 1},
		{"SELECT " + appColumns + " FROM application WHERE job = ? AND id = ?", []any{7, 7}, 1},
		{"SELECT " + appColumns + " FROM application WHERE job = ? AND worker = ?", []any{7, "w7"}, 1},
		{"SELECT " + appColumns + " FROM application WHERE held = ?", []any{7}, 1},
		{"SELECT " + appColumns + " FROM application WHERE job = ? AND state IN (?, ?) ORDER BY id", []any{7, "applied", "accepted"}, 20},
		{"SELECT COUNT(*) FROM application WHERE job = ? AND state = 'applied'", []any{7}, 10},
		{appsOfSQL, []any{7, 0, 5}, 10},
		{myJobsSQL, []any{"u7", far, 5}, 18},
		{myAppsSQL, []any{"w7", far, 5}, 1},
		{eventsSQL, []any{7, 0, 5}, 10},
		{expireSQL, []any{10, 5}, 10},
		{listSQL, []any{"pending", 0, 5}, 900}, // the estimate is without the LIMIT
		{inboxSQL, []any{"u7", 0, 5}, 18},
		{claimableSQL, []any{false, 20, 5}, 10},
		{followSQL, []any{50, 7, 0, 50}, 20},
		{"SELECT at FROM outbox FORCE INDEX (state_id) WHERE state = 'pending' ORDER BY id LIMIT 1", nil, 900},
		{"DELETE FROM outbox WHERE state = ? AND due < ? ORDER BY due LIMIT ?", []any{"delivered", 20, 5}, 30},
		{"DELETE FROM answer WHERE began < ? ORDER BY began LIMIT ?", []any{20, 5}, 30},
		{"SELECT token, owner, created FROM device WHERE owner = ? ORDER BY created DESC LIMIT ?", []any{"u7", 5}, 18},
		{"SELECT id, owner, url, secret, created, disabled FROM webhook WHERE owner = ? ORDER BY id LIMIT ?", []any{"u7", 5}, 18},
	} {
		var rows []struct {
			Table *string  `db:"table"`
			Type  *string  `db:"type"`
			Key   *string  `db:"key"`
			Rows  *float64 `db:"rows"`
			Extra *string  `db:"Extra"`
		}
		if err := e.db.Unsafe().Select(&rows, "EXPLAIN FORMAT=TRADITIONAL "+q.sql, q.args...); err != nil {
			t.Fatalf("%s: %v", q.sql, err)
		}
		if len(rows) == 0 {
			t.Errorf("%s: no plan", q.sql)
		}
		for _, r := range rows {
			plan, _ := json.Marshal(r)
			extra := ""
			if r.Extra != nil {
				extra = *r.Extra
			}
			if r.Table == nil && (strings.Contains(extra, "no matching row") || strings.Contains(extra, "Impossible")) {
				continue // looked up while planning, by the whole of a unique key
			}
			if r.Key == nil || r.Rows == nil || *r.Type == "ALL" || *r.Type == "index" || *r.Rows > q.rows || strings.Contains(extra, "filesort") && !strings.Contains(q.sql, "IN (?") {
				t.Errorf("%s:\n%s, want at most %v rows along an index", q.sql, plan, q.rows)
			}
		}
	}
}

// TestMyPlans holds that the lists of a user with a large share of all are read along
// that user's index, and not past the rows of all others.
func TestMyPlans(t *testing.T) {
	e := open(t, Options{})
	// Beyond 1,000 a recursion is refused.
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99), m (i) AS (SELECT 100 * a.i + b.i + 1 FROM n AS a, n AS b) SELECT "
	for _, sql := range []string{
		"INSERT INTO job (id, source, source_id, title, description, url, category, employer, pay, currency, pay_per, lat, lng, remote, state, posted, expires, requester)" +
			numbers + "i, 'x', i, 't', '', '', '', '', 0, '', '', 1, 1, FALSE, 'open', 1, i, IF(i < 4000, 'u1', '') FROM m",
		"INSERT INTO outbox (event, job, application, recipient, role, action, actor, at, title, job_state, note, state, attempts, due, node, last_error)" +
			numbers + "i, i, 0, IF(i > 6000, 'u1', CONCAT('u', i)), '', '', '', 1, '', '', '', 'delivered', 0, i, '', '' FROM m",
		"ANALYZE TABLE job, outbox",
	} {
		if _, err := e.db.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, q := range []struct {
		sql, key string
		args     []any
	}{{myJobsSQL, "requester_id", []any{"u1", int64(1 << 62), 50}}, {inboxSQL, "recipient_id", []any{"u1", 0, 100}}} {
		var rows []struct {
			Key *string `db:"key"`
		}
		if err := e.db.Unsafe().Select(&rows, "EXPLAIN FORMAT=TRADITIONAL "+q.sql, q.args...); err != nil {
			t.Fatalf("%s: %v", q.sql, err)
		}
		if len(rows) != 1 || rows[0].Key == nil || *rows[0].Key != q.key {
			plan, _ := json.Marshal(rows)
			t.Errorf("%s:\n%s, want the index %s", q.sql, plan, q.key)
		}
	}
}

// TestClaimSkips: a claim leaves out what another one holds, and does not wait for it.
func TestClaimSkips(t *testing.T) {
	e := open(t, Options{Timeout: time.Second})
	for id := 1; id <= 2; id++ {
		act(t, e, store.Command{Action: store.ActApply, Job: posted(t, e, id).ID, By: "ann"})
	}
	rival, err := e.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	if _, err := rival.Exec("SELECT id FROM outbox WHERE job = 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	got, err := e.Claim(t.Context(), "a", 10, time.Minute, start.Add(time.Hour))
	if err != nil || len(got) != 1 || got[0].Job != 2 {
		t.Errorf("claimed %v: %+v, want the one that is not held", err, got)
	}
}

// TestBlurHeld: from the moment that places are written until they are there, no other
// blur can begin.
func TestBlurHeld(t *testing.T) {
	e := open(t, Options{})
	tx, err := e.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := e.show(t.Context(), tx, []store.Job{job(t, 1, geo.LatLng{Lat: 52, Lng: 13})}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.db.Exec("SELECT blur FROM open_job_blur WHERE id = 1 FOR UPDATE NOWAIT"); !hasNumber(err, errLockNoWait) {
		t.Errorf("%v, want that the row is held", err)
	}
}

// TestEventIDTaken: where two nodes have made one id for an event by accident, the second
// takes another.
func TestEventIDTaken(t *testing.T) {
	dsn := testdb.MySQL(t)
	for id := 1; id <= 2; id++ {
		ids, err := store.NewIDs(func() time.Time { return start }, 7)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), dsn, Options{IDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		act(t, e, store.Command{Action: store.ActApply, Job: posted(t, e, id).ID, By: "ann"})
	}
}

// TestExpireHeld: a job that cannot be marked does not keep the others from it.
func TestExpireHeld(t *testing.T) {
	e := open(t, Options{Timeout: time.Second})
	for id := 1; id <= 2; id++ {
		j := job(t, id, geo.LatLng{Lat: 52, Lng: 13})
		j.Requester, j.Expires = "rita", j.Posted.Add(time.Duration(id)*time.Minute)
		if _, err := e.Post(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	rival, err := e.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Rollback()
	if _, err := rival.Exec("UPDATE job SET title = 'held' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Expire(t.Context(), start.Add(24*time.Hour), 10); n != 1 || !errors.Is(err, store.ErrBusy) {
		t.Errorf("marked %d, %v, want the one that is not held, and ErrBusy for the other", n, err)
	}
}
