// Package result is what a run of the laboratory found: the data between those
// who measure (bench/lab, bench/experiment, bench/table) and those who show it
// (bench/report). As JSON it is the machine-readable part of a report.
//
// It measures nothing, renders nothing and judges nothing. Times are in
// milliseconds, distances in metres, costs in MySQL's unit, which has no name.
// Plans are kept as MySQL printed them; bench/plan reads them.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// SchemaVersion is the version of the JSON form. It grows when a field changes its
// meaning or goes away; new fields alone do not change it.
const SchemaVersion = 1

// Run is what one run of the laboratory found.
type Run struct {
	SchemaVersion int       `json:"schema_version"`
	Version       string    `json:"version"` // of Nearjob
	Made          time.Time `json:"made"`    // when the run ended, UTC
	Quick         bool      `json:"quick"`   // fewer sizes and repeats: for a first look only
	Settings      Settings  `json:"settings"`

	// Sets are the data sets in the order of the command line, Cases one search
	// each, ordered by set, rows, radius and strategy.
	Sets  []Set  `json:"sets"`
	Cases []Case `json:"cases"`

	Experiments []Experiment `json:"experiments"`

	// Table is the user's own table, or nil if none was named.
	Table *Table `json:"table,omitempty"`

	// Warnings say what a reader of the figures must know: what was left out, or
	// could not be measured, and why.
	Warnings []string `json:"warnings"`
}

// Settings are what shapes plans and times beside the data.
type Settings struct {
	Server  string `json:"server"`  // VERSION() and the version comment
	Machine string `json:"machine"` // operating system, architecture and cores of the laboratory's side
	// Container says that the laboratory started the server itself, in a container on
	// the same machine.
	Container bool `json:"container"`
	// Variables are the server's variables that bear on plans and times:
	// optimizer_switch, innodb_buffer_pool_size, transaction_isolation and more.
	Variables map[string]string `json:"variables"`
	Warm      bool              `json:"warm"` // every measured query ran before, so that its pages were in the buffer pool
}

// Set is a data set.
type Set struct {
	Name   string    `json:"name"`   // "dense", "sparse", "stacked", "cities", a file's name, a table's
	About  string    `json:"about"`  // in a sentence
	Center LatLng    `json:"center"` // of every search in it
	Sizes  []int     `json:"sizes"`  // rows, ascending
	Sums   []Sum     `json:"sums"`   // of each size
	Limit  int       `json:"limit"`  // jobs on a page
	Radii  []float64 `json:"radii_m"`
}

// LatLng is a place in degrees.
type LatLng struct {
	Lat float64 `json:"lat"`
	Lng float64 `json:"lng"`
}

// Sum is what a data set took to bring in, and takes on the server.
type Sum struct {
	Rows    int     `json:"rows"`
	Open    int     `json:"open"`    // rows of the search table
	LoadMS  float64 `json:"load_ms"` // for the rows added since the size before
	DataMB  float64 `json:"data_mb"` // the search table's clustered index
	IndexMB float64 `json:"index_mb"`
}

// Case is one search by one strategy: the same query for all strategies of one
// set, size and radius, which were shown to return the same rows before it was
// timed.
type Case struct {
	Set      string  `json:"set"`
	Rows     int     `json:"rows"`
	RadiusM  float64 `json:"radius_m"`
	Strategy string  `json:"strategy"`

	Returned int   `json:"returned"` // jobs on the page
	Within   int   `json:"within"`   // open jobs inside the circle, the same for all strategies
	Stats    Stats `json:"stats"`

	// Free leaves the choice of the index to the optimizer, as the service does;
	// Forced names it (FORCE INDEX). Forced is nil where the strategy reads no
	// index, so that there is nothing to force.
	Free   Side  `json:"free"`
	Forced *Side `json:"forced,omitempty"`
}

// Key names a case in files, links and messages.
func (c *Case) Key() string {
	return fmt.Sprintf("%s-%d-%s-%s", c.Set, c.Rows, Metres(c.RadiusM), c.Strategy)
}

// Metres prints a radius for a key: "1000m", "0.5m", "unlimited".
func Metres(m float64) string {
	if math.IsInf(m, 1) {
		return "unlimited"
	}
	return fmt.Sprintf("%vm", m)
}

