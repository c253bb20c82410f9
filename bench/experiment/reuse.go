package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
)

// publishedReuse is how many times faster a distance was said to be that is written
// once, in a derived table.
const publishedReuse = 10

// reuse asks whether it helps to write the distance once.
type reuse struct{ size *reuseSize }

type reuseSize struct {
	rows    []int     // ascending
	radii   []float64 // metres, ascending
	limit   int
	repeats repeats
}

func (e reuse) sizeFor(quick bool) reuseSize {
	switch {
	case e.size != nil:
		return *e.size
	case quick:
		return reuseSize{[]int{2000, 8000}, []float64{1000, 5000}, 100, repeats{leastRounds, 200 * time.Millisecond}}
	}
	return reuseSize{[]int{10_000, 100_000}, []float64{500, 2000, 10_000}, 100, repeats{9, 3 * time.Second}}
}

var _ Experiment = reuse{}

func (reuse) Name() string  { return "reuse" }
func (reuse) Title() string { return "Does it help to write the distance only once?" }

// formula is a way to compute a distance in SQL.
type formula struct {
	name string
	sql  string
	args func(geo.LatLng) []any
	mark string // found in a plan once for each place where the formula stands
}

func formulas() []formula {
	return []formula{
		{
			"haversine",
			"2 * ? * ASIN(LEAST(1, SQRT(POW(SIN(RADIANS(lat - ?) / 2), 2) + COS(RADIANS(?)) * COS(RADIANS(lat)) * POW(SIN(RADIANS(lng - ?) / 2), 2))))",
			func(c geo.LatLng) []any { return []any{geo.EarthRadius, c.Lat, c.Lat, c.Lng} },
			"asin(",
		},
		{
			"ST_Distance_Sphere",
			"ST_Distance_Sphere(pt, ST_SRID(POINT(?, ?), 4326), ?)",
			func(c geo.LatLng) []any { return []any{c.Lng, c.Lat, geo.EarthRadius} },
			"st_distance_sphere(",
		},
	}
}

// The forms in which the distance is written.
const (
	formTwice   = "twice: SELECT and WHERE"
	formHaving  = "once: HAVING on the alias"
	formDerived = "once: derived table"
	formHeld    = "once: derived table, NO_MERGE"
)

// forms returns one query in all its forms: the nearest jobs within a radius,
// from the rows that pass where. The first form is the one that has it twice.
func forms(f formula, where query, radius float64, limit int) []side {
	d := f.args(center())
	const order = " ORDER BY dist, id LIMIT ?"
	derived := func(hint string) query {
		return query{
			"SELECT " + hint + "id, dist FROM (SELECT id, " + f.sql + " AS dist FROM open_job WHERE " + where.sql + ") AS d WHERE dist <= ?" + order,
			slices.Concat(d, where.args, []any{radius, limit}),
		}
	}
	return []side{
		{formTwice, query{
			"SELECT id, " + f.sql + " AS dist FROM open_job WHERE " + where.sql + " AND " + f.sql + " <= ?" + order,
			slices.Concat(d, where.args, d, []any{radius, limit}),
		}},
		{formHaving, query{
			"SELECT id, " + f.sql + " AS dist FROM open_job WHERE " + where.sql + " HAVING dist <= ?" + order,
			slices.Concat(d, where.args, []any{radius, limit}),
		}},
		{formDerived, derived("")},
		{formHeld, derived("/*+ NO_MERGE(d) */ ")},
	}
}

// reuseCell is one comparison.
type reuseCell struct {
	formula string
	boxed   bool // only the rows in the box around the circle are measured
	rows    int
	radius  float64
	read    int // rows whose distance is computed
	times   []result.Timing
	plans   []planned
}

// speed is how many times faster a form was than the first one.
func (c reuseCell) speed(form int) ratio { return ratioOf(c.times[0], c.times[form]) }

