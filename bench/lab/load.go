package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/mysql"
	"github.com/nearjob/nearjob/store/search"
)

const (
	// statementTimeout bounds each statement: a full scan of millions of rows, and
	// the same under EXPLAIN ANALYZE, on a slow disk.
	statementTimeout = 5 * time.Minute

	// maxConns is more than one run needs at a time.
	maxConns = 4

	// loadBatch is how many jobs are saved in a transaction.
	loadBatch = 1000
)

// loaded is a set with its schema.
type loaded struct {
	*data
	schema *scratch.Schema
	engine *mysql.Engine
	rows   int // that are in the schema
	spent  time.Duration

	source      search.Source // the engine, or what a test put in its place
	free, force *search.Finder
}

func (l *loaded) finder(force bool) *search.Finder {
	if force {
		return l.force
	}
	return l.free
}

// openSchema makes a schema with tables. The caller must call close with what it
// returns, also when there is an error.
func (r *run) openSchema(ctx context.Context, name string) (*scratch.Schema, *mysql.Engine, error) {
	schema, err := r.c.Server.Schema(ctx, schemaName(name))
	if err != nil {
		return nil, nil, err
	}
	engine, err := mysql.Open(ctx, schema.DSN, mysql.Options{Timeout: statementTimeout, MaxConns: maxConns})
	if err != nil {
		return schema, nil, err
	}
	return schema, engine, engine.Migrate(ctx)
}

// closeSchema drops a schema, also when ctx has ended.
func closeSchema(ctx context.Context, schema *scratch.Schema, engine *mysql.Engine, keep bool) error {
	var err error
	if engine != nil {
		err = engine.Close()
	}
	switch {
	case schema == nil:
	case keep:
		err = errors.Join(err, schema.Release())
	default:
		err = errors.Join(err, schema.Drop(ctx))
	}
	return err
}

// open makes the set's schema.
func (r *run) open(ctx context.Context, d *data) (*loaded, error) {
	l := &loaded{data: d}
	var err error
	l.schema, l.engine, err = r.openSchema(ctx, d.Name)
	if err != nil {
		return l, err
	}
	l.source = l.engine
	if r.c.wrap != nil {
		l.source = r.c.wrap(l.source)
	}
	now := func() time.Time { return d.now }
	l.free = search.New(l.source, now, r.c.strategies...)
	l.force = search.New(forced{l.source}, now, r.c.strategies...)
	return l, nil
}

// growTo is one set's way to its next size.
type growTo struct {
	d    *data
	rows int
}

