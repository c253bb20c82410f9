package store

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that say which case it is. Engines translate their driver's errors to
// these by number; compare with errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrDuplicate = errors.New("already exists")
	// ErrBusy is a passing fault (deadlock, lock timeout, no connection): the
	// whole operation may be tried again.
	ErrBusy = errors.New("the database is busy")
	// ErrTimeout is a statement that ran past its time limit and was stopped.
	ErrTimeout = errors.New("the statement took too long")
)

// Fault is one thing that is wrong with an input.
type Fault struct {
	Field  string // as the caller named it: "lat", "radius_m"
	Reason string // what is wrong and what would be right
}

// InvalidError lists every fault of an input, not only the first.
type InvalidError struct {
	Faults []Fault
}

// Invalid returns an *InvalidError with one fault.
func Invalid(field, reason string) error {
	return &InvalidError{Faults: []Fault{{field, reason}}}
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		parts[i] = f.Field + ": " + f.Reason
	}
	return strings.Join(parts, "; ")
}

// StateError is an attempt to move a job from a state that it is not in.
type StateError struct {
	ID       ID
	Is, Want State
}

func (e *StateError) Error() string {
	return fmt.Sprintf("job %s is %s, not %s", e.ID, e.Is, e.Want)
}

// faults collects what is wrong with an input.
type faults []Fault

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, Fault{field, fmt.Sprintf(format, args...)})
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &InvalidError{Faults: f}
}
