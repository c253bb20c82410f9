package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nearjob/nearjob/store"
)

// metrics are what /metrics shows. Every label has few values: routes are
// patterns, and what a client makes up counts as "other".
type metrics struct {
	registry *prometheus.Registry

	inFlight prometheus.Gauge
	requests *prometheus.HistogramVec

	searches, rounds, statements, candidates, hits, database, compute *prometheus.CounterVec
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

func (m *metrics) answered(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}
