package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
)

// What a Korean team published about its table of jobs on MySQL.
const (
	publishedShare   = 2.33 // percent of the table
	publishedCost    = 4.5  // the forced index's cost over the scan's
	publishedSpeed   = 10   // the forced index's speed over the scan's
	publishedSpatial = 6    // the forced B-tree's cost over the R-tree's
)

// crossover asks at which share of the table the optimizer gives up an index.
type crossover struct{ size *crossoverSize }

type crossoverSize struct {
	rows     int
	sets     int       // of each kind
	timed    int       // of each kind, that are timed too
	spatial  int       // of each kind, that get an R-tree too; at least timed
	geodetic int       // rows of a set that gets R-trees of both SRIDs
	grid     []float64 // shares in percent, ascending
	times    []float64 // shares in percent, ascending
	repeats  repeats
	atMost   time.Duration // no further data set is begun after it
}

func (e crossover) sizeFor(quick bool) crossoverSize {
	switch {
	case e.size != nil:
		return *e.size
	case quick:
		return crossoverSize{
			rows: 10_000, sets: 3, timed: 1, spatial: 2, geodetic: 1000,
			grid: shares(0.1, 100, 13), times: []float64{0.5, 2, 8, 30},
			repeats: repeats{5, 500 * time.Millisecond}, atMost: 5 * time.Second,
		}
	}
	return crossoverSize{
		rows: 100_000, sets: 30, timed: 2, spatial: 3, geodetic: 10_000,
		grid: shares(0.02, 100, 25), times: []float64{0.1, 0.5, 1, 2, 4, 8, 16, 32, 64},
		repeats: repeats{7, 4 * time.Second}, atMost: 15 * time.Minute,
	}
}

// shares returns n values from lo to hi, each the same number of times the one before.
func shares(lo, hi float64, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = lo * math.Pow(hi/lo, float64(i)/float64(n-1))
	}
	s[n-1] = hi
	return s
}

var _ Experiment = crossover{}

func (crossover) Name() string  { return "crossover" }
func (crossover) Title() string { return "When does the optimizer give up an index, and is it right?" }

// kinds are the shapes of the data sets.
var kinds = [...]dataset.Shape{dataset.Dense, dataset.Sparse}

// The statements. The wide one asks for columns that its index does not have; the
// narrow one is Nearjob's own, whose index has all.
const (
	wideSelect   = "SELECT id, title, description, pay, posted FROM job"
	narrowSelect = "SELECT id, pay, posted, expires, lat, lng FROM open_job"
)

func wideQuery(hint string, r geo.Rect) query {
	where, args := inBox(r)
	return query{wideSelect + hint + " WHERE " + where, args}
}

func narrowQuery(r geo.Rect, openAt int64) query {
	where, args := inBox(r)
	return query{narrowSelect + " WHERE " + where + " AND expires > ?", append(args, openAt)}
}

// spatialQuery asks a table with an R-tree for the rows in a box. The envelope of
// two points is the box: on the plane exactly, on the ellipsoid with the margin
// that MySQL's conversion to radians needs.
func spatialQuery(table string, srid int, r geo.Rect) query {
	from := strings.Replace(wideSelect, "FROM job", "FROM "+table, 1)
	if srid == 0 {
		return query{from + " WHERE MBRIntersects(MULTIPOINT(POINT(?, ?), POINT(?, ?)), pt)",
			[]any{r.West, r.South, r.East, r.North}}
	}
	return query{from + fmt.Sprintf(" WHERE MBRIntersects(ST_SRID(MULTIPOINT(POINT(?, ?), POINT(?, ?)), %d), pt)", srid),
		[]any{r.West, r.South, r.East, r.North}}
}

// boxSeen is what one box of one data set showed.
type boxSeen struct {
	share, band float64 // percent of the table

	wide, narrow bool // the range of lat_lng was chosen
	index, scan  estimate

	spatial   bool // the R-tree was looked at
	rtreeUsed bool
	rtree     estimate
}

// timedBox is what the execution of one box showed.
type timedBox struct {
	share, band        float64
	rows               int
	used               bool    // the free choice is the index
	costRatio          float64 // the index over the scan
	free, forced, scan result.Timing
	rtree              *result.Timing
}