// Run implements [Experiment].
func (e reuse) Run(ctx context.Context, c Config) (result.Experiment, error) {
	size := e.sizeFor(c.Quick)
	names := formulas()
	question := fmt.Sprintf("The %d nearest jobs within a radius, with the distance written twice (SELECT and WHERE) against once (HAVING; a derived table; "+
		"a derived table that MySQL may not merge), by haversine and by ST_Distance_Sphere, over the whole table and over the box around the circle.", size.limit)
	steps := len(size.rows) * (1 + len(names)*2*len(size.radii))
	return inLab(ctx, c, e, question, steps, func(ctx context.Context, l *lab, out *result.Experiment) error {
		var cells []reuseCell
		for _, rows := range size.rows {
			l.step("loading %s rows", grouped(int64(rows)))
			if err := l.main.loadRecords(ctx, l.Seed, rows, l.Now()); err != nil {
				return err
			}
			points, err := places(dataset.Dense, l.Seed, rows)
			if err != nil {
				return err
			}
			if err := l.main.loadPlaces(ctx, points); err != nil {
				return err
			}
			if err := l.main.makeNarrow(ctx); err != nil {
				return err
			}
			for _, f := range names {
				for _, boxed := range []bool{false, true} {
					for _, radius := range size.radii {
						l.step("%s, %s rows, %s m", f.name, grouped(int64(rows)), figure(radius))
						cell, err := reuseCase(ctx, l, size, f, boxed, radius, points)
						if err != nil {
							return fmt.Errorf("%s, %d rows, %v m: %w", f.name, rows, radius, err)
						}
						cells = append(cells, cell)
					}
				}
			}
		}
		reportReuse(l, cells, out)
		return nil
	})
}

func reuseCase(ctx context.Context, l *lab, size reuseSize, f formula, boxed bool, radius float64, points []geo.LatLng) (reuseCell, error) {
	cell := reuseCell{formula: f.name, boxed: boxed, rows: len(points), radius: radius, read: len(points)}
	where := query{sql: "expires > ?", args: []any{0}}
	if boxed {
		r := geo.Circle{Center: center(), Radius: radius}.Bound()
		where.sql, where.args = inBox(r)
		cell.read = 0
		for _, p := range points {
			if r.Contains(p) {
				cell.read++
			}
		}
	}
	sides := forms(f, where, radius, size.limit)
	if _, err := l.main.sameRows(ctx, sides); err != nil {
		return cell, err
	}
	for _, s := range sides {
		p, err := l.main.explain(ctx, s.query)
		if err != nil {
			return cell, err
		}
		cell.plans = append(cell.plans, p)
	}
	var err error
	cell.times, err = l.main.times(ctx, size.repeats, sides)
	return cell, err
}

// The places of the forms in a cell, as forms returns them.
const (
	inHaving = iota + 1
	inDerived
	inHeld
)

func reportReuse(l *lab, cells []reuseCell, out *result.Experiment) {
	out.Findings = append(out.Findings,
		l.reuseFinding("A distance written once, in a derived table, is faster than one written twice", inDerived, cells),
		l.reuseFinding("The same, with a derived table that MySQL is kept from merging (NO_MERGE)", inHeld, cells),
		l.reuseFinding("The same, with the alias in HAVING", inHaving, cells))

	largest := slices.MaxFunc(cells, func(a, b reuseCell) int { return a.rows - b.rows }).rows
	for _, boxed := range []bool{false, true} {
		over := "the whole table"
		if boxed {
			over = "the box"
		}
		c := result.Chart{
			Title: fmt.Sprintf("Times faster than written twice, over %s, %s rows", over, grouped(int64(largest))),
			X:     result.Axis{Label: "radius, m", Log: true},
			Y:     result.Axis{Label: "times faster"},
		}
		for _, f := range formulas() {
			for i, s := range forms(f, query{sql: "TRUE"}, 1, 1) {
				if i == 0 {
					continue
				}
				series := result.Series{Name: f.name + ", " + s.name}
				for _, cell := range cells {
					if cell.formula == f.name && cell.boxed == boxed && cell.rows == largest {
						r := cell.speed(i)
						if !math.IsNaN(r.mid) && !math.IsInf(r.hi, 0) {
							series.Points = append(series.Points, result.Point{X: cell.radius, Y: r.mid, Lo: r.lo, Hi: r.hi})
						}
					}
				}
				if len(series.Points) > 0 {
					c.Series = append(c.Series, series)
				}
			}
		}
		out.Charts = append(out.Charts, c)
	}

	times := result.Grid{
		Title: "Medians in ms, ± half of the middle half",
		Columns: []string{"distance", "over", "rows #", "radius, m #", "measured rows #", "twice #", "HAVING #", "derived #", "NO_MERGE #",
			"twice/derived #", "twice/NO_MERGE #"},
		Rows: [][]string{},
	}
	plans := result.Grid{
		Title:   fmt.Sprintf("Plans at %s rows", grouped(int64(largest))),
		Columns: []string{"distance", "over", "radius, m #", "form", "formula stands in the plan #", "operations, from the outside in"},
		Rows:    [][]string{},
	}
	for _, c := range cells {
		over := "table"
		if c.boxed {
			over = "box"
		}
		row := []string{c.formula, over, grouped(int64(c.rows)), figure(c.radius), grouped(int64(c.read))}
		for _, t := range c.times {
			row = append(row, millis(t))
		}
		times.Rows = append(times.Rows, append(row, figure(c.speed(inDerived).mid), figure(c.speed(inHeld).mid)))
		if c.rows != largest {
			continue
		}
		for i, s := range forms(formulas()[0], query{sql: "TRUE"}, 1, 1) {
			plans.Rows = append(plans.Rows, []string{c.formula, over, figure(c.radius), s.name,
				fmt.Sprint(written(c.formula, c.plans[i])), c.plans[i].summary()})
		}
	}
	out.Grids = append(out.Grids, times, plans)
	l.note("On Nearjob's own table of a dense data set, without its SPATIAL, H3 and geohash keys. Over the whole table there is no condition on the coordinates; over the box the index on (lat, lng) is left to the optimizer.")
	l.note("All forms returned the same rows with the same distances before they were timed.")
}

