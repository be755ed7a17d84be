package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// LocalMember is a Member on this machine. Set its fields before use.
type LocalMember struct {
	Dir     datadir.Dir
	WorkDir string // for copies of the database, should it have to be completed
	// Grace is the time between SIGTERM and SIGKILL, KillWait the time after that.
	Grace, KillWait time.Duration
	Log             *slog.Logger

	own, cluster *etcd.Client

	mu      sync.Mutex // guards what follows
	lock    *fence.Lock
	locked  os.FileInfo // the file that it is on
	version string      // of etcd, as it last said
}

// NewLocalMember returns the member with that data dir. Own talks to it alone,
// cluster to any member; they may be the same.
func NewLocalMember(dataDir string, own, cluster *etcd.Client) *LocalMember {
	return &LocalMember{
		Dir: datadir.Dir{Data: dataDir}, WorkDir: filepath.Join(dataDir+".ferry", WorkFolder),
		Grace: DefaultGrace, KillWait: syncobject.DefaultKill - DefaultGrace, Log: slog.Default(), own: own, cluster: cluster,
	}
}

func (m *LocalMember) fencer() *fence.Fencer {
	f := fence.New(m.Dir.Data)
	f.Grace, f.KillWait, f.Log = m.Grace, m.KillWait, m.Log
	return f
}

// Probe implements Member.
func (m *LocalMember) Probe(gate fence.Process) error { return m.fencer().Probe(gate) }

// Running implements Member.
func (m *LocalMember) Running() (bool, error) {
	_, err := fence.FindHolder(fence.DB(m.Dir.Data))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Empty implements Member.
func (m *LocalMember) Empty() (bool, error) { return m.Dir.Empty() }

// Healthy implements Member.
func (m *LocalMember) Healthy(ctx context.Context) error { return m.own.Healthy(ctx) }

// Fence implements Member. While the lock is in its place there is nothing to
// end: the gate was shut before it was taken.
func (m *LocalMember) Fence(ctx context.Context, gates []fence.Process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inPlace() {
		return nil
	}
	if len(gates) == 0 {
		gates = []fence.Process{{}}
	}
	for i, gate := range gates {
		lock, exit, err := m.fencer().Fence(ctx, gate)
		if err != nil {
			return err
		}
		if !exit.Holder.IsZero() || len(exit.Killed) > 0 {
			m.Log.Info("etcd has ended", "pid", exit.Holder.PID, "clean", exit.Clean, "killed", len(exit.Killed), "took", exit.Took)
		}
		if i+1 < len(gates) { // the last one's is kept
			err = lock.Release()
		} else {
			err = m.keep(lock)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inPlace reports whether the lock is held of what an etcd would open. The caller
// holds mu.
func (m *LocalMember) inPlace() bool {
	if m.lock == nil {
		return false
	}
	there, err := os.Stat(fence.DB(m.Dir.Data))
	return err == nil && os.SameFile(there, m.locked)
}

// keep keeps lock; the one before, if there was one, is of a database that has
// been moved away. The caller holds mu.
func (m *LocalMember) keep(lock *fence.Lock) error {
	locked, err := os.Stat(fence.DB(m.Dir.Data))
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	before := m.lock
	m.lock, m.locked = lock, locked
	if before == nil {
		return nil
	}
	return before.Release()
}

// Unfence implements Member.
func (m *LocalMember) Unfence() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lock == nil {
		return nil
	}
	lock := m.lock
	m.lock = nil
	return lock.Release()
}

// Offline implements Member.
func (m *LocalMember) Offline(ctx context.Context) (*Content, error) {
	empty, err := m.Dir.Empty()
	if err == nil && empty {
		err = fmt.Errorf("%s is empty: %w", m.Dir.Data, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	s, err := m.Dir.Final(ctx, m.WorkDir)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Content{
		ReadCloser: s,
		HashKV:     s.HashKV,
		SHA256:     s.SHA256,
		Manifest: snapshot.Manifest{
			Kind: snapshot.Full, First: s.Revision, Last: s.Revision,
			EtcdVersion: cmp.Or(m.version, s.ClusterVersion, "unknown"), StorageVersion: s.StorageVersion,
			ClusterID: hexID(s.ClusterID), MemberID: hexID(s.MemberID),
			RaftIndex: s.RaftIndex, AuthRevision: s.AuthRevision,
		},
	}, nil
}

// Standing implements Cluster.
func (m *LocalMember) Standing(ctx context.Context) (Standing, error) {
	s, err := m.own.Status(ctx)
	if err != nil {
		return Standing{}, err
	}
	n, err := m.own.Voters(ctx)
	if err != nil {
		return Standing{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = s.Version
	return Standing{Members: n, Leader: s.Leader, Member: hexID(s.MemberID)}, nil
}

// Freeze implements Cluster.
func (m *LocalMember) Freeze(ctx context.Context, generation int64) error {
	return m.cluster.RaftFence(ctx, generation)
}

// Frozen implements Cluster.
func (m *LocalMember) Frozen(ctx context.Context, generation int64) error {
	g, fenced, err := m.cluster.RaftFenced(ctx)
	if err == nil && (!fenced || g < generation) {
		err = errNotFrozen
	}
	return err
}

// Revision implements Cluster.
func (m *LocalMember) Revision(ctx context.Context) (int64, error) {
	s, err := m.cluster.Status(ctx)
	return s.Revision, err
}

// Thaw implements Cluster.
func (m *LocalMember) Thaw(ctx context.Context, generation int64) error {
	for {
		g, fenced, err := m.cluster.RaftFenced(ctx)
		if err != nil || !fenced || g > generation {
			return err
		}
		if err := m.cluster.RaftUnfence(ctx, g); err != nil {
			return err
		}
		m.Log.Info("the cluster accepts writes again", "generation", g)
	}
}

// Online implements Cluster.
func (m *LocalMember) Online(ctx context.Context) (*Content, error) {
	before, err := m.cluster.Status(ctx) // whoever answered has applied everything up to this revision
	if err != nil {
		return nil, err
	}
	s, err := m.cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	after, err := m.cluster.Status(ctx)
	switch {
	case err != nil:
	case after.MemberID != before.MemberID:
		err = errors.New("another member answers than before")
	case after.Revision != before.Revision:
		err = fmt.Errorf("the cluster is frozen, and went on from revision %d to %d: something writes past its fence", before.Revision, after.Revision)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Content{
		ReadCloser: s,
		HashKV:     func(ctx context.Context) (snapshot.HashKV, error) { return m.cluster.HashKV(ctx, after.Revision) },
		SHA256:     s.SHA256,
		Manifest: snapshot.Manifest{
			Kind: snapshot.Full, First: after.Revision, Last: after.Revision,
			EtcdVersion: after.Version, StorageVersion: cmp.Or(s.StorageVersion, after.StorageVersion),
			ClusterID: hexID(after.ClusterID), MemberID: hexID(after.MemberID),
			RaftIndex: before.RaftIndex, AuthRevision: after.AuthRevision,
		},
	}, nil
}

// hexID writes an id as etcdctl does.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }
