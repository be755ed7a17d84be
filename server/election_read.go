package server

import (
	"context"
	"errors"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// reading is the outcome of one read of the sync object.
type reading struct {
	start   instant // before the request
	object  *syncobject.Object
	err     error // nil if an object was read or its absence proven
	verdict syncobject.Verdict
	foreign error // owner.json is another deployment's, and nothing says that it is not any more
}

// known reports whether the reading says anything about the object.
func (r reading) known() bool { return r.start != instant{} && r.err == nil }

// pending reports whether the hand-over of generation g is wanted still.
func (r reading) pending(g int64) bool {
	return r.object != nil && r.object.Generation == g && r.verdict == syncobject.HandOver
}

// look reads the sync object once: one attempt, bounded by Read.
func (e *Election) look(ctx context.Context) reading {
	end, err := e.turn(ctx)
	if err != nil {
		return reading{err: err}
	}
	defer end()
	e.mu.Lock()
	e.asked = e.Clock.Boot()
	e.mu.Unlock()
	r := reading{err: e.prove(ctx)}
	if r.err == nil {
		r = e.ask(ctx)
	}
	e.deliver(r)
	return r
}

func (e *Election) ask(ctx context.Context) reading {
	if err := e.hold(ctx); err != nil {
		return reading{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Read)
	defer cancel()
	r := reading{start: now(e.Clock)}
	o, err := e.object.Read(ctx)
	r.verdict = syncobject.JudgeRead(o, err, e.ID, e.memory.get().Generation)
	switch {
	case err == nil:
		r.object = &o
	case errors.Is(err, fs.ErrNotExist):
	default:
		r.err = err
	}
	if r.verdict == syncobject.Own && e.foreign != nil && (r.object == nil || r.object.Owner.ID != e.ID) {
		r.verdict, r.foreign = syncobject.Ceded, e.foreign
	}
	return r
}

// deliver hands a reading to whom it concerns, in place of an older one that says
// less. The caller has the turn.
func (e *Election) deliver(r reading) {
	e.note(r)
	select {
	case old := <-e.readings:
		if r.verdict == syncobject.NoVerdict {
			r = old
		}
	default:
	}
	e.readings <- r
}

// note keeps what people want to know of a reading.
func (e *Election) note(r reading) {
	e.Metrics.read(r.err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.err != nil && e.lastErr == nil {
		e.Log.Warn("the sync object cannot be read", "error", r.err, "lease_remaining", e.lease.remaining())
	}
	e.lastErr, e.answered = r.err, e.asked
	if r.known() {
		e.last = r
	}
	e.broadcast() // somebody may wait for a fresh one
}
