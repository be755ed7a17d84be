package server

import (
	"context"
	"errors"
	"slices"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// operation is a hand-over that is wanted of this deployment.
type operation struct {
	object syncobject.Object // as it was when it was first seen
	// frozen says that the cluster refuses writes and etcd runs still; else etcd
	// has ended and the data dir is locked.
	frozen bool
}

func (o operation) generation() int64 { return o.object.Generation }

// fencing ends the only member.
func (e *Election) fencing(r reading) state {
	op := operation{object: *r.object}
	return func(ctx context.Context) state {
		e.enter(Fencing, errHandOver)
		if s, err := e.standing(ctx); err == nil && s.Members > 1 { // since it was asked last, or it never was
			return e.freezing(r)
		}
		if next, fenced := e.fence(ctx, &op.object); !fenced {
			return next
		}
		return e.snapshotting(op)
	}
}

// fence ends etcd, keeps it from serving, and waits for the backup to end. The
// gate is closed before. As long as it fails it is tried again, and o, if there
// is one, says so; fenced is false if meanwhile another state was called for, or
// ctx ended.
func (e *Election) fence(ctx context.Context, o *syncobject.Object) (next state, fenced bool) {
	e.dismissBackup()
	if err := e.memory.update(func(p *persisted) { p.Fenced = true }); err != nil {
		e.Log.Error("a restart would not know of the fence", "error", err)
	}
	crashpoint.Here(crashpoint.FenceBegun)
	for {
		err := e.member.Fence(ctx, e.passed())
		e.Metrics.fence(err)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, false
		}
		e.Log.Error("etcd cannot be stopped, it will be tried again", "error", err)
		e.reportFailure(ctx, o, err)
		ev := e.next(ctx, nil)
		if ctx.Err() != nil {
			return nil, false
		}
		if ev.read && ev.reading.verdict == syncobject.Own {
			e.endBackup()
			return e.follow(ev.reading), false
		}
		if ev.reading.object != nil { // the one to be told may be new
			seen := *ev.reading.object
			o = &seen
		}
	}
	crashpoint.Here(crashpoint.Fenced)
	e.endBackup()
	return nil, true
}

// passed are the gates that were let pass and have not ended.
func (e *Election) passed() []fence.Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.gates)
}

// reportFailure makes it known, once for each message, that etcd may be serving
// still.
func (e *Election) reportFailure(ctx context.Context, o *syncobject.Object, err error) {
	if o == nil || !o.Pending() || o.Source.Error == err.Error() && o.Source.Phase == syncobject.FenceFailed {
		return
	}
	report := syncobject.SourceReport{Phase: syncobject.FenceFailed, Error: err.Error(), At: e.Clock.Wall()}
	if told, ok := e.report(ctx, o.Generation, report); ok {
		*o = told
	}
}

// report tells the destination how far generation g is. It is bounded by K: what
// it says is for people, and nothing waits for it.
func (e *Election) report(ctx context.Context, g int64, r syncobject.SourceReport) (syncobject.Object, bool) {
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Kill)
	defer cancel()
	o, _, err := e.object.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		return o.Report(g, e.Status().Holder, r)
	})
	if refusal := (*syncobject.Refusal)(nil); err != nil && !errors.As(err, &refusal) && ctx.Err() == nil {
		e.Log.Warn("the destination cannot be told how far the hand-over is", "error", err)
	}
	return o, err == nil
}
