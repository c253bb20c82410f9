package mysql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/nearjob/nearjob/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// versionTable is where goose keeps what it has applied.
const versionTable = goose.DefaultTablename

// migrationLockWait in seconds is how long a node waits for another one that migrates.
const migrationLockWait = 600

// Migrate implements [store.Admin]. Nodes that start at once wait for the
// first; then they find nothing left to do. Each migration makes one change
// and may run again, since MySQL cannot roll back a change of the schema.
func (e *Engine) Migrate(ctx context.Context) error {
	if err := e.migrate(ctx, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	}); err != nil {
		return err
	}
	return e.adoptBlur(ctx)
}

// migrate calls f with a provider, on a pool of its own whose statements may
// take as long as a change of a big table needs, while no other node is in f.
func (e *Engine) migrate(ctx context.Context, f func(*goose.Provider) error) error {
	db, err := e.pool(map[string]string{
		"sql_mode":           e.sessionVariables()["sql_mode"],
		"max_execution_time": "0",
		// The wait for a search that is reading a table that changes.
		"lock_wait_timeout": "60",
	})
	if err != nil {
		return err
	}
	err = locked(ctx, db, func(conn *sql.Conn) error {
		if err := mendVersions(ctx, conn); err != nil {
			return err
		}
		files, err := fs.Sub(migrationFiles, "migrations")
		if err != nil {
			return err
		}
		p, err := goose.NewProvider(goose.DialectMySQL, db, files, goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return err
		}
		return f(p)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return translate(ctx, fmt.Errorf("migrate the schema: %w", err))
	}
	return nil
}

// locked calls f with the connection that holds the server's lock for the
// schema. Not as goose's SessionLocker, because goose makes its table before it
// takes that lock, and a node that comes second finds it without its first row.
func locked(ctx context.Context, db *sql.DB, f func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Hashed, because a lock's name has at most 64 characters.
	const name = "CONCAT('nearjob:', LEFT(SHA2(DATABASE(), 256), 40))"
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", ?)", migrationLockWait).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return fmt.Errorf("%w: another node has been migrating the schema for %d seconds", store.ErrBusy, migrationLockWait)
	}
	// No unlocking: the pool ends with f, and the lock with its connection.
	return f(conn)
}

// mendVersions puts the first row into goose's table where a node died between
// making the table and that. Goose would refuse the table for good.
func mendVersions(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO "+versionTable+" (version_id, is_applied)"+
		" SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT * FROM "+versionTable+")")
	if hasNumber(err, errNoSuchTable) {
		return nil
	}
	return err
}

// Ready implements [store.Admin].
func (e *Engine) Ready(ctx context.Context) error {
	lctx, cancel := e.limited(ctx)
	defer cancel()
	var have int64
	err := e.db.GetContext(lctx, &have, "SELECT COALESCE(MAX(version_id), 0) FROM "+versionTable)
	if err != nil && !hasNumber(err, errNoSuchTable) {
		return translate(ctx, err)
	}
	want, err := newestVersion()
	switch {
	case err != nil:
		return err
	case have < want:
		return fmt.Errorf("the database schema is at version %d, this program needs %d: run nearjob migrate", have, want)
	case have > want:
		return fmt.Errorf("the database schema is at version %d, this program knows only %d: install a newer nearjob", have, want)
	}
	return e.readyBlur(ctx)
}

// newestVersion returns the highest version of the embedded migrations.
func newestVersion() (int64, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	var newest int64
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		newest = max(newest, v)
	}
	return newest, nil
}
