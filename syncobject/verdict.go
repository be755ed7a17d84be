package syncobject

import (
	"errors"
	"io/fs"
)

// Verdict is what a sync object means for the sidecar that has read it.
type Verdict int

// The verdicts of HANDOVER §7.
const (
	// NoVerdict: the read failed. Nothing changes; the lease is not renewed.
	NoVerdict Verdict = iota
	// Own: nobody claims the container, and I am its owner. It says who, not
	// which history: if Owner.Lineage is set and the data dir is of another, its
	// data is old.
	Own
	// HandOver: a hand-over is wanted of me. Fence, take the final snapshot.
	HandOver
	// Ceded: somebody else is the owner, or will be.
	Ceded
	// Anomaly: an object that was there is gone or has gone back in time. Fenced;
	// only an operator can get out of it.
	Anomaly
)

func (v Verdict) String() string {
	switch v {
	case Own:
		return "owner"
	case HandOver:
		return "hand over"
	case Ceded:
		return "ceded"
	case Anomaly:
		return "anomaly"
	default:
		return "no verdict"
	}
}

// Judge is the verdict table of HANDOVER §7, for the deployment me, which has
// seen the generation seen (0: none). A nil object is a proven absence. It is
// total; whatever the table does not say is not mine.
//
// Beyond the table: an object of a generation before seen is an anomaly like an
// absent one, and a hand-over that is wanted of another owner is not mine to
// give, since what I have is old.
func Judge(o *Object, me string, seen int64) Verdict {
	switch {
	case o == nil && seen == 0:
		return Own
	case o == nil || o.Absent() || o.Generation < seen:
		return Anomaly
	case o.Pending():
		return judgePending(*o, me)
	case me != "" && o.Owner.ID == me, o.Owner.ID == "" && o.Outcome == Aborted:
		return Own
	default:
		return Ceded
	}
}

func judgePending(o Object, me string) Verdict {
	mine := o.Owner.ID == "" || o.Owner.ID == me
	if o.Status == Initial && mine {
		return HandOver
	}
	return Ceded
}

// JudgeRead is Judge for what File.Read has returned, with the rules of HANDOVER
// §4: only a proven absence counts as one, what is not understood fences, and
// any other error says nothing.
func JudgeRead(o Object, err error, me string, seen int64) Verdict {
	switch {
	case err == nil:
		return Judge(&o, me, seen)
	case errors.Is(err, ErrUnknown):
		return Ceded
	case errors.Is(err, fs.ErrNotExist):
		return Judge(nil, me, seen)
	default:
		return NoVerdict
	}
}
