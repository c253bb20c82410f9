package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nearjob/nearjob/store"
)

// Depther counts what waits.
type Depther interface {
	Depth(ctx context.Context) (store.Depth, error)
}

// Profiles says what a user has chosen.
type Profiles interface {
	Settings(ctx context.Context, user store.UserID) (store.Settings, error)
}

// Deps is what a [Dispatcher] works with. Outbox, Profiles, Channels and Texts
// are needed.
type Deps struct {
	Outbox   store.Outbox
	Profiles Profiles

	// Channels by the names that settings use: "push", "webhook", "stream". A
	// channel that is not here is off: nobody is told there, whoever has chosen it.
	Channels map[string]Channel

	Texts   *Texts
	Metrics *Metrics         // nil: nothing is counted
	Log     *slog.Logger     // nil: nothing is logged
	Now     func() time.Time // nil: time.Now
	Rand    func() float64   // 0 <= r < 1, safe for concurrent use; nil: math/rand/v2
}

// Options adjusts a [Dispatcher].
type Options struct {
	Node string // the name that claims are made under: one for each process

	Workers  int           // messages that are delivered at once; 0: 16
	Attempts int           // of a message before it is given up; 0: 10
	Backoff  Backoff       // zero: 1 s, doubling up to 5 min
	Timeout  time.Duration // of one attempt, all channels together; 0: 30 s
	Lease    time.Duration // of a claim; 0: four times Timeout, and never below twice
	Poll     time.Duration // between looks at an empty outbox; 0: 1 s
	Grace    time.Duration // for deliveries that run when Run is to end; 0: Timeout
}

func (o *Options) setDefaults() {
	o.Workers = cmp.Or(o.Workers, 16)
	o.Attempts = cmp.Or(o.Attempts, 10)
	o.Backoff.Base = cmp.Or(o.Backoff.Base, time.Second)
	o.Backoff.Max = cmp.Or(o.Backoff.Max, max(o.Backoff.Base, 5*time.Minute))
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Lease = cmp.Or(o.Lease, 4*o.Timeout)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.Grace = cmp.Or(o.Grace, o.Timeout)
}

// validate reports every fault at once.
func (o *Options) validate() error {
	var faults []store.Fault
	bad := func(field, reason string) { faults = append(faults, store.Fault{Field: field, Reason: reason}) }
	if o.Node == "" {
		bad("node", "is missing: name the process, such as by host and process id")
	}
	if o.Workers < 1 || o.Workers > store.MaxKeys/2 {
		bad("workers", fmt.Sprintf("%d is not 1..%d", o.Workers, store.MaxKeys/2))
	}
	if o.Attempts < 1 {
		bad("attempts", fmt.Sprintf("%d is not positive", o.Attempts))
	}
	if o.Backoff.Base < 0 || o.Backoff.Max < o.Backoff.Base {
		bad("backoff", fmt.Sprintf("from %v to %v does not grow", o.Backoff.Base, o.Backoff.Max))
	}
	for field, d := range map[string]time.Duration{"timeout": o.Timeout, "poll": o.Poll, "grace": o.Grace} {
		if d < 0 {
			bad(field, fmt.Sprintf("%v is negative", d))
		}
	}
	if o.Lease < 2*o.Timeout {
		bad("lease", fmt.Sprintf("%v is less than twice the timeout of %v: another node would deliver what is being delivered", o.Lease, o.Timeout))
	}
	if len(faults) == 0 {
		return nil
	}
	slices.SortFunc(faults, func(a, b store.Fault) int { return strings.Compare(a.Field, b.Field) })
	return &store.InvalidError{Faults: faults}
}

// Dispatcher takes messages from an outbox and delivers them. See the package
// comment for what it promises.
type Dispatcher struct {
	deps   Deps
	opts   Options
	log    *slog.Logger
	wake   chan struct{}
	memory *memory
}

