package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/api/idempotency"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/api/ratelimit"
	"github.com/nearjob/nearjob/store"
)

// Matcher carries out what users do, as store.Matching says.
type Matcher interface {
	Post(ctx context.Context, j store.Job) (store.Outcome, error)
	Edit(ctx context.Context, e store.Edit) (store.Outcome, error)
	Act(ctx context.Context, c store.Command) (store.Outcome, error)
}

// Messages reads a user's messages, as store.Inbox says.
type Messages interface {
	Messages(ctx context.Context, user store.UserID, k store.Keys) ([]store.Message, error)
}

// Market is what the matching endpoints work on.
type Market interface {
	Matcher
	Messages
	store.MatchReader
	store.Subscriber
	idempotency.Store
}

var _ Market = store.Market(nil)

// Authenticator tells users from requests.
type Authenticator interface {
	Require(problem auth.Problem, next http.Handler) http.Handler
	Optional(problem auth.Problem, next http.Handler) http.Handler
}

var _ Authenticator = (*auth.Verifier)(nil)

// IDSource makes ids of jobs and webhooks.
type IDSource interface{ Next() store.ID }

var _ IDSource = (*store.IDs)(nil)

// URLChecker says whether the address of a webhook may be called.
type URLChecker interface {
	// CheckURL returns an *store.InvalidError.
	CheckURL(s string) error
}

var _ URLChecker = (*webhook.Channel)(nil)

// Limits bound how many requests a client may make of /v1; the rest, which asks
// for no login and no search, is not bounded. See package ratelimit.
type Limits struct {
	PerUser    ratelimit.Limit // of a user, wherever they come from; 0: 600 a minute
	PerAddress ratelimit.Limit // of an address whose requests have no token; 0: 120 a minute

	// Network bounds an address with and without tokens, before a token is
	// looked at: else made-up ones would cost their signatures' checks. Many
	// users may share an address. 0: 3,000 a minute.
	Network ratelimit.Limit

	TrustedProxies []netip.Prefix // who may say in X-Forwarded-For whom they speak for
	MaxKeys        int            // most clients that are kept count of; 0: 100,000
}

// Validate returns a *store.InvalidError with every fault.
func (l *Limits) Validate() error {
	_, _, err := l.limiters(nil)
	return err
}

// limiters are the one before the token is looked at and the one after.
func (l *Limits) limiters(a *api) (before, after *ratelimit.Limiter, err error) {
	network := l.Network
	if network == (ratelimit.Limit{}) {
		network = ratelimit.Limit{Requests: 3000, Window: time.Minute}
	}
	c := ratelimit.Config{AddressPolicy: "network", PerAddress: network, TrustedProxies: l.TrustedProxies, MaxKeys: l.MaxKeys}
	d := ratelimit.Config{
		User: requestUser, PerUser: l.PerUser, PerAddress: l.PerAddress, TrustedProxies: l.TrustedProxies, MaxKeys: l.MaxKeys,
	}
	if a != nil {
		c.Now, d.Now = a.deps.Now, a.deps.Now
		c.Observe, d.Observe = a.metrics.limited, a.metrics.limited
	}
	if before, err = ratelimit.New(c); err == nil {
		after, err = ratelimit.New(d)
	} else if _, other := ratelimit.New(d); other != nil {
		err = &store.InvalidError{Faults: append(asFaults(err), asFaults(other)...)}
	}
	return before, after, err
}

func requestUser(r *http.Request) string { return auth.User(r.Context()) }

// answersTTL is how long the answer to a POST with an Idempotency-Key is kept.
const answersTTL = 24 * time.Hour

// SweepAnswers removes the answers that were kept for replays, once their time of
// 24 h is over, and returns how many. Call it every few minutes on any node.
func SweepAnswers(ctx context.Context, s idempotency.Store, now func() time.Time) (int, error) {
	g, err := idempotency.New(idempotency.Config{Store: s, User: requestUser, TTL: answersTTL, Now: now})
	if err != nil {
		return 0, err
	}
	return g.Sweep(ctx)
}

// chains are what stands before the handlers of /v1: the limit of an address,
// then the token, the limit of a user, and the replays.
type chains struct {
	open, login http.Handler
	needLogin   map[string]bool // patterns; false: open
}

