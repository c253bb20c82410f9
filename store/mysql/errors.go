package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/store"
)

// MySQL's error numbers that have a meaning here.
const (
	errTooManyConnections     = 1040
	errShutdown               = 1053
	errDuplicate              = 1062
	errNoSuchTable            = 1146
	errAborted                = 1152
	errUnknownVariable        = 1193
	errTooManyUserConnections = 1203
	errLockWait               = 1205
	errDeadlock               = 1213
	errUserLimit              = 1226
	errNoSuchThread           = 1094
	errInterrupted            = 1317
	errTooManyPrepared        = 1461
	errStatementTime          = 3024
	errLockNoWait             = 3572
	noteRewritten             = 1003 // a note that holds the statement as EXPLAIN understood it
	errClientTimeout          = 4031 // the server closed an idle connection
)

// translate names the case of a driver's error and keeps the error as its
// cause. ctx is the caller's: when it has ended, its error is the answer,
// whatever it led to in the driver.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cerr := ctx.Err(); cerr != nil {
		return cerr
	}
	if kind := kindOf(err); kind != nil && !errors.Is(err, kind) {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// kindOf returns the store error that a driver's error is a case of, or nil.
func kindOf(err error) error {
	var my *mysql.MySQLError
	var network net.Error
	switch {
	case errors.As(err, &my):
		switch my.Number {
		case errDuplicate:
			return store.ErrDuplicate
		case errStatementTime, errInterrupted:
			// errInterrupted: somebody else's KILL QUERY, for our own kills follow
			// the end of a context. Not ErrBusy, which asks to be tried again.
			return store.ErrTimeout
		case errTooManyConnections, errTooManyUserConnections, errUserLimit, errShutdown, errAborted,
			errLockWait, errDeadlock, errLockNoWait, errClientTimeout:
			return store.ErrBusy
		}
	case errors.Is(err, context.DeadlineExceeded):
		// Not the caller's: the limit of one statement, see Engine.limited.
		return store.ErrTimeout
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return store.ErrBusy
	}
	return nil
}

// hasNumber reports whether err is MySQL's error of that number.
func hasNumber(err error, number uint16) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && my.Number == number
}
