package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

// Defaults of [Options].
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxConns = 20
)

// The server closes a session that is idle for idleTimeout; the pool gives a
// connection up long before.
const (
	idleTimeout     = 10 * time.Minute
	connMaxLifetime = 3 * time.Minute
)

// grace is how much longer a client waits for the server to end a statement itself:
// InnoDB looks once a second which waits for a lock have lasted too long, and on a
// loaded machine it looks late. Only a server that does not answer at all makes a
// client wait to the end of it.
const grace = 4 * time.Second

// Options of [Open]. The zero value is usable.
type Options struct {
	// Timeout bounds every statement, on the server too; 0 is DefaultTimeout.
	// A context's deadline bounds it further.
	Timeout time.Duration

	// MaxConns bounds the connections of the pool; 0 is DefaultMaxConns.
	// The KILL that follows a cancelled statement takes one more for a moment.
	MaxConns int

	// IDs makes the ids of applications and events; nil: one of a random node.
	IDs *store.IDs

	// Blur gives jobs other places in the search table and for alerts; nil: their
	// own. All nodes must have the same, see [Engine.Reblur].
	Blur *store.Blur

	// OnRetry is told of each transition that is tried again, and why: for a
	// metric. It is called from many goroutines. nil: nobody is told.
	OnRetry func(action string, err error)

	Logger *slog.Logger // nil: nothing is logged
}

// Engine is a MySQL database. Safe for concurrent use.
type Engine struct {
	db      *sqlx.DB
	cfg     *mysql.Config // without session variables
	timeout time.Duration
	log     *slog.Logger
	ids     *store.IDs
	blur    *store.Blur
	onRetry func(action string, err error)
}

var _ store.Engine = (*Engine)(nil)

// Open connects to the schema of an address of the form
// mysql://user:password@host:port/schema. The port is 3306 by default; the
// parameters tls (true, false, skip-verify, preferred) and timeout (for
// connecting) may follow a question mark. The schema must exist, its tables
// need not: see [Engine.Migrate]. Errors never show the address.
func Open(ctx context.Context, dsn string, o Options) (*Engine, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if o.Timeout < 0 || o.MaxConns < 0 {
		return nil, fmt.Errorf("mysql: negative timeout %v or number of connections %d", o.Timeout, o.MaxConns)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IDs == nil {
		if o.IDs, err = store.NewIDs(time.Now, -1); err != nil {
			return nil, err
		}
	}
	if o.OnRetry == nil {
		o.OnRetry = func(string, error) {}
	}
	cfg.ConnectionAttributes = "program_name:nearjob"
	// One round trip a statement instead of two, and no statements to keep on
	// the server. Escaping is the driver's, for utf8mb4 only.
	cfg.InterpolateParams = true
	// An UPDATE that changes nothing still reports the row that it found.
	cfg.ClientFoundRows = true
	cfg.Logger = driverLog{o.Logger}

	e := &Engine{cfg: cfg, timeout: o.Timeout, log: o.Logger, ids: o.IDs, blur: o.Blur, onRetry: o.OnRetry}
	db, err := e.pool(e.sessionVariables())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(o.MaxConns)
	db.SetMaxIdleConns(o.MaxConns) // fewer would make the pool churn
	db.SetConnMaxLifetime(connMaxLifetime)
	e.db = sqlx.NewDb(db, "mysql")
	if err := e.checkServer(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("connect to MySQL at %s: %w", cfg.Addr, err)
	}
	return e, nil
}

// DB returns the pool: for its metrics, and for a laboratory that asks the server
// more than an access. Its sessions have the engine's time limits.
func (e *Engine) DB() *sqlx.DB { return e.db }

// sessionVariables are set on every connection of the pool.
func (e *Engine) sessionVariables() map[string]string {
	lockWait := strconv.FormatInt(wholeSeconds(e.timeout), 10)
	return map[string]string{
		"sql_mode":                     "'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ENGINE_SUBSTITUTION'",
		"max_execution_time":           strconv.FormatInt(max(1, e.timeout.Milliseconds()), 10),
		"innodb_lock_wait_timeout":     lockWait,
		"lock_wait_timeout":            lockWait,
		"wait_timeout":                 strconv.FormatInt(wholeSeconds(idleTimeout), 10),
		"range_optimizer_max_mem_size": strconv.Itoa(rangeMemory),
		// Reads are single statements, so a snapshot over several has no use here;
		// and without gap locks two nodes that save the same file rarely deadlock.
		"transaction_isolation": "'READ-COMMITTED'",
	}
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// pool returns a pool whose sessions have variables set.
func (e *Engine) pool(variables map[string]string) (*sql.DB, error) {
	cfg := e.cfg.Clone()
	cfg.Params = maps.Clone(variables)
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errDSN // the driver's error may show the address
	}
	return sql.OpenDB(&connector{Connector: c, failed: func(id int64, err error) {
		e.log.Warn("could not end an abandoned statement on the server", "connection", id, "error", err)
	}}), nil
}

// checkServer reports what keeps Nearjob from using the server.
func (e *Engine) checkServer(ctx context.Context) error {
	lctx, cancel := e.limited(ctx)
	defer cancel()
	var version string
	if err := e.db.GetContext(lctx, &version, "SELECT VERSION()"); err != nil {
		return translate(ctx, err)
	}
	// utf8mb4_0900_bin came with 8.0.17, the alias of an inserted row with 8.0.19.
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil ||
		strings.Contains(strings.ToLower(version), "mariadb") ||
		major < 8 || major == 8 && minor == 0 && patch < 19 {
		return fmt.Errorf("the server is %q: Nearjob needs MySQL 8.0.19 or newer", version)
	}
	return nil
}

// limited returns a context for one statement, a little longer than the server's
// own limit: it ends what that limit does not apply to, writes and a server
// that no longer answers.
func (e *Engine) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.timeout+grace)
}

// Name implements [store.Admin].
func (e *Engine) Name() string { return "mysql" }

// Blur returns Options.Blur.
func (e *Engine) Blur() *store.Blur { return e.blur }

// Close ends all connections.
func (e *Engine) Close() error { return e.db.Close() }

// driverLog makes the driver's messages, all of them about broken connections, debug lines.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) { l.log.Debug("mysql driver: " + fmt.Sprint(v...)) }