// grow brings several sets to a size at the same time: the time goes into MySQL's
// R-tree, which one connection fills on one core.
func (r *run) grow(ctx context.Context, all []growTo) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, to := range all {
		g.Go(func() error {
			l := r.loaded(to.d)
			if l == nil {
				var err error
				l, err = r.open(ctx, to.d)
				r.keep(l)
				if err != nil {
					return err
				}
			}
			if err := r.fill(ctx, l, to.rows); err != nil {
				return fmt.Errorf("load %q: %w", l.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// fill adds jobs up to a number of rows.
func (r *run) fill(ctx context.Context, l *loaded, rows int) error {
	start := time.Now()
	batch := make([]store.Job, 0, loadBatch)
	for l.rows < rows {
		batch = batch[:0]
		for n := l.rows; n < min(rows, l.rows+loadBatch); n++ {
			j, err := l.job(n)
			if err != nil {
				return err
			}
			batch = append(batch, j)
		}
		saved, err := l.engine.Save(ctx, batch)
		if err != nil {
			return err
		}
		if saved.Added != len(batch) {
			return fmt.Errorf("%d of %d jobs were already there", len(batch)-saved.Added, len(batch))
		}
		l.rows += len(batch)
		r.say(fmt.Sprintf("%s: %d of %d rows loaded", l.Name, l.rows, rows))
	}
	if err := analyze(ctx, l.engine); err != nil {
		return err
	}
	l.spent = time.Since(start)
	return nil
}

// analyze renews the statistics.
func analyze(ctx context.Context, e *mysql.Engine) error {
	var rows []struct {
		Table string `db:"Table"`
		Op    string `db:"Op"`
		Type  string `db:"Msg_type"`
		Text  string `db:"Msg_text"`
	}
	if err := e.DB().SelectContext(ctx, &rows, "ANALYZE TABLE job, open_job, open_remote_job"); err != nil {
		return fmt.Errorf("ANALYZE TABLE: %w", err)
	}
	for _, m := range rows {
		if strings.EqualFold(m.Type, "error") {
			return fmt.Errorf("ANALYZE TABLE %s: %s", m.Table, m.Text)
		}
	}
	return nil
}

// sum reads what a set takes on the server.
func (l *loaded) sum(ctx context.Context) (result.Sum, error) {
	s := result.Sum{Rows: l.rows, LoadMS: float64(l.spent.Microseconds()) / 1000}
	conn, err := l.engine.DB().Conn(ctx)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM open_job").Scan(&s.Open); err != nil {
		return s, fmt.Errorf("count the open jobs: %w", err)
	}
	// By default these figures are a day old.
	if _, err := conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
		return s, fmt.Errorf("ask for fresh sizes of tables: %w", err)
	}
	var data, index int64
	err = conn.QueryRowContext(ctx, "SELECT DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES"+
		" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'open_job'").Scan(&data, &index)
	if err != nil {
		return s, fmt.Errorf("read the size of open_job: %w", err)
	}
	s.DataMB, s.IndexMB = float64(data)/1e6, float64(index)/1e6
	return s, nil
}

// variables are those that bear on plans and times. A server that lacks one leaves it out.
var variables = []string{
	"eq_range_index_dive_limit", "explain_format", "explain_json_format_version",
	"innodb_adaptive_hash_index", "innodb_buffer_pool_size", "innodb_flush_log_at_trx_commit", "innodb_page_size",
	"innodb_stats_persistent", "innodb_stats_persistent_sample_pages",
	"internal_tmp_mem_storage_engine", "join_buffer_size", "max_execution_time", "optimizer_prune_level",
	"optimizer_search_depth", "optimizer_switch", "range_optimizer_max_mem_size", "read_rnd_buffer_size",
	"sort_buffer_size", "sql_mode", "tmp_table_size", "transaction_isolation", "use_invisible_indexes",
}

// survey reads the environment from a session as the measured ones are, in a schema
// that is dropped again.
func (r *run) survey(ctx context.Context) (_ *environment, err error) {
	schema, engine, err := r.openSchema(ctx, "settings")
	defer func() { err = errors.Join(err, closeSchema(ctx, schema, engine, false)) }()
	if err != nil {
		return nil, err
	}
	conn, err := engine.DB().Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	e := &environment{Tables: make(map[string]string)}
	s := &e.Settings
	s.Variables = make(map[string]string)
	s.Machine = fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	s.Container, s.Warm = r.c.Container, true
	var version, comment string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	s.Server = strings.TrimSpace(version + " " + comment)
	args := make([]any, len(variables))
	for i, v := range variables {
		args[i] = v
	}
	var values []struct {
		Name  string `db:"Variable_name"`
		Value string `db:"Value"`
	}
	if err := conn.SelectContext(ctx, &values, "SHOW SESSION VARIABLES WHERE Variable_name IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...); err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	for _, v := range values {
		s.Variables[v.Name] = v.Value
	}
	for _, table := range []string{"job", "open_job", "open_remote_job"} {
		var name, ddl string
		if err := conn.QueryRowContext(ctx, "SHOW CREATE TABLE `"+table+"`").Scan(&name, &ddl); err != nil {
			return nil, fmt.Errorf("read the definition of %s: %w", table, err)
		}
		e.Tables[table] = ddl
	}
	if err := conn.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&e.Migration); err != nil {
		return nil, fmt.Errorf("read the version of the schema: %w", err)
	}
	return e, nil
}
