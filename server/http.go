package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server/web"
)

var ok = map[string]string{"status": "ok"}

func (d *Daemon) healthz(w http.ResponseWriter, r *http.Request) {
	if err := d.healthy(r.Context()); err != nil {
		fail(w, http.StatusServiceUnavailable, "not_ready", err)
		return
	}
	reply(w, http.StatusOK, ok)
}

// healthy returns nil if clients may use etcd.
func (d *Daemon) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.HealthTimeout)
	defer cancel()
	if d.Election != nil {
		return d.Election.Ready(ctx)
	}
	return d.etcd.Healthy(ctx)
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
	take := func(ctx context.Context) (snapshot.Manifest, error) { return d.backup.Take(ctx, kind) }
	if d.Election != nil {
		take = func(ctx context.Context) (snapshot.Manifest, error) { return d.Election.Take(ctx, kind) }
	}
	return func(w http.ResponseWriter, r *http.Request) {
		web.Keep(r)
		m, err := take(r.Context())
		switch {
		case errors.Is(err, ErrNotOwner):
			fail(w, http.StatusConflict, "not_owner", err)
		case err != nil:
			fail(w, http.StatusBadGateway, "snapshot_failed", err)
		case m.Name == "":
			web.Answering(w)
			w.WriteHeader(http.StatusNoContent)
		default:
			reply(w, http.StatusOK, m)
		}
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	web.Answering(w)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has gone if this fails
}

// problem is the body of every answer that is an error.
type problem struct {
	Error struct {
		Code        string `json:"code"`
		Message     string `json:"message"`
		OperationID string `json:"operationID,omitempty"`
	} `json:"error"`
}

// fail answers with an error object.
func fail(w http.ResponseWriter, status int, code string, err error) {
	var p problem
	p.Error.Code, p.Error.Message = code, err.Error()
	reply(w, status, p)
}
