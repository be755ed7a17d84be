package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// errThawed says that a cluster may have acknowledged writes after its final
// snapshot: somebody has disarmed the alarm that it was frozen with.
var errThawed = errors.New("the cluster has not refused all writes since its final snapshot")

// whileFenced is whilePending for an etcd that has ended, or refuses writes. The
// latter may run without a lease only as long as its cluster proves it: an abort
// may have been seen by another member's sidecar alone, which thaws the cluster.
func (e *Election) whileFenced(ctx context.Context, op operation) func(event) state {
	pending := e.whilePending(op)
	return func(ev event) state {
		if next := pending(ev); next != nil || !op.frozen || !e.lapsed(ctx, op) {
			return next
		}
		if last, fresh := e.latest(op); fresh {
			return e.freezing(last)
		}
		return e.selfFenced()
	}
}

// lapsed reports whether the lease is over, and nothing proves that the cluster
// refuses writes. It begins to ask before the end, so that Watchdog knows by then.
func (e *Election) lapsed(ctx context.Context, op operation) bool {
	if !e.implicit.Load() || e.lease.remaining() > e.Timing.Read {
		return false
	}
	return !e.isFrozen(ctx, op) && e.over()
}

// isFrozen asks whether the cluster refuses writes. Without an answer the one
// before counts for as long as a read may take: a cluster that elects a leader is
// back sooner, and the bound that a destination keeps has room for it (the slack
// of the store).
func (e *Election) isFrozen(ctx context.Context, op operation) bool {
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Tick)
	defer cancel()
	asked := now(e.Clock)
	err := e.member.Frozen(ctx, op.generation())
	switch {
	case err == nil:
		e.noteRefuses(asked)
	case errors.Is(err, errNotFrozen):
		e.noteRefuses(instant{})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refuses.since(e.Clock) <= e.Timing.Read
}

func (e *Election) noteRefuses(asked instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses = asked
}

// tolerates reports whether a frozen etcd may run. The caller holds mu.
func (e *Election) tolerates() bool {
	return e.frozen && (!e.over() || e.refuses.since(e.Clock) <= e.Timing.Read+2*e.Timing.Tick)
}

// latest returns the last good reading; fresh is false if it is old by now, or
// op was not pending any more.
func (e *Election) latest(op operation) (last reading, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last, e.last.pending(op.generation()) && e.last.start.since(e.Clock) <= 2*(e.Timing.Poll+e.Timing.Read)
}

// sealed returns nil if all that a frozen cluster has acknowledged is in final,
// and it goes on refusing writes; errThawed if not.
func (e *Election) sealed(ctx context.Context, op operation, final snapshot.Manifest) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Read)
	defer cancel()
	err := e.member.Frozen(ctx, op.generation())
	if errors.Is(err, errNotFrozen) {
		return errThawed
	}
	if err != nil {
		return err
	}
	revision, err := e.member.Revision(ctx)
	if err == nil && revision != final.Last {
		err = fmt.Errorf("%w: it is at revision %d, the snapshot at %d", errThawed, revision, final.Last)
	}
	return err
}
