package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// line is where a stretch of history stands in the archive.
type line struct {
	lineID
	revision int64  // the highest seen
	raft     uint64 // the highest seen

	base   int64              // a full before this revision does not lead on to next
	next   int64              // the first revision that no delta holds yet
	parent *snapshot.Manifest // the snapshot stored last

	full       *snapshot.Manifest // the newest; nil: a full must be taken first
	deltaBytes int64              // stored since then
}

// newLine begins a history with what etcd holds now and no snapshot.
func newLine(st etcd.Status, lineage string) *line {
	return &line{
		lineID:   lineID{lineage, hexID(st.ClusterID)},
		revision: st.Revision, raft: st.RaftIndex, base: st.Revision, next: st.Revision + 1,
	}
}

// contradicts says why st cannot belong to this line, or "".
func (l *line) contradicts(st etcd.Status) string {
	switch {
	case l.cluster != hexID(st.ClusterID):
		return fmt.Sprintf("the cluster id is %s, it was %s", hexID(st.ClusterID), l.cluster)
	case st.Revision < l.revision:
		return fmt.Sprintf("the revision is %d, it was %d", st.Revision, l.revision)
	case st.RaftIndex < l.raft:
		return fmt.Sprintf("the raft index is %d, it was %d", st.RaftIndex, l.raft)
	}
	return ""
}

// lag is how many of the revisions seen nobody could restore from the archive.
func (l *line) lag() int64 {
	if l.full == nil {
		return l.revision
	}
	return max(0, l.revision-max(l.next-1, l.full.First))
}

// position asks etcd where it stands, and returns the line that it is on. One
// does it at a time: of two answers the older one would look like other data.
func (s *Snapshotter) position(ctx context.Context) (etcd.Status, line, error) {
	if err := s.aligning.enter(ctx); err != nil {
		return etcd.Status{}, line{}, err
	}
	defer s.aligning.leave()
	st, err := s.etcd.Status(ctx)
	if err != nil {
		return st, line{}, err
	}
	s.Metrics.etcdAt(st.Revision)
	if err := s.find(ctx, st); err != nil {
		return st, line{}, err
	}
	l := s.align(st)
	if s.Located != nil && l.lineage != s.told {
		s.told = l.lineage
		s.Located(l.lineage)
	}
	return st, l, nil
}

// find looks for the line of st in the archive, unless it is known.
func (s *Snapshotter) find(ctx context.Context, st etcd.Status) error {
	select {
	case <-s.located:
		return nil
	default:
	}
	found, newest, err := s.locate(ctx, st) // without mu: a store may hang
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line, s.newest = found, newest
	for _, m := range []*snapshot.Manifest{found.full, found.parent} {
		if m != nil {
			s.Metrics.newest(*m)
		}
	}
	s.follower.begin(found.next, found.lineID)
	close(s.located)
	return nil
}

// align returns the line that etcd is on now: the one known or a new one.
func (s *Snapshotter) align(st etcd.Status) line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.line.contradicts(st); why != "" {
		before := s.line.lineage
		s.line = newLine(st, uuid.NewString())
		s.follower.begin(s.line.next, s.line.lineID)
		s.Log.Warn("the data of etcd was replaced, a new lineage begins", "why", why, "before", before, "lineage", s.line.lineage)
	}
	s.line.revision, s.line.raft = st.Revision, st.RaftIndex
	s.Metrics.behind(s.line.lag())
	return *s.line
}

// locate finds the line of st in the archive.
func (s *Snapshotter) locate(ctx context.Context, st etcd.Status) (l *line, newest time.Time, err error) {
	listing, err := s.list(ctx)
	if err != nil {
		return nil, newest, err
	}
	for _, m := range listing.Manifests {
		if m.Time.After(newest) {
			newest = m.Time
		}
	}
	for _, p := range listing.Problems {
		s.Log.Error("a stored snapshot is damaged", "snapshot", p.Name, "error", p.Err)
	}
	l = lineIn(listing.Manifests, st)
	if l == nil {
		l = newLine(st, s.unused(listing.Manifests))
		s.Log.Info("no snapshot of this history yet", "cluster", l.cluster, "lineage", l.lineage)
		return l, newest, nil
	}
	s.Log.Info("history goes on", "lineage", l.lineage, "next", l.next, "parent", l.parent.Name)
	return l, newest, nil
}

// list lists the archive. A container that the first write will make is empty.
func (s *Snapshotter) list(ctx context.Context) (archive.Listing, error) {
	listing, err := s.archive.List(ctx)
	if errors.Is(err, store.ErrNoContainer) {
		return archive.Listing{}, nil
	}
	return listing, err
}

// unused returns the lineage for a history that no snapshot is of: Lineage, unless
// another history has it.
func (s *Snapshotter) unused(all []snapshot.Manifest) string {
	taken := slices.ContainsFunc(all, func(m snapshot.Manifest) bool { return m.Lineage == s.Lineage })
	if s.Lineage == "" || taken {
		return uuid.NewString()
	}
	return s.Lineage
}

// lineIn returns the line of the newest snapshot of st's cluster, nil if there
// is none or st contradicts it.
func lineIn(all []snapshot.Manifest, st etcd.Status) *line {
	var newest *snapshot.Manifest
	for i, m := range all {
		if m.ClusterID == hexID(st.ClusterID) && (newest == nil || !m.Time.Before(newest.Time)) {
			newest = &all[i]
		}
	}
	if newest == nil {
		return nil
	}
	l := &line{lineID: lineID{newest.Lineage, newest.ClusterID}, next: st.Revision + 1, parent: newest}
	ours := slices.DeleteFunc(slices.Clone(all), func(m snapshot.Manifest) bool { return m.Lineage != l.lineage })
	for _, m := range ours {
		l.see(m)
	}
	if l.contradicts(st) != "" {
		return nil
	}
	chains, _ := snapshot.Chains(ours) // a gap is filled from next on, or bridged by a full
	if len(chains) == 0 {
		return l
	}
	chain := chains[len(chains)-1]
	l.full = &chain.Full
	l.next = chain.Last() + 1
	for _, m := range chain.Deltas {
		l.deltaBytes += m.StoredSize
	}
	return l
}

// see raises what a snapshot proves this history to have reached.
func (l *line) see(m snapshot.Manifest) {
	proven := m.Last
	if m.Kind == snapshot.Full {
		proven = m.First
	}
	l.revision = max(l.revision, proven)
	l.raft = max(l.raft, m.RaftIndex)
}

// stored moves the line on after m has been stored.
func (s *Snapshotter) stored(m snapshot.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Time.After(s.newest) {
		s.newest = m.Time
	}
	if s.line == nil || s.line.lineage != m.Lineage {
		return
	}
	defer func() { s.Metrics.behind(s.line.lag()) }()
	s.line.parent = &m
	if m.Kind == snapshot.Full {
		if m.First >= s.line.base {
			s.line.full, s.line.deltaBytes = &m, 0
		}
		return
	}
	s.line.deltaBytes += m.StoredSize
	s.line.next = max(s.line.next, m.Last+1)
}

// skip gives up the revisions that etcd has compacted: the line has no base
// until a full is stored, and deltas go on after st.
func (s *Snapshotter) skip(st etcd.Status, id lineID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.lineID != id {
		return
	}
	s.line.full, s.line.base, s.line.next = nil, st.Revision, st.Revision+1
	s.follower.begin(s.line.next, s.line.lineID)
}
