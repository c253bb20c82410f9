package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/sqlite"
)

// database is the flags of every command that opens one.
type database struct {
	DB          string        `name:"db" placeholder:"DSN" help:"sqlite:FILE or mysql://user:pass@host:port/db. Default: a file in the user's data directory."`
	DBTimeout   time.Duration `name:"db-timeout" default:"5s" help:"Time limit of a statement, enforced in the server too."`
	DBConns     int           `name:"db-conns" default:"16" help:"Connections to the database at the most."`
	AutoMigrate bool          `name:"auto-migrate" default:"true" negatable:"" help:"Bring the schema to this version first."`
	blurring
}

// blurring is the flags that hide where exactly the jobs are. Every program on one
// database must have the same.
type blurring struct {
	BlurM          *float64    `name:"blur-m" placeholder:"METRES" help:"Show jobs at another place, at most this far away, to all but the requester and the accepted worker. nearjob migrate changes the jobs that are there; 0 shows them as they are."`
	BlurSecret     auth.Secret `name:"blur-secret" placeholder:"SECRET" help:"What the places are drawn from, at least 16 bytes. Others on this machine can see a flag: better in the environment or a file."`
	BlurSecretFile string      `name:"blur-secret-file" type:"path" placeholder:"FILE" help:"A file with that secret; white space at its end does not count."`
}

// blur returns nil where places are shown as they are.
func (b blurring) blur() (*store.Blur, error) {
	secret, err := secretOf("blur-secret", b.BlurSecret, b.BlurSecretFile)
	switch {
	case err != nil:
		return nil, err
	case b.BlurM == nil && secret != "":
		return nil, usage("--blur-secret without --blur-m: say how far, or 0 for not at all")
	case b.BlurM == nil || *b.BlurM == 0:
		return nil, nil
	}
	blur, err := store.NewBlur([]byte(secret), *b.BlurM)
	if err != nil {
		return nil, usageError{err}
	}
	return blur, nil
}

// engine is what both databases do.
type engine interface {
	store.Engine
	store.Market
	store.Alerts
	store.Reblurrer
	Blur() *store.Blur
}

var (
	_ engine = (*mysql.Engine)(nil)
	_ engine = (*sqlite.Engine)(nil)
)

// engineOptions are for the commands that write more than imports do.
type engineOptions struct {
	ids     *store.IDs                     // nil: those of a random node
	onRetry func(action string, err error) // nil: nobody is told
}

// open opens the database that the flags name, or the file called fallback in
// the data directory.
func (d database) open(ctx context.Context, fallback string) (engine, error) {
	return d.openWith(ctx, fallback, engineOptions{})
}

func (d database) openWith(ctx context.Context, fallback string, o engineOptions) (engine, error) {
	if d.DBConns < 1 {
		return nil, usage("--db-conns: %d is not 1 or more", d.DBConns)
	}
	blur, err := d.blur()
	if err != nil {
		return nil, err
	}
	dsn := d.DB
	if dsn == "" {
		dir, err := dataDir()
		if err != nil {
			return nil, err
		}
		dsn = "sqlite:" + filepath.Join(dir, fallback)
	}
	var e engine
	switch scheme, _, _ := strings.Cut(dsn, ":"); scheme {
	case "sqlite":
		e, err = sqlite.Open(ctx, dsn, sqlite.Options{Timeout: d.DBTimeout, MaxReaders: d.DBConns, IDs: o.ids, Blur: blur})
	case "mysql":
		e, err = mysql.Open(ctx, dsn, mysql.Options{Timeout: d.DBTimeout, MaxConns: d.DBConns, IDs: o.ids, Blur: blur, OnRetry: o.onRetry})
	default:
		// The value may hold a password: it is not repeated.
		return nil, usage("--db: want sqlite:FILE or mysql://user:pass@host:port/db")
	}
	if err != nil {
		return nil, err
	}
	if d.AutoMigrate {
		if err := e.Migrate(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("migrate: %w", err), e.Close())
		}
	}
	return e, nil
}

// defaultFile is the store of every command but demo.
const defaultFile = "nearjob.db"

// dataDir is the user's data directory for nearjob, as the XDG Base Directory
// Specification has it, or what the platform has in its place.
func dataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nearjob"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for the data (%w): name a file with --db sqlite:FILE", err)
	}
	if _, err := os.Stat(filepath.Join(home, "Library", "Application Support")); !errors.Is(err, fs.ErrNotExist) && err == nil {
		return filepath.Join(home, "Library", "Application Support", "nearjob"), nil
	}
	return filepath.Join(home, ".local", "share", "nearjob"), nil
}
