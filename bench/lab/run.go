package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nearjob/nearjob/bench/plan"
	"github.com/nearjob/nearjob/bench/result"
	"github.com/nearjob/nearjob/store"
)

// run is a Config at work.
type run struct {
	c        Config
	data     []*data
	captures *captures
	env      *environment
	found    map[string]*capture // by key; all that is there or was measured
	random   *rand.Rand          // the order of interleaved runs
	warnings []string

	mu      sync.Mutex // guards what follows, while sets are loaded in parallel
	schemas []*loaded
	done    int
	total   int
}

// Run measures what the Config says, or takes it from captures, and returns what was
// found. Errors are a *[store.InvalidError] for a Config or a job that cannot be used, a
// *[DifferenceError] when two strategies disagree, the context's error, or what the
// server or the file system said. What was captured until then stays.
func (c Config) Run(ctx context.Context) (_ *result.Run, err error) {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &run{c: c, found: make(map[string]*capture), random: rand.New(rand.NewPCG(shuffleSeed, 1))}
	// A deadline would become part of the SQL.
	ctx = withoutDeadline{ctx}
	defer func() {
		for _, l := range r.schemas {
			err = errors.Join(err, closeSchema(ctx, l.schema, l.engine, c.Keep))
		}
		if err != nil && ctx.Err() != nil {
			err = r.brokenOff(ctx, err)
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.lookUp(ctx); err != nil {
		return nil, err
	}
	if err := r.measureAll(ctx); err != nil {
		return nil, err
	}
	return r.result(), nil
}

// withoutDeadline ends when its parent does, but does not say beforehand when.
type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// brokenOff says what is left of a run that was stopped.
func (r *run) brokenOff(ctx context.Context, err error) error {
	if r.captures == nil || r.captures.dir == "" {
		return fmt.Errorf("the run was broken off, and nothing is kept for want of an output folder: %w", err)
	}
	// Whatever it led to in the driver, the reason is the context's.
	if !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err)
	}
	return fmt.Errorf("the run was broken off with %d of %d steps done; the captures stay in %s, and the same command goes on from there: %w",
		r.done, r.total, r.captures.dir, err)
}

// say tells Progress that something goes on.
func (r *run) say(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c.Progress != nil {
		r.c.Progress(Step{Done: r.done, Total: r.total, What: what})
	}
}

// step tells Progress that pieces of work are done.
func (r *run) step(n int, what string) {
	r.mu.Lock()
	r.done += n
	r.mu.Unlock()
	r.say(what)
}

