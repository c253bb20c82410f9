package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearjob/nearjob/store"
)

// Metrics counts what dispatchers do. It is a collector, for a registry of the
// caller's. Every label has few values.
type Metrics struct {
	claimed      prometheus.Counter
	messages     *prometheus.CounterVec
	latency      prometheus.Histogram
	attempts     prometheus.Histogram
	deliveries   *prometheus.HistogramVec
	outboxErrors *prometheus.CounterVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics with nothing counted.
func NewMetrics() *Metrics {
	return &Metrics{
		claimed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nearjob_notify_claimed_total", Help: "Messages taken from the outbox, each time that they are.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nearjob_notify_messages_total",
			Help: "Attempts at messages by outcome: delivered, unreachable (the recipient has no target), retried, dead, given_back.",
		}, []string{"outcome"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "nearjob_notify_latency_seconds",
			Help:    "Time from the event to its delivery on all channels.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "nearjob_notify_attempts",
			Help:    "Attempts that delivered messages took.",
			Buckets: []float64{1, 2, 3, 4, 5, 7, 10, 15},
		}),
		deliveries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nearjob_notify_delivery_duration_seconds",
			Help:    "Time of one attempt at one target, by channel and result: ok, gone, refused, later, failed.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"channel", "result"}),
		outboxErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nearjob_notify_outbox_errors_total",
			Help: "Failed operations on the outbox: claim, done, retry, dead.",
		}, []string{"operation"}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.claimed, m.messages, m.latency, m.attempts, m.deliveries, m.outboxErrors}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *Metrics) done(msg store.Message, now time.Time, reached int) {
	if reached == 0 {
		m.messages.WithLabelValues("unreachable").Inc()
		return
	}
	m.messages.WithLabelValues("delivered").Inc()
	m.latency.Observe(max(0, now.Sub(msg.At).Seconds()))
	m.attempts.Observe(float64(msg.Attempts))
}

func (m *Metrics) sent(channel string, err error, took time.Duration) {
	result := "failed"
	_, refused := errors.AsType[*RefusedError](err)
	_, later := errors.AsType[*LaterError](err)
	switch {
	case err == nil:
		result = "ok"
	case errors.Is(err, ErrGone):
		result = "gone"
	case refused:
		result = "refused"
	case later:
		result = "later"
	}
	m.deliveries.WithLabelValues(channel, result).Observe(took.Seconds())
}

// OutboxMetrics shows how much waits in an outbox, and for how long: it counts
// when it is asked. Register it on one node, or take the maximum over nodes, for
// all see the same outbox.
type OutboxMetrics struct {
	depth  Depther
	now    func() time.Time
	log    *slog.Logger
	count  *prometheus.Desc
	oldest *prometheus.Desc
}

var _ prometheus.Collector = (*OutboxMetrics)(nil)

// NewOutboxMetrics returns a collector. log may be nil.
func NewOutboxMetrics(d Depther, now func() time.Time, log *slog.Logger) *OutboxMetrics {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &OutboxMetrics{
		depth: d, now: now, log: log,
		count:  prometheus.NewDesc("nearjob_notify_outbox_messages", "Messages in the outbox by state.", []string{"state"}, nil),
		oldest: prometheus.NewDesc("nearjob_notify_outbox_oldest_seconds", "Age of the oldest pending message, 0 when none is.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (o *OutboxMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- o.count
	ch <- o.oldest
}

// depthTimeout is below the usual timeout of a scrape, so that a slow database
// costs these metrics and not all of them.
const depthTimeout = 3 * time.Second

// Collect implements prometheus.Collector. When the outbox cannot be read the
// metrics are left out, which an alert on their absence sees; a wrong figure
// would be worse, and an error would fail the whole scrape.
func (o *OutboxMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), depthTimeout)
	defer cancel()
	d, err := o.depth.Depth(ctx)
	if err != nil {
		o.log.Error("notifications: the outbox cannot be counted", "error", err)
		return
	}
	for state, n := range map[store.MessageState]int{store.Pending: d.Pending, store.Delivered: d.Delivered, store.Dead: d.Dead} {
		ch <- prometheus.MustNewConstMetric(o.count, prometheus.GaugeValue, float64(n), string(state))
	}
	age := 0.0
	if !d.Oldest.IsZero() {
		age = max(0, o.now().Sub(d.Oldest).Seconds())
	}
	ch <- prometheus.MustNewConstMetric(o.oldest, prometheus.GaugeValue, age)
}
