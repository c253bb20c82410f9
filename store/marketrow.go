package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// What both engines need to carry out a [Market].

// RoleOf is who may do an action.
func RoleOf(a Action) Role {
	if t := transition(a); t != nil {
		return t.Actor
	}
	return ""
}

// NormalizeEdit is [Command.Normalize] for the command of an [Edit].
func (c *Command) NormalizeEdit() error {
	var f faults
	c.By.check(&f, "user")
	if c.Job <= 0 {
		f.add("job", "no job is named")
	}
	c.normalizeTexts(&f)
	return f.err()
}

// FullError is the answer to who applies for a job with [MaxApplicants].
func FullError(c *Command, job ID) error {
	return &TransitionError{Action: c.Action, Job: job, JobState: Open,
		Why: fmt.Sprintf("has %d applicants, as many as it may have", MaxApplicants)}
}

// Before is After for a list that goes down, where 0 is above all keys.
func (k Keys) Before() int64 {
	if k.After == 0 {
		return math.MaxInt64
	}
	return k.After
}

// SetEnded makes of Due what it stands for where the message is not pending.
func (m *Message) SetEnded() {
	if m.State != Pending {
		m.Ended, m.Due = m.Due, time.Time{}
	}
}

// Count adds to a state's count.
func (d *Depth) Count(s MessageState, n int) {
	switch s {
	case Pending:
		d.Pending += n
	case Delivered:
		d.Delivered += n
	case Dead:
		d.Dead += n
	}
}

// MaxNodeName is the longest name of a dispatcher's node, in characters.
const MaxNodeName = 64

// CheckClaim refuses a claim that cannot be made, as an *[InvalidError].
func CheckClaim(node string, n int, lease time.Duration) error {
	var f faults
	checkText(&f, "node", node, MaxNodeName, "")
	if node == "" {
		f.add("node", "is missing")
	}
	if n < 1 || n > MaxKeys {
		f.add("n", "%d is not 1..%d", n, MaxKeys)
	}
	checkLease(&f, lease)
	return f.err()
}

// CheckLease refuses a lease that is not at least a millisecond.
func CheckLease(lease time.Duration) error {
	var f faults
	checkLease(&f, lease)
	return f.err()
}

func checkLease(f *faults, lease time.Duration) {
	if lease < time.Millisecond {
		f.add("lease", "%v is shorter than 1ms", lease)
	}
}

// Cause cuts what is stored of an error to what there is room for.
func Cause(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) > MaxReason {
		s = string([]rune(s)[:MaxReason])
	}
	return s
}

// Hash is what a request is stored under: SHA-256 over its three parts, each with
// its length before it.
func (k OperationKey) Hash() [32]byte {
	var b []byte
	for _, part := range []string{string(k.User), k.Operation, k.Key} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// AnswerHeader returns an answer's header as it is stored. It refuses a status that
// is none.
func AnswerHeader(status int, header map[string][]string) (string, error) {
	if status < 100 || status > 999 {
		return "", Invalid("status", fmt.Sprintf("%d is not a status of HTTP", status))
	}
	b, err := json.Marshal(header)
	if err != nil {
		return "", fmt.Errorf("header of an answer: %w", err)
	}
	return string(b), nil
}

// StoredAnswer makes an answer of its columns.
func StoredAnswer(bodyHash []byte, until int64, status int, header string, body []byte) (Answer, error) {
	a := Answer{State: AnswerRunning, Until: Time(until)}
	if len(bodyHash) != len(a.BodyHash) {
		return Answer{}, fmt.Errorf("a stored hash has %d bytes, not %d", len(bodyHash), len(a.BodyHash))
	}
	copy(a.BodyHash[:], bodyHash)
	if status == 0 {
		return a, nil
	}
	a.State, a.Until, a.Status, a.Body = AnswerKnown, time.Time{}, status, body
	if err := json.Unmarshal([]byte(header), &a.Header); err != nil {
		return Answer{}, fmt.Errorf("a stored header: %w", err)
	}
	return a, nil
}
