package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServerOptions are the limits of a server. A zero field is its default.
type ServerOptions struct {
	ReadHeaderTimeout time.Duration // 5 s
	ReadTimeout       time.Duration // of a whole request; 15 s
	WriteTimeout      time.Duration // from the end of the header to the end of the answer; 30 s
	IdleTimeout       time.Duration // between two requests of a connection; 60 s
	MaxHeaderBytes    int           // of a request line and header, give or take 4 KiB; 32 KiB
	Grace             time.Duration // for requests that run when the server is told to end; 10 s

	// OnShutdown is called when the server is told to end, before requests are waited
	// for: to end streams, which do not end by themselves. nil: nothing is called.
	OnShutdown func()

	Log *slog.Logger // what net/http has to say; nil: nothing
}

func (o *ServerOptions) setDefaults() {
	o.ReadHeaderTimeout = cmp.Or(o.ReadHeaderTimeout, 5*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 15*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Minute)
	o.MaxHeaderBytes = cmp.Or(o.MaxHeaderBytes, 32<<10)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Serve answers requests on a listener, which it closes, until ctx ends. Then it
// takes no new requests and lets those that run finish, with their own contexts
// alive, for the grace period; what still runs after it is cancelled and cut off,
// which the error says. It returns nil after an orderly end.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o ServerOptions) error {
	o.setDefaults()
	// Requests must outlive ctx.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.ReadHeaderTimeout,
		ReadTimeout:       o.ReadTimeout,
		WriteTimeout:      o.WriteTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    o.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	if o.OnShutdown != nil {
		srv.RegisterOnShutdown(o.OnShutdown)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(requests, o.Grace)
	defer stop()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("requests were still running after the grace period of %v and were cut off", o.Grace)
	}
	cancel()
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	<-served // always http.ErrServerClosed by now
	return err
}
