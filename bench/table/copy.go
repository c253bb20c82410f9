package table

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
)

// batch is how many rows one INSERT of the copy has.
const batch = 500

// workbench is the schema with the copy. The rows are brought in once, into a table of
// their own with the cells that the application would compute, so that the copy can be made
// anew for each strategy.
type workbench struct {
	src     *Source
	schema  *scratch.Schema
	conn    *sql.Conn // all statements run on it
	staging string
	today   string // the copy that the plain search runs on, beside the one that is changed
	schemes []cell.Scheme
	cells   []string // the columns of staging, as schemes

	centers []geo.LatLng // of rows, to compare answers around
}

// newWorkbench creates the schema and brings the rows in.
func newWorkbench(ctx context.Context, src *Source) (_ *workbench, err error) {
	w := &workbench{src: src, schemes: []cell.Scheme{cell.S2, cell.Geohash, cell.H3}}
	if w.schema, err = src.cfg.Server.Schema(ctx, "table"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = w.close(ctx) // the first error tells more
		}
	}()
	if w.conn, err = w.schema.DB().Conn(ctx); err != nil {
		return nil, fmt.Errorf("connect to the scratch schema: %w", err)
	}
	// The copy takes whatever is in the table; nobody waits for ever.
	if err := w.exec(ctx, fmt.Sprintf("SET SESSION max_execution_time = %d, time_zone = '+00:00'", CountLimit.Milliseconds())); err != nil {
		return nil, err
	}
	w.staging = unused("nearjob_staging", []string{src.table, placesOf(src.table)})
	w.today = unused("nearjob_today", []string{src.table, placesOf(src.table)})
	taken := []string{src.id.name, src.lat.name, src.lng.name}
	columns := []string{src.id.ddl(), src.lat.ddl(), src.lng.ddl()}
	for _, sc := range w.schemes {
		name := unused(sc.Name(), taken)
		taken = append(taken, name)
		w.cells = append(w.cells, name)
		columns = append(columns, quote(name)+" BIGINT NULL")
	}
	columns = append(columns, "KEY ("+quote(src.id.name)+")")
	if err := w.exec(ctx, "CREATE TABLE "+quote(w.staging)+" (\n  "+strings.Join(columns, ",\n  ")+"\n) ENGINE = InnoDB"); err != nil {
		return nil, err
	}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *workbench) close(ctx context.Context) error {
	if w.conn != nil {
		_ = w.conn.Close() // Drop closes the pool
	}
	return w.schema.Drop(ctx)
}

// exec runs a statement on the copy; its error names the statement.
func (w *workbench) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := w.conn.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("%.400s: %w", statement, err)
	}
	return nil
}

