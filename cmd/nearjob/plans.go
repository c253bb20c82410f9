package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	driver "github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/bench/dataset"
	"github.com/nearjob/nearjob/bench/lab"
	"github.com/nearjob/nearjob/bench/mysqld"
	"github.com/nearjob/nearjob/bench/report"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/bench/scratch"
	"github.com/nearjob/nearjob/bench/table"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/ingest"
	"github.com/nearjob/nearjob/store/mysql"
)

// plansCmd is the laboratory.
type plansCmd struct {
	Run        plansRunCmd        `cmd:"" default:"withargs" help:"Prove that all strategies return the same rows, then capture, time and explain the plans of each."`
	Experiment plansExperimentCmd `cmd:"" help:"Ask one of the questions that started it all again, and set the published figure beside yours."`
	Diff       plansDiffCmd       `cmd:"" help:"Compare two MySQL plans, node against node."`
}

func (plansCmd) Help() string {
	return `Examples (nearjob plans run --help shows the flags; the word run may be left out):

    nearjob plans --quick
    nearjob plans experiment crossover
    nearjob plans diff before.txt after.txt`
}

// laboratory is the flags of the commands that measure.
type laboratory struct {
	// Not NEARJOB_DB: whoever keeps the address of a live server there does not want
	// to have it measured by accident.
	DB  string `name:"db" env:"NEARJOB_PLANS_DB" placeholder:"DSN" help:"mysql://user:pass@host:port of a server to work on, in schemas of its own. Default: one in a container, started for this and removed."`
	Out string `short:"o" default:"nearjob-plans" type:"path" placeholder:"DIR" help:"Folder of the report and the raw captures. The same command again measures only what is missing there."`

	Quick bool `help:"Few sizes and repeats: a first look in under a minute."`
	Keep  bool `help:"Leave the schemas on the server."`
}

// server returns the server to work on. The function takes down what was started.
func (l *laboratory) server(ctx context.Context, s streams) (_ *scratch.Server, container bool, stop func() error, err error) {
	if l.DB != "" {
		if scheme, _, _ := strings.Cut(l.DB, ":"); scheme != "mysql" {
			// The value may hold a password: it is not repeated.
			return nil, false, nil, usage("--db: want mysql://user:pass@host:port: the laboratory explains MySQL's plans")
		}
		srv, err := scratch.Open(ctx, l.DB)
		if err != nil {
			return nil, false, nil, err
		}
		return srv, false, srv.Close, nil
	}
	if l.Keep {
		return nil, false, nil, usage("--keep: the schemas go with the container; name a server with --db to keep them")
	}
	ctr, err := mysqld.Start(ctx, s.err)
	if err != nil {
		return nil, false, nil, fmt.Errorf("%w; --db names one", err)
	}
	remove := func() error {
		// The context may be what ended the work.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), containerStop)
		defer cancel()
		return ctr.Close(ctx)
	}
	srv, err := scratch.Open(ctx, ctr.URL(""))
	if err != nil {
		return nil, false, nil, errors.Join(err, remove())
	}
	return srv, true, func() error { return errors.Join(srv.Close(), remove()) }, nil
}

// containerStop bounds the removal of a container.
const containerStop = 30 * time.Second

type plansRunCmd struct {
	laboratory
	Data   []string  `default:"dense,sparse,stacked,cities" help:"Generated data sets: ${shapes}. Not used with --file or --table."`
	Center placeFlag `default:"37.5663,126.9779" placeholder:"LAT,LNG" help:"Where generated data lies, and is searched."`
	File   []string  `placeholder:"FILE" help:"Measure on jobs of your own: GeoJSON or CSV, recognised by content. May be repeated."`
	Rows   []int     `placeholder:"N,..." help:"Sizes. Default: 5000,20000,50000,100000,200000, and with --quick the first two."`
	Radius []float64 `name:"radius-m" placeholder:"M,..." help:"Radii in metres. Default: 1000,5000,20000, and with --quick the second."`
	Limit  int       `default:"100" help:"Jobs on a page."`

	Table   string `placeholder:"SCHEMA.TABLE" help:"Measure on a table of your own. It is only read."`
	TableDB string `name:"table-db" placeholder:"DSN" help:"mysql://user:pass@host:port of the server that has the table, if it is not that of --db. An account with SELECT on the table is enough."`
	ID      string `name:"id" default:"id" placeholder:"COLUMN" help:"The table's key."`
	Lat     string `name:"lat" default:"lat" placeholder:"COLUMN" help:"Its latitude in degrees."`
	Lng     string `name:"lng" default:"lng" placeholder:"COLUMN" help:"Its longitude in degrees."`
	Where   string `placeholder:"SQL" help:"Only rows that meet this condition."`
	Sample  int    `placeholder:"N" help:"About so many of the rows. Default: all, up to the largest of --rows."`
}

