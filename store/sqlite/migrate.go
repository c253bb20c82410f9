package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var files embed.FS

// schemaVersion is the number of the last file in migrations.
const schemaVersion = 5

// migrateWait is how long to wait for another process that migrates.
const migrateWait = 2 * time.Minute

// Migrate implements [store.Admin].
//
// Of several processes one migrates and the others wait. The lock is SQLite's
// own, on an empty second database FILE-migrate, since the migrations need that
// of the database itself; it is let go of by the end of the process, however that
// comes. The empty file stays: who removes it takes it away under somebody who is
// just opening it.
func (e *Engine) Migrate(ctx context.Context) error {
	switch v, err := e.version(ctx); {
	case err != nil:
		return err
	case v == schemaVersion:
		return e.adoptBlur(ctx)
	case v > schemaVersion:
		return newer(e.path, v)
	}
	unlock, err := e.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p, done, err := e.migrations()
	if err != nil {
		return err
	}
	defer done()
	results, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrating %s: %w", e.path, translate(ctx, err))
	}
	for _, r := range results {
		e.log.InfoContext(ctx, "migrated", "database", e.path, "version", r.Source.Version, "took", r.Duration)
	}
	return e.adoptBlur(ctx)
}

// migrations returns goose over the embedded files, and what to call after use.
func (e *Engine) migrations() (*goose.Provider, func() error, error) {
	dir, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, nil, err
	}
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: e.path, RawQuery: "_txlock=immediate"}).String()
	db, err := driver.Open(name, func(c *sqlite3.Conn) error { return setUp(c, e.timeout, "PRAGMA synchronous = FULL") })
	if err != nil {
		return nil, nil, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return p, p.Close, nil // closes db too
}

// lockMigrations waits until no other process migrates this file.
func (e *Engine) lockMigrations(ctx context.Context) (unlock func(), err error) {
	path := e.path + "-migrate"
	c, err := openConn(path, migrateWait, "")
	if err != nil {
		return nil, explainOpen(path, err)
	}
	c.SetInterrupt(ctx)
	err = c.Exec("BEGIN EXCLUSIVE")
	c.SetInterrupt(context.Background())
	if err != nil {
		c.close()
		return nil, explainOpen(path, translate(ctx, err))
	}
	return func() { c.close() }, nil
}

// version returns the version of the schema, 0 before the first migration.
func (e *Engine) version(ctx context.Context) (v int64, err error) {
	err = e.read(ctx, func(c *conn) error {
		exists := false
		if err := c.run(func(*sqlite3.Stmt) error {
			exists = true
			return nil
		}, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", goose.DefaultTablename); err != nil || !exists {
			return err
		}
		return c.run(func(s *sqlite3.Stmt) error {
			v = s.ColumnInt64(0)
			return nil
		}, "SELECT max(version_id) FROM "+goose.DefaultTablename)
	})
	return v, err
}

// Ready implements [store.Admin].
func (e *Engine) Ready(ctx context.Context) error {
	v, err := e.version(ctx)
	switch {
	case err != nil:
		return err
	case v < schemaVersion:
		return fmt.Errorf("%s has schema version %d, this program needs %d: run `nearjob migrate`", e.path, v, schemaVersion)
	case v > schemaVersion:
		return newer(e.path, v)
	}
	return e.readyBlur(ctx)
}

func newer(path string, v int64) error {
	return fmt.Errorf("%s has schema version %d, this program knows up to %d: use a newer program", path, v, schemaVersion)
}
