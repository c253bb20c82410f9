package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/api/auth"
	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/api/notify/fcm"
	"github.com/nearjob/nearjob/api/notify/sse"
	"github.com/nearjob/nearjob/api/notify/webhook"
	"github.com/nearjob/nearjob/api/ratelimit"
	"github.com/nearjob/nearjob/store"
)

// matching is the flags of the matching service.
type matching struct {
	jwtSecret
	JWKSFile   string `name:"jwks-file" type:"path" placeholder:"FILE" help:"The keys of tokens as a JWK Set: RS256, ES256, EdDSA."`
	JWKSURL    string `name:"jwks-url" placeholder:"URL" help:"Where an identity provider shows its JWK Set."`
	Issuer     string `name:"jwt-issuer" placeholder:"NAME" help:"What a token's iss must be. Default with a secret: nearjob."`
	Audience   string `name:"jwt-audience" placeholder:"NAME" help:"What a token's aud must hold. Default with a secret: nearjob."`
	PublicRead bool   `default:"true" negatable:"" help:"Jobs may be read and searched without a token."`

	Node int `default:"-1" help:"This node's number in new ids, 0 to 1023; -1 takes one at random."`

	RateUser    int      `name:"rate-user" default:"600" placeholder:"N" help:"Requests a minute of one user."`
	RateAddress int      `name:"rate-address" default:"120" placeholder:"N" help:"Requests a minute of one address without a token."`
	Proxy       []string `name:"trusted-proxy" placeholder:"CIDR" help:"Who may say in X-Forwarded-For for whom it asks. May be repeated."`

	FCMKey       string   `name:"fcm-key" type:"path" placeholder:"FILE" help:"Push messages: the key of a Google service account (JSON)."`
	WebhookAllow []string `name:"webhook-allow" placeholder:"CIDR" help:"A private network that webhooks may be in. May be repeated."`
	WebhookHTTP  bool     `name:"webhook-http" help:"Webhooks may be plain http."`

	NotifyTimeout time.Duration `name:"notify-timeout" default:"30s" help:"Time limit of one delivery of a message. What a node that died was delivering, another delivers after four times that."`
}

// How often the background looks, and how long it keeps what is done.
const (
	expireEvery = 10 * time.Second
	alertsEvery = time.Second
	tidyEvery   = 5 * time.Minute

	keepMessages  = 30 * 24 * time.Hour
	keepAlertHits = 180 * 24 * time.Hour

	sweepBatch = 500
)

// market is the matching service, as far as the flags switch it on.
type market struct {
	flags   *matching
	log     *slog.Logger
	ids     *store.IDs
	retries *api.Retries
	auth    *auth.Verifier // nil: there is no matching service

	dispatcher *notify.Dispatcher
}

// prepare checks the flags, before anything is opened.
func (c *matching) prepare(ctx context.Context, log *slog.Logger) (*market, error) {
	ids, err := store.NewIDs(time.Now, c.Node)
	if err != nil {
		return nil, usageError{err}
	}
	if c.NotifyTimeout < time.Second || c.NotifyTimeout > time.Hour {
		return nil, usage("--notify-timeout: %v is not 1s..1h", c.NotifyTimeout)
	}
	m := &market{flags: c, log: log, ids: ids, retries: api.NewRetries()}
	secret, err := c.secret()
	if err != nil {
		return nil, err
	}
	if secret == "" && c.JWKSFile == "" && c.JWKSURL == "" {
		if !c.PublicRead {
			return nil, usage("--no-public-read needs a way to check tokens: --jwt-secret, --jwks-file or --jwks-url")
		}
		return m, nil
	}
	cfg := auth.Config{Secret: secret, JWKSFile: c.JWKSFile, JWKSURL: c.JWKSURL, Issuer: c.Issuer, Audience: c.Audience, Log: log}
	cfg.EnsureDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, usageError{err}
	}
	m.auth, err = auth.New(ctx, cfg)
	return m, err
}

