package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearjob/nearjob/testdata/testdb"
)

// runIt calls run with no input and no terminal.
func runIt(t *testing.T, signals chan os.Signal, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errOut bytes.Buffer
	code = run(args, signals, null, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestRunRefuses(t *testing.T) {
	const secret = "s3cret"
	tests := []struct {
		name, dsn  string
		args       []string
		wantCode   int
		wantStderr string
	}{
		{"no command", "", nil, exitUsage, "usage:"},
		{"only dashes", "", []string{"--"}, exitUsage, "usage:"},
		{"malformed address", "mysql://u:" + secret + "@db:port/", []string{"true"}, exitFailed, "not of the form mysql://"},
		// Port 1 is reserved and nothing listens on it.
		{"nobody answers", "mysql://u:" + secret + "@127.0.0.1:1/", []string{"true"}, exitFailed, "start it, or unset"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(testdb.EnvDSN, tt.dsn)
			code, stdout, stderr := runIt(t, nil, tt.args...)
			if code != tt.wantCode || stdout != "" || !strings.Contains(stderr, tt.wantStderr) {
				t.Errorf("got code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if strings.Contains(stderr, secret) {
				t.Error("the message shows the password")
			}
		})
	}
}

func TestRunCommand(t *testing.T) {
	testdb.MySQL(t) // skips without a server
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh")
	}
	t.Setenv(testdb.EnvRequire, "")

	t.Run("environment and exit code", func(t *testing.T) {
		code, stdout, stderr := runIt(t, nil, "--", "sh", "-c", `test -n "$NEARJOB_TEST_MYSQL_DSN" && echo "$NEARJOB_REQUIRE_MYSQL"; exit 3`)
		if code != 3 || stdout != "1\n" || stderr != "" {
			t.Errorf("got code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
	t.Run("no such command", func(t *testing.T) {
		code, _, stderr := runIt(t, nil, "/no/such/command")
		if code != exitFailed || !strings.Contains(stderr, "/no/such/command") {
			t.Errorf("got code %d, stderr %q", code, stderr)
		}
	})
	t.Run("a signal is passed on", func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		began := time.Now()
		code, _, stderr := runIt(t, signals, "sleep", "60")
		if want := 128 + int(syscall.SIGTERM); code != want {
			t.Errorf("got code %d, want %d; stderr %q", code, want, stderr)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
