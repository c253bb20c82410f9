package storetest_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/sqlite"
	"github.com/nearjob/nearjob/store/storetest"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func TestSQLiteBlurred(t *testing.T) {
	storetest.Blurred(t, func(t *testing.T) storetest.BlurredDatabase {
		file := filepath.Join(t.TempDir(), "nearjob.db")
		return blurVenue(func(ctx context.Context, b *store.Blur) (store.Engine, error) {
			return sqlite.Open(ctx, "sqlite:"+file, sqlite.Options{Blur: b})
		})
	})
}

func TestMySQLBlurred(t *testing.T) {
	testdb.MySQL(t) // as in TestMySQL
	storetest.Blurred(t, func(t *testing.T) storetest.BlurredDatabase {
		dsn := testdb.MySQL(t)
		return blurVenue(func(ctx context.Context, b *store.Blur) (store.Engine, error) {
			return mysql.Open(ctx, dsn, mysql.Options{Blur: b})
		})
	})
}

// blurVenue is a database that an engine opens with a blur.
func blurVenue(open func(context.Context, *store.Blur) (store.Engine, error)) storetest.BlurredDatabase {
	return func(t *testing.T, b *store.Blur) storetest.BlurVenue {
		v, ok := opened(t, func(ctx context.Context) (store.Engine, error) { return open(ctx, b) }).(storetest.BlurVenue)
		if !ok {
			t.Fatal("the engine blurs no places")
		}
		return v
	}
}