// add puts the parts of the matching service to those of every server.
func (m *market) add(ctx context.Context, e engine, deps *api.Deps, opts *api.Options, so *api.ServerOptions) error {
	if m.auth == nil {
		return nil
	}
	limits, err := m.flags.limits()
	if err != nil {
		return err
	}
	texts, err := notify.NewTexts()
	if err != nil {
		return err
	}
	allow, err := prefixes("--webhook-allow", m.flags.WebhookAllow)
	if err != nil {
		return err
	}
	hooks := webhook.New(e, webhook.Options{Allow: allow, AllowHTTP: m.flags.WebhookHTTP})
	hub, err := sse.New(sse.Deps{Inbox: e, Profiles: e, Texts: texts, User: streamUser, Log: m.log}, sse.Options{})
	if err != nil {
		return err
	}
	channels := map[string]notify.Channel{"webhook": hooks, "stream": hub}
	if m.flags.FCMKey != "" {
		key, err := os.ReadFile(m.flags.FCMKey)
		if err != nil {
			return fmt.Errorf("--fcm-key: %w", err)
		}
		if channels["push"], err = fcm.New(ctx, e, fcm.Options{Key: key}); err != nil {
			return fmt.Errorf("--fcm-key: %w", err)
		}
	}
	counted := notify.NewMetrics()
	m.dispatcher, err = notify.New(
		notify.Deps{Outbox: e, Profiles: e, Channels: channels, Texts: texts, Metrics: counted, Log: m.log},
		notify.Options{Node: nodeName(m.ids), Timeout: m.flags.NotifyTimeout},
	)
	if err != nil {
		return err
	}
	deps.Market, deps.Alerts = waking{e, m.dispatcher.Wake}, e
	deps.Auth, deps.Stream, deps.Webhooks, deps.Limits, deps.IDs = m.auth, hub, hooks, limits, m.ids
	deps.Collectors = append(deps.Collectors, []prometheus.Collector{
		m.retries, counted, hub, notify.NewOutboxMetrics(e, time.Now, m.log),
	}...)
	opts.PrivateRead = !m.flags.PublicRead
	so.OnShutdown = hub.Close
	return nil
}

// nodeName is under what this process holds messages: the next id is nobody else's.
func nodeName(ids *store.IDs) string { return "node-" + ids.Next().String() }

func streamUser(r *http.Request) (string, bool) {
	user := auth.User(r.Context())
	return user, user != ""
}

func (c *matching) limits() (*api.Limits, error) {
	proxies, err := prefixes("--trusted-proxy", c.Proxy)
	if err != nil {
		return nil, err
	}
	l := &api.Limits{
		PerUser:        ratelimit.Limit{Requests: c.RateUser, Window: time.Minute},
		PerAddress:     ratelimit.Limit{Requests: c.RateAddress, Window: time.Minute},
		TrustedProxies: proxies,
	}
	if err := l.Validate(); err != nil {
		return nil, usageError{err}
	}
	return l, nil
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, usage("%s: %.60q is not a network such as 10.0.0.0/8", flag, t)
		}
		all = append(all, p)
	}
	return all, nil
}

// waking tells the dispatcher of what was just written.
type waking struct {
	store.Market
	wake func()
}

func (w waking) Post(ctx context.Context, j store.Job) (store.Outcome, error) {
	return w.told(w.Market.Post(ctx, j))
}

func (w waking) Edit(ctx context.Context, e store.Edit) (store.Outcome, error) {
	return w.told(w.Market.Edit(ctx, e))
}

func (w waking) Act(ctx context.Context, c store.Command) (store.Outcome, error) {
	return w.told(w.Market.Act(ctx, c))
}

func (w waking) told(o store.Outcome, err error) (store.Outcome, error) {
	if err == nil {
		w.wake()
	}
	return o, err
}

// work does what no request waits for, until ctx ends. Every node does it; the
// database keeps them apart.
func (m *market) work(ctx context.Context, e engine) error {
	if m.auth == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.dispatcher.Run(ctx) })
	m.every(g, ctx, expireEvery, "expire jobs", func(now time.Time) error {
		for {
			n, err := e.Expire(ctx, now, sweepBatch)
			if n > 0 {
				m.dispatcher.Wake()
			}
			if err != nil || n < sweepBatch {
				return err
			}
		}
	})
	m.every(g, ctx, alertsEvery, "match alerts", func(time.Time) error {
		found, err := store.MatchPending(ctx, e, sweepBatch, time.Now)
		if found.Told > 0 {
			m.dispatcher.Wake()
		}
		return err
	})
	m.every(g, ctx, tidyEvery, "tidy up", func(now time.Time) error {
		_, err := api.SweepAnswers(ctx, e, time.Now)
		return errors.Join(err,
			drain(func() (int, error) { return e.PruneMessages(ctx, now.Add(-keepMessages), sweepBatch) }),
			drain(func() (int, error) { return e.PruneAlertHits(ctx, now.Add(-keepAlertHits), sweepBatch) }))
	})
	return g.Wait()
}

// drain repeats a piece of work until there is less than a batch.
func drain(batch func() (int, error)) error {
	for {
		if n, err := batch(); err != nil || n < sweepBatch {
			return err
		}
	}
}

// every repeats some work. That it failed is logged, and it is tried again the next time.
func (m *market) every(g *errgroup.Group, ctx context.Context, pause time.Duration, what string, work func(now time.Time) error) {
	g.Go(func() error {
		t := time.NewTicker(pause)
		defer t.Stop()
		for {
			if err := work(time.Now()); err != nil && ctx.Err() == nil {
				m.log.Warn("background work failed", "work", what, "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-t.C:
			}
		}
	})
}
