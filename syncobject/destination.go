package syncobject

import (
	"fmt"
	"time"
)

// Claim wants a container handed over to oneself.
type Claim struct {
	ID         string        // the owner id of the destination
	ForceAfter time.Duration // W; checked with Timing.Check before
	Owner      Holder        // of the container, as owner.json has it; may be zero
	At         time.Time
}

// Claim makes the pending hand-over, which may be decided already, or a new one
// the destination's. Repeated it resumes: o comes back unchanged while the claim
// is c.ID's, also once it is Completed. It is refused, with Refusal.Who in the
// way, if
//   - another destination has claimed it, or the container has been handed over
//     to another already: ErrConflict
//   - it is the destination's own container: ErrConflict
//   - another implementation says Done: ErrDecided
func (o Object) Claim(c Claim) (Object, error) {
	const step = "claim"
	switch {
	case c.ID == "" || checkID(c.ID) != nil:
		return o, o.refuse(step, ErrInvalid, "", "no owner id")
	case o.Pending() && o.Status == Done:
		return o, o.refuse(step, ErrDecided, "", "another implementation has taken it over")
	case o.Pending() && o.Destination.ID != "" && o.Destination.ID != c.ID:
		return o, o.refuse(step, ErrConflict, o.Destination.ID, quote(o.Destination.ID)+" has claimed it")
	case o.Outcome == Completed && o.Owner.ID == c.ID:
		return o, nil
	case o.Outcome == Completed:
		return o, o.refuse(step, ErrConflict, o.Owner.ID, "it has been handed over to "+quote(o.Owner.ID)+", copy from there")
	case o.Owner.ID == c.ID, o.Owner.ID == "" && c.Owner.ID == c.ID:
		return o, o.refuse(step, ErrConflict, c.ID, "it is the container of "+quote(c.ID)+" itself, choose another --owner-id")
	}
	if !o.Pending() { // absent, or resolved with its owner still there
		o = o.begin(Request{Owner: c.Owner, At: c.At})
	}
	o = o.adoptOwner(c.Owner)
	d := &o.Destination
	if d.ID == "" {
		d.ID, d.ClaimedAt, d.Phase = c.ID, At(c.At), Waiting
	}
	d.ForceAfter = Seconds(c.ForceAfter)
	return o, nil
}

// Note says how far the destination id is with generation g. It decides nothing.
// It is refused like Commit, but before Ready too.
func (o Object) Note(g int64, id string, phase DestinationPhase) (Object, error) {
	const step = "note"
	if err := o.claimed(step, g, id); err != nil {
		return o, err
	}
	o.Destination.Phase = phase
	return o, nil
}

// Forcing says why a destination decides without the source.
type Forcing struct {
	Reason string
	// Unfenced is an operator's word that the source does not serve, although it
	// said that it could not be fenced.
	Unfenced bool
	At       time.Time
}

// Force decides generation g, as the destination id which has claimed it, without
// a source that could be reached: Initial → Ready, forced and lossy. Repeated it
// changes nothing: the first set counts. It is refused if
//   - the source has decided, that is the better way: ErrDecided
//   - g is not pending, or not claimed by id: ErrNotPending, ErrConflict
//   - the source says that it could not be fenced: ErrNotFenced
func (o Object) Force(g int64, id string, set Set, f Forcing) (Object, error) {
	const step = "force"
	if err := o.claimed(step, g, id); err != nil {
		return o, err
	}
	if o.Status == Initial && o.Source.Phase == FenceFailed && !f.Unfenced {
		return o, o.refuse(step, ErrNotFenced, o.Owner.ID, "it may still serve; stop its etcd and say so")
	}
	d := Decision{By: Destination, At: At(f.At), Forced: true, Lossy: true, Reason: shorten(f.Reason)}
	set.Final = false
	return o.take(step, g, id, set, d)
}

