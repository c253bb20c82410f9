package store

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// ID identifies a job: a positive 63-bit number that grows with time. In text
// and JSON it is a decimal string, since JavaScript loses digits past 2^53.
type ID int64

// ParseID reads the decimal form of an ID. The error is an *[InvalidError].
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != s {
		return 0, Invalid("id", fmt.Sprintf("%.40q is not an id: want a decimal number from 1 to 9223372036854775807", s))
	}
	return ID(n), nil
}

// String returns the decimal form.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// MarshalText makes JSON carry an ID as a string.
func (id ID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(id), 10), nil }

// UnmarshalText is the reverse of MarshalText.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// An ID is, from the top: 41 bits of milliseconds since idEpoch (enough to
// 2094), 10 bits of node, 12 bits of sequence within the millisecond.
const (
	nodeBits = 10
	seqBits  = 12
)

var idEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// MaxNode is the largest node number of an [IDs].
const MaxNode = 1<<nodeBits - 1

// IDs makes ids without a central counter. Ids of one IDs are strictly
// increasing; those of several nodes are distinct as long as the node numbers
// are, and where two nodes share a number by accident the primary key refuses the
// second job rather than overwriting the first. Safe for concurrent use.
type IDs struct {
	clock func() time.Time
	node  int64

	mu   sync.Mutex
	last int64 // milliseconds since idEpoch, never going back
	seq  int64
}

// NewIDs returns a source of ids for a node 0..[MaxNode]; a negative node
// chooses one at random.
func NewIDs(clock func() time.Time, node int) (*IDs, error) {
	if node > MaxNode {
		return nil, Invalid("node", fmt.Sprintf("%d is not 0..%d", node, MaxNode))
	}
	if node < 0 {
		node = rand.IntN(MaxNode + 1)
	}
	return &IDs{clock: clock, node: int64(node)}, nil
}

// Next returns a new id. When the clock steps back, or more than 4,096 ids are
// asked for in a millisecond, it runs ahead of the clock rather than repeat one.
func (s *IDs) Next() ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMilli() - idEpoch
	switch {
	case now > s.last:
		s.last, s.seq = now, 0
	case s.seq < 1<<seqBits-1:
		s.seq++
	default:
		s.last, s.seq = s.last+1, 0
	}
	return ID(s.last<<(nodeBits+seqBits) | s.node<<seqBits | s.seq)
}
