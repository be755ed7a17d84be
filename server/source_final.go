package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const (
	// finalTries is how often the final snapshot fails before the destination is
	// told that there may be none.
	finalTries = 3
	// A final snapshot that failed is tried again after finalRetryMin, then after
	// twice as long each time up to finalRetryMax.
	finalRetryMin = time.Second
	finalRetryMax = time.Minute
	// firstReport is when the destination is first told of the fence. What is
	// published before tells it all the same, and need not wait for another write.
	firstReport = 2 * time.Second
)

// snapshotting stores the final snapshot of a fenced etcd.
func (e *Election) snapshotting(op operation) state {
	return func(ctx context.Context) state {
		e.enterFenced(Snapshotting, op)
		var final snapshot.Manifest
		next, err := e.during(ctx, func(ctx context.Context) (err error) {
			final, err = e.makeFinal(ctx, op)
			return err
		}, e.whileFenced(ctx, op))
		if several := (*datadir.MembersError)(nil); next == nil && errors.As(err, &several) {
			return e.outgrown(op, several)
		}
		if next != nil || err != nil {
			return next
		}
		return e.publishing(op, final)
	}
}

// outgrown is where a member that was taken for the only one turns out to be one
// of several, which serve without it until they are frozen as well.
func (e *Election) outgrown(op operation, why *datadir.MembersError) state {
	e.Log.Warn("the cluster has more members than was known", "members", why.Members)
	e.mu.Lock()
	e.members = max(e.members, why.Members)
	e.mu.Unlock()
	if err := e.memory.update(func(p *persisted) { p.Members = max(p.Members, why.Members) }); err != nil {
		e.Log.Error("the state of the election cannot be written", "error", err)
	}
	return e.freezing(reading{object: &op.object, verdict: syncobject.HandOver})
}

// enterFenced is enter for an etcd that may run on if it refuses writes.
func (e *Election) enterFenced(role Role, op operation) {
	reason := errHandOver
	if op.frozen {
		reason = errFrozen
	}
	e.become(role, reason, op.frozen)
}

// whilePending leaves when op is not pending any more: it was aborted, or decided
// without this source.
func (e *Election) whilePending(op operation) func(event) state {
	return func(ev event) state {
		if !ev.read || ev.reading.pending(op.generation()) {
			return nil
		}
		return e.follow(ev.reading)
	}
}

// makeFinal tries until the final snapshot is stored or ctx ends, and gives signs
// of life.
func (e *Election) makeFinal(ctx context.Context, op operation) (final snapshot.Manifest, err error) {
	news := make(chan syncobject.SourceReport, 1)
	ctx, stop := context.WithCancel(ctx)
	var g errgroup.Group
	unnamed := op
	g.Go(func() error { e.giveSigns(ctx, unnamed, news); return nil })
	op = e.identified(ctx, op)
	pause := finalRetryMin
	for try := 1; ; try++ {
		final, err = e.storeFinal(ctx, op)
		if err == nil || ctx.Err() != nil || errors.Is(err, datadir.ErrMembers) {
			break
		}
		e.Log.Error("the final snapshot failed, it will be tried again", "error", err, "in", pause)
		e.Metrics.finalFailures.Inc()
		if try >= finalTries {
			select {
			case <-news:
			default:
			}
			news <- syncobject.SourceReport{Phase: syncobject.SnapshotFailed, Error: err.Error()}
		}
		sleep(ctx, pause)
		pause = min(2*pause, finalRetryMax)
	}
	stop()
	_ = g.Wait()
	if err == nil {
		crashpoint.Here(crashpoint.FinalStored)
		e.Log.Info("final snapshot stored", "snapshot", final.Name, "revision", final.Last, "bytes", final.StoredSize)
	}
	return final, err
}

// identified writes an object that another implementation has made, until it has
// the id that the final snapshot is known by.
func (e *Election) identified(ctx context.Context, op operation) operation {
	for op.object.OperationID == "" && ctx.Err() == nil {
		if o, ok := e.report(ctx, op.generation(), e.fenced(op)); ok {
			op.object = o
			break
		}
		sleep(ctx, e.Timing.Tick)
	}
	return op
}

// giveSigns tells the destination of the fence, and that somebody is at it.
func (e *Election) giveSigns(ctx context.Context, op operation, news <-chan syncobject.SourceReport) {
	say := e.fenced(op)
	t := time.NewTimer(min(firstReport, e.Timing.Heartbeat))
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case say = <-news:
		case <-ctx.Done():
			return
		}
		say.At = e.Clock.Wall()
		e.report(ctx, op.generation(), say)
		t.Reset(e.Timing.Heartbeat)
	}
}

