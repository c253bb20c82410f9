package mysql

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// here is where posted posts.
var here = geo.LatLng{Lat: 52, Lng: 13}

func putAlert(t *testing.T, e *Engine, id int, user store.UserID) {
	t.Helper()
	if err := e.PutAlert(t.Context(), store.Alert{ID: store.ID(id), User: user, Center: here, Radius: 1000, Created: start}); err != nil {
		t.Fatal(err)
	}
}

func matchAlerts(t *testing.T, e *Engine) store.AlertMatch {
	t.Helper()
	sum, err := store.MatchPending(t.Context(), e, 2, func() time.Time { return start })
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestAlertsLateCommit: an event with a lower id than what is matched already, which is
// committed only now, is matched.
func TestAlertsLateCommit(t *testing.T) {
	e := open(t, Options{})
	putAlert(t, e, 1, "ann")
	posted(t, e, 1)
	if sum := matchAlerts(t, e); sum.Told != 1 {
		t.Fatalf("%+v", sum)
	}
	late := posted(t, e, 2)
	if _, err := e.db.Exec("UPDATE job_event SET id = 1 WHERE job = ?", int64(late.ID)); err != nil {
		t.Fatal(err)
	}
	if sum := matchAlerts(t, e); sum.Openings != 1 || sum.Told != 1 {
		t.Errorf("%+v, want the late one", sum)
	}
	var hits, messages int
	if err := e.db.Get(&hits, "SELECT COUNT(*) FROM alert_hit"); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Get(&messages, "SELECT COUNT(*) FROM outbox WHERE action = 'opened'"); err != nil {
		t.Fatal(err)
	}
	if hits != 2 || messages != 2 {
		t.Errorf("%d hits and %d messages, want 2", hits, messages)
	}
}

// TestAlertsCut cuts the connection at the COMMITs of a matcher, before and after
// the server has them.
func TestAlertsCut(t *testing.T) {
	dsn := testdb.MySQL(t)
	cut, through := behindCutter(t, dsn)
	var r retries
	e := openBare(t, Options{OnRetry: r.hook}, through)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const users = 5
	for i := range users {
		putAlert(t, e, i+1, store.UserID("user "+string(rune('a'+i))))
	}
	id := 0
	for plan, name := range map[int32]string{cutBefore: "before", cutAfter: "after", cutMeantime: "meantime"} {
		t.Run(name, func(t *testing.T) {
			id++
			j := posted(t, e, id)
			open, err := e.PendingAlerts(t.Context(), store.Keys{Limit: 10})
			if err != nil || len(open) != 1 {
				t.Fatalf("%v: %+v", err, open)
			}
			var after store.AlertKey
			cuts := cut.cuts.Load()
			for pieces := 1; ; pieces++ {
				cut.plan.Store(plan)
				_, next, err := e.MatchAlerts(t.Context(), open[0], after, 2, start)
				if err != nil {
					t.Fatal(err)
				}
				if next == nil {
					if n := cut.cuts.Load() - cuts; pieces != 3 || n != 3 {
						t.Errorf("%d pieces and %d cuts, want 3", pieces, n)
					}
					break
				}
				after = *next
			}
			cut.plan.Store(pass)
			var told, hits, left int
			for sql, n := range map[string]*int{
				"SELECT COUNT(*) FROM outbox WHERE action = 'opened' AND job = ?":        &told,
				"SELECT COUNT(*) FROM alert_hit WHERE job = ?":                           &hits,
				"SELECT COUNT(*) FROM job_event WHERE unmatched IS NOT NULL AND job = ?": &left,
			} {
				if err := e.db.Get(n, sql, int64(j.ID)); err != nil {
					t.Fatal(err)
				}
			}
			if told != users || hits != users || left != 0 {
				t.Errorf("%d messages, %d hits, %d openings left, want %d, %d, 0", told, hits, left, users, users)
			}
		})
	}
}

// TestAlertPlans holds that no statement of the alerts scans a table.
func TestAlertPlans(t *testing.T) {
	e := open(t, Options{})
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT "
	cells := cell.Areas().KeysAt(here)
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{"INSERT INTO alert (id, owner, slot, lat, lng, radius, categories, min_pay, employer, created)" +
			numbers + "i, CONCAT('u', i DIV 20), i % 20, 52, 13, 1000, '', 0, '', 1 FROM n", nil},
		{"INSERT INTO alert_cell (cell, alert)" + numbers + "i, i FROM n", nil},
		{"INSERT INTO alert_cell (cell, alert)" + numbers + "?, i FROM n WHERE i < 60", []any{cells[3]}},
		{"INSERT INTO alert_hit (job, alert, owner, event, at)" + numbers + "i % 90, i, CONCAT('u', i), 1, i FROM n", nil},
		{"INSERT INTO application (job, id, worker, state, message, reason, may_reapply, created, updated, version)" +
			numbers + "i % 90, i, CONCAT('u', i), 'applied', '', '', FALSE, 1, 1, 1 FROM n", nil},
		{"INSERT INTO job_event (job, seq, id, application, action, role, actor, at, from_job, to_job, from_app, to_app, reason, told)" +
			numbers + "i, 1, i, 0, 'post', '', '', 1, '', IF(i % 50, 'matched', 'open'), '', '', '', 0 FROM n", nil},
		{"ANALYZE TABLE alert, alert_cell, alert_hit, application, job_event", nil},
	} {
		if _, err := e.db.Exec(q.sql, q.args...); err != nil {
			t.Fatalf("%s: %v", q.sql, err)
		}
	}
	around, aroundArgs := aroundSQL(cells, store.AlertKey{}, 100)
	behind, behindArgs := aroundSQL(cells, store.AlertKey{Cell: cells[3], Alert: 20}, 100)
	hits, applied := strings.Replace(hitsSQL, "(?)", "(?, ?)", 1), strings.Replace(appliedSQL, "(?)", "(?, ?)", 1)
	for _, q := range []struct {
		sql  string
		args []any
		rows float64 // at most so many are estimated
		sort bool    // what it finds may be sorted
	}{
		{around, aroundArgs, 80, false},
		{behind, behindArgs, 80, false},
		{alertOwnerSQL, []any{7}, 1, false},
		{alertSlotsSQL, []any{"u7"}, 20, false},
		{myAlertsSQL, []any{"u7", 0, 5}, 20, true},
		{unmatchedSQL, []any{0, 5}, 18, false},
		{openingSQL, []any{50}, 1, false},
		{hits, []any{7, "u7", "u97"}, 2, false},
		{applied, []any{7, "u7", "u97"}, 2, false},
		{pruneHitsSQL, []any{20, 5}, 30, false},
		{"DELETE FROM alert_cell WHERE alert = ?", []any{7}, 2, false},
		{"DELETE FROM alert WHERE id = ? AND owner = ?", []any{7, "u0"}, 1, false},
		{"UPDATE job_event SET matched = TRUE WHERE id = ?", []any{7}, 1, false},
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
			if r.Key == nil || r.Type == nil || r.Rows == nil || *r.Type == "ALL" || *r.Type == "index" || *r.Rows > q.rows ||
				strings.Contains(extra, "temporary") || strings.Contains(extra, "filesort") && !q.sort {
				t.Errorf("%s:\n%s, want at most %v rows along an index", q.sql, plan, q.rows)
			}
		}
	}
	// And what is read in fact, by the server's own count: the alerts under the cell and
	// their cells' entries, and the ends of the ranges.
	conn, err := e.db.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	handled := func() (n int) {
		t.Helper()
		if err := conn.GetContext(t.Context(), &n, "SELECT CAST(SUM(variable_value) AS SIGNED) FROM performance_schema.session_status"+
			" WHERE variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_rnd_next', 'Handler_read_first', 'Handler_read_rnd')"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := handled()
	asking := handled() - first // what the asking itself reads
	before := handled()
	var found []alertRow
	if err := conn.SelectContext(t.Context(), &found, around, aroundArgs...); err != nil || len(found) != 59 {
		t.Fatalf("%v: %d alerts, want 59", err, len(found))
	}
	read := handled() - before - asking
	if read < 2*len(found) {
		t.Errorf("the server counts %d rows read for %d alerts", read, len(found))
	}
	if most := 2*len(found) + 2*len(cells); read > most {
		t.Errorf("%d rows were read, want at most %d", read, most)
	}
}

// TestAlertsUpgrade: what opened before there were alerts is not pending.
func TestAlertsUpgrade(t *testing.T) {
	e := open(t, Options{})
	if _, err := e.db.Exec("ALTER TABLE job_event DROP KEY unmatched, DROP COLUMN unmatched, DROP COLUMN matched"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.db.Exec("DELETE FROM " + versionTable + " WHERE version_id >= 15"); err != nil {
		t.Fatal(err)
	}
	posted(t, e, 1)
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	posted(t, e, 2)
	open, err := e.PendingAlerts(t.Context(), store.Keys{Limit: 10})
	if err != nil || len(open) != 1 || open[0].Job != 2 {
		t.Errorf("%v: pending %+v, want job 2 only", err, open)
	}
}
