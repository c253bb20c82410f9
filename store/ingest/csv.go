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

// separated is CSV as in RFC 4180, and its kin with semicolons or tabs. Lines
// end in LF or CRLF; blank lines are skipped; blanks around quotes are allowed.
//
// It does not use encoding/csv, which has no limit for a record: one quote that
// is never closed would take the rest of the file into memory. Here such a
// record is given up after MaxRecord bytes, and reading goes on with its second line.
type separated struct{}

var _ Format = separated{}

func (separated) Name() string { return "CSV" }

const separators = ",;\t"

func (separated) Sniff(head []byte) bool {
	head = bytes.TrimLeft(head, "\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first := bytes.TrimSpace(line)
	return len(first) > 0 && !bytes.ContainsAny(first[:1], "{[<") &&
		bytes.ContainsAny(line, separators) && bytes.IndexByte(head, 0) < 0
}

func (separated) Read(r io.Reader, o *Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		lines := &lines{r: bufio.NewReaderSize(r, 64<<10)}
		m, err := newMapping(o.Map)
		if err != nil {
			yield(Row{}, err)
			return
		}
		sep, columns, fields, err := header(lines, m)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for {
			row, err := record(lines, sep)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Row{}, readError(err))
				return
			}
			if n := len(row.Parts); row.Rejected == nil && n != columns {
				row.Rejected = reject(Malformed, "%d columns, but the header has %d", n, columns)
			}
			if row.Rejected == nil {
				row.Values = make(map[Field]string, len(fields))
				for field, i := range fields {
					row.Values[field] = strings.TrimSpace(row.Parts[i])
				}
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// header reads the first record, chooses the separator that makes most sense of
// it, and says which column fills which field.
func header(lines *lines, m mapping) (sep byte, columns int, fields map[Field]int, err error) {
	var best Row
	known := -1
	for i := range len(separators) {
		row, err := record(lines, separators[i])
		if err == io.EOF {
			return 0, 0, nil, &SyntaxError{Line: 1, Reason: "the file is empty"}
		}
		if err != nil {
			return 0, 0, nil, readError(err)
		}
		n := 0
		for _, c := range row.Parts {
			if fieldOf(c) != "" {
				n++
			}
		}
		if known < 0 || n > known || n == known && len(row.Parts) > len(best.Parts) {
			best, known, sep = row, n, separators[i]
		}
		lines.rewind()
	}
	best, err = record(lines, sep) // the same again, to be behind it
	if err != nil {
		return 0, 0, nil, readError(err)
	}
	if best.Rejected != nil {
		return 0, 0, nil, &SyntaxError{Line: best.Line, Reason: "the header cannot be read: " + best.Rejected.Detail}
	}
	fields, err = m.find(best.Parts)
	if err != nil {
		return 0, 0, nil, err
	}
	var f []store.Fault
	missing := func(fs ...Field) {
		for _, field := range fs {
			if _, ok := fields[field]; !ok {
				f = append(f, store.Fault{Field: "map", Reason: fmt.Sprintf(
					"no column is known to be the %s; name it with --map %s=COLUMN; the columns are %s", field, field, list(best.Parts))})
			}
		}
	}
	if _, ok := fields[Remote]; !ok || has(fields, Lat) != has(fields, Lng) {
		missing(Lat, Lng)
	}
	missing(Title)
	if len(f) > 0 {
		return 0, 0, nil, &store.InvalidError{Faults: f}
	}
	return sep, len(best.Parts), fields, nil
}

func has(fields map[Field]int, f Field) bool {
	_, ok := fields[f]
	return ok
}

// record reads one record. Where it is broken, only its first line is used up.
func record(lines *lines, sep byte) (Row, error) {
	var line []byte
	var err error
	for {
		lines.keep()
		if line, err = lines.read(); err != nil {
			return Row{}, err
		}
		if line == nil {
			return Row{Line: lines.next - 1, Rejected: reject(Malformed, "the line has more than %d bytes", MaxRecord)}, nil
		}
		if len(bytes.TrimSpace(line)) > 0 || bytes.IndexByte(line, sep) >= 0 {
			break
		}
	}
	row := Row{Line: lines.next - 1, Raw: string(line)}
	s := split{sep: sep}
	s.line(line)
	size := len(line)
	var raw strings.Builder
	for s.open && s.fault == "" {
		line, err := lines.read()
		switch {
		case err == io.EOF:
			s.fault = "a quote is never closed"
		case err != nil:
			return Row{}, err
		case line == nil, size+1+len(line) > MaxRecord:
			s.fault = fmt.Sprintf("a quote is not closed within %d bytes", MaxRecord)
		default:
			if raw.Len() == 0 {
				raw.WriteString(row.Raw)
			}
			raw.WriteByte('\n')
			raw.Write(line)
			size += 1 + len(line)
			s.text = append(s.text, '\n')
			s.line(line)
		}
	}
	if s.fault != "" {
		lines.rewind()
		if _, err := lines.read(); err != nil { // the first line, which is there
			return Row{}, err
		}
		row.Rejected = reject(Malformed, "%s", s.fault)
		return row, nil
	}
	if raw.Len() > 0 {
		row.Raw = raw.String()
	}
	row.Parts = s.fields
	return row, nil
}

// split cuts the lines of one record into fields.
type split struct {
	sep    byte
	fields []string
	text   []byte // of the field that a quote keeps open
	open   bool
	fault  string
}

func (s *split) line(b []byte) {
	for i := 0; ; {
		if !s.open {
			// At the start of a field.
			j := i
			for j < len(b) && b[j] == ' ' {
				j++
			}
			if j == len(b) || b[j] != '"' {
				end := bytes.IndexByte(b[i:], s.sep)
				if end < 0 {
					end = len(b) - i
				}
				text := b[i : i+end]
				if bytes.IndexByte(text, '"') >= 0 {
					s.fault = fmt.Sprintf("column %d: a quote inside a field without quotes", len(s.fields)+1)
					return
				}
				s.add(string(text))
				if i += end; i == len(b) || s.fault != "" {
					return
				}
				i++
				continue
			}
			s.open = true
			i = j + 1
		}
		// Inside quotes.
		end := bytes.IndexByte(b[i:], '"')
		if end < 0 {
			s.text = append(s.text, b[i:]...)
			return // goes on in the next line
		}
		s.text = append(s.text, b[i:i+end]...)
		if i += end + 1; i < len(b) && b[i] == '"' {
			s.text = append(s.text, '"')
			i++
			continue
		}
		for i < len(b) && b[i] == ' ' {
			i++
		}
		if i < len(b) && b[i] != s.sep {
			s.fault = fmt.Sprintf("column %d: text behind the closing quote", len(s.fields)+1)
			return
		}
		s.add(string(s.text))
		s.text, s.open = s.text[:0], false
		if i == len(b) || s.fault != "" {
			return
		}
		i++
	}
}

func (s *split) add(field string) {
	if len(s.fields) == MaxColumns {
		s.fault = fmt.Sprintf("more than %d columns", MaxColumns)
		return
	}
	s.fields = append(s.fields, field)
}

// lines reads lines, and can go back to where keep was last called.
type lines struct {
	r    *bufio.Reader
	next int // the number of the line that read returns next, from 1; 0 before the first

	kept [][]byte // since keep; nil is a line that was too long
	at   int      // how many of kept have been read again
	room [1][]byte
}

func (l *lines) keep() {
	if l.kept = l.kept[l.at:]; len(l.kept) == 0 {
		l.kept = l.room[:0]
	}
	l.at = 0
}

func (l *lines) rewind() {
	l.next -= l.at
	l.at = 0
}

// read returns a line without its end, or nil when it has more than MaxRecord bytes.
func (l *lines) read() ([]byte, error) {
	l.next = max(l.next, 1)
	if l.at == len(l.kept) {
		b, err := l.fetch()
		if err != nil {
			return nil, err
		}
		l.kept = append(l.kept, b)
	}
	b := l.kept[l.at]
	l.at++
	l.next++
	return b, nil
}

func (l *lines) fetch() ([]byte, error) {
	b := []byte{}
	long := false
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(b)+len(piece) > MaxRecord+2 {
			long, b = true, b[:0]
		} else if !long {
			b = append(b, piece...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && (long || len(b) > 0), err == nil:
		default:
			return nil, err
		}
		b = bytes.TrimSuffix(b, []byte("\n"))
		b = bytes.TrimSuffix(b, []byte("\r"))
		if long || len(b) > MaxRecord {
			return nil, nil
		}
		return b, nil
	}
}
