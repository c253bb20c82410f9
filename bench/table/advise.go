package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// A query is run warmUps times, and then until it was timed mostRuns times or
// enough time has gone by, but fewestRuns times in any case.
const (
	warmUps    = 2
	fewestRuns = 3
	mostRuns   = 15
	enough     = 5 * time.Second
)

// Advise copies the table into a schema of its own on Config.Server, measures the plain search there, and
// then each strategy that SQL can express on the table: it makes a fresh copy, executes the DDL as it is printed,
// compares the answers around several places and at every radius with those of the plain search,
// and times the printed query. Only what gave the same rows is advised; another answer is an error. The
// schema is dropped in the end, whatever happens.
//
// The Config must name the same table as the one that src came from. The centre is that of the set of this table in
// run, the laboratory's own results, and otherwise [Source.Center]; run may be nil. The
// printed queries are for the radius in the middle of Radii.
func Advise(ctx context.Context, c Config, src *Source, run *result.Run) (_ *result.Table, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if o := src.cfg; c.Table != o.Table || c.ID != o.ID || c.Lat != o.Lat || c.Lng != o.Lng || c.Where != o.Where {
		return nil, store.Invalid("table", fmt.Sprintf("is not what was inspected (%s): inspect it first", o.Table))
	}
	if c.Server == nil {
		return nil, store.Invalid("server", "is missing: a server to make the copy on")
	}
	src.cfg = c
	w, err := newWorkbench(ctx, src)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", src.Name(), err)
	}
	defer func() {
		if cerr := w.close(ctx); cerr != nil && err == nil {
			err = cerr
		}
	}()
	return w.advise(ctx, run)
}

func (w *workbench) advise(ctx context.Context, run *result.Run) (*result.Table, error) {
	s := w.src
	t := &result.Table{
		Name: s.Name(), Rows: s.tally.rows, Sampled: s.Sampled(), Where: s.cfg.Where,
		Problems: s.problems(), Today: []result.TodayCase{}, Advice: []result.Advice{},
	}
	if err := w.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+quote(w.staging)).Scan(&t.Copied); err != nil {
		return nil, fmt.Errorf("count the copied rows: %w", err)
	}
	center, known := s.centerOf(run)
	if !known {
		// No row has a usable place: there is nothing to search, and nothing to measure.
		return t, nil
	}
	radii := s.cfg.radii()
	plans := s.plans()
	total := len(plans) + 1

	s.cfg.progress(0, total, "measuring the plain search in a copy of "+s.Name())
	if err := w.fresh(ctx, w.today); err != nil {
		return nil, err
	}
	if err := w.analyze(ctx, w.today); err != nil {
		return nil, err
	}
	plain := func(q question) search {
		search := s.today(q)
		search.table = w.today
		return search
	}
	centers := append([]geo.LatLng{center}, w.centers...)
	want := make(map[question]answer)
	for _, at := range centers {
		for _, r := range radii {
			q := question{at, r}
			a, err := w.answer(ctx, plain(q))
			if err != nil {
				return nil, fmt.Errorf("the plain search: %w", err)
			}
			want[q] = a
		}
	}
	example := radii[len(radii)/2]
	var today []time.Duration // at the example's radius
	for _, r := range radii {
		runs, err := w.time(ctx, plain(question{center, r}).rows(s.cfg.limit()), mostRuns)
		if err != nil {
			return nil, fmt.Errorf("time the plain search: %w", err)
		}
		within := want[question{center, r}].within
		t.Today = append(t.Today, result.TodayCase{RadiusM: r, Within: within, Time: result.NewTiming(runs)})
		if r == example {
			today = runs
		}
		if p, ok := s.changed(run, r, within); ok {
			t.Problems = append(t.Problems, p)
		}
	}

	for i, p := range plans {
		s.cfg.progress(i+1, total, "trying "+p.strategy+" in a copy of "+s.Name())
		a, err := w.try(ctx, p, want, question{center, example})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.strategy, err)
		}
		t.Advice = append(t.Advice, a)
		// The plain search again, so that a server that gets slower or faster in the
		// course of the run does so for both sides.
		runs, err := w.time(ctx, plain(question{center, example}).rows(s.cfg.limit()), fewestRuns)
		if err != nil {
			return nil, fmt.Errorf("time the plain search: %w", err)
		}
		today = append(today, runs...)
	}
	base := &t.Today[slices.Index(radii, example)].Time
	*base = result.NewTiming(today)
	for i := range t.Advice {
		if a := &t.Advice[i]; a.Time.Median > 0 {
			a.Gain = base.Median / a.Time.Median
		}
	}
	slices.SortStableFunc(t.Advice, func(a, b result.Advice) int { return cmp.Compare(b.Gain, a.Gain) })
	s.cfg.progress(total, total, "measured "+s.Name())
	return t, nil
}