// Stats is what a search cost beside its time (see store.Stats).
type Stats struct {
	Rounds     int `json:"rounds"`
	Statements int `json:"statements"`
	Candidates int `json:"candidates"`
	Hits       int `json:"hits"`
}

// Side is one of the two ways in which a case ran.
type Side struct {
	// Time is of the whole search, from the query to the page with its records,
	// without any EXPLAIN.
	Time Timing `json:"time"`
	// Statements are those that read the search table, in their order.
	Statements []Statement `json:"statements"`
}

// Statement is one statement with its plan.
type Statement struct {
	Round int      `json:"round"` // from 1
	SQL   string   `json:"sql"`
	Args  []string `json:"args"` // as SQL literals
	// Time is of the statement alone, with all rows read, without EXPLAIN.
	Time Timing `json:"time"`
	// Tree and JSON are EXPLAIN ANALYZE's output, FORMAT=TREE and FORMAT=JSON version
	// 2, of two executions.
	Tree     string          `json:"tree"`
	JSON     json.RawMessage `json:"json,omitempty"`
	Warnings []Warning       `json:"warnings"`
	// Trace is what the optimizer considered, or nil (a forced statement).
	Trace *Trace `json:"trace,omitempty"`
}

// Warning is a row of SHOW WARNINGS. The one with the rewritten query is left out.
type Warning struct {
	Level string `json:"level"`
	Code  int    `json:"code"`
	Text  string `json:"text"`
}

// Trace is the part of the optimizer trace that says why an index was chosen.
type Trace struct {
	// ScanRows and ScanCost are the estimates for reading the whole table.
	ScanRows float64 `json:"scan_rows"`
	ScanCost float64 `json:"scan_cost"`
	// Alternatives are the indexes considered, in the trace's order.
	Alternatives []Alternative `json:"alternatives"`
	// Chosen is the access of the final plan in words: "table scan", "range on lat_lng".
	Chosen     string  `json:"chosen"`
	ChosenCost float64 `json:"chosen_cost"`
	// Cause is why in one plain sentence, from the figures above.
	Cause string `json:"cause"`
	// MissingBytes were cut off the trace by optimizer_trace_max_mem_size.
	MissingBytes int `json:"missing_bytes"`
}

// Alternative is one index that the optimizer looked at.
type Alternative struct {
	Index     string  `json:"index"`
	Usable    bool    `json:"usable"`
	Ranges    int     `json:"ranges"`
	Rows      float64 `json:"rows"`
	Cost      float64 `json:"cost"`
	IndexOnly bool    `json:"index_only"`
	Dives     bool    `json:"dives"`  // rows are counted by index dives, not guessed by statistics
	Chosen    bool    `json:"chosen"` // over the scan and the alternatives before it
	Cause     string  `json:"cause"`  // MySQL's word: "cost", "no_spatial_support", "heuristic"
}

// Timing is the distribution of repeated runs in milliseconds.
type Timing struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median_ms"`
	P95    float64 `json:"p95_ms"`
	Min    float64 `json:"min_ms"`
	Max    float64 `json:"max_ms"`
	// Spread is the half width of the middle half of the runs, as a part of the
	// median: (q3 - q1) / 2 / median.
	Spread float64 `json:"spread"`
}

// NewTiming sums runs up. Quantiles are interpolated linearly between the closest
// ranks (R's type 7). No runs give the zero Timing.
func NewTiming(runs []time.Duration) Timing {
	if len(runs) == 0 {
		return Timing{}
	}
	ms := make([]float64, len(runs))
	for i, d := range runs {
		ms[i] = float64(d.Nanoseconds()) / 1e6
	}
	slices.Sort(ms)
	t := Timing{
		Runs: len(ms), Median: quantile(ms, 0.5), P95: quantile(ms, 0.95),
		Min: ms[0], Max: ms[len(ms)-1],
	}
	if t.Median > 0 {
		t.Spread = (quantile(ms, 0.75) - quantile(ms, 0.25)) / 2 / t.Median
	}
	return t
}

// quantile of sorted values, which must not be empty.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Experiment is one of the questions that started it all, asked again.
type Experiment struct {
	Name     string `json:"name"`     // "crossover"
	Title    string `json:"title"`    // "When does the optimizer give up an index?"
	Question string `json:"question"` // in a sentence or two: what is compared, on what
	// Findings set what was published beside ours, one claim each.
	Findings []Finding `json:"findings"`
	Charts   []Chart   `json:"charts"`
	Grids    []Grid    `json:"grids"`
	// Notes say how it was measured, and what would change the answer.
	Notes []string `json:"notes"`
	Quick bool     `json:"quick"` // fewer rows and repeats: for a first look only
}