// New returns a dispatcher; [Dispatcher.Run] does the work. The error is an
// *[store.InvalidError].
func New(deps Deps, opts Options) (*Dispatcher, error) {
	opts.setDefaults()
	var faults []store.Fault
	if err := opts.validate(); err != nil {
		faults = err.(*store.InvalidError).Faults
	}
	for field, missing := range map[string]bool{
		"outbox": deps.Outbox == nil, "profiles": deps.Profiles == nil, "texts": deps.Texts == nil, "channels": len(deps.Channels) == 0,
	} {
		if missing {
			faults = append(faults, store.Fault{Field: field, Reason: "is missing"})
		}
	}
	for name, c := range deps.Channels {
		if !slices.Contains(store.Channels(), name) || c == nil {
			faults = append(faults, store.Fault{Field: "channels", Reason: fmt.Sprintf("%.20q is nil or none of %s", name, strings.Join(store.Channels(), ", "))})
		}
	}
	if len(faults) > 0 {
		return nil, &store.InvalidError{Faults: faults}
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics()
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Rand == nil {
		deps.Rand = rand.Float64
	}
	return &Dispatcher{
		deps: deps, opts: opts, log: deps.Log,
		wake: make(chan struct{}, 1), memory: newMemory(rememberedMessages),
	}, nil
}

// Wake makes Run look at the outbox at once, rather than at the next poll: for
// who has just written a message in this process. It never blocks.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// claimed is a message in hand.
type claimed struct {
	message store.Message
	until   time.Time // the end of the lease, by Now
}

// Run delivers until ctx is done. Then it claims no more, gives back what it has
// not begun, waits for what it has for up to Options.Grace, and returns nil:
// nothing of the dispatcher runs on. Run it once at a time. An outbox that
// fails is tried again; that is logged and counted, and never ends Run.
func (d *Dispatcher) Run(ctx context.Context) error {
	// Deliveries outlive ctx by the grace.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	hand := make(chan claimed, d.opts.Workers) // claimed ahead, so that no worker waits for the database
	free := make(chan struct{}, 1)             // a worker has taken one out of hand
	var workers sync.WaitGroup
	for range d.opts.Workers {
		workers.Go(func() {
			for c := range hand {
				select {
				case free <- struct{}{}:
				default:
				}
				if ctx.Err() != nil {
					d.giveBack(work, c)
					continue
				}
				d.deliver(work, c)
				d.Wake() // the next message of the job may be due now
			}
		})
	}

	d.claim(ctx, hand, free)

	close(hand)
	idle := make(chan struct{})
	go func() {
		workers.Wait()
		close(idle)
	}()
	grace := time.NewTimer(d.opts.Grace)
	defer grace.Stop()
	select {
	case <-idle:
	case <-grace.C:
		d.log.Warn("notifications: deliveries are cut off", "grace", d.opts.Grace)
		cancel()
		<-idle // channels return soon after their context is done
	}
	return nil
}

// claim fills hand until ctx is done.
func (d *Dispatcher) claim(ctx context.Context, hand chan<- claimed, free <-chan struct{}) {
	failures := 0
	for ctx.Err() == nil {
		// Half a hand at a time, so that under load a claim is for many messages.
		room := cap(hand) - len(hand)
		if room < (cap(hand)+1)/2 {
			select {
			case <-ctx.Done():
			case <-free:
			}
			continue
		}
		// Taken before the claim, by the clock that the claim goes by: the lease
		// ends no earlier than this.
		now := d.deps.Now()
		messages, err := d.deps.Outbox.Claim(ctx, d.opts.Node, room, d.opts.Lease, now)
		for _, m := range messages { // also beside an error: they are ours
			d.deps.Metrics.claimed.Inc()
			hand <- claimed{m, now.Add(d.opts.Lease)} // does not block: only this goroutine fills it
		}
		pause := d.opts.Poll
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			failures++
			d.deps.Metrics.outboxErrors.WithLabelValues("claim").Inc()
			pause = max(pause, d.opts.Backoff.Delay(failures, d.deps.Rand()))
			d.log.Error("notifications: the outbox cannot be read", "error", err, "again_in", pause)
		default:
			failures = 0
			if len(messages) == room {
				continue
			}
		}
		wake := d.wake
		if err != nil {
			wake = nil // a broken database is not asked more often for being busy
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
		}
		timer.Stop()
	}
}

