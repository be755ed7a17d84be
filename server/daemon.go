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
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/server/web"
)

const (
	// DefaultListen is where the daemon listens.
	DefaultListen = "127.0.0.1:8080"
	// DefaultHealthTimeout bounds the read behind /healthz.
	DefaultHealthTimeout = 2 * time.Second

	maxBody = 64 << 10 // bytes
)

// Daemon backs up one etcd and answers HTTP. Set its fields before Run.
type Daemon struct {
	Listen        string // host:port
	HealthTimeout time.Duration
	Log           *slog.Logger
	Metrics       http.Handler // answers /metrics; nil: not found
	Socket        string       // path of a unix socket to listen on too; empty: none
	TLS           web.TLS      // of Listen; zero: plain HTTP
	Access        Access       // says who may change something
	Web           *web.Metrics // of all listeners
	// Profiles is where /debug/pprof is answered, to whoever asks there; empty:
	// nowhere.
	Profiles string
	Version  string // of this program, for people
	// Election, if set, decides when the etcd may serve and be backed up. Its
	// Backup is what backs up then, and not that of New.
	Election *Election

	etcd    *etcd.Client
	archive *archive.Archive
	backup  Backup

	certificates *web.Certificates // of TLS, since Run
	look         overview
	drawn        *page.Page
}

// New returns a Daemon with the default settings.
func New(c *etcd.Client, a *archive.Archive, b Backup) *Daemon {
	return &Daemon{
		Listen:        DefaultListen,
		HealthTimeout: DefaultHealthTimeout,
		Log:           slog.Default(),
		Web:           web.NewMetrics(nil),
		etcd:          c,
		archive:       a,
		backup:        b,
		drawn:         page.New(),
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
		g.Go(func() error { return serve(ctx, listeners) })
		return g.Wait()
	}
	// Who asks while the container is being released gets an answer.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer stop()
		return d.Election.Run(ctx)
	})
	g.Go(func() error { return serve(serving, listeners) })
	return g.Wait()
}

// listener is a socket, and who answers on it.
type listener struct {
	net.Listener
	server *web.Server
}

// listen opens what Run serves on, the address first.
func (d *Daemon) listen(ctx context.Context) (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	if d.certificates, err = d.TLS.Open(); err != nil {
		return nil, err
	}
	if d.certificates != nil {
		d.certificates.Log, d.certificates.Metrics = d.Log, d.Web
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", d.Listen)
	if err != nil {
		return nil, err
	}
	answers := d.server(d.Handler())
	all = append(all, listener{d.certificates.Over(l), answers})
	if d.Socket != "" {
		if l, err = web.ListenSocket(ctx, d.Socket); err != nil {
			return all, err
		}
		all = append(all, listener{l, answers})
	}
	if d.Profiles != "" {
		if l, err = lc.Listen(ctx, "tcp", d.Profiles); err != nil {
			return all, err
		}
		profiles := d.server(web.Profiles())
		profiles.WriteTimeout = 0 // whoever asks says how long it takes
		all = append(all, listener{l, profiles})
		d.Log.Warn("profiles are answered to whoever asks here", "address", l.Addr().String())
	}
	return all, nil
}

func (d *Daemon) server(h http.Handler) *web.Server {
	s := web.NewServer(h)
	s.Log, s.Metrics, s.ConnContext = d.Log, d.Web, viaSocket
	return s
}

func serve(ctx context.Context, listeners []listener) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		g.Go(func() error { return l.server.Serve(ctx, l) })
	}
	return g.Wait()
}
