package restorer

import (
	"errors"
	"fmt"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// defect is something in the archive that looks like a snapshot and cannot be
// restored.
type defect struct {
	snapshot.Snapshot
	err error // names it, wraps archive.ErrCorrupt
}

// defectsOf leaves out strays that are copies on their way: what they hold counts
// where they come from. Of those Listing.Unfinished tells.
func defectsOf(l archive.Listing) []defect {
	var found []defect
	for _, p := range l.Problems {
		found = addDefect(found, p.Name, p.Err)
	}
	for _, s := range l.Strays {
		if !l.Incoming(s.Name) {
			found = addDefect(found, s.Name, fmt.Errorf("%s: %w: it has no manifest: its upload did not finish or its manifest was deleted",
				s.Name, archive.ErrCorrupt))
		}
	}
	return found
}

// addDefect leaves out what is not even named like a snapshot.
func addDefect(to []defect, name string, err error) []defect {
	s, parseErr := snapshot.Parse(name)
	if parseErr != nil {
		return to
	}
	return append(to, defect{s, err})
}

// matters reports whether d, were it sound, would bring a chain that ends at
// reach nearer to the target.
func (d defect) matters(t snapshot.Target, reach int64) bool {
	switch {
	case t.Revision > 0: // the chain is there already
		return false
	case !t.Time.IsZero() && d.Time.After(t.Time):
		return false
	case d.Kind == snapshot.Full:
		return d.First > reach
	default:
		return d.First <= reach+1 && d.Last > reach
	}
}

// refuse returns an error if the archive may once have held more than the chain
// that was found.
func refuse(defects []defect, t snapshot.Target, reach int64) error {
	for _, d := range defects {
		if d.matters(t, reach) {
			return fmt.Errorf("a newer snapshot is stored and cannot be restored: %w; --revision %d restores without it", d.err, reach)
		}
	}
	return nil
}

// notFound explains why there is no chain. Where snapshots are broken or on their
// way there is not nothing, so err is not wrapped.
func notFound(err error, defects []defect, unfinished []string) error {
	if len(defects)+len(unfinished) == 0 || errors.Is(err, snapshot.ErrLineage) {
		return err
	}
	const shown = 5
	all := []error{fmt.Errorf("%w: %s; %d stored snapshots cannot be used", archive.ErrCorrupt, err.Error(), len(defects))}
	if len(defects) == 0 {
		all = []error{fmt.Errorf("%w: %s", archive.ErrCorrupt, err.Error())}
	}
	for _, d := range defects[:min(len(defects), shown)] {
		all = append(all, d.err)
	}
	for _, copying := range unfinished {
		all = append(all, errors.New(copying))
	}
	return errors.Join(all...)
}
