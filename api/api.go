package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/geo"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

// Searcher answers queries.
type Searcher interface {
	Find(ctx context.Context, q store.Query) (store.Page, error)
	Explain(ctx context.Context, q store.Query) (store.Page, search.Explanation, error)
}

var _ Searcher = (*search.Finder)(nil)

// Jobs reads records by their ids.
type Jobs interface {
	Jobs(ctx context.Context, ids []store.ID) ([]store.Job, error)
}

// Readier says whether requests can be served.
type Readier interface {
	// Ready returns nil or the reason why not, in words that clients may read.
	Ready(ctx context.Context) error
}

// Deps is what the API works with. Search, Jobs and Ready are needed.
type Deps struct {
	Search Searcher
	Jobs   Jobs
	Ready  Readier

	// Strategies are those that Search has; nil: search.Strategies().
	Strategies []search.Strategy

	// Market adds the matching endpoints, for which Auth is needed; nil: they are
	// left out.
	Market Market

	// Alerts adds the endpoints of a user's alerts, for which Market is needed: it
	// keeps the answers for replays, and the messages by which alerts tell. nil: they are left out.
	Alerts store.AlertBook

	// Place is where a job is for those who have no part in it: for everybody but
	// its requester and the worker whose application holds it. It must give a job the
	// same place each time, or repeated reading would average it out, and be the
	// place that Search measures from, so that distances do not tell the exact one. nil: the exact place.
	Place func(j *store.Job) geo.LatLng

	// Auth tells users. Without Market it only lets answers depend on who asks,
	// and is needed for Options.PrivateRead. nil: every request is nobody's.
	Auth Authenticator

	Stream   http.Handler // GET /v1/me/stream, for users and outside of RequestTimeout; nil: left out
	Webhooks URLChecker   // nil: as webhook.Options{} says: https, and no private address
	Limits   *Limits      // nil: requests are not limited

	IDs IDSource         // of jobs and webhooks; nil: those of a random node
	Now func() time.Time // nil: time.Now

	Log          *slog.Logger           // nil: nothing is logged
	NewRequestID func() string          // nil: 26 random letters and digits; safe for concurrent use
	Collectors   []prometheus.Collector // shown by /metrics too, such as a database pool's
}

// Options adjusts the API. The zero Options is fit for the public.
type Options struct {
	// AllowExplain lets clients see SQL and plans, at twice the work or more.
	AllowExplain bool

	// CORSOrigins are the origins (such as "https://example.com") whose pages
	// may read answers in a browser; "*" is all.
	CORSOrigins []string

	// PrivateRead makes the reading of jobs need a token too.
	PrivateRead bool

	RequestTimeout time.Duration // limit of a request's work; 0: 10 s
	MaxBodyBytes   int64         // limit of a request's body; 0: 128 KiB
	Version        string        // shown in the description; "": "dev"
}

func (o *Options) setDefaults() {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 128<<10) // a description of 20,000 characters has up to 80,000 bytes
	o.Version = cmp.Or(o.Version, "dev")
}

type api struct {
	deps       Deps
	opts       Options
	log        *slog.Logger
	strategies strategies
	metrics    *metrics
	mux        *patternMux
	chains     chains
}

