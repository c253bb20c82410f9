package table

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// errDiscard makes database/sql close a connection rather than take it back.
var errDiscard = driver.ErrBadConn

// SourceName is the Source of all jobs from a table.
const SourceName = "table"

// progressEvery so many rows Progress is told.
const progressEvery = 10_000

// row is a row as it was read. The slices are only valid until the next one.
type row struct {
	id       []byte // nil for NULL
	lat, lng []byte // as text; nil for NULL
	at       geo.LatLng
	usable   bool // at is a place
	again    bool // its id came before
}

// Jobs reads the table and hands out its usable rows in the order of their ids, as
// open jobs with numbers of their own: Source is [SourceName], SourceID the row's id as text (see
// the package's Problems for ids that are none). With [Config.Sample] it hands out about so many, chosen
// by a hash of the id. An error ends it. Reading again starts anew.
func (s *Source) Jobs(ctx context.Context) iter.Seq2[store.Job, error] {
	return func(yield func(store.Job, error) bool) {
		ids, err := store.NewIDs(s.cfg.now(), 0)
		if err != nil {
			yield(store.Job{}, fmt.Errorf("make ids: %w", err))
			return
		}
		posted := s.cfg.now()().UTC().Truncate(time.Millisecond)
		stopped := false
		err = s.each(ctx, "reading", func(r row) error {
			if !r.usable || r.again || r.id == nil {
				return nil
			}
			j := store.Job{
				ID: ids.Next(), Source: SourceName, SourceID: s.idText(r.id), Title: s.idText(r.id),
				At: r.at, State: store.Open, Posted: posted,
			}
			if err := j.Normalize(); err != nil {
				return fmt.Errorf("row %s of %s: %w", j.SourceID, s.Name(), err)
			}
			if !yield(j, nil) {
				stopped = true
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(store.Job{}, err)
		}
	}
}

// each reads all rows in the order of their ids, counts what is wrong with them, and hands those of
// the sample to f.
func (s *Source) each(ctx context.Context, what string, f func(row) error) error {
	s.tally = newTally(s)
	keep := s.keep()
	what += " " + s.Name()
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.reading(outer, ReadLimit.Milliseconds(), func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, s.selectRows())
		if err != nil {
			return s.readError(outer, err)
		}
		defer rows.Close()
		// Runs first: on an error the rest is not fetched, as Close would, but the connection cut.
		defer cancel()
		var id, lat, lng sql.RawBytes
		var before []byte
		for n := 0; rows.Next(); n++ {
			if n%progressEvery == 0 {
				s.cfg.progress(n, max(n, s.rows), what)
			}
			if err := rows.Scan(&id, &lat, &lng); err != nil {
				return fmt.Errorf("read %s: %w", s.Name(), err)
			}
			r := row{id: id, lat: lat, lng: lng}
			r.again = n > 0 && id != nil && before != nil && bytes.Equal(id, before)
			if before = append(before[:0], id...); id == nil {
				before = nil
			}
			s.tally.add(&r)
			if !keep(id) {
				continue
			}
			if r.usable {
				s.tally.kept++
			}
			if err := f(r); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return s.readError(outer, err)
		}
		if err := rows.Close(); err != nil {
			return s.readError(outer, err)
		}
		s.cfg.progress(s.tally.rows, s.tally.rows, what)
		return nil
	})
}

// selectRows reads the columns as text, from which the driver's text protocol gives a
// DOUBLE with all its digits, but a FLOAT with six.
func (s *Source) selectRows() string {
	as := func(c column) string {
		if c.dataType == "float" {
			return "CAST(" + quote(c.name) + " AS DOUBLE)"
		}
		return quote(c.name)
	}
	q := "SELECT " + quote(s.id.name) + ", " + as(s.lat) + ", " + as(s.lng) + s.from() + " ORDER BY " + quote(s.id.name)
	if !s.unique() {
		// Equal bytes must be neighbours, also where the collation takes others for equal.
		q += ", CAST(" + quote(s.id.name) + " AS BINARY)"
	}
	return q
}

// keep returns the choice of the sample: a hash of seed and id below the part that is wanted.
// So the same rows are chosen again, and a row that is added changes nothing for the others.
func (s *Source) keep() func(id []byte) bool {
	if !s.Sampled() {
		return func([]byte) bool { return true }
	}
	below := uint64(float64(s.cfg.Sample) / float64(s.rows) * (1 << 63) * 2)
	return func(id []byte) bool { return hash(s.cfg.Seed, id) < below }
}

// hash is FNV-1a over the seed and the id, mixed (the finalizer of SplitMix64) since FNV's
// upper bits hardly change with the last bytes.
func hash(seed uint64, id []byte) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write(id)
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// idText is the id as a job carries it: as it is where a job's source_id can be that
// (one line of text, no leading, trailing or double spaces), otherwise in hexadecimal,
// or, where that is too long, its SHA-256.
func (s *Source) idText(id []byte) string {
	if !s.opaque(id) {
		return string(id)
	}
	if t := "0x" + hex.EncodeToString(id); len(t) <= store.MaxSourceID {
		return t
	}
	sum := sha256.Sum256(id)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *Source) opaque(id []byte) bool {
	if s.id.dataType == "binary" || s.id.dataType == "varbinary" || len(id) == 0 || !utf8.Valid(id) {
		return true
	}
	t := string(id)
	return utf8.RuneCountInString(t) > store.MaxSourceID || strings.Join(strings.Fields(t), " ") != t ||
		strings.ContainsFunc(t, unicode.IsControl) || strings.HasPrefix(t, "0x") || strings.HasPrefix(t, "sha256:")
}

// fault is what is wrong with a coordinate or a pair of them.
type fault int

const (
	fine fault = iota
	isNull
	notNumber
	outOfRange
	swapped
)

// degreesText is plain decimal notation. The same expression stands in the DDL for columns of
// text: what is a number here is one there.
var degreesText = regexp.MustCompile(`^[-+]?([0-9]{1,9}([.][0-9]*)?|[.][0-9]+)$`)

// parseDegrees reads a coordinate. MySQL's TRIM takes away spaces only.
func parseDegrees(c *column, b []byte) (float64, bool) {
	t := string(b)
	if c.isText() {
		if t = strings.Trim(t, " "); !degreesText.MatchString(t) {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(t, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// place reads the two coordinates of a row and says what is wrong with each.
func (s *Source) place(r *row) (at geo.LatLng, latFault, lngFault fault) {
	read := func(c *column, b []byte, v *float64) fault {
		if b == nil {
			return isNull
		}
		var ok bool
		if *v, ok = parseDegrees(c, b); !ok {
			return notNumber
		}
		return fine
	}
	var lat, lng float64
	latFault, lngFault = read(&s.lat, r.lat, &lat), read(&s.lng, r.lng, &lng)
	switch {
	case latFault == fine && lngFault == fine && math.Abs(lat) > 90 && math.Abs(lat) <= 180 && math.Abs(lng) <= 90:
		return at, swapped, fine
	case latFault == fine && math.Abs(lat) > 90:
		latFault = outOfRange
	}
	if lngFault == fine && math.Abs(lng) > 180 {
		lngFault = outOfRange
	}
	if latFault == fine && lngFault == fine {
		var err error
		if at, err = geo.NewLatLng(lat, lng); err != nil { // it checks the same
			latFault = outOfRange
		}
	}
	return at, latFault, lngFault
}
