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

Examples:

    nearjob serve
    nearjob serve --addr :8080 --log-format json --db mysql://nearjob:secret@127.0.0.1:3306/nearjob`
}

func (c *serveCmd) Run(ctx context.Context, s streams) (err error) {
	l, err := c.listen(ctx)
	if err != nil {
		return err
	}
	e, err := c.open(ctx, defaultFile)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return c.serve(ctx, l, e, c.AllowExplain, s.err)
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

// serve answers requests until ctx ends.
func (c *server) serve(ctx context.Context, l net.Listener, e store.Engine, allowExplain bool, logTo io.Writer) error {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(logTo, opts)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(logTo, opts)
	}
	log := slog.New(handler)
	deps := api.Deps{Search: search.New(e, time.Now), Jobs: e, Ready: e, Log: log}
	if pooled, ok := e.(interface{ DB() *sqlx.DB }); ok {
		deps.Collectors = append(deps.Collectors, collectors.NewDBStatsCollector(pooled.DB().DB, e.Name()))
	}
	h := api.New(
		deps,
		api.Options{AllowExplain: allowExplain, CORSOrigins: c.CORSOrigin, RequestTimeout: c.RequestTimeout, Version: version()},
	)
	log.Info("serving", "address", l.Addr().String(), "database", e.Name())
	err := api.Serve(ctx, l, h, api.ServerOptions{Grace: c.Grace, Log: log})
	log.Info("ended")
	return err
}
