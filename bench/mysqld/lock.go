package mysqld

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lockPoll is how often a waiter looks for a free lock.
const lockPoll = 200 * time.Millisecond

// A fileLock is held until its unlock or the end of the process.
type fileLock struct{ f *os.File }

// lockFile waits for the lock at path and creates the file if it is missing.
// wait, if not nil, is called once when another holder is in the way.
func lockFile(ctx context.Context, path string, wait func()) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := flock(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if ok {
			return &fileLock{f}, nil
		}
		if wait != nil {
			wait()
			wait = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for lock %s: %w", path, context.Cause(ctx)), f.Close())
		case <-time.After(lockPoll):
		}
	}
}

// unlock releases the lock. The file stays: removing it would let a waiter
// that has it open and a newcomer that creates it again hold two locks.
func (l *fileLock) unlock() error { return l.f.Close() }

// remove releases the lock and removes its file, which is right for a lock that
// nobody waits for.
func (l *fileLock) remove() error {
	return errors.Join(os.Remove(l.f.Name()), l.f.Close())
}

// holderAlive reports whether a process holds the lock at path. A missing file
// means that none does. If it cannot tell, it says yes.
func holderAlive(path string) bool {
	if !locksWork {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	ok, err := flock(f)
	return err != nil || !ok
}

// lockDir returns the folder of the lock files and creates it if needed. It
// belongs to the user: in a folder that all may write to, others could lay
// links in the way of a root process.
func lockDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for lock files: %w (set HOME)", err)
	}
	dir := filepath.Join(cache, "nearjob", "mysqld")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("no place for lock files: %w", err)
	}
	return dir, nil
}
