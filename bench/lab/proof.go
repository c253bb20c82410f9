package lab

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// maxShown is how many differing rows a DifferenceError carries.
const maxShown = 5

// DifferenceError stops a run: two ways of answering one query gave different pages.
// It is a fault of a strategy, the engine or the database, and no figure of such a
// search means anything.
type DifferenceError struct {
	Set   string
	Rows  int
	Query store.Query
	// A and B say who answered: "brute force over the data set", "s2", "s2, forced".
	A, B string
	// LenA and LenB are the lengths of the pages, MoreA and MoreB whether there is a
	// next page.
	LenA, LenB   int
	MoreA, MoreB bool
	Differences  []RowDifference // the first ones, in the order of the page
}

// RowDifference is one row of two pages. An ID of 0 is no row.
type RowDifference struct {
	Row                  int // from 1
	IDA, IDB             store.ID
	DistanceA, DistanceB float64
}

// Error shows the query and the rows.
func (e *DifferenceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s and %s give different answers on %q with %d rows, to %s", e.A, e.B, e.Set, e.Rows, e.Query)
	fmt.Fprintf(&b, ": %d jobs%s against %d%s", e.LenA, more(e.MoreA), e.LenB, more(e.MoreB))
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "; row %d: %s against %s", d.Row, row(d.IDA, d.DistanceA), row(d.IDB, d.DistanceB))
	}
	return b.String()
}

func more(m bool) string {
	if m {
		return " and a next page"
	}
	return ""
}

func row(id store.ID, distance float64) string {
	if id == 0 {
		return "none"
	}
	// All digits: the difference may be in the last.
	return fmt.Sprintf("job %s at %v m", id, distance)
}

// answer is what a page says, whoever gave it.
type answer struct {
	by   string
	rows []hit
	more bool
}

func pageAnswer(by string, p *store.Page) answer {
	a := answer{by: by, rows: make([]hit, len(p.Jobs)), more: p.Next != ""}
	for i := range p.Jobs {
		a.rows[i] = hit{p.Jobs[i].Job.ID, p.Jobs[i].Distance}
	}
	return a
}

// bruteForce names the answer that needs no database.
const bruteForce = "brute force over the data set"

// compare returns nil for equal answers.
func compare(a, b answer) *DifferenceError {
	e := &DifferenceError{A: a.by, B: b.by, LenA: len(a.rows), LenB: len(b.rows), MoreA: a.more, MoreB: b.more}
	differ := len(a.rows) != len(b.rows) || a.more != b.more
	for i := range max(len(a.rows), len(b.rows)) {
		d := RowDifference{Row: i + 1}
		if i < len(a.rows) {
			d.IDA, d.DistanceA = a.rows[i].id, a.rows[i].distance
		}
		if i < len(b.rows) {
			d.IDB, d.DistanceB = b.rows[i].id, b.rows[i].distance
		}
		if d.IDA == d.IDB && math.Float64bits(d.DistanceA) == math.Float64bits(d.DistanceB) {
			continue
		}
		differ = true
		if len(e.Differences) < maxShown {
			e.Differences = append(e.Differences, d)
		}
	}
	if !differ {
		return nil
	}
	return e
}

// proved is what all strategies agreed on.
type proved struct {
	returned, within int
	free             map[string]store.Stats // by strategy
}

// prove runs one query through every strategy, free and forced, and compares the
// pages with what the data set itself says. fullscan, too, is forced here: away
// from every index.
func (r *run) prove(ctx context.Context, l *loaded, radius float64) (proved, error) {
	q := r.query(l.data, radius)
	hits := l.within(l.rows, radius)
	want := answer{by: bruteForce, rows: hits[:min(len(hits), q.Limit)], more: len(hits) > q.Limit}
	p := proved{returned: len(want.rows), within: len(hits), free: make(map[string]store.Stats)}
	cursor, cursorBy := "", ""
	for _, s := range r.c.strategies {
		for _, force := range []bool{false, true} {
			q.Strategy = s.Name()
			page, err := l.finder(force).Find(ctx, q)
			by := side(s.Name(), force)
			if err != nil {
				return p, fmt.Errorf("%s on %q with %d rows: %w", by, l.Name, l.rows, err)
			}
			got := pageAnswer(by, &page)
			if e := compare(want, got); e != nil {
				e.Set, e.Rows, e.Query = l.Name, l.rows, q
				return p, e
			}
			if s := page.Stats; s.Hits < len(page.Jobs) || s.Candidates < s.Hits {
				return p, fmt.Errorf("%s on %q with %d rows: %d jobs from %d hits among %d candidates cannot be: the statistics of %s are wrong",
					by, l.Name, l.rows, len(page.Jobs), s.Hits, s.Candidates, q)
			}
			switch {
			case cursorBy == "":
				cursor, cursorBy = page.Next, by
			case cursor != page.Next:
				return p, fmt.Errorf("%s and %s return the same rows on %q with %d rows but another cursor, to %s", cursorBy, by, l.Name, l.rows, q)
			}
			if !force {
				p.free[s.Name()] = page.Stats
			}
		}
	}
	return p, nil
}

func side(strategy string, force bool) string {
	if force {
		return strategy + ", forced"
	}
	return strategy
}

// forced makes the engine use the index of each access.
type forced struct{ search.Source }

var _ search.Source = forced{}

func (f forced) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (int, error) {
	a.Force = true
	return f.Source.Read(ctx, a, yield)
}

func (f forced) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	a.Force = true
	return f.Source.Explain(ctx, a)
}
