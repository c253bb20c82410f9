package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nearjob/nearjob/bench/result"
)

// captureFormat is the version of the files. A file of another one does not fit.
const captureFormat = 1

// environment is what all cases of a run have in common: the server and the tables.
type environment struct {
	Settings result.Settings `json:"settings"`
	// Tables are the definitions of the tables as the server prints them.
	Tables map[string]string `json:"tables"`
	// Migration is the version of the schema.
	Migration int64 `json:"migration"`
}

func (e *environment) settingsHash() string {
	s := e.Settings
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %v %v", s.Server, s.Machine, s.Container, s.Warm)
	for _, k := range slices.Sorted(maps.Keys(s.Variables)) {
		fmt.Fprintf(h, " %q=%q", k, s.Variables[k])
	}
	return short(h.Sum(nil))
}

func (e *environment) tablesHash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d", e.Migration)
	for _, k := range slices.Sorted(maps.Keys(e.Tables)) {
		fmt.Fprintf(h, " %q=%q", k, e.Tables[k])
	}
	return short(h.Sum(nil))
}

func short(sum []byte) string { return hex.EncodeToString(sum[:16]) }

// conditions are all that a capture depends on. Two captures with equal
// conditions measured the same thing.
type conditions struct {
	Format   int     `json:"format"`
	Nearjob  string  `json:"nearjob"` // the program's version: another one may send other SQL
	Content  string  `json:"content"` // a hash of the jobs
	Rows     int     `json:"rows"`
	Lat      float64 `json:"lat"`
	Lng      float64 `json:"lng"`
	At       string  `json:"at"` // the clock of the searches
	RadiusM  float64 `json:"radius_m"`
	Limit    int     `json:"limit"`
	Strategy string  `json:"strategy"`
	Server   string  `json:"server"`
	Settings string  `json:"settings"` // a hash
	Tables   string  `json:"tables"`   // a hash
	Quick    bool    `json:"quick"`
}

// differs names, for people, what is not the same.
func (c conditions) differs(d conditions) string {
	var parts []string
	add := func(differs bool, what string) {
		if differs {
			parts = append(parts, what)
		}
	}
	add(c.Format != d.Format, "the format of the file")
	add(c.Nearjob != d.Nearjob, "the version of Nearjob")
	add(c.Content != d.Content || c.Rows != d.Rows, "the jobs")
	add(c.Lat != d.Lat || c.Lng != d.Lng || c.RadiusM != d.RadiusM || c.Limit != d.Limit || c.At != d.At, "the query")
	add(c.Strategy != d.Strategy, "the strategy")
	add(c.Server != d.Server, "the server")
	add(c.Server == d.Server && c.Settings != d.Settings, "the server's settings or the machine")
	add(c.Tables != d.Tables, "the tables' definition")
	add(c.Quick != d.Quick, "how often each query ran")
	return strings.Join(parts, ", ")
}

// capture is a file: one case, or what a set took at one size.
type capture struct {
	Conditions conditions   `json:"conditions"`
	Case       *result.Case `json:"case,omitempty"`
	Sum        *result.Sum  `json:"sum,omitempty"`
	// Traces are the raw optimizer traces of the free statements, in their order:
	// JSON as the server wrote it, or a string where that is not valid JSON.
	Traces []json.RawMessage `json:"traces,omitempty"`
	// Warnings go to the run's.
	Warnings []string `json:"warnings,omitempty"`
}

// captures is the folder of them. The zero value keeps nothing.
type captures struct {
	dir string // "" keeps none
	// unfit counts, by what differs, the files that were not used, and names one each.
	unfit map[string]*unfit
}

type unfit struct {
	count int
	first string
}

// capturesDir is below Config.Out.
const capturesDir = "captures"

func openCaptures(out string) (*captures, error) {
	c := &captures{unfit: make(map[string]*unfit)}
	if out == "" {
		return c, nil
	}
	c.dir = filepath.Join(out, capturesDir)
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of captures: %w", err)
	}
	return c, nil
}

