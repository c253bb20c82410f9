package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Note is one message in the words of its recipient, ready for any channel. Its
// JSON is what webhooks and streams carry.
type Note struct {
	// ID is the message's. It is the same each time that the message is
	// delivered, on every channel: who gets an ID twice has got a duplicate.
	ID store.ID `json:"id"`

	Recipient   store.UserID `json:"recipient"`
	Role        store.Role   `json:"role"` // of the recipient
	Action      store.Action `json:"action"`
	Job         store.ID     `json:"job_id"`
	JobTitle    string       `json:"job_title"` // whole, as it was then
	JobState    store.State  `json:"job_state"` // after the action
	Application store.ID     `json:"application_id,omitzero"`
	At          time.Time    `json:"at"`
	Note        string       `json:"note,omitempty"` // what the other side wrote, whole

	Language string `json:"language"` // of the texts: "en" or "ko"
	Title    string `json:"title"`
	Body     string `json:"body"`
}

// Channel is a way to reach users, such as push messages to their devices.
type Channel interface {
	// Targets lists where a user can be reached: nothing where the user has
	// set up nothing. It is asked again at each attempt.
	Targets(ctx context.Context, user store.UserID) ([]Target, error)
}

// Target is one place where a user is reached: a device, an address.
type Target struct {
	// Key tells the targets of one user on one channel apart.
	Key string

	// Send delivers a note, and returns soon after ctx is done. The error says
	// what becomes of it: [ErrGone], a *[RefusedError], a *[LaterError], or
	// any other for a try again after the usual backoff.
	Send func(ctx context.Context, n Note) error
}

// ErrGone says that a target is no more. The channel has removed it, nothing is
// tried again, and the message counts as delivered there.
var ErrGone = errors.New("the target is gone")

// RefusedError is a failure that another attempt would only repeat.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return "refused: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// LaterError is a failure after which the other side has asked for a pause.
type LaterError struct {
	After time.Duration // no attempt before this has passed
	Err   error
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%v (asked to wait %v)", e.Err, e.After)
}

// Unwrap returns the reason.
func (e *LaterError) Unwrap() error { return e.Err }
