package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Saver keeps jobs, all of a call or none; see [store.Jobs].
type Saver interface {
	Save(ctx context.Context, jobs []store.Job) (store.Saved, error)
}

// IDSource makes ids for new jobs.
type IDSource interface {
	Next() store.ID
}

var _ IDSource = (*store.IDs)(nil)

// Limits and defaults of [Options].
const (
	DefaultBatch   = 5000
	MaxBatch       = 100_000
	DefaultBackoff = 100 * time.Millisecond

	tries = 6 // of a batch, while the database is busy
)

// Options says how to read a file.
type Options struct {
	// Map names the columns (CSV) or properties (GeoJSON) of fields that are
	// not known by their usual names: field to column. An empty column leaves
	// the field out. The keys are [Fields].
	Map map[string]string

	// Source goes with each job's id to make it unique. "" is the file's name
	// without folder and extension.
	Source string

	// Now is the posting time of jobs that have none. It has no default.
	Now time.Time

	// IDs gives new jobs their ids. [Import] needs it, [Records] does not.
	IDs IDSource

	Batch   int           // jobs saved at once, 1..MaxBatch; 0 is DefaultBatch
	Backoff time.Duration // the first wait while the database is busy, then doubled; 0 is DefaultBackoff

	Rejects  *Rejects       // where records go that cannot be used; nil: nowhere
	Progress func(Progress) // called after each batch and at the end; nil: not

	warn func(Warning) // for formats: something about the file as a whole
}

// Progress says how far an import is.
type Progress struct {
	Bytes int64 // read from the source, up to 64 KiB ahead of the rows
	Rows  int
}