// Finding is one published claim and what was seen.
type Finding struct {
	Claim     string  `json:"claim"`     // "the index is kept up to so much of the table"
	Published string  `json:"published"` // "2.33 %"
	Ours      string  `json:"ours"`      // "7.1 % (dense 6.8 %, sparse 7.4 %)"
	Verdict   Outcome `json:"verdict"`
	Why       string  `json:"why"` // why it differs, or what confirms it
}

// Outcome is how a claim fared.
type Outcome string

// The outcomes.
const (
	Confirmed Outcome = "confirmed"
	Differs   Outcome = "differs" // the direction holds, the figure does not
	Refuted   Outcome = "refuted"
	Unclear   Outcome = "unclear" // too few runs, or too noisy
)

// Chart is one drawing: a line (or points) for each series.
type Chart struct {
	Title  string   `json:"title"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
}

// Axis is an axis of a chart.
type Axis struct {
	Label string `json:"label"` // with the unit: "time, ms"
	Log   bool   `json:"log"`
}

// Series is a line of a chart.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // ascending X
}

// Point is a value, with the range around it where there is one (Lo and Hi are
// both 0 otherwise).
type Point struct {
	X  float64 `json:"x"`
	Y  float64 `json:"y"`
	Lo float64 `json:"lo,omitempty"`
	Hi float64 `json:"hi,omitempty"`
}

// Grid is a table of texts. Columns whose name ends in " #" hold numbers, to be
// set flush right; the mark is not shown.
type Grid struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Table is what was found in the user's own table.
type Table struct {
	Name    string `json:"name"`    // schema.table, as it was named
	Rows    int    `json:"rows"`    // that pass Where
	Copied  int    `json:"copied"`  // of these, usable or not
	Sampled bool   `json:"sampled"` // not all rows were copied
	Where   string `json:"where,omitempty"`
	// Problems are the rows and columns that could not be used as they are.
	Problems []Problem `json:"problems"`
	// Today is the search as such tables are searched without any of this: the
	// haversine distance in the WHERE clause over every row, measured on a copy
	// of the table with its own indexes.
	Today []TodayCase `json:"today"`
	// Advice is what to adopt, the best first.
	Advice []Advice `json:"advice"`
}

// Problem is a kind of fault in the user's table.
type Problem struct {
	Kind    string `json:"kind"` // "null", "out-of-range", "not-a-number", "duplicate-id", ...
	Column  string `json:"column"`
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"` // the id of a row
	Text    string `json:"text"`              // in a sentence, with what becomes of such rows
}

// TodayCase is the time of the plain search in the user's table.
type TodayCase struct {
	RadiusM float64 `json:"radius_m"`
	Within  int     `json:"within"`
	Time    Timing  `json:"time"`
}

// Advice is a strategy to adopt, with what it takes.
type Advice struct {
	Strategy string   `json:"strategy"`
	DDL      []string `json:"ddl"` // statements, ready to paste
	// Query is a search ready to paste, for the example radius, with the rows in the
	// order of the distance.
	Query   string  `json:"query"`
	RadiusM float64 `json:"radius_m"`
	Time    Timing  `json:"time"`  // of Query on the copy
	Gain    float64 `json:"gain"`  // how many times faster than Today at that radius
	Needs   string  `json:"needs"` // what the application has to compute, in a sentence; "" where SQL is enough
}

// Write writes a run as JSON.
func (r *Run) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Read reads a run that Write wrote. It refuses a version that it does not know.
func Read(src io.Reader) (*Run, error) {
	var r Run
	if err := json.NewDecoder(src).Decode(&r); err != nil {
		return nil, fmt.Errorf("read a run of the laboratory: %w", err)
	}
	switch {
	case r.SchemaVersion == 0:
		return nil, errors.New("read a run of the laboratory: schema_version is missing: this is another kind of file")
	case r.SchemaVersion > SchemaVersion:
		return nil, fmt.Errorf("read a run of the laboratory: schema_version %d is newer than this program's %d", r.SchemaVersion, SchemaVersion)
	}
	return &r, nil
}
