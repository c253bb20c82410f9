package idempotency

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nearjob/nearjob/store"
)

var _ Store = (*Memory)(nil)

// Memory is a [Store] in the process, for tests: it is lost at the end, no other
// process sees it, and only SweepAnswers bounds it. Its zero value is empty and
// ready, and safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	claims  int64 // made so far; numbers are their tokens
	entries map[store.OperationKey]*entry
}

type entry struct {
	answer store.Answer
	began  time.Time
}

// Begin is as store.Idempotency says.
func (m *Memory) Begin(_ context.Context, k store.OperationKey, bodyHash [32]byte, now time.Time, lease time.Duration) (store.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[k]; e != nil && (e.answer.State == store.AnswerKnown || now.Before(e.answer.Until)) {
		return clone(e.answer), nil
	}
	if m.entries == nil {
		m.entries = make(map[store.OperationKey]*entry)
	}
	m.claims++
	e := &entry{store.Answer{State: store.AnswerRunning, BodyHash: bodyHash, Token: m.claims, Until: now.Add(lease)}, now}
	m.entries[k] = e
	a := clone(e.answer)
	a.State = store.AnswerNew
	return a, nil
}

// Finish is as store.Idempotency says.
func (m *Memory) Finish(_ context.Context, k store.OperationKey, token int64, status int, header map[string][]string, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[k]
	if e == nil || e.answer.State != store.AnswerRunning || e.answer.Token != token {
		return store.ErrLeaseLost
	}
	e.answer = clone(store.Answer{State: store.AnswerKnown, BodyHash: e.answer.BodyHash, Status: status, Header: header, Body: body})
	return nil
}

// Forget is as store.Idempotency says.
func (m *Memory) Forget(_ context.Context, k store.OperationKey, token int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[k]; e != nil && e.answer.State == store.AnswerRunning && e.answer.Token == token {
		delete(m.entries, k)
	}
	return nil
}

// SweepAnswers is as store.Idempotency says.
func (m *Memory) SweepAnswers(_ context.Context, before time.Time, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for k, e := range m.entries {
		if n == limit {
			break
		}
		if e.began.Before(before) {
			delete(m.entries, k)
			n++
		}
	}
	return n, nil
}

// clone shares nothing with a that could be written to.
func clone(a store.Answer) store.Answer {
	a.Header = maps.Clone(a.Header)
	for name, values := range a.Header {
		a.Header[name] = slices.Clone(values)
	}
	a.Body = slices.Clone(a.Body)
	return a
}