// setSeen is what one data set showed.
type setSeen struct {
	kind          dataset.Shape
	boxes         []boxSeen // as the grid of shares
	cross         boxSeen   // the largest box for which the wide table's index was used
	never, always bool
	timed         []timedBox
}

// Run implements [Experiment].
func (e crossover) Run(ctx context.Context, c Config) (result.Experiment, error) {
	size := e.sizeFor(c.Quick)
	question := fmt.Sprintf("A table of %s jobs as most teams have it (primary key id, long texts, an index on (lat, lng)) "+
		"is asked for the jobs in a box around one building. The box grows until the optimizer prefers to read the whole table. "+
		"Up to %d data sets each of one city (dense) and of a country (sparse), beside Nearjob's narrow table and an R-tree.",
		grouped(int64(size.rows)), size.sets)
	return inLab(ctx, c, e, question, 3+len(kinds)*size.sets, func(ctx context.Context, l *lab, out *result.Experiment) error {
		x := crossoverRun{lab: l, size: size, openAt: l.Now().UnixMilli()}
		if err := x.measure(ctx); err != nil {
			return err
		}
		x.report(out)
		return nil
	})
}

type crossoverRun struct {
	*lab
	size   crossoverSize
	openAt int64
	sets   []setSeen
	wanted int // sets

	agree, compared int // choices of R-trees with SRID 0 and 4326 on the same rows

	// With all rows at one point: the boxes, those that were read through the
	// R-tree and through the B-tree, and the rows that the R-tree was expected to
	// return, in percent of the table.
	stackedBoxes, stackedUsed, stackedTree int
	stackedShare                           values
}

func (x *crossoverRun) measure(ctx context.Context) error {
	x.step("loading %s records", grouped(int64(x.size.rows)))
	if err := x.main.loadRecords(ctx, x.Seed, x.size.rows, x.Now()); err != nil {
		return err
	}
	// In turns, so that both kinds have as many when the time is up.
	begin := time.Now()
	x.wanted = x.size.sets * len(kinds)
	for i := range x.size.sets {
		if i >= leastRounds && time.Since(begin) > x.size.atMost {
			break
		}
		for _, kind := range kinds {
			x.step("%s data set %d of %d", kind, i+1, x.size.sets)
			s, err := x.dataSet(ctx, kind, i)
			if err != nil {
				return fmt.Errorf("%s data set %d: %w", kind, i+1, err)
			}
			x.sets = append(x.sets, s)
		}
	}
	x.done = x.total - 2
	x.step("R-trees on the plane and on the ellipsoid")
	if err := x.geodetic(ctx); err != nil {
		return fmt.Errorf("the R-trees of both SRIDs: %w", err)
	}
	x.step("all rows at one point")
	if err := x.stacked(ctx); err != nil {
		return fmt.Errorf("all rows at one point: %w", err)
	}
	return nil
}

// dataSet loads the i-th data set of a kind and looks at its boxes.
func (x *crossoverRun) dataSet(ctx context.Context, kind dataset.Shape, i int) (setSeen, error) {
	seen := setSeen{kind: kind}
	points, err := places(kind, x.Seed+uint64(i), x.size.rows)
	if err != nil {
		return seen, err
	}
	s := x.main
	if err := s.loadPlaces(ctx, points); err != nil {
		return seen, err
	}
	if err := s.makeWide(ctx, "job", wideKey); err != nil {
		return seen, err
	}
	if err := s.makeNarrow(ctx); err != nil {
		return seen, err
	}
	spatial := i < x.size.spatial
	if spatial {
		if err := s.makeSpatial(ctx, "job_pt", 0, x.size.rows); err != nil {
			return seen, err
		}
	}
	g := grow(center(), points)
	for _, share := range x.size.grid {
		b, err := x.look(ctx, g, g.rank(share), spatial)
		if err != nil {
			return seen, err
		}
		seen.boxes = append(seen.boxes, b)
	}
	n, err := bisect(1, len(points), func(n int) (bool, error) {
		p, err := s.explain(ctx, wideQuery("", g.box(n)))
		return p.root != nil && p.ranged("lat_lng"), err
	})
	if err != nil {
		return seen, err
	}
	seen.never, seen.always = n == 0, n == len(points)
	seen.cross.share, seen.cross.band = g.share(g.box(n))
	if seen.never {
		seen.cross = boxSeen{}
	}
	if i < x.size.timed {
		shares := slices.Clone(x.size.times)
		if !seen.never && !seen.always {
			// Where the choice has just turned, it should make no difference.
			shares = append(shares, min(seen.cross.share*1.05, 100))
			slices.Sort(shares)
		}
		for _, share := range shares {
			t, err := x.time(ctx, g, g.rank(share), spatial)
			if err != nil {
				return seen, fmt.Errorf("%s of the table: %w", percent(share), err)
			}
			seen.timed = append(seen.timed, t)
		}
	}
	return seen, nil
}

