package syncobject

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// ObjectName and OwnerName are where the two objects lie in a container.
const (
	ObjectName = "copy-operation.json"
	OwnerName  = "owner.json"
)

// SchemaVersion is the newest version of the objects that this code reads, and
// the one it writes.
const SchemaVersion = 1

// maxPast bounds Object.Past.
const maxPast = 32

// Status is the one field that a reader of GEP-7 knows.
type Status string

// The states of GEP-7's CopyOperation.
const (
	Initial Status = "Initial" // a hand-over is wanted
	Ready   Status = "Ready"   // it is decided what is handed over
	Done    Status = "Done"    // the destination has it
)

// Outcome says how the newest generation was resolved; it is empty while that
// is pending.
type Outcome string

// The ways in which a generation is resolved.
const (
	Completed  Outcome = "Completed"  // the destination has taken over
	Aborted    Outcome = "Aborted"    // nothing was handed over, the owner is the old one
	Superseded Outcome = "Superseded" // another container was handed over into this one
)

// Party is one side of a hand-over.
type Party string

// Who can decide what is handed over.
const (
	Source      Party = "source"
	Destination Party = "destination"
)

// SourcePhase tells people, and a waiting destination, how far the source is.
type SourcePhase string

// The phases of a source. Others, of newer versions, are kept and count as none.
const (
	Fencing        SourcePhase = "Fencing"
	Fenced         SourcePhase = "Fenced"      // etcd is gone and its lock is held, or its raft refuses writes
	FenceFailed    SourcePhase = "FenceFailed" // etcd could not be stopped: never Ready
	Snapshotting   SourcePhase = "Snapshotting"
	SnapshotFailed SourcePhase = "SnapshotFailed" // fenced, but there will be no final snapshot soon
	Publishing     SourcePhase = "Publishing"
)

// Closed reports whether no write is acknowledged in this phase.
func (p SourcePhase) Closed() bool {
	switch p {
	case Fenced, Snapshotting, SnapshotFailed, Publishing:
		return true
	default:
		return false
	}
}

// DestinationPhase tells people how far the destination is.
type DestinationPhase string

// The phases of a destination.
const (
	Waiting    DestinationPhase = "Waiting"
	Copying    DestinationPhase = "Copying"
	Committing DestinationPhase = "Committing"
	Finished   DestinationPhase = "Done"
	Reclaimed  DestinationPhase = "Reclaimed" // an operator took it back, see Reclaim
)

// Timestamp is a time for people (RFC 3339, UTC), or empty. It decides nothing,
// so it is not parsed; that a heartbeat has moved shows by its being different.
type Timestamp string

// At returns t as a Timestamp.
func At(t time.Time) Timestamp { return Timestamp(t.UTC().Format(time.RFC3339Nano)) }

// Object is the sync object, copy-operation.json. The zero Object stands for its
// absence. It is a value: transitions return a changed copy.
type Object struct {
	Status        Status `json:"status"`
	SchemaVersion int    `json:"schemaVersion"`
	OperationID   string `json:"operationID"` // unique; a File sets it if the operation has none yet
	// Generation counts the hand-overs that were wanted of this container, and
	// ObservedGeneration is the last one that is completely resolved.
	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	Serial             int64 `json:"serial"` // goes up by one with each write; a File sets it
	// WriteID is unique to each write, and how a writer recognises his own. A File
	// sets it.
	WriteID string `json:"writeID"`

	Outcome     Outcome          `json:"outcome"`
	Owner       Holder           `json:"owner"`
	Source      SourceState      `json:"source"`
	Destination DestinationState `json:"destination"`
	Decision    Decision         `json:"decision"`
	Snapshots   Set              `json:"snapshots"`

	// Past are the operations before, the newest last and maxPast at most: their ids
	// are not to be used again.
	Past []string `json:"past,omitempty"`

	CreatedAt Timestamp `json:"createdAt"` // when this generation was wanted
	UpdatedAt Timestamp `json:"updatedAt"` // a File sets it

	unknown fields
}

