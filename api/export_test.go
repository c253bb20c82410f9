package api

import (
	"net/http"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Patterns lists everything that a handler of New's answers.
func Patterns(h http.Handler) []string { return h.(*api).mux.patterns }

// For the fuzz targets.
var (
	NewCursor   = newCursor
	ParseCursor = parseCursor
	MergePatch  = mergePatch
)

// ReadBody reads a body as a job to be posted, and returns the job as it would be
// written again.
func ReadBody(r *http.Request, patch bool) (again map[string]any, err error) {
	c := &call{r: r}
	if c.body, c.given, err = readBody(r, patch, &c.faults); err != nil {
		return nil, err
	}
	var in jobInput
	c.fill(&in)
	j := store.Job{ID: 1, Posted: time.Unix(1, 0)}
	in.apply(&c.faults, &j)
	if err := c.err(); err != nil {
		return nil, err
	}
	return document(&j), j.Normalize()
}