func (plansRunCmd) Help() string {
	return `For each data set, size and radius every strategy first has to return the same rows. Then its plans are captured, free and forced, and the plain queries are timed. report.html in the folder of --out is one file that needs no network; report.md and report.json hold the same.

Examples:

    nearjob plans --quick
    nearjob plans --db mysql://lab:secret@127.0.0.1:3306 --data dense --rows 50000 --radius-m 2000
    nearjob plans --file jobs.geojson
    nearjob plans --db mysql://lab:secret@127.0.0.1:3306 --table shop.jobs --id id --lat lat --lng lng --where "state = 'open'"`
}

func (c *plansRunCmd) Run(ctx context.Context, s streams) (err error) {
	switch {
	case c.Table == "" && c.TableDB != "":
		return usage("--table-db needs --table")
	case c.Table != "" && c.TableDB == "" && c.DB == "":
		return usage("--table needs the server that has it: name it with --table-db, or with --db to work there too")
	case c.Table != "" && len(c.File) > 0:
		return usage("--table and --file: name one of them")
	}
	cfg := lab.Config{
		Rows: c.Rows, Radii: c.Radius, Limit: c.Limit, Quick: c.Quick,
		Out: c.Out, Keep: c.Keep, Version: version(),
	}
	cfg.EnsureDefaults()
	bar := newProgress(s.err, "plans", 0, inSteps)
	defer bar.end()
	cfg.Progress = func(p lab.Step) { bar.step(p.Done, p.Total, p.What) }

	var source *sourceTable
	if c.Table != "" {
		if source, err = c.source(ctx, &cfg, bar); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, source.Close()) }()
	}
	if cfg.Sets, err = c.sets(ctx, &cfg, source); err != nil {
		return err
	}
	if err := validate(cfg); err != nil {
		return err
	}
	run, err := c.run(ctx, cfg, source, s)
	if err != nil {
		return err
	}
	bar.end()
	return writeReport(c.Out, run, s.out)
}

