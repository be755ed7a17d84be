package copier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// ErrUnsafe is wrapped when W is below what is safe. Nothing was done.
var ErrUnsafe = errors.New("the wait is too short")

// claim makes the hand-over this destination's. Nothing is written before all
// that could refuse it later has been looked at: the claim fences the source.
func (r *handing) claim(ctx context.Context) (state, error) {
	r.enter(Claiming)
	var o syncobject.Object
	err := r.persist(ctx, "claim", func(ctx context.Context) (err error) {
		if o, err = r.tryClaim(ctx); refuses(err) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return err
	})
	r.began = r.Boot() // after the write has ended, so that every later read of the source sees it
	r.object = o
	r.publish(func(*Status) {})
	switch {
	case err != nil:
		return nil, err
	case !o.Pending(): // and completed by me
		return r.finish, nil
	}
	r.outcome.OperationID, r.outcome.Generation = o.OperationID, o.Generation
	err = r.persist(ctx, "begin adoption", func(ctx context.Context) error {
		return r.to.Archive.BeginAdoption(ctx, archive.BegunAdoption{
			OperationID: o.OperationID, Generation: o.Generation, Source: r.from.Archive.String(), Owner: r.id, Time: time.Now(),
		})
	})
	if err == nil {
		crashpoint.Here(crashpoint.AdoptionBegun)
		err = r.stillFree(ctx)
	}
	if err == nil {
		err = r.sourceIsSettled(ctx)
	}
	return r.waiting, err
}

// errRefused says that a store refuses already the beginning.
var errRefused = errors.New("refused by a store")

func refuses(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, store.ErrNoContainer) ||
		errors.Is(err, syncobject.ErrMalformed)
}

func (r *handing) tryClaim(ctx context.Context) (syncobject.Object, error) {
	o, err := readOr(ctx, r.Read, r.source)
	if err != nil {
		return o, fmt.Errorf("read the source's object: %w", err)
	}
	adoptions, err := r.withdrawDead(ctx, o)
	if err != nil {
		return o, err
	}
	holder, err := readOr(ctx, r.Read, r.holder)
	if err != nil {
		return o, fmt.Errorf("read the source's owner: %w", err)
	}
	claim := syncobject.Claim{ID: r.id, ForceAfter: r.Wait, Owner: holder.Holder(), At: time.Now()}
	planned, err := o.Claim(claim)
	if errors.Is(err, syncobject.ErrDecided) { // by whoever says Done
		err = fmt.Errorf("%w: %w", syncobject.ErrConflict, err)
	}
	if err != nil {
		return o, err
	}
	if !planned.Pending() { // done by me
		return planned, nil
	}
	if err := r.pastAllows(ctx, o, adoptions); err != nil {
		return o, err
	}
	if err := r.mayClaim(ctx, o, holder, adoptions); err != nil {
		return o, err
	}
	crashpoint.Here(crashpoint.BeforeClaim)
	o, wrote, err := r.source.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) { return o.Claim(claim) })
	if err != nil {
		return o, fmt.Errorf("claim: %w", err)
	}
	crashpoint.Here(crashpoint.Claimed)
	r.Log.Info("hand-over claimed", "written", wrote, "object", o)
	return o, nil
}

