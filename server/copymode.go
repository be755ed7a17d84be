package server

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/server/web"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// CopyMode answers HTTP for a destination that has no etcd yet:
//
//	GET /               the status page
//	GET /openapi.yaml   all of this, for machines
//	GET /healthz        200 once all that is handed over is there and counts, else 503
//	GET /livez          200 while this process answers
//	GET /copyop/status  how far the hand-over is
//	GET /metrics        Prometheus
type CopyMode struct {
	Log     *slog.Logger
	Metrics http.Handler // answers /metrics; nil: not found
	Web     *web.Metrics
	Name    string // of the deployment that takes over, for people
	Version string // of this program, for people

	handOver *copier.HandOver
	drawn    *page.Page
}

//go:embed openapi/copy.yaml
var copyOpenAPI []byte

// NewCopyMode returns the endpoints of h.
func NewCopyMode(h *copier.HandOver) *CopyMode {
	return &CopyMode{Log: slog.Default(), Web: web.NewMetrics(nil), handOver: h, drawn: page.New()}
}

// Serve answers on l until ctx ends.
func (c *CopyMode) Serve(ctx context.Context, l net.Listener) error {
	c.Log.Info("serving", "address", l.Addr().String())
	s := web.NewServer(c.Handler())
	s.Log, s.Metrics = c.Log, c.Web
	return s.Serve(ctx, l)
}

// Handler answers the paths above.
func (c *CopyMode) Handler() http.Handler { return http.MaxBytesHandler(c.routes().mux(), maxBody) }

func (c *CopyMode) routes() routes {
	r := routes{
		"GET /{$}":          http.HandlerFunc(c.page),
		"GET /openapi.yaml": described(copyOpenAPI),
		"GET /livez":        http.HandlerFunc(alive),
		"GET /healthz":      http.HandlerFunc(c.healthz),
		"GET /copyop/status": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusOK, c.handOver.Status())
		}),
	}
	if c.Metrics != nil {
		r["GET /metrics"] = c.Metrics
	}
	return r
}

func (c *CopyMode) healthz(w http.ResponseWriter, _ *http.Request) {
	s := c.handOver.Status()
	if s.State != copier.Finished {
		fail(w, http.StatusServiceUnavailable, "not_done", fmt.Errorf("the hand-over is in state %s", s.State))
		return
	}
	reply(w, http.StatusOK, ok)
}

func (c *CopyMode) page(w http.ResponseWriter, _ *http.Request) {
	if err := c.drawn.Answer(w, c.state()); err != nil {
		c.Log.Error("the status page cannot be shown", "error", err)
		fail(w, http.StatusInternalServerError, "page", err)
	}
}

func (c *CopyMode) state() page.State {
	h := c.handOver.Status()
	s := page.State{
		Now: time.Now(), Version: c.Version, Name: c.Name, Kind: "copy", Verdict: copyVerdict(h),
		Links: []page.Link{
			{Path: "/copyop/status", Text: "Hand-over"}, {Path: "/metrics", Text: "Metrics"}, {Path: "/openapi.yaml", Text: "HTTP interface"},
		},
	}
	if h.Generation > 0 {
		s.HandOver = page.NewHandOver(c.asObject(h))
	}
	if h.Trouble != "" && h.State != copier.Failed {
		s.Notes = append(s.Notes, page.Note{Level: page.Wait, Text: h.Trouble, Advice: "It is tried again."})
	}
	return s
}

func copyVerdict(h copier.Status) page.Verdict {
	switch {
	case h.State == copier.Failed:
		return page.Verdict{Level: page.Bad, Title: "The copy has failed", Text: h.Trouble}
	case h.State == copier.Finished && h.Lossy:
		return page.Verdict{
			Level: page.Bad, Title: "Done, and writes may be missing",
			Text: fmt.Sprintf("Everything up to revision %d is here; what the source acknowledged after it may be lost.", h.ThroughRevision),
		}
	case h.State == copier.Finished:
		return page.Verdict{Level: page.Good, Title: "Done", Text: "Everything is here and this deployment is the owner: its server and etcd may be started."}
	case h.State == copier.Waiting && h.WaitSeconds > 0:
		return page.Verdict{
			Level: page.Wait, Title: "Waiting for the source",
			Text: fmt.Sprintf("It is to stop its etcd and to store the rest. Without it this side may decide in %d s, which may lose writes.", int(h.WaitSeconds)),
		}
	default:
		return page.Verdict{Level: page.Wait, Title: "Hand-over in progress", Text: fmt.Sprintf("The state is %s.", h.State)}
	}
}

// asObject is as much of the sync object as a destination tells of it.
func (c *CopyMode) asObject(h copier.Status) syncobject.Object {
	o := syncobject.Object{
		Status: syncobject.Initial, OperationID: h.OperationID, Generation: h.Generation, Owner: syncobject.Holder{ID: "the source"},
		Source:   syncobject.SourceState{Phase: h.SourcePhase},
		Decision: syncobject.Decision{By: syncobject.Party(h.DecidedBy), Forced: h.Forced, Lossy: h.Lossy},
	}
	o.Snapshots.ThroughRevision = h.ThroughRevision
	if h.State != copier.Claiming {
		o.Destination.ID = c.Name
	}
	if h.DecidedBy != "" {
		o.Status = syncobject.Ready
	}
	switch h.State {
	case copier.Committing:
		o.Destination.Phase = syncobject.Committing
	case copier.Finished:
		o.Status, o.Outcome, o.ObservedGeneration = syncobject.Done, syncobject.Completed, h.Generation
	}
	return o
}