// look asks the optimizer about one box.
func (x *crossoverRun) look(ctx context.Context, g grown, n int, spatial bool) (boxSeen, error) {
	r := g.box(n)
	var b boxSeen
	b.share, b.band = g.share(r)
	q := wideQuery("", r)
	p, err := x.main.explain(ctx, q)
	if err != nil {
		return b, err
	}
	b.wide = p.ranged("lat_lng")
	w, err := x.main.weigh(ctx, q)
	if err != nil {
		return b, err
	}
	b.index, b.scan = w.indexes["lat_lng"], w.scan
	if p, err = x.main.explain(ctx, narrowQuery(r, x.openAt)); err != nil {
		return b, err
	}
	b.narrow = p.ranged("lat_lng")
	if !spatial {
		return b, nil
	}
	b.spatial = true
	q = spatialQuery("job_pt", 0, r)
	if p, err = x.main.explain(ctx, q); err != nil {
		return b, err
	}
	b.rtreeUsed = p.ranged("pt")
	if w, err = x.main.weigh(ctx, q); err != nil {
		return b, err
	}
	b.rtree = w.indexes["pt"]
	return b, nil
}

// time runs one box with the free choice, the index forced, and the table scanned.
func (x *crossoverRun) time(ctx context.Context, g grown, n int, spatial bool) (timedBox, error) {
	r := g.box(n)
	var t timedBox
	t.share, t.band = g.share(r)
	free := wideQuery("", r)
	p, err := x.main.explain(ctx, free)
	if err != nil {
		return t, err
	}
	t.used = p.ranged("lat_lng")
	w, err := x.main.weigh(ctx, free)
	if err != nil {
		return t, err
	}
	if c := w.scan.cost; c > 0 {
		t.costRatio = w.indexes["lat_lng"].cost / c
	}
	sides := []side{
		{"free choice", free},
		{"index forced", wideQuery(" FORCE INDEX (lat_lng)", r)},
		{"table scan", wideQuery(" IGNORE INDEX (lat_lng)", r)},
	}
	if spatial {
		q := spatialQuery("job_pt FORCE INDEX (pt)", 0, r)
		sides = append(sides, side{"R-tree forced", q})
	}
	for i, uses := range []bool{1: true, 2: false} {
		if i == 0 {
			continue // the optimizer's own choice
		}
		p, err := x.main.explain(ctx, sides[i].query)
		if err != nil {
			return t, err
		}
		if p.ranged("lat_lng") != uses {
			return t, fmt.Errorf("%s: the hint did not take: %s", sides[i].name, p.summary())
		}
	}
	if t.rows, err = x.main.sameRows(ctx, sides); err != nil {
		return t, err
	}
	if inside, _ := g.count(r); inside != t.rows {
		return t, fmt.Errorf("the box holds %d rows, and the server returned %d", inside, t.rows)
	}
	all, err := x.main.times(ctx, x.size.repeats, sides)
	if err != nil {
		return t, err
	}
	t.free, t.forced, t.scan = all[0], all[1], all[2]
	if spatial {
		t.rtree = &all[3]
	}
	return t, nil
}

