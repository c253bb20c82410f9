package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/experiment"
	"github.com/nearjob/nearjob/bench/lab"
	"github.com/nearjob/nearjob/bench/report"
	"github.com/nearjob/nearjob/bench/result"
)

type plansExperimentCmd struct {
	laboratory
	Name       string `arg:"" help:"${experiments}, or all."`
	Expendable bool   `help:"The server of --db may be overloaded: the experiment stacked does that."`
}

func (plansExperimentCmd) Help() string {
	return `The result becomes a page of the report in the folder of --out, beside what else is there.

Examples:

    nearjob plans experiment crossover
    nearjob plans experiment all --quick`
}

func (c *plansExperimentCmd) Run(ctx context.Context, s streams) (err error) {
	chosen := experiment.All()
	if c.Name != "all" {
		one, err := experiment.ByName(c.Name)
		if err != nil {
			return usageError{err}
		}
		chosen = []experiment.Experiment{one}
	}
	run, err := readReport(c.Out)
	if err != nil {
		return err
	}
	srv, container, stop, err := c.server(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	settings, err := lab.ReadSettings(ctx, srv, container)
	if err != nil {
		return err
	}
	if run == nil {
		run = &result.Run{SchemaVersion: result.SchemaVersion, Settings: settings, Warnings: []string{}}
	} else if run.Settings.Server != settings.Server {
		run.Warnings = append(run.Warnings, fmt.Sprintf("the experiment %s ran on %s", c.Name, settings.Server))
	}
	run.Version = version()
	bar := newProgress(s.err, "experiment", 0, inSteps)
	defer bar.end()
	for _, x := range chosen {
		found, err := x.Run(ctx, experiment.Config{
			Server: srv, Quick: c.Quick, Keep: c.Keep, Expendable: container || c.Expendable,
			Progress: func(done, total int, what string) { bar.step(done, total, x.Name()+": "+what) },
		})
		if err != nil {
			return fmt.Errorf("experiment %s: %w", x.Name(), err)
		}
		if err := sayFindings(&found, s.out); err != nil {
			return err
		}
		// What was found stays if the next one fails.
		at := slices.IndexFunc(run.Experiments, func(e result.Experiment) bool { return e.Name == found.Name })
		if at < 0 {
			at = len(run.Experiments)
			run.Experiments = append(run.Experiments, found)
		}
		run.Experiments[at] = found
		slices.SortStableFunc(run.Experiments, byReading)
		run.Made = time.Now().UTC()
		if err := report.Write(c.Out, run); err != nil {
			return err
		}
	}
	bar.end()
	return writeReport(c.Out, run, s.out)
}

// byReading orders experiments as they are best read.
func byReading(a, b result.Experiment) int {
	at := func(e result.Experiment) int {
		return slices.IndexFunc(experiment.All(), func(x experiment.Experiment) bool { return x.Name() == e.Name })
	}
	return cmp.Compare(at(a), at(b))
}

// sayFindings prints what was published and what was found.
func sayFindings(e *result.Experiment, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s: %s\n", e.Name, e.Title); err != nil {
		return err
	}
	for _, f := range e.Findings {
		if _, err := fmt.Fprintf(w, "  %s\n    published: %s\n    here:      %s (%s)\n", f.Claim, f.Published, f.Ours, f.Verdict); err != nil {
			return err
		}
	}
	return nil
}

// experimentNames are the choices of the argument.
func experimentNames() string {
	var names []string
	for _, x := range experiment.All() {
		names = append(names, x.Name())
	}
	return strings.Join(names, ", ")
}
