package scratch_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/testdata/testdb"
)

func open(t *testing.T, dsn string) *scratch.Server {
	t.Helper()
	s, err := scratch.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSchema follows a schema from its creation to its end, which a context that
// has ended does not prevent.
func TestSchema(t *testing.T) {
	s := open(t, testdb.MySQL(t))
	ctx, cancel := context.WithCancel(t.Context())
	schema, err := s.Schema(ctx, "dense")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(schema.Name, scratch.Prefix+"dense_") {
		t.Errorf("the schema is called %s", schema.Name)
	}
	var name string
	if err := schema.DB().QueryRowContext(ctx, "SELECT DATABASE()").Scan(&name); err != nil || name != schema.Name {
		t.Errorf("the pool is in schema %q (%v), want %q", name, err, schema.Name)
	}
	e, err := mysql.Open(ctx, schema.DSN, mysql.Options{})
	if err != nil {
		t.Fatalf("the engine does not take the address: %v", err)
	}
	if err := e.Migrate(ctx); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left, err := s.Leftovers(ctx); err != nil || !slices.Contains(left, schema.Name) {
		t.Errorf("Leftovers: %q, %v", left, err)
	}
	cancel()
	for range 2 {
		if err := schema.Drop(ctx); err != nil {
			t.Error(err)
		}
	}
	if left, err := s.Leftovers(t.Context()); err != nil || slices.Contains(left, schema.Name) {
		t.Errorf("Leftovers after Drop: %q, %v", left, err)
	}
}

func TestBadNames(t *testing.T) {
	s := open(t, testdb.MySQL(t))
	for _, name := range []string{"", "a-b", "A", "x`; DROP DATABASE mysql", strings.Repeat("a", 31)} {
		if schema, err := s.Schema(t.Context(), name); err == nil {
			t.Errorf("the name %q is accepted", name)
			_ = schema.Drop(t.Context())
		}
	}
}

// TestNoRight: an account that may not create schemas is told what to do, and
// no error shows its password.
func TestNoRight(t *testing.T) {
	dsn := testdb.MySQL(t)
	root := open(t, dsn)
	const user, password = "nearjob_scratch_test", "S3cret-of-the-test"
	for _, q := range []string{
		"DROP USER IF EXISTS " + user,
		"CREATE USER " + user + " IDENTIFIED BY '" + password + "'",
	} {
		exec(t, root.DB(), q)
	}
	t.Cleanup(func() {
		_, err := root.DB().Exec("DROP USER " + user)
		if err != nil {
			t.Error(err)
		}
	})
	addr := root.Config().Addr
	s := open(t, "mysql://"+user+":"+password+"@"+addr+"/")
	_, err := s.Schema(t.Context(), "dense")
	if err == nil {
		t.Fatal("an account without rights creates a schema")
	}
	if !strings.Contains(err.Error(), "GRANT ALL ON") || strings.Contains(err.Error(), password) {
		t.Errorf("the error is %v", err)
	}
	_, err = scratch.Open(t.Context(), "mysql://"+user+":wrong"+password+"@"+addr+"/")
	if err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("with a wrong password: %v", err)
	}
}

func exec(t *testing.T, db *sql.DB, q string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}
