// Package testdb gives tests an empty schema on a MySQL server.
//
// A test calls [MySQL] and gets the address of a schema of its own, on the
// server that NEARJOB_TEST_MYSQL_DSN names. Without that variable the test is
// skipped, or fails if NEARJOB_REQUIRE_MYSQL is set. So "go test ./..." works
// on any machine, and a run that must prove something cannot pass by skipping.
//
// The server comes from the command in withmysql, which "make test" uses: it
// starts one with package bench/mysqld, runs a command with both variables set,
// and takes the server down. One server serves all packages of a run.
//
// The package does not create tables (store/mysql does), is not meant for
// production, and is imported by tests and test tools only.
//
// # Known limits
//
//   - A create and drop of a small schema takes 28 ms, against 14 ms with the data
//     in memory, which is not worth a size bound by RAM and benchmarks whose fsync
//     is free.
//   - A run that is killed with SIGKILL leaves its schemas until their server goes.
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

	"github.com/nearjob/nearjob/bench/mysqld"
)

const (
	// EnvDSN names the server for tests, in either form that [mysqld.ParseDSN] reads.
	// The account must be allowed to create and drop schemas.
	EnvDSN = "NEARJOB_TEST_MYSQL_DSN"

	// EnvRequire, if set to anything, makes [MySQL] fail instead of skip.
	EnvRequire = "NEARJOB_REQUIRE_MYSQL"
)

// required is read at once: a TestMain that clears the environment must not make the
// tests of a run that has to prove something skip.
var required = os.Getenv(EnvRequire) != ""

// schemaTimeout bounds one CREATE or DROP of a schema. It is longer than
// lockWait, so that a test that holds a lock is told so by the server.
const (
	schemaTimeout = 30 * time.Second
	lockWait      = 10 * time.Second
)

// MySQL creates an empty schema with a unique name, has it dropped when the
// test ends, and returns its address as mysql://user:password@host:port/schema,
// the form that Nearjob's --db takes. [mysqld.DriverDSN] converts it for [sql.Open].
//
// Without NEARJOB_TEST_MYSQL_DSN the test is skipped, or fails if
// NEARJOB_REQUIRE_MYSQL is set. A server that is named but does not answer
// always fails the test.
func MySQL(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv(EnvDSN)
	if dsn == "" {
		const reason = "needs MySQL: run `make test`, or set " + EnvDSN
		if required {
			tb.Fatalf("%s (%s is set, so this test may not be skipped)", reason, EnvRequire)
		}
		tb.Skip(reason)
	}
	cfg, err := mysqld.ParseDSN(dsn)
	if err != nil {
		tb.Fatalf("%s: %v", EnvDSN, err)
	}
	random := make([]byte, 8)
	rand.Read(random) // never fails, by its documentation
	schema := "nearjob_test_" + hex.EncodeToString(random)
	address := cfg.Clone()
	address.DBName = schema
	url, err := mysqld.URL(address)
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
	cfg.DBName = ""
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}
