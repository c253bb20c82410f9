package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nearjob/nearjob/bench/plan"
)

// planned is what the optimizer means to do with a statement.
type planned struct {
	text string
	root *plan.Node
	cost float64
	rows float64
}

// explain returns the plan of a query without running it.
func (s *session) explain(ctx context.Context, q query) (planned, error) {
	var p planned
	if err := s.conn.QueryRowContext(ctx, "EXPLAIN FORMAT=TREE "+q.sql, q.args...).Scan(&p.text); err != nil {
		return p, fmt.Errorf("explain %.60s: %w", q.sql, err)
	}
	plans, err := plan.Parse(strings.NewReader(p.text))
	if err != nil {
		return p, fmt.Errorf("read the plan of %.60s: %w", q.sql, err)
	}
	p.root = plans[0].Root
	if c := p.root.EstimatedCost; c != nil {
		p.cost = *c
	}
	if r := p.root.EstimatedRows; r != nil {
		p.rows = *r
	}
	return p, nil
}

// ranged reports whether the plan reads a range of an index, and not all of the
// table or of an index.
func (p planned) ranged(index string) bool {
	for _, n := range p.root.All() {
		if n.Kind == plan.IndexRange && n.Index == index {
			return true
		}
	}
	return false
}

// has reports whether the plan has a node of a kind.
func (p planned) has(kind plan.Kind) bool {
	for _, n := range p.root.All() {
		if n.Kind == kind {
			return true
		}
	}
	return false
}

// summary names the operations of a plan in a line, from the outside in.
func (p planned) summary() string {
	var parts []string
	for _, n := range p.root.All() {
		part := string(n.Kind)
		if n.Index != "" {
			part += " on " + n.Index
			if n.Covering {
				part += " (covering)"
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " < ")
}

// estimate is what the optimizer expects of an access.
type estimate struct {
	rows, cost float64
}

// weighed is what the optimizer weighed up for the one table of a statement.
type weighed struct {
	scan    estimate
	indexes map[string]estimate
}

// weigh returns what the optimizer considered for a query, from its trace: also
// the cost of what it did not choose. The cost that EXPLAIN shows with FORCE INDEX
// is no use, since the optimizer then looks at nothing (cost 0.71 for one row,
// whatever is read).
func (s *session) weigh(ctx context.Context, q query) (w weighed, err error) {
	if err := s.exec(ctx, "SET SESSION optimizer_trace = 'enabled=on'"); err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, s.exec(ctx, "SET SESSION optimizer_trace = 'enabled=off'")) }()
	if _, err := s.explain(ctx, q); err != nil {
		return w, err
	}
	var trace string
	var missing int
	row := s.conn.QueryRowContext(ctx, "SELECT TRACE, MISSING_BYTES_BEYOND_MAX_MEM_SIZE FROM information_schema.OPTIMIZER_TRACE")
	if err := row.Scan(&trace, &missing); err != nil {
		return w, fmt.Errorf("read the optimizer trace: %w", err)
	}
	if missing > 0 {
		return w, fmt.Errorf("read the optimizer trace: %d bytes are missing: raise optimizer_trace_max_mem_size", missing)
	}
	return parseTrace([]byte(trace))
}

// errNoRanges is a trace in which the optimizer looked at no index range.
var errNoRanges = errors.New("the optimizer trace holds no range analysis: is the hypergraph optimizer on (optimizer_switch)?")

// parseTrace finds the range analysis in an optimizer trace, the first there is.
func parseTrace(trace []byte) (weighed, error) {
	var tree any
	if err := json.Unmarshal(trace, &tree); err != nil {
		return weighed{}, fmt.Errorf("read the optimizer trace: %w", err)
	}
	found, ok := member(tree, "range_analysis")
	if !ok {
		return weighed{}, errNoRanges
	}
	// What was decoded can be encoded.
	part, err := json.Marshal(found)
	if err != nil {
		return weighed{}, fmt.Errorf("read the optimizer trace: %w", err)
	}
	var analysis struct {
		Scan struct {
			Rows float64 `json:"rows"`
			Cost float64 `json:"cost"`
		} `json:"table_scan"`
		Alternatives struct {
			Scans []struct {
				Index string  `json:"index"`
				Rows  float64 `json:"rows"`
				Cost  float64 `json:"cost"`
			} `json:"range_scan_alternatives"`
		} `json:"analyzing_range_alternatives"`
	}
	if err := json.Unmarshal(part, &analysis); err != nil {
		return weighed{}, fmt.Errorf("read the optimizer trace: %w", err)
	}
	w := weighed{scan: estimate{analysis.Scan.Rows, analysis.Scan.Cost}, indexes: make(map[string]estimate)}
	for _, a := range analysis.Alternatives.Scans {
		w.indexes[a.Index] = estimate{a.Rows, a.Cost}
	}
	return w, nil
}

// member looks for a member of a name in a JSON value, depth first.
func member(v any, name string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if m, ok := v[name]; ok {
			return m, true
		}
		for _, m := range v {
			if found, ok := member(m, name); ok {
				return found, true
			}
		}
	case []any:
		for _, m := range v {
			if found, ok := member(m, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}
