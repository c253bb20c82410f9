package search

import (
	"context"
	"fmt"

	"github.com/nearjob/nearjob/store"
)

// Explanation shows what a strategy sent to the database. The statements that
// read remote jobs stand in the last round.
type Explanation struct {
	Rounds []Round `json:"rounds"`
}

// Round is one round of a strategy.
type Round struct {
	Statements []store.Statement `json:"statements"`
}

func (x *Explanation) add(ctx context.Context, r store.Reader, a store.Access) error {
	statements, err := r.Explain(ctx, a)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if len(x.Rounds) == 0 {
		x.Rounds = []Round{{}}
	}
	last := &x.Rounds[len(x.Rounds)-1]
	last.Statements = append(last.Statements, statements...)
	return nil
}
