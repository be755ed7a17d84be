package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// release is the end of an owner that was told to stop. Etcd is not ended within
// its lease: only this process may have been meant. If it ends too, as with its pod, what the
// container lacks is stored, and owner.json says Released: whoever takes over need
// not wait then (HANDOVER §8). Everything is bounded; without a release nothing is
// lost but the time that a destination waits.
func (e *Election) release() state {
	return func(ctx context.Context) state {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Timing.Release)
		defer cancel()
		e.lastDelta(ctx)
		e.mu.Lock()
		e.open, e.reason = false, errStopped // an etcd that ends now stays down
		e.broadcast()
		e.mu.Unlock()
		e.endBackup()
		if err := e.tryRelease(ctx); err != nil {
			e.Log.Info("the container is not released, a destination would wait for the lease", "reason", err)
			return nil
		}
		e.enter(Released, errStopped)
		return nil
	}
}

// lastDelta stores what etcd can still tell within its lease.
func (e *Election) lastDelta(ctx context.Context) {
	patience := e.Timing.Read
	if e.implicit.Load() {
		patience = min(patience, e.lease.remaining())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := e.Take(ctx, snapshot.Delta); err != nil {
		e.Log.Debug("no last delta", "error", err)
	}
}

func (e *Election) tryRelease(ctx context.Context) error {
	if n := e.Status().Members; n > 1 {
		return fmt.Errorf("the cluster has %d members, and each knows only of itself", n)
	}
	if err := e.waitForEnd(ctx); err != nil {
		return err
	}
	if err := e.memory.update(func(p *persisted) { p.Fenced = true }); err != nil {
		return err
	}
	if err := e.member.Fence(ctx, e.passed()); err != nil { // takes the lock: all have ended
		return err
	}
	if err := e.storeRest(ctx); err != nil {
		return fmt.Errorf("store what the container lacks: %w", err)
	}
	_, _, err := e.tenancy.Update(ctx, func(o syncobject.Owner) (syncobject.Owner, error) {
		return o.Release(syncobject.Owner{ID: e.ID, Instance: e.instance, Lineage: e.Status().Holder.Lineage})
	})
	return err
}

// waitForEnd waits until etcd has ended, which it does at the same order unless
// only this process is to stop, or until it has to end: its lease is over.
func (e *Election) waitForEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Grace)
	defer cancel()
	for {
		running, err := e.member.Running()
		if err != nil || !running {
			return err
		}
		if e.over() {
			e.Log.Warn("the lease is over, and etcd has not ended yet: it is ended")
			return nil
		}
		sleep(ctx, min(e.Timing.Tick, e.Timing.Grace)/4)
		if ctx.Err() != nil {
			return errors.New("etcd goes on")
		}
	}
}

// storeRest stores what the container lacks of the data dir.
func (e *Election) storeRest(ctx context.Context) error {
	c, err := e.member.Offline(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there never was an etcd
	}
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := e.archive.List(ctx)
	if err != nil {
		return err
	}
	holder := e.Status().Holder
	if covers(l.Manifests, c.Manifest, holder.Lineage) {
		return nil
	}
	f := filing{holder: holder, tool: e.Tool, now: e.Clock.Wall()}
	m := f.describe(c.Manifest, l.Manifests)
	m.Final, m.OperationID = false, ""
	if m.HashKV, err = hashOf(ctx, c); err != nil {
		return err
	}
	_, err = e.archive.Save(ctx, m, c)
	return err
}

// hashOf returns nil if the content has no hash that can be compared.
func hashOf(ctx context.Context, c *Content) (*snapshot.HashKV, error) {
	h, err := c.HashKV(ctx)
	switch {
	case errors.Is(err, datadir.ErrNoHash):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &h, nil
}

// covers reports whether what is stored holds all of c for certain: the revisions,
// and the users and roles, which only a full has. Only the history of c counts:
// after a fork of history another one may have the same cluster id and higher
// revisions. If its lineage is not known, it is the one that is restored by
// default.
func covers(stored []snapshot.Manifest, c snapshot.Manifest, lineage string) bool {
	chains, _ := snapshot.Chains(stored)
	if lineage == "" && len(chains) > 0 {
		lineage = chains[len(chains)-1].Full.Lineage
	}
	for _, chain := range chains {
		if chain.Full.Lineage != lineage {
			continue
		}
		proven := chain.Full.First // the true revision is this or higher
		if n := len(chain.Deltas); n > 0 {
			proven = chain.Deltas[n-1].Last
		}
		if chain.Full.ClusterID == c.ClusterID && proven >= c.Last && chain.Full.AuthRevision >= c.AuthRevision {
			return true
		}
	}
	return false
}
