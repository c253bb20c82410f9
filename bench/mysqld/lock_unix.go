//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mysqld

import (
	"errors"
	"os"
	"syscall"
)

// locksWork says that a lock which is held by a living process cannot be taken.
const locksWork = true

// flock takes an exclusive lock on f without waiting. It reports false if
// another open file holds it, in this process or another. The kernel releases
// it when the holder dies, however it dies.
func flock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}
