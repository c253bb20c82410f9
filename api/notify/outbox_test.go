package notify_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nearjob/nearjob/store"
)

// outbox is a store.Outbox in memory, by the contract in package store. fail,
// when set, may make an operation fail, before or after it was done.
type outbox struct {
	mu       sync.Mutex
	messages map[store.ID]*store.Message
	now      func() time.Time
	fail     func(op string) (before, after error)
}

var _ store.Outbox = (*outbox)(nil)

func newOutbox(messages ...store.Message) *outbox {
	o := &outbox{messages: make(map[store.ID]*store.Message), now: time.Now}
	for _, m := range messages {
		o.messages[m.ID] = &m
	}
	return o
}

func (o *outbox) do(op string, f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var before, after error
	if o.fail != nil {
		before, after = o.fail(op)
	}
	if before != nil {
		return before
	}
	return cmp.Or(f(), after)
}

func (o *outbox) sorted() []*store.Message {
	var all []*store.Message
	for _, m := range o.messages {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *store.Message) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (o *outbox) Claim(_ context.Context, node string, n int, lease time.Duration, now time.Time) (out []store.Message, err error) {
	err = o.do("claim", func() error {
		if n < 1 || n > store.MaxKeys {
			return fmt.Errorf("claim of %d", n)
		}
		busy := make(map[store.ID]bool)
		for _, m := range o.sorted() {
			if m.State != store.Pending || busy[m.Job] {
				continue
			}
			busy[m.Job] = true
			if m.Due.After(now) || len(out) == n {
				continue
			}
			m.Attempts++
			m.Node, m.Due = node, now.Add(lease)
			out = append(out, *m)
		}
		return nil
	})
	if err != nil {
		out = nil // a claim whose answer was lost: its lease has to end
	}
	return out, err
}

// held returns a message if the claim is still its.
func (o *outbox) held(m store.Message) (*store.Message, error) {
	is := o.messages[m.ID]
	if is == nil || is.State != store.Pending || is.Node != m.Node || is.Attempts != m.Attempts || !is.Due.Equal(m.Due) {
		return nil, store.ErrLeaseLost
	}
	return is, nil
}

func (o *outbox) Done(_ context.Context, m store.Message, now time.Time) error {
	return o.do("done", func() error {
		is := o.messages[m.ID]
		if is == nil {
			return store.ErrNotFound
		}
		is.State, is.Ended, is.Node = store.Delivered, now, ""
		return nil
	})
}

func (o *outbox) Retry(_ context.Context, m store.Message, at time.Time, cause string) error {
	return o.do("retry", func() error {
		is, err := o.held(m)
		if err == nil {
			is.Due, is.Node, is.LastError = at, "", cause
		}
		return err
	})
}

func (o *outbox) Dead(_ context.Context, m store.Message, now time.Time, cause string) error {
	return o.do("dead", func() error {
		is, err := o.held(m)
		if err == nil {
			is.State, is.Node, is.LastError, is.Ended = store.Dead, "", cause, now
		}
		return err
	})
}

func (o *outbox) Depth(context.Context) (d store.Depth, err error) {
	err = o.do("depth", func() error {
		for _, m := range o.sorted() {
			switch m.State {
			case store.Pending:
				if d.Pending++; d.Oldest.IsZero() {
					d.Oldest = m.At
				}
			case store.Delivered:
				d.Delivered++
			case store.Dead:
				d.Dead++
			}
		}
		return nil
	})
	return d, err
}

func (o *outbox) get(id store.ID) store.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *o.messages[id]
}

func (o *outbox) count(s store.MessageState) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, m := range o.messages {
		if m.State == s {
			n++
		}
	}
	return n
}

var errInjected = errors.New("injected")

// profiles are settings in memory.
type profiles map[store.UserID]store.Settings

func (p profiles) Settings(_ context.Context, user store.UserID) (store.Settings, error) {
	return p[user], nil
}