func (a *api) newChains() (chains, error) {
	c := chains{open: a.mux.ServeMux, login: a.mux.ServeMux, needLogin: map[string]bool{}}
	if a.deps.Market != nil {
		g, err := idempotency.New(idempotency.Config{
			Store: a.deps.Market, User: requestUser, TTL: answersTTL, MaxBodyBytes: a.opts.MaxBodyBytes,
			Observe: a.metrics.replayed, Log: a.log, Now: a.deps.Now,
		})
		if err != nil {
			return c, err
		}
		c.open = g.Handler(tell, c.open)
		c.login = c.open
	}
	if a.deps.Limits == nil {
		if a.deps.Auth != nil {
			c.open, c.login = a.deps.Auth.Optional(tell, c.open), a.deps.Auth.Require(tell, c.login)
		}
		return c, nil
	}
	before, after, err := a.deps.Limits.limiters(a)
	if err != nil {
		return c, err
	}
	c.open = after.Handler(tell, c.open)
	c.login = c.open
	if a.deps.Auth != nil {
		c.open = before.Handler(tell, a.deps.Auth.Optional(tell, c.open))
		c.login = before.Handler(tell, a.deps.Auth.Require(tell, c.login))
	}
	return c, nil
}

// tell answers for the middleware.
func tell(w http.ResponseWriter, r *http.Request, status int, detail string) {
	writeProblem(w, newProblem(r.Context(), status, detail))
}

// handler returns what answers the requests of a pattern.
func (c *chains) handler(pattern string, mux http.Handler) http.Handler {
	need, known := c.needLogin[pattern]
	switch {
	case !known:
		return mux
	case need:
		return c.login
	}
	return c.open
}

// A matching endpoint. Huma only describes these: see the package comment.
type endpoint struct {
	method, path   string
	id, tag        string
	summary, about string

	ifMatch precondition
	paged   bool
	body    reflect.Type // nil: it takes none
	patch   bool         // the body is a merge patch of that type
	needed  bool         // the body may not be left out
	answers map[int]reflect.Type
	etag    bool  // the answer has an ETag
	errors  []int // more than every endpoint has

	handle func(ctx context.Context, c *call) (reply, error)
}

type precondition int

const (
	noCondition precondition = iota
	mayHaveCondition
	needsCondition
)

// call is a request to an endpoint, as far as it has been read.
type call struct {
	r       *http.Request
	user    store.UserID
	now     time.Time
	body    any                      // see readBody
	given   bool                     // whether there is a body
	matches func(version int64) bool // nil: no If-Match
	faults
}

// reply is an answer.
type reply struct {
	status   int
	body     any // nil: none
	version  int64
	location string
}

func (a *api) serve(e *endpoint, params []*huma.Param) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		out, err := a.answer(e, params, r)
		if err != nil {
			p := a.problem(r.Context(), err)
			if p.Status == http.StatusGatewayTimeout {
				p.Detail = detailTooSlow
				if errors.Is(err, context.DeadlineExceeded) && e.method != http.MethodGet {
					p.Detail = detailUnsure
				}
			}
			writeProblem(w, p)
			return
		}
		if e.etag {
			h.Set("ETag", etag(out.version))
		}
		if out.location != "" {
			h.Set("Location", out.location)
		}
		if out.body == nil {
			w.WriteHeader(out.status)
			return
		}
		h.Set("Content-Type", typeJSON)
		w.WriteHeader(out.status)
		_ = writeJSON(w, out.body) // it has no error to return
	}
}

func (a *api) answer(e *endpoint, params []*huma.Param, r *http.Request) (reply, error) {
	c := &call{r: r, user: store.UserID(auth.User(r.Context())), now: a.deps.Now()}
	c.check(r.URL.RawQuery, params)
	if e.body == nil {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
			c.add("body", "is of no use: this request takes none")
		}
	} else {
		body, given, err := readBody(r, e.patch, &c.faults)
		if err != nil {
			return reply{}, err
		}
		c.body, c.given = body, given
		if !given && e.needed {
			c.add("body", "is missing: want a JSON object")
		}
	}
	lines := r.Header.Values("If-Match")
	switch {
	case len(lines) > 0 && e.ifMatch == noCondition && r.Method != http.MethodGet && r.Method != http.MethodHead:
		c.add("If-Match", "is not for this request: leave it out")
	case len(lines) > 0:
		c.matches = c.faults.matches(lines)
	case e.ifMatch == needsCondition:
		return reply{}, newProblem(r.Context(), http.StatusPreconditionRequired, detailNeedsMatch)
	}
	return e.handle(r.Context(), c)
}

