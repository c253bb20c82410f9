package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nearjob/nearjob/api"
	"github.com/nearjob/nearjob/store"
	"github.com/nearjob/nearjob/store/search"
)

type serveCmd struct {
	database
	server
	matching
	AllowExplain bool `help:"Let clients see SQL and plans with explain=true. It multiplies the work of a request."`
}

// server is the flags of every command that serves HTTP.
type server struct {
	Addr           string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where to listen."`
	RequestTimeout time.Duration `default:"10s" help:"Time limit of a request."`
	Grace          time.Duration `default:"10s" help:"At the end, how long requests that run may take to finish."`
	CORSOrigin     []string      `name:"cors-origin" placeholder:"ORIGIN" help:"An origin whose pages may call the API from a browser; * is all. May be repeated."`
	LogLevel       slog.Level    `default:"info" help:"debug, info, warn or error."`
	LogFormat      string        `default:"text" enum:"text,json" help:"text or json."`
}

func (serveCmd) Help() string {
	return `Ctrl-C or SIGTERM ends it when the requests that run have finished.

With a way to check tokens (--jwt-secret, --jwks-file or --jwks-url) it is the matching service too: jobs are posted, applied
for, accepted and confirmed, and users are told. Without, it only searches.

Examples:

    nearjob serve
    NEARJOB_JWT_SECRET=$(openssl rand -base64 48) nearjob serve
    nearjob serve --addr :8080 --log-format json --db mysql://nearjob:secret@127.0.0.1:3306/nearjob`
}

func (c *serveCmd) Run(ctx context.Context, s streams) (err error) {
	log := c.logger(s.err)
	m, err := c.matching.prepare(ctx, log)
	if err != nil {
		return err
	}
	l, err := c.listen(ctx)
	if err != nil {
		return err
	}
	e, err := c.openWith(ctx, defaultFile, engineOptions{ids: m.ids, onRetry: m.retries.Observe})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	deps, opts, so, err := c.parts(ctx, e, c.AllowExplain, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err := m.add(ctx, e, &deps, &opts, &so); err != nil {
		return errors.Join(err, l.Close())
	}
	// What works in the background ends after the last request, which may give it work.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- m.work(background, e) }()
	err = c.serve(ctx, l, e, deps, opts, so)
	stop()
	return errors.Join(err, <-done)
}

// listen takes the address first of all, so that a taken port costs nothing else.
func (c *server) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken by another program: choose another with --addr HOST:PORT", c.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", c.Addr, err)
	}
	return l, nil
}

// logger returns the log that the flags describe.
func (c *server) logger(to io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, opts))
	}
	return slog.New(slog.NewTextHandler(to, opts))
}

// parts are what every server is made of. Where places are blurred otherwise than this
// server would, there are none; anything else that is not ready may still become so.
func (c *server) parts(ctx context.Context, e engine, allowExplain bool, log *slog.Logger) (api.Deps, api.Options, api.ServerOptions, error) {
	if err := e.Ready(ctx); errors.Is(err, store.ErrPlaces) {
		return api.Deps{}, api.Options{}, api.ServerOptions{}, err
	}
	deps := api.Deps{Search: search.New(e, time.Now), Jobs: e, Ready: e, Log: log}
	if pooled, ok := e.(interface{ DB() *sqlx.DB }); ok {
		deps.Collectors = append(deps.Collectors, collectors.NewDBStatsCollector(pooled.DB().DB, e.Name()))
	}
	if b := e.Blur(); b != nil {
		deps.Place = b.Place
	}
	opts := api.Options{AllowExplain: allowExplain, CORSOrigins: c.CORSOrigin, RequestTimeout: c.RequestTimeout, Version: version()}
	return deps, opts, api.ServerOptions{Grace: c.Grace, Log: log}, nil
}

// serve answers requests until ctx ends.
func (c *server) serve(ctx context.Context, l net.Listener, e engine, deps api.Deps, opts api.Options, so api.ServerOptions) error {
	h := api.New(deps, opts)
	deps.Log.Info("serving", "address", l.Addr().String(), "database", e.Name(), "matching", deps.Market != nil, "places", e.Blur().String())
	err := api.Serve(ctx, l, h, so)
	deps.Log.Info("ended")
	return err
}
