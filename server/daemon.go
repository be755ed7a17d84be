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
	Socket        string       // path of a unix socket to listen on too; empty: none
	TLS           TLS          // of Listen; zero: plain HTTP
	Access        Access       // says who may change something
	// Election, if set, decides when the etcd may serve and be backed up. Its
	// Backup is what backs up then, and not that of New.
	Election *Election

	etcd    *etcd.Client
	archive *archive.Archive
	backup  Backup
}

// New returns a Daemon with the default settings.
func New(c *etcd.Client, a *archive.Archive, b Backup) *Daemon {
	return &Daemon{
		Listen:        DefaultListen,
		HealthTimeout: DefaultHealthTimeout,
		Log:           slog.Default(),
		etcd:          c,
		archive:       a,
		backup:        b,
	}
}

// Run backs up and serves until ctx ends, and returns when both have stopped.
// The error says why it could not serve; the end of ctx is none.
func (d *Daemon) Run(ctx context.Context) error {
	if d.Election != nil {
		if err := d.Election.Begin(ctx); err != nil {
			return err
		}
	}
	listeners, err := d.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	d.Log.Info("serving", "address", listeners[0].Addr().String(), "socket", d.Socket, "archive", d.archive.String(), "etcd", d.etcd.Endpoint())
	g, ctx := errgroup.WithContext(ctx)
	if d.Election == nil {
		g.Go(func() error { d.backup.Run(ctx); return nil })
		g.Go(func() error { return d.serve(ctx, listeners) })
		return g.Wait()
	}
	// Who asks while the container is being released gets an answer.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer stop()
		return d.Election.Run(ctx)
	})
	g.Go(func() error { return d.serve(serving, listeners) })
	return g.Wait()
}

// listen opens what Run serves on, the address first.
func (d *Daemon) listen(ctx context.Context) ([]net.Listener, error) {
	var lc net.ListenConfig
	wrap, err := d.TLS.wrap(d.Log)
	if err != nil {
		return nil, err
	}
	l, err := lc.Listen(ctx, "tcp", d.Listen)
	if err != nil || d.Socket == "" {
		return []net.Listener{wrap(l)}, err
	}
	socket, err := listenSocket(ctx, d.Socket)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return []net.Listener{wrap(l), socket}, nil
}

func (d *Daemon) serve(ctx context.Context, listeners []net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	handler := d.Handler()
	for _, l := range listeners {
		g.Go(func() error { return serve(ctx, l, handler, d.Log) })
	}
	return g.Wait()
}

// serve answers on l until ctx ends, and then finishes open requests.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       viaSocket,
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
