package experiment

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nearjob/nearjob/store"
)

// loop is a load that arrives at its own pace, as users do: a slow answer does not
// keep the next request from coming.
type loop struct {
	rate    int           // arrivals a second
	lasts   time.Duration // of the arrivals
	timeout time.Duration // of a request, from its arrival
	workers int           // requests that are under way at once; others wait
}

// loopSeen is what became of the requests of a loop.
type loopSeen struct {
	arrived, answered int
	expired           int // waited or ran longer than the timeout
	failed            int
	first             error // of those that failed
	// latencies are from the arrival, waiting for a worker included, so that a
	// stall counts for all who arrived in it. One that expired counts with the
	// timeout, one that failed with the time until then.
	latencies []time.Duration
	took      time.Duration // to the last answer, at least loop.lasts
}

// achieved is the number of answers a second.
func (s loopSeen) achieved() float64 { return float64(s.answered) / s.took.Seconds() }

// quantile of the latencies in milliseconds.
func (s loopSeen) quantile(q float64) float64 {
	ms := make(values, len(s.latencies))
	for i, d := range s.latencies {
		ms[i] = float64(d.Nanoseconds()) / 1e6
	}
	return ms.quantile(q)
}

// The limits of a load that is kept.
const (
	leastAchieved = 0.9 // of the rate
	mostP99       = time.Second
)

// kept reports whether the load was kept.
func (s loopSeen) kept(rate int) bool {
	return s.achieved() >= leastAchieved*float64(rate) && s.quantile(0.99) <= float64(mostP99.Milliseconds())
}

// run sends requests until the loop's time is over, and waits for their answers.
// It returns an error only if ctx ends.
func (c loop) run(ctx context.Context, do func(context.Context) error) (loopSeen, error) {
	n := int(float64(c.rate) * c.lasts.Seconds())
	// Room for all, so that an arrival never waits: requests that are too old are
	// thrown away where they are taken out.
	queue := make(chan time.Time, n)
	var seen loopSeen
	var mu sync.Mutex
	begin := time.Now()
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for arrived := range queue {
				rctx, cancel := context.WithDeadline(ctx, arrived.Add(c.timeout))
				err := rctx.Err()
				if err == nil {
					err = do(rctx)
				}
				cancel()
				now := time.Now()
				mu.Lock()
				seen.add(c, now.Sub(arrived), err)
				if err == nil {
					seen.took = max(seen.took, now.Sub(begin))
				}
				mu.Unlock()
			}
		})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
arrivals:
	for i := range n {
		at := begin.Add(time.Duration(float64(i) / float64(c.rate) * float64(time.Second)))
		// Behind time, the arrivals that are due come at once, each with the time at
		// which it should have come.
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				break arrivals
			}
		}
		queue <- at
	}
	close(queue)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return loopSeen{}, err
	}
	seen.took = max(seen.took, c.lasts)
	return seen, nil
}

// add counts one request.
func (s *loopSeen) add(c loop, took time.Duration, err error) {
	s.arrived++
	switch {
	case err == nil && took <= c.timeout:
		s.answered++
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrTimeout):
		s.expired++
		took = c.timeout
	default:
		s.failed++
		if s.first == nil {
			s.first = err
		}
	}
	s.latencies = append(s.latencies, took)
}
