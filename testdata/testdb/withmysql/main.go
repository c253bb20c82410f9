// Command withmysql runs a command with a MySQL server for tests:
//
//	go run ./testdata/testdb/withmysql -- go test ./...
//
// It starts a server (see package bench/mysqld), or uses the one that
// NEARJOB_TEST_MYSQL_DSN names if it answers. The command gets
// NEARJOB_TEST_MYSQL_DSN (as it was, or mysql://root:password@host:port/ for the
// started server) and NEARJOB_REQUIRE_MYSQL=1, so that no test is skipped for
// want of MySQL.
// SIGINT, SIGTERM and SIGHUP are passed on. The server is taken down when the
// command ends, and the exit code is the command's, or 128 + n if a signal n
// ended it. It is 1 if there is no server, and 2 for wrong use. ("go run" turns every
// code but 0 into 1.)
//
// Its own lines go to stderr. It is not for servers that outlive the command.
//
// Known limit: on a terminal, Ctrl-C reaches the command directly, so it is not
// passed on a second time; a SIGINT sent by hand to this process alone then
// reaches only this process. Use SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"golang.org/x/term"

	"github.com/nearjob/nearjob/bench/mysqld"
	"github.com/nearjob/nearjob/testdata/testdb"
)

const (
	exitFailed = 1
	exitUsage  = 2

	pingTimeout  = 10 * time.Second
	closeTimeout = 30 * time.Second
)

func main() {
	// Both would fill the terminal with what a normal start looks like.
	mysql.SetLogger(&mysql.NopLogger{})
	tclog.SetDefault(tclog.NewNoopLogger())

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], signals, os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process around it. It returns the exit code.
func run(args []string, signals <-chan os.Signal, stdin *os.File, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprintln(stderr, "usage: go run ./testdata/testdb/withmysql -- COMMAND [ARGUMENT...]")
		return exitUsage
	}
	dsn, stop, sig, err := server(signals, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "withmysql: %v\n", err)
		if sig != nil {
			return signalCode(sig)
		}
		return exitFailed
	}
	code := command(args, dsn, signals, stdin, stdout, stderr)
	if err := stop(); err != nil {
		fmt.Fprintf(stderr, "withmysql: %v\n", err)
		if code == 0 {
			code = exitFailed
		}
	}
	return code
}

// server returns the address of a server and what takes it down. If a signal
// ended the start, it returns that too.
func server(signals <-chan os.Signal, stderr io.Writer) (dsn string, stop func() error, sig os.Signal, err error) {
	if dsn = os.Getenv(testdb.EnvDSN); dsn != "" {
		return dsn, func() error { return nil }, nil, check(dsn)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	started := make(chan struct{})
	var srv *mysqld.Server
	go func() {
		defer close(started)
		srv, err = mysqld.Start(ctx, stderr)
	}()
	for {
		select {
		case s := <-signals:
			sig = s
			cancel(fmt.Errorf("stopped by a signal: %v", s))
			continue
		case <-started:
		}
		break
	}
	if err != nil {
		return "", nil, sig, fmt.Errorf("%w; %s names one", err, testdb.EnvDSN)
	}
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return srv.Close(ctx)
	}
	if sig != nil { // it came when the server was just up
		return "", nil, sig, errors.Join(context.Cause(ctx), stop())
	}
	return srv.URL(""), stop, nil, nil
}

// check reports whether a server that the user named can be used.
func check(dsn string) error {
	cfg, err := mysqld.ParseDSN(dsn)
	if err != nil {
		return fmt.Errorf("%s: %w", testdb.EnvDSN, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if _, err := mysqld.Ping(ctx, cfg); err != nil {
		return fmt.Errorf("%s names a server that cannot be used: %w (start it, or unset the variable to have one started)", testdb.EnvDSN, err)
	}
	return nil
}

// command runs the command and returns its exit code.
func command(args []string, dsn string, signals <-chan os.Signal, stdin *os.File, stdout, stderr io.Writer) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	// Of two values for one name the last one counts.
	cmd.Env = append(os.Environ(), testdb.EnvDSN+"="+dsn, testdb.EnvRequire+"=1")
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(stderr, "withmysql: %v\n", err)
		return exitFailed
	}
	terminal := term.IsTerminal(int(stdin.Fd()))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == os.Interrupt && terminal {
				continue // the terminal sent it to the command too
			}
			// It fails if the command has just ended, which is what we wait for.
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			return exitCode(cmd.ProcessState, err, stderr)
		}
	}
}

// exitCode follows the shell's convention for a command that a signal ended.
func exitCode(state *os.ProcessState, err error, stderr io.Writer) int {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // such as a failed copy of its output
		fmt.Fprintf(stderr, "withmysql: %v\n", err)
		return exitFailed
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signalCode(status.Signal())
	}
	return state.ExitCode()
}

func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