// centerOf is the centre of the searches.
func (s *Source) centerOf(run *result.Run) (geo.LatLng, bool) {
	if run != nil {
		if i := slices.IndexFunc(run.Sets, func(set result.Set) bool { return s.isName(set.Name) }); i >= 0 {
			if c, err := geo.NewLatLng(run.Sets[i].Center.Lat, run.Sets[i].Center.Lng); err == nil {
				return c, true
			}
		}
	}
	return s.Center()
}

func (s *Source) isName(name string) bool { return name == s.cfg.Table || name == s.Name() }

// changed compares how many rows are within a radius with what the laboratory saw.
func (s *Source) changed(run *result.Run, radius float64, within int) (result.Problem, bool) {
	if run == nil || s.tally.count(KindDuplicate) > 0 || s.id.nullable {
		return result.Problem{}, false // the jobs are fewer than the rows
	}
	most := 0
	var seen *result.Case
	for i := range run.Cases {
		if c := &run.Cases[i]; s.isName(c.Set) && c.RadiusM == radius && c.Rows > most {
			most, seen = c.Rows, c
		}
	}
	if seen == nil || seen.Within == within || seen.Rows != s.tally.kept {
		return result.Problem{}, false
	}
	diff := within - seen.Within
	if diff < 0 {
		diff = -diff
	}
	return result.Problem{Kind: KindChanged, Count: diff, Text: fmt.Sprintf(
		"Within %v m the strategies of the laboratory found %d rows and the plain search %d: the table changed between the two readings, or rows lie on the very edge.",
		radius, seen.Within, within)}, true
}

// question is a search, answer what it found.
type question struct {
	at     geo.LatLng
	radius float64
}

type answer struct {
	page     []found
	within   int
	xor, sum string // over all rows within, not only those of the page
}

type found struct{ id, distance string }

// today is the search as it is done without any of this.
func (s *Source) today(q question) search {
	t := target{table: s.table, id: s.id.name, lat: s.lat.name, lng: s.lng.name}
	condition := ""
	if s.tally.count(KindRange)+s.tally.count(KindSwapped)+s.tally.count(KindNotNumber) > 0 {
		// Without this it would find rows at places where they are not.
		condition = s.validText()
	}
	return search{t, q.at, q.radius, []string{condition}}
}

// validText is the condition that a row has a usable place, over columns of either kind.
func (s *Source) validText() string {
	return fmt.Sprintf("%s BETWEEN -90 AND 90 AND %s BETWEEN -180 AND 180", number0(s.lat), number0(s.lng))
}

// number0 is a coordinate as a number.
func number0(c column) string {
	if c.isText() {
		return textNumber(c.name)
	}
	return quote(c.name)
}

// answer runs a search.
func (w *workbench) answer(ctx context.Context, q search) (answer, error) {
	var a answer
	if err := w.conn.QueryRowContext(ctx, q.sum()).Scan(&a.within, &a.xor, &a.sum); err != nil {
		return answer{}, fmt.Errorf("%w in %s", err, q.sum())
	}
	var err error
	a.page, err = w.page(ctx, q.rows(w.src.cfg.limit()))
	return a, err
}

