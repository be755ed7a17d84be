package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

var (
	errPreparing = errors.New("the data dir is being prepared")
	errHandOver  = errors.New("a hand-over is wanted")
	errFrozen    = errors.New("a hand-over is wanted, etcd refuses writes")
	errStopped   = errors.New("etcd-ferry has been told to stop")
)

// unknown is the beginning. An etcd that runs may go on until the lease is over
// that is remembered; without one the first read decides.
func (e *Election) unknown() state {
	return func(ctx context.Context) state {
		e.enter(Unknown, errNotRead)
		for ctx.Err() == nil {
			ev := e.next(ctx, nil)
			remembered := e.lease.begun()
			e.mu.Lock()
			failed := e.lastErr != nil
			e.mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case e.over() && (remembered || failed):
				return e.selfFenced()
			case ev.read:
				return e.follow(ev.reading)
			}
		}
		return nil
	}
}

// owner lets etcd serve and has it backed up, as long as the lease is renewed.
func (e *Election) owner(r reading) state {
	return func(ctx context.Context) state {
		e.enter(Owner, errPreparing)
		e.renew(r)
		next, err := e.during(ctx, func(ctx context.Context) error { return e.occupy(ctx, r) }, e.whileOwner)
		for err != nil && next == nil && ctx.Err() == nil {
			e.enter(Owner, err)
			e.Log.Error("etcd cannot be let in yet, it will be tried again", "error", err)
			next, err = e.during(ctx, func(ctx context.Context) error {
				sleep(ctx, e.Timing.Poll)
				return e.occupy(ctx, r)
			}, e.whileOwner)
		}
		if next != nil || ctx.Err() != nil {
			return next
		}
		if e.over() { // the machine may have slept while the data dir was prepared
			return e.selfFenced()
		}
		if err := e.letIn(ctx); err != nil {
			return e.selfFenced()
		}
		return e.serving(ctx, r)
	}
}

// serving is the owner with etcd let in.
func (e *Election) serving(ctx context.Context, r reading) state {
	for ctx.Err() == nil {
		ev := e.next(ctx, nil)
		if s := e.whileOwner(ev); s != nil {
			return s
		}
		if ev.read {
			r = ev.reading
		}
		if e.doubted() && ctx.Err() == nil {
			e.endBackup()
			return e.owner(r)
		}
	}
	return e.release()
}

// whileOwner renews the lease, and says when it is over or somebody else's. A
// lease that was over when an event came was over, whatever the event is: who
// wakes from a pause is fenced first.
func (e *Election) whileOwner(ev event) state {
	if e.over() {
		return e.selfFenced()
	}
	if !ev.read {
		return nil
	}
	if ev.reading.verdict != syncobject.Own {
		return e.follow(ev.reading)
	}
	e.renew(ev.reading)
	if e.over() { // the read took too long
		return e.selfFenced()
	}
	return nil
}

