package syncobject

import (
	"slices"
	"time"
)

// Request wants a hand-over of one's own container. Nobody has claimed it then.
type Request struct {
	// OperationID is what the caller wants to call it, so that he can tell it
	// from another. May be empty.
	OperationID string
	Owner       Holder // who asks: the owner of the container
	At          time.Time
}

// Initiate begins a generation, as the owner. If one is pending and undecided it
// is that one: o comes back unchanged. It is refused if
//   - another operation is pending, or it is not r.Owner's container: ErrConflict
//   - it is decided, or r.OperationID is one of the past, which what is stored may
//     be named after: ErrDecided
func (o Object) Initiate(r Request) (Object, error) {
	const step = "initiate"
	switch {
	case r.OperationID != "" && !validOperationID(r.OperationID):
		return o, o.refuse(step, ErrInvalid, "", "the operation id is not of at most 128 letters, digits, '-', '_' and '.'")
	case r.Owner.ID == "" || checkID(r.Owner.ID) != nil:
		return o, o.refuse(step, ErrInvalid, "", "no owner id")
	case o.Absent():
		return o.begin(r), nil
	case r.OperationID != "" && r.OperationID != o.OperationID && o.Pending():
		return o, o.refuse(step, ErrConflict, o.OperationID, "another operation is pending")
	case o.Owner.ID != "" && o.Owner.ID != r.Owner.ID:
		return o, o.refuse(step, ErrConflict, o.Owner.ID, "the container is of "+quote(o.Owner.ID))
	case o.Pending() && o.Status == Initial:
		return o, nil
	case o.Pending(), r.OperationID != "" && (r.OperationID == o.OperationID || slices.Contains(o.Past, r.OperationID)):
		return o, o.refuse(step, ErrDecided, o.Destination.ID, "")
	default:
		return o.begin(r), nil
	}
}

// begin returns the next generation, with the owner of before if there is one.
// What is unknown at the top level stays; what was said of the old operation
// goes.
func (o Object) begin(r Request) Object {
	o = o.adoptOwner(r.Owner)
	o.Status, o.Outcome = Initial, ""
	if o.OperationID != "" {
		o.Past = append(slices.Clone(o.Past), o.OperationID)
		o.Past = o.Past[max(0, len(o.Past)-maxPast):]
	}
	o.OperationID = r.OperationID
	o.Generation++
	o.Source, o.Destination, o.Decision, o.Snapshots = SourceState{}, DestinationState{}, Decision{}, Set{}
	o.CreatedAt = At(r.At)
	return o
}

// adoptOwner notes who the owner is if nobody has yet.
func (o Object) adoptOwner(h Holder) Object {
	if o.Owner.ID == "" && h.ID != "" {
		h.unknown = o.Owner.unknown
		o.Owner = h
	}
	return o
}

// SourceReport is what a source says of itself. Zero fields change nothing, but
// for Error, which the next report takes back. Members only goes up: whoever knows
// of fewer has not looked for a while. A member that is still being fenced does not
// take back that the fence of another has failed.
type SourceReport struct {
	Phase   SourcePhase
	Error   string
	Member  string // that has been fenced
	Members int
	At      time.Time // the heartbeat
}

// Report notes how far the source is with generation g. It decides nothing. It
// is refused if g is not pending (ErrNotPending) or the container is another's
// (ErrConflict).
func (o Object) Report(g int64, by Holder, r SourceReport) (Object, error) {
	const step = "report"
	if err := o.pending(step, g); err != nil {
		return o, err
	}
	if err := o.owned(step, by); err != nil {
		return o, err
	}
	o = o.adoptOwner(by)
	s := &o.Source
	s.Error = shorten(r.Error)
	if r.Phase != "" && (r.Phase != Fencing || s.Phase != FenceFailed) {
		s.Phase = r.Phase
	}
	s.Members = max(s.Members, r.Members)
	if at, there := slices.BinarySearch(s.FencedMembers, r.Member); r.Member != "" && !there {
		s.FencedMembers = slices.Insert(slices.Clone(s.FencedMembers), at, r.Member)
	}
	if !r.At.IsZero() {
		s.Heartbeat = At(r.At)
	}
	return o, nil
}

// Publish decides generation g, as the source: Initial → Ready. The set holds
// every acknowledged write, since the source has fenced itself and said so with
// Report (else ErrNotFenced). Once published the set stays as it is, whatever
// set a repeated step brings. It is refused if
//   - g is not pending, it may have been aborted: ErrNotPending
//   - the container is another's: ErrConflict
//   - the destination has decided: ErrDecided
func (o Object) Publish(g int64, by Holder, set Set, at time.Time) (Object, error) {
	const step = "publish"
	if err := o.pending(step, g); err != nil {
		return o, err
	}
	if err := o.owned(step, by); err != nil {
		return o, err
	}
	switch {
	case o.Status != Initial && o.Decision.By == Source:
		return o, nil
	case o.Status != Initial:
		return o, o.refuse(step, ErrDecided, o.Destination.ID, "by the destination")
	case !o.Source.Phase.Closed():
		return o, o.refuse(step, ErrNotFenced, "", "")
	}
	if err := set.check(); err != nil {
		return o, o.refuse(step, ErrInvalid, "", err.Error())
	}
	set.Final = true
	o.Source.Phase, o.Source.Error = Publishing, ""
	return o.decide(set, Decision{By: Source, At: At(at), Reason: "final snapshot behind the fence"}), nil
}

// decide names the set: Initial → Ready. What others have written into the
// decision and the set, and this code does not know, stays.
func (o Object) decide(set Set, d Decision) Object {
	d.unknown, set.unknown = o.Decision.unknown, o.Snapshots.unknown
	set.Items = slices.Clone(set.Items)
	o.Status, o.Decision, o.Snapshots = Ready, d, set
	return o
}
