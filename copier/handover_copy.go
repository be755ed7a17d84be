package copier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// noteAfter is how long copying takes before the object says so: a short one is
// over sooner than the write.
const noteAfter = 5 * time.Second

// copying copies exactly the set that the object names. What is found damaged is
// tried again before it is given up.
func (r *handing) copying(ctx context.Context) (state, error) {
	r.enter(Copying)
	d, set := r.object.Decision, r.object.Snapshots
	r.Metrics.decided(d.Forced, d.Lossy, set.ThroughRevision)
	began := time.Now()
	defer r.show(ctx)()
	stop := r.note(ctx, syncobject.Copying)
	defer stop()
	var chain snapshot.Chain
	for try := 1; ; try++ {
		err := r.persist(ctx, "copy", func(ctx context.Context) (err error) {
			chain, err = r.copySet(ctx, set)
			return err
		})
		r.outcome.CopySeconds = time.Since(began).Seconds()
		if err == nil {
			break
		}
		if !errors.Is(err, archive.ErrCorrupt) || try >= r.Tries {
			return nil, err
		}
		r.trouble("copy", err)
		if err := r.pause(ctx, r.Poll); err != nil {
			return nil, err
		}
	}
	stop()
	return func(ctx context.Context) (state, error) { return r.committing(ctx, chain) }, nil
}

// note writes the phase into the object if it lasts, for people. The function
// that it returns ends that.
func (r *handing) note(ctx context.Context, phase syncobject.DestinationPhase) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	generation := r.object.Generation
	g.Go(func() error {
		select {
		case <-time.After(noteAfter):
		case <-ctx.Done():
			return nil
		}
		_, _, err := r.source.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
			return o.Note(generation, r.id, phase)
		})
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("could not note the phase", "phase", string(phase), "error", err)
		}
		return nil
	})
	return func() { cancel(); _ = g.Wait() }
}

// copySet copies the named set and returns it as it is in one's own container.
func (r *handing) copySet(ctx context.Context, set syncobject.Set) (snapshot.Chain, error) {
	items, err := set.Load(ctx, r.from.Objects)
	switch {
	case errors.Is(err, syncobject.ErrMalformed), errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
	case err == nil && len(items) == 0:
		err = fmt.Errorf("%w: the object is %s and names no snapshots, another implementation has written it", archive.ErrCorrupt, r.object.Status)
	}
	if err != nil {
		return snapshot.Chain{}, err
	}
	pins := make([]archive.AdoptedItem, len(items))
	for i, it := range items {
		pins[i] = archive.AdoptedItem{Name: it.Name, Kind: it.Kind, Size: it.Size, SHA256: it.SHA256, Revision: it.Revision}
	}
	named, err := r.from.Archive.PinnedChain(ctx, pins)
	if err != nil {
		return named, fmt.Errorf("source %s: %w", r.from.Archive, err)
	}
	all := named.All()
	if end := all[len(all)-1]; end.Last < set.ThroughRevision {
		return named, fmt.Errorf("source %s: the named set: %w: it ends at revision %d, not at %d as the object says",
			r.from.Archive, archive.ErrCorrupt, end.Last, set.ThroughRevision)
	}
	if _, err := r.bring(ctx, all, deep); err != nil {
		return named, err
	}
	return r.arrived(ctx, all)
}

// arrived returns the copies of ms.
func (r *handing) arrived(ctx context.Context, ms []snapshot.Manifest) (snapshot.Chain, error) {
	pins := make([]archive.AdoptedItem, len(ms))
	for i, m := range ms {
		m, err := r.to.Archive.Manifest(ctx, r.Copier.target(m).Name)
		if err != nil {
			return snapshot.Chain{}, err
		}
		pins[i] = archive.Item(m)
	}
	return r.to.Archive.PinnedChain(ctx, pins)
}

// depth is how closely is looked at what is there already.
type depth bool

const (
	shallow depth = false // its manifest
	deep    depth = true  // every byte
)

// bring copies what of ms is not there yet, and returns what is damaged in the
// source. With deep nothing is taken for granted that an earlier copy brought: a
// copy that is damaged is replaced if its original is sound.
func (r *handing) bring(ctx context.Context, ms []snapshot.Manifest, how depth) (map[string]bool, error) {
	there, err := r.to.Archive.List(ctx)
	if err != nil && !errors.Is(err, store.ErrNoContainer) { // the first write makes it
		return nil, fmt.Errorf("destination: %w", err)
	}
	if how == deep {
		healed, err := r.heal(ctx, ms, there)
		if err != nil {
			return nil, err
		}
		if healed {
			return r.bring(ctx, ms, shallow)
		}
	}
	plan, err := r.Copier.compare(there, ms, nil)
	if err != nil {
		return nil, err
	}
	result, err := r.Copier.Do(ctx, plan)
	bad := map[string]bool{}
	for _, l := range result.LeftOut {
		if l.err != nil {
			bad[l.Name] = true
		}
	}
	return bad, err
}

// heal removes the copies of ms that are proven to be damaged, if their originals
// are sound, and reports whether there were any.
func (r *handing) heal(ctx context.Context, ms []snapshot.Manifest, there archive.Listing) (bool, error) {
	var mu sync.Mutex
	var damaged []snapshot.Manifest
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(r.Copier.Parallel, 1))
	for _, m := range ms {
		g.Go(func() error {
			err := r.checkCopy(gctx, m, there)
			if errors.Is(err, archive.ErrCorrupt) {
				r.Log.Error("a copy is damaged and is made again", "snapshot", m.Name, "error", err)
				mu.Lock()
				defer mu.Unlock()
				damaged = append(damaged, m)
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	for _, m := range damaged {
		if err := readThrough(ctx, r.from.Archive, m); err != nil {
			return false, fmt.Errorf("source %s: %w", r.from.Archive, err)
		}
		if err := r.to.Archive.Remove(ctx, r.Copier.target(m)); err != nil {
			return false, err
		}
	}
	return len(damaged) > 0, nil
}

// checkCopy reads the copy of m, if it counts.
func (r *handing) checkCopy(ctx context.Context, m snapshot.Manifest, there archive.Listing) error {
	name := r.Copier.target(m).Name
	for _, p := range there.Problems {
		if p.Name == name {
			return p.Err
		}
	}
	i := slices.IndexFunc(there.Manifests, func(m snapshot.Manifest) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return readThrough(ctx, r.to.Archive, there.Manifests[i])
}

func readThrough(ctx context.Context, a *archive.Archive, m snapshot.Manifest) error {
	stored, err := a.OpenStored(ctx, m)
	if err != nil {
		return err
	}
	defer stored.Close()
	_, err = store.Drain(stored)
	return err
}