// giveBack returns a message that this node had no time for.
func (d *Dispatcher) giveBack(ctx context.Context, c claimed) {
	now := d.deps.Now()
	d.deps.Metrics.messages.WithLabelValues("given_back").Inc()
	d.note(ctx, c, "retry", func(ctx context.Context) error {
		return d.deps.Outbox.Retry(ctx, c.message, now, cmp.Or(c.message.LastError, "given back: the node had no time for it"))
	})
}

// deliver makes one attempt at a message and notes what came of it.
func (d *Dispatcher) deliver(ctx context.Context, c claimed) {
	m := c.message
	// A message that lay in hand for long may be another's before it is done.
	if d.deps.Now().Add(d.opts.Timeout).After(c.until) {
		d.log.Warn("notifications: a claim was too old to begin", "message", m.ID, "job", m.Job)
		d.giveBack(ctx, c)
		return
	}
	timed, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	result := d.attempt(timed, m)
	cancel()

	cutOff := ctx.Err() != nil
	// What is known has to be written whatever has become of ctx.
	ctx = context.WithoutCancel(ctx)
	if cutOff && result.retry != nil { // not the message's fault: it is not given up for that
		d.giveBack(ctx, c)
		return
	}
	now := d.deps.Now()
	log := d.log.With("message", m.ID, "job", m.Job, "action", m.Action, "attempt", m.Attempts)
	switch {
	case result.retry == nil && result.refused == nil:
		d.deps.Metrics.done(m, now, result.reached)
		if d.note(ctx, c, "done", func(ctx context.Context) error { return d.deps.Outbox.Done(ctx, m, now) }) {
			d.memory.forget(m.ID)
		}
	case result.retry == nil || m.Attempts >= d.opts.Attempts:
		err := joined(result.refused, result.retry)
		d.deps.Metrics.messages.WithLabelValues("dead").Inc()
		log.Error("notifications: a message is given up", "error", err)
		if d.note(ctx, c, "dead", func(ctx context.Context) error { return d.deps.Outbox.Dead(ctx, m, now, cause(err)) }) {
			d.memory.forget(m.ID)
		}
	default:
		err := joined(result.refused, result.retry)
		wait := max(d.opts.Backoff.Delay(m.Attempts, d.deps.Rand()), result.after)
		d.deps.Metrics.messages.WithLabelValues("retried").Inc()
		log.Warn("notifications: a delivery failed", "error", err, "again_in", wait)
		d.note(ctx, c, "retry", func(ctx context.Context) error {
			return d.deps.Outbox.Retry(ctx, m, now.Add(wait), cause(err))
		})
	}
}

// cause is an error as the outbox keeps it: one line, of bounded length.
func cause(err error) string { return cut(err.Error(), 500) }

// result is what came of an attempt on all channels.
type result struct {
	reached int           // targets that have it, from this attempt or an earlier one
	after   time.Duration // no attempt before this
	retry   error         // failures that an attempt may mend
	refused error         // failures that no attempt mends
}

func (r *result) add(s result) {
	r.reached += s.reached
	r.after = max(r.after, s.after)
	r.retry = joined(r.retry, s.retry)
	r.refused = joined(r.refused, s.refused)
}

// joined is errors.Join on one line.
func joined(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

func (d *Dispatcher) attempt(ctx context.Context, m store.Message) result {
	settings, err := d.deps.Profiles.Settings(ctx, m.Recipient)
	if err != nil {
		return result{retry: fmt.Errorf("read the recipient's settings: %w", err)}
	}
	n, err := d.deps.Texts.Note(m, settings.Language)
	if err != nil {
		return result{refused: err}
	}
	// Channels side by side, so that a slow one does not delay the others; the
	// targets of one channel one after the other, which bounds what one message can start.
	var mu sync.Mutex
	var all result
	var wg sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(d.deps.Channels)) {
		if settings.Channels != nil && !slices.Contains(settings.Channels, name) {
			continue
		}
		wg.Go(func() {
			r := d.attemptOn(ctx, name, n)
			mu.Lock()
			defer mu.Unlock()
			all.add(r)
		})
	}
	wg.Wait()
	return all
}

