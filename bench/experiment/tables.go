package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/geo/cell"
	"github.com/nearjob/nearjob/store"
)

// The tables. "job" is as most teams have it: the record by its id, with a
// composite index on the coordinates. "open_job" is Nearjob's search table
// without the keys that no statement here reads: a SPATIAL key alone would take
// most of the time of loading. The rows of one data set are put together from
// "record" (all but the place, loaded once) and "place", so that only the
// coordinates travel for the next.
const (
	recordColumns = "id, title, description, url, category, employer, pay, currency, pay_per, status, views, posted, updated, expires"

	recordFields = `
  id          BIGINT        NOT NULL,
  title       VARCHAR(300)  NOT NULL,
  description VARCHAR(4000) NOT NULL,
  url         VARCHAR(2000) NOT NULL,
  category    VARCHAR(64)   NOT NULL,
  employer    VARCHAR(200)  NOT NULL,
  pay         BIGINT        NOT NULL,
  currency    CHAR(3)       NOT NULL,
  pay_per     VARCHAR(5)    NOT NULL,
  status      VARCHAR(10)   NOT NULL,
  views       INT           NOT NULL,
  posted      BIGINT        NOT NULL,
  updated     BIGINT        NOT NULL,
  expires     BIGINT        NOT NULL`
	placeFields = `,
  lat DOUBLE NOT NULL,
  lng DOUBLE NOT NULL`

	// Temporary, since only the one session reads it: making it anew costs nothing.
	createPlace = `CREATE TEMPORARY TABLE place (
  id      BIGINT NOT NULL,
  lat     DOUBLE NOT NULL,
  lng     DOUBLE NOT NULL,
  s2      BIGINT NOT NULL,
  h3      BIGINT NOT NULL,
  geohash BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE = InnoDB`

	createNarrow = `CREATE TABLE open_job (
  id       BIGINT       NOT NULL,
  lat      DOUBLE       NOT NULL,
  lng      DOUBLE       NOT NULL,
  pt       POINT GENERATED ALWAYS AS (ST_SRID(POINT(lng, lat), 4326)) STORED NOT NULL SRID 4326,
  s2       BIGINT       NOT NULL,
  h3       BIGINT       NOT NULL,
  geohash  BIGINT       NOT NULL,
  category VARCHAR(64)  NOT NULL,
  employer VARCHAR(200) NOT NULL,
  pay      BIGINT       NOT NULL,
  posted   BIGINT       NOT NULL,
  expires  BIGINT       NOT NULL,
  PRIMARY KEY (s2, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_bin`

	narrowKey = "KEY lat_lng (lat, lng, expires, pay, posted, category)"
	wideKey   = "KEY lat_lng (lat, lng)"
)

// descriptionBytes is what a description is filled up to: the generated ones are
// short, and real ones are what makes a table wide.
const descriptionBytes = 400

// The sizes of an INSERT: far below max_allowed_packet.
const (
	recordsEach = 1000
	placesEach  = 2000
)

// center is the building that all searches are around.
func center() geo.LatLng { return dataset.Seoul() }

// jobs yields n generated jobs that have a place, remote ones left out, the newest
// about as old as posted.
func jobs(shape dataset.Shape, seed uint64, n int, posted time.Time, yield func(i int, j *store.Job) error) error {
	c := dataset.Config{Rows: n + n/10 + 100, Shape: shape, Center: center(), Seed: seed, Posted: posted}
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return err
	}
	i := 0
	for j := range c.Jobs() {
		if j.Remote {
			continue
		}
		if i == n {
			return nil
		}
		if err := yield(i, &j); err != nil {
			return err
		}
		i++
	}
	if i < n {
		return fmt.Errorf("the data set %s has %d rows with a place, not %d", shape, i, n)
	}
	return nil
}

// loadRecords makes the table record with ids 1 to n. Nearly all are open at now.
func (s *session) loadRecords(ctx context.Context, seed uint64, n int, now time.Time) error {
	if err := s.exec(ctx, "DROP TABLE IF EXISTS record", createWide("record", recordFields)); err != nil {
		return err
	}
	in := inserter{s: s, into: "record (" + recordColumns + ")", columns: 14, each: recordsEach}
	err := jobs(dataset.Dense, seed, n, now, func(i int, j *store.Job) error {
		description := j.Description + " "
		description = strings.Repeat(description, 1+(descriptionBytes-1)/len(description))
		posted := store.Millis(j.Posted)
		return in.add(ctx, i+1, j.Title, description, "https://jobs.example/"+j.SourceID, j.Category, j.Employer,
			j.Pay.Amount, j.Pay.Currency, j.Pay.Per, "open", (i*7919)%1000, posted, posted, store.ExpiryMillis(j.Expires))
	})
	if err != nil {
		return err
	}
	return in.flush(ctx)
}

// places returns the places of n jobs.
func places(shape dataset.Shape, seed uint64, n int) ([]geo.LatLng, error) {
	points := make([]geo.LatLng, 0, n)
	err := jobs(shape, seed, n, dataset.DefaultPosted(), func(_ int, j *store.Job) error {
		points = append(points, j.At)
		return nil
	})
	return points, err
}

// loadPlaces makes the table place anew: the i-th point is that of record i+1.
func (s *session) loadPlaces(ctx context.Context, points []geo.LatLng) error {
	if err := s.exec(ctx, "DROP TEMPORARY TABLE IF EXISTS place", createPlace); err != nil {
		return err
	}
	in := inserter{s: s, into: "place (id, lat, lng, s2, h3, geohash)", columns: 6, each: placesEach}
	for i, p := range points {
		if err := in.add(ctx, i+1, p.Lat, p.Lng, cell.S2.Index(p), cell.H3.Index(p), cell.Geohash.Index(p)); err != nil {
			return err
		}
	}
	return in.flush(ctx)
}