// Take is Force of a source that needs not be waited for since it was stopped
// cleanly: it was read to be Released after the claim was written. Nothing is
// lost.
func (o Object) Take(g int64, id string, set Set, at time.Time) (Object, error) {
	return o.take("take", g, id, set, Decision{By: Destination, At: At(at), Reason: "the source has released its container"})
}

func (o Object) take(step string, g int64, id string, set Set, d Decision) (Object, error) {
	if err := o.claimed(step, g, id); err != nil {
		return o, err
	}
	switch {
	case o.Status != Initial && o.Decision.By == Destination:
		return o, nil
	case o.Status != Initial:
		return o, o.refuse(step, ErrDecided, o.Owner.ID, "by the source")
	}
	if err := set.check(); err != nil {
		return o, o.refuse(step, ErrInvalid, "", err.Error())
	}
	return o.decide(set, d), nil
}

// Commit ends generation g: Ready → Done, and from here on owner, whose ID has
// claimed it, is the owner of this history. Its epoch is at least one above
// that of before; the epoch in the result is the one that counts. It is refused
// if
//   - an operator has reclaimed it: ErrReclaimed
//   - it was aborted, or g is not the newest generation: ErrNotPending
//   - it is not claimed by owner.ID: ErrConflict
//   - nothing is decided: ErrNotReady
func (o Object) Commit(g int64, owner Holder) (Object, error) {
	const step = "commit"
	if !o.Pending() && o.Generation == g && o.Outcome == Completed && o.Owner.ID == owner.ID {
		return o, nil
	}
	if err := o.claimed(step, g, owner.ID); err != nil {
		return o, err
	}
	switch {
	case o.Status == Initial:
		return o, o.refuse(step, ErrNotReady, "", "")
	case owner.Lineage == "":
		return o, o.refuse(step, ErrInvalid, "", "no lineage")
	}
	o = o.resolve(Completed)
	o.Status, o.Destination.Phase = Done, Finished
	return o.succeed(owner), nil
}

// Adopt takes one's own container into use, once a hand-over into it is
// committed: the owner of what is in it is from now on this one. An absent object
// hinders nobody and stays absent. Outcome is Superseded.
//
// The owner's epoch was made above all there was when it adopted. One that is not
// above what is there now comes from somebody who was paused, while the container
// has been handed on: it is refused (ErrConflict). So it is while a hand-over of
// this container is pending, and if another owner serves from it: try it before
// anything is copied.
func (o Object) Adopt(owner Holder) (Object, error) {
	const step = "adopt"
	switch {
	case owner.ID == "" || owner.Lineage == "":
		return o, o.refuse(step, ErrInvalid, "", "no owner id or no lineage")
	case o.Absent(), o.Outcome != Completed && o.Owner.ID == owner.ID && o.Owner.Lineage == owner.Lineage:
		return o, nil // done before, also if a hand-over from here is wanted since
	case o.Pending() && o.Status != Done:
		return o, o.refuse(step, ErrConflict, o.Destination.ID, "a hand-over of this container is pending: finish, abort or reclaim it")
	case !o.Pending() && o.Outcome != Completed && o.Owner.ID != "" && o.Owner.ID != owner.ID:
		return o, o.refuse(step, ErrConflict, o.Owner.ID, quote(o.Owner.ID)+" serves from this container")
	case owner.Epoch <= o.Owner.Epoch:
		return o, o.refuse(step, ErrConflict, o.Owner.ID, fmt.Sprintf("it is %q's in epoch %d already, this is epoch %d", o.Owner.ID, o.Owner.Epoch, owner.Epoch))
	}
	o = o.resolve(Superseded)
	o.Status = Done
	return o.succeed(owner), nil
}

// succeed makes h the owner.
func (o Object) succeed(h Holder) Object {
	h.Epoch = max(h.Epoch, o.Owner.Epoch+1)
	h.unknown = o.Owner.unknown
	o.Owner = h
	return o
}
