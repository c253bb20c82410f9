package testdb

import (
	"database/sql"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/bench/mysqld"
)

// recorder is a testing.TB that takes notes instead of ending the real test.
type recorder struct {
	testing.TB // nil: a method that is not below must not be called
	fatal      string
	skipped    string
	cleanups   []func()
}

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) { r.fatal += format }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = strings.TrimSpace(strings.Join(append([]string{format}, texts(args)...), " "))
	runtime.Goexit()
}
func (r *recorder) Skip(args ...any) {
	r.skipped = strings.Join(texts(args), " ")
	runtime.Goexit()
}

func texts(args []any) (s []string) {
	for _, a := range args {
		switch a := a.(type) {
		case string:
			s = append(s, a)
		case error:
			s = append(s, a.Error())
		}
	}
	return s
}

// record calls MySQL as a test would.
func record() (r *recorder, url string) {
	r = new(recorder)
	done := make(chan struct{})
	go func() {
		defer close(done)
		url = MySQL(r)
	}()
	<-done
	return r, url
}

func TestMySQLWithoutServer(t *testing.T) {
	const secret = "s3cret"
	tests := []struct {
		name, dsn string
		require   bool
		wantSkip  bool
		wantFatal string
	}{
		{"not set", "", false, true, ""},
		{"not set but required", "", true, false, "may not be skipped"},
		{"malformed", "mysql://u:" + secret + "@db:port/", false, false, "not of the form mysql://"},
		{"socket file", "u:" + secret + "@unix(/nowhere)/", false, false, "TCP"},
		// Port 1 is reserved and nothing listens on it.
		{"nobody answers", "mysql://u:" + secret + "@127.0.0.1:1/", false, false, "create a schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(EnvDSN, tt.dsn)
			defer func(was bool) { required = was }(required)
			required = tt.require
			r, _ := record()
			if got := r.skipped != ""; got != tt.wantSkip {
				t.Errorf("skipped: got %v, want %v", got, tt.wantSkip)
			}
			if tt.wantFatal == "" && r.fatal != "" || !strings.Contains(r.fatal, tt.wantFatal) {
				t.Errorf("fatal: got %q, want %q", r.fatal, tt.wantFatal)
			}
			if strings.Contains(r.fatal, secret) {
				t.Error("the message shows the password")
			}
		})
	}
}

func TestMySQL(t *testing.T) {
	if os.Getenv(EnvDSN) == "" {
		MySQL(t) // says why it skips, or fails
	}
	first, url := record()
	if first.fatal != "" {
		t.Fatal(first.fatal)
	}
	second, other := record()
	if second.fatal != "" {
		t.Fatal(second.fatal)
	}
	if !regexp.MustCompile(`^mysql://.*/nearjob_test_[0-9a-f]{16}(\?.*)?$`).MatchString(url) {
		t.Error("the address is not of the form mysql://.../nearjob_test_...")
	}
	if url == other {
		t.Error("two calls got one schema")
	}

	dsn, err := mysqld.DriverDSN(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (id BIGINT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	var schema string
	if err := db.QueryRow("SELECT DATABASE()").Scan(&schema); err != nil {
		t.Fatal(err)
	}

	const count = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?"
	var before, after int
	if err := db.QueryRow(count, schema).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*recorder{first, second} {
		for _, f := range r.cleanups {
			f()
		}
		if r.fatal != "" {
			t.Error(r.fatal)
		}
	}
	if err := db.QueryRow(count, schema).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if before != 1 || after != 0 {
		t.Errorf("schemas before and after the cleanup: got %d and %d, want 1 and 0", before, after)
	}
}
