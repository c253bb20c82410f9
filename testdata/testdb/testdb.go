// Package testdb gives tests a MySQL server and an empty schema on it.
//
// A test calls [MySQL] and gets the address of a schema of its own, on the
// server that NEARJOB_TEST_MYSQL_DSN names. Without that variable the test is
// skipped, or fails if NEARJOB_REQUIRE_MYSQL is set. So "go test ./..." works
// on any machine, and a run that must prove something cannot pass by skipping.
//
// The server comes from the command in withmysql, which "make test" uses: it
// calls [Start], runs a command with both variables set, and takes the server
// down. One server serves all packages of a run.
//
// [Start] runs MySQL in Docker, from the image in NEARJOB_MYSQL_IMAGE or, if
// that is unset, from the first of these that can be had: mysql:9.7 in the local
// store; an image that an earlier run built; mysql:9.7 from the registry; an
// image built from Debian's packages, for machines that reach a Debian mirror
// but no registry. An image that was asked for by name is never replaced by another one.
//
// The package does not create tables (store/mysql does), is not meant for
// production, and is imported by tests and test tools only.
//
// # Known limits
//
//   - Building the image needs Linux, root, a Debian machine whose apt sources
//     name a mirror that carries unstable, and about a minute. Mirrors that need
//     apt's auth.conf or a transport other than http, https or file are not used.
//   - The built image holds the MySQL of Debian unstable on the day of the
//     build, and is reused until it is removed (docker rmi nearjob/mysql-debian:sid).
//   - The data lives on an anonymous volume, not in memory: a create and drop of
//     a small schema took 28 ms against 14 ms on tmpfs, which is not worth a size
//     bound by RAM and benchmarks whose fsync is free.
//   - A run that is killed with SIGKILL leaves its container until the next Start
//     on the same machine sweeps it, and its schemas until their server goes.
//   - Outside Linux and the BSDs there are no file locks: leftovers are not swept.
package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// EnvDSN names the server for tests, in either form that [ParseDSN] reads.
	// The account must be allowed to create and drop schemas.
	EnvDSN = "NEARJOB_TEST_MYSQL_DSN"

	// EnvRequire, if set to anything, makes [MySQL] fail instead of skip.
	EnvRequire = "NEARJOB_REQUIRE_MYSQL"

	// EnvImage names the image that [Start] runs.
	EnvImage = "NEARJOB_MYSQL_IMAGE"
)

// schemaTimeout bounds one CREATE or DROP of a schema. It is longer than
// lockWait, so that a test that holds a lock is told so by the server.
const (
	schemaTimeout = 30 * time.Second
	lockWait      = 10 * time.Second
)

// MySQL creates an empty schema with a unique name, has it dropped when the
// test ends, and returns its address as mysql://user:password@host:port/schema,
// the form that Nearjob's --db takes. [DriverDSN] converts it for [sql.Open].
//
// Without NEARJOB_TEST_MYSQL_DSN the test is skipped, or fails if
// NEARJOB_REQUIRE_MYSQL is set. A server that is named but does not answer
// always fails the test.
func MySQL(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv(EnvDSN)
	if dsn == "" {
		const reason = "needs MySQL: run `make test`, or set " + EnvDSN
		if os.Getenv(EnvRequire) != "" {
			tb.Fatalf("%s (%s is set, so this test may not be skipped)", reason, EnvRequire)
		}
		tb.Skip(reason)
	}
	cfg, err := ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("%s: %v", EnvDSN, err)
	}
	schema := "nearjob_test_" + randomHex(8)
	address := cfg.Clone()
	address.DBName = schema
	url, err := URL(address)
	if err != nil {
		tb.Fatalf("%s: %v", EnvDSN, err)
	}
	// The name is made of letters, digits and underscores: no quoting needed.
	if err := execute(cfg, "CREATE DATABASE "+schema); err != nil {
		tb.Fatalf("create a schema on the server of %s: %v", EnvDSN, err)
	}
	tb.Cleanup(func() {
		if err := execute(cfg, "DROP DATABASE IF EXISTS "+schema); err != nil {
			tb.Errorf("drop schema %s (does the test leave a transaction open?): %v", schema, err)
		}
	})
	return url
}

// Ping reports whether the server of cfg answers and accepts the account,
// and the version of the server.
func Ping(ctx context.Context, cfg *mysql.Config) (version string, err error) {
	err = connect(cfg, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	})
	return version, err
}

// execute runs one statement on a connection of its own, outside any schema.
func execute(cfg *mysql.Config, statement string) error {
	// Not the test's context: a schema is also dropped after a test's end.
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	cfg = cfg.Clone()
	if cfg.Params == nil {
		cfg.Params = make(map[string]string)
	}
	cfg.Params["lock_wait_timeout"] = strconv.Itoa(int(lockWait.Seconds()))
	return connect(cfg, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

// connect calls f with a pool of connections outside any schema.
func connect(cfg *mysql.Config, f func(*sql.DB) error) error {
	cfg = cfg.Clone()
	cfg.DBName = ""
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	return errors.Join(f(db), db.Close())
}

// randomHex returns 2n random hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
