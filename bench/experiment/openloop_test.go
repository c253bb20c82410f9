package experiment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nearjob/nearjob/store"
)

// work is a request that takes a time, unless its context ends before.
func work(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

func TestOpenLoopKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, err := loop{rate: 100, lasts: time.Second, timeout: time.Second, workers: 4}.run(t.Context(), func(ctx context.Context) error {
			return work(ctx, 10*time.Millisecond)
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen.arrived != 100 || seen.answered != 100 || seen.expired != 0 || seen.failed != 0 {
			t.Errorf("got %d arrived, %d answered, %d expired, %d failed", seen.arrived, seen.answered, seen.expired, seen.failed)
		}
		if p50, p99 := seen.quantile(0.5), seen.quantile(0.99); p50 != 10 || p99 != 10 {
			t.Errorf("p50 %v, p99 %v, want 10 and 10", p50, p99)
		}
		if seen.took != time.Second || seen.achieved() != 100 || !seen.kept(100) {
			t.Errorf("took %v, %v a second, kept %v", seen.took, seen.achieved(), seen.kept(100))
		}
	})
}

func TestOpenLoopOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := loop{rate: 100, lasts: 2 * time.Second, timeout: 500 * time.Millisecond, workers: 1}
		begin := time.Now()
		running, most := 0, 0
		seen, err := c.run(t.Context(), func(ctx context.Context) error {
			running++
			most = max(most, running)
			defer func() { running-- }()
			return work(ctx, 100*time.Millisecond)
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen.arrived != 200 || seen.answered+seen.expired != 200 || seen.failed != 0 {
			t.Errorf("got %d arrived, %d answered, %d expired, %d failed", seen.arrived, seen.answered, seen.expired, seen.failed)
		}
		// One worker answers ten a second, some of them cut off by the timeout.
		if seen.answered == 0 || seen.answered > 25 {
			t.Errorf("%d were answered", seen.answered)
		}
		if seen.kept(c.rate) {
			t.Error("the load counts as kept")
		}
		if p99 := seen.quantile(0.99); p99 != 500 {
			t.Errorf("p99 %v, want the timeout", p99)
		}
		if took := time.Since(begin); took > c.lasts+c.timeout {
			t.Errorf("the loop took %v", took)
		}
		if most != 1 {
			t.Errorf("%d at once, want 1", most)
		}
	})
}

// A stall has to count for all who arrived while it lasted.
func TestOpenLoopCountsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		seen, err := loop{rate: 100, lasts: time.Second, timeout: 2 * time.Second, workers: 1}.run(t.Context(), func(ctx context.Context) error {
			if first {
				first = false
				return work(ctx, 500*time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		waited := 0
		for _, d := range seen.latencies {
			if d > 0 {
				waited++
			}
		}
		// Those that arrived at 0, 10, ... 490 ms.
		if waited != 50 || seen.quantile(1) != 500 {
			t.Errorf("%d waited, the longest %v ms; want 50 and 500", waited, seen.quantile(1))
		}
	})
}

func TestOpenLoopOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		outcomes := []error{nil, broken, store.ErrTimeout, context.DeadlineExceeded, errors.New("later")}
		i := 0
		seen, err := loop{rate: 5, lasts: time.Second, timeout: time.Second, workers: 1}.run(t.Context(), func(context.Context) error {
			i++
			return outcomes[i-1]
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen.arrived != 5 || seen.answered != 1 || seen.failed != 2 || seen.expired != 2 || !errors.Is(seen.first, broken) {
			t.Errorf("got %+v", seen)
		}
	})
}

func TestOpenLoopCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		begin := time.Now()
		_, err := loop{rate: 10, lasts: time.Hour, timeout: time.Minute, workers: 2}.run(ctx, func(ctx context.Context) error {
			return work(ctx, time.Minute)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("it took %v to stop", took)
		}
	})
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, elapsed, err := closedLoop(t.Context(), 3, 100*time.Millisecond, func(ctx context.Context, _ int) error {
			return work(ctx, 10*time.Millisecond)
		})
		if err != nil || len(calls) != 30 || elapsed != 100*time.Millisecond {
			t.Errorf("got %d calls in %v, %v; want 30 in 100ms", len(calls), elapsed, err)
		}
		calls, _, err = closedLoop(t.Context(), 2, 0, func(context.Context, int) error { return nil })
		if err != nil || len(calls) != 2 {
			t.Errorf("without time: got %d calls, %v; want one each", len(calls), err)
		}
		broken := errors.New("broken")
		_, _, err = closedLoop(t.Context(), 2, time.Minute, func(ctx context.Context, k int) error {
			if k == 1 {
				return broken
			}
			return work(ctx, time.Hour)
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v, want the first error", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := closedLoop(ctx, 1, time.Minute, func(context.Context, int) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v", err)
		}
	})
}

func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:3306":      true,
		"127.8.9.1:3306":      true,
		"[::1]:3306":          true,
		"localhost:3306":      true,
		"localhost.evil:3306": false,
		"10.0.0.1:3306":       false,
		"[2001:db8::1]:3306":  false,
		"db:3306":             false,
		"127.0.0.1":           false,
		"":                    false,
	} {
		if got := onLoopback(addr); got != want {
			t.Errorf("%q: got %v, want %v", addr, got, want)
		}
	}
}
