package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// An adoption is how a container gets the history of another one in a hand-over.
// It is a folder of objects, each created once and never changed:
//
//	adoptions/<operationID>/begun.json     the copy was begun; nothing counts yet
//	adoptions/<operationID>/manifest.json  an Adoption: who may serve which set
//	adoptions/<operationID>/outcome.json   Committed, or Withdrawn
//
// The manifest is written before the source's object is swapped to Done, the
// commit point, and the outcome after it. So without an outcome nobody knows from
// this container alone who serves: copying again finds out, and settles it.
const (
	adoptionFolder = "adoptions/"
	begunName      = "begun.json"
	manifestLeaf   = "manifest.json"
	outcomeName    = "outcome.json"

	// AdoptionVersion is the newest version of these objects that this code writes
	// and reads.
	AdoptionVersion = 1
)

// ErrAdopting is wrapped when an adoption of the container has been begun and is
// neither committed nor withdrawn: nothing may be restored from it until then.
var ErrAdopting = errors.New("an adoption is in progress")

// ErrSettled is wrapped when an adoption has ended otherwise than it is to end.
var ErrSettled = errors.New("the adoption is settled already")

// Adoption says which snapshots a container was handed, from whom, and who serves
// them from now on. The set is exact: whoever restores it restores these items and
// nothing else, see AdoptedChain.
type Adoption struct {
	Version     int    `json:"schemaVersion"`
	OperationID string `json:"operationID"` // of the source's object
	Generation  int64  `json:"generation"`  // of the source's object
	Source      string `json:"source"`      // for people, carries no secret
	SourceOwner Holder `json:"sourceOwner"` // who held the source before

	// Owner is who adopts: its epoch is above all before, its lineage new. What it
	// stores carries both, and is restored in preference to Items.
	Owner Holder `json:"owner"`

	// ThroughRevision is the last revision that the items are known to hold.
	ThroughRevision int64 `json:"throughRevision"`
	Final           bool  `json:"final"`  // the source has decided: no acknowledged write is missing
	Forced          bool  `json:"forced"` // the destination has decided, without the source
	// Lossy says that writes after ThroughRevision may be missing: a restore bumps
	// the revision and marks it compacted.
	Lossy  bool          `json:"lossy"`
	Reason string        `json:"reason,omitempty"` // of a decision that was forced
	Items  []AdoptedItem `json:"items"`            // a full and what continues it, in order

	Time time.Time `json:"time"`
	Tool string    `json:"tool"` // the version of etcd-ferry that wrote it
}

// Holder is who holds a container at an epoch, and the lineage of what it stores.
type Holder struct {
	ID      string `json:"id"`
	Epoch   int64  `json:"epoch"`
	Lineage string `json:"lineage"`
}

// AdoptedItem pins a snapshot as it is stored here.
type AdoptedItem struct {
	Name     string        `json:"name"`
	Kind     snapshot.Kind `json:"kind"`
	Size     int64         `json:"size"`   // stored bytes
	SHA256   string        `json:"sha256"` // of the stored bytes, hexadecimal
	Revision int64         `json:"revision"`
}

// Item returns what pins m.
func Item(m snapshot.Manifest) AdoptedItem {
	return AdoptedItem{Name: m.Name, Kind: m.Kind, Size: m.StoredSize, SHA256: m.StoredSHA256, Revision: m.Last}
}

// BegunAdoption says that an adoption was begun.
type BegunAdoption struct {
	Version     int       `json:"schemaVersion"`
	OperationID string    `json:"operationID"`
	Generation  int64     `json:"generation"`
	Source      string    `json:"source"`
	Owner       string    `json:"owner"` // id
	Time        time.Time `json:"time"`
}

// AdoptionOutcome is how an adoption has ended.
type AdoptionOutcome string

const (
	// AdoptionOpen is what has no outcome yet.
	AdoptionOpen AdoptionOutcome = ""
	// AdoptionCommitted says that the source's object was found Done for it.
	AdoptionCommitted AdoptionOutcome = "Committed"
	// AdoptionWithdrawn says that it never counts: aborted or reclaimed.
	AdoptionWithdrawn AdoptionOutcome = "Withdrawn"
)

// AdoptionState is one adoption as it is stored.
type AdoptionState struct {
	OperationID string
	Begun       *BegunAdoption // nil: only a crash of somebody who tidied up
	Manifest    *Adoption      // nil: the set is not complete yet
	Outcome     AdoptionOutcome
}

// owner returns the id of who adopts.
func (s AdoptionState) owner() string {
	if s.Manifest != nil {
		return s.Manifest.Owner.ID
	}
	if s.Begun != nil {
		return s.Begun.Owner
	}
	return "somebody"
}

// Adoptions are all adoptions of a container, those with a manifest by epoch, the
// newest last.
type Adoptions []AdoptionState

// Of returns the adoption of an operation; its zero value is none.
func (as Adoptions) Of(operationID string) AdoptionState {
	for _, s := range as {
		if s.OperationID == operationID {
			return s
		}
	}
	return AdoptionState{OperationID: operationID}
}

// Current returns the newest adoption that is committed. fs.ErrNotExist says that
// there is none: the container has its history from nobody. ErrAdopting says that
// one is open: nobody may restore from the container before it is settled.
func (as Adoptions) Current() (Adoption, error) {
	var current *Adoption
	for _, s := range as {
		if s.Outcome == AdoptionOpen {
			return Adoption{}, fmt.Errorf("%s%s/: %w by %s: run etcd-ferry copy with that owner id again to finish it or to learn that it does not count; "+
				"only if its source is lost for good remove that folder, what is here may then lack writes",
				adoptionFolder, s.OperationID, ErrAdopting, s.owner())
		}
		if s.Outcome == AdoptionCommitted && s.Manifest != nil {
			current = s.Manifest
		}
	}
	if current == nil {
		return Adoption{}, fmt.Errorf("committed adoption: %w", fs.ErrNotExist)
	}
	return *current, nil
}

func (as Adoptions) sort() {
	epoch := func(s AdoptionState) int64 {
		if s.Manifest == nil {
			return 0
		}
		return s.Manifest.Owner.Epoch
	}
	slices.SortFunc(as, func(a, b AdoptionState) int {
		return cmp.Or(cmp.Compare(epoch(a), epoch(b)), strings.Compare(a.OperationID, b.OperationID))
	})
}

// check says what is wrong with an adoption that is about to be stored or was read.
func (ad Adoption) check() error {
	switch {
	case ad.Version != AdoptionVersion:
		return fmt.Errorf("version %d, this etcd-ferry reads version %d", ad.Version, AdoptionVersion)
	case ad.Owner.ID == "" || ad.Owner.Lineage == "" || ad.Owner.Epoch <= 0:
		return errors.New("it does not say who adopts")
	case len(ad.Items) == 0:
		return errors.New("it names no snapshot")
	}
	for _, it := range ad.Items {
		s, err := snapshot.Parse(it.Name)
		if err != nil {
			return err
		}
		if s.Kind != it.Kind || it.Size <= 0 || it.SHA256 == "" {
			return fmt.Errorf("item %s contradicts its name, or has no size or digest", it.Name)
		}
	}
	return checkOperationID(ad.OperationID)
}

// checkOperationID refuses what is no single element of a name.
func checkOperationID(id string) error {
	if strings.Contains(id, "/") {
		return fmt.Errorf("operation id %.80q: %w", id, fs.ErrInvalid)
	}
	return store.CheckName(id)
}