// geodetic compares what the optimizer chooses on R-trees of both SRIDs over the
// same rows. An R-tree of SRID 4326 takes ten times as long to build, so that
// this is done on fewer rows, and the rest on the plane.
func (x *crossoverRun) geodetic(ctx context.Context) error {
	for _, kind := range kinds {
		points, err := places(kind, x.Seed, x.size.geodetic)
		if err != nil {
			return err
		}
		s := x.main
		if err := s.loadPlaces(ctx, points); err != nil {
			return err
		}
		if err := s.makeWide(ctx, "job", wideKey); err != nil {
			return err
		}
		if err := s.makeSpatial(ctx, "job_pt", 0, len(points)); err != nil {
			return err
		}
		if err := s.makeSpatial(ctx, "job_geo", 4326, len(points)); err != nil {
			return err
		}
		g := grow(center(), points)
		for _, share := range x.size.grid {
			r := g.box(g.rank(share))
			flat, err := s.explain(ctx, spatialQuery("job_pt", 0, r))
			if err != nil {
				return err
			}
			round, err := s.explain(ctx, spatialQuery("job_geo", 4326, r))
			if err != nil {
				return err
			}
			x.compared++
			if flat.ranged("pt") == round.ranged("pt") {
				x.agree++
			}
		}
	}
	return nil
}

// stacked asks about a table whose rows all have one place.
func (x *crossoverRun) stacked(ctx context.Context) error {
	points := slices.Repeat([]geo.LatLng{center()}, x.size.rows)
	s := x.main
	if err := s.loadPlaces(ctx, points); err != nil {
		return err
	}
	if err := s.makeWide(ctx, "job", wideKey); err != nil {
		return err
	}
	if err := s.makeSpatial(ctx, "job_pt", 0, x.size.rows); err != nil {
		return err
	}
	c := center()
	for _, half := range []float64{1e-6, 1e-4, 0.01, 0.1, 1} { // degrees
		r := geo.Rect{South: c.Lat - half, North: c.Lat + half, West: c.Lng - half, East: c.Lng + half}
		q := spatialQuery("job_pt", 0, r)
		p, err := s.explain(ctx, q)
		if err != nil {
			return err
		}
		w, err := s.weigh(ctx, q)
		if err != nil {
			return err
		}
		if w.scan.rows > 0 {
			x.stackedShare = append(x.stackedShare, 100*w.indexes["pt"].rows/w.scan.rows)
		}
		x.stackedBoxes++
		if p.ranged("pt") {
			x.stackedUsed++
		}
		if p, err = s.explain(ctx, wideQuery("", r)); err != nil {
			return err
		}
		if p.ranged("lat_lng") {
			x.stackedTree++
		}
	}
	return nil
}

// of returns the sets of a kind; "" are all.
func (x *crossoverRun) of(kind dataset.Shape) []setSeen {
	var all []setSeen
	for _, s := range x.sets {
		if kind == "" || s.kind == kind {
			all = append(all, s)
		}
	}
	return all
}

// crossings are the largest shares with the index, in percent of the table, and
// how much of the table lies in the latitudes that the index has to read.
func crossings(sets []setSeen) (share, band values, never, always int) {
	for _, s := range sets {
		switch {
		case s.never:
			never++
		case s.always:
			always++
		default:
			share = append(share, s.cross.share)
			band = append(band, s.cross.band)
		}
	}
	return share, band, never, always
}

func (x *crossoverRun) report(out *result.Experiment) {
	out.Findings = append(out.Findings, x.shareFinding(), x.forcedFinding(), x.rtreeFinding(), x.costFinding())
	out.Charts = append(out.Charts, x.usedChart())
	for _, kind := range kinds {
		out.Charts = append(out.Charts, x.costChart(kind))
		if c := x.timeChart(kind); len(c.Series) > 0 {
			out.Charts = append(out.Charts, c)
		}
	}
	out.Grids = append(out.Grids, x.crossGrid(), x.timedGrid())

	if n := len(x.sets); n < x.wanted {
		x.note("The time was up after %d of %d data sets.", n, x.wanted)
	}
	x.note("The shares are of the rows in the box. Of an index on (lat, lng) MySQL reads, and estimates, all rows in the box's band of latitudes, whatever their longitude.")
	x.note("The cost of an index that was not chosen is read from the optimizer trace: with FORCE INDEX, EXPLAIN shows the cost of one row. The choice needs no execution; the times are of other, executed boxes of %d data sets of each kind.", min(x.size.timed, x.size.sets))
	x.note("Nearjob's table stands here without its SPATIAL, H3 and geohash keys, which these statements do not read. All secondary keys were built after the rows, so that their pages are fuller than those of a table that grew.")
	x.note("The R-trees are on the plane (SRID 0), which takes a tenth of the time to build. On the same %s rows, R-trees of SRID 0 and 4326 led to the same choice for %d of %d boxes.",
		grouped(int64(x.size.geodetic)), x.agree, x.compared)
}