// pathID reads an id of the path.
func (c *call) pathID(name string) store.ID {
	id, err := store.ParseID(c.r.PathValue(name))
	for _, f := range asFaults(err) {
		c.add(name, "%s", f.Reason)
	}
	return id
}

// Pages.

const defaultPage = 50

// keys reads limit and cursor. One more is asked for than shown, to know whether
// there is more. scope is what the list is of, so that a cursor of another is refused.
func (c *call) keys(kind, scope string) store.Keys {
	q := c.r.URL.Query()
	k := store.Keys{Limit: defaultPage + 1}
	if n := c.faults.limit("limit", limit(q.Get("limit"))); n > 0 {
		k.Limit = n + 1
	}
	if s := c.faults.cursor("cursor", q.Get("cursor")); s != "" {
		after, ok := parseCursor(kind, scope, s)
		if !ok {
			c.add("cursor", "is not one of this list: take next_cursor from the page before as it is, or leave it out for the first page")
		}
		k.After = after
	}
	return k
}

// cut cuts a list to the page asked for, and returns the cursor of the next.
func cut[T any](list []T, k store.Keys, kind, scope string, key func(*T) int64) (page []T, next string) {
	if len(list) < k.Limit {
		return list, ""
	}
	page = list[:k.Limit-1]
	return page, newCursor(kind, scope, key(&page[len(page)-1]))
}

// A cursor is a key and a checksum, in base64. The checksum is for mistakes, not
// for attackers: a key that somebody makes up shows them no more than their own list.
const cursorBytes = 8 + 4

func newCursor(kind, scope string, key int64) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(key))
	sum := sha256.Sum256([]byte(kind + "\x00" + scope + "\x00" + strconv.FormatInt(key, 10)))
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:4]...))
}

func parseCursor(kind, scope, s string) (key int64, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != cursorBytes {
		return 0, false
	}
	key = int64(binary.BigEndian.Uint64(b))
	return key, key > 0 && newCursor(kind, scope, key) == s
}

// Description.

// addMarket adds the endpoints to the router and the description.
func (a *api) addMarket(doc *huma.OpenAPI) {
	doc.Tags = append(doc.Tags,
		&huma.Tag{Name: "Matching", Description: "Post a job, apply for it, and see it through."},
		&huma.Tag{Name: "Me", Description: "What is the caller's own, and how they are told."},
	)
	if doc.Components.SecuritySchemes == nil {
		doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{}
	}
	list := append(a.matchEndpoints(), a.myEndpoints()...)
	if a.deps.Alerts != nil {
		list = append(list, a.alertEndpoints()...)
	}
	for _, e := range list {
		op := a.describe(doc, &e)
		doc.AddOperation(op)
		pattern := e.method + " " + e.path
		a.chains.needLogin[pattern] = true
		a.mux.HandleFunc(pattern, a.serve(&e, op.Parameters))
	}
}