// load copies the rows as they are, those without a usable place too.
func (w *workbench) load(ctx context.Context) (err error) {
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to copy: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error tells more
		}
	}()
	width := 3 + len(w.schemes)
	insert := func(rows int) string {
		one := "(" + strings.Repeat("?, ", width-1) + "?)"
		return "INSERT INTO " + quote(w.staging) + " VALUES " + strings.Repeat(one+", ", rows-1) + one
	}
	full, err := tx.PrepareContext(ctx, insert(batch))
	if err != nil {
		return fmt.Errorf("prepare the copy: %w", err)
	}
	defer full.Close()
	args := make([]any, 0, batch*width)
	flush := func() error {
		var err error
		switch len(args) {
		case 0:
			return nil
		case batch * width:
			_, err = full.ExecContext(ctx, args...)
		default:
			_, err = tx.ExecContext(ctx, insert(len(args)/width), args...)
		}
		args = args[:0]
		if err != nil {
			return fmt.Errorf("copy rows of %s: %w", w.src.Name(), err)
		}
		return nil
	}
	near := newNearest(w.src.cfg.Seed)
	err = w.src.each(ctx, "copying", func(r row) error {
		args = append(args, value(r.id, w.src.id), value(r.lat, w.src.lat), value(r.lng, w.src.lng))
		for _, sc := range w.schemes {
			if r.usable {
				args = append(args, sc.Index(r.at))
			} else {
				args = append(args, nil)
			}
		}
		if r.usable {
			near.add(r)
		}
		if len(args) == batch*width {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	w.centers = near.places()
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("end the copy: %w", err)
	}
	return nil
}

// value copies what the driver will reuse. Text stays text, for MySQL to convert as it did
// when it was written; bytes of binary columns stay bytes.
func value(b []byte, c column) any {
	switch {
	case b == nil:
		return nil
	case c.charset == "" && !c.isNumber():
		return slices.Clone(b)
	}
	return string(b)
}

// nearestRows keeps the rows with the least hashes: a few, the same each time, wherever they are.
type nearestRows struct {
	seed   uint64
	hashes []uint64
	at     []geo.LatLng
}

// moreCenters is around how many rows answers are compared, beside the centre.
const moreCenters = 3

func newNearest(seed uint64) *nearestRows { return &nearestRows{seed: ^seed} }

func (n *nearestRows) add(r row) {
	h := hash(n.seed, r.id)
	i, _ := slices.BinarySearch(n.hashes, h)
	if i == moreCenters {
		return
	}
	n.hashes = slices.Insert(n.hashes, i, h)
	n.at = slices.Insert(n.at, i, r.at)
	if len(n.at) > moreCenters {
		n.hashes, n.at = n.hashes[:moreCenters], n.at[:moreCenters]
	}
}

func (n *nearestRows) places() []geo.LatLng { return n.at }

// fresh makes a copy anew: a table with the three columns and the indexes over these. A
// view's copy is a table without indexes.
func (w *workbench) fresh(ctx context.Context, name string) error {
	s := w.src
	for _, stmt := range []string{
		"DROP TABLE IF EXISTS " + quote(name) + ", " + quote(placesOf(s.table)),
		s.createCopy(name),
		fmt.Sprintf("INSERT INTO %s SELECT %s, %s, %s FROM %s", quote(name), quote(s.id.name), quote(s.lat.name), quote(s.lng.name), quote(w.staging)),
	} {
		if err := w.exec(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

// createCopy is CREATE TABLE for a copy.
func (s *Source) createCopy(name string) string {
	lines := []string{s.id.ddl(), s.lat.ddl(), s.lng.ddl()}
	kept := []string{s.id.name, s.lat.name, s.lng.name}
	for _, ix := range s.indexes {
		if ix.kind == "SPATIAL" || ix.kind == "FULLTEXT" {
			continue
		}
		var parts []string
		for _, p := range ix.parts {
			if !slices.Contains(kept, p.column) {
				break
			}
			t := quote(p.column)
			if p.prefix > 0 {
				t += fmt.Sprintf("(%d)", p.prefix)
			}
			if p.desc {
				t += " DESC"
			}
			parts = append(parts, t)
		}
		if len(parts) == 0 {
			continue // nothing that a search by place could use
		}
		whole := len(parts) == len(ix.parts)
		key := "KEY " + quote(ix.name)
		switch {
		case ix.name == "PRIMARY" && whole:
			key = "PRIMARY KEY"
		case ix.name == "PRIMARY":
			key = "KEY " + quote("primary_prefix")
		case ix.unique && whole:
			key = "UNIQUE KEY " + quote(ix.name)
		}
		line := key + " (" + strings.Join(parts, ", ") + ")"
		if !ix.visible {
			line += " INVISIBLE"
		}
		lines = append(lines, line)
	}
	return "CREATE TABLE " + quote(name) + " (\n  " + strings.Join(lines, ",\n  ") + "\n) ENGINE = InnoDB"
}

// fill does what the application has to do for a column of cells.
func (w *workbench) fill(ctx context.Context, t target, column string, scheme cell.Scheme) error {
	s := w.src
	from := w.cells[slices.Index(w.schemes, scheme)]
	same := func(a, b string) string { return "t." + quote(a) + " <=> c." + quote(b) }
	// By all three columns, for rows of one id may be in several places.
	return w.exec(ctx, fmt.Sprintf("UPDATE %s AS t JOIN %s AS c ON %s AND %s AND %s SET t.%s = c.%s",
		quote(t.table), quote(w.staging), same(t.id, s.id.name), same(s.lat.name, s.lat.name), same(s.lng.name, s.lng.name),
		quote(column), quote(from)))
}
