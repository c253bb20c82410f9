package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nearjob/nearjob/api/idempotency"
	"github.com/nearjob/nearjob/store"
)

// metrics are what /metrics shows. Every label has few values: routes are
// patterns, and what a client makes up counts as "other".
type metrics struct {
	registry *prometheus.Registry

	inFlight prometheus.Gauge
	requests *prometheus.HistogramVec

	searches, rounds, statements, candidates, hits, database, compute *prometheus.CounterVec

	transitions, conflicts, idempotent, limits *prometheus.CounterVec
}

func newMetrics(more []prometheus.Collector) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nearjob_http_requests_in_flight", Help: "Requests that are being answered.",
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nearjob_http_request_duration_seconds",
			Help:    "Time to answer a request; its count is the number of requests.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method", "status"}),
	}
	m.registry.MustRegister(m.inFlight, m.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"strategy"})
		m.registry.MustRegister(c)
		return c
	}
	m.searches = counter("nearjob_searches_total", "Searches answered.")
	m.rounds = counter("nearjob_search_rounds_total", "Rounds of searches.")
	m.statements = counter("nearjob_search_statements_total", "Statements sent to the database by searches.")
	m.candidates = counter("nearjob_search_candidates_total", "Rows read from the search tables.")
	m.hits = counter("nearjob_search_hits_total", "Rows in the area of a search that passed its filter.")
	m.database = counter("nearjob_search_database_seconds_total", "Time that searches waited for the database.")
	m.compute = counter("nearjob_search_compute_seconds_total", "Time of searches outside the database.")
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.transitions = count("nearjob_transitions_total", "Actions on jobs that were asked for, and what became of them.", "action", "outcome")
	m.conflicts = count("nearjob_transition_conflicts_total",
		"Actions refused because the states do not allow them (409), or the version is another by now (412).", "status")
	m.idempotent = count("nearjob_idempotency_total", "Requests with an Idempotency-Key, and what became of them.", "outcome")
	m.limits = count("nearjob_rate_limit_total", "Requests held against a limit, by its policy and by whether it let them through.", "policy", "outcome")
	m.registry.MustRegister(more...)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) searched(s store.Stats) {
	m.searches.WithLabelValues(s.Strategy).Inc()
	m.rounds.WithLabelValues(s.Strategy).Add(float64(s.Rounds))
	m.statements.WithLabelValues(s.Strategy).Add(float64(s.Statements))
	m.candidates.WithLabelValues(s.Strategy).Add(float64(s.Candidates))
	m.hits.WithLabelValues(s.Strategy).Add(float64(s.Hits))
	m.database.WithLabelValues(s.Strategy).Add(max(0, s.Database.Seconds())) // a counter panics below 0
	m.compute.WithLabelValues(s.Strategy).Add(max(0, s.Compute.Seconds()))
}

// acted counts an action that reached the store.
func (m *metrics) acted(action store.Action, err error) {
	var (
		conflict *store.TransitionError
		stale    *store.VersionError
	)
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "done"
	case errors.As(err, &conflict):
		outcome = "conflict"
		m.conflicts.WithLabelValues("409").Inc()
	case errors.As(err, &stale):
		outcome = "stale"
		m.conflicts.WithLabelValues("412").Inc()
	case len(asFaults(err)) > 0:
		outcome = "invalid"
	case errors.Is(err, store.ErrForbidden):
		outcome = "forbidden"
	case errors.Is(err, store.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, store.ErrUnknownOutcome):
		outcome = "unknown"
	case errors.Is(err, store.ErrBusy):
		outcome = "busy"
	case errors.Is(err, store.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		outcome = "timeout"
	case errors.Is(err, context.Canceled):
		outcome = "cancelled"
	}
	m.transitions.WithLabelValues(string(action), outcome).Inc()
}

func (m *metrics) replayed(o idempotency.Outcome) { m.idempotent.WithLabelValues(string(o)).Inc() }

func (m *metrics) limited(policy string, limited bool) {
	outcome := "passed"
	if limited {
		outcome = "limited"
	}
	m.limits.WithLabelValues(policy, outcome).Inc()
}

// Retries counts transactions that an engine tries again, such as after a
// deadlock. Its Observe is for the engine's option OnRetry, and it itself for
// [Deps].Collectors.
type Retries struct {
	count *prometheus.CounterVec
}

var _ prometheus.Collector = (*Retries)(nil)

// NewRetries returns a counter.
func NewRetries() *Retries {
	return &Retries{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nearjob_transition_retries_total", Help: "Transactions of actions on jobs that were tried again.",
	}, []string{"action", "cause"})}
}

// Observe counts a try that failed with an error and is followed by another.
func (r *Retries) Observe(action string, err error) {
	cause := "other"
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		cause = "unknown"
	case errors.Is(err, store.ErrBusy):
		cause = "busy"
	case errors.Is(err, store.ErrDuplicate):
		cause = "duplicate"
	}
	r.count.WithLabelValues(action, cause).Inc()
}

// Describe implements prometheus.Collector.
func (r *Retries) Describe(ch chan<- *prometheus.Desc) { r.count.Describe(ch) }

// Collect implements prometheus.Collector.
func (r *Retries) Collect(ch chan<- prometheus.Metric) { r.count.Collect(ch) }

func (m *metrics) answered(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}