// EnsureDefaults fills in what is not stated for a file of this name; "-" is
// standard input, whose Source is "stdin".
func (o *Options) EnsureDefaults(name string) {
	if o.Source == "" {
		if o.Source = "stdin"; name != "-" && name != "" {
			base := filepath.Base(name)
			o.Source = cmp.Or(strings.TrimSuffix(base, filepath.Ext(base)), base)
		}
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	if o.Backoff == 0 {
		o.Backoff = DefaultBackoff
	}
	if o.warn == nil {
		o.warn = func(Warning) {}
	}
}

// Validate reports every fault at once, after EnsureDefaults; the error is a
// *[store.InvalidError].
func (o *Options) Validate() error {
	var f []store.Fault
	add := func(field, format string, args ...any) {
		f = append(f, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if _, err := newMapping(o.Map); err != nil {
		var invalid *store.InvalidError
		if errors.As(err, &invalid) {
			f = append(f, invalid.Faults...)
		}
	}
	probe := store.Job{ID: 1, Title: "x", Source: o.Source, Posted: o.Now, Remote: true}
	var invalid *store.InvalidError
	if err := probe.Normalize(); errors.As(err, &invalid) {
		for _, fault := range invalid.Faults {
			if fault.Field == "posted" {
				fault.Field = "now"
			}
			add(fault.Field, "%s; choose another", fault.Reason)
		}
	}
	if probe.Source == store.SourceHere {
		add("source", `"nearjob" is for jobs that were posted here; choose another`)
	}
	if o.Batch < 1 || o.Batch > MaxBatch {
		add("batch", "%d is not 1..%d", o.Batch, MaxBatch)
	}
	if o.Backoff < 0 {
		add("backoff", "%v is negative", o.Backoff)
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

// Records recognises the format of a file and yields its records. An error,
// which ends the sequence, is a *[SyntaxError], a *[store.InvalidError] where
// the options are bad or do not fit the file, or wraps what src said.
func Records(src io.Reader, name string, o Options) (Format, iter.Seq2[Record, error], error) {
	o.EnsureDefaults(name)
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	format, r, err := recognise(src)
	if err != nil {
		return nil, nil, err
	}
	return format, func(yield func(Record, error) bool) {
		for row, err := range format.Read(r, &o) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !yield(convert(row, &o), nil) {
				return
			}
		}
	}, nil
}

// Import saves the jobs of a file; name is for messages and the Source.
//
// A job that is there already, by (Source, SourceID), is updated, so that the
// same file again adds nothing. Batches are saved whole or not at all. When the
// file breaks off, the context is cancelled or the store refuses, Import returns
// what was saved until then, and an error that says where it stopped and that the
// same command continues. It wraps a *[SyntaxError], a *[store.InvalidError], or the
// context's, the source's or the store's error. While the store is busy (store.ErrBusy) a batch
// is tried some times, for 3 seconds with the default Backoff.
func Import(ctx context.Context, src io.Reader, name string, to Saver, o Options) (Summary, error) {
	o.EnsureDefaults(name)
	im := &importer{ctx: ctx, o: &o, to: to, at: map[string]int{}}
	s := &im.sum
	*s = Summary{Name: name, Source: o.Source, Rejected: map[Reason]int{}, Warnings: map[Warning]int{}}
	if o.IDs == nil {
		return *s, store.Invalid("ids", "is missing")
	}
	o.warn = func(w Warning) { s.Warnings[w]++ }
	counted := &counter{ctx: ctx, r: src}
	format, records, err := Records(counted, name, o)
	if err != nil {
		return *s, im.failed(err)
	}
	s.Format = format.Name()
	for rec, err := range records {
		if err == nil {
			im.line = rec.Line
			err = im.take(rec)
		}
		if err != nil {
			return *s, im.failed(err)
		}
		if o.Progress != nil && s.Rows%o.Batch == 0 {
			o.Progress(Progress{counted.n, s.Rows})
		}
	}
	if err := im.flush(); err != nil {
		return *s, im.failed(err)
	}
	if o.Progress != nil {
		o.Progress(Progress{counted.n, s.Rows})
	}
	return *s, nil
}

// counter counts what is read, and reads no more when the context has ended.
type counter struct {
	ctx context.Context
	r   io.Reader
	n   int64
}

func (c *counter) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

type importer struct {
	ctx context.Context
	o   *Options
	to  Saver
	sum Summary

	line  int // of the last record
	batch []store.Job
	at    map[string]int // SourceID to its place in batch
	safe  int            // the line of the last record that needs no more work
}

// take adds a record to the batch, or rejects it.
func (im *importer) take(rec Record) error {
	if err := im.ctx.Err(); err != nil {
		return err
	}
	im.sum.Rows++
	if rec.Rejected != nil {
		im.sum.Rejected[rec.Rejected.Reason]++
		return im.o.Rejects.write(im.sum.Name, rec)
	}
	for _, w := range rec.Warnings {
		im.sum.Warnings[w]++
	}
	rec.Job.ID = im.o.IDs.Next()
	if i, ok := im.at[rec.Job.SourceID]; ok {
		im.sum.Warnings[Repeated]++
		im.batch[i] = rec.Job
		return nil
	}
	im.at[rec.Job.SourceID] = len(im.batch)
	im.batch = append(im.batch, rec.Job)
	if len(im.batch) == im.o.Batch {
		return im.flush()
	}
	return nil
}

// flush saves the batch.
func (im *importer) flush() error {
	if len(im.batch) == 0 {
		return nil
	}
	saved, err := im.save()
	if err != nil {
		return err
	}
	im.sum.Batches++
	im.sum.Added += saved.Added
	im.sum.Updated += saved.Updated
	im.safe = im.line
	im.batch = im.batch[:0]
	clear(im.at)
	return nil
}

func (im *importer) save() (store.Saved, error) {
	wait := im.o.Backoff
	for try := 1; ; try++ {
		saved, err := im.to.Save(im.ctx, im.batch)
		if err == nil || !errors.Is(err, store.ErrBusy) || try == tries {
			return saved, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait *= 2
		case <-im.ctx.Done():
			timer.Stop()
			return saved, im.ctx.Err()
		}
	}
}

// failed says where the import stopped and how to go on.
func (im *importer) failed(err error) error {
	if cause := im.ctx.Err(); cause != nil {
		err = cause // the rest is only its effect
	}
	var syntax *SyntaxError
	var invalid *store.InvalidError
	line := im.line
	todo := "run"
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &syntax):
		line, todo = syntax.Line, "mend the file and run"
	case errors.As(err, &invalid):
		todo = "correct the options and run"
		if im.sum.Rows == 0 {
			return fmt.Errorf("%s: %w", im.sum.Name, err)
		}
	}
	if im.sum.Rows == 0 {
		return fmt.Errorf("%s: line %d: %w; nothing was saved", im.sum.Name, max(line, 1), err)
	}
	return fmt.Errorf("%s: line %d: %w; %d jobs up to line %d are saved; %s the same command again: it updates what is there and adds the rest",
		im.sum.Name, line, err, im.sum.Added+im.sum.Updated, im.safe, todo)
}

// Summary counts what an import did.
type Summary struct {
	Name, Source, Format string

	Rows           int // records read, the rejected ones included
	Added, Updated int
	Batches        int
	Rejected       map[Reason]int
	Warnings       map[Warning]int
}

// Skipped is the number of rejected records.
func (s Summary) Skipped() int {
	n := 0
	for _, k := range s.Rejected {
		n += k
	}
	return n
}

// String says it in plain words: one line, then one for each reason and warning.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", s.Name)
	if s.Format != "" {
		fmt.Fprintf(&b, " (%s, source %s)", s.Format, s.Source)
	}
	fmt.Fprintf(&b, ": %d rows, %d jobs added, %d updated, %d rows left out\n", s.Rows, s.Added, s.Updated, s.Skipped())
	for _, r := range slices.Sorted(maps.Keys(s.Rejected)) {
		fmt.Fprintf(&b, "  left out: %d, %s\n", s.Rejected[r], r)
	}
	for _, w := range slices.Sorted(maps.Keys(s.Warnings)) {
		fmt.Fprintf(&b, "  note: %d, %s\n", s.Warnings[w], w)
	}
	return b.String()
}
