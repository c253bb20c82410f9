package mysql

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nearjob/nearjob/store"
)

func TestParseDSN(t *testing.T) {
	cfg, err := parseDSN("mysql://me:p%40ss%2F%3F%23word@db.example:3307/jobs?tls=skip-verify&timeout=2s")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.User != "me" || cfg.Passwd != "p@ss/?#word" || cfg.Net != "tcp" || cfg.Addr != "db.example:3307" ||
		cfg.DBName != "jobs" || cfg.TLSConfig != "skip-verify" || cfg.Timeout != 2*time.Second {
		t.Errorf("got %+v", cfg)
	}
	for dsn, addr := range map[string]string{
		"mysql://me@db/jobs":          "db:3306",
		"mysql://me@[2001:db8::1]/j":  "[2001:db8::1]:3306",
		"mysql://me@[2001:db8::1]:1/": "",
	} {
		cfg, err := parseDSN(dsn)
		if addr == "" {
			if err == nil {
				t.Errorf("%s: no error", dsn)
			}
		} else if err != nil || cfg.Addr != addr {
			t.Errorf("%s: %v, %v", dsn, cfg, err)
		}
	}
}

func TestParseDSNRefuses(t *testing.T) {
	for _, dsn := range []string{
		"", "mysql:", "mysql://", "mysql://me:sesame@/jobs", "mysql://:sesame@db/jobs", "mysql://me:sesame@db", "mysql://me:sesame@db/a/b",
		"me:sesame@tcp(db:3306)/jobs", "postgres://me:sesame@db/jobs", "mysql:me:sesame@db/jobs",
		"mysql://me:sesame@db:0/jobs", "mysql://me:sesame@db:99999/jobs", "mysql://me:sesame@db:x/jobs",
		"mysql://me:sesame%@db/jobs", "mysql://me:ses#ame@db/jobs",
		"mysql://me:sesame@db/jobs?multiStatements=true", "mysql://me:sesame@db/jobs?allowAllFiles=true",
		"mysql://me:sesame@db/jobs?allowCleartextPasswords=1", "mysql://me:sesame@db/jobs?sql_mode=''",
		"mysql://me:sesame@db/jobs?tls=other", "mysql://me:sesame@db/jobs?tls=true&tls=false", "mysql://me:sesame@db/jobs?timeout=-1s",
		"mysql://me:sesame@db/jobs?timeout=5", "mysql://me:sesame@db/jobs?%zz", "mysql://me:sesame@db/jobs?a;b",
	} {
		cfg, err := parseDSN(dsn)
		if err == nil {
			t.Errorf("%s: got %+v", dsn, cfg)
		} else if strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "ses#ame") {
			t.Errorf("%s: the error shows the password: %v", dsn, err)
		}
	}
}

func FuzzParseDSN(f *testing.F) {
	f.Add("mysql://me:sesame@db:3306/jobs?tls=true")
	f.Add("mysql://me@[::1]/jobs?timeout=1s")
	f.Add("mysql://me:a%2Fb@db/jobs?multiStatements=1")
	f.Fuzz(func(t *testing.T, dsn string) {
		cfg, err := parseDSN(dsn)
		if err != nil {
			return
		}
		if cfg.User == "" || cfg.DBName == "" || cfg.MultiStatements || cfg.AllowAllFiles || cfg.AllowCleartextPasswords || cfg.AllowOldPasswords {
			t.Errorf("accepted %+v", cfg)
		}
		if _, _, err := net.SplitHostPort(cfg.Addr); err != nil {
			t.Errorf("address %q: %v", cfg.Addr, err)
		}
	})
}

// TestOpenUnreachable checks that a server that is not there is a passing fault
// and that the error keeps the password to itself.
func TestOpenUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), "mysql://me:sesame@"+addr+"/jobs", Options{})
	if err == nil {
		_ = e.Close()
		t.Fatal("opened")
	}
	if !errors.Is(err, store.ErrBusy) || strings.Contains(err.Error(), "sesame") || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, "mysql://me:sesame@"+addr+"/jobs", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}
