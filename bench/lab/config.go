package lab

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// Set is a data set to measure on.
type Set struct {
	// Name stands in keys, file names and the report: "dense", "offices". It must
	// be one that every file system takes.
	Name   string
	About  string     // in a sentence
	Center geo.LatLng // of every search

	// Jobs may be in any order: a size is a prefix of them in an order that is
	// shuffled the same way each time, so that small sizes look like large ones.
	// Jobs that are not open, have expired or are remote are stored as they are.
	Jobs []store.Job

	// Now is when the searches are made, as far as they can tell. Zero is the time
	// at which the newest job was posted.
	Now time.Time

	err error // of Generated
}

// generatedSeed makes the rows of Generated.
const generatedSeed = 1

// Generated is a generated data set, searched around center at the time posted, when
// its newest jobs were posted; zero is dataset.DefaultPosted. What dataset.Config
// refuses is reported by [Config.Validate].
func Generated(shape dataset.Shape, rows int, center geo.LatLng, posted time.Time) Set {
	c := dataset.Config{Rows: rows, Shape: shape, Center: center, Seed: generatedSeed, Posted: posted}
	c.EnsureDefaults()
	s := Set{Name: string(c.Shape), About: about(c.Shape), Center: center, Now: c.Posted}
	if s.err = c.Validate(); s.err != nil {
		return s
	}
	s.Jobs = slices.AppendSeq(make([]store.Job, 0, c.Rows), c.Jobs())
	return s
}

func about(shape dataset.Shape) string {
	switch shape {
	case dataset.Dense:
		return "One city: a normal spread of 5 km on both axes around the centre."
	case dataset.Sparse:
		return "A country of 600 km by 600 km around the centre: towns, and jobs between them."
	case dataset.Stacked:
		return "Every job at the very same point, as from a geocoder that knows only the city."
	case dataset.Mixed:
		return "Half of the jobs in one city, half over a country around it."
	case dataset.Cities:
		return "The cities of the world, each with jobs by its population."
	}
	return ""
}

// Step is told to Config.Progress.
type Step struct {
	// Done of Total pieces of work are done: loads of a set to a size, and cases.
	// A case counts once, whether it was measured or found among the captures.
	Done, Total int
	What        string // what goes on now, for people
}

// Config says what to measure.
type Config struct {
	// Server is where schemas are made. It may be nil if Out holds the captures of
	// every case: then they are read, whatever server they came from.
	Server *scratch.Server

	Sets  []Set
	Rows  []int     // sizes; nil is 5,000 to 200,000
	Radii []float64 // metres; nil is 1,000, 5,000 and 20,000
	Limit int       // jobs on a page; 0 is 100
	Quick bool      // fewer sizes, radii and repeats, for a first look

	Out  string // the folder of raw captures; "" keeps none
	Keep bool   // do not drop the schemas

	Version   string // of Nearjob
	Container bool   // the server was started for this run, on this machine

	Now      func() time.Time // nil is time.Now; says when the run ended, no more
	Progress func(Step)       // one call at a time; may be nil

	// Tests put a faulty source or strategy in here.
	wrap       func(search.Source) search.Source
	strategies []search.Strategy
	budget     *budget
}

// The defaults of a Config.
var (
	defaultRows       = []int{5_000, 20_000, 50_000, 100_000, 200_000}
	defaultRadii      = []float64{1_000, 5_000, 20_000}
	defaultQuickRows  = []int{5_000, 20_000}
	defaultQuickRadii = []float64{5_000}
)

// DefaultLimit is the limit of a Config that states none.
const DefaultLimit = 100

// EnsureDefaults fills in what is not stated, and sorts sizes and radii.
func (c *Config) EnsureDefaults() {
	rows, radii := defaultRows, defaultRadii
	if c.Quick {
		rows, radii = defaultQuickRows, defaultQuickRadii
	}
	if len(c.Rows) == 0 {
		c.Rows = rows
	}
	if len(c.Radii) == 0 {
		c.Radii = radii
	}
	c.Rows = slices.Compact(slices.Sorted(slices.Values(c.Rows)))
	c.Radii = slices.Compact(slices.Sorted(slices.Values(c.Radii)))
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.strategies == nil {
		c.strategies = search.Strategies()
	}
	if c.budget == nil {
		b := fullBudget
		if c.Quick {
			b = quickBudget
		}
		c.budget = &b
	}
}

// MaxRows is the largest size.
const MaxRows = 10_000_000

// Validate reports every fault of a Config at once, after EnsureDefaults; the error is a
// *[store.InvalidError]. Jobs are checked one by one when a run begins.
func (c *Config) Validate() error {
	var f []store.Fault
	add := func(field, format string, args ...any) {
		f = append(f, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if c.Server == nil && c.Out == "" {
		add("server", "is missing: only a run whose captures are all in an output folder needs none")
	}
	for _, n := range c.Rows {
		if n < 1 || n > MaxRows {
			add("rows", "%d is not 1..%d", n, MaxRows)
		}
	}
	for _, r := range c.Radii {
		if !(r > 0 && r <= geo.MaxDistance) {
			add("radii_m", "%v is not above 0 and at most %.0f, half the circumference of the earth", r, math.Ceil(geo.MaxDistance))
		}
	}
	if c.Limit < 1 || c.Limit > store.MaxLimit {
		add("limit", "%d is not 1..%d", c.Limit, store.MaxLimit)
	}
	if len(c.Sets) == 0 {
		add("sets", "name at least one data set")
	}
	names := make(map[string]bool)
	for i := range c.Sets {
		s := &c.Sets[i]
		field := fmt.Sprintf("sets[%d]", i)
		if reason := badName(s.Name); reason != "" {
			add(field+".name", "%.60q %s", s.Name, reason)
		}
		if lower := strings.ToLower(s.Name); names[lower] {
			add(field+".name", "%.60q is the name of two sets", s.Name)
		} else {
			names[lower] = true
		}
		var invalid *store.InvalidError
		switch {
		case errors.As(s.err, &invalid):
			for _, fault := range invalid.Faults {
				add(field+"."+fault.Field, "%s", fault.Reason)
			}
			continue // its jobs are missing for these reasons
		case s.err != nil:
			add(field, "%v", s.err)
			continue
		}
		if err := s.Center.Validate(); err != nil {
			add(field+".center", "%v", err)
		}
		if len(s.Jobs) == 0 {
			add(field+".jobs", "there are none")
		}
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

// maxSetName is in bytes: with size, radius and strategy a key stays below the 255
// of common file systems.
const maxSetName = 100

// badName says why a set's name cannot be part of a file name, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxSetName:
		return fmt.Sprintf("is longer than %d bytes", maxSetName)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.HasPrefix(name, ".") || strings.HasPrefix(name, " ") || strings.HasPrefix(name, "-"):
		return "begins with a dot, a hyphen or a space"
	case strings.ContainsAny(name, `/\:*?"<>|`) || strings.ContainsFunc(name, unicode.IsControl):
		return `holds a character that file names cannot: / \ : * ? " < > | or a control character`
	}
	return ""
}

// schemaName makes part of the name of a scratch schema from a set's.
func schemaName(set string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, set)
	return "lab_" + name[:min(len(name), 20)]
}
