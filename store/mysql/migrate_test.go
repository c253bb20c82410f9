package mysql

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestMigrations(t *testing.T) {
	e := openBare(t, Options{}, testdb.MySQL(t))
	notReady := func(when string) {
		t.Helper()
		if err := e.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "run nearjob migrate") {
			t.Errorf("Ready %s: %v", when, err)
		}
	}
	ready := func(when string) {
		t.Helper()
		if err := e.Ready(t.Context()); err != nil {
			t.Errorf("Ready %s: %v", when, err)
		}
	}
	tables := func() (names []string) {
		t.Helper()
		if err := e.db.Select(&names, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1"); err != nil {
			t.Fatal(err)
		}
		return names
	}
	down := func(to int64) {
		t.Helper()
		err := e.migrate(t.Context(), func(p *goose.Provider) error {
			_, err := p.DownTo(t.Context(), to)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	up := func() {
		t.Helper()
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	notReady("on an empty schema")
	all := []string{"alert", "alert_cell", "alert_hit", "answer", "application", "device", versionTable, "job", "job_event", "open_job", "open_job_blur", "open_remote_job", "outbox", "settings", "webhook"}
	for range 2 {
		up()
		ready("after Migrate")
		if got := tables(); !slices.Equal(got, all) {
			t.Errorf("tables %v, want %v", got, all)
		}
		up()
		ready("after Migrate twice")
		newest, err := newestVersion()
		if err != nil {
			t.Fatal(err)
		}
		down(newest - 1)
		notReady("one version below")
		down(0)
		notReady("after going down")
		if got := tables(); !slices.Equal(got, []string{versionTable}) {
			t.Errorf("tables %v are left, want only goose's", got)
		}
	}
	up()
	if _, err := e.db.Exec("INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (?, TRUE)", 99_999); err != nil {
		t.Fatal(err)
	}
	if err := e.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "newer nearjob") {
		t.Errorf("Ready on a newer schema: %v", err)
	}
}

// TestMigrateBroken checks that a migration that was cut off before goose noted
// it, or before goose's table had its first row, runs again.
func TestMigrateBroken(t *testing.T) {
	e := open(t, Options{})
	for _, noted := range []int{1, -1} {
		if _, err := e.db.Exec("DELETE FROM "+versionTable+" WHERE version_id > ?", noted); err != nil {
			t.Fatal(err)
		}
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestMigrateConcurrently(t *testing.T) {
	dsn := testdb.MySQL(t)
	engines := make([]*Engine, 8)
	for i := range engines {
		engines[i] = openBare(t, Options{MaxConns: 2}, dsn)
	}
	var wg sync.WaitGroup
	for i, e := range engines {
		wg.Go(func() {
			if err := e.Migrate(t.Context()); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	var versions []int64
	if err := engines[0].db.Select(&versions, "SELECT version_id FROM "+versionTable+" WHERE version_id > 0 ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	newest, err := newestVersion()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range versions {
		if v != int64(i+1) {
			t.Fatalf("applied %v, want each version once", versions)
		}
	}
	if len(versions) != int(newest) {
		t.Errorf("applied %v, want up to %d", versions, newest)
	}
	for i, e := range engines {
		if err := e.Ready(t.Context()); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
	}
}

func TestNodes(t *testing.T) {
	dsn := testdb.MySQL(t)
	nodes := make([]store.Engine, 4)
	for i := range nodes {
		nodes[i] = openBare(t, Options{MaxConns: 3}, dsn)
	}
	storetest.Nodes(t, nodes)
}
