package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// faults are what goes wrong with the store of one life.
type faults struct {
	mu   sync.Mutex
	dead bool
	next func(storetest.Call) storetest.Fault // nil: nothing
}

var errCut = errors.New("the store cannot be reached")

func (f *faults) plan(c storetest.Call) storetest.Fault {
	f.mu.Lock()
	dead, next := f.dead, f.next
	f.mu.Unlock()
	switch {
	case dead:
		return storetest.Fault{Err: errCut}
	case next != nil:
		return next(c)
	}
	return storetest.Fault{}
}

func (f *faults) set(next func(storetest.Call) storetest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

func (f *faults) die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// cut makes every call fail.
func cut(storetest.Call) storetest.Fault { return storetest.Fault{Err: errCut} }

// fakeClock has virtual time, and jumps.
type fakeClock struct {
	mu         sync.Mutex
	began      time.Time
	boot, wall time.Duration // jumps so far
}

func (c *fakeClock) Boot() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began) + time.Hour + c.boot
}

func (c *fakeClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.wall)
}

func (c *fakeClock) jump(boot, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot, c.wall = c.boot+boot, c.wall+wall
}

// fakeMember is an etcd and the processes around it.
type fakeMember struct {
	clock *fakeClock

	mu       sync.Mutex
	running  bool
	locked   bool
	empty    bool // the data dir is
	dead     bool // whoever asks has crashed
	members  int
	leader   bool
	frozen   int64
	quorum   error
	revision int64
	content  error         // why it cannot be read
	fenceErr error         // why it cannot be ended
	takes    time.Duration // to read the content
	fences   int
	gates    [][]fence.Process // that each fence was told of
	fencedAt time.Time
	onFence  func() // nil: nothing
	backups  int    // that run

	onUnfence func() // nil: nothing; set before the first life
}

var errDead = errors.New("this process has crashed")

func (m *fakeMember) run() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = !m.locked
}

func (m *fakeMember) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = false
}

func (m *fakeMember) unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked = false
}

func (m *fakeMember) orphan() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead, m.locked = true, false
}

func (m *fakeMember) adopted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
}

func (m *fakeMember) set(change func(*fakeMember)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// seen is what has happened to the member.
type seen struct {
	fences, backups int
	frozen          int64
	fencedAt        time.Time
	locked          bool
	gates           [][]fence.Process
}

func (m *fakeMember) seen() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seen{m.fences, m.backups, m.frozen, m.fencedAt, m.locked, m.gates}
}

func (m *fakeMember) Probe(fence.Process) error { return nil }

func (m *fakeMember) Running() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running, nil
}

func (m *fakeMember) Empty() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.empty, nil
}

func (m *fakeMember) Healthy(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		return errors.New("connection refused")
	}
	return nil
}

func (m *fakeMember) Fence(_ context.Context, gates []fence.Process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates = append(m.gates, gates)
	switch {
	case m.dead:
		return errDead
	case m.fenceErr != nil:
		return m.fenceErr
	}
	if m.running {
		if m.onFence != nil {
			m.onFence()
		}
		m.fences++
		m.fencedAt = time.Now()
	}
	m.running, m.locked = false, true
	return nil
}

func (m *fakeMember) Unfence() error {
	if m.onUnfence != nil {
		m.onUnfence()
	}
	m.unlock()
	return nil
}

func (m *fakeMember) Offline(ctx context.Context) (*Content, error) {
	m.mu.Lock()
	locked := m.locked
	m.mu.Unlock()
	if !locked {
		return nil, errors.New("read while etcd may write")
	}
	return m.read(ctx)
}

func (m *fakeMember) Online(ctx context.Context) (*Content, error) {
	m.mu.Lock()
	open := m.frozen == 0
	m.mu.Unlock()
	if open {
		return nil, errors.New("read while etcd accepts writes")
	}
	return m.read(ctx)
}

func (m *fakeMember) read(ctx context.Context) (*Content, error) {
	m.mu.Lock()
	takes, err, revision, dead := m.takes, m.content, m.revision, m.dead
	m.mu.Unlock()
	sleep(ctx, takes)
	if dead {
		err = errDead
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	data := bytes.Repeat([]byte("etcd"), 1000)
	sum := sha256.Sum256(data)
	return &Content{
		ReadCloser: io.NopCloser(bytes.NewReader(data)),
		SHA256:     func() string { return hex.EncodeToString(sum[:]) },
		HashKV: func(context.Context) (snapshot.HashKV, error) {
			return snapshot.HashKV{Revision: revision, CompactRevision: -1, Hash: 7}, nil
		},
		Manifest: snapshot.Manifest{First: revision, Last: revision, EtcdVersion: "3.7.3", ClusterID: "c", MemberID: "m"},
	}, nil
}

func (m *fakeMember) Standing(context.Context) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		return Standing{}, errors.New("connection refused")
	}
	return Standing{Members: m.members, Leader: m.leader, Member: "m"}, nil
}

func (m *fakeMember) Freeze(_ context.Context, g int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.quorum == nil {
		m.frozen = g
	}
	return m.quorum
}

func (m *fakeMember) Thaw(_ context.Context, g int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frozen <= g {
		m.frozen = 0
	}
	return nil
}

func (m *fakeMember) Frozen(_ context.Context, g int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.quorum == nil && m.frozen < g {
		return errNotFrozen
	}
	return m.quorum
}

func (m *fakeMember) Revision(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, m.quorum
}

// fakeBackup counts itself.
type fakeBackup struct {
	member  *fakeMember
	located func(string)
}

func (b *fakeBackup) Run(ctx context.Context) {
	b.member.set(func(m *fakeMember) { m.backups++ })
	b.located("11111111-1111-4111-8111-111111111111")
	<-ctx.Done()
	b.member.set(func(m *fakeMember) { m.backups-- })
}

func (b *fakeBackup) Take(context.Context, snapshot.Kind) (snapshot.Manifest, error) {
	return snapshot.Manifest{Name: "taken"}, nil
}