func (x *crossoverRun) shareFinding() result.Finding {
	all, band, never, always := crossings(x.of(""))
	f := result.Finding{
		Claim:     "Left free, the optimizer uses the index on (lat, lng) only up to so much of the table",
		Published: percent(publishedShare),
		Verdict:   judgeShare(publishedShare, all),
	}
	var parts []string
	for _, kind := range kinds {
		v, _, _, _ := crossings(x.of(kind))
		parts = append(parts, fmt.Sprintf("%s %s %%", kind, v))
	}
	f.Ours = fmt.Sprintf("%s (%s)", percent(all.median()), strings.Join(parts, ", "))
	if len(all) == 0 {
		f.Ours = fmt.Sprintf("no crossover: always used in %d data sets, never in %d", always, never)
		if len(x.sets) >= leastValues {
			f.Verdict = result.Refuted
		}
		return f
	}
	var each, scan, off values
	for _, s := range x.sets {
		for _, b := range s.boxes {
			if !(b.index.rows > 0 && b.scan.rows > 0) {
				continue
			}
			each = append(each, b.index.cost/b.index.rows)
			scan = append(scan, b.scan.cost/b.scan.rows)
			if within(b.share, s.cross.share) {
				off = append(off, b.index.rows/(b.band/100*float64(x.size.rows)))
			}
		}
	}
	f.Why = fmt.Sprintf("The choice turns on the rows in the band of latitudes, not on those in the box: at the crossover the band held %s %% of the table. "+
		"The optimizer reckons %s a row through the index against %s a row of the scan, so that it turns where it expects %s of the table in the band. "+
		"Around there it expected %s times the rows that the band had. The share in the box follows from how the data lie.",
		band, figure(each.median()), figure(scan.median()), percent(100*scan.median()/each.median()), off)
	narrow := 0.0
	for _, s := range x.sets {
		for _, b := range s.boxes {
			if b.narrow {
				narrow = max(narrow, b.share)
			}
		}
	}
	f.Why += fmt.Sprintf(" On Nearjob's table, whose index holds all that the query asks for, it was used for boxes of up to %s of the table.", percent(narrow))
	if always+never > 0 {
		f.Why += fmt.Sprintf(" In %d data sets the index was always used, in %d never.", always, never)
	}
	return f
}

// scanned are the timed boxes for which the optimizer preferred the scan.
func (x *crossoverRun) scanned() (boxes []timedBox) {
	for _, s := range x.sets {
		for _, b := range s.timed {
			if !b.used {
				boxes = append(boxes, b)
			}
		}
	}
	slices.SortStableFunc(boxes, func(a, b timedBox) int { return cmp.Compare(a.costRatio, b.costRatio) })
	return boxes
}