// New returns the API's handler. It panics where a needed part of deps is
// missing, two collectors have the same name, or the limits cannot be kept (see
// [Limits.Validate]).
func New(deps Deps, opts Options) http.Handler {
	if deps.Search == nil || deps.Jobs == nil || deps.Ready == nil {
		panic("api: Deps needs Search, Jobs and Ready")
	}
	if deps.Auth == nil && (deps.Market != nil || deps.Stream != nil || opts.PrivateRead) {
		panic("api: Deps needs Auth for Market, Stream and Options.PrivateRead")
	}
	if deps.Alerts != nil && deps.Market == nil {
		panic("api: Deps needs Market for Alerts")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.IDs == nil {
		ids, err := store.NewIDs(deps.Now, -1)
		invalid(err)
		deps.IDs = ids
	}
	if deps.Webhooks == nil {
		deps.Webhooks = webhook.New(nil, webhook.Options{})
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.NewRequestID == nil {
		deps.NewRequestID = rand.Text
	}
	if len(deps.Strategies) == 0 {
		deps.Strategies = search.Strategies()
	}
	opts.setDefaults()
	a := &api{
		deps: deps, opts: opts, log: deps.Log,
		strategies: newStrategies(deps.Strategies),
		metrics:    newMetrics(deps.Collectors),
		mux:        &patternMux{ServeMux: http.NewServeMux()},
	}
	var err error
	a.chains, err = a.newChains()
	invalid(err)
	a.routes()
	return a
}

func (a *api) routes() {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	asJSON := huma.Format{Marshal: writeJSON}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "Nearjob",
				Version:     a.opts.Version,
				Description: about,
				License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{Schemas: registry},
			Tags: []*huma.Tag{
				{Name: "Jobs", Description: "Find open jobs."},
				{Name: "Service", Description: "How the service is doing."},
			},
		},
		// The empty OpenAPIPath, DocsPath and SchemasPath leave out huma's own
		// pages, which load scripts from elsewhere.
		Formats:       map[string]huma.Format{typeJSON: asJSON, "json": asJSON, typeGeoJSON: {Marshal: writeGeoJSON}},
		DefaultFormat: typeJSON,
	}
	config.AllowAdditionalPropertiesByDefault = true // a later version may tell more
	h := humago.New(a.mux, config)
	h.UseMiddleware(prepare)

	register(a, h, get("nearby", "/v1/jobs/nearby", "Find jobs near a place",
		"Open jobs around a place, nearest first. Leave radius_m out for the nearest however far."), both[jobs, featureCollection], searchErrors, a.nearby)
	register(a, h, get("in-box", "/v1/jobs/in-box", "Find jobs in a box",
		"Open jobs between two parallels and two meridians, as on a map, newest first."), both[jobs, featureCollection], searchErrors, a.inBox)
	register(a, h, get("job", "/v1/jobs/{id}", "Read a job",
		"One job with its whole text, whatever its state."), both[job, feature], append([]int{http.StatusNotFound}, readErrors...), a.job)
	register(a, h, get("strategies", "/v1/strategies", "List the search strategies",
		"The ways to search. They give the same answer at different cost."), nil, plainErrors, a.list)
	healthz := get("healthz", "/healthz", "Is the process alive?", "Answers as long as the process can.")
	readyz := get("readyz", "/readyz", "Can requests be served?",
		"Answers 200 when the database can be reached and its schema is this program's, otherwise 503 with the reason.")
	healthz.Tags, readyz.Tags = []string{"Service"}, []string{"Service"}
	register(a, h, healthz, nil, plainErrors, a.healthz)
	register(a, h, readyz, nil, append([]int{http.StatusServiceUnavailable}, plainErrors...), a.readyz)

	for path, item := range h.OpenAPI().Paths {
		if !strings.HasPrefix(path, "/v1/") || item.Get == nil {
			continue
		}
		a.chains.needLogin["GET "+path] = a.opts.PrivateRead
		a.secure(item.Get, registry)
	}
	if a.deps.Auth != nil {
		h.OpenAPI().Components.SecuritySchemes = map[string]*huma.SecurityScheme{securityName: &bearer}
	}
	if a.deps.Market != nil {
		a.addMarket(h.OpenAPI())
	}
	if a.deps.Stream != nil {
		a.chains.needLogin["GET "+streamPath] = true
		a.mux.Handle("GET "+streamPath, a.deps.Stream)
	}

	delete(registry.Map(), "ErrorModel") // huma's own problems, which are not sent
	delete(registry.Map(), "ErrorDetail")
	spec, err := json.Marshal(h.OpenAPI())
	if err != nil {
		panic(err) // a fault in the types above, found by any test
	}
	a.mux.Handle("GET /openapi.json", static("application/json", spec))
	a.docs()
	a.mux.Handle("GET /metrics", a.metrics.handler())
}

// streamPath is where users follow their messages. It is not in the description,
// for OpenAPI has no words for a stream.
const streamPath = "/v1/me/stream"

// secure describes what a reader's token has to do with an operation.
func (a *api) secure(op *huma.Operation, registry huma.Registry) {
	var more []int
	if a.deps.Auth != nil {
		more = append(more, http.StatusBadRequest, http.StatusUnauthorized, http.StatusServiceUnavailable)
		op.Security = []map[string][]string{{securityName: {}}}
		if !a.opts.PrivateRead {
			op.Security = append(op.Security, map[string][]string{}) // or none
		}
	}
	if a.deps.Limits != nil {
		more = append(more, http.StatusTooManyRequests)
	}
	addProblems(op, registry, more)
}