func (a *api) describe(doc *huma.OpenAPI, e *endpoint) *huma.Operation {
	registry := doc.Components.Schemas
	op := &huma.Operation{
		OperationID: e.id, Method: e.method, Path: e.path, Summary: e.summary, Description: e.about, Tags: []string{e.tag},
		Security: []map[string][]string{{securityName: {}}}, Responses: map[string]*huma.Response{},
	}
	text := func(in, name, about string, required bool, s *huma.Schema) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: in, Description: about, Required: required, Schema: s})
	}
	id := func(example string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]*$", Examples: []any{example}}
	}
	for part := range strings.SplitSeq(e.path, "/") {
		switch part {
		case "{id}":
			text("path", "id", "The id.", true, id("7318349394477056"))
		case "{application}":
			text("path", "application", "The application's id.", true, id("7318349394477060"))
		case "{token}":
			text("path", "token", "The device's token, percent-encoded.", true,
				&huma.Schema{Type: huma.TypeString, MaxLength: ptr(store.MaxToken), Examples: []any{"fGxhbmdlIHRva2Vu:APA91b"}})
		}
	}
	if e.paged {
		text("query", "limit", "Entries a page.", false, &huma.Schema{
			Type: huma.TypeInteger, Minimum: ptr(1.0), Maximum: ptr(float64(store.MaxLimit)), Default: defaultPage, Examples: []any{20},
		})
		text("query", "cursor", "next_cursor of the page before, for the page after it.", false,
			&huma.Schema{Type: huma.TypeString, MaxLength: ptr(maxCursor)})
	}
	if e.ifMatch != noCondition {
		text("header", "If-Match", "The ETag of what was read: refused with 412 where it has changed since.", e.ifMatch == needsCondition,
			&huma.Schema{Type: huma.TypeString, Examples: []any{`"3"`}})
	}
	if e.method == http.MethodPost {
		text("header", idempotency.HeaderKey, "A random UUID of the client's making. The same request with the same key is carried out once, and answered alike for 24 h.", false,
			&huma.Schema{Type: huma.TypeString, MinLength: ptr(1), MaxLength: ptr(255), Examples: []any{"0b9f6d6e-7f0c-4b0e-9a43-6a1b0f2f2f63"}})
	}
	if e.body != nil {
		schema, contentType := registry.Schema(e.body, true, ""), typeJSON
		if e.patch {
			schema, contentType = patchSchema(registry, e.body), typeMergePatch
		}
		op.RequestBody = &huma.RequestBody{Required: e.needed, Content: map[string]*huma.MediaType{contentType: {Schema: schema}}}
	}
	header := func(about, kind string) *huma.Param {
		return &huma.Param{Description: about, Schema: &huma.Schema{Type: kind}}
	}
	for status, t := range e.answers {
		r := &huma.Response{Description: http.StatusText(status), Headers: requestIDHeaders()}
		if t != nil {
			r.Content = map[string]*huma.MediaType{typeJSON: {Schema: registry.Schema(t, true, "")}}
		}
		if e.etag {
			r.Headers["ETag"] = header("The version, for If-Match.", huma.TypeString)
		}
		if status == http.StatusCreated {
			r.Headers["Location"] = header("Where what was made can be read.", huma.TypeString)
		}
		if e.method == http.MethodPost {
			r.Headers[idempotency.HeaderReplayed] = header(`"true" for the answer of an earlier request with the same key.`, huma.TypeString)
		}
		op.Responses[strconv.Itoa(status)] = r
	}
	statuses := append(slices.Clone(e.errors), http.StatusUnauthorized, http.StatusBadRequest, http.StatusUnprocessableEntity,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	if a.deps.Limits != nil {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if e.body != nil || e.method == http.MethodPost {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if e.method == http.MethodPost {
		statuses = append(statuses, http.StatusConflict)
	}
	if e.ifMatch != noCondition {
		statuses = append(statuses, http.StatusPreconditionFailed)
	}
	if e.ifMatch == needsCondition {
		statuses = append(statuses, http.StatusPreconditionRequired)
	}
	addProblems(op, registry, statuses)
	return op
}

const securityName = "bearer"

var bearer = huma.SecurityScheme{
	Type: "http", Scheme: "bearer", BearerFormat: "JWT",
	Description: "A JSON Web Token whose sub is the user. What a user may do follows from the job, never from a claim.",
}

// patchSchema describes a merge patch: every field may be left out, or null to
// take it away.
func patchSchema(registry huma.Registry, t reflect.Type) *huma.Schema {
	const name = "JobPatch"
	if registry.Map()[name] == nil {
		ref := registry.Schema(t, true, "")
		patch := *registry.SchemaFromRef(ref.Ref)
		patch.Required = nil
		patch.Properties = map[string]*huma.Schema{}
		for name, p := range registry.SchemaFromRef(ref.Ref).Properties {
			nullable := *p
			if p.Ref != "" {
				nullable = huma.Schema{OneOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}}
			} else {
				nullable.Nullable = name != "title"
			}
			patch.Properties[name] = &nullable
		}
		patch.Description = "A merge patch (RFC 7396): what is left out stays, and null takes a field away."
		registry.Map()[name] = &patch
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// patternMux is a router that remembers its patterns.
type patternMux struct {
	*http.ServeMux
	patterns []string
}

func (m *patternMux) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(f))
}

func (m *patternMux) Handle(pattern string, h http.Handler) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.Handle(pattern, h)
}

// invalid panics: New was given what cannot work.
func invalid(err error) {
	if err != nil {
		panic(fmt.Sprintf("api: %v", err))
	}
}