// attemptOn delivers a note to the targets of one channel that do not have it.
func (d *Dispatcher) attemptOn(ctx context.Context, channel string, n Note) result {
	targets, err := d.deps.Channels[channel].Targets(ctx, n.Recipient)
	if err != nil {
		return result{retry: fmt.Errorf("%s: %w", channel, err)}
	}
	var all result
	for _, t := range targets {
		key := channel + " " + t.Key
		if d.memory.has(n.ID, key) {
			all.reached++
			continue
		}
		began := time.Now() // a duration for people: the machine's own clock
		err := t.Send(ctx, n)
		d.deps.Metrics.sent(channel, err, time.Since(began))
		var r result
		switch refused, isRefused := errors.AsType[*RefusedError](err); {
		case err == nil:
			d.memory.add(n.ID, key)
			r.reached = 1
		case errors.Is(err, ErrGone):
			d.log.Info("notifications: a target is gone", "channel", channel, "user", n.Recipient, "reason", err)
		case isRefused:
			r.refused = fmt.Errorf("%s: %w", channel, refused)
		default:
			r.retry = fmt.Errorf("%s: %w", channel, err)
			if later, ok := errors.AsType[*LaterError](err); ok {
				r.after = min(later.After, MaxRetryAfter)
			}
		}
		all.add(r)
	}
	return all
}

// note writes what became of a message, again and again while its lease lasts: a
// result that is lost costs a duplicate. It reports whether it was written.
func (d *Dispatcher) note(ctx context.Context, c claimed, what string, write func(context.Context) error) bool {
	for failures := 0; ; {
		timed, cancel := context.WithTimeout(ctx, noteTimeout)
		err := write(timed)
		cancel()
		if err == nil {
			return true
		}
		d.deps.Metrics.outboxErrors.WithLabelValues(what).Inc()
		failures++
		wait := d.opts.Backoff.Delay(failures, d.deps.Rand())
		lost := errors.Is(err, store.ErrLeaseLost)
		if lost || failures >= noteAttempts || d.deps.Now().Add(wait).After(c.until) {
			d.log.Error("notifications: the outcome of a message was not written, it will come again",
				"message", c.message.ID, "job", c.message.Job, "outcome", what, "error", err)
			return false
		}
		timer := time.NewTimer(wait)
		<-timer.C // a few seconds at most, and the stop of the process should not cut it short
	}
}

const (
	noteTimeout  = 5 * time.Second
	noteAttempts = 4
)

// rememberedMessages bounds the memory of a dispatcher.
const rememberedMessages = 10_000

// memory knows which targets have a message that is not done: in this process
// only, and of the last messages only. It saves duplicates; it is not needed for
// anything to arrive.
type memory struct {
	mu    sync.Mutex
	limit int
	have  map[store.ID]map[string]bool
	order []store.ID // the oldest first; may name what is forgotten already
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, have: make(map[store.ID]map[string]bool)}
}

func (m *memory) has(id store.ID, target string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.have[id][target]
}

func (m *memory) add(id store.ID, target string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have[id] == nil {
		m.have[id] = make(map[string]bool)
		m.order = append(m.order, id)
	}
	m.have[id][target] = true
	for len(m.have) > m.limit {
		delete(m.have, m.order[0])
		m.order = m.order[1:]
	}
	if len(m.order) > 2*m.limit { // mostly forgotten ones
		m.order = slices.DeleteFunc(m.order, func(id store.ID) bool { return m.have[id] == nil })
	}
}

func (m *memory) forget(id store.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.have, id)
}
