package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
)

// covering asks what a covering index and a table clustered by place save.
type covering struct{ size *coveringSize }

type coveringSize struct {
	rows    int
	shares  []float64 // rows in the circle, percent of the table, ascending
	ranges  int       // of S2 cells in a statement, at most
	repeats repeats
}

func (e covering) sizeFor(quick bool) coveringSize {
	switch {
	case e.size != nil:
		return *e.size
	case quick:
		return coveringSize{10_000, []float64{0.3, 1, 5, 25}, 64, repeats{7, 300 * time.Millisecond}}
	}
	return coveringSize{100_000, []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 70}, 64, repeats{9, 3 * time.Second}}
}

var _ Experiment = covering{}

func (covering) Name() string { return "covering" }
func (covering) Title() string {
	return "What do a covering index, and a table clustered by place, save?"
}

// The ways to read a circle.
const (
	byLookup = iota
	byChoice
	byCovering
	byPlace
	coveringWays
)

// wayNames name them.
func wayNames() [coveringWays]string {
	return [...]string{
		byLookup:   "(lat, lng), rows looked up",
		byChoice:   "(lat, lng), left to the optimizer",
		byCovering: "(lat, lng, ...) covering",
		byPlace:    "clustered by S2 cell",
	}
}

// coveringKey holds, behind the coordinates, all that the search returns.
const coveringKey = "KEY covering (lat, lng, expires, pay, posted)"

// coveringCase is one circle of one data set.
type coveringCase struct {
	kind   dataset.Shape
	share  float64 // rows in the circle, percent of the table
	radius float64
	rows   int
	read   [coveringWays]int64 // rows that the server took from the table or index
	times  []result.Timing
	ranges int
	chosen string
}

// Run implements [Experiment].
func (e covering) Run(ctx context.Context, c Config) (result.Experiment, error) {
	size := e.sizeFor(c.Quick)
	question := fmt.Sprintf("The jobs in circles of growing size, from a table of %s rows with long texts through an index on (lat, lng) that leads to the rows, "+
		"through one that holds all that is asked for, and from Nearjob's table, which is clustered by S2 cell.", grouped(int64(size.rows)))
	return inLab(ctx, c, e, question, 1+len(kinds)*(1+len(size.shares)), func(ctx context.Context, l *lab, out *result.Experiment) error {
		l.step("loading %s records", grouped(int64(size.rows)))
		if err := l.main.loadRecords(ctx, l.Seed, size.rows, l.Now()); err != nil {
			return err
		}
		var cases []coveringCase
		for _, kind := range kinds {
			l.step("the %s data set", kind)
			points, err := places(kind, l.Seed, size.rows)
			if err != nil {
				return err
			}
			if err := l.main.loadPlaces(ctx, points); err != nil {
				return err
			}
			// One wide table with both indexes, of which each statement names one.
			if err := l.main.makeWide(ctx, "job", wideKey, coveringKey); err != nil {
				return err
			}
			if err := l.main.makeNarrow(ctx); err != nil {
				return err
			}
			distances := make(values, len(points))
			origin := geo.NewOrigin(center())
			for i, p := range points {
				distances[i] = origin.Distance(p)
			}
			for _, share := range size.shares {
				l.step("%s, %s of the table", kind, percent(share))
				// Between two rows, and rounded, so that no row lies on the edge.
				radius := math.Ceil(max(1, distances.quantile(share/100)))
				k, err := coverCircle(ctx, l, size, radius)
				if err != nil {
					return fmt.Errorf("%s, %v m: %w", kind, radius, err)
				}
				k.kind, k.share = kind, 100*float64(k.rows)/float64(len(points))
				cases = append(cases, k)
			}
		}
		reportCovering(l, size, cases, out)
		return nil
	})
}

