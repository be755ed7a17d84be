package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/etcd-ferry/etcd-ferry/copier"
)

// CopyMode answers HTTP for a destination that has no etcd yet:
//
//	GET /healthz        200 once all that is handed over is there and counts, else 503
//	GET /livez          200 while this process answers
//	GET /copyop/status  how far the hand-over is
//	GET /metrics        Prometheus
type CopyMode struct {
	Log     *slog.Logger
	Metrics http.Handler // answers /metrics; nil: not found

	handOver *copier.HandOver
}

// NewCopyMode returns the endpoints of h.
func NewCopyMode(h *copier.HandOver) *CopyMode {
	return &CopyMode{Log: slog.Default(), handOver: h}
}

// Serve answers on l until ctx ends.
func (c *CopyMode) Serve(ctx context.Context, l net.Listener) error {
	c.Log.Info("serving", "address", l.Addr().String())
	return serve(ctx, l, c.Handler(), c.Log)
}

// Handler answers the paths above.
func (c *CopyMode) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, ok) })
	mux.HandleFunc("GET /healthz", c.healthz)
	mux.HandleFunc("GET /copyop/status", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, c.handOver.Status())
	})
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	return http.MaxBytesHandler(mux, maxBody)
}

func (c *CopyMode) healthz(w http.ResponseWriter, _ *http.Request) {
	s := c.handOver.Status()
	if s.State != copier.Finished {
		fail(w, http.StatusServiceUnavailable, "not_done", fmt.Errorf("the hand-over is in state %s", s.State))
		return
	}
	reply(w, http.StatusOK, ok)
}
