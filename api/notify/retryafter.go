package notify

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter bounds what a server can ask for: longer pauses are cut to it,
// so that nobody's server can hold up the job's other messages for hours.
const MaxRetryAfter = 10 * time.Minute

// RetryAfter reads the header of that name (RFC 9110, 10.2.3), in seconds or as
// a date. It returns 0 where there is none, or none that can be read, and at
// most [MaxRetryAfter].
func RetryAfter(h http.Header, now time.Time) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		return 0
	}
	if isDigits(s) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n > int64(MaxRetryAfter/time.Second) { // err: more digits than an int64 has
			return MaxRetryAfter
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