// circleSides returns the ways to read a circle. The distance is the same formula
// in all, so that they return the same rows; what differs is what is read to get them.
func circleSides(radius float64, maxRanges int) (sides []side, ranges int) {
	const list = "SELECT id, lat, lng, pay, posted, expires FROM "
	f := formulas()[0]
	near := " AND expires > 0 AND " + f.sql + " <= ?"
	nearArgs := append(f.args(center()), radius)
	in, inArgs := inBox(geo.Circle{Center: center(), Radius: radius}.Bound())
	box := func(hint string) query {
		return query{list + "job" + hint + " WHERE " + in + near, append(append([]any{}, inArgs...), nearArgs...)}
	}
	cover := cell.Cover(cell.S2, geo.Ring{Center: center(), Outer: radius}, maxRanges)
	var cells []string
	var cellArgs []any
	for _, r := range cover {
		cells = append(cells, "s2 BETWEEN ? AND ?")
		cellArgs = append(cellArgs, r.Lo, r.Hi)
	}
	names := wayNames()
	return []side{
		byLookup:   {names[byLookup], box(" FORCE INDEX (lat_lng)")},
		byChoice:   {names[byChoice], box(" IGNORE INDEX (covering)")},
		byCovering: {names[byCovering], box(" FORCE INDEX (covering)")},
		byPlace: {names[byPlace], query{
			list + "open_job FORCE INDEX (PRIMARY) WHERE (" + strings.Join(cells, " OR ") + ")" + near,
			append(cellArgs, nearArgs...),
		}},
	}, len(cover)
}

func coverCircle(ctx context.Context, l *lab, size coveringSize, radius float64) (coveringCase, error) {
	k := coveringCase{radius: radius}
	var sides []side
	sides, k.ranges = circleSides(radius, size.ranges)
	var err error
	if k.rows, err = l.main.sameRows(ctx, sides); err != nil {
		return k, err
	}
	for i, s := range sides {
		p, err := l.main.explain(ctx, s.query)
		if err != nil {
			return k, err
		}
		switch i {
		case byChoice:
			k.chosen = "scan"
			if p.ranged("lat_lng") {
				k.chosen = "index"
			}
		case byCovering:
			if !p.ranged("covering") || !p.covers() {
				return k, fmt.Errorf("%s: the plan is not what it is called: %s", s.name, p.summary())
			}
		}
		if k.read[i], err = l.main.handled(ctx, s.query); err != nil {
			return k, err
		}
	}
	k.times, err = l.main.times(ctx, size.repeats, sides)
	return k, err
}

// covers reports whether all index reads of the plan are answered from the index.
func (p planned) covers() bool {
	for _, n := range p.root.All() {
		if n.Kind.Reads() && !n.Covering {
			return false
		}
	}
	return true
}

// handled runs a query and returns how many rows it asked the storage engine for.
// Rows that an index condition leaves out inside the engine are not among them.
func (s *session) handled(ctx context.Context, q query) (int64, error) {
	// Reading the counters is counted too. (FLUSH STATUS would need a privilege.)
	var seen [3]int64
	for i := range seen {
		if i == 2 {
			if _, err := s.drain(ctx, q); err != nil {
				return 0, err
			}
		}
		err := s.conn.QueryRowContext(ctx, "SELECT CAST(COALESCE(SUM(VARIABLE_VALUE), 0) AS SIGNED) FROM performance_schema.session_status"+
			" WHERE VARIABLE_NAME IN ('Handler_read_first', 'Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')").Scan(&seen[i])
		if err != nil {
			return 0, fmt.Errorf("read the session's counters: %w", err)
		}
	}
	return (seen[2] - seen[1]) - (seen[1] - seen[0]), nil
}