func (c *captures) path(key string) string { return filepath.Join(c.dir, key+".json") }

// find returns the capture of a key if it was made under the same conditions,
// or nil. A file that cannot be read is an error; one that cannot be understood is
// one that does not fit.
func (c *captures) find(key string, want conditions) (*capture, error) {
	if c.dir == "" {
		return nil, nil
	}
	b, err := os.ReadFile(c.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a capture: %w", err)
	}
	var f capture
	why := ""
	if err := json.Unmarshal(b, &f); err != nil || f.Case == nil && f.Sum == nil {
		why = "what it holds: it is damaged"
	} else {
		why = want.differs(f.Conditions)
	}
	if why == "" {
		return &f, nil
	}
	u := c.unfit[why]
	if u == nil {
		u = &unfit{first: c.path(key)}
		c.unfit[why] = u
	}
	u.count++
	return nil, nil
}

// warnings say which files did not fit.
func (c *captures) warnings() []string {
	var all []string
	for _, why := range slices.Sorted(maps.Keys(c.unfit)) {
		u := c.unfit[why]
		files := u.first
		if u.count > 1 {
			files += fmt.Sprintf(" and %d other captures", u.count-1)
		}
		all = append(all, fmt.Sprintf("%s did not fit this run and was measured again: what differs is %s", files, why))
	}
	return all
}

func (c *captures) write(key string, f *capture) error {
	if c.dir == "" {
		return nil
	}
	return writeJSON(c.path(key), f)
}

// environmentFile holds the environment of the last run that had a server.
const environmentFile = "environment"

func (c *captures) writeEnvironment(e *environment) error {
	if c.dir == "" {
		return nil
	}
	return writeJSON(c.path(environmentFile), e)
}

func (c *captures) readEnvironment() (*environment, error) {
	b, err := os.ReadFile(c.path(environmentFile))
	if err != nil {
		return nil, fmt.Errorf("without a server the settings come from the captures of an earlier run: %w", err)
	}
	var e environment
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("read %s: %w", c.path(environmentFile), err)
	}
	return &e, nil
}

// writeJSON writes a file that is there whole or not at all.
func writeJSON(path string, v any) (err error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("write a capture: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b.Bytes()); err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// maxText and maxJSON bound in bytes what one statement brings into a Run.
const (
	maxText = 64 << 10
	maxJSON = 64 << 10
)

// trimmed returns a copy of a case with long texts cut. where says where the whole is.
func trimmed(c *result.Case, where string) result.Case {
	out := *c
	out.Free = trimSide(c.Free, where)
	if c.Forced != nil {
		s := trimSide(*c.Forced, where)
		out.Forced = &s
	}
	return out
}

func trimSide(s result.Side, where string) result.Side {
	s.Statements = slices.Clone(s.Statements)
	for i := range s.Statements {
		st := &s.Statements[i]
		st.SQL = trimText(st.SQL, where)
		st.Tree = trimText(st.Tree, where)
		st.Args = trimArgs(st.Args, where)
		// Compact, so that a case from a file, which is indented, is the same as one
		// just measured.
		var b bytes.Buffer
		if err := json.Compact(&b, st.JSON); err != nil || b.Len() == 0 || b.Len() > maxJSON {
			st.JSON = nil
		} else {
			st.JSON = b.Bytes()
		}
	}
	return s
}

// trimText cuts a text at the end of a character.
func trimText(s, where string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + fmt.Sprintf("\n... cut here after %d of %d bytes: %s", maxText, len(s), where)
}

// trimArgs drops the arguments behind the first maxText bytes.
func trimArgs(args []string, where string) []string {
	n := 0
	for i, a := range args {
		if n += len(a); n > maxText {
			return append(slices.Clone(args[:i]), fmt.Sprintf("... %d more arguments: %s", len(args)-i, where))
		}
	}
	return args
}

// clock prints the time of the searches for conditions.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
