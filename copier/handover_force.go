package copier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// forcing decides without the source what is handed over: the newest chain of its
// history of which every byte has been copied and checked.
func (r *handing) forcing(ctx context.Context, reason string) (state, error) {
	r.enter(Forcing)
	defer r.show(ctx)()
	r.Log.Error("LOSSY: this destination decides without the source; what the source acknowledged and did not store is not handed over",
		"reason", reason, "waited", r.waited().String())
	var set syncobject.Set
	err := r.persist(ctx, "find the newest verified chain", func(ctx context.Context) (err error) {
		set, err = r.verifiedSet(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := syncobject.Forcing{Reason: reason, Unfenced: r.Force == ForceAnyway, At: time.Now()}
	return r.decide(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		return o.Force(r.object.Generation, r.id, set, f)
	})
}

// taking decides what is handed over by a source that has stopped cleanly. If not
// all it has stored is sound nothing is taken, and waiting goes on.
func (r *handing) taking(ctx context.Context) (state, error) {
	r.enter(Forcing)
	defer r.show(ctx)()
	var set syncobject.Set
	err := r.persist(ctx, "take over what the source has released", func(ctx context.Context) (err error) {
		set, err = r.wholeSet(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.Log.Error("the source has released its container, and not all that is stored there is sound", "error", err)
		r.unsound = true
		return r.waiting, nil
	}
	if err != nil {
		return nil, err
	}
	return r.decide(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		return o.Take(r.object.Generation, r.id, set, time.Now())
	})
}

// decide swaps the decision in. If the source was faster its decision counts.
func (r *handing) decide(ctx context.Context, step func(syncobject.Object) (syncobject.Object, error)) (state, error) {
	crashpoint.Here(crashpoint.BeforeForce)
	err := r.persist(ctx, "decide", func(ctx context.Context) error {
		o, _, err := r.source.Update(ctx, step)
		if err == nil {
			r.object = o
		}
		return err
	})
	if errors.Is(err, syncobject.ErrDecided) {
		r.Log.Info("the source was faster, its decision counts")
		return r.waiting, nil
	}
	if errors.Is(err, syncobject.ErrNotFenced) {
		err = fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	if err != nil {
		return nil, r.withdrawn(ctx, err)
	}
	crashpoint.Here(crashpoint.Decided)
	return r.copying, nil
}

// verifiedSet copies the newest chain. What is found damaged is left out, and the
// next best chain is tried.
func (r *handing) verifiedSet(ctx context.Context) (syncobject.Set, error) {
	damaged := map[string]bool{}
	for {
		c, err := r.newest(ctx, damaged)
		if err != nil {
			return syncobject.Set{}, err
		}
		bad, err := r.bring(ctx, c.All(), deep)
		if len(bad) == 0 && err == nil {
			return r.name(ctx, c)
		}
		if len(bad) == 0 {
			return syncobject.Set{}, err
		}
		maps.Copy(damaged, bad)
		r.Log.Error("a stored snapshot is damaged and is left out", "snapshots", slices.Sorted(maps.Keys(bad)), "error", err)
	}
}

// wholeSet copies the newest chain, and fails if anything that is stored leads
// beyond it.
func (r *handing) wholeSet(ctx context.Context) (syncobject.Set, error) {
	l, err := r.from.Archive.List(ctx)
	if err != nil {
		return syncobject.Set{}, err
	}
	c, err := r.newest(ctx, nil)
	if err != nil {
		return syncobject.Set{}, err
	}
	for _, p := range l.Problems {
		if s, err := snapshot.Parse(p.Name); err == nil && leadsBeyond(s, c.Last()) {
			return syncobject.Set{}, p.Err
		}
	}
	for _, stray := range l.Strays {
		if s, err := snapshot.Parse(stray.Name); err == nil && leadsBeyond(s, c.Last()) {
			return syncobject.Set{}, fmt.Errorf("%s: %w: it has no manifest", stray.Name, archive.ErrCorrupt)
		}
	}
	if _, err := snapshot.Select(l.Manifests, snapshot.Target{Lineage: c.Full.Lineage}); err != nil {
		return syncobject.Set{}, err
	}
	if _, err := r.bring(ctx, c.All(), deep); err != nil {
		return syncobject.Set{}, err
	}
	return r.name(ctx, c)
}

// name returns the set that c is.
func (r *handing) name(ctx context.Context, c snapshot.Chain) (syncobject.Set, error) {
	set := syncobject.Set{ThroughRevision: c.Last()}
	for _, m := range c.All() {
		set.Items = append(set.Items, item(m))
	}
	return set.Store(ctx, r.from.Objects)
}

func item(m snapshot.Manifest) syncobject.Item {
	revision := m.Last
	if m.Kind == snapshot.Full {
		revision = m.First // it holds at least that
	}
	return syncobject.Item{Name: m.Name, Kind: m.Kind, Size: m.StoredSize, SHA256: m.StoredSHA256, Revision: revision}
}

// newest returns the newest chain of the source's own history, without what is
// known to be damaged.
func (r *handing) newest(ctx context.Context, damaged map[string]bool) (snapshot.Chain, error) {
	l, err := r.from.Archive.List(ctx)
	if err != nil {
		return snapshot.Chain{}, err
	}
	lineage, err := r.lineage(ctx, l)
	if err != nil {
		return snapshot.Chain{}, err
	}
	ms := slices.DeleteFunc(slices.Clone(l.Manifests), func(m snapshot.Manifest) bool {
		return damaged[m.Name] || lineage != "" && m.Lineage != lineage
	})
	chains, _ := snapshot.Chains(ms)
	if len(chains) == 0 {
		return snapshot.Chain{}, fmt.Errorf("%w: no sound full snapshot of the source's history is stored in %s", snapshot.ErrNothing, r.from.Archive)
	}
	return chains[len(chains)-1], nil
}

// lineage returns the source's own history: the one its owner.json names. An
// owner that has not stored anything since it took over still has the history
// that it was handed; "" stands for whatever is newest.
func (r *handing) lineage(ctx context.Context, l archive.Listing) (string, error) {
	holder, err := readOr(ctx, r.Read, r.holder)
	if err != nil {
		return "", err
	}
	stored := func(m snapshot.Manifest) bool { return m.Lineage == holder.Lineage }
	if holder.Lineage == "" || slices.ContainsFunc(l.Manifests, stored) {
		return holder.Lineage, nil
	}
	adoptions, err := r.from.Archive.Adoptions(ctx)
	if err != nil {
		return "", err
	}
	ad, err := adoptions.Current()
	if errors.Is(err, fs.ErrNotExist) || err == nil && ad.Owner.Lineage != holder.Lineage {
		return holder.Lineage, nil // of which nothing is stored
	}
	if err != nil {
		return "", err
	}
	chain, err := r.from.Archive.AdoptedChain(ctx, ad)
	return chain.Full.Lineage, err
}
