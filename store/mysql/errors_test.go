package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/nearjob/nearjob/store"
)

func TestTranslate(t *testing.T) {
	number := func(n uint16) error { return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n}) }
	for _, c := range []struct {
		err, want error // want nil: as it is
	}{
		{number(1062), store.ErrDuplicate},
		{number(3024), store.ErrTimeout},
		{number(1317), store.ErrTimeout},
		{number(1213), store.ErrBusy},
		{number(1205), store.ErrBusy},
		{number(1040), store.ErrBusy},
		{number(1203), store.ErrBusy},
		{number(1053), store.ErrBusy},
		{number(1064), nil},
		{number(1146), nil},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, store.ErrBusy},
		{mysql.ErrInvalidConn, store.ErrBusy},
		{driver.ErrBadConn, store.ErrBusy},
		{io.ErrUnexpectedEOF, store.ErrBusy},
		{context.DeadlineExceeded, store.ErrTimeout}, // of one statement
		{io.ErrShortBuffer, nil},
	} {
		got := translate(context.Background(), c.err)
		if !errors.Is(got, c.err) {
			t.Errorf("%v lost its cause: %v", c.err, got)
		}
		for _, kind := range []error{store.ErrBusy, store.ErrDuplicate, store.ErrNotFound, store.ErrTimeout} {
			if is := errors.Is(got, kind); is != (kind == c.want) {
				t.Errorf("%v: is %v: %v", c.err, kind, is)
			}
		}
	}
	if err := translate(context.Background(), nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := translate(ctx, number(1317)); err != context.Canceled {
		t.Errorf("after the end of the context: %v", err)
	}
}
