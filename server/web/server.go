package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// DefaultMaxConns is how many connections a Server keeps, if there are file
	// descriptors for them.
	DefaultMaxConns = 2048
	// DefaultWriteTimeout bounds how long an answer may take, from the end of the
	// request's header or from Answering.
	DefaultWriteTimeout = time.Minute

	readTimeout  = 10 * time.Second // of a request, header and body
	idleTimeout  = 30 * time.Second // between two requests of a connection
	drainTimeout = 5 * time.Second  // of open requests at the end
	maxHeader    = 16 << 10         // bytes

	// fewestConns are kept however few file descriptors there are.
	fewestConns = 16
	// shareOfFiles is the part of this process's file descriptors that callers may
	// have, as a divisor.
	shareOfFiles = 4
)

// Server answers HTTP/1.1. Set its fields before Serve, which may be called for
// several listeners: each has MaxConns of its own.
type Server struct {
	Log      *slog.Logger
	Metrics  *Metrics
	MaxConns int
	// WriteTimeout is preset to DefaultWriteTimeout; 0: none.
	WriteTimeout time.Duration
	// ConnContext marks connections, as http.Server's does; nil: they are not.
	ConnContext func(context.Context, net.Conn) context.Context

	handler http.Handler
}

// NewServer returns a Server with the default settings.
func NewServer(h http.Handler) *Server {
	return &Server{
		Log: slog.Default(), Metrics: NewMetrics(nil), MaxConns: affordable(), WriteTimeout: DefaultWriteTimeout, handler: h,
	}
}

// affordable is DefaultMaxConns, or fewer if this process may open few files.
func affordable() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return DefaultMaxConns
	}
	share := min(files.Cur/shareOfFiles, DefaultMaxConns)
	return max(int(share), fewestConns)
}

// Serve answers on l until ctx ends, and then finishes open requests. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	people := &crowd{limit: s.MaxConns, metrics: s.Metrics, here: map[net.Conn]*guest{}}
	srv := &http.Server{
		Handler:           attend(s.handler),
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      s.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         people.left,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if s.ConnContext != nil {
				ctx = s.ConnContext(ctx, c)
			}
			return people.enter(ctx, c)
		},
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

// Answering gives an answer its time from now on, however long the work took.
func Answering(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(DefaultWriteTimeout)) // what is no connection has none
}

// Keep has the connection of a request stay until it is answered, however many come.
// It is for what changes something, and for when that begins: who is let in and then
// sends his body slowly is one of many.
func Keep(r *http.Request) {
	if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
		g.set(true, true)
	}
}