func (x *crossoverRun) forcedFinding() result.Finding {
	f := result.Finding{
		Claim:     "Where the optimizer prefers the scan, the index is dearer by its reckoning and yet faster when forced",
		Published: fmt.Sprintf("cost %s times higher, %s times faster", figure(publishedCost), figure(publishedSpeed)),
	}
	boxes := x.scanned()
	f.Verdict = x.steady(judgeForced(boxes))
	if len(boxes) == 0 {
		f.Ours = "not measured: no timed box was scanned"
		return f
	}
	best := slices.MaxFunc(boxes, func(a, b timedBox) int { return cmp.Compare(speed(a).mid, speed(b).mid) })
	nearest := slices.MinFunc(boxes, func(a, b timedBox) int {
		return cmp.Compare(math.Abs(math.Log(a.costRatio/publishedCost)), math.Abs(math.Log(b.costRatio/publishedCost)))
	})
	describe := func(b timedBox) string {
		return fmt.Sprintf("cost %s times the scan's, %s at %s of the table (%s in the band)",
			figure(b.costRatio), faster(speed(b).mid), percent(b.share), percent(b.band))
	}
	f.Ours = "at its best " + describe(best)
	if nearest != best {
		f.Ours += "; nearest to the published cost: " + describe(nearest)
	}
	var won, lost int
	for _, b := range boxes {
		switch s := speed(b); {
		case s.lo > 1:
			won++
		case s.hi < 1:
			lost++
		}
	}
	f.Why = fmt.Sprintf("Of %d timed boxes that the optimizer scanned, the forced index was clearly faster in %d and clearly slower in %d. ", len(boxes), won, lost)
	turn, found, open := x.realCrossing()
	switch {
	case !found:
		f.Why += "The index was at no box faster than the scan."
	case open:
		f.Why += fmt.Sprintf("The index was still faster at the largest box, %s of the table.", percent(turn))
	default:
		f.Why += fmt.Sprintf("By the clock the index paid up to about %s of the table (median over the timed data sets).", percent(turn))
	}
	f.Why += " The cost is reckoned as if each row of the band had to be looked up; with index condition pushdown those outside the longitudes never are, and that is where forcing gains."
	most := 0.0
	for _, s := range x.sets {
		for _, b := range s.boxes {
			if b.scan.rows > 0 {
				most = max(most, 100*b.index.rows/b.scan.rows)
			}
		}
	}
	f.Why += fmt.Sprintf(" No estimate for the index exceeded %s of the table, so that its cost was at most %s times the scan's.",
		percent(most), figure(slices.MaxFunc(boxes, func(a, b timedBox) int { return cmp.Compare(a.costRatio, b.costRatio) }).costRatio))
	return f
}

// speed is how many times faster the forced index was than the scan.
func speed(b timedBox) ratio { return ratioOf(b.scan, b.forced) }

// faster puts a ratio of speeds in words.
func faster(r float64) string {
	switch {
	case math.IsNaN(r):
		return "not timed"
	case r >= 1:
		return figure(r) + " times faster"
	}
	return figure(1/r) + " times slower"
}

// judgeForced says whether forcing an index that the optimizer reckons dearer is
// faster, and by as much as was published.
func judgeForced(boxes []timedBox) result.Outcome {
	if len(boxes) == 0 {
		return result.Unclear
	}
	outcome := result.Refuted
	for _, b := range boxes {
		s := speed(b)
		switch {
		case math.IsNaN(s.mid) || b.forced.Runs < leastRounds:
			return result.Unclear
		case within(s.mid, publishedSpeed) && within(b.costRatio, publishedCost):
			return result.Confirmed
		case s.mid >= gain && s.lo > 1:
			outcome = result.Differs
		case s.hi > 1 && outcome == result.Refuted:
			outcome = result.Unclear
		}
	}
	return outcome
}

// realCrossing is the share of the table up to which the forced index took less
// time than the scan: the median over the timed data sets.
func (x *crossoverRun) realCrossing() (share float64, found, open bool) {
	var at values
	for _, s := range x.sets {
		var line []result.Point
		for _, b := range s.timed {
			if r := speed(b).mid; !math.IsNaN(r) {
				line = append(line, result.Point{X: b.share, Y: r})
			}
		}
		if c, ok, end := crossing(line); ok {
			at = append(at, c)
			open = open || end
		}
	}
	if len(at) == 0 {
		return 0, false, false
	}
	return at.median(), true, open
}

func (x *crossoverRun) rtreeFinding() result.Finding {
	f := result.Finding{
		Claim:     "The R-tree is always chosen, unless all rows share one point",
		Published: "always",
	}
	var boxes, used int
	var last values // the largest share with the R-tree, of each data set
	for _, s := range x.sets {
		top := math.NaN()
		for _, b := range s.boxes {
			if !b.spatial {
				continue
			}
			boxes++
			if b.rtreeUsed {
				used++
				top = b.share
			}
		}
		if !math.IsNaN(top) {
			last = append(last, top)
		}
	}
	f.Ours = fmt.Sprintf("for %d of %d boxes; with all rows at one point for %d of %d", used, boxes, x.stackedUsed, x.stackedBoxes)
	btree, _, _, _ := crossings(x.of(""))
	f.Verdict = judgeRTree(used, boxes, x.stackedUsed, last, btree)
	if len(last) > 0 {
		f.Why = fmt.Sprintf("The largest boxes that were read through the R-tree held %s %% of the table, against %s %% for the B-tree. ", last, btree)
	}
	f.Why += "MySQL takes the estimate for an R-tree from the index's root page: a box that covers most of the root's entries counts as most of the table, and then the scan is cheaper. "
	if x.stackedUsed == 0 {
		f.Why += fmt.Sprintf("With all rows at one point every entry of the root is that point: a box around it, however small, was expected to return %s %% of the table.", x.stackedShare)
	}
	if x.stackedTree == 0 {
		f.Why += " There, the B-tree on (lat, lng) is not chosen either."
	}
	return f
}