func createWide(table, fields string) string {
	return "CREATE TABLE " + table + " (" + fields + ",\n  PRIMARY KEY (id)\n) ENGINE = InnoDB"
}

// makeWide makes a wide table of the places that are loaded. Keys are added after
// the rows, which takes a fraction of the time.
func (s *session) makeWide(ctx context.Context, table string, keys ...string) error {
	return s.exec(ctx,
		"DROP TABLE IF EXISTS "+table,
		createWide(table, recordFields+placeFields),
		"INSERT INTO "+table+" ("+recordColumns+", lat, lng) SELECT record.*, lat, lng FROM place JOIN record USING (id) ORDER BY id",
		"ALTER TABLE "+table+" ADD "+strings.Join(keys, ", ADD "),
		"ANALYZE TABLE "+table,
	)
}

// makeNarrow makes open_job of the places that are loaded.
func (s *session) makeNarrow(ctx context.Context) error {
	return s.exec(ctx,
		"DROP TABLE IF EXISTS open_job",
		createNarrow,
		"INSERT INTO open_job (id, lat, lng, s2, h3, geohash, category, employer, pay, posted, expires)"+
			" SELECT id, lat, lng, s2, h3, geohash, category, employer, pay, posted, expires FROM place JOIN record USING (id) ORDER BY s2, id",
		"ALTER TABLE open_job ADD "+narrowKey,
		"ANALYZE TABLE open_job",
	)
}

// makeSpatial makes a table of the rows of the wide table "job" with an R-tree in
// place of the index on the coordinates. Where the axes come in another order,
// POINT does not care: it takes the longitude first, whatever the SRID.
func (s *session) makeSpatial(ctx context.Context, table string, srid, rows int) error {
	point := fmt.Sprintf("ST_SRID(POINT(lng, lat), %d)", srid)
	return s.exec(ctx,
		"DROP TABLE IF EXISTS "+table,
		createWide(table, recordFields+placeFields+fmt.Sprintf(",\n  pt POINT NOT NULL SRID %d", srid)),
		"INSERT INTO "+table+" ("+recordColumns+", lat, lng, pt) SELECT "+recordColumns+", lat, lng, "+point+
			fmt.Sprintf(" FROM job WHERE id <= %d ORDER BY id", rows),
		"ALTER TABLE "+table+" ADD SPATIAL KEY pt (pt)",
		"ANALYZE TABLE "+table,
	)
}

// inserter collects rows for INSERTs of many.
type inserter struct {
	s       *session
	into    string
	columns int
	each    int
	args    []any
}

func (in *inserter) add(ctx context.Context, row ...any) error {
	in.args = append(in.args, row...)
	if len(in.args) < in.each*in.columns {
		return nil
	}
	return in.flush(ctx)
}

func (in *inserter) flush(ctx context.Context) error {
	rows := len(in.args) / in.columns
	if rows == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", in.columns-1) + ")"
	_, err := in.s.conn.ExecContext(ctx, "INSERT INTO "+in.into+" VALUES "+row+strings.Repeat(", "+row, rows-1), in.args...)
	in.args = in.args[:0]
	if err != nil {
		return fmt.Errorf("load %d rows into %s: %w", rows, in.into, err)
	}
	return nil
}

// grown is a family of boxes around a centre, one for each share of the rows of
// a data set.
type grown struct {
	center  geo.LatLng
	points  []geo.LatLng
	reach   []float64 // half heights in degrees of the boxes that just hold each point, ascending
	stretch float64   // how many degrees of longitude stand for one of latitude
}

func grow(c geo.LatLng, points []geo.LatLng) grown {
	g := grown{center: c, points: points, stretch: 1 / math.Cos(c.Lat*math.Pi/180), reach: make([]float64, len(points))}
	for i, p := range points {
		g.reach[i] = max(math.Abs(p.Lat-c.Lat), math.Abs(p.Lng-c.Lng)/g.stretch)
	}
	slices.Sort(g.reach)
	return g
}

// box returns the box that holds about n points, 1 or more. It is as wide as it
// is high, on the ground.
func (g grown) box(n int) geo.Rect {
	half := g.reach[min(max(n, 1), len(g.reach))-1]
	half += 1e-9 // 0.1 mm, so that rounding does not leave out the point on the edge
	w := half * g.stretch
	return geo.Rect{
		South: g.center.Lat - half, North: g.center.Lat + half,
		West: g.center.Lng - w, East: g.center.Lng + w,
	}
}

// share returns which parts of the points, in percent, are inside a box and inside
// its band of latitudes: what an index on (lat, lng) has to read.
func (g grown) share(r geo.Rect) (inside, band float64) {
	n, b := g.count(r)
	return 100 * float64(n) / float64(len(g.points)), 100 * float64(b) / float64(len(g.points))
}

func (g grown) count(r geo.Rect) (inside, band int) {
	for _, p := range g.points {
		if p.Lat < r.South || p.Lat > r.North {
			continue
		}
		band++
		if p.Lng >= r.West && p.Lng <= r.East {
			inside++
		}
	}
	return inside, band
}

// rank returns how many of the points make a share given in percent, at least 1.
func (g grown) rank(share float64) int {
	return max(1, min(len(g.points), int(math.Round(share/100*float64(len(g.points))))))
}

// inBox is the condition for a box, with its arguments.
func inBox(r geo.Rect) (string, []any) {
	return "lat BETWEEN ? AND ? AND lng BETWEEN ? AND ?", []any{r.South, r.North, r.West, r.East}
}
