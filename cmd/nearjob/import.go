package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/ingest"
)

type importCmd struct {
	database
	Files   []string          `arg:"" name:"file" help:"GeoJSON or CSV, recognised by content; - for standard input."`
	Source  string            `placeholder:"NAME" help:"Where the jobs come from: with their ids in the file it tells old from new. Default: the file's name without folder and extension."`
	Map     map[string]string `placeholder:"FIELD=COLUMN" help:"Take a field from a column of another name, such as title=city. May be repeated."`
	Rejects string            `placeholder:"FILE" type:"path" help:"Write the rows that cannot be used, with line and reason, to this CSV file."`
	Batch   int               `default:"5000" help:"Jobs saved at once, all or none."`
	Node    int               `default:"-1" help:"This node's number in the ids of new jobs, 0 to 1023; -1 takes one at random."`
}

func (importCmd) Help() string {
	return `The same file again updates what it changed and adds nothing.

Examples:

    nearjob import jobs.geojson
    nearjob import places.csv --map title=city --rejects rejects.csv
    zcat jobs.csv.gz | nearjob import - --source monday`
}

func (c *importCmd) Run(ctx context.Context, s streams) (err error) {
	ids, err := store.NewIDs(time.Now, c.Node)
	if err != nil {
		return usageError{err}
	}
	o := ingest.Options{Map: c.Map, Source: c.Source, Now: time.Now(), IDs: ids, Batch: c.Batch}
	if c.Rejects != "" {
		f, err := os.Create(c.Rejects)
		if err != nil {
			return fmt.Errorf("--rejects: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.Rejects = ingest.NewRejects(f)
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, name := range c.Files {
		if err := importFile(ctx, e, name, o, s); err != nil {
			return err
		}
	}
	return nil
}

// importFile imports one file and prints what became of it, also when it fails half way.
func importFile(ctx context.Context, to ingest.Saver, name string, o ingest.Options, s streams) error {
	var (
		src  = s.in
		size int64
	)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close() // it was only read
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		src = f
	}
	bar := newProgress(s.err, name, size, inBytes)
	o.Progress = func(p ingest.Progress) { bar.to(p.Bytes) }
	summary, err := ingest.Import(ctx, src, name, to, o)
	bar.end()
	if summary.Rows > 0 {
		if _, werr := io.WriteString(s.out, summary.String()); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	return err
}
