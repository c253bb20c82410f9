package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/nearjob/nearjob/store"
)

// statusClientGone is logged for a request whose client went away; nobody reads
// the answer. It is nginx's number, for HTTP has none.
const statusClientGone = 499

// Problem is a problem document of RFC 9457. Its type is "about:blank": the
// status says which kind of problem it is.
type Problem struct {
	Title     string       `json:"title" example:"Unprocessable Entity" doc:"The kind of problem: the name of the status."`
	Status    int          `json:"status" example:"422" doc:"The HTTP status."`
	Detail    string       `json:"detail" example:"The request has 1 fault: lat: is missing: want degrees." doc:"What happened and what to do, for people."`
	Errors    []FieldError `json:"errors,omitempty" nullable:"false" doc:"Every fault of the request."`
	RequestID string       `json:"request_id,omitempty" example:"3QFZ7WJ5L2K4M6N8P9R2S3T4V5" doc:"The id under which the server's log tells more."`

	header http.Header
}

// FieldError is one fault of a request.
type FieldError struct {
	Field  string `json:"field" example:"lat" doc:"The parameter."`
	Reason string `json:"reason" example:"is missing: want degrees" doc:"What is wrong with it and what would be right."`
}

const problemJSON = "application/problem+json"

func (p *Problem) Error() string             { return p.Detail }
func (p *Problem) GetStatus() int            { return p.Status }
func (p *Problem) GetHeaders() http.Header   { return p.header }
func (*Problem) ContentType(_ string) string { return problemJSON }

func newProblem(ctx context.Context, status int, detail string) *Problem {
	title := http.StatusText(status)
	if status == statusClientGone {
		title = "Client Closed Request"
	}
	return &Problem{Title: title, Status: status, Detail: detail, RequestID: requestID(ctx)}
}

// problem turns an error into an answer: the one table from domain errors to
// statuses. It logs what it does not tell.
func (a *api) problem(ctx context.Context, err error) *Problem {
	var (
		known *Problem
		p     = func(status int, detail string) *Problem { return newProblem(ctx, status, detail) }
	)
	switch {
	case errors.As(err, &known):
		return known
	case len(asFaults(err)) > 0:
		list := asFaults(err)
		p := p(http.StatusUnprocessableEntity, fmt.Sprintf("The request has %d faults: see errors.", len(list)))
		if len(list) == 1 {
			p.Detail = fmt.Sprintf("The request has 1 fault: %s: %s.", list[0].Field, list[0].Reason)
		}
		for _, f := range list {
			p.Errors = append(p.Errors, FieldError(f))
		}
		return p
	case errors.Is(err, store.ErrNotFound):
		return p(http.StatusNotFound, detailNotFound)
	case errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled):
		return p(statusClientGone, "The client went away.")
	}
	switch {
	case errors.Is(err, store.ErrBusy):
		known = p(http.StatusServiceUnavailable, detailBusy)
		known.header = http.Header{"Retry-After": {"1"}}
	case errors.Is(err, store.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		known = p(http.StatusGatewayTimeout, detailTimeout)
	default:
		known = p(http.StatusInternalServerError, detailInternal)
	}
	a.log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request_id", requestID(ctx)), slog.Any("error", err))
	return known
}

// What problems say.
const (
	detailForbidden = "This server does not show SQL and plans. Leave explain out, or start the server with --allow-explain."
	detailNotFound  = "There is no such job."
	detailBusy      = "The database is busy. Try again in a second."
	detailTimeout   = "The search took too long and was stopped. Ask for a smaller radius or a lower limit."
	detailInternal  = "Internal error. The server's log has the cause under the request id."
)

// exampleProblem is the problem that the description shows for a status.
func exampleProblem(status int) *Problem {
	p := &Problem{Title: http.StatusText(status), Status: status, RequestID: "3QFZ7WJ5L2K4M6N8P9R2S3T4V5"}
	switch status {
	case http.StatusForbidden:
		p.Detail = detailForbidden
	case http.StatusNotFound:
		p.Detail = detailNotFound
	case http.StatusServiceUnavailable:
		p.Detail = detailBusy
	case http.StatusGatewayTimeout:
		p.Detail = detailTimeout
	case http.StatusUnprocessableEntity:
		p.Detail = "The request has 1 fault: radius: is not a parameter."
		p.Errors = []FieldError{{"radius", "is not a parameter: want lat, lng, radius_m, and so on"}}
	default:
		p.Detail = detailInternal
	}
	return p
}

// asFaults returns the faults of an *store.InvalidError, or nil.
func asFaults(err error) []store.Fault {
	var invalid *store.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Faults
	}
	return nil
}

// writeProblem answers where huma is not at work.
func writeProblem(w http.ResponseWriter, p *Problem) {
	body, _ := json.Marshal(p) // of strings and one int: it cannot fail
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	h.Set("Content-Type", problemJSON)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}