// fenced is what a source reports that has fenced itself.
func (e *Election) fenced(op operation) syncobject.SourceReport {
	s := e.Status()
	r := syncobject.SourceReport{Phase: syncobject.Fenced, Members: s.Members, At: e.Clock.Wall()}
	if !op.frozen {
		r.Member = s.Member
	}
	return r
}

// storeFinal stores the final snapshot, unless an earlier try has.
func (e *Election) storeFinal(ctx context.Context, op operation) (snapshot.Manifest, error) {
	holder := e.Status().Holder
	if err := e.checkData(ctx, op, holder); err != nil {
		return snapshot.Manifest{}, fmt.Errorf("the data dir is not known to be of the history that is handed over: %w: "+
			"abort the hand-over, let etcd start, and begin again", err)
	}
	f := filing{e.archive, op.object, holder, e.Tool, e.Clock.Wall(), e.member.Offline}
	if op.frozen {
		f.content = e.member.Online
	}
	return f.store(ctx)
}

// checkData returns nil if the data dir is of the history that holder names. A
// cluster that runs was let in on it.
func (e *Election) checkData(ctx context.Context, op operation, holder syncobject.Holder) error {
	p := e.memory.get()
	switch {
	case p.stale(holder):
		return fmt.Errorf("it is of lineage %s, the container of %s", p.Lineage, holder.Lineage)
	case op.frozen || e.Check == nil:
		return nil
	}
	return e.Check(ctx, holder, p.Lineage)
}

// publishing makes the final snapshot what is handed over.
func (e *Election) publishing(op operation, final snapshot.Manifest) state {
	return func(ctx context.Context) state {
		e.enterFenced(Publishing, op)
		var decided syncobject.Object
		next, err := e.during(ctx, func(ctx context.Context) (err error) {
			decided, err = e.publish(ctx, op, final)
			return err
		}, e.whileFenced(ctx, op))
		switch {
		case next != nil || ctx.Err() != nil:
			return next
		case errors.Is(err, errThawed):
			e.Log.Error("the final snapshot is not the last of it, another one is made", "error", err)
			return e.freezing(reading{object: &op.object, verdict: syncobject.HandOver})
		case err != nil: // aborted, forced, another's: what it is, the object says
			e.Log.Warn("the final snapshot is not what is handed over", "error", err)
			return e.reread(ctx, op)
		}
		e.Log.Info("handed over", "object", decided)
		return e.ceded(reading{object: &decided, verdict: syncobject.Ceded})
	}
}

// publish tries until it is published or refused, or ctx ends.
func (e *Election) publish(ctx context.Context, op operation, final snapshot.Manifest) (syncobject.Object, error) {
	for {
		o, err := e.tryPublish(ctx, op, final)
		if refusal := (*syncobject.Refusal)(nil); err == nil || ctx.Err() != nil || errors.As(err, &refusal) || errors.Is(err, errThawed) {
			return o, err
		}
		e.Log.Warn("the final snapshot cannot be made known, it will be tried again", "error", err)
		sleep(ctx, e.Timing.Tick)
	}
}

func (e *Election) tryPublish(ctx context.Context, op operation, final snapshot.Manifest) (syncobject.Object, error) {
	info, err := e.archive.Stored(ctx, final)
	if err != nil {
		return op.object, err
	}
	set := syncobject.Set{ThroughRevision: final.Last, Final: true, Items: []syncobject.Item{{
		Name: final.Name, Kind: final.Kind, Size: final.StoredSize, SHA256: final.StoredSHA256,
		Revision: final.Last, Version: string(info.Version),
	}}}
	if op.frozen {
		if err := e.sealed(ctx, op, final); err != nil {
			return op.object, err
		}
	}
	holder := e.Status().Holder
	crashpoint.Here(crashpoint.BeforePublish)
	o, _, err := e.object.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		fenced, err := o.Report(op.generation(), holder, e.fenced(op))
		if err != nil {
			return o, err
		}
		return fenced.Publish(op.generation(), holder, set, e.Clock.Wall())
	})
	if err == nil {
		crashpoint.Here(crashpoint.Published)
	}
	return o, err
}

// reread waits for a reading that is not op any more.
func (e *Election) reread(ctx context.Context, op operation) state {
	e.askNow()
	watch := e.whileFenced(ctx, op)
	for ctx.Err() == nil {
		if next := watch(e.next(ctx, nil)); next != nil {
			return next
		}
	}
	return nil
}