// renew counts the lease from the start of r.
func (e *Election) renew(r reading) {
	e.lease.renew(r.start)
	if err := e.memory.update(func(p *persisted) { p.Lease = r.start }); err != nil {
		e.Log.Error("the lease cannot be written down, a restart will know only the one before", "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.object != nil {
		e.owned = max(e.owned, r.object.Generation)
	}
	e.broadcast()
}

// occupy makes the container and the data dir those of this deployment.
func (e *Election) occupy(ctx context.Context, r reading) error {
	if err := e.rename(ctx, r); err != nil {
		return fmt.Errorf("write owner.json: %w", err)
	}
	p, holder := e.memory.get(), e.Status().Holder
	running, err := e.member.Running()
	if err != nil {
		return err
	}
	if e.Prepare == nil || running && !p.stale(holder) {
		return e.findData()
	}
	if err := e.member.Fence(ctx, p.Gates); err != nil { // nobody starts an etcd meanwhile
		return err
	}
	lineage, err := e.Prepare(ctx, holder, p.Lineage)
	if err != nil {
		return fmt.Errorf("prepare the data dir: %w", err)
	}
	// A copy may have settled since owner.json was read.
	if err := e.write(ctx, syncobject.Holder{}); err != nil {
		return fmt.Errorf("read owner.json: %w", err)
	}
	settled := e.Status().Holder
	if settled.Epoch > holder.Epoch && settled.Lineage != lineage {
		return errHandedHere
	}
	if err := e.memory.update(func(p *persisted) { p.Lineage, p.Epoch = lineage, settled.Epoch }); err != nil {
		return err
	}
	return e.findData()
}

// findData notes whether etcd will find anything in the data dir.
func (e *Election) findData() error {
	empty, err := e.member.Empty()
	if err != nil {
		return fmt.Errorf("look at the data dir: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.filled = !empty
	return nil
}

// letIn opens the gate and begins to back up.
func (e *Election) letIn(ctx context.Context) error {
	if err := e.memory.update(func(p *persisted) { p.Fenced = false }); err != nil {
		e.Log.Error("a restart will fence etcd", "error", err)
	}
	if err := e.member.Unfence(); err != nil {
		e.Log.Error("etcd cannot be let in", "error", err)
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open, e.reason = true, nil
	e.beginBackup(ctx)
	e.broadcast()
	e.Log.Info("etcd may serve", "lease_remaining", e.lease.remaining(), "epoch", e.holder.Epoch, "lineage", e.holder.Lineage)
	return nil
}

// selfFenced is where nothing is known for longer than the lease.
func (e *Election) selfFenced() state {
	return func(ctx context.Context) state {
		e.enter(SelfFenced, errLeaseOver)
		e.reportOverrun()
		if next, fenced := e.fence(ctx, nil); !fenced {
			return next
		}
		e.askNow()
		for ctx.Err() == nil {
			ev := e.next(ctx, nil)
			if !ev.read {
				continue
			}
			if ev.reading.verdict == syncobject.Own { // a whole seed comes back at once
				sleep(ctx, time.Duration(e.Rand()*float64(e.Timing.Poll/5)))
			}
			return e.follow(ev.reading)
		}
		return nil
	}
}

// reportOverrun tells if the end of the lease was noticed late: this process was
// paused with the machine, and etcd may have served until now.
func (e *Election) reportOverrun() {
	if !e.lease.begun() {
		return
	}
	over := -e.lease.remaining()
	e.Metrics.overrun(over)
	if over > 2*e.Timing.Tick {
		e.Log.Error("the end of the lease was noticed late: an etcd that ran may have served without the right to",
			"for", over, "watchdog", e.Timing.Watchdog)
	}
}

// ceded is where another deployment is the owner, or will be.
func (e *Election) ceded(r reading) state {
	return func(ctx context.Context) state {
		e.enter(Ceded, cededTo(r))
		if next, fenced := e.fence(ctx, r.object); !fenced {
			return next
		}
		watch := func(ev event) state {
			if ev.read && (ev.reading.verdict == syncobject.Own || ev.reading.verdict == syncobject.HandOver) {
				return e.follow(ev.reading)
			}
			return nil
		}
		if next, _ := e.during(ctx, func(ctx context.Context) error { e.settle(ctx, r.object); return nil }, watch); next != nil {
			return next
		}
		for ctx.Err() == nil {
			ev := e.next(ctx, nil)
			if next := watch(ev); next != nil {
				return next
			}
			if ev.read && !sameDecision(r, ev.reading) { // another generation may have been forced
				return e.ceded(ev.reading)
			}
		}
		return nil
	}
}

func sameDecision(a, b reading) bool {
	if a.object == nil || b.object == nil {
		return a.object == b.object
	}
	return a.object.OperationID == b.object.OperationID && a.object.Decision.By == b.object.Decision.By
}

// cededTo says in words who the owner is.
func cededTo(r reading) error {
	switch {
	case r.verdict == syncobject.Anomaly:
		return errors.New("the sync object has gone, or gone back in time: somebody has changed the container; " +
			"make sure that no other deployment serves, then put it back")
	case r.foreign != nil:
		return fmt.Errorf("owner.json is another deployment's: %w", r.foreign)
	case r.object == nil:
		return fmt.Errorf("the sync object is not understood: %w", r.err)
	case r.object.Owner.ID != "" && !r.object.Pending():
		return fmt.Errorf("the owner is %q now", r.object.Owner.ID)
	case r.object.Destination.ID == "":
		return errors.New("everything is handed over, and nobody has claimed it yet")
	default:
		return fmt.Errorf("it is decided that %q takes over", r.object.Destination.ID)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
