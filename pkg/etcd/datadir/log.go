package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// log is what the WAL has to say about a database.
type log struct {
	clusterID, memberID uint64
	members             []uint64 // once missing are applied
	// missing are the entries that the database has not applied, in order.
	missing []*raftpb.Entry
}

// log reads the WAL and what it has more than db. A record that was torn by the
// end of etcd is not there, and was not acknowledged.
func (d Dir) log(db *database) (*log, error) {
	if !wal.Exist(d.wal()) {
		return nil, fmt.Errorf("no WAL in %s: %w", d.wal(), fs.ErrNotExist)
	}
	var l log
	err := guarded(func() error {
		metadata, entries, err := d.tail(db.RaftIndex)
		if err != nil {
			return err
		}
		return l.fill(metadata, entries, db)
	})
	if err != nil {
		return nil, fmt.Errorf("WAL: %w", err)
	}
	return &l, nil
}

// tail reads what follows the last snapshot record at or before an index. For the
// newest such records etcd keeps files, whose names save reading all of a long WAL
// only to find them.
func (d Dir) tail(index uint64) (metadata []byte, entries []*raftpb.Entry, err error) {
	if from, ok := d.named(index); ok {
		if metadata, entries, err = d.from(from); err == nil {
			return metadata, entries, nil
		}
	}
	from, err := d.start(index)
	if err != nil {
		return nil, nil, err
	}
	return d.from(from)
}

func (d Dir) from(s *walpb.Snapshot) (metadata []byte, entries []*raftpb.Entry, err error) {
	w, err := wal.OpenForRead(quiet(), d.wal(), s)
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	metadata, _, entries, err = w.ReadAll()
	return metadata, entries, err
}

// named returns the last snapshot at or before an index that a file is named for
// (etcd, api/snap/snapshotter.go). The WAL may lack it: the file comes first.
func (d Dir) named(index uint64) (*walpb.Snapshot, bool) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(d.db()), "*.snap"))
	if err != nil {
		return nil, false
	}
	var last *walpb.Snapshot
	for _, f := range files {
		var term, at uint64
		if n, err := fmt.Sscanf(filepath.Base(f), "%016x-%016x.snap", &term, &at); n != 2 || err != nil || at > index || at < last.GetIndex() {
			continue
		}
		last = &walpb.Snapshot{Index: &at, Term: &term}
	}
	return last, last != nil
}

// start returns the last snapshot record at or before an index. The WAL holds such
// a record from its beginning on.
func (d Dir) start(index uint64) (*walpb.Snapshot, error) {
	snapshots, err := wal.ValidSnapshotEntries(quiet(), d.wal())
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Backward(snapshots) {
		if s.GetIndex() <= index {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: the database ends with entry %d, before the WAL begins", ErrIncomplete, index)
}

func (l *log) fill(metadata []byte, entries []*raftpb.Entry, db *database) error {
	var ids etcdserverpb.Metadata
	if err := proto.Unmarshal(metadata, &ids); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	l.clusterID, l.memberID = ids.GetClusterID(), ids.GetNodeID()
	for _, e := range entries {
		if e.GetIndex() > db.RaftIndex {
			l.missing = append(l.missing, e)
		}
	}
	if len(l.missing) > 0 && l.missing[0].GetIndex() != db.RaftIndex+1 {
		return fmt.Errorf("%w: the database ends with entry %d, the WAL goes on with %d", ErrIncomplete, db.RaftIndex, l.missing[0].GetIndex())
	}
	var err error
	l.members, err = changed(db.members, l.missing)
	return err
}

// alone returns an error unless the log is all that its cluster has.
func (l *log) alone() error {
	if len(l.members) > 1 {
		return fmt.Errorf("WAL: %w", &MembersError{len(l.members)})
	}
	return nil
}

// changed applies the changes of the membership among the entries.
func changed(members []uint64, entries []*raftpb.Entry) ([]uint64, error) {
	members = slices.Clone(members)
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		var c raftpb.ConfChange
		if err := proto.Unmarshal(e.Data, &c); err != nil || e.GetType() != raftpb.EntryConfChange {
			return nil, errors.Join(fmt.Errorf("entry %d of type %v cannot be read", e.GetIndex(), e.GetType()), err)
		}
		members = slices.DeleteFunc(members, func(id uint64) bool { return id == c.GetNodeId() })
		if c.GetType() != raftpb.ConfChangeRemoveNode {
			members = append(members, c.GetNodeId())
		}
	}
	return members, nil
}
