package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// nameTries bounds how often a snapshot is stored again because another writer
// took its name.
const nameTries = 3

// errReplaced is no loss: whoever tries again finds the line that etcd is on.
var errReplaced = errors.New("another etcd answers than at the beginning")

// Full streams etcd's database into the archive. The snapshot holds at least
// everything acknowledged before the call.
func (s *Snapshotter) Full(ctx context.Context) (m snapshot.Manifest, err error) {
	if err := s.fulls.enter(ctx); err != nil {
		return m, err
	}
	defer s.fulls.leave()
	defer s.Metrics.observe(snapshot.Full, time.Now(), &m, &err)
	st, l, err := s.position(ctx)
	if err != nil {
		return m, err
	}
	for try := range nameTries {
		m, err = s.stream(ctx, st, l.lineID, time.Duration(try)*time.Second)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return m, fmt.Errorf("full snapshot: %w", err)
	}
	crashpoint.Here(crashpoint.FullStored)
	s.stored(m)
	s.Log.Info("full snapshot stored", "snapshot", m.Name, "bytes", m.StoredSize, "plain", m.PlainSize)
	return m, nil
}

// stream saves one snapshot stream, under a name that is later by ahead.
func (s *Snapshotter) stream(ctx context.Context, st etcd.Status, id lineID, ahead time.Duration) (m snapshot.Manifest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream, should it not be read to its end
	content, err := s.etcd.Snapshot(ctx)
	if err != nil {
		return m, err
	}
	defer content.Close()
	after, l, err := s.position(ctx) // bounds the content, which is fixed, from above
	switch {
	case err != nil:
		return m, err
	case l.lineID != id || after.MemberID != st.MemberID:
		return m, errReplaced
	}
	m = s.describe(snapshot.Full, st, id) // only now, so that nothing in it is younger than its time
	m.Time = m.Time.Add(ahead)
	m.First, m.Last = st.Revision, after.Revision
	if content.StorageVersion != "" {
		m.StorageVersion = content.StorageVersion
	}
	if s.Progress != nil {
		content.Progress = func(done int64) { s.Progress(done, max(done, st.DBSize)) }
	}
	return s.archive.Save(ctx, m, content)
}
