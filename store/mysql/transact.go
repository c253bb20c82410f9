package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/nearjob/nearjob/store"
)

// A transition is tried at most maxTransitions times, and for at most
// transitionTimeouts times the engine's time limit: what waits for a lock waits
// for that limit each time.
const (
	maxTransitions     = 8
	transitionTimeouts = 3
	maxPause           = 500 * time.Millisecond
)

// unknownError is the end of a connection while the server had the COMMIT.
type unknownError struct{ cause error }

func (e *unknownError) Error() string {
	return "the connection broke at the end of the transaction: " + e.cause.Error()
}
func (e *unknownError) Unwrap() error { return e.cause }

// transition runs f in a transaction and tries the whole of it again when it lost
// a deadlock (1213), waited too long for a lock (1205), lost a race for a key
// (1062, when again says so), or when its outcome is unknown. In the last case
// f is told, for this and all later attempts: it must then first wait for the
// lock that it takes, behind which the transaction before has ended one way or
// the other, and look whether it was done.
//
// The pauses are cenkalti/backoff's: it is small, without dependencies, knows contexts,
// and the notifications and outbox use it too. Its interval times a factor 1±1 is
// "full jitter": uniform between 0 and twice the interval.
func (e *Engine) transition(ctx context.Context, action string, duplicates bool, f func(tx *sqlx.Tx, unknown bool) error) error {
	var unknown *unknownError // once an outcome was unknown, until it is known
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := e.commit(ctx, func(tx *sqlx.Tx) error { return f(tx, unknown != nil) })
		switch {
		case err == nil:
			unknown = nil
		case errors.As(err, &unknown):
		case unknown != nil && kindOf(err) == store.ErrBusy:
			// The server may still be coming back.
		case unknown == nil && (hasNumber(err, errDeadlock) || hasNumber(err, errLockWait)):
		case duplicates && hasNumber(err, errDuplicate):
			unknown = nil // f looked, and went on
		default:
			if kindOf(err) != store.ErrTimeout && ctx.Err() == nil {
				unknown = nil // f looked, and this is its answer
			}
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	},
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: retryBase / 2, RandomizationFactor: 1, Multiplier: 2, MaxInterval: maxPause,
		}),
		backoff.WithMaxTries(maxTransitions),
		backoff.WithMaxElapsedTime(transitionTimeouts*e.timeout),
		backoff.WithNotify(func(err error, _ time.Duration) { e.onRetry(action, err) }),
	)
	var permanent *backoff.PermanentError // of the last try
	if errors.As(err, &permanent) {
		err = permanent.Unwrap()
	}
	switch {
	case err == nil:
		return nil
	case unknown != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case hasNumber(err, errDuplicate) && duplicates:
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return translate(ctx, err)
}

// commit runs f in a transaction. An *unknownError says that it may have been
// done; after any other error it was not.
func (e *Engine) commit(ctx context.Context, f func(*sqlx.Tx) error) error {
	tx, err := e.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // as in once
		return err
	}
	err = tx.Commit()
	var my *mysql.MySQLError
	switch {
	case err == nil, errors.As(err, &my):
		return err // the server's answer
	case errors.Is(err, sql.ErrTxDone), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		// database/sql rolls back when the context has ended, and then sends no COMMIT.
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		return err
	}
	return &unknownError{err}
}
