package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/nearjob/nearjob/store"
)

// endless is a statement that only an interrupt ends.
const endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT sum(n) FROM c"

func TestTimeLimit(t *testing.T) {
	e := open(t, Options{Timeout: 50 * time.Millisecond, MaxReaders: 1})
	start := time.Now()
	if err := e.read(t.Context(), func(c *conn) error { return c.run(nil, endless) }); !errors.Is(err, store.ErrTimeout) {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("stopped after %v", d)
	}
	// The one connection is free again and works.
	if n, err := e.Count(t.Context()); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestReadPastItsTime(t *testing.T) {
	e := open(t, Options{Timeout: 200 * time.Millisecond})
	save(t, e, someJobs(t, 1000)...)
	_, err := e.Read(t.Context(), store.Access{Index: store.NoIndex}, func([]store.Candidate) error {
		time.Sleep(250 * time.Millisecond)
		return nil
	})
	if !errors.Is(err, store.ErrTimeout) {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	e := open(t, Options{MaxReaders: 1, Timeout: time.Minute})
	save(t, e, someJobs(t, 1000)...)
	for name, f := range map[string]func(context.Context, func(*conn) error) error{"read": e.read, "write": e.write} {
		ctx, cancel := context.WithCancel(t.Context())
		err := f(ctx, func(c *conn) error {
			time.AfterFunc(20*time.Millisecond, cancel)
			return c.run(nil, endless)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.Save(ctx, []store.Job{job(1, 1, 1)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.Count(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.read(ctx, func(c *conn) error { return c.run(nil, endless) }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// In the middle of handing over rows.
	ctx, cancel = context.WithCancel(t.Context())
	calls := 0
	_, err := e.Read(ctx, store.Access{Index: store.NoIndex}, func([]store.Candidate) error {
		calls++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	// Nothing is left running, open or locked.
	for _, pool := range []chan *conn{e.idle, e.writer} {
		c := <-pool
		if !c.GetAutocommit() {
			t.Error("a transaction is open")
		}
		for sql, s := range c.prepared {
			if s.Busy() {
				t.Errorf("still running: %s", sql)
			}
		}
		pool <- c
	}
	save(t, e, job(1, 1, 1))
	checkTables(t, e)
}

// TestOneWriter: a second writer waits for its time and then says that it may
// be tried again, in the same process and in another one.
func TestOneWriter(t *testing.T) {
	e := open(t, Options{Timeout: 100 * time.Millisecond})
	other := reopen(t, e.path, Options{Timeout: 100 * time.Millisecond})
	if err := e.write(t.Context(), func(c *conn) error {
		for _, x := range []*Engine{e, other} {
			if _, err := x.Save(t.Context(), []store.Job{job(1, 1, 1)}); !errors.Is(err, store.ErrBusy) {
				t.Error(err)
			}
			if _, err := x.Count(t.Context()); err != nil {
				t.Error("a reader waits for the writer:", err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	save(t, e, job(1, 1, 1))
	save(t, other, job(2, 2, 2))
	if n, err := e.Count(t.Context()); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// TestTwoEngines writes and reads one file from two engines at once.
func TestTwoEngines(t *testing.T) {
	a := open(t, Options{Timeout: time.Minute})
	b := reopen(t, a.path, Options{Timeout: time.Minute})
	var wg sync.WaitGroup
	for i, e := range []*Engine{a, b} {
		wg.Go(func() {
			for n := range 20 {
				if _, err := e.Save(t.Context(), []store.Job{job(1000*(i+1)+n, float64(n), float64(i)), job(9999, float64(n), float64(i))}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				if _, err := e.Read(t.Context(), store.Access{Index: store.NoIndex}, func([]store.Candidate) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := b.Count(t.Context()); n != 41 || err != nil {
		t.Error(n, err)
	}
	checkTables(t, a)
}

func TestClosed(t *testing.T) {
	e := open(t, Options{})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Count(t.Context()); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if _, err := e.Save(t.Context(), []store.Job{job(1, 1, 1)}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if _, err := os.Stat(e.path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the log was not folded into the file:", err)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("These are no jobs.\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked.db")
	l, err := openConn(locked, 0, "CREATE TABLE t(x); BEGIN EXCLUSIVE")
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	readOnly := filepath.Join(dir, "readonly")
	if err := os.Mkdir(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"":                               "no file named",
		"sqlite:":                        "no file named",
		":memory:":                       "not supported",
		"sqlite::memory:":                "not supported",
		"sqlite:" + text:                 text + " is not a SQLite database",
		dir:                              "cannot write to " + dir,
		filepath.Join(text, "a.db"):      "cannot make the folder of " + filepath.Join(text, "a.db"),
		locked:                           locked + " is locked by another process",
		filepath.Join(readOnly, "db"):    "cannot write to " + filepath.Join(readOnly, "db"),
		filepath.Join(readOnly, "d/e/f"): "cannot make the folder of " + filepath.Join(readOnly, "d/e/f"),
	} {
		if strings.HasPrefix(name, readOnly) && os.Geteuid() == 0 {
			continue // root may write everywhere
		}
		e, err := Open(t.Context(), name, Options{Timeout: 50 * time.Millisecond})
		if err == nil {
			e.Close()
			t.Errorf("%q was opened", name)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q on one line", name, err, want)
		}
	}
	// What looks like a URI is a name.
	odd := filepath.Join(dir, "new folder", "a?mode=memory&x=%20#y.db")
	reopen(t, "sqlite:"+odd, Options{})
	if _, err := os.Stat(odd); err != nil {
		t.Error(err)
	}
}

func TestReadyAndMigrations(t *testing.T) {
	e, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "run `nearjob migrate`") {
		t.Error(err)
	}
	for range 2 {
		if err := e.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		save(t, e, someJobs(t, 50)...)
		checkTables(t, e)
		p, done, err := e.migrations()
		if err != nil {
			t.Fatal(err)
		}
		if sources := p.ListSources(); sources[len(sources)-1].Version != schemaVersion {
			t.Errorf("the last migration is %d, schemaVersion %d", sources[len(sources)-1].Version, schemaVersion)
		}
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		done()
		if err := e.Ready(t.Context()); err == nil {
			t.Error("ready without tables")
		}
		if _, err := e.Count(t.Context()); err == nil {
			t.Error("counted what is not there")
		}
	}
	if err := e.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.write(t.Context(), func(c *conn) error {
		return c.run(nil, "INSERT INTO "+goose.DefaultTablename+" (version_id, is_applied) VALUES (?, 1)", int64(schemaVersion+1))
	}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func(context.Context) error{e.Ready, e.Migrate} {
		if err := f(t.Context()); err == nil || !strings.Contains(err.Error(), "newer program") {
			t.Error(err)
		}
	}
}

// TestMigrateAtOnce starts several engines on one file that does not exist.
func TestMigrateAtOnce(t *testing.T) {
	for range 3 {
		path := filepath.Join(t.TempDir(), "x.db")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				e, err := Open(t.Context(), path, Options{Timeout: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				defer e.Close()
				if err := e.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
				if err := e.Ready(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := e.Save(t.Context(), []store.Job{job(i+1, 1, 1)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		e := reopen(t, path, Options{})
		if n, err := e.Count(t.Context()); n != 8 || err != nil {
			t.Error(n, err)
		}
		p, done, err := e.migrations()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if v, err := p.GetDBVersion(t.Context()); v != schemaVersion || err != nil {
			t.Error(v, err)
		}
		checkTables(t, e)
	}
}