// prepare checks the sets and orders their jobs.
func (r *run) prepare(ctx context.Context) error {
	r.data = make([]*data, len(r.c.Sets))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range r.c.Sets {
		g.Go(func() error {
			var err error
			r.data[i], err = prepare(gctx, &r.c.Sets[i], r.c.Rows)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, d := range r.data {
		r.total += len(d.sizes) * (1 + len(r.c.Radii)*len(r.c.strategies))
		if largest := r.c.Rows[len(r.c.Rows)-1]; len(d.Jobs) < largest {
			r.warnings = append(r.warnings, fmt.Sprintf("%s has %s jobs, fewer than the %s asked for: its largest size is all of them",
				d.Name, plan.Figure(float64(len(d.Jobs))), plan.Figure(float64(largest))))
		}
	}
	return nil
}

// lookUp reads the environment and the captures that fit.
func (r *run) lookUp(ctx context.Context) error {
	var err error
	if r.captures, err = openCaptures(r.c.Out); err != nil {
		return err
	}
	if r.c.Server == nil {
		r.env, err = r.captures.readEnvironment()
	} else {
		r.say("reading the server's settings")
		if r.env, err = r.survey(ctx); err == nil {
			err = r.captures.writeEnvironment(r.env)
		}
	}
	if err != nil {
		return err
	}
	missing := 0
	for _, d := range r.data {
		for size := range d.sizes {
			for _, w := range r.work(d, size) {
				c, err := r.captures.find(w.key, w.conditions)
				if err != nil {
					return err
				}
				if c == nil {
					missing++
					continue
				}
				r.found[w.key] = c
				r.done++
			}
		}
	}
	unfit := r.captures.warnings()
	if missing > 0 && r.c.Server == nil {
		detail := ""
		if len(unfit) > 0 {
			detail = " (" + strings.ReplaceAll(strings.Join(unfit, "; "), " and was measured again", "") + ")"
		}
		return fmt.Errorf("%d of %d captures are missing from %s%s: name a server to measure them", missing, r.total, r.captures.dir, detail)
	}
	r.warnings = append(r.warnings, unfit...)
	if r.done > 0 {
		r.say(fmt.Sprintf("%d of %d steps found among the captures", r.done, r.total))
	}
	return nil
}

// work is a piece that has a capture: a case, or the sum of a size.
type work struct {
	key        string
	conditions conditions
	strategy   string // "" for the sum
	radius     float64
}

// work lists the pieces of one size of a set, the sum first.
func (r *run) work(d *data, size int) []work {
	base := conditions{
		Format: captureFormat, Nearjob: r.c.Version,
		Content: d.hashes[size], Rows: d.sizes[size],
		Server: r.env.Settings.Server, Settings: r.env.settingsHash(), Tables: r.env.tablesHash(),
	}
	all := []work{{key: fmt.Sprintf("%s-%d-size", d.Name, d.sizes[size]), conditions: base}}
	for _, radius := range r.c.Radii {
		for _, s := range r.c.strategies {
			w := work{conditions: base, strategy: s.Name(), radius: radius}
			w.key = r.blank(d, size, radius, s.Name()).Key()
			w.conditions.Lat, w.conditions.Lng = d.Center.Lat, d.Center.Lng
			w.conditions.At, w.conditions.RadiusM, w.conditions.Limit = clock(d.now), radius, r.c.Limit
			w.conditions.Strategy, w.conditions.Quick = s.Name(), r.c.Quick
			all = append(all, w)
		}
	}
	return all
}

// blank is a case without its figures.
func (r *run) blank(d *data, size int, radius float64, strategy string) *result.Case {
	return &result.Case{Set: d.Name, Rows: d.sizes[size], RadiusM: radius, Strategy: strategy}
}

// missing reports whether a size of a set, or a later one, has pieces to measure.
func (r *run) missing(d *data, size int) (here, later bool) {
	for s := size; s < len(d.sizes); s++ {
		for _, w := range r.work(d, s) {
			if r.found[w.key] == nil {
				return s == size, true
			}
		}
	}
	return false, false
}

// loaded returns the set's schema if it has one.
func (r *run) loaded(d *data) *loaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.schemas {
		if l.data == d {
			return l
		}
	}
	return nil
}

// keep notes a schema, so that it is dropped at the end.
func (r *run) keep(l *loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.schemas = append(r.schemas, l)
}

// measureAll goes through the sizes: all sets are loaded to one, then measured one
// after another.
func (r *run) measureAll(ctx context.Context) error {
	for size := range r.c.Rows {
		var grow []growTo
		for _, d := range r.data {
			if size >= len(d.sizes) {
				continue
			}
			// Through every size on the way, so that each has its own time.
			if _, later := r.missing(d, size); later {
				grow = append(grow, growTo{d, d.sizes[size]})
			}
		}
		if err := r.grow(ctx, grow); err != nil {
			return err
		}
		for _, to := range grow {
			if here, _ := r.missing(to.d, size); !here {
				continue
			}
			if err := r.measureSize(ctx, r.loaded(to.d), size); err != nil {
				return err
			}
		}
	}
	if r.c.Keep {
		for _, l := range r.schemas {
			r.warnings = append(r.warnings, fmt.Sprintf("the schema %s with %s is kept: drop it when it is no longer needed", l.schema.Name, l.Name))
		}
	}
	return nil
}

// measureSize measures what is missing of one size of a set.
func (r *run) measureSize(ctx context.Context, l *loaded, size int) error {
	all := r.work(l.data, size)
	if w := all[0]; r.found[w.key] == nil {
		sum, err := l.sum(ctx)
		if err != nil {
			return err
		}
		if err := r.captured(w, &capture{Sum: &sum}); err != nil {
			return err
		}
		r.step(1, fmt.Sprintf("%s: %d rows are loaded", l.Name, l.rows))
	}
	for _, radius := range r.c.Radii {
		var todo []work
		for _, w := range all[1:] {
			if w.radius == radius && r.found[w.key] == nil {
				todo = append(todo, w)
			}
		}
		if len(todo) == 0 {
			continue
		}
		what := fmt.Sprintf("%s, %d rows, %s", l.Name, l.rows, result.Metres(radius))
		r.say(what + ": comparing the answers")
		p, err := r.prove(ctx, l, radius)
		if err != nil {
			return err
		}
		r.say(what + ": measuring")
		captures, err := r.measure(ctx, l, size, radius, todo, p)
		if err != nil {
			return fmt.Errorf("measure %s: %w", what, err)
		}
		for i, w := range todo {
			if err := r.captured(w, captures[i]); err != nil {
				return err
			}
		}
		r.step(len(todo), what)
	}
	return nil
}

// captured keeps a piece.
func (r *run) captured(w work, c *capture) error {
	c.Conditions = w.conditions
	if err := r.captures.write(w.key, c); err != nil {
		return err
	}
	if c.Case != nil && c.Traces != nil {
		// The raw traces are only for the file, and are most of it.
		c = &capture{Case: c.Case, Warnings: c.Warnings}
	}
	r.found[w.key] = c
	return nil
}

// query is the search of a set.
func (r *run) query(d *data, radius float64) store.Query {
	return store.Query{Center: d.Center, Radius: radius, Limit: r.c.Limit}
}

// result puts together what was found.
func (r *run) result() *result.Run {
	out := &result.Run{
		SchemaVersion: result.SchemaVersion, Version: r.c.Version, Made: r.c.Now().UTC(), Quick: r.c.Quick,
		Settings: r.env.Settings, Experiments: []result.Experiment{}, Warnings: append([]string{}, r.warnings...),
	}
	for _, d := range r.data {
		set := result.Set{
			Name: d.Name, About: d.About, Center: result.LatLng{Lat: d.Center.Lat, Lng: d.Center.Lng},
			Sizes: d.sizes, Limit: r.c.Limit, Radii: slices.Clone(r.c.Radii),
		}
		for size := range d.sizes {
			for _, w := range r.work(d, size) {
				c := r.found[w.key]
				out.Warnings = append(out.Warnings, c.Warnings...)
				if c.Sum != nil {
					set.Sums = append(set.Sums, *c.Sum)
					continue
				}
				out.Cases = append(out.Cases, trimmed(c.Case, r.whereabouts(w.key)))
			}
		}
		out.Sets = append(out.Sets, set)
	}
	return out
}

// whereabouts says where the whole of a trimmed case is.
func (r *run) whereabouts(key string) string {
	if r.captures.dir == "" {
		return "the whole was not kept, for want of an output folder"
	}
	return "the whole is in " + capturesDir + "/" + key + ".json"
}
