package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"github.com/nearjob/nearjob/store"
)

// code returns SQLite's primary result code of an error, 0 if it has none.
func code(err error) sqlite3.ErrorCode {
	var c sqlite3.ErrorCode
	if !errors.As(err, &c) {
		return 0
	}
	return c
}

// translate turns what SQLite said into the errors of package store. ctx is
// the caller's own, without this engine's time limit: when that has ended, its
// error is the answer.
func translate(ctx context.Context, err error) error {
	switch code(err) {
	case sqlite3.INTERRUPT, sqlite3.BUSY, sqlite3.LOCKED:
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	switch code(err) {
	case sqlite3.INTERRUPT:
		return store.ErrTimeout
	case sqlite3.BUSY, sqlite3.LOCKED:
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case sqlite3.CONSTRAINT:
		var x sqlite3.ExtendedErrorCode
		errors.As(err, &x)
		switch x {
		case sqlite3.CONSTRAINT_PRIMARYKEY, sqlite3.CONSTRAINT_UNIQUE, sqlite3.CONSTRAINT_ROWID:
			return fmt.Errorf("%w: %w", store.ErrDuplicate, err)
		}
	}
	return err
}

// explainOpen says what can be done about a file that cannot be opened.
func explainOpen(path string, err error) error {
	switch code(err) {
	case sqlite3.NOTADB, sqlite3.CORRUPT:
		return fmt.Errorf("%s is not a SQLite database, or is damaged: name another file (%w)", path, err)
	case sqlite3.CANTOPEN, sqlite3.PERM, sqlite3.AUTH, sqlite3.READONLY:
		return fmt.Errorf("cannot write to %s: check that it is a file and that %s can be written to (%w)", path, filepath.Dir(path), err)
	case sqlite3.BUSY, sqlite3.LOCKED:
		return fmt.Errorf("%s is locked by another process: stop that or try again (%w: %w)", path, store.ErrBusy, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
