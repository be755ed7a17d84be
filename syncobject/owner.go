package syncobject

import (
	"fmt"
	"strings"
)

// Tenancy says whether the owner of a container is at work.
type Tenancy string

// The states of owner.json.
const (
	Held     Tenancy = "Held"
	Released Tenancy = "Released" // stopped cleanly, everything is in the container
)

// Owner is owner.json: who holds this container, and for how long a destination
// has to wait for it. The zero Owner stands for its absence.
type Owner struct {
	SchemaVersion int     `json:"schemaVersion"`
	ID            string  `json:"id"`
	Epoch         int64   `json:"epoch"`
	Lineage       string  `json:"lineage"`
	State         Tenancy `json:"state"`
	// Instance is the process of the owner that wrote this, new at each start.
	Instance string `json:"instance,omitempty"`

	Lease    Seconds `json:"leaseSeconds"`    // L
	Kill     Seconds `json:"killSeconds"`     // K
	Watchdog Seconds `json:"watchdogSeconds"` // G
	// ImplicitFencing is false for an owner that goes on serving when its lease
	// is over. Nothing may be forced then unless an operator says so.
	ImplicitFencing bool `json:"implicitFencing"`

	Serial    int64     `json:"serial"`  // a File sets it
	WriteID   string    `json:"writeID"` // a File sets it
	UpdatedAt Timestamp `json:"updatedAt"`

	unknown fields
}

// Absent reports whether there is no owner.json.
func (o Owner) Absent() bool { return o.ID == "" }

// Holder returns who it is.
func (o Owner) Holder() Holder { return Holder{ID: o.ID, Epoch: o.Epoch, Lineage: o.Lineage} }

// Timing returns the source's L, K and G with the preset ρ and δ: what the
// destination's W is checked against. Without an owner.json it is all presets.
func (o Owner) Timing() Timing {
	t := DefaultTiming()
	if !o.Absent() {
		t.Lease, t.Kill, t.Watchdog = o.Lease.Duration(), o.Kill.Duration(), o.Watchdog.Duration()
	}
	return t
}

// Hold returns the owner.json of me, at work; only its ID, Instance, Epoch,
// Lineage, times and ImplicitFencing are looked at. Repeated it changes nothing;
// by another instance it always does, so that a Release of the one before which
// is on its way comes to nothing. An epoch never goes down, and the lineage that is
// there stays if me has none, or is of an older epoch.
//
// It is refused (ErrConflict) if another deployment holds or has released the
// container, unless my epoch is higher: then it was handed over to me.
func (o Owner) Hold(me Owner) (Owner, error) {
	switch {
	case me.ID == "" || checkID(me.ID) != nil:
		return o, fmt.Errorf("hold: %w: no owner id", ErrInvalid)
	case !o.Absent() && o.ID != me.ID && o.Epoch >= me.Epoch:
		return o, o.refuse("hold")
	}
	if me.Lineage != "" && me.Epoch >= o.Epoch {
		o.Lineage = me.Lineage
	}
	o.ID, o.Epoch, o.State, o.SchemaVersion = me.ID, max(me.Epoch, o.Epoch), Held, SchemaVersion
	o.Instance = me.Instance
	o.Lease, o.Kill, o.Watchdog, o.ImplicitFencing = me.Lease, me.Kill, me.Watchdog, me.ImplicitFencing
	return o, nil
}

// Release returns the owner.json of me, cleanly stopped; only its ID, Instance and
// Lineage are looked at, and without a lineage the one that is there stays.
// Repeated it changes nothing. It is refused (ErrConflict) if the container is
// another's or nobody's, or another instance is at work.
func (o Owner) Release(me Owner) (Owner, error) {
	if o.Absent() || o.ID != me.ID || o.Instance != me.Instance {
		return o, o.refuse("release")
	}
	if me.Lineage != "" {
		o.Lineage = me.Lineage
	}
	o.State = Released
	return o, nil
}

func (o Owner) refuse(step string) error {
	if o.Absent() {
		return fmt.Errorf("%s: %w: nobody holds this container", step, ErrConflict)
	}
	return fmt.Errorf("%s: %w: this container is %s by %q in epoch %d", step, ErrConflict, strings.ToLower(string(o.State)), o.ID, o.Epoch)
}
