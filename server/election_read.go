package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// ownerReads bounds a write of owner.json, in read timeouts.
const ownerReads = 4

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
	select {
	case e.asking <- struct{}{}:
		defer func() { <-e.asking }()
	case <-ctx.Done():
		return reading{err: context.Cause(ctx)}
	}
	r := reading{err: e.prove(ctx)}
	if r.err == nil {
		r = e.ask(ctx)
	}
	e.deliver(r)
	return r
}

func (e *Election) ask(ctx context.Context) reading {
	if err := e.hold(ctx, syncobject.Holder{}); err != nil {
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

// deliver hands a reading to whom it concerns. The caller holds asking.
func (e *Election) deliver(r reading) {
	e.note(r)
	select { // nobody needs an older one
	case <-e.readings:
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
	e.lastErr = r.err
	if r.known() {
		e.last = r
	}
}

// hold makes owner.json say, once in a life, that this deployment is at work; with
// a higher epoch and another lineage if it was handed over. It comes before the
// first read of the sync object: a destination that finds Released after its own
// claim knows that this one will see the claim (HANDOVER §8). The caller holds
// asking.
func (e *Election) hold(ctx context.Context, handed syncobject.Holder) error {
	if e.held && handed.Epoch == 0 {
		return nil
	}
	err := e.writeOwner(ctx, handed)
	e.foreign = nil
	if errors.Is(err, syncobject.ErrConflict) { // the sync object may know better
		e.foreign = err
		return nil
	}
	e.held = err == nil
	return err
}

// writeOwner makes owner.json say who this deployment is. It is bounded by some
// read timeouts.
func (e *Election) writeOwner(ctx context.Context, handed syncobject.Holder) error {
	ctx, cancel := context.WithTimeout(ctx, ownerReads*e.Timing.Read)
	defer cancel()
	mine := e.Status().Holder
	me := syncobject.Owner{
		ID: e.ID, Epoch: max(handed.Epoch, mine.Epoch), Lineage: cmp.Or(handed.Lineage, mine.Lineage),
		Lease: syncobject.Seconds(e.Timing.Lease), Kill: syncobject.Seconds(e.Timing.Kill),
		Watchdog: syncobject.Seconds(e.Timing.Watchdog), ImplicitFencing: e.Implicit,
	}
	o, _, err := e.tenancy.Update(ctx, func(o syncobject.Owner) (syncobject.Owner, error) { return o.Hold(me) })
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder.ID, e.holder.Epoch = o.ID, o.Epoch
	if handed.Lineage != "" || e.holder.Lineage == "" {
		e.holder.Lineage = o.Lineage
	}
	e.Metrics.held(e.holder)
	return nil
}
