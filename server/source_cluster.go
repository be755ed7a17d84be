package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// errNoQuorum says that a cluster cannot be frozen, so that nobody can tell what
// it has acknowledged.
var errNoQuorum = errors.New("the cluster has no quorum to agree on a fence, so what it has acknowledged cannot be proven")

// freezing is fencing for a member of a cluster (HANDOVER §6): somebody makes the
// whole cluster refuse writes and takes the final snapshot, preferably the sidecar
// beside the leader; the others do it if nothing is heard of that for K. Nobody
// ends his member before it is decided what is handed over.
func (e *Election) freezing(r reading) state {
	op := operation{object: *r.object, frozen: true}
	return func(ctx context.Context) state {
		e.become(Fencing, errHandOver, true)
		e.endBackup()
		if next := e.untilTurn(ctx, op); next != nil || ctx.Err() != nil {
			return next
		}
		next, err := e.during(ctx, func(ctx context.Context) error { return e.freeze(ctx, op) }, e.whilePending(op))
		switch {
		case next != nil || ctx.Err() != nil:
			return next
		case err != nil:
			return e.dissolving(op, err)
		}
		e.Log.Info("the cluster refuses writes", "generation", op.generation())
		return e.snapshotting(op)
	}
}

// untilTurn returns nil at once beside the leader. Elsewhere it waits until
// nothing has been heard for K of who does it, or until the lease is over: then
// this etcd must end unless the cluster refuses writes, so it is asked to right
// away. An etcd that has ended already has no other way to a final snapshot, nor to
// the proof that there is none.
func (e *Election) untilTurn(ctx context.Context, op operation) state {
	heard, serial := e.Clock.Boot(), op.object.Serial
	watch := e.whilePending(op)
	for ctx.Err() == nil {
		s, err := e.standing(ctx)
		if err == nil && s.Leader || e.Clock.Boot()-heard > e.patience() {
			return nil
		}
		ev := e.next(ctx, nil)
		if next := watch(ev); next != nil {
			return next
		}
		if ev.read && ev.reading.object.Serial != serial {
			heard, serial = e.Clock.Boot(), ev.reading.object.Serial
		}
		if e.over() && !e.isFrozen(ctx, op) {
			if _, fresh := e.latest(op); fresh {
				return nil
			}
			return e.selfFenced()
		}
	}
	return nil
}

// patience is how long a busy leader's sidecar may be silent.
func (e *Election) patience() time.Duration {
	return max(e.Timing.Kill, firstReport+e.Timing.Heartbeat+2*(e.Timing.Poll+e.Timing.Read))
}

// freeze makes the cluster refuse writes. It tries for as long as the lease
// lasts, once at least, and says meanwhile what it waits for.
func (e *Election) freeze(ctx context.Context, op operation) error {
	began, told := e.Clock.Boot(), e.Clock.Boot()
	for {
		err := e.tryFreeze(ctx, op)
		e.Metrics.fence(err)
		if err == nil || ctx.Err() != nil {
			return err
		}
		e.Log.Warn("the cluster cannot be told to refuse writes, it will be tried again", "error", err)
		if now := e.Clock.Boot(); now-began > e.Timing.Lease || e.over() {
			return fmt.Errorf("%w: %w", errNoQuorum, err)
		} else if now-told > e.Timing.Heartbeat || told == began {
			told = now
			e.report(ctx, op.generation(), syncobject.SourceReport{Phase: syncobject.Fencing, Error: err.Error(), At: e.Clock.Wall()})
		}
		sleep(ctx, e.Timing.Tick)
	}
}

// tryFreeze does not go on for longer than a tick when the lease is over.
func (e *Election) tryFreeze(ctx context.Context, op operation) error {
	bound := e.Timing.Read
	if e.implicit.Load() {
		bound = max(e.Timing.Tick, min(bound, e.lease.remaining()))
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	asked := now(e.Clock)
	err := e.member.Freeze(ctx, op.generation())
	if err == nil {
		e.noteRefuses(asked)
		crashpoint.Here(crashpoint.Frozen)
	}
	return err
}

// dissolving ends this member of a cluster that cannot be frozen. When most have
// ended, none of the others acknowledges anything any more; only then is it safe
// to say that there will be no final snapshot. Until then the others may find
// together again, and are asked once a heartbeat.
func (e *Election) dissolving(op operation, why error) state {
	return func(ctx context.Context) state {
		e.enter(Fencing, why)
		op.frozen = false
		if next, fenced := e.fence(ctx, &op.object); !fenced {
			return next
		}
		r := e.fenced(op)
		r.Phase, r.Error = syncobject.Fencing, why.Error()
		watch := e.whilePending(op)
		for ctx.Err() == nil {
			e.reportDissolved(ctx, op, &r)
			until := e.Clock.Boot() + e.Timing.Heartbeat
			for e.Clock.Boot() < until && ctx.Err() == nil {
				if next := watch(e.next(ctx, nil)); next != nil {
					return next
				}
			}
			r.At = e.Clock.Wall()
			if _, fresh := e.latest(op); fresh && r.Phase == syncobject.Fencing && e.tryFreeze(ctx, op) == nil {
				op.frozen = true
				return e.snapshotting(op)
			}
		}
		return nil
	}
}

// reportDissolved makes r known, at once again when it turns out that most members
// have ended. Where another sidecar has done better, its phase stays.
func (e *Election) reportDissolved(ctx context.Context, op operation, r *syncobject.SourceReport) {
	for range 2 {
		mine := *r
		if last, fresh := e.latest(op); fresh && last.object.Source.Phase.Closed() && mine.Phase == syncobject.Fencing {
			mine.Phase, mine.Error = "", last.object.Source.Error
		}
		o, ok := e.report(ctx, op.generation(), mine)
		most := ok && o.Source.Members > 0 && 2*len(o.Source.FencedMembers) > o.Source.Members
		if !most || r.Phase == syncobject.SnapshotFailed {
			return
		}
		r.Phase = syncobject.SnapshotFailed
	}
}
