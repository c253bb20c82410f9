package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/store"
)

// DefaultTimeout is the time limit of a read when [Options] has none.
const DefaultTimeout = 5 * time.Second

// Options are the settings of an [Engine]. The zero Options is ready to use.
type Options struct {
	// Timeout bounds each Read, Explain, Jobs and Count as a whole, and the wait
	// of a write for other writers. 0: DefaultTimeout. A context with an earlier
	// deadline goes first.
	Timeout time.Duration

	// MaxReaders bounds how many reads run at once; more wait. 0: twice the
	// processors, at least 4. Each keeps a page cache of up to 32 MiB.
	MaxReaders int

	// IDs makes the ids of applications and events. nil: one of a random node.
	IDs *store.IDs

	// Blur gives jobs other places in the search tables and for alerts; nil: their
	// own. All processes must have the same, see [Engine.Reblur].
	Blur *store.Blur

	// OnWrite is told of each statement of the writing connection before it runs: for
	// a trace or a count. It must be quick and not use the engine. nil: nobody is told.
	OnWrite func(sql string)

	// Logger gets a line for each migration. nil: none.
	Logger *slog.Logger
}

// Engine is a SQLite file. Safe for concurrent use.
type Engine struct {
	path    string
	timeout time.Duration
	log     *slog.Logger
	ids     *store.IDs
	blur    *store.Blur

	writer chan *conn // the one writing connection, when it is free
	idle   chan *conn // reading connections that are free; nil stands for one not yet opened

	closing chan struct{}
	closed  sync.Once
}

var _ store.Engine = (*Engine)(nil)

const (
	writerPragmas = `PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
		PRAGMA cache_size = -131072; PRAGMA wal_autocheckpoint = 16384; PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY;`
	readerPragmas = `PRAGMA query_only = ON; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;`
)

// Open opens a database file, named by its path or as "sqlite:FILE", and creates
// it and its folder where they do not exist. It does not create the tables:
// [Engine.Migrate] does. The errors name the file and say what to do.
func Open(ctx context.Context, name string, o Options) (*Engine, error) {
	path, err := filePath(name)
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 || o.MaxReaders < 0 {
		return nil, fmt.Errorf("sqlite: a negative timeout (%v) or number of readers (%d)", o.Timeout, o.MaxReaders)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxReaders == 0 {
		o.MaxReaders = max(4, 2*runtime.GOMAXPROCS(0))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IDs == nil {
		if o.IDs, err = store.NewIDs(time.Now, -1); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder of %s: %w", path, err)
	}
	w, err := openWriter(ctx, path, o.Timeout)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	w.told, w.blur = o.OnWrite, o.Blur
	e := &Engine{
		path: path, timeout: o.Timeout, log: o.Logger, ids: o.IDs, blur: o.Blur,
		writer: make(chan *conn, 1), idle: make(chan *conn, o.MaxReaders), closing: make(chan struct{}),
	}
	e.writer <- w
	for range o.MaxReaders {
		e.idle <- nil
	}
	return e, nil
}

// openWriter opens the writing connection. Where several processes turn a new
// file to WAL at once, SQLite refuses all but one right away, without waiting for the
// busy timeout; so the waiting is done here.
func openWriter(ctx context.Context, path string, timeout time.Duration) (*conn, error) {
	deadline := time.Now().Add(timeout)
	for {
		c, err := openConn(path, timeout, writerPragmas)
		if code(err) != sqlite3.BUSY || time.Now().After(deadline) {
			return c, err
		}
		pause := time.NewTimer(time.Millisecond + rand.N(20*time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		case <-pause.C:
		}
	}
}

// filePath turns a DSN or a path into an absolute path.
func filePath(name string) (string, error) {
	file := strings.TrimPrefix(name, "sqlite:")
	switch {
	case file == "":
		return "", errors.New(`sqlite: no file named: want "sqlite:FILE"`)
	case file == ":memory:":
		return "", errors.New("sqlite: a database in memory is not supported: name a file")
	case strings.ContainsRune(file, 0):
		return "", fmt.Errorf("sqlite: %.100q is not the name of a file", file)
	}
	return filepath.Abs(file)
}

// Name returns "sqlite".
func (e *Engine) Name() string { return "sqlite" }

// Blur returns Options.Blur.
func (e *Engine) Blur() *store.Blur { return e.blur }

// Path returns the absolute path of the database file.
func (e *Engine) Path() string { return e.path }

var errClosed = errors.New("sqlite: the engine is closed")

// take gets a connection from a pool. The limited context's end gives ErrBusy,
// the caller's own gives its error.
func (e *Engine) take(ctx, limited context.Context, pool chan *conn) (*conn, error) {
	select {
	case <-e.closing:
		return nil, errClosed
	default:
	}
	select {
	case c := <-pool:
		return c, nil
	case <-e.closing:
		return nil, errClosed
	case <-limited.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: no connection was free for %v", store.ErrBusy, e.timeout)
	}
}

// read runs f in a transaction of a reading connection: every statement in it
// sees one state of the database.
func (e *Engine) read(ctx context.Context, f func(*conn) error) error {
	limited, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	c, err := e.take(ctx, limited, e.idle)
	if err != nil {
		return err
	}
	defer func() { e.idle <- c }()
	if c == nil {
		if c, err = openConn(e.path, e.timeout, readerPragmas); err != nil {
			c = nil
			return explainOpen(e.path, err)
		}
	}
	return translate(ctx, c.transaction(limited, "BEGIN", func() error { return f(c) }))
}

// write runs f in a transaction of the writing connection.
func (e *Engine) write(ctx context.Context, f func(*conn) error) error {
	limited, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	c, err := e.take(ctx, limited, e.writer)
	if err != nil {
		return err
	}
	defer func() { e.writer <- c }()
	return translate(ctx, c.transaction(ctx, "BEGIN IMMEDIATE", func() error { return f(c) }))
}

// Close waits for what runs and closes the file. Later calls of other methods
// fail.
func (e *Engine) Close() error {
	var errs []error
	e.closed.Do(func() {
		close(e.closing)
		for range cap(e.idle) {
			if c := <-e.idle; c != nil {
				errs = append(errs, c.close())
			}
		}
		errs = append(errs, (<-e.writer).close()) // last: it folds the log into the file
	})
	return errors.Join(errs...)
}
