package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Handler answers the paths of the package comment.
func (d *Daemon) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, ok) })
	mux.HandleFunc("GET /healthz", d.healthz)
	mux.HandleFunc("GET /snapshots", d.snapshots)
	mux.HandleFunc("GET /snapshot/latest", d.latest)
	mux.Handle("POST /snapshot/full", d.local(d.take(snapshot.Full)))
	mux.Handle("POST /snapshot/delta", d.local(d.take(snapshot.Delta)))
	if d.Metrics != nil {
		mux.Handle("GET /metrics", d.Metrics)
	}
	// A browser on this machine is a loopback peer, whoever wrote the page.
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxBody))
}

var ok = map[string]string{"status": "ok"}

func (d *Daemon) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), d.HealthTimeout)
	defer cancel()
	if err := d.etcd.Healthy(ctx); err != nil {
		fail(w, http.StatusServiceUnavailable, "etcd_unhealthy", err)
		return
	}
	reply(w, http.StatusOK, ok)
}

// Stored is the answer of /snapshots.
type Stored struct {
	Snapshots []snapshot.Manifest `json:"snapshots"`
	Windows   []snapshot.Window   `json:"windows"`  // what can be restored
	Problems  []Problem           `json:"problems"` // snapshots that are damaged
	Strays    []string            `json:"strays"`   // objects without a manifest
}

// Problem names a damaged snapshot.
type Problem struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

func (d *Daemon) snapshots(w http.ResponseWriter, r *http.Request) {
	l, err := d.archive.List(r.Context())
	if err != nil {
		fail(w, http.StatusBadGateway, "store", err)
		return
	}
	reply(w, http.StatusOK, stored(l))
}

func stored(l archive.Listing) Stored {
	// Empty lists rather than null, for clients that iterate.
	s := Stored{Snapshots: []snapshot.Manifest{}, Windows: []snapshot.Window{}, Problems: []Problem{}, Strays: []string{}}
	s.Snapshots = append(s.Snapshots, l.Manifests...)
	s.Windows = append(s.Windows, snapshot.Windows(l.Manifests)...)
	for _, p := range l.Problems {
		s.Problems = append(s.Problems, Problem{p.Name, p.Err.Error()})
	}
	for _, stray := range l.Strays {
		s.Strays = append(s.Strays, stray.Name)
	}
	return s
}

// Latest is the answer of /snapshot/latest.
type Latest struct {
	Revision int64               `json:"revision"`
	Full     snapshot.Manifest   `json:"full"`
	Deltas   []snapshot.Manifest `json:"deltas"`
}

func (d *Daemon) latest(w http.ResponseWriter, r *http.Request) {
	l, err := d.archive.List(r.Context())
	if err != nil {
		fail(w, http.StatusBadGateway, "store", err)
		return
	}
	chain, err := snapshot.Select(l.Manifests, snapshot.Target{})
	switch {
	case errors.Is(err, snapshot.ErrNothing):
		fail(w, http.StatusNotFound, "nothing_stored", err)
	case err != nil:
		fail(w, http.StatusConflict, "not_restorable", err)
	default:
		reply(w, http.StatusOK, Latest{chain.Last(), chain.Full, append([]snapshot.Manifest{}, chain.Deltas...)})
	}
}

func (d *Daemon) take(kind snapshot.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, err := d.snapshotter.Take(r.Context(), kind)
		switch {
		case err != nil:
			fail(w, http.StatusBadGateway, "snapshot_failed", err)
		case m.Name == "":
			w.WriteHeader(http.StatusNoContent)
		default:
			reply(w, http.StatusOK, m)
		}
	}
}

// local lets only callers on this machine pass, and writes an audit line.
func (d *Daemon) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed := isLoopback(r.RemoteAddr)
		d.Log.Info("audit", "method", r.Method, "path", r.URL.Path, "peer", r.RemoteAddr, "allowed", allowed)
		if !allowed {
			fail(w, http.StatusForbidden, "forbidden", errors.New("only callers on the same machine may do this"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has gone if this fails
}

// fail answers with an error object.
func fail(w http.ResponseWriter, status int, code string, err error) {
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = code, err.Error()
	reply(w, status, body)
}
