package server

import (
	_ "embed"
	"net/http"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// serverOpenAPI describes every route, as those beside it do for the other modes.
// A test holds them against the routes and their answers.
//
//go:embed openapi/server.yaml
var serverOpenAPI []byte

// routes are what a mux answers: handlers by pattern, a method and a path. Where a
// pattern has no method, whatever has none of its own for that path is refused.
type routes map[string]http.Handler

func (r routes) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range r {
		mux.Handle(pattern, h)
	}
	return mux
}

// Handler answers the paths of the package comment.
func (d *Daemon) Handler() http.Handler {
	// A browser on this machine is a loopback peer, whoever wrote the page.
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(d.routes().mux(), maxBody))
}

func (d *Daemon) routes() routes {
	r := routes{
		"GET /{$}":             http.HandlerFunc(d.page),
		"GET /openapi.yaml":    described(serverOpenAPI),
		"GET /livez":           http.HandlerFunc(alive),
		"GET /healthz":         http.HandlerFunc(d.healthz),
		"GET /snapshots":       http.HandlerFunc(d.snapshots),
		"GET /snapshot/latest": http.HandlerFunc(d.latest),
		"GET /copyop/status":   d.elected(d.status),
		"GET /owner":           d.elected(d.owner),
		"GET /gate":            d.elected(d.gate),
		"GET /livez/etcd":      http.HandlerFunc(d.watchdog),
	}
	if d.Metrics != nil {
		r["GET /metrics"] = d.Metrics
	}
	for path, change := range map[string]http.HandlerFunc{
		"/snapshot/full":   d.take(snapshot.Full),
		"/snapshot/delta":  d.take(snapshot.Delta),
		"/copyop/initiate": d.elected(d.initiate),
		"/copyop/abort":    d.elected(d.resolve((*Election).Abort)),
		"/copyop/reclaim":  d.elected(d.resolve((*Election).Reclaim)),
	} {
		r["POST "+path] = d.guard(change)
		r[path] = http.HandlerFunc(d.wrongMethod)
	}
	return r
}

func alive(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, ok) }

func described(document []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(document) // the caller has gone if this fails
	}
}
