package copier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// errMoved says that the source's object was changed while it was looked at.
var errMoved = errors.New("the source's object has just been changed")

// withdrawDead settles what earlier hand-overs have left open in one's own
// container and what never can be committed, as the source's object o tells: as
// long as one is open no server may restore from there. It returns what there is
// then.
func (r *handing) withdrawDead(ctx context.Context, o syncobject.Object) (archive.Adoptions, error) {
	adoptions, err := r.to.Archive.Adoptions(ctx)
	if err != nil {
		return nil, fmt.Errorf("destination %s: %w", r.to.Archive, err)
	}
	for i, s := range adoptions {
		if s.Outcome != archive.AdoptionOpen || !r.dead(s, o) {
			continue
		}
		r.Log.Warn("an earlier hand-over was taken back, what was copied for it does not count", "operation_id", s.OperationID)
		if err := r.to.Archive.SettleAdoption(ctx, s.OperationID, archive.AdoptionWithdrawn); err != nil {
			return nil, err
		}
		adoptions[i].Outcome = archive.AdoptionWithdrawn
	}
	return adoptions, nil
}

// dead reports whether the source's object o proves that the adoption s, which is
// open, never was committed and never will be. A commit leaves its epoch in the
// object for good, and is made only while its generation is the newest.
func (r *handing) dead(s archive.AdoptionState, o syncobject.Object) bool {
	switch b := s.Begun; {
	case b == nil || b.Source != r.from.Archive.String():
		return false
	case b.Generation == o.Generation && b.OperationID == o.OperationID:
		return o.Outcome == syncobject.Aborted
	case b.Generation >= o.Generation:
		return false
	default:
		return s.Manifest == nil || o.Owner.Epoch < s.Manifest.Owner.Epoch
	}
}

// pastAllows refuses a hand-over that could be carried out and then not be used,
// for what earlier ones have left in one's own container. O was read before them.
func (r *handing) pastAllows(ctx context.Context, o syncobject.Object, adoptions archive.Adoptions) error {
	err := r.hindered(o, adoptions)
	if err == nil {
		return nil
	}
	again, readErr := readOr(ctx, r.Read, r.source)
	if readErr != nil {
		return readErr
	}
	if again.Serial != o.Serial { // another run of this destination has gone on
		return errMoved
	}
	return err
}

func (r *handing) hindered(o syncobject.Object, adoptions archive.Adoptions) error {
	for _, s := range adoptions {
		same, open := o.Pending() && s.OperationID == o.OperationID, s.Outcome == archive.AdoptionOpen
		switch {
		case same && (!open || s.Begun != nil && s.Begun.Generation != o.Generation):
			return fmt.Errorf("%w: an operation %q was handed over to %s before: abort or reclaim it in the source, and begin one of another name",
				syncobject.ErrConflict, s.OperationID, r.to.Archive)
		case open && !same:
			_, err := archive.Adoptions{s}.Current()
			return fmt.Errorf("%w: %s: another hand-over has to be settled before: %w", syncobject.ErrConflict, r.to.Archive, err)
		}
	}
	return nil
}

// stillFree looks, after it was written that nothing may be restored from one's
// own container, whether somebody else has begun with it just before that: another
// hand-over, from there, or a server of this deployment that was let in. They write
// that they do, and then look for what is written here: so at least one of the two
// yields. This one takes its claim back.
func (r *handing) stillFree(ctx context.Context) error {
	err := r.persist(ctx, "look at one's own object", r.claimed)
	switch {
	case errors.Is(err, syncobject.ErrConflict):
		return r.yield(ctx, err)
	case err != nil:
		return err
	case r.away: // a server of this deployment knows that it was
		return nil
	}
	var members []string
	err = r.persist(ctx, "look at one's own container", func(ctx context.Context) (err error) {
		members, err = r.to.Archive.ServingMembers(ctx, archive.FirstHistory)
		return err
	})
	if err != nil || len(members) == 0 {
		return err
	}
	return r.yield(ctx, fmt.Errorf("%w: in %s a server was started before this copy, and has begun a history of its own (members %q): "+
		"stop it, and begin again with an empty container", syncobject.ErrConflict, r.to.Archive, members))
}

// claimed says who has claimed one's own container.
func (r *handing) claimed(ctx context.Context) error {
	own, err := readOr(ctx, r.Read, r.own)
	if err == nil && own.Pending() && own.Status != syncobject.Done {
		err = fmt.Errorf("%w: %s has just been claimed by %q: finish or abort that first", syncobject.ErrConflict, r.to.Archive, own.Destination.ID)
	}
	return err
}

// unsettled says why the source's container is nobody's yet: what is handed over to
// there is not finished. A claim on it would keep its new owner from it, and nobody
// would serve.
func (r *handing) unsettled(ctx context.Context) error {
	adoptions, err := r.from.Archive.Adoptions(ctx)
	if err != nil {
		return err
	}
	if _, err := adoptions.Current(); errors.Is(err, archive.ErrAdopting) {
		return fmt.Errorf("%w: %s: %w", syncobject.ErrConflict, r.from.Archive, err)
	}
	return nil
}

// sourceIsSettled is the same after the claim was written: who hands over to there
// writes that it does, and then looks for a claim.
func (r *handing) sourceIsSettled(ctx context.Context) error {
	if r.object.Status != syncobject.Initial {
		return nil
	}
	err := r.persist(ctx, "look at the source's container", r.unsettled)
	if errors.Is(err, syncobject.ErrConflict) {
		return r.yield(ctx, err)
	}
	return err
}

// yield takes one's own claim back, for the reason why. What is decided only an
// operator can take back.
func (r *handing) yield(ctx context.Context, why error) error {
	err := r.persist(ctx, "take the claim back", func(ctx context.Context) error {
		_, _, err := r.source.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
			return o.Abort(r.object.Generation, why.Error(), time.Now())
		})
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w; reclaim the hand-over in the source", why), err)
	}
	return errors.Join(why, r.persist(ctx, "withdraw", func(ctx context.Context) error {
		return r.to.Archive.SettleAdoption(ctx, r.object.OperationID, archive.AdoptionWithdrawn)
	}))
}
