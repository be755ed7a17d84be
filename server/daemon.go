package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
)

const (
	// DefaultListen is where the daemon listens.
	DefaultListen = "127.0.0.1:8080"
	// DefaultHealthTimeout bounds the read behind /healthz.
	DefaultHealthTimeout = 2 * time.Second

	readTimeout  = 10 * time.Second // of a request, header and body
	drainTimeout = 5 * time.Second  // of open requests at the end
	maxHeader    = 16 << 10         // bytes
	maxBody      = 64 << 10         // bytes
)

// Daemon backs up one etcd and answers HTTP. Set its fields before Run.
type Daemon struct {
	Listen        string // host:port
	HealthTimeout time.Duration
	Log           *slog.Logger
	Metrics       http.Handler // answers /metrics; nil: not found

	etcd        *etcd.Client
	archive     *archive.Archive
	snapshotter *snapshotter.Snapshotter
}

// New returns a Daemon with the default settings.
func New(c *etcd.Client, a *archive.Archive, s *snapshotter.Snapshotter) *Daemon {
	return &Daemon{
		Listen:        DefaultListen,
		HealthTimeout: DefaultHealthTimeout,
		Log:           slog.Default(),
		etcd:          c,
		archive:       a,
		snapshotter:   s,
	}
}

// Run backs up and serves until ctx ends, and returns when both have stopped.
// The error says why it could not serve; the end of ctx is none.
func (d *Daemon) Run(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	d.Log.Info("serving", "address", l.Addr().String(), "archive", d.archive.String(), "etcd", d.etcd.Endpoint())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { d.snapshotter.Run(ctx); return nil })
	g.Go(func() error { return d.serve(ctx, l) })
	return g.Wait()
}

// serve answers on l until ctx ends, and then finishes open requests.
func (d *Daemon) serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           d.Handler(),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if srv.Shutdown(drain) != nil { // whoever does not take his answer by now does not get it
			_ = srv.Close()
		}
		return nil
	})
	return g.Wait()
}
