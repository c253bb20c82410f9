package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nearjob/nearjob/bench/report/chart"
	"github.com/nearjob/nearjob/bench/report/markdown"
	"github.com/nearjob/nearjob/bench/report/verdict"
	"github.com/nearjob/nearjob/bench/result"
)

// The names of the files in a report's folder.
const (
	HTMLFile     = "report.html"
	MarkdownFile = "report.md"
	JSONFile     = "report.json"
	ChartsFolder = "charts"
)

// Write writes the files of a report into a folder, which it makes if needed.
// Everything is rendered before anything is written, and each file takes the
// place of the one before it at once, so a report that was there stays whole
// if this one fails. Charts of an earlier run whose names do not come again
// stay.
func Write(dir string, r *result.Run) error {
	if r == nil {
		return errors.New("write a report: there is no run")
	}
	type file struct {
		name string
		data []byte
	}
	var files []file
	render := func(name string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return fmt.Errorf("write a report: %s: %w", name, err)
		}
		files = append(files, file{name, b.Bytes()})
		return nil
	}
	charts := markdown.Charts(r)
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		err := render(filepath.Join(ChartsFolder, name), func(w io.Writer) error { return chart.SVG(w, charts[name], chart.Options{}) })
		if err != nil {
			return err
		}
	}
	v := verdict.Judge(r)
	if err := errors.Join(
		render(JSONFile, func(w io.Writer) error { return JSON(w, r) }),
		render(MarkdownFile, func(w io.Writer) error { return markdown.Write(w, r, v, ChartsFolder) }),
		render(HTMLFile, func(w io.Writer) error { return HTML(w, r) }),
	); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, ChartsFolder), 0o755); err != nil {
		return fmt.Errorf("write a report: make its folder: %w", err)
	}
	for _, f := range files {
		if err := replace(filepath.Join(dir, f.name), f.data); err != nil {
			return fmt.Errorf("write a report: %w", err)
		}
	}
	return nil
}

// replace puts data in the place of a file: a reader sees the old one or the new
// one.
func replace(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	// A temporary file is its owner's alone; a report is to be read by others too.
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// document is report.json: a run, which result.Read reads too, and the verdict.
type document struct {
	*result.Run
	Verdict verdict.Verdict `json:"verdict"`
}

// JSON writes a run and the verdict about it as SCHEMA.md beside this package
// describes.
func JSON(w io.Writer, r *result.Run) error {
	if r == nil {
		return errors.New("write report.json: there is no run")
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(document{r, verdict.Judge(r)}); err != nil {
		return fmt.Errorf("write report.json: %w", err)
	}
	return nil
}
