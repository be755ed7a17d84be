package syncobject

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// check returns an error unless the object makes sense. What is only for people
// is not looked at.
func (o Object) check() error {
	switch {
	case o.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schemaVersion is %d", o.SchemaVersion)
	case o.Generation < 1 || o.ObservedGeneration < 0 || o.ObservedGeneration > o.Generation:
		return fmt.Errorf("generation %d and observedGeneration %d contradict each other", o.Generation, o.ObservedGeneration)
	case o.Serial < 0 || o.Owner.Epoch < 0:
		return errors.New("serial or epoch is negative")
	case o.OperationID != "" && !validOperationID(o.OperationID):
		return errors.New("operationID is not of at most 128 letters, digits, '-', '_' and '.'")
	case !slices.Contains([]Party{"", Source, Destination}, o.Decision.By):
		return fmt.Errorf("decision by %q", o.Decision.By)
	case o.Pending() && o.Status == Initial && o.Decision.By != "":
		return errors.New("it is decided, but not Ready")
	}
	if err := errors.Join(checkID(o.Owner.ID), checkID(o.Destination.ID)); err != nil {
		return err
	}
	if err := o.checkOutcome(); err != nil {
		return err
	}
	return o.Snapshots.checkItems()
}

func (o Object) checkOutcome() error {
	var right bool
	switch o.Outcome {
	case "":
		right = o.Pending()
	case Completed, Superseded:
		right = !o.Pending() && o.Status == Done
	case Aborted:
		right = !o.Pending() && o.Status != Done
	}
	if !right {
		return fmt.Errorf("outcome %q, status %s, generation %d and observedGeneration %d contradict each other",
			o.Outcome, o.Status, o.Generation, o.ObservedGeneration)
	}
	return nil
}

func (o Owner) check() error {
	switch {
	case o.Absent():
		return errAbsent
	case o.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schemaVersion is %d", o.SchemaVersion)
	case o.State != Held && o.State != Released:
		return fmt.Errorf("state is %q", o.State)
	case o.Serial < 0 || o.Epoch < 0:
		return errors.New("serial or epoch is negative")
	}
	return errors.Join(checkID(o.ID), o.Timing().sane())
}

// check returns an error unless the set names snapshots, and nothing else.
func (s Set) check() error {
	if len(s.Items) == 0 && s.List == nil {
		return errors.New("the set names no snapshot")
	}
	return s.checkItems()
}

func (s Set) checkItems() error {
	if s.ThroughRevision < 0 {
		return errors.New("throughRevision is negative")
	}
	for _, item := range s.Items {
		if err := item.check(); err != nil {
			return fmt.Errorf("snapshot %.80q: %w", item.Name, err)
		}
	}
	if s.List == nil {
		return nil
	}
	if s.List.Count < 1 || s.List.Count > maxListed {
		return errors.New("a list of that length is not possible")
	}
	return errors.Join(store.CheckName(s.List.Name), checkSHA256(s.List.SHA256))
}

func (i Item) check() error {
	s, err := snapshot.Parse(i.Name)
	switch {
	case err != nil:
		return err
	case s.Kind != i.Kind:
		return fmt.Errorf("its kind is %.20q", i.Kind)
	case i.Size <= 0 || i.Revision <= 0:
		return errors.New("no size or no revision")
	}
	return checkSHA256(i.SHA256)
}

func checkSHA256(digest string) error {
	if b, err := hex.DecodeString(digest); err != nil || len(b) != 32 || hex.EncodeToString(b) != digest {
		return errors.New("no sha256")
	}
	return nil
}

// validOperationID keeps to what can be part of an object's name.
func validOperationID(id string) bool {
	other := func(r rune) bool {
		return !strings.ContainsRune("-_.", r) && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}
	return len(id) <= 128 && !strings.HasPrefix(id, ".") && !strings.ContainsFunc(id, other)
}

// checkID returns an error unless id, of an owner, can be shown to people. The
// empty one can.
func checkID(id string) error {
	other := func(r rune) bool { return !unicode.IsPrint(r) }
	if len(id) > 253 || !utf8.ValidString(id) || strings.ContainsFunc(id, other) {
		return errors.New("an owner id is not of at most 253 printable characters")
	}
	return nil
}