// judgeRTree compares how far up the R-tree is used with "always, unless stacked".
func judgeRTree(used, boxes, stacked int, last, btree values) result.Outcome {
	switch {
	case boxes == 0:
		return result.Unclear
	case used == boxes && stacked == 0:
		return result.Confirmed
	case len(last) > 0 && (len(btree) == 0 || last.median() >= btree.median()):
		return result.Differs // it lasts longer than the B-tree, but not always
	}
	return result.Refuted
}

func (x *crossoverRun) costFinding() result.Finding {
	f := result.Finding{
		Claim:     "The R-tree's cost is so many times below that of the B-tree",
		Published: fmt.Sprintf("%d times", publishedSpatial),
	}
	// The ratio depends on the size of the box: the verdict is on boxes of about
	// the size at which the published B-tree was given up.
	var all, about, rows values
	for _, s := range x.sets {
		for _, b := range s.boxes {
			if !b.rtreeUsed || !(b.rtree.cost > 0) {
				continue
			}
			r := b.index.cost / b.rtree.cost
			all = append(all, r)
			if within(b.share, publishedShare) {
				about = append(about, r)
			}
			rows = append(rows, b.rtree.rows/(b.share/100*float64(x.size.rows)))
		}
	}
	f.Ours = fmt.Sprintf("%s for boxes of about %s of the table; %s for all sizes", about.times(), percent(publishedShare), all.times())
	f.Verdict = judgeRatio(publishedSpatial, about)
	f.Why = fmt.Sprintf("A row costs the same either way; what differs is how many are expected. "+
		"The B-tree's estimate counts the whole band of latitudes, the R-tree's is a guess from the root page: over %d boxes %s times the rows that there were.", len(all), rows)
	var speeds values
	for _, s := range x.sets {
		for _, b := range s.timed {
			if b.rtree != nil {
				if r := ratioOf(b.forced, *b.rtree); !math.IsNaN(r.mid) {
					speeds = append(speeds, r.mid)
				}
			}
		}
	}
	if len(speeds) > 0 {
		f.Why += fmt.Sprintf(" By the clock, the forced R-tree took the forced B-tree's time divided by %s.", speeds)
	}
	return f
}

// usedChart is the share of the data sets in which each index was chosen.
func (x *crossoverRun) usedChart() result.Chart {
	c := result.Chart{
		Title: "Data sets in which the optimizer chose the index",
		X:     result.Axis{Label: "rows in the box, % of the table", Log: true},
		Y:     result.Axis{Label: "data sets, %"},
	}
	for _, kind := range kinds {
		for _, of := range []struct {
			name string
			used func(boxSeen) (used, counts bool)
		}{
			{"wide table, (lat, lng)", func(b boxSeen) (bool, bool) { return b.wide, true }},
			{"Nearjob's table, (lat, lng) covering", func(b boxSeen) (bool, bool) { return b.narrow, true }},
			{"wide table, R-tree", func(b boxSeen) (bool, bool) { return b.rtreeUsed, b.spatial }},
		} {
			s := result.Series{Name: string(kind) + ", " + of.name}
			for i := range x.size.grid {
				var share values
				used := 0
				for _, set := range x.of(kind) {
					if yes, counts := of.used(set.boxes[i]); counts {
						share = append(share, set.boxes[i].share)
						if yes {
							used++
						}
					}
				}
				if len(share) > 0 {
					s.Points = append(s.Points, result.Point{X: share.median(), Y: 100 * float64(used) / float64(len(share))})
				}
			}
			if len(s.Points) > 0 {
				c.Series = append(c.Series, s)
			}
		}
	}
	return c
}

