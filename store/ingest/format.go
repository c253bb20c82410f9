package ingest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/nearjob/nearjob/store"
)

// Limits of what is read.
const (
	MaxRecord  = 1 << 20 // bytes of a record, line breaks inside it included
	MaxColumns = 1000

	sniffed = 64 << 10 // bytes that a format is recognised by
)

// Format is a kind of file.
type Format interface {
	// Name is what people call it.
	Name() string

	// Sniff reports whether a file that begins with head, up to 64 KiB and
	// without a byte order mark, is of this format.
	Sniff(head []byte) bool

	// Read yields the records of a file. Line numbers count from 1. An error
	// ends the file; it is a *[store.InvalidError] where the options do not fit
	// the file, a *[SyntaxError] where the file is broken, or what r said.
	Read(r io.Reader, o *Options) iter.Seq2[Row, error]
}

// Formats lists the formats in the order in which they are tried.
func Formats() []Format { return []Format{geoJSON{}, separated{}} }

// Row is a record as its format read it.
type Row struct {
	Line   int              // where it starts
	Values map[Field]string // what it says; a missing field and "" are the same
	Raw    string           // as it stands in the file

	// Parts is the content whatever the way it is written (quotes, blanks). It
	// identifies a record that has neither id nor URL.
	Parts []string

	// Rejected is set when the format itself found the record unusable. Its Raw
	// is filled in later.
	Rejected *Rejection
}

// SyntaxError is a file that is broken from some line on, or not a file of jobs at all.
type SyntaxError struct {
	Line   int
	Reason string
}

func (e *SyntaxError) Error() string { return e.Reason }

// readError is an error of the source, not of what it says.
func readError(err error) error { return fmt.Errorf("cannot be read: %w", err) }

var byteOrderMark = []byte("\xef\xbb\xbf")

// recognise finds the format of a file and returns it with the whole content
// except a byte order mark.
func recognise(src io.Reader) (Format, io.Reader, error) {
	b := bufio.NewReaderSize(src, sniffed+len(byteOrderMark))
	head, err := b.Peek(sniffed + len(byteOrderMark))
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, nil, readError(err)
	}
	var r io.Reader = b
	if err != nil {
		// Peek has all there is, and the error must not be lost: src might not repeat it.
		r = io.MultiReader(bytes.NewReader(bytes.Clone(head)), failedReader{err})
	}
	if bytes.HasPrefix(head, byteOrderMark) {
		head = head[len(byteOrderMark):]
		if _, err := io.CopyN(io.Discard, r, int64(len(byteOrderMark))); err != nil {
			return nil, nil, readError(err)
		}
	}
	for _, not := range []struct{ magic, reason string }{
		{"\x1f\x8b", "the file is compressed; unpack it first"},
		{"PK\x03\x04", "the file is compressed; unpack it first"},
		{"\xff\xfe", "the file is UTF-16; turn it into UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
		{"\xfe\xff", "the file is UTF-16; turn it into UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
	} {
		if bytes.HasPrefix(head, []byte(not.magic)) {
			return nil, nil, &SyntaxError{Line: 1, Reason: not.reason}
		}
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return nil, nil, &SyntaxError{Line: 1, Reason: "the file is empty"}
	}
	var names []string
	for _, f := range Formats() {
		if f.Sniff(head) {
			return f, r, nil
		}
		names = append(names, f.Name())
	}
	return nil, nil, &SyntaxError{Line: 1, Reason: "the format is not known; want " + strings.Join(names, " or ")}
}

// failedReader is a source that has come to its end, or broken.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) { return 0, r.err }

// Record is a row turned into a job, or rejected.
type Record struct {
	Line     int
	Job      store.Job // normalized, but without an ID
	Warnings []Warning
	Rejected *Rejection // when set, there is no Job
}

// Rejection says why a record cannot be used.
type Rejection struct {
	Reason Reason
	Detail string
	Raw    string // the record as it stands in the file
}

// Reason is a kind of fault of a record.
type Reason string

// The reasons.
const (
	MissingCoordinates Reason = "missing coordinates"
	TextInNumber       Reason = "text in a number" // a decimal comma, a currency sign, NaN
	OutOfRange         Reason = "out of range"
	Placeholder        Reason = "0,0 placeholder" // "unknown" in many files; no job is in the Gulf of Guinea
	NotAPoint          Reason = "not a point"
	MissingTitle       Reason = "missing title"
	BadDate            Reason = "bad date"
	BadValue           Reason = "value that cannot be stored"
	NotUTF8            Reason = "text that is not UTF-8"
	Malformed          Reason = "malformed record"
)

// Warning is something that was assumed about a record that was taken.
type Warning string

// The warnings.
const (
	NoPosted Warning = "no posting date, so the time of the import was taken"
	NoZone   Warning = "a time without a time zone, so UTC was taken"
	Repeated Warning = "the same id again, so the later record was taken"
	NoColumn Warning = "a property named in --map that no record has"
)
