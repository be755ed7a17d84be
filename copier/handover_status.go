package copier

import (
	"context"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// Stage is where a hand-over is, one of Stages.
type Stage string

// The states of a destination, HANDOVER §8, and Failed.
const (
	Claiming   Stage = "Claim"
	Waiting    Stage = "Waiting"
	Forcing    Stage = "Forcing"
	Copying    Stage = "Copying"
	Committing Stage = "Committing"
	Finished   Stage = "Done"
	Failed     Stage = "Failed"
)

// Stages are all of them.
var Stages = []Stage{Claiming, Waiting, Forcing, Copying, Committing, Finished, Failed}

// Status tells how far a hand-over is.
type Status struct {
	State       Stage                  `json:"state"`
	OperationID string                 `json:"operationID,omitempty"`
	Generation  int64                  `json:"generation,omitempty"`
	SourcePhase syncobject.SourcePhase `json:"sourcePhase,omitempty"`
	// WaitSeconds are left until this destination may decide without the source.
	WaitSeconds     float64 `json:"waitRemainingSeconds,omitempty"`
	DecidedBy       string  `json:"decidedBy,omitempty"`
	Forced          bool    `json:"forced"`
	Lossy           bool    `json:"lossy"`
	ThroughRevision int64   `json:"throughRevision,omitempty"`
	Trouble         string  `json:"trouble,omitempty"` // the last one in this state
}

// published is a status that others may read.
type published struct {
	mu sync.Mutex
	s  Status
}

func (p *published) get() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s
}

func (p *published) change(f func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.s)
}

// Status says how far Run is.
func (h *HandOver) Status() Status { return h.status.get() }

// enter tells everybody that a state begins.
func (r *handing) enter(s Stage) {
	r.publish(func(st *Status) { st.State, st.Trouble = s, "" })
	r.Metrics.stage(s)
	r.Log.Info("hand-over", "state", string(s), "object", r.object)
}

// publish changes the status after it was brought up to what is known of the
// object.
func (r *handing) publish(change func(*Status)) {
	o := r.object
	r.status.change(func(s *Status) {
		s.OperationID, s.Generation, s.SourcePhase = o.OperationID, o.Generation, o.Source.Phase
		s.DecidedBy, s.Forced, s.Lossy = string(o.Decision.By), o.Decision.Forced, o.Decision.Lossy
		s.ThroughRevision = o.Snapshots.ThroughRevision
		change(s)
	})
}

func (r *handing) fail(err error) {
	r.publish(func(s *Status) { s.State, s.Trouble = Failed, err.Error() })
	r.Metrics.stage(Failed)
}

// show shows the progress of copying until the function that it returns is
// called.
func (r *handing) show(ctx context.Context) (stop func()) {
	if r.Progress == nil {
		return func() {}
	}
	report, end := r.Progress(ctx)
	r.Copier.Progress = report
	return func() { end(); r.Copier.Progress = nil }
}

// trouble is what does not end the hand-over.
func (h *HandOver) trouble(what string, err error) {
	h.status.change(func(s *Status) { s.Trouble = what + ": " + err.Error() })
	h.Metrics.retry()
	h.Log.Warn("hand-over is in trouble, trying again", "what", what, "error", err)
}

// pause waits the period ± 10 %.
func (h *HandOver) pause(ctx context.Context, period time.Duration) error {
	return sleep(ctx, time.Duration(float64(period)*(0.9+0.2*h.Rand())))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
