package storetest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/sqlite"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

// database makes an empty database for a test and returns how to open it.
type database func(tb testing.TB) func(tb testing.TB) store.Engine

func sqliteFile(tb testing.TB) func(testing.TB) store.Engine {
	file := filepath.Join(tb.TempDir(), "nearjob.db")
	return func(tb testing.TB) store.Engine {
		return opened(tb, func(ctx context.Context) (store.Engine, error) {
			return sqlite.Open(ctx, "sqlite:"+file, sqlite.Options{})
		})
	}
}

func mysqlSchema(tb testing.TB) func(testing.TB) store.Engine {
	dsn := testdb.MySQL(tb)
	return func(tb testing.TB) store.Engine {
		return opened(tb, func(ctx context.Context) (store.Engine, error) { return mysql.Open(ctx, dsn, mysql.Options{}) })
	}
}

// opened returns an engine that is closed when the test ends.
func opened(tb testing.TB, open func(context.Context) (store.Engine, error)) store.Engine {
	tb.Helper()
	e, err := open(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return e
}

// fresh returns what opens an engine on a new database.
func fresh(db database) func(t *testing.T) store.Engine {
	return func(t *testing.T) store.Engine { return db(t)(t) }
}

// haveMySQL says whether MySQL is to be tested: where it is not, the test that
// asks for it by itself says so, or fails.
func haveMySQL() bool {
	return os.Getenv(testdb.EnvDSN) != "" || os.Getenv(testdb.EnvRequire) != ""
}

func TestSQLite(t *testing.T) { storetest.Conformance(t, fresh(sqliteFile)) }

func TestMySQL(t *testing.T) {
	testdb.MySQL(t) // skips here, and not in each part
	storetest.Conformance(t, fresh(mysqlSchema))
}

func TestSQLiteNodes(t *testing.T) { storetest.Nodes(t, nodes(t, sqliteFile)) }

func TestMySQLNodes(t *testing.T) { storetest.Nodes(t, nodes(t, mysqlSchema)) }

func TestSQLiteMarket(t *testing.T) { storetest.Market(t, venue(sqliteFile)) }

func TestMySQLMarket(t *testing.T) {
	testdb.MySQL(t) // as in TestMySQL
	storetest.Market(t, venue(mysqlSchema))
}

func TestSQLiteMarketNodes(t *testing.T) {
	storetest.MarketNodes(t, venues(t, nodes(t, sqliteFile)...))
}

func TestMySQLMarketNodes(t *testing.T) {
	storetest.MarketNodes(t, venues(t, nodes(t, mysqlSchema)...))
}

// venue is fresh for the matching.
func venue(db database) func(t *testing.T) storetest.Venue {
	return func(t *testing.T) storetest.Venue { return venues(t, db(t)(t))[0] }
}

func venues(t *testing.T, engines ...store.Engine) (all []storetest.Venue) {
	for _, e := range engines {
		v, ok := e.(storetest.Venue)
		if !ok {
			t.Fatalf("the engine %s does no matching", e.Name())
		}
		all = append(all, v)
	}
	return all
}

func nodes(t *testing.T, db database) (all []store.Engine) {
	open := db(t)
	for range 4 {
		all = append(all, open(t))
	}
	return all
}

func TestEquivalence(t *testing.T) {
	engines := map[string]func(*testing.T) store.Engine{"sqlite": fresh(sqliteFile)}
	if haveMySQL() {
		engines["mysql"] = fresh(mysqlSchema)
	} else {
		t.Logf("without MySQL: set %s to compare both engines", testdb.EnvDSN)
	}
	load := storetest.Load{Rows: 2500, Queries: 150, Pages: 5}
	if testing.Short() {
		load.Queries = 20
	}
	storetest.Equivalence(t, engines, load)
}
