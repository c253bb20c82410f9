package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/ingest"
)

type generateCmd struct {
	database
	Rows     int       `default:"20000" help:"Number of jobs."`
	Shape    string    `default:"mixed" enum:"${shapes}" help:"How they lie: ${shapes}."`
	Center   placeFlag `default:"37.5663,126.9779" placeholder:"LAT,LNG" help:"Where they lie."`
	Seed     uint64    `default:"1" help:"The same seed makes the same rows on every machine."`
	Posted   time.Time `placeholder:"TIME" help:"When the newest are posted (RFC 3339). Default: a fixed day, so that the rows are the same whenever they are made; \"expired\" counts from it."`
	Currency string    `default:"KRW" enum:"KRW,USD,EUR" help:"Of the pay: KRW, USD or EUR."`
	Out      string    `short:"o" placeholder:"FILE" help:"Write a CSV file (- for standard output) in place of filling the database."`
}

func (generateCmd) Help() string {
	return `Without --out the jobs go into the database; the same again adds nothing.

Examples:

    nearjob generate --rows 200000 --shape dense --seed 7
    nearjob generate --rows 1000 --shape stacked --center 40.7128,-74.006 --out jobs.csv`
}

// placeFlag is a place on the command line: LAT,LNG in degrees.
type placeFlag geo.LatLng

// UnmarshalText reads "LAT,LNG".
func (p *placeFlag) UnmarshalText(b []byte) error {
	lat, lng, ok := strings.Cut(string(b), ",")
	y, err1 := strconv.ParseFloat(strings.TrimSpace(lat), 64)
	x, err2 := strconv.ParseFloat(strings.TrimSpace(lng), 64)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("want LAT,LNG in degrees, such as 37.5663,126.9779")
	}
	at, err := geo.NewLatLng(y, x)
	if err != nil {
		return err
	}
	*p = placeFlag(at)
	return nil
}

func (c *generateCmd) config() (dataset.Config, error) {
	cfg := dataset.Config{
		Rows: c.Rows, Shape: dataset.Shape(c.Shape), Center: geo.LatLng(c.Center),
		Seed: c.Seed, Posted: c.Posted, Currency: c.Currency,
	}
	if c.Rows <= 0 {
		return cfg, usage("--rows: %d is not 1 or more", c.Rows)
	}
	cfg.EnsureDefaults()
	if err := cfg.Validate(); err != nil {
		return cfg, usageError{err}
	}
	return cfg, nil
}

func (c *generateCmd) Run(ctx context.Context, s streams) (err error) {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if c.Out != "" {
		return c.write(ctx, cfg, s)
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	start := time.Now()
	saved, err := fill(ctx, e, cfg, s.err)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "%d jobs added, %d updated in %s\n", saved.Added, saved.Updated, time.Since(start).Round(time.Millisecond))
	return err
}

// write writes the data set as a file that nearjob import reads.
func (c *generateCmd) write(ctx context.Context, cfg dataset.Config, s streams) (err error) {
	w := s.out
	if c.Out != "-" {
		f, err := os.Create(c.Out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	bar := newProgress(s.err, "generate", int64(cfg.Rows), inRows)
	defer bar.end()
	return ingest.WriteCSV(w, counted(ctx, cfg.Jobs(), bar))
}

// counted passes jobs on until ctx ends, and shows how far it is.
func counted(ctx context.Context, jobs iter.Seq[store.Job], bar *progress) iter.Seq2[store.Job, error] {
	return func(yield func(store.Job, error) bool) {
		n := int64(0)
		for j := range jobs {
			if err := ctx.Err(); err != nil {
				yield(store.Job{}, err)
				return
			}
			if !yield(j, nil) {
				return
			}
			n++
			bar.to(n)
		}
	}
}

// fillBatch is how many generated jobs are saved at once.
const fillBatch = 5000

// fill saves a data set, batch by batch.
func fill(ctx context.Context, e store.Jobs, cfg dataset.Config, progressTo io.Writer) (store.Saved, error) {
	bar := newProgress(progressTo, "generate", int64(cfg.Rows), inRows)
	defer bar.end()
	var (
		total store.Saved
		done  int64
		batch = make([]store.Job, 0, fillBatch)
	)
	flush := func() error {
		saved, err := e.Save(ctx, batch)
		total.Added += saved.Added
		total.Updated += saved.Updated
		done += int64(len(batch))
		batch = batch[:0]
		bar.to(done)
		if err != nil {
			return fmt.Errorf("%d of %d jobs are saved; the same command again goes on: %w", total.Added+total.Updated, cfg.Rows, err)
		}
		return nil
	}
	for j := range cfg.Jobs() {
		if batch = append(batch, j); len(batch) == cap(batch) {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// shapeNames are the choices of --shape.
func shapeNames() string {
	var names []string
	for _, s := range dataset.Shapes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}