func (w *workbench) page(ctx context.Context, query string) ([]found, error) {
	rows, err := w.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, query)
	}
	defer rows.Close()
	var all []found
	for rows.Next() {
		var id sql.NullString
		var f found
		if err := rows.Scan(&id, &f.distance); err != nil {
			return nil, err
		}
		f.id = id.String
		if !w.src.unique() {
			f.id = "" // equal ids at equal distances come in any order, the sums compare them
		}
		all = append(all, f)
	}
	return all, rows.Err()
}

// time takes the time of a query with all its rows read, most times at most.
func (w *workbench) time(ctx context.Context, query string, most int) ([]time.Duration, error) {
	var runs []time.Duration
	begin := time.Now()
	for i := 0; i < warmUps+fewestRuns || i < warmUps+most && time.Since(begin) < enough; i++ {
		start := time.Now()
		if _, err := w.page(ctx, query); err != nil {
			return nil, err
		}
		if i >= warmUps {
			runs = append(runs, time.Since(start))
		}
	}
	return runs, nil
}

// analyze brings the statistics up to date, as the server does by itself a little later.
func (w *workbench) analyze(ctx context.Context, table string) error {
	rows, err := w.conn.QueryContext(ctx, "ANALYZE TABLE "+quote(table))
	if err != nil {
		return fmt.Errorf("analyze the copy: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, op, kind, text string
		if err := rows.Scan(&name, &op, &kind, &text); err != nil {
			return fmt.Errorf("analyze the copy: %w", err)
		}
		if strings.EqualFold(kind, "error") {
			return fmt.Errorf("analyze the copy: %s", text)
		}
	}
	return rows.Err()
}

// plan is a strategy to try.
type plan struct {
	strategy string
	target   target
	ddl      []string
	// Before ddl[fillBefore] the application fills the column of cells.
	scheme     cell.Scheme // nil: none
	column     string
	fillBefore int
	parts      func(geo.Circle) []string
	needs      string
}

// try carries out a plan on a fresh copy, and compares before it times.
func (w *workbench) try(ctx context.Context, p plan, want map[question]answer, example question) (result.Advice, error) {
	s := w.src
	if err := w.fresh(ctx, s.table); err != nil {
		return result.Advice{}, err
	}
	for i, stmt := range p.ddl {
		if p.scheme != nil && i == p.fillBefore {
			if err := w.fill(ctx, p.target, p.column, p.scheme); err != nil {
				return result.Advice{}, err
			}
		}
		if err := w.exec(ctx, stmt); err != nil {
			return result.Advice{}, err
		}
	}
	if err := w.analyze(ctx, p.target.table); err != nil {
		return result.Advice{}, err
	}
	at := func(q question) search {
		return search{p.target, q.at, q.radius, p.parts(around(q.at, q.radius))}
	}
	for q, a := range want {
		got, err := w.answer(ctx, at(q))
		if err != nil {
			return result.Advice{}, err
		}
		if got.within != a.within || got.xor != a.xor || got.sum != a.sum || !slices.Equal(got.page, a.page) {
			return result.Advice{}, fmt.Errorf("within %v m of %v it found %d rows and the plain search %d, or not the same ones in the same order: %s",
				q.radius, q.at, got.within, a.within, at(q).rows(s.cfg.limit()))
		}
	}
	query := at(example).rows(s.cfg.limit())
	runs, err := w.time(ctx, query, mostRuns)
	if err != nil {
		return result.Advice{}, err
	}
	return result.Advice{
		Strategy: p.strategy, DDL: p.ddl, Query: query, RadiusM: example.radius, Time: result.NewTiming(runs), Needs: p.needs,
	}, nil
}

// placesOf is the name of the table beside a view.
func placesOf(view string) string { return truncate(view, 57) + "_places" }

// Comments above statements, so that they are pasted along.
const (
	noteOnline  = "-- Reads and writes go on while the index is built.\n"
	noteInstant = "-- Changes the description of the table only.\n"
	noteRebuild = "-- Rebuilds the table: reads go on, writes wait until it is done.\n"
	noteFilled  = "-- When the column is filled. Reads and writes go on while the index is built.\n"
	noteOffline = "-- Writes wait until it is done, and with some storage engines reads too.\n"
)

// plans lists the strategies for this table, with the DDL to get there.
func (s *Source) plans() []plan {
	t := target{table: s.table, id: s.id.name, lat: s.lat.name, lng: s.lng.name}
	online, hasID := s.online, s.clustered()
	columns, indexes := slices.Clone(s.columns), []string{"PRIMARY"}
	for _, ix := range s.indexes {
		indexes = append(indexes, ix.name)
	}
	var first []string
	keep := ""
	note := func(n, clause string) (string, string) {
		if !online {
			return noteOffline, ""
		}
		return n, ", " + clause
	}
	switch {
	case s.view:
		online, hasID = true, false
		t.table = placesOf(s.table)
		columns, indexes = []string{t.id, t.lat, t.lng}, []string{t.id}
		first = s.besideView(t.table)
		keep = fmt.Sprintf("Keep %s in step with the view: write to it whenever a row's place changes.", quote(t.table))
	case s.lat.isText() || s.lng.isText():
		for _, c := range []struct {
			col  column
			name *string
		}{{s.lat, &t.lat}, {s.lng, &t.lng}} {
			if !c.col.isText() {
				continue
			}
			*c.name = unused(truncate(c.col.name, 60)+"_deg", columns)
			columns = append(columns, *c.name)
			n, clause := note(noteInstant, "ALGORITHM=INSTANT")
			first = append(first, fmt.Sprintf("%sALTER TABLE %s ADD COLUMN %s DOUBLE GENERATED ALWAYS AS (%s) VIRTUAL INVISIBLE%s;",
				n, quote(t.table), quote(*c.name), textNumber(c.col.name), clause))
		}
	}
	condition := ""
	if s.cfg.Where != "" {
		condition = fmt.Sprintf("Add (%s) to every innermost WHERE; columns that it compares with = are best put in front of the index.", s.cfg.Where)
	}
	key := func(first ...string) string {
		parts := append(first, t.lat, t.lng)
		if !hasID {
			parts = append(parts, t.id) // so that the index alone answers
		}
		for i, p := range parts {
			parts[i] = quote(p)
		}
		return strings.Join(parts, ", ")
	}
	needs := func(texts ...string) string {
		return strings.Join(slices.DeleteFunc(append(texts, keep, condition), func(t string) bool { return t == "" }), " ")
	}
	const box = "For each search the box of the circle, from package geo: geo.Circle{Center: c, Radius: r}.Bound().Split(), with r a millimetre and a part in 1e9 above the radius; of a box that ends at 180, rows at -180 too."

	bbox := plan{strategy: "bbox", target: t, ddl: slices.Clone(first), parts: t.inBoxes, needs: needs(box)}
	if !s.serves(t, hasID) {
		n, clause := note(noteOnline, "ALGORITHM=INPLACE, LOCK=NONE")
		bbox.ddl = append(bbox.ddl, fmt.Sprintf("%sALTER TABLE %s ADD INDEX %s (%s)%s;",
			n, quote(t.table), quote(unused("lat_lng", indexes)), key(), clause))
	}
	if bbox.ddl == nil {
		bbox.ddl = []string{}
	}
	plans := []plan{bbox}

	if s.spatial() {
		n, clause := note(noteRebuild, "ALGORITHM=COPY, LOCK=SHARED")
		pt := unused("pt", columns)
		plans = append(plans, plan{
			strategy: "spatial", target: t,
			ddl: append(slices.Clone(first), fmt.Sprintf("%sALTER TABLE %s ADD COLUMN %s POINT GENERATED ALWAYS AS (%s) STORED NOT NULL SRID 4326 INVISIBLE, ADD SPATIAL INDEX %s (%s)%s;",
				n, quote(t.table), quote(pt), t.pointExpression(), quote(unused("pt", indexes)), quote(pt), clause)),
			parts: func(c geo.Circle) []string { return t.inEnvelopes(pt, c) },
			needs: needs(box + " Around each of them an envelope a billionth of a degree wider, as in the query."),
		})
	}
	for _, sc := range []struct {
		scheme cell.Scheme
		goName string
	}{{cell.S2, "cell.S2"}, {cell.Geohash, "cell.Geohash"}, {cell.H3, "cell.H3"}} {
		column := unused(sc.scheme.Name(), columns)
		n1, clause1 := note(noteInstant, "ALGORITHM=INSTANT")
		n2, clause2 := note(noteFilled, "ALGORITHM=INPLACE, LOCK=NONE")
		plans = append(plans, plan{
			strategy: sc.scheme.Name(), target: t,
			ddl: append(slices.Clone(first),
				fmt.Sprintf("%sALTER TABLE %s ADD COLUMN %s BIGINT NULL INVISIBLE%s;", n1, quote(t.table), quote(column), clause1),
				fmt.Sprintf("%sALTER TABLE %s ADD INDEX %s (%s)%s;", n2, quote(t.table), quote(unused(column+"_lat_lng", indexes)), key(column), clause2)),
			scheme: sc.scheme, column: column, fillBefore: len(first) + 1,
			parts: func(c geo.Circle) []string { return inCells(column, sc.scheme, c) },
			needs: needs(fmt.Sprintf("%[1]s for every row, and again when its place changes, NULL without a place: p, err := geo.NewLatLng(lat, lng), then %[2]s.Index(p). "+
				"For each search the ranges: %[2]s covers by cell.Cover(%[2]s, geo.Ring{Center: c, Outer: r}, %[3]d), with r a millimetre and a part in 1e9 above the radius. "+
				"Both from github.com/nearjob/nearjob/geo and geo/cell.", quote(column), sc.goName, maxRanges)),
		})
	}
	return plans
}

// spatial reports whether there can be an R-tree over SRID 4326.
func (s *Source) spatial() bool { return s.view || s.innoDB() && !s.partitioned }

// serves reports whether the table has an index already that answers from (lat, lng) alone.
func (s *Source) serves(t target, hasID bool) bool {
	if s.view || t.lat != s.lat.name || t.lng != s.lng.name {
		return false
	}
	return slices.ContainsFunc(s.indexes, func(ix index) bool {
		return ix.kind == "BTREE" && ix.visible && len(ix.parts) >= 2 &&
			ix.parts[0] == (indexPart{column: t.lat}) && ix.parts[1] == (indexPart{column: t.lng}) &&
			(hasID || len(ix.parts) >= 3 && ix.parts[2].column == t.id && ix.parts[2].prefix == 0)
	})
}

// besideView makes a table with the rows of the view that have a place.
func (s *Source) besideView(name string) []string {
	coordinate := func(c column) string {
		if c.isText() {
			return quote(c.name) + " DOUBLE NOT NULL"
		}
		c.nullable = false
		return c.ddl()
	}
	return []string{
		fmt.Sprintf("CREATE TABLE %s (\n  %s,\n  %s,\n  %s,\n  KEY %s (%s)\n) ENGINE = InnoDB;",
			quote(name), s.id.ddl(), coordinate(s.lat), coordinate(s.lng), quote(s.id.name), quote(s.id.name)),
		fmt.Sprintf("INSERT INTO %s (%s, %s, %s)\nSELECT %[2]s, %[5]s, %[6]s FROM %[7]s\nWHERE %[8]s;",
			quote(name), quote(s.id.name), quote(s.lat.name), quote(s.lng.name), number0(s.lat), number0(s.lng), quote(s.table), s.validText()),
	}
}
