package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// sealed is a delta that only has to be stored. It stays as it is until it is.
type sealed struct {
	manifest snapshot.Manifest
	buffer   *archive.Buffer
}

// Delta stores all changes acknowledged before the call that are not stored
// yet. If there are none it returns a manifest without a name. If the history
// does not go on in deltas it takes a full instead and returns that.
//
// After an error nothing is lost: what was sealed is kept for the next call,
// and what was not is read from etcd again.
func (s *Snapshotter) Delta(ctx context.Context) (m snapshot.Manifest, err error) {
	m, err = s.delta(ctx)
	if errors.Is(err, errFullDue) {
		s.Log.Info("a full snapshot is taken instead of a delta or after it", "why", err)
		m, err = s.Full(ctx)
		s.progressed(err)
	}
	return m, err
}

// errFullDue says that a full has to follow, whatever deltas were stored.
var errFullDue = errors.New("a full snapshot is due")

// delta is Delta without the full.
func (s *Snapshotter) delta(ctx context.Context) (m snapshot.Manifest, err error) {
	if err := s.deltas.enter(ctx); err != nil {
		return m, err
	}
	defer s.deltas.leave()
	defer func() { s.progressed(err) }()
	defer s.following(ctx)()
	if m, err = s.storeSealed(ctx); err != nil {
		_, _, _ = s.position(ctx) // what is behind grows meanwhile, and is told
		return m, err
	}
	st, l, err := s.position(ctx)
	if err != nil {
		return m, err
	}
	if l.full == nil && !s.follower.hasFilled(s.DeltaLimit) {
		// What leads on from nothing waits for the full, as long as there is room:
		// nobody could restore it, and the gap before it would be seen.
		return m, s.fullDueAfter(st)
	}
	m, err = s.catchUp(ctx, st, l.lineID, m)
	if errors.Is(err, etcd.ErrCompacted) {
		s.skip(st, l.lineID)
		return m, fmt.Errorf("%w: %w", errFullDue, err)
	}
	if err != nil {
		return m, fmt.Errorf("delta snapshot: %w", err)
	}
	return m, s.fullDueAfter(st)
}

// catchUp stores deltas until they reach st. last is what it returns if there
// is nothing to store.
func (s *Snapshotter) catchUp(ctx context.Context, st etcd.Status, id lineID, last snapshot.Manifest) (snapshot.Manifest, error) {
	for {
		seg, err := s.takeSegment(ctx, id, st.Revision)
		if err != nil || seg == nil {
			return last, err
		}
		if err := s.seal(st, seg); err != nil {
			return last, err
		}
		if last, err = s.storeSealed(ctx); err != nil || last.Last >= st.Revision {
			return last, err
		}
	}
}

// takeSegment takes what the follower has packed, once that reaches revision
// through. A follower that does not come nearer is made to start again.
func (s *Snapshotter) takeSegment(ctx context.Context, id lineID, through int64) (*segment, error) {
	for {
		_, before, _ := s.follower.at()
		tctx, cancel := context.WithTimeoutCause(ctx, s.StallAfter, errStalled)
		seg, err := s.follower.take(tctx, id, through, s.DeltaLimit)
		cancel()
		if !errors.Is(err, errStalled) {
			return seg, err
		}
		if _, whole, _ := s.follower.at(); whole == before {
			s.follower.reopen()
			return nil, fmt.Errorf("%w: it is at revision %d, revision %d has arrived", err, through, whole)
		}
	}
}

// seal turns seg into s.sealed.
func (s *Snapshotter) seal(st etcd.Status, seg *segment) error {
	summary, err := seg.seal()
	if err != nil {
		s.follower.begin(seg.first, seg.line) // to be read again
		return err
	}
	m := s.describe(snapshot.Delta, st, seg.line)
	m.First, m.Last, m.Events = summary.First, summary.Last, summary.Events
	s.sealed = &sealed{m, seg.buffer}
	return nil
}

// storeSealed stores the sealed delta, if there is one.
func (s *Snapshotter) storeSealed(ctx context.Context) (m snapshot.Manifest, err error) {
	if s.sealed == nil {
		return m, nil
	}
	defer s.Metrics.observe(snapshot.Delta, time.Now(), &m, &err)
	crashpoint.Here(crashpoint.DeltaSealed)
	for range nameTries {
		m, err = s.archive.SaveBuffer(ctx, s.sealed.manifest, s.sealed.buffer)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		s.sealed.manifest.Time = s.sealed.manifest.Time.Add(time.Second) // another writer's: beside it
	}
	if err != nil {
		return m, err
	}
	crashpoint.Here(crashpoint.DeltaStored)
	s.sealed = nil
	s.stored(m)
	s.Log.Debug("delta snapshot stored", "snapshot", m.Name, "bytes", m.StoredSize, "events", m.Events)
	return m, nil
}

// fullDueAfter returns errFullDue, with the reason, if the deltas alone are not
// enough any more.
func (s *Snapshotter) fullDueAfter(st etcd.Status) error {
	s.mu.Lock()
	full, deltaBytes := s.line.full, s.line.deltaBytes
	s.mu.Unlock()
	switch {
	case full == nil:
		return fmt.Errorf("%w: there is none that deltas could be added to", errFullDue)
	case full.AuthRevision < st.AuthRevision:
		return fmt.Errorf("%w: users, roles or permissions have changed", errFullDue)
	case float64(deltaBytes) > s.DeltaShare*float64(max(full.StoredSize, minFullSize)):
		return fmt.Errorf("%w: the deltas have outgrown the last one", errFullDue)
	}
	return nil
}

// minFullSize keeps a nearly empty etcd from being backed up in full at every
// change, in bytes.
const minFullSize = 1 << 20
