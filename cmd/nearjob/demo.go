package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/store"
)

type demoCmd struct {
	database
	server
	Rows int `default:"20000" help:"Jobs to generate at the first start: half in a city, half over a country."`
}

func (demoCmd) Help() string {
	return `A second start keeps the data. Ctrl-C ends it.

Examples:

    nearjob demo
    nearjob demo --addr 127.0.0.1:9000 --rows 200000 --db sqlite:/tmp/large.db`
}

// demoFile is apart from the store of the other commands: nobody wants 20,000
// made-up jobs among their own.
const demoFile = "demo.db"

func (c *demoCmd) Run(ctx context.Context, s streams) (err error) {
	if c.Rows < 1 || c.Rows > dataset.MaxRows {
		return usage("--rows: %d is not 1..%d", c.Rows, dataset.MaxRows)
	}
	l, err := c.listen(ctx)
	if err != nil {
		return err
	}
	serving := false
	defer func() {
		if !serving {
			err = errors.Join(err, l.Close())
		}
	}()
	e, err := c.open(ctx, demoFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	n, err := c.prepare(ctx, e, s)
	if err != nil {
		return err
	}
	deps, opts, so, err := c.parts(ctx, e, true, c.logger(s.err))
	if err != nil {
		return err
	}
	at, url := dataset.Seoul(), "http://"+l.Addr().String()
	_, err = fmt.Fprintf(s.out, `%d jobs in %s. Try:

  curl '%[3]s/v1/jobs/nearby?lat=%[4]v&lng=%[5]v&radius_m=2000&limit=5'
  curl '%[3]s/v1/jobs/nearby?lat=%[4]v&lng=%[5]v&category=moving&sort=newest&radius_m=50000&limit=3'
  curl '%[3]s/v1/jobs/nearby?lat=%[4]v&lng=%[5]v&strategy=bbox&radius_m=2000&limit=1&explain=true'

The API: %[3]s/docs   Ctrl-C ends it.
`, n, e.Name(), url, at.Lat, at.Lng)
	if err != nil {
		return err
	}
	serving = true
	return c.serve(ctx, l, e, deps, opts, so)
}

// prepare generates the jobs unless there are any, and returns their number.
func (c *demoCmd) prepare(ctx context.Context, e store.Engine, s streams) (int, error) {
	n, err := e.Count(ctx)
	if err != nil {
		return 0, err
	}
	cfg := dataset.Config{Rows: c.Rows, Shape: dataset.Mixed, Center: dataset.Seoul(), Seed: 1, Posted: time.Now().UTC().Truncate(24 * time.Hour)}
	if n > 0 {
		if n != c.Rows {
			_, err = fmt.Fprintf(s.out, "Kept the %d jobs that are there; another --db gives %d new ones.\n", n, c.Rows)
		}
		return n, err
	}
	if _, err := fill(ctx, e, cfg, s.err); err != nil {
		return 0, err
	}
	return e.Count(ctx)
}
