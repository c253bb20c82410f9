package table

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/geo"
)

// errStopped ends a reading whose consumer has had enough.
var errStopped = errors.New("stopped")

// The kinds of result.Problem.
const (
	KindNull      = "null"
	KindNotNumber = "not-a-number"
	KindRange     = "out-of-range"
	KindSwapped   = "swapped"
	KindZero      = "zero-zero"
	KindText      = "number-as-text"
	KindFloat     = "float-precision"
	KindCoarse    = "coarse-precision"
	KindDuplicate = "duplicate-id"
	KindIDType    = "id-not-integer"
	KindIDForm    = "id-form"
	KindView      = "view"
	KindPartition = "partitioned"
	KindEngine    = "storage-engine"
	KindWhere     = "where"
	KindChanged   = "changed"
)

// tally counts what is wrong with the rows of one reading.
type tally struct {
	src     *Source
	rows    int
	kept    int // of them in the sample and usable
	counts  map[fault2]*count
	density dataset.Density
}

// fault2 is a kind of fault in a column.
type fault2 struct{ kind, column string }

type count struct {
	n       int
	example string
}

func newTally(s *Source) tally {
	return tally{src: s, counts: make(map[fault2]*count)}
}

func (t *tally) note(r *row, kind, column string) {
	c := t.counts[fault2{kind, column}]
	if c == nil {
		c = &count{}
		t.counts[fault2{kind, column}] = c
	}
	c.n++
	if c.example == "" && r.id != nil {
		c.example = t.src.idText(r.id)
	}
}

// add counts a row, and sets its place.
func (t *tally) add(r *row) {
	s := t.src
	t.rows++
	at, latFault, lngFault := s.place(r)
	for _, f := range []struct {
		fault fault
		col   *column
	}{{latFault, &s.lat}, {lngFault, &s.lng}} {
		switch f.fault {
		case isNull:
			t.note(r, KindNull, f.col.name)
		case notNumber:
			t.note(r, KindNotNumber, f.col.name)
		case outOfRange:
			t.note(r, KindRange, f.col.name)
		case swapped:
			t.note(r, KindSwapped, f.col.name)
		case fine:
			if f.col.isText() {
				t.note(r, KindText, f.col.name)
			}
		}
	}
	if r.id == nil {
		t.note(r, KindNull, s.id.name)
	} else if s.opaque(r.id) {
		t.note(r, KindIDForm, s.id.name)
	}
	if r.again {
		t.note(r, KindDuplicate, s.id.name)
	}
	if latFault != fine || lngFault != fine {
		return
	}
	r.at, r.usable = at, true
	if at == (geo.LatLng{}) {
		t.note(r, KindZero, s.lat.name)
	}
	t.density.Add(at)
}

func (t *tally) count(kind string) int {
	n := 0
	for k, c := range t.counts {
		if k.kind == kind {
			n += c.n
		}
	}
	return n
}

// texts say what a kind of fault is and what becomes of such rows. %s is the column.
var problemTexts = []struct{ kind, text string }{
	{KindNull, "%s is NULL: these rows have no place, or no name to be found by, and are in no answer."},
	{KindNotNumber, "%s is no number in plain decimal notation (37.5; not 37,5 or 37°30'): these rows are in no answer. In a plain query MySQL would take the digits in front, or 0, for the number."},
	{KindRange, "%s is outside its range (latitude -90..90, longitude -180..180): these rows are in no answer."},
	{KindSwapped, "%s is beyond 90 and the longitude would do as a latitude: the two look swapped. These rows are in no answer; correct them where they come from."},
	{KindZero, "%s and the longitude are both 0, off the coast of Africa: often a place that was not known. These rows are used."},
	{KindText, "%s holds numbers as text. They are used; no index on text serves a range of numbers, so the DDL adds generated columns of numbers."},
	{KindDuplicate, "%s has the value of another row: of rows with one id only the first is among the jobs. All of them are in the copy of the table."},
	{KindIDForm, "%s is binary or no plain line of text: jobs are named by its hexadecimal form (or SHA-256, where that is too long)."},
}

// problems lists the kinds of fault in a fixed order: those of the rows as in problemTexts, and then
// those of the columns and the table.
func (s *Source) problems() []result.Problem {
	all := []result.Problem{}
	for _, p := range problemTexts {
		var keys []fault2
		for k := range s.tally.counts {
			if k.kind == p.kind {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, func(a, b fault2) int { return cmp.Compare(a.column, b.column) })
		for _, k := range keys {
			c := s.tally.counts[k]
			all = append(all, result.Problem{Kind: k.kind, Column: k.column, Count: c.n, Example: c.example, Text: fmt.Sprintf(p.text, k.column)})
		}
	}
	about := func(kind, column, format string, args ...any) {
		n := s.tally.rows
		if n == 0 {
			n = s.rows
		}
		all = append(all, result.Problem{Kind: kind, Column: column, Count: n, Text: fmt.Sprintf(format, args...)})
	}
	for _, c := range []*column{&s.lat, &s.lng} {
		switch {
		case c.dataType == "float":
			about(KindFloat, c.name, "%s is FLOAT, which moves a point by up to 0.9 m, and which MySQL prints with six digits, up to 56 m off: want DOUBLE, or DECIMAL(9,6).", c.name)
		case c.isInteger():
			about(KindCoarse, c.name, "%s is %s, whole degrees: up to 56 km off. Want DOUBLE, or DECIMAL(9,6).", c.name, c.fullType)
		case c.dataType == "decimal" && c.scale.Valid && c.scale.Int64 < 5:
			about(KindCoarse, c.name, "%s is %s: up to %.3g m off. Want DOUBLE, or DECIMAL(9,6).", c.name, c.fullType,
				0.5*math.Pow10(-int(c.scale.Int64))*math.Pi/180*geo.EarthRadius)
		}
	}
	if !s.id.isInteger() {
		about(KindIDType, s.id.name, "%s is %s: the jobs of the laboratory have numbers of their own, and carry it as source_id.", s.id.name, s.id.fullType)
	}
	if s.view {
		about(KindView, "", "%s is a view, which has no indexes: the DDL makes a table beside it.", s.Name())
	}
	if s.partitioned {
		about(KindPartition, "", "%s is partitioned, which MySQL does not do with spatial columns: spatial is not among the advice.", s.Name())
	}
	if !s.view && !s.innoDB() {
		about(KindEngine, "", "%s is kept by %s, and not by InnoDB: there are no R-trees for places on the earth, so that spatial is not among the advice. The copy is InnoDB's.", s.Name(), s.engine)
	}
	if s.cfg.Where != "" {
		about(KindWhere, "", "Only rows with (%s) were copied. The printed queries do not repeat it: it goes to every innermost WHERE.", s.cfg.Where)
	}
	return all
}