// validate checks a Config whose server is not there yet.
func validate(cfg lab.Config) error {
	cfg.Server = new(scratch.Server)
	if err := cfg.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

// run measures, or takes what was measured before.
func (c *plansRunCmd) run(ctx context.Context, cfg lab.Config, source *sourceTable, s streams) (_ *result.Run, err error) {
	if c.DB == "" && source == nil {
		// Without a server it only works if every capture is there.
		cfg.Container = true
		if run, err := cfg.Run(ctx); err == nil {
			return run, addExperiments(run, c.Out)
		}
	}
	srv, container, stop, err := c.server(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cfg.Server, cfg.Container = srv, container
	run, err := cfg.Run(ctx)
	if err != nil {
		return nil, err
	}
	if source != nil {
		source.Config.Server = srv
		if run.Table, err = table.Advise(ctx, source.Config, source.Source, run); err != nil {
			return nil, err
		}
	}
	return run, addExperiments(run, c.Out)
}

// addExperiments takes over the experiments of the report that is in the folder.
func addExperiments(run *result.Run, dir string) error {
	before, err := readReport(dir)
	if err != nil || before == nil {
		return err
	}
	run.Experiments = before.Experiments
	if len(run.Experiments) > 0 && before.Settings.Server != run.Settings.Server {
		run.Warnings = append(run.Warnings, fmt.Sprintf("the experiments ran on %s", before.Settings.Server))
	}
	return nil
}

// readReport reads the report in a folder, nil if there is none.
func readReport(dir string) (*result.Run, error) {
	name := filepath.Join(dir, report.JSONFile)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	run, err := result.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (move it away, or name another --out)", name, err)
	}
	return run, nil
}

// writeReport writes the report and says what it finds.
func writeReport(dir string, run *result.Run, to io.Writer) error {
	if err := report.Write(dir, run); err != nil {
		return err
	}
	if len(run.Cases) > 0 {
		if _, err := fmt.Fprintln(to, verdict.Judge(run).Headline); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(to, "%s, %s and %s are in %s\n", report.HTMLFile, report.MarkdownFile, report.JSONFile, dir)
	return err
}

// sets returns what to measure on.
func (c *plansRunCmd) sets(ctx context.Context, cfg *lab.Config, source *sourceTable) (sets []lab.Set, err error) {
	if source != nil {
		set, err := source.set(ctx)
		return []lab.Set{set}, err
	}
	for _, name := range c.File {
		set, err := fileSet(name)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	if len(c.File) > 0 {
		return sets, nil
	}
	for _, name := range c.Data {
		shape := dataset.Shape(name)
		if !slices.Contains(dataset.Shapes(), shape) {
			return nil, usage("--data: %.40q is not one of %s", name, shapeNames())
		}
		sets = append(sets, lab.Generated(shape, slices.Max(cfg.Rows), geo.LatLng(c.Center), time.Time{}))
	}
	return sets, nil
}

// fileSet reads a file of jobs.
func fileSet(name string) (lab.Set, error) {
	f, err := os.Open(name)
	if err != nil {
		return lab.Set{}, err
	}
	defer f.Close()                   // it was only read
	posted := dataset.DefaultPosted() // of jobs that name no time: the same on every run
	next := 0
	_, records, err := ingest.Records(f, name, ingest.Options{Now: posted})
	if err != nil {
		return lab.Set{}, fmt.Errorf("%s: %w", name, err)
	}
	set := lab.Set{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), About: "The jobs of " + filepath.Base(name) + "."}
	left := 0
	var places dataset.Density
	for r, err := range records {
		if err != nil {
			return lab.Set{}, fmt.Errorf("%s: %w", name, err)
		}
		if r.Rejected != nil {
			left++
			continue
		}
		next++
		r.Job.ID = store.ID(next)
		set.Jobs = append(set.Jobs, r.Job)
		if !r.Job.Remote {
			places.Add(r.Job.At)
		}
	}
	if left > 0 {
		set.About += fmt.Sprintf(" %d of its %d records cannot be used (nearjob import says why).", left, left+next)
	}
	var ok bool
	if set.Center, ok = places.Center(); !ok {
		return lab.Set{}, fmt.Errorf("%s: no job in it has a place", name)
	}
	return set, nil
}

// sourceTable is a user's own table.
type sourceTable struct {
	*table.Source
	Config table.Config
}

// source opens the user's table.
func (c *plansRunCmd) source(ctx context.Context, cfg *lab.Config, bar *progress) (*sourceTable, error) {
	dsn := cmp.Or(c.TableDB, c.DB)
	driverConfig, err := mysql.DriverConfig(dsn)
	if err != nil {
		return nil, usageError{err}
	}
	connector, err := driver.NewConnector(driverConfig)
	if err != nil {
		return nil, usage("--table-db: the address cannot be used") // the cause may show the password
	}
	db := sql.OpenDB(connector)
	tc := table.Config{
		Source: db, Table: c.Table, ID: c.ID, Lat: c.Lat, Lng: c.Lng, Where: c.Where, Sample: c.Sample,
		Radii: cfg.Radii, Limit: cfg.Limit, Now: dataset.DefaultPosted,
		Progress: func(done, total int, what string) { bar.step(done, total, what) },
	}
	if tc.Sample == 0 {
		tc.Sample = slices.Max(cfg.Rows)
	}
	src, err := table.Inspect(ctx, tc)
	if err != nil {
		if errors.As(err, new(*store.InvalidError)) {
			err = usageError{err}
		}
		return nil, errors.Join(err, db.Close())
	}
	return &sourceTable{src, tc}, nil
}

// Close ends the connections to the table.
func (t *sourceTable) Close() error { return t.Config.Source.Close() }

// set reads the rows.
func (t *sourceTable) set(ctx context.Context) (lab.Set, error) {
	set := lab.Set{Name: strings.Map(fileNameRune, t.Name()), About: "The rows of " + t.Name() + "."}
	for j, err := range t.Jobs(ctx) {
		if err != nil {
			return set, err
		}
		set.Jobs = append(set.Jobs, j)
	}
	var ok bool
	if set.Center, ok = t.Center(); !ok {
		var why []string
		for _, p := range t.Problems() {
			why = append(why, fmt.Sprintf("%s (%d)", p.Text, p.Count))
		}
		return set, fmt.Errorf("no row of %s has a usable place: %s", t.Name(), strings.Join(why, "; "))
	}
	return set, nil
}

// fileNameRune keeps what every file system takes in a name.
func fileNameRune(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' || r == '-' {
		return r
	}
	return '_'
}