const about = `The open jobs near a point.

Every strategy gives the same answer: jobs by great-circle distance and then by id,
page by page, none twice and none left out.

Send ` + "`Accept: application/geo+json`" + ` for GeoJSON. A request that cannot be answered gets a
problem document (RFC 9457) that lists all of its faults.`

// The errors of the operations.
var (
	plainErrors  = []int{http.StatusUnprocessableEntity}
	readErrors   = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusUnprocessableEntity, http.StatusInternalServerError}
	searchErrors = append([]int{http.StatusForbidden}, readErrors...)
)

func get(id, path, summary, description string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Description: description, Tags: []string{"Jobs"},
		SkipValidateParams: true, // see the package comment
	}
}

// both describes an answer that comes as JSON and as GeoJSON.
func both[J, G any](r huma.Registry) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		typeJSON:    {Schema: r.Schema(reflect.TypeFor[J](), true, "")},
		typeGeoJSON: {Schema: r.Schema(reflect.TypeFor[G](), true, "")},
	}
}

// register adds an operation. Its handler gets the faults that are already known
// and returns any error as it is.
func register[I, O any](a *api, h huma.API, op huma.Operation, content func(huma.Registry) map[string]*huma.MediaType,
	statuses []int, handler func(context.Context, *I, *faults) (O, error)) {
	registry := h.OpenAPI().Components.Schemas
	ok := &huma.Response{Description: "OK", Headers: requestIDHeaders()}
	if content != nil {
		ok.Content = content(registry)
	}
	op.Responses = map[string]*huma.Response{"200": ok}
	addProblems(&op, registry, statuses)
	type output struct{ Body O }
	huma.Register(h, op, func(ctx context.Context, in *I) (*output, error) {
		f, _ := ctx.Value(faultsKey{}).(*faults)
		body, err := handler(ctx, in, f)
		if err == nil {
			err = f.err()
		}
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return &output{body}, nil
	})
}

func requestIDHeaders() map[string]*huma.Param {
	return map[string]*huma.Param{headerRequestID: {
		Description: "The id of this request in the server's log.", Schema: &huma.Schema{Type: huma.TypeString},
	}}
}

// addProblems describes the problems that an operation may answer with.
func addProblems(op *huma.Operation, registry huma.Registry, statuses []int) {
	retry := &huma.Param{Description: "Seconds to wait.", Schema: &huma.Schema{Type: huma.TypeInteger}}
	for _, status := range statuses {
		r := &huma.Response{
			Description: http.StatusText(status),
			Headers:     requestIDHeaders(),
			Content: map[string]*huma.MediaType{problemJSON: {
				Schema:  registry.Schema(reflect.TypeFor[Problem](), true, ""),
				Example: exampleProblem(status),
			}},
		}
		switch status {
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			r.Headers["Retry-After"] = retry
		case http.StatusUnauthorized:
			r.Headers["WWW-Authenticate"] = &huma.Param{Description: "The challenge (RFC 6750).", Schema: &huma.Schema{Type: huma.TypeString}}
		}
		op.Responses[strconv.Itoa(status)] = r
	}
}

type faultsKey struct{}

// headerKey is under what a handler of huma's finds the answer's header.
type headerKey struct{}

// prepare stands before every operation.
func prepare(c huma.Context, next func(huma.Context)) {
	c.SetHeader("Cache-Control", "no-store")
	c.AppendHeader("Vary", "Accept")
	f := new(faults)
	u := c.URL()
	f.check(u.RawQuery, c.Operation().Parameters)
	_, w := humago.Unwrap(c)
	c = huma.WithValue(huma.WithValue(c, faultsKey{}, f), headerKey{}, w.Header())
	next(acceptContext{c, accepted(c)})
}

// acceptContext shows huma an Accept header that needs no more reading.
type acceptContext struct {
	humaContext
	accept string
}

// humaContext has another name, for a field Context would hide the method.
type humaContext = huma.Context

func (c acceptContext) Header(name string) string {
	if name == "Accept" {
		return c.accept
	}
	return c.humaContext.Header(name)
}

