package copier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// committing makes this destination the owner. All that its server needs is in its
// container before the commit point, the swap Ready→Done of the source's object;
// that it counts is written after it. So no server can serve from a copy that an
// operator has reclaimed, whenever it is started and whoever crashes.
func (r *handing) committing(ctx context.Context, chain snapshot.Chain) (state, error) {
	r.enter(Committing)
	crashpoint.Here(crashpoint.BeforeAdopt)
	var ad archive.Adoption
	err := r.persist(ctx, "prepare the adoption", func(ctx context.Context) error {
		wanted, err := r.adoption(ctx, chain)
		if err != nil {
			return err
		}
		ad, err = r.to.Archive.PrepareAdoption(ctx, wanted)
		if err == nil && (!slices.Equal(ad.Items, wanted.Items) || ad.Owner.ID != r.id) {
			err = fmt.Errorf("%w: adoption %s in %s names another set", ErrTaken, ad.OperationID, r.to.Archive)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	crashpoint.Here(crashpoint.AdoptionWritten)
	owner := syncobject.Holder{ID: ad.Owner.ID, Epoch: ad.Owner.Epoch, Lineage: ad.Owner.Lineage}
	var mine bool
	err = r.persist(ctx, "commit", func(ctx context.Context) error {
		o, wrote, err := r.source.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
			return o.Commit(r.object.Generation, owner)
		})
		if err == nil {
			r.object, mine = o, wrote
		}
		return err
	})
	if err != nil {
		return nil, r.withdrawn(ctx, err)
	}
	crashpoint.Here(crashpoint.Committed)
	if !mine { // another run was faster, and its server may have gone on from there
		return r.finish, nil
	}
	return func(ctx context.Context) (state, error) { return nil, r.settle(ctx, ad) }, nil
}

// adoption says what is adopted.
func (r *handing) adoption(ctx context.Context, chain snapshot.Chain) (archive.Adoption, error) {
	o := r.object
	holder, err := readOr(ctx, r.Read, r.holder)
	if err != nil {
		return archive.Adoption{}, err
	}
	own, err := readOr(ctx, r.Read, r.own)
	if err != nil {
		return archive.Adoption{}, err
	}
	tenancy, err := readOr(ctx, r.Read, r.tenancy)
	if err != nil {
		return archive.Adoption{}, err
	}
	inherited, err := r.inheritedLoss(ctx, chain, holder)
	if err != nil {
		return archive.Adoption{}, err
	}
	before := max(o.Owner.Epoch, holder.Epoch, own.Owner.Epoch, tenancy.Epoch)
	ad := archive.Adoption{
		OperationID: o.OperationID, Generation: o.Generation, Source: r.from.Archive.String(),
		SourceOwner:     archive.Holder{ID: o.Owner.ID, Epoch: o.Owner.Epoch, Lineage: chain.Full.Lineage},
		ThroughRevision: o.Snapshots.ThroughRevision, Final: o.Snapshots.Final,
		Forced: o.Decision.Forced, Lossy: o.Decision.Lossy || inherited, Reason: o.Decision.Reason,
		Time: time.Now(), Tool: r.Tool,
	}
	for _, m := range chain.All() {
		before = max(before, m.Epoch)
		ad.Items = append(ad.Items, archive.Item(m))
	}
	ad.Owner = archive.Holder{ID: r.id, Epoch: before + 1, Lineage: o.Lineage()}
	return ad, nil
}

// inheritedLoss reports whether what is handed on was lossy when it came here, and
// nobody has served it since: then clients have yet to be told.
func (r *handing) inheritedLoss(ctx context.Context, chain snapshot.Chain, holder syncobject.Owner) (bool, error) {
	if holder.Lineage == "" || holder.Lineage == chain.Full.Lineage {
		return false, nil
	}
	adoptions, err := r.from.Archive.Adoptions(ctx)
	if err != nil {
		return false, err
	}
	ad, err := adoptions.Current()
	return err == nil && ad.Lossy && ad.Owner.Lineage == holder.Lineage, nil
}

// finish is for a hand-over that was committed by another run.
func (r *handing) finish(ctx context.Context) (state, error) {
	r.enter(Committing)
	r.outcome.Before = true
	var adopted archive.AdoptionState
	err := r.persist(ctx, "verify", func(ctx context.Context) error {
		all, err := r.to.Archive.Adoptions(ctx)
		if err != nil {
			return err
		}
		adopted = all.Of(r.object.OperationID)
		return r.verify(ctx, adopted)
	})
	if err != nil {
		return nil, err
	}
	if adopted.Outcome == archive.AdoptionCommitted {
		r.complete(*adopted.Manifest)
		return nil, nil
	}
	return nil, r.settle(ctx, *adopted.Manifest)
}

// verify looks whether what was handed over is in this container. Once it has a
// history of its own, that counts, and pruning may have removed the set.
func (r *handing) verify(ctx context.Context, adopted archive.AdoptionState) error {
	if adopted.Manifest == nil {
		return fmt.Errorf("%w: %s was handed over to %q, and %s has nothing of operation %s: is it the right container?",
			syncobject.ErrConflict, r.from.Archive, r.id, r.to.Archive, r.object.OperationID)
	}
	if adopted.Outcome == archive.AdoptionCommitted {
		l, err := r.to.Archive.List(ctx)
		if err != nil {
			return err
		}
		newer := func(m snapshot.Manifest) bool { return m.Epoch >= adopted.Manifest.Owner.Epoch }
		if slices.ContainsFunc(l.Manifests, newer) {
			return nil
		}
	}
	chain, err := r.to.Archive.AdoptedChain(ctx, *adopted.Manifest)
	if err != nil {
		return err
	}
	for _, m := range chain.All() {
		if err := readThrough(ctx, r.to.Archive, m); err != nil {
			return err
		}
	}
	return nil
}

// settle takes one's own container into use, after the commit point. Each step may
// have been done before; the last one lets a server begin.
func (r *handing) settle(ctx context.Context, ad archive.Adoption) error {
	owner := syncobject.Holder{ID: ad.Owner.ID, Epoch: max(ad.Owner.Epoch, r.object.Owner.Epoch), Lineage: ad.Owner.Lineage}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"adopt", func(ctx context.Context) error {
			_, _, err := r.own.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) { return o.Adopt(owner) })
			return err
		}},
		{"hold", func(ctx context.Context) error {
			crashpoint.Here(crashpoint.Adopted)
			_, _, err := r.tenancy.Update(ctx, func(o syncobject.Owner) (syncobject.Owner, error) { return heldBy(o, owner) })
			return err
		}},
		{"settle", func(ctx context.Context) error {
			crashpoint.Here(crashpoint.Held)
			return r.to.Archive.SettleAdoption(ctx, ad.OperationID, archive.AdoptionCommitted)
		}},
	}
	for _, s := range steps {
		if err := r.persist(ctx, s.what, s.do); err != nil {
			return fmt.Errorf("%s %s: %w", s.what, r.to.Archive, err)
		}
	}
	crashpoint.Here(crashpoint.Settled)
	r.complete(ad)
	return nil
}

