package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

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

	// Of 409 for an action that the states do not allow.
	JobState         store.State            `json:"job_state,omitempty" enum:"open,matched,in_progress,finish_reported,completed,cancelled,expired" example:"matched" doc:"Where the job stands. Only with an action that cannot be done from there."`
	ApplicationState store.ApplicationState `json:"application_state,omitempty" enum:"applied,accepted,declined,withdrawn,started,finished,confirmed,rejected,cancelled" example:"accepted" doc:"Where the application stands. Likewise."`
	Can              []action               `json:"can,omitempty" nullable:"false" doc:"What the caller can do in place of it. Likewise."`

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
		stale *store.VersionError
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
	case errors.As(err, &stale):
		p := p(http.StatusPreconditionFailed, fmt.Sprintf("It is at version %d by now: read it again, and send its ETag as If-Match.", stale.Is))
		p.header = http.Header{"Etag": {etag(stale.Is)}}
		return p
	case errors.Is(err, store.ErrForbidden):
		return p(http.StatusForbidden, forbiddenDetail(err))
	case errors.Is(err, store.ErrTooManyAlerts):
		return p(http.StatusConflict, fmt.Sprintf("You have %d alerts, as many as a user may have: delete one first.", store.MaxAlerts))
	case errors.Is(err, context.Canceled) && errors.Is(ctx.Err(), context.Canceled):
		return p(statusClientGone, "The client went away.")
	}
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		known = p(http.StatusServiceUnavailable, detailUnknown)
		known.header = http.Header{"Retry-After": {"1"}}
	case errors.Is(err, store.ErrBusy):
		known = p(http.StatusServiceUnavailable, detailBusy)
		known.header = http.Header{"Retry-After": {"1"}}
	case errors.Is(err, store.ErrPlaces):
		known = p(http.StatusServiceUnavailable, detailPlaces)
		known.header = http.Header{"Retry-After": {"10"}} // another node may do it
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
	detailForbidden     = "This server does not show SQL and plans. Leave explain out, or start the server with --allow-explain."
	detailNotFound      = "There is no such job."
	detailNoApplication = "There is no such application."
	detailBusy          = "The database is busy. Try again in a second."
	detailPlaces        = "Nothing was done: this server's settings no longer fit the database's, and it has to be started with others. Its operator sees why in /readyz."
	detailTimeout       = "The search took too long and was stopped. Ask for a smaller radius or a lower limit."
	detailTooSlow       = "The database took too long, and nothing was done. Try again."
	detailUnsure        = "The time for this request is over, and it may have been done all the same. " + detailAgain
	detailUnknown       = "The connection to the database broke, and it is not known whether this was done. " + detailAgain
	detailNeedsMatch    = `This needs If-Match with the ETag of what you have read, such as If-Match: "3", so that nobody's change is overwritten unseen.`
	detailAgain         = "Send it again with the same Idempotency-Key, or read what it was about."
	detailInternal      = "Internal error. The server's log has the cause under the request id."
)

// forbiddenDetail is what the domain says of it, which names no user.
func forbiddenDetail(err error) string {
	_, why, ok := strings.Cut(err.Error(), store.ErrForbidden.Error()+": ")
	if !ok || why == "" {
		return "Not allowed."
	}
	return strings.ToUpper(why[:1]) + why[1:] + "."
}

// exampleProblem is the problem that the description shows for a status.
func exampleProblem(status int) *Problem {
	p := &Problem{Title: http.StatusText(status), Status: status, RequestID: "3QFZ7WJ5L2K4M6N8P9R2S3T4V5"}
	switch status {
	case http.StatusForbidden:
		p.Detail = detailForbidden
	case http.StatusBadRequest:
		p.Detail = "The body is not one JSON value: unexpected end of JSON input (at byte 17)."
	case http.StatusUnauthorized:
		p.Detail = "This needs a user: send a token as Authorization: Bearer."
	case http.StatusConflict:
		p.Detail = "Cannot accept: job 7318349394477056 is matched and the application accepted; possible now: cancel."
		p.JobState, p.ApplicationState = store.Matched, store.AppAccepted
		p.Can = actions([]store.Action{store.ActCancel}, 7318349394477056, 0)
	case http.StatusPreconditionFailed:
		p.Detail = "It is at version 4 by now: read it again, and send its ETag as If-Match."
	case http.StatusPreconditionRequired:
		p.Detail = detailNeedsMatch
	case http.StatusRequestEntityTooLarge:
		p.Detail = "The body is larger than 131072 bytes."
	case http.StatusUnsupportedMediaType:
		p.Detail = `The body's Content-Type is "text/plain": want application/json.`
	case http.StatusTooManyRequests:
		p.Detail = "Too many requests: the limit is 600 in 1m0s. Try again in 1 second."
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