func reportCovering(l *lab, size coveringSize, cases []coveringCase, out *result.Experiment) {
	out.Findings = append(out.Findings,
		l.coveringFinding("An index that covers the query saves the lookups of the rows", byLookup, byCovering, cases,
			"Both read the same range of the index; the one then fetches each row of the box from the clustered index by its id, which lies in no order of place."),
		l.coveringFinding("A table clustered by place beats a covering index on (lat, lng)", byCovering, byPlace, cases,
			"The index on (lat, lng) reads the whole band of latitudes and throws away what is east and west of the box; the cells read little but the circle."),
		l.coveringFinding("A table clustered by place beats the usual index on (lat, lng)", byChoice, byPlace, cases,
			"With the choice left to the optimizer, as it is in most applications: it goes over to reading the whole wide table as the circle grows."),
	)
	names := wayNames()
	for _, kind := range kinds {
		took := result.Chart{
			Title: fmt.Sprintf("Time, %s", kind),
			X:     result.Axis{Label: "rows in the circle, % of the table", Log: true},
			Y:     result.Axis{Label: "time, ms", Log: true},
		}
		rate := result.Chart{
			Title: fmt.Sprintf("Rows returned a second, %s", kind),
			X:     took.X,
			Y:     result.Axis{Label: "rows/s", Log: true},
		}
		for way, name := range names {
			t, r := result.Series{Name: name}, result.Series{Name: name}
			for _, c := range cases {
				if c.kind != kind || c.rows == 0 {
					continue
				}
				t.Points = append(t.Points, timePoint(c.share, c.times[way]))
				if ms := c.times[way].Median; ms > 0 {
					r.Points = append(r.Points, result.Point{X: c.share, Y: float64(c.rows) / ms * 1000})
				}
			}
			took.Series, rate.Series = append(took.Series, t), append(rate.Series, r)
		}
		out.Charts = append(out.Charts, took, rate)
	}
	g := result.Grid{
		Title:   "Medians in ms, ± half of the middle half, and the rows that were asked of the storage engine",
		Columns: []string{"data", "radius, m #", "in the circle, % #", "rows #", "looked up #", "read #", "left free #", "choice", "covering #", "read #", "clustered #", "read #", "ranges #"},
		Rows:    [][]string{},
	}
	for _, c := range cases {
		g.Rows = append(g.Rows, []string{
			string(c.kind), figure(c.radius), figure(c.share), grouped(int64(c.rows)),
			millis(c.times[byLookup]), grouped(c.read[byLookup]),
			millis(c.times[byChoice]), c.chosen,
			millis(c.times[byCovering]), grouped(c.read[byCovering]),
			millis(c.times[byPlace]), grouped(c.read[byPlace]), fmt.Sprint(c.ranges),
		})
	}
	out.Grids = append(out.Grids, g)
	l.note("All ways end in the same haversine condition and returned the same rows. The cells of a circle are at most %d ranges; computing them, some tenths of a millisecond, is not in the times.", size.ranges)
	l.note("Rows that an index condition leaves out inside the storage engine are read, but not asked of it: for (lat, lng) with lookups the figure leaves out what lies in the band of latitudes but outside the box.")
	l.note("Everything was in memory. Where the wide table does not fit there, each lookup is a read from disk, and both differences grow.")
}

// coveringFinding compares two of the ways over all circles that hold rows.
func (l *lab) coveringFinding(claim string, slow, fast int, cases []coveringCase, why string) result.Finding {
	var all values
	by := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		var v values
		for _, c := range cases {
			if c.kind != kind || c.rows == 0 {
				continue
			}
			if r := ratioOf(c.times[slow], c.times[fast]); !math.IsNaN(r.mid) {
				v = append(v, r.mid)
			}
		}
		all = append(all, v...)
		by = append(by, string(kind)+" "+v.String())
	}
	f := result.Finding{
		Claim: claim, Published: "common advice, without a figure",
		Ours: all.times() + " faster: " + strings.Join(by, ", "), Verdict: l.steady(judgeRatio(0, all)), Why: why,
	}
	if slow != byCovering {
		return f // what an index condition leaves out is not counted, see the notes
	}
	var read, than values
	for _, c := range cases {
		if c.rows > 0 {
			read = append(read, float64(c.read[fast])/float64(c.rows))
			than = append(than, float64(c.read[slow])/float64(c.rows))
		}
	}
	if len(read) > 0 {
		f.Why += fmt.Sprintf(" For each row that was returned, the storage engine was asked for %s rows, against %s.", read, than)
	}
	return f
}
