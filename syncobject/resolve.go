package syncobject

import (
	"strconv"
	"strings"
	"time"
)

// Abort gives generation g up while nothing is decided. The owner stays the
// owner. Repeated it changes nothing. It is refused if it is decided (ErrDecided)
// or g is not the newest generation (ErrConflict).
func (o Object) Abort(g int64, reason string, at time.Time) (Object, error) {
	const step = "abort"
	switch {
	case o.Absent(), o.Outcome == Superseded:
		return o, o.refuse(step, ErrNotPending, "", "")
	case o.Generation != g:
		return o, o.refuse(step, ErrConflict, o.OperationID, "another operation has begun")
	case o.Outcome == Aborted && o.Status == Initial:
		return o, nil
	case o.Status != Initial:
		return o, o.refuse(step, ErrDecided, o.Destination.ID, "")
	}
	o.Decision.At, o.Decision.Reason = At(at), shorten("aborted: "+reason)
	return o.resolve(Aborted), nil
}

// Reclaim takes generation g back after it was decided, on an operator's word
// that the destination does not and will not serve: if the destination's Commit
// comes later it is refused with ErrReclaimed. The owner stays the owner.
// Repeated it changes nothing. It is refused if
//   - nothing is decided: ErrNotReady, abort it
//   - the destination has it: ErrDecided
//   - g is not the newest generation: ErrConflict
func (o Object) Reclaim(g int64, reason string) (Object, error) {
	const step = "reclaim"
	switch {
	case o.Absent(), o.Outcome == Superseded, o.Outcome == Aborted && o.Status == Initial:
		return o, o.refuse(step, ErrNotPending, "", "")
	case o.Generation != g:
		return o, o.refuse(step, ErrConflict, o.OperationID, "another operation has begun")
	case o.reclaimed():
		return o, nil
	case o.Status == Initial:
		return o, o.refuse(step, ErrNotReady, "", "abort it instead")
	case o.Status == Done:
		return o, o.refuse(step, ErrDecided, o.Owner.ID, "the destination has taken over")
	}
	o.Destination.Phase = Reclaimed
	o.Source.Error = shorten("reclaimed: " + reason)
	return o.resolve(Aborted), nil
}

func (o Object) reclaimed() bool { return o.Outcome == Aborted && o.Status == Ready }

func (o Object) resolve(outcome Outcome) Object {
	o.Outcome, o.ObservedGeneration = outcome, o.Generation
	return o
}

// pending refuses a step unless generation g is the newest and not resolved.
func (o Object) pending(step string, g int64) error {
	switch {
	case o.Absent():
		return o.refuse(step, ErrNotPending, "", "")
	case o.Generation != g:
		return o.refuse(step, ErrNotPending, o.OperationID, "generation "+strconv.FormatInt(g, 10)+" is over")
	case o.reclaimed():
		return o.refuse(step, ErrReclaimed, o.Owner.ID, "")
	case !o.Pending():
		return o.refuse(step, ErrNotPending, "", "")
	default:
		return nil
	}
}

// owned refuses a step of the source if the container is another's.
func (o Object) owned(step string, by Holder) error {
	switch {
	case by.ID == "":
		return o.refuse(step, ErrInvalid, "", "no owner id")
	case o.Owner.ID != "" && o.Owner.ID != by.ID:
		return o.refuse(step, ErrConflict, o.Owner.ID, "the container is of "+quote(o.Owner.ID))
	default:
		return nil
	}
}

// claimed refuses a step of the destination unless it has claimed g.
func (o Object) claimed(step string, g int64, id string) error {
	if err := o.pending(step, g); err != nil {
		return err
	}
	switch {
	case id == "":
		return o.refuse(step, ErrInvalid, "", "no owner id")
	case o.Destination.ID == "":
		return o.refuse(step, ErrConflict, "", "it has to be claimed first")
	case o.Destination.ID != id:
		return o.refuse(step, ErrConflict, o.Destination.ID, quote(o.Destination.ID)+" has claimed it")
	case o.Status == Done:
		return o.refuse(step, ErrDecided, "", "another implementation says Done")
	default:
		return nil
	}
}

func (o Object) refuse(step string, reason error, who, detail string) *Refusal {
	return &Refusal{Step: step, Reason: reason, Who: who, Detail: detail, Object: o}
}

func quote(id string) string { return strconv.Quote(id) }

// maxText bounds what people read, so that it cannot fill the object.
const maxText = 1024

func shorten(text string) string {
	if len(text) <= maxText {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
