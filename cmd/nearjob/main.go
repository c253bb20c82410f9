// Command nearjob finds the open jobs near a point: as a service, as a laboratory
// for the ways to do it on MySQL, and as a one-command demonstration.
//
// This package only wires: each subcommand has a small file that turns flags into
// a call of the packages that do the work. Flags come before NEARJOB_* environment
// variables, and these before defaults. Exit codes: 0 done, 1 failed, 2 wrong use.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/go-sql-driver/mysql"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

func main() {
	// Both would fill the terminal with what a normal start looks like.
	mysql.SetLogger(&mysql.NopLogger{})
	tclog.SetDefault(tclog.NewNoopLogger())

	// The first signal ends the work in an orderly way, the second one at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// cli is the command line: kong reads it from the tags.
//
// kong is MIT-licensed, maintained, has environment variables and commands as
// structs, and no dependencies of its own.
type cli struct {
	Demo     demoCmd     `cmd:"" help:"Fill an embedded store with generated jobs and serve it."`
	Serve    serveCmd    `cmd:"" help:"Serve the HTTP API."`
	Import   importCmd   `cmd:"" help:"Read jobs from GeoJSON or CSV files."`
	Generate generateCmd `cmd:"" help:"Make a data set of jobs."`
	Plans    plansCmd    `cmd:"" help:"Explain and compare query plans on MySQL."`
	Outbox   outboxCmd   `cmd:"" help:"See and repeat the messages to users."`
	Token    tokenCmd    `cmd:"" help:"Make a token for development."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database schema to this version."`
	Doctor   doctorCmd   `cmd:"" help:"Check that everything works, and say what to do where not."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// exit is what kong panics with when it wants the process to end.
type exit int

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var c cli
	parser, err := kong.New(&c,
		kong.Name("nearjob"),
		kong.Description("Finds the open jobs near a point, and proves why it is fast."),
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.DefaultEnvars("NEARJOB"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"shapes": shapeNames(), "experiments": experimentNames()},
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		panic(err) // a fault in the tags above
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(s.err, "nearjob: %s (see nearjob --help)\n", oneLine(err))
		return 2
	}
	switch err := command.Run(); {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(s.err, "nearjob: %s (see nearjob %s --help)\n", oneLine(err), command.Selected().Name)
		return 2
	default:
		fmt.Fprintf(s.err, "nearjob: %s\n", oneLine(err))
		return 1
	}
}

// usageError is a flag or argument that cannot be used.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// oneLine prints an error on one line, whatever its parts were.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