// accepted chooses the type of an answer, by all of the Accept header's lines.
func accepted(c huma.Context) string {
	var lines []string
	c.EachHeader(func(name, value string) {
		if name == "Accept" {
			lines = append(lines, value)
		}
	})
	return negotiate(strings.Join(lines, ","))
}

func (a *api) nearby(ctx context.Context, in *nearbyParams, f *faults) (jobs, error) {
	return a.search(ctx, in.query(f, a.strategies), in.Explain, f)
}

func (a *api) inBox(ctx context.Context, in *boxParams, f *faults) (jobs, error) {
	return a.search(ctx, in.query(f, a.strategies), in.Explain, f)
}

func (a *api) search(ctx context.Context, q store.Query, explain boolean, f *faults) (jobs, error) {
	explained := explain.isTrue(f, "explain")
	if err := f.err(); err != nil {
		return jobs{}, err
	}
	user := store.UserID(auth.User(ctx))
	if !explained {
		page, err := a.deps.Search.Find(ctx, q)
		if err != nil {
			return jobs{}, err
		}
		a.metrics.searched(page.Stats)
		return a.newJobs(page, nil, user), nil
	}
	if !a.opts.AllowExplain {
		return jobs{}, newProblem(ctx, http.StatusForbidden,
			detailForbidden)
	}
	page, x, err := a.deps.Search.Explain(ctx, q)
	if err != nil {
		return jobs{}, err
	}
	a.metrics.searched(page.Stats)
	return a.newJobs(page, &x, user), nil
}

type jobParams struct {
	ID string `path:"id" pattern:"^[1-9][0-9]*$" example:"7318349394477056" doc:"The job's id."`
}

func (a *api) job(ctx context.Context, in *jobParams, f *faults) (job, error) {
	id, err := store.ParseID(in.ID)
	f.merge(err)
	if err := f.err(); err != nil {
		return job{}, err
	}
	found, err := a.oneJob(ctx, id)
	if err != nil {
		return job{}, err
	}
	out := a.newJob(found, math.Inf(1))
	if isRequester(found, store.UserID(auth.User(ctx))) {
		out.showPlace(found)
	}
	if a.deps.Market != nil {
		if err := a.relate(ctx, &out, found); err != nil {
			return job{}, err
		}
		if h, ok := ctx.Value(headerKey{}).(http.Header); ok {
			h.Set("ETag", etag(found.Version))
		}
	}
	return out, nil
}

// strategies are what a search can be done by.
type strategies []strategy

type strategy struct {
	Name    string `json:"name" example:"s2" doc:"What the parameter strategy takes."`
	About   string `json:"about" example:"Ranges of S2 cells, read from near to far." doc:"What it reads and what it is good for."`
	Default bool   `json:"default" doc:"Whether a search that names no strategy uses this one."`
}

type strategyList struct {
	Strategies []strategy `json:"strategies" nullable:"false" doc:"The strategies."`
}

func newStrategies(list []search.Strategy) strategies {
	// The default is chosen as search.New does.
	chosen := max(0, slices.IndexFunc(list, func(s search.Strategy) bool { return s.Name() == search.DefaultStrategy }))
	out := make(strategies, len(list))
	for i, s := range list {
		out[i] = strategy{Name: s.Name(), About: s.About(), Default: i == chosen}
	}
	return out
}

func (s strategies) has(name string) bool {
	return slices.ContainsFunc(s, func(x strategy) bool { return x.Name == name })
}

func (s strategies) names() string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = s[i].Name
	}
	return strings.Join(names, ", ")
}

func (a *api) list(context.Context, *struct{}, *faults) (strategyList, error) {
	return strategyList{a.strategies}, nil
}

type health struct {
	Status string `json:"status" example:"ok"`
}

func (a *api) healthz(context.Context, *struct{}, *faults) (health, error) {
	return health{"ok"}, nil
}

// readyTimeout is short, for whoever asks will soon ask again.
const readyTimeout = 2 * time.Second

func (a *api) readyz(ctx context.Context, _ *struct{}, f *faults) (health, error) {
	if err := f.err(); err != nil {
		return health{}, err
	}
	timed, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := a.deps.Ready.Ready(timed); err != nil {
		p := newProblem(ctx, http.StatusServiceUnavailable, "Not ready: "+err.Error())
		p.header = http.Header{"Retry-After": {"1"}}
		return health{}, p
	}
	return health{"ok"}, nil
}