// Holder is who has the right to serve, and in which history.
type Holder struct {
	ID      string `json:"id"`      // the --owner-id of a deployment
	Epoch   int64  `json:"epoch"`   // goes up by one whenever a hand-over is committed
	Lineage string `json:"lineage"` // a UUID, new at every fork of history

	unknown fields
}

// SourceState is what the source says of itself.
type SourceState struct {
	Phase         SourcePhase `json:"phase"`
	Heartbeat     Timestamp   `json:"heartbeat"`
	Error         string      `json:"error"`
	FencedMembers []string    `json:"fencedMembers"` // sorted
	Members       int         `json:"members"`

	unknown fields
}

// DestinationState is who has claimed the hand-over, and what it says of itself.
type DestinationState struct {
	ID         string           `json:"id"` // empty as long as nobody has claimed it
	ClaimedAt  Timestamp        `json:"claimedAt"`
	ForceAfter Seconds          `json:"forceAfterSeconds"` // W
	Phase      DestinationPhase `json:"phase"`

	unknown fields
}

// Decision is who has decided what is handed over. There is one for each
// generation at most, and it does not change.
type Decision struct {
	By     Party     `json:"by"` // empty: undecided, or decided by another implementation
	At     Timestamp `json:"at"`
	Forced bool      `json:"forced"` // without the source
	Lossy  bool      `json:"lossy"`  // writes may be missing that the source acknowledged
	Reason string    `json:"reason"`

	unknown fields
}

// Set is what is handed over: exactly these snapshots. A set that is too long
// for the object lies beside it, see Store and Load.
type Set struct {
	ThroughRevision int64  `json:"throughRevision"`
	Final           bool   `json:"final"` // taken behind the fence
	Items           []Item `json:"items"`
	List            *List  `json:"list,omitempty"`

	unknown fields
}

// Item is one snapshot of a Set.
type Item struct {
	Name     string        `json:"name"` // of the grammar of package snapshot, relative to the folder of snapshots
	Kind     snapshot.Kind `json:"kind"`
	Size     int64         `json:"size"`   // bytes, as stored
	SHA256   string        `json:"sha256"` // as stored, lower-case hexadecimal
	Revision int64         `json:"revision"`
	Version  string        `json:"version"` // the store's, to pin it

	unknown fields
}

// List names the object that holds the items of a long Set.
type List struct {
	Name   string `json:"name"` // relative to the container
	SHA256 string `json:"sha256"`
	Count  int    `json:"count"`

	unknown fields
}

// Absent reports whether there is no object.
func (o Object) Absent() bool { return o.Generation == 0 }

// Pending reports whether a hand-over is wanted that is not resolved.
func (o Object) Pending() bool { return o.Generation > o.ObservedGeneration }

// Lineage returns the lineage of the history that begins with the adoption of
// what this object hands over. It is derived from the operation, so that a
// destination that starts again comes to the same; and from who hands over in
// which generation, since whoever names operations may use a name again. The
// operation must have an id.
func (o Object) Lineage() string {
	name := fmt.Sprintf("etcd-ferry lineage %q %d %q %d", o.OperationID, o.Generation, o.Owner.ID, o.Owner.Epoch)
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String()
}

// LogValue implements slog.LogValuer: what one wants to know in a log.
func (o Object) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("status", string(o.Status)),
		slog.String("operation_id", o.OperationID),
		slog.Int64("generation", o.Generation),
		slog.Int64("observed_generation", o.ObservedGeneration),
		slog.Int64("serial", o.Serial),
		slog.String("outcome", string(o.Outcome)),
		slog.String("owner", o.Owner.ID),
		slog.Int64("epoch", o.Owner.Epoch),
		slog.String("source_phase", string(o.Source.Phase)),
		slog.String("destination", o.Destination.ID),
		slog.String("decided_by", string(o.Decision.By)),
	)
}
