package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// ownerReads bounds a write of owner.json, in read timeouts.
const ownerReads = 4

// promise is what owner.json says of when this deployment stops by itself. A
// destination counts on it, so it binds until owner.json says something else.
type promise struct {
	Lease    time.Duration `json:"lease"` // 0: nothing is promised
	Kill     time.Duration `json:"kill"`
	Watchdog time.Duration `json:"watchdog"`
	Implicit bool          `json:"implicit"`
}

// says is what this deployment is configured to promise.
func (e *Election) says() promise {
	return promise{e.Timing.Lease, e.Timing.Kill, e.Timing.Watchdog, e.Implicit}
}

// stricter returns what keeps both promises.
func (p promise) stricter(than promise) promise {
	if p.Lease == 0 {
		return than
	}
	return promise{
		min(p.Lease, than.Lease), min(p.Kill, than.Kill), min(p.Watchdog, than.Watchdog), p.Implicit || than.Implicit,
	}
}

// end is how long after the start of the last good read etcd has ended.
func (p promise) end() time.Duration { return p.Lease + p.afterLease() }

// afterLease is how long an etcd may last once the lease is over.
func (p promise) afterLease() time.Duration { return max(p.Kill, p.Watchdog) }

// bind makes the lease as strict as p, or as it is configured if that is stricter.
// If it may take longer now until etcd is gone, the lease is shorter by that.
func (e *Election) bind(p promise) {
	own := e.says()
	lease, implicit := own.Lease, own.Implicit
	if p.Lease > 0 {
		lease, implicit = min(lease, p.Lease, p.end()-own.afterLease()), implicit || p.Implicit
	}
	e.lease.bound(max(0, lease))
	e.implicit.Store(implicit)
}

// over reports whether the lease is, and etcd has to stop for it.
func (e *Election) over() bool { return e.implicit.Load() && !e.lease.valid() }

// turn waits until nobody else reads or writes for this deployment.
func (e *Election) turn(ctx context.Context) (end func(), err error) {
	select {
	case e.asking <- struct{}{}:
		return func() { <-e.asking }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hold makes owner.json say, once in a life, that this deployment is at work. It
// comes before the first read of the sync object: a destination that finds Released
// after its own claim knows that this one will see the claim (HANDOVER §8). The
// caller has the turn.
func (e *Election) hold(ctx context.Context) error {
	if e.held {
		return nil
	}
	if err := e.writeOwner(ctx, syncobject.Holder{}); !errors.Is(err, syncobject.ErrConflict) {
		return err
	}
	return nil // the sync object may know better
}

// writeOwner makes owner.json say that this deployment is at work; with a higher
// epoch and another lineage if it was handed over. The first write of a life names
// this process, so that a Release of an earlier one comes to nothing. It is bounded
// by some read timeouts. The caller has the turn.
func (e *Election) writeOwner(ctx context.Context, handed syncobject.Holder) error {
	ctx, cancel := context.WithTimeout(ctx, ownerReads*e.Timing.Read)
	defer cancel()
	says := e.says()
	e.promise(e.memory.get().Promise.stricter(says))
	mine := e.Status().Holder
	me := syncobject.Owner{
		ID: e.ID, Epoch: max(handed.Epoch, mine.Epoch), Lineage: cmp.Or(handed.Lineage, mine.Lineage),
		Lease: syncobject.Seconds(e.Timing.Lease), Kill: syncobject.Seconds(e.Timing.Kill),
		Watchdog: syncobject.Seconds(e.Timing.Watchdog), ImplicitFencing: e.Implicit,
	}
	o, _, err := e.tenancy.Update(ctx, func(o syncobject.Owner) (syncobject.Owner, error) {
		me := me
		if me.Instance = e.instance; e.held && o.State == syncobject.Held {
			me.Instance = o.Instance // of another member, or of the next life
		}
		return o.Hold(me)
	})
	e.foreign = nil
	if errors.Is(err, syncobject.ErrConflict) {
		e.foreign, e.held = err, false
	}
	if err != nil {
		return err
	}
	e.held = true
	if o.Instance != e.instance && e.Status().Members == 1 {
		e.Log.Error("another server has begun with this owner id, only one of them may run: end the one whose data is older",
			"owner", e.ID, "instance", e.instance, "other", o.Instance)
	}
	e.promise(says)
	e.bind(says)
	e.mu.Lock()
	defer e.mu.Unlock()
	if handed.Lineage != "" || o.Epoch > e.holder.Epoch || e.holder.Lineage == "" {
		e.holder.Lineage = o.Lineage
	}
	e.holder.ID, e.holder.Epoch = o.ID, o.Epoch
	e.Metrics.held(e.holder)
	return nil
}

// promise remembers what owner.json says. What is remembered is never more than
// what is said: a restart that cannot reach the store keeps to it.
func (e *Election) promise(p promise) {
	if err := e.memory.update(func(m *persisted) { m.Promise = p }); err != nil {
		e.Log.Error("the state of the election cannot be written", "error", err)
	}
}

// confirm looks once a heartbeat, while etcd may serve, whether owner.json says so
// still, and has it say so again. If it names a later epoch, the container was
// handed over to here meanwhile: then etcd is let in on what was handed over.
func (e *Election) confirm(ctx context.Context) {
	if e.may() != nil || e.Clock.Boot()-e.confirmed < e.Timing.Heartbeat {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Read)
	defer cancel()
	end, err := e.turn(ctx)
	if err != nil {
		return
	}
	defer end()
	before := e.Status().Holder
	if err := e.writeOwner(ctx, syncobject.Holder{}); err != nil {
		e.Log.Warn("owner.json cannot be confirmed", "error", err)
		return
	}
	e.confirmed = e.Clock.Boot()
	if after := e.Status().Holder; after.Epoch > before.Epoch && after.Lineage != e.memory.get().Lineage {
		e.doubt(errHandedHere)
	}
}

// rename takes over the epoch and the lineage that the sync object names, if it
// names this deployment.
func (e *Election) rename(ctx context.Context, r reading) error {
	if r.object == nil || r.object.Owner.ID != e.ID {
		return nil
	}
	handed, mine := r.object.Owner, e.Status().Holder
	if handed.Epoch <= mine.Epoch && (handed.Lineage == "" || mine.Lineage != "") {
		return nil
	}
	return e.write(ctx, handed)
}

// write is writeOwner for those who have not got the turn.
func (e *Election) write(ctx context.Context, handed syncobject.Holder) error {
	end, err := e.turn(ctx)
	if err != nil {
		return err
	}
	defer end()
	return e.writeOwner(ctx, handed)
}

// doubt shuts the gate of an owner until the data dir was looked at again.
func (e *Election) doubt(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return
	}
	e.Log.Error("the data dir has to be looked at again", "reason", why)
	e.open, e.reason = false, why
	e.broadcast()
}

// doubted reports whether doubt has shut the gate of an owner that had been let in.
func (e *Election) doubted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.open
}
