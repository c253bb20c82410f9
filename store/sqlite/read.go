package sqlite

import (
	"context"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
)

// chunk is how many candidates yield gets at a time.
const chunk = 256

// Read implements [store.Reader].
func (e *Engine) Read(ctx context.Context, a store.Access, yield func([]store.Candidate) error) (statements int, err error) {
	qs, err := build(&a)
	if err != nil || len(qs) == 0 {
		return 0, err
	}
	var foreign error // yield's own error, which is nobody's to translate
	err = e.read(ctx, func(c *conn) error {
		for i := range qs {
			statements++
			if err := c.candidates(&qs[i], func(cs []store.Candidate) error {
				foreign = yield(cs)
				return foreign
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if foreign != nil {
		err = foreign
	}
	return statements, err
}

// candidates runs a query and hands over its rows.
func (c *conn) candidates(q *query, yield func([]store.Candidate) error) error {
	s, err := c.prepare(q.sql, q.args...)
	if err != nil {
		return err
	}
	defer s.Reset()
	var buf [chunk]store.Candidate
	n := 0
	var category, employer string
	for s.Step() {
		k := &buf[n]
		*k = store.Candidate{
			ID:      store.ID(s.ColumnInt64(0)),
			At:      geo.LatLng{Lat: s.ColumnFloat(1), Lng: s.ColumnFloat(2)},
			Pay:     s.ColumnInt64(3),
			Posted:  s.ColumnInt64(4),
			Expires: s.ColumnInt64(5),
		}
		col := 6
		if q.category {
			category = columnText(s, col, category)
			k.Category = category
			col++
		}
		if q.employer {
			employer = columnText(s, col, employer)
			k.Employer = employer
			col++
		}
		if q.number {
			k.Number = s.ColumnInt64(col)
		}
		if n++; n == chunk {
			if err := yield(buf[:n]); err != nil {
				return err
			}
			n = 0
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if n > 0 {
		return yield(buf[:n])
	}
	return nil
}

// columnText reads a text without an allocation where it is the one before.
func columnText(s *sqlite3.Stmt, col int, last string) string {
	b := s.ColumnRawText(col)
	if string(b) == last {
		return last
	}
	return string(b)
}

// Explain implements [store.Reader]. The statements are planned, not run.
func (e *Engine) Explain(ctx context.Context, a store.Access) ([]store.Statement, error) {
	qs, err := build(&a)
	if err != nil {
		return nil, err
	}
	out := make([]store.Statement, 0, len(qs))
	err = e.read(ctx, func(c *conn) error {
		for _, q := range qs {
			var p plan
			err := c.run(func(s *sqlite3.Stmt) error {
				p = append(p, step{id: s.ColumnInt64(0), parent: s.ColumnInt64(1), detail: s.ColumnText(3)})
				return nil
			}, "EXPLAIN QUERY PLAN "+q.sql, q.args...)
			if err != nil {
				return err
			}
			out = append(out, store.Statement{SQL: q.sql, Args: q.args, Plan: p.String()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// plan is the answer of EXPLAIN QUERY PLAN.
type plan []step

type step struct {
	id, parent int64
	detail     string
}

// String draws the plan as SQLite's shell does.
func (p plan) String() string {
	var b strings.Builder
	b.WriteString("QUERY PLAN\n")
	p.draw(&b, 0, "")
	return b.String()
}

func (p plan) draw(b *strings.Builder, parent int64, indent string) {
	last := -1
	for i, s := range p {
		if s.parent == parent {
			last = i
		}
	}
	for i, s := range p {
		if s.parent != parent {
			continue
		}
		branch, below := "|--", "|  "
		if i == last {
			branch, below = "`--", "   "
		}
		b.WriteString(indent + branch + s.detail + "\n")
		p.draw(b, s.id, indent+below)
	}
}