// costChart is what the optimizer reckons for either way.
func (x *crossoverRun) costChart(kind dataset.Shape) result.Chart {
	c := result.Chart{
		Title: fmt.Sprintf("Estimated cost, wide table, %s", kind),
		X:     result.Axis{Label: "rows in the box, % of the table", Log: true},
		Y:     result.Axis{Label: "cost, MySQL's unit", Log: true},
	}
	for _, of := range []struct {
		name string
		cost func(boxSeen) float64
	}{
		{"index on (lat, lng)", func(b boxSeen) float64 { return b.index.cost }},
		{"table scan", func(b boxSeen) float64 { return b.scan.cost }},
		{"R-tree", func(b boxSeen) float64 { return b.rtree.cost }},
	} {
		s := result.Series{Name: of.name}
		for i := range x.size.grid {
			var share, cost values
			for _, set := range x.of(kind) {
				if v := of.cost(set.boxes[i]); v > 0 {
					share, cost = append(share, set.boxes[i].share), append(cost, v)
				}
			}
			if len(cost) > 0 {
				s.Points = append(s.Points, result.Point{X: share.median(), Y: cost.median(), Lo: cost.min(), Hi: cost.max()})
			}
		}
		if len(s.Points) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// timeChart is what either way took, for the first timed data set of a kind: the
// boxes of several do not have the same shares.
func (x *crossoverRun) timeChart(kind dataset.Shape) result.Chart {
	c := result.Chart{
		Title: fmt.Sprintf("Measured time, wide table, %s", kind),
		X:     result.Axis{Label: "rows in the box, % of the table", Log: true},
		Y:     result.Axis{Label: "time, ms", Log: true},
	}
	for _, set := range x.of(kind) {
		if len(set.timed) == 0 {
			continue
		}
		for _, of := range []struct {
			name string
			time func(timedBox) *result.Timing
		}{
			{"free choice", func(b timedBox) *result.Timing { return &b.free }},
			{"index forced", func(b timedBox) *result.Timing { return &b.forced }},
			{"table scan", func(b timedBox) *result.Timing { return &b.scan }},
			{"R-tree forced", func(b timedBox) *result.Timing { return b.rtree }},
		} {
			s := result.Series{Name: of.name}
			for _, b := range set.timed {
				if t := of.time(b); t != nil {
					s.Points = append(s.Points, timePoint(b.share, *t))
				}
			}
			if len(s.Points) > 0 {
				c.Series = append(c.Series, s)
			}
		}
		break
	}
	return c
}

// timePoint is a median with the runs' range.
func timePoint(x float64, t result.Timing) result.Point {
	return result.Point{X: x, Y: t.Median, Lo: t.Min, Hi: t.Max}
}

func (x *crossoverRun) crossGrid() result.Grid {
	g := result.Grid{
		Title:   "Where the optimizer leaves the index of the wide table",
		Columns: []string{"data", "sets #", "in the box, % #", "least #", "most #", "in the band, % #", "always used #", "never used #"},
		Rows:    [][]string{},
	}
	for _, kind := range kinds {
		sets := x.of(kind)
		share, band, never, always := crossings(sets)
		g.Rows = append(g.Rows, []string{
			string(kind), fmt.Sprint(len(sets)), figure(share.median()), figure(share.min()), figure(share.max()),
			figure(band.median()), fmt.Sprint(always), fmt.Sprint(never),
		})
	}
	return g
}

func (x *crossoverRun) timedGrid() result.Grid {
	g := result.Grid{
		Title: "The boxes that were executed (medians in ms, ± half of the middle half)",
		Columns: []string{"data", "in the box, % #", "in the band, % #", "rows #", "free choice", "cost, index/scan #",
			"free #", "index forced #", "scan #", "R-tree forced #", "scan/index #"},
		Rows: [][]string{},
	}
	for _, s := range x.sets {
		for _, b := range s.timed {
			choice, rtree := "scan", "-"
			if b.used {
				choice = "index"
			}
			if b.rtree != nil {
				rtree = millis(*b.rtree)
			}
			g.Rows = append(g.Rows, []string{
				string(s.kind), figure(b.share), figure(b.band), grouped(int64(b.rows)), choice, figure(b.costRatio),
				millis(b.free), millis(b.forced), millis(b.scan), rtree, figure(speed(b).mid),
			})
		}
	}
	return g
}