// mayClaim looks at what could refuse the hand-over later.
func (r *handing) mayClaim(ctx context.Context, o syncobject.Object, holder syncobject.Owner, adoptions archive.Adoptions) error {
	takenBack := o.Outcome == syncobject.Aborted && o.Destination.ID == r.id
	if takenBack && !r.Again {
		return fmt.Errorf("%w: generation %d was claimed by %q and ended by an operator: give --again to begin another one",
			ErrReclaimed, o.Generation, r.id)
	}
	decided := o.Pending() && o.Status != syncobject.Initial
	if err := r.timing(holder).Check(r.Wait); err != nil && !decided && !r.onWord(holder) {
		return fmt.Errorf("%w: %w", ErrUnsafe, err)
	}
	if err := r.ownFree(ctx, o, adoptions); err != nil {
		return err
	}
	if !o.Pending() || o.Destination.ID != r.id { // else the claim would stay
		if err := r.unsettled(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.probe(ctx, r.to), r.probe(ctx, r.from))
}

// probe tries whether a container keeps what a hand-over relies on.
func (r *handing) probe(ctx context.Context, c Container) error {
	report, err := store.Probe(ctx, c.Objects)
	if report.Left != nil {
		r.Log.Warn("the object of a probe is left", "store", c.Archive.String(), "object", report.Object, "error", report.Left)
	}
	return err
}

// onWord reports whether it is the operator's word alone that makes forcing safe:
// then no wait makes it safer.
func (h *HandOver) onWord(holder syncobject.Owner) bool {
	return h.Force == ForceNever || h.Force == ForceAnyway && (holder.Absent() || !holder.ImplicitFencing)
}

func (h *HandOver) timing(holder syncobject.Owner) syncobject.Timing {
	t := holder.Timing()
	t.Slack, t.ClockError = h.Slack, h.ClockError
	return t
}

// ownFree refuses a container that somebody serves from, also if that is this
// very deployment: its history would be lost.
func (r *handing) ownFree(ctx context.Context, o syncobject.Object, adoptions archive.Adoptions) error {
	own, err := readOr(ctx, r.Read, r.own)
	if err != nil && !errors.Is(err, store.ErrNoContainer) { // the first write makes it
		return fmt.Errorf("read the object of one's own container: %w", err)
	}
	if _, err := own.Adopt(syncobject.Holder{ID: r.id, Epoch: own.Owner.Epoch + 1, Lineage: "to come"}); err != nil {
		return fmt.Errorf("destination %s: %w", r.to.Archive, err)
	}
	there, err := readOr(ctx, r.Read, r.tenancy)
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		return fmt.Errorf("read the owner of one's own container: %w", err)
	}
	r.away = !own.Absent() && own.Outcome == syncobject.Completed
	if there.Absent() || r.away {
		return nil
	}
	if there.ID == r.id && o.Pending() && o.Destination.ID == r.id && adoptions.Of(o.OperationID).Begun != nil {
		return nil // to be resumed
	}
	return fmt.Errorf("%w: %s is the container of %q, which was not handed over: choose an empty one", syncobject.ErrConflict, r.to.Archive, there.ID)
}

// readable is a syncobject.File.
type readable[T any] interface {
	Read(ctx context.Context) (T, error)
}

// readOr reads an object; the zero value is its proven absence.
func readOr[T any](ctx context.Context, limit time.Duration, f readable[T]) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := f.Read(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	return v, err
}

// ours returns the object if the hand-over is still this destination's and not
// taken back.
func (r *handing) ours(o syncobject.Object) error {
	switch {
	case o.Absent():
		return fmt.Errorf("%w: %s of %s", syncobject.ErrVanished, syncobject.ObjectName, r.from.Archive)
	case o.Generation != r.object.Generation:
		return fmt.Errorf("%w: generation %d was ended, %d is wanted now", ErrReclaimed, r.object.Generation, o.Generation)
	case o.Destination.ID != r.id:
		return fmt.Errorf("%w: %q has the hand-over", syncobject.ErrConflict, o.Destination.ID)
	case !o.Pending() && o.Outcome != syncobject.Completed:
		return fmt.Errorf("%w: it is %s (%s)", ErrReclaimed, o.Outcome, o.Decision.Reason)
	}
	return nil
}

// withdrawn notes in one's own container that the adoption will never count, if
// err says that it was taken back.
func (r *handing) withdrawn(ctx context.Context, err error) error {
	if errors.Is(err, syncobject.ErrReclaimed) || errors.Is(err, syncobject.ErrNotPending) {
		err = fmt.Errorf("%w: %w", ErrReclaimed, err)
	}
	if !errors.Is(err, ErrReclaimed) {
		return err
	}
	r.Log.Warn("the hand-over was taken back, what was copied does not count", "error", err)
	settled := r.persist(ctx, "withdraw", func(ctx context.Context) error {
		return r.to.Archive.SettleAdoption(ctx, r.object.OperationID, archive.AdoptionWithdrawn)
	})
	return errors.Join(err, settled)
}
