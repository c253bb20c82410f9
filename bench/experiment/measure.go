package experiment

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/nearjob/nearjob/bench/result"
)

// query is a statement with its arguments.
type query struct {
	sql  string
	args []any
}

// digest tells whether two statements return the same rows, in any order.
type digest struct {
	rows int
	sum  uint64
}

// add takes in one row.
func (d *digest) add(columns []sql.RawBytes) {
	h := fnv.New64a()
	var size [8]byte
	for _, c := range columns {
		// The length tells "a", "bc" from "ab", "c".
		binary.LittleEndian.PutUint64(size[:], uint64(len(c)))
		h.Write(size[:])
		h.Write(c)
	}
	d.rows++
	d.sum += h.Sum64() // a sum, so that the order has no part in it
}

// digest reads all rows of a query.
func (s *session) digest(ctx context.Context, q query) (digest, error) {
	var d digest
	err := s.each(ctx, q, d.add)
	return d, err
}

// drain reads all rows of a query and counts them.
func (s *session) drain(ctx context.Context, q query) (int, error) {
	n := 0
	err := s.each(ctx, q, func([]sql.RawBytes) { n++ })
	return n, err
}

// each hands every row to see, whose argument is only valid during the call.
func (s *session) each(ctx context.Context, q query, see func([]sql.RawBytes)) (err error) {
	rows, err := s.conn.QueryContext(ctx, q.sql, q.args...)
	if err != nil {
		return fmt.Errorf("%.60s: %w", q.sql, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row, to := make([]sql.RawBytes, len(names)), make([]any, len(names))
	for i := range row {
		to[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		see(row)
	}
	return rows.Err()
}

// side is one of the ways that are compared.
type side struct {
	name string
	query
}

// errDifferent says that there is nothing to compare.
var errDifferent = errors.New("the sides return different rows, so that their times cannot be compared")

// sameRows shows that all sides return the same rows, and how many.
func (s *session) sameRows(ctx context.Context, sides []side) (int, error) {
	var first digest
	for i, side := range sides {
		d, err := s.digest(ctx, side.query)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", side.name, err)
		}
		if i == 0 {
			first = d
		}
		if d != first {
			return 0, fmt.Errorf("%w: %q has %d, %q has %d", errDifferent, sides[0].name, first.rows, side.name, d.rows)
		}
	}
	return first.rows, nil
}

// repeats says how often something is timed.
type repeats struct {
	rounds int
	atMost time.Duration // no round starts after it, but for the first three
}

// leastRounds are needed for a median that one bad run does not decide.
const leastRounds = 3

// times times all sides in turns. Each round begins with another side, so that
// none always runs in the wake of the same other one.
func (s *session) times(ctx context.Context, r repeats, sides []side) ([]result.Timing, error) {
	all, err := inTurns(ctx, r, len(sides), func(i int) (time.Duration, error) {
		begin := time.Now()
		_, err := s.drain(ctx, sides[i].query)
		took := time.Since(begin)
		if err != nil {
			err = fmt.Errorf("%s: %w", sides[i].name, err)
		}
		return took, err
	})
	for _, t := range all {
		*s.spreads = append(*s.spreads, t.Spread)
	}
	return all, err
}

// inTurns calls run for each of n sides, once without counting it and then in
// rounds.
func inTurns(ctx context.Context, r repeats, n int, run func(i int) (time.Duration, error)) ([]result.Timing, error) {
	took := make([][]time.Duration, n)
	begin := time.Now()
	for round := -1; round < r.rounds; round++ {
		if round >= leastRounds && time.Since(begin) > r.atMost {
			break
		}
		for k := range n {
			i := (max(round, 0) + k) % n
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d, err := run(i)
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				took[i] = append(took[i], d)
			}
		}
	}
	all := make([]result.Timing, n)
	for i := range took {
		all[i] = result.NewTiming(took[i])
	}
	return all, nil
}