// heldBy returns the owner.json of a container that was handed to owner. Nobody is
// at work there: it says Released. But its server may have been started already,
// and waits for this: then what it said of itself stays.
func heldBy(o syncobject.Owner, owner syncobject.Holder) (syncobject.Owner, error) {
	if o.ID == owner.ID && o.Epoch >= owner.Epoch {
		return o, nil
	}
	t := syncobject.DefaultTiming()
	me := syncobject.Owner{
		ID: owner.ID, ImplicitFencing: true,
		Lease: syncobject.Seconds(t.Lease), Kill: syncobject.Seconds(t.Kill), Watchdog: syncobject.Seconds(t.Watchdog),
	}
	started := o.ID == owner.ID && o.State == syncobject.Held
	if started {
		me = o
	}
	me.Epoch, me.Lineage = owner.Epoch, owner.Lineage
	o, err := o.Hold(me)
	if err != nil || started {
		return o, err
	}
	return o.Release(me)
}

// complete fills in the outcome and says it.
func (r *handing) complete(ad archive.Adoption) {
	out, d := &r.outcome, r.object.Decision
	out.OperationID, out.Generation = ad.OperationID, ad.Generation
	out.Owner, out.Epoch, out.Lineage = ad.Owner.ID, ad.Owner.Epoch, ad.Owner.Lineage
	out.DecidedBy, out.Forced, out.Lossy, out.Reason = string(d.By), ad.Forced, ad.Lossy, ad.Reason
	out.ThroughRevision, out.Snapshots = ad.ThroughRevision, len(ad.Items)
	for _, it := range ad.Items {
		out.Bytes += it.Size
	}
	r.Metrics.decided(ad.Forced, ad.Lossy, ad.ThroughRevision)
	r.enter(Finished)
	r.publish(func(s *Status) { s.Forced, s.Lossy, s.ThroughRevision = ad.Forced, ad.Lossy, ad.ThroughRevision })
	if ad.Lossy {
		r.Log.Error("LOSSY: the hand-over is done without all that the source acknowledged",
			"through_revision", ad.ThroughRevision, "reason", ad.Reason, "operation_id", ad.OperationID)
	}
}
