package ingest

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// Rejects writes the records that cannot be used as CSV with the columns file,
// line, reason, detail and record, for one import or several. It writes the
// header before the first record, so without any it writes nothing.
type Rejects struct {
	w      *csv.Writer
	header bool
}

// NewRejects returns Rejects that write to w.
func NewRejects(w io.Writer) *Rejects { return &Rejects{w: csv.NewWriter(w)} }

func (r *Rejects) write(file string, rec Record) error {
	if r == nil {
		return nil
	}
	if !r.header {
		r.header = true
		r.w.Write([]string{"file", "line", "reason", "detail", "record"}) // Error reports it below
	}
	r.w.Write([]string{file, strconv.Itoa(rec.Line), string(rec.Rejected.Reason), rec.Rejected.Detail, rec.Rejected.Raw})
	r.w.Flush() // so that they are there also after a crash
	if err := r.w.Error(); err != nil {
		return fmt.Errorf("the rejected records cannot be written: %w", err)
	}
	return nil
}
