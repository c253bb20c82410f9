package notify

import (
	"math"
	"time"
)

// Backoff says how long to wait before another attempt: exponential, with full
// jitter (a uniform choice between nothing and the bound), so that messages that
// failed together do not come back together.
//
// It is a few lines here, not a library's: libraries keep the attempt number
// between calls and sleep themselves, while here the number comes with the
// message, from the outbox, and the wait is a time that is written there for
// whichever node comes next.
type Backoff struct {
	Base time.Duration // the bound after the first attempt
	Max  time.Duration // the bound never grows past this
}

// Bound returns the longest wait after an attempt, where 1 is the first.
func (b Backoff) Bound(attempt int) time.Duration {
	d := float64(b.Base) * math.Exp2(float64(max(attempt, 1)-1))
	if d >= float64(b.Max) { // +Inf too
		return b.Max
	}
	return time.Duration(d)
}

// Delay returns the wait after an attempt, by a random number 0 <= r < 1.
func (b Backoff) Delay(attempt int, r float64) time.Duration {
	return time.Duration(r * float64(b.Bound(attempt)))
}
