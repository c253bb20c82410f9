package sqlite

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nearjob/nearjob/store"
)

// crashFile and crashFrom tell the test binary, started by TestCrash, that it
// is the process to be killed: the file that it writes and its first batch.
const (
	crashFile = "NEARJOB_TEST_SQLITE_CRASH_FILE"
	crashFrom = "NEARJOB_TEST_SQLITE_CRASH_FROM"
)

// batch is what the writing process saves as its k-th batch: 1 to 150 jobs.
func batch(k int) []store.Job {
	rnd := rand.New(rand.NewPCG(uint64(k), 1))
	jobs := make([]store.Job, 1+rnd.IntN(150))
	for i := range jobs {
		jobs[i] = job(1000*k+i+1, 37+rnd.Float64(), 127+rnd.Float64())
		jobs[i].Remote = i%10 == 9
		if jobs[i].Remote {
			jobs[i].At.Lat, jobs[i].At.Lng = 0, 0
		}
	}
	return jobs
}

// moved is the job of a batch that is matched before the batch is acknowledged.
func moved(k int) store.ID { return store.ID(1000*k + 1) }

func crashWriter(t *testing.T, path string) {
	k, err := strconv.Atoi(os.Getenv(crashFrom))
	if err != nil {
		t.Fatal(err)
	}
	e := reopen(t, path, Options{Timeout: time.Minute})
	for ; ; k++ {
		save(t, e, batch(k)...)
		if err := e.Move(t.Context(), moved(k), store.Open, store.Matched); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(os.Stderr, k); err != nil {
			t.Fatal(err) // nobody listens
		}
	}
}

// TestCrash kills a writing process again and again and looks at what it left:
// every acknowledged batch, no half one, and search tables that agree.
func TestCrash(t *testing.T) {
	if path := os.Getenv(crashFile); path != "" {
		crashWriter(t, path)
	}
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "crash.db")
	var acked []int
	next := 1
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), crashFile+"="+path, crashFrom+"="+strconv.Itoa(next))
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := len(acked)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			k, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatalf("the writer said %q", lines.Text())
			}
			acked = append(acked, k)
			if len(acked) == before+1 { // from the first batch on, at any moment
				delay := time.Duration(rand.Int64N(int64(150 * time.Millisecond)))
				time.AfterFunc(delay, func() { cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); err == nil || len(acked) == before {
			t.Fatalf("round %d: the writer ended by itself (%v) after %d batches", round, err, len(acked)-before)
		}
		next = acked[len(acked)-1] + 1

		e := reopen(t, path, Options{})
		checkTables(t, e)
		total := 0
		for _, k := range acked {
			jobs := whole(t, e, k)
			if len(jobs) == 0 || jobs[0].State != store.Matched {
				t.Errorf("round %d: the acknowledged batch %d is lost: %d jobs", round, k, len(jobs))
			}
			total += len(jobs)
		}
		// The batch that was under way may be there, but whole or not at all.
		if jobs := whole(t, e, next); len(jobs) > 0 {
			total += len(jobs)
			next++
			acked = append(acked, next-1)
			if jobs[0].State == store.Open { // killed between Save and Move
				if err := e.Move(t.Context(), moved(next-1), store.Open, store.Matched); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n, err := e.Count(t.Context()); n != total || err != nil {
			t.Errorf("round %d: %d jobs, want %d (%v)", round, n, total, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d batches acknowledged", len(acked))
}

// whole returns the jobs of a batch, all or none.
func whole(t *testing.T, e *Engine, k int) []store.Job {
	t.Helper()
	var ids []store.ID
	for _, j := range batch(k) {
		ids = append(ids, j.ID)
	}
	jobs := load(t, e, ids...)
	if len(jobs) != 0 && len(jobs) != len(ids) {
		t.Errorf("batch %d: %d jobs of %d", k, len(jobs), len(ids))
	}
	return jobs
}
