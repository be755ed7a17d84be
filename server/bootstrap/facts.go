package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// facts are all that is decided by.
type facts struct {
	holder syncobject.Holder
	have   string // the lineage that the data dir was last known to be of
	accept string
	member string // its name
	// members the cluster has, as far as it is configured or known.
	members, configured int

	disk   disk
	stored stored
}

// condition of a data dir.
type condition int

const (
	missing condition = iota // there is nothing in it
	sound                    // etcd can be expected to start
	logless                  // the database can be read, the WAL cannot
	broken                   // the database cannot be read
)

// disk is what the data dir says of itself.
type disk struct {
	path      string
	condition condition
	why       error // it is not sound
	state     datadir.State
	origin    restorer.Origin // its ClusterID is empty if there is none that fits
}

// cluster returns the cluster id as snapshots have it.
func (d disk) cluster() string { return strconv.FormatUint(d.state.ClusterID, 16) }

// lookAt reads what the data dir says. The error says that it could not be told.
func (b *Bootstrap) lookAt() (disk, error) {
	d, dir := disk{path: b.dataDir}, b.disk()
	empty, err := dir.Empty()
	if err != nil || empty {
		return d, err
	}
	d.state, d.why = dir.Look()
	switch {
	case d.why == nil:
		d.condition = sound
	case errors.Is(d.why, datadir.ErrLog) && d.state.Revision <= 1 && d.state.Members == 0:
		d.condition = missing // etcd was ended before it had written anything
	case errors.Is(d.why, datadir.ErrLog):
		d.condition = logless
	case errors.Is(d.why, datadir.ErrBroken):
		d.condition = broken
	default:
		return d, d.why
	}
	origin, err := dir.Origin()
	if err == nil && d.condition == sound && origin.ClusterID == d.cluster() {
		d.origin = origin
	}
	return d, nil
}

// stored is what the container holds.
type stored struct {
	listing archive.Listing
	// adoption is the newest that counts, nil if there is none. Before are the
	// operations of those that it has superseded.
	adoption *archive.Adoption
	before   []string
	serving  []string // the members that were let in on the present history
	adopting error    // one is open
}

func readContainer(ctx context.Context, a *archive.Archive) (s stored, err error) {
	adoptions, err := a.Adoptions(ctx)
	if err != nil {
		return s, err
	}
	current, err := adoptions.Current()
	switch {
	case err == nil:
		s.adoption = &current
	case errors.Is(err, archive.ErrAdopting):
		s.adopting = err
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	for _, ad := range adoptions {
		if ad.Outcome == archive.AdoptionCommitted && ad.OperationID != s.operation() {
			s.before = append(s.before, ad.OperationID)
		}
	}
	if s.listing, err = a.List(ctx); errors.Is(err, store.ErrNoContainer) {
		s.listing, err = archive.Listing{}, nil
	}
	if err != nil {
		return s, fmt.Errorf("list %s: %w", a, err)
	}
	s.serving, err = a.ServingMembers(ctx, s.operation())
	return s, err
}

// operation that brought the present history.
func (s stored) operation() string {
	if s.adoption == nil {
		return archive.FirstHistory
	}
	return s.adoption.OperationID
}

// epoch in which the present history began.
func (s stored) epoch() int64 {
	if s.adoption == nil {
		return 0
	}
	return s.adoption.Owner.Epoch
}

// nothing reports whether no snapshot counts or has counted.
func (s stored) nothing() bool { return len(s.listing.Manifests)+len(s.listing.Problems) == 0 }

// with returns the snapshots that fit.
func (s stored) with(fits func(snapshot.Manifest) bool) []snapshot.Manifest {
	var found []snapshot.Manifest
	for _, m := range s.listing.Manifests {
		if fits(m) {
			found = append(found, m)
		}
	}
	return found
}

func (s stored) ofLineage(lineage string) []snapshot.Manifest {
	return s.with(func(m snapshot.Manifest) bool { return m.Lineage == lineage })
}

// present returns the snapshots of the present history: with an adoption, what was
// stored since.
func (s stored) present() []snapshot.Manifest {
	return s.with(func(m snapshot.Manifest) bool { return m.Epoch >= s.epoch() })
}

// damaged returns what has counted, is not sound, and is not among what was handed
// over, from which it could be restored all the same.
func (s stored) damaged() []archive.Problem {
	var found []archive.Problem
	for _, p := range s.listing.Problems {
		named, err := snapshot.Parse(p.Name)
		late := s.adoption == nil || err != nil || !named.Time.Before(s.adoption.Time)
		if late && (s.adoption == nil || !slices.ContainsFunc(s.adoption.Items, func(i archive.AdoptedItem) bool { return i.Name == p.Name })) {
			found = append(found, p)
		}
	}
	return found
}

// own returns the snapshots of the disk's cluster.
func (f facts) own() []snapshot.Manifest {
	return f.stored.with(func(m snapshot.Manifest) bool { return m.ClusterID == f.disk.cluster() })
}

// line returns those of them that the disk is compared with: of the history that it
// was last known to be of, or of the newest. A cluster that was restored under its
// own cluster id has several.
func (f facts) line() []snapshot.Manifest {
	own := f.own()
	lineage := f.have
	if !slices.ContainsFunc(own, func(m snapshot.Manifest) bool { return m.Lineage == lineage }) && len(own) > 0 {
		lineage = slices.MaxFunc(own, func(a, b snapshot.Manifest) int { return a.Time.Compare(b.Time) }).Lineage
	}
	return slices.DeleteFunc(own, func(m snapshot.Manifest) bool { return m.Lineage != lineage })
}

// lineage that this deployment is known to have served; empty: none.
func (f facts) lineage() string {
	if f.holder.Lineage != "" {
		return f.holder.Lineage
	}
	return f.have
}

// token names the state that the data dir is in, for Accept.
func (f facts) token() string {
	if f.disk.condition == missing {
		return "none@" + f.lineage()
	}
	return fmt.Sprintf("%s@%d", f.disk.cluster(), f.disk.state.Revision)
}

func (f facts) accepted() bool { return f.accept != "" && f.accept == f.token() }
