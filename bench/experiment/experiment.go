package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
)

// Config says where and how an experiment runs.
type Config struct {
	// Server is where the scratch schemas are made. It is not closed.
	Server *scratch.Server

	// Quick takes fewer rows and repeats: about ten seconds an experiment, for a
	// first look only.
	Quick bool

	// Expendable says that the server may be overloaded. Without it, stacked
	// refuses a server that is not on a loopback address.
	Expendable bool

	// Seed makes the data sets. Equal seeds have equal rows.
	Seed uint64

	// Progress, when set, is told after each step how many of total are done, and
	// what comes next. It is called from one goroutine at a time.
	Progress func(done, total int, what string)

	// Now is the time by which jobs are open; nil is time.Now. Durations are
	// measured by the machine's monotonic clock, whatever Now says.
	Now func() time.Time

	// Keep leaves the schema there, for a look at its tables. A note names it.
	Keep bool

	label string // of the schema, for tests; "" is the experiment's name
}

// Validate reports every fault of a Config at once.
func (c *Config) Validate() error {
	if c.Server == nil {
		return errors.New("server: there is none: open one with scratch.Open")
	}
	return nil
}

// EnsureDefaults fills in what is not stated.
func (c *Config) EnsureDefaults() {
	if c.Progress == nil {
		c.Progress = func(int, int, string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Experiment is one question with the means to answer it.
type Experiment interface {
	Name() string  // as the command line calls it: "crossover"
	Title() string // the question in short
	// Run carries the experiment out. It leaves no schema behind unless
	// Config.Keep is set, also when ctx ends.
	Run(ctx context.Context, c Config) (result.Experiment, error)
}

// All returns the experiments in the order in which they are best read.
func All() []Experiment {
	return []Experiment{crossover{}, reuse{}, covering{}, stacked{}, protocol{}}
}

// ByName returns the experiment of a name. The error lists the names.
func ByName(name string) (Experiment, error) {
	var names []string
	for _, e := range All() {
		if e.Name() == name {
			return e, nil
		}
		names = append(names, e.Name())
	}
	return nil, fmt.Errorf("there is no experiment %.40q: want one of %s", name, strings.Join(names, ", "))
}