// written counts in how many places of a plan a formula stands. The plan shows
// conditions and sort keys, not the select list.
func written(name string, p planned) int {
	for _, f := range formulas() {
		if f.name == name {
			return strings.Count(strings.ToLower(p.text), f.mark)
		}
	}
	return 0
}

func (l *lab) reuseFinding(claim string, form int, cells []reuseCell) result.Finding {
	f := result.Finding{Claim: claim, Published: fmt.Sprintf("%d times", publishedReuse)}
	if form != inDerived {
		f.Published += " (said of derived tables)"
	}
	var all values
	var by []string
	for _, formula := range formulas() {
		var v values
		for _, c := range cells {
			if c.formula == formula.name {
				if r := c.speed(form).mid; !math.IsNaN(r) {
					v = append(v, r)
				}
			}
		}
		all = append(all, v...)
		by = append(by, formula.name+" "+v.String())
	}
	f.Ours = all.times() + " faster: " + strings.Join(by, ", ")
	f.Verdict = l.steady(judgeRatio(publishedReuse, all))

	var same, held int
	for _, c := range cells {
		if c.plans[form].has(plan.Materialize) {
			held++
		}
		if shape(c.plans[form]) == shape(c.plans[0]) {
			same++
		}
	}
	switch {
	case held == len(cells):
		f.Why = "The plans materialize the derived table: the distance is computed once for each row that is read, and every such row, inside the circle or not, is written to a temporary table first."
	case held == 0 && same == len(cells):
		f.Why = "MySQL's plan has the same operations as that of the distance written twice, in all cases: " +
			"where there is a derived table it is merged into the query around it, and the formula is put back in each place that names it."
	case held == 0:
		f.Why = fmt.Sprintf("No plan materializes anything; %d of %d have the same operations as that of the distance written twice. What the sort and the condition need is computed for each of them.", same, len(cells))
	default:
		f.Why = fmt.Sprintf("%d of %d plans materialize the derived table.", held, len(cells))
	}
	switch {
	case len(all) == 0:
	case all.median() >= gain && held == 0:
		f.Why += " Where the times differ all the same, it is in how often the formula is computed for a row, which a plan does not show: at the most, as often as it is written, and once more for the sort."
	case all.median() < publishedReuse/near:
		f.Why += " Written twice, only a row inside the circle needs it a second time, and computing it is one part of what a row costs beside reading, sorting and returning it."
	}
	return f
}

// shape is a plan without its figures and conditions.
func shape(p planned) string {
	var parts []string
	for depth, n := range p.root.All() {
		parts = append(parts, fmt.Sprint(depth, n.Kind, n.Index))
	}
	return strings.Join(parts, "/")
}
