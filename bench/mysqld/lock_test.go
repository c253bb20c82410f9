package mysqld

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLockFileExcludes(t *testing.T) {
	needLocks(t)
	path := filepath.Join(t.TempDir(), "lock")
	var holders, most atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			lock, err := lockFile(t.Context(), path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), holders.Add(1)))
			time.Sleep(10 * time.Millisecond)
			holders.Add(-1)
			if err := lock.unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d held the lock at once, want 1", n)
	}
}

func TestLockFileWaitEndsWithContext(t *testing.T) {
	needLocks(t)
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := lockFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.unlock()
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	_, err = lockFile(ctx, path, func() {
		told++
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if told != 1 {
		t.Errorf("told to wait %d times, want 1", told)
	}
}

func TestHolderAlive(t *testing.T) {
	needLocks(t)
	path := filepath.Join(t.TempDir(), "lock")
	if holderAlive(path) {
		t.Error("no file: got true")
	}
	lock, err := lockFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !holderAlive(path) {
		t.Error("held: got false")
	}
	if err := lock.unlock(); err != nil {
		t.Fatal(err)
	}
	if holderAlive(path) {
		t.Error("released: got true")
	}
}

// TestHolderAliveAfterKill shows the case that the sweep is for: the holder had
// no chance to clean up.
func TestHolderAliveAfterKill(t *testing.T) {
	needLocks(t)
	const env = "NEARJOB_TESTDB_HOLD"
	if path := os.Getenv(env); path != "" {
		if _, err := lockFile(t.Context(), path, nil); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		time.Sleep(time.Minute)
		return
	}
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"="+path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Errorf("the holder said %q, %v", line, err)
	}
	if !holderAlive(path) {
		t.Error("running: got false")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait() // it was killed: the error says so
	if holderAlive(path) {
		t.Error("killed: got true")
	}
}

func needLocks(t *testing.T) {
	t.Helper()
	if !locksWork {
		t.Skip("no file locks on this system")
	}
}
