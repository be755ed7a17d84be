package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// world is a source with everything around it, in virtual time. Processes of it
// come and go; the store, the etcd, the clocks and the state dir stay.
type world struct {
	t      *testing.T
	store  *mem.Store
	member *fakeMember
	clock  *fakeClock
	state  string // folder
	boot   string

	configure func(*Election) // before each start, may be nil
	cutOff    bool            // the next life begins with a store that cannot be reached

	*process
}

// process is one life of the source.
type process struct {
	*Election
	faults *faults
	calls  func(storetest.Op) int
	cancel context.CancelFunc
	ended  chan error
}

// inWorld runs test in virtual time, with a source that has not been started.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: mem.New(), state: state, boot: "first boot", clock: &fakeClock{began: time.Now()}}
		w.member = &fakeMember{members: 1, leader: true, revision: 100, clock: w.clock}
		test(t, w)
		if w.process != nil {
			w.crash()
		}
	})
}

// start begins a life.
func (w *world) start() {
	w.t.Helper()
	f := &faults{}
	if w.cutOff {
		f.set(cut)
	}
	s := storetest.NewFaulty(w.store, f.plan)
	e := NewElection(w.member, s, archive.New(s))
	e.ID, e.StateDir, e.Clock, e.Tool = "a", w.state, w.clock, "test"
	e.Boot = func() (string, error) { return w.boot, nil }
	e.Log = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	e.Backup = func(h syncobject.Holder, located func(string)) Backup {
		return &fakeBackup{member: w.member, located: located}
	}
	if w.configure != nil {
		w.configure(e)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.process = &process{Election: e, faults: f, calls: s.Calls, cancel: cancel, ended: make(chan error, 1)}
	if err := e.Begin(ctx); err != nil {
		w.t.Fatal(err)
	}
	go func() { w.ended <- e.Run(ctx) }()
}

// crash ends a life without a trace: from now on it can do nothing.
func (w *world) crash() {
	w.t.Helper()
	w.faults.die()
	w.member.orphan()
	w.cancel()
	<-w.ended
	w.member.adopted()
	w.process = nil
}

// stop ends a life as it should end.
func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Error(err)
	}
	w.member.unlock()
	w.process = nil
}

// wait lets time pass until the source is in a role.
func (w *world) wait(want Role) {
	w.t.Helper()
	for began := time.Now(); w.Status().Role != want; sleep(w.t.Context(), 10*time.Millisecond) {
		if time.Since(began) > time.Hour {
			w.t.Fatalf("role is %s after an hour, want %s: %s", w.Status().Role, want, w.Status().Reason)
		}
	}
	synctest.Wait()
}

// serving waits until etcd may start, and starts it.
func (w *world) serving() {
	w.t.Helper()
	w.wait(Owner)
	if err := w.Allowed(w.t.Context(), myself(w.t)); err != nil {
		w.t.Fatal(err)
	}
	w.member.run()
	synctest.Wait()
}

// shutNow fails the test if etcd runs or may start.
func (w *world) shutNow() {
	w.t.Helper()
	synctest.Wait()
	if running, _ := w.member.Running(); running {
		w.t.Errorf("etcd runs, the role is %s", w.Status().Role)
	}
	if w.admit(myself(w.t)) == nil || w.Ready(w.t.Context()) == nil {
		w.t.Errorf("the gate is open, the role is %s", w.Status().Role)
	}
}

func myself(t *testing.T) fence.Process {
	t.Helper()
	p, err := fence.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// object reads the sync object past all faults.
func (w *world) object() syncobject.Object {
	w.t.Helper()
	o, err := syncobject.NewFile(w.store).Read(w.t.Context())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return o
}

// change changes the sync object as somebody else.
func (w *world) change(step func(syncobject.Object) (syncobject.Object, error)) syncobject.Object {
	w.t.Helper()
	o, _, err := syncobject.NewFile(w.store).Update(w.t.Context(), step)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// claimed is a destination's claim of a container that nobody else claims.
func claimed(o syncobject.Object) (syncobject.Object, error) {
	return o.Claim(syncobject.Claim{ID: "b", ForceAfter: syncobject.DefaultForceAfter, At: time.Now()})
}

// forced is a destination's decision for what has revisions up to through.
func forced(through int64) func(syncobject.Object) (syncobject.Object, error) {
	return func(o syncobject.Object) (syncobject.Object, error) {
		name := snapshot.Snapshot{Kind: snapshot.Full, First: through, Last: through, Time: time.Now()}.Name()
		set := syncobject.Set{ThroughRevision: through, Items: []syncobject.Item{{
			Name: name, Kind: snapshot.Full, Size: 1, SHA256: hex.EncodeToString(make([]byte, sha256.Size)), Revision: through,
		}}}
		return o.Force(o.Generation, "b", set, syncobject.Forcing{At: time.Now(), Reason: "test"})
	}
}

// finals are the final snapshots that are listed, and those under late.
func (w *world) finals() (listed, late []snapshot.Manifest) {
	w.t.Helper()
	for _, m := range w.listed(w.store) {
		if m.Final {
			listed = append(listed, m)
		}
	}
	return listed, w.listed(store.Prefix(w.store, lateFolder))
}

func (w *world) listed(s store.Store) []snapshot.Manifest {
	w.t.Helper()
	l, err := archive.New(s).List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return l.Manifests
}

// decidedBySource fails the test unless the source has decided for one snapshot
// with everything that was acknowledged.
func (w *world) decidedBySource() {
	w.t.Helper()
	o := w.object()
	listed, late := w.finals()
	if o.Status != syncobject.Ready || o.Decision.By != syncobject.Source || o.Decision.Lossy {
		w.t.Fatalf("object %+v", o)
	}
	if len(listed) != 1 || len(late) != 0 || len(o.Snapshots.Items) != 1 || o.Snapshots.Items[0].Name != listed[0].Name {
		w.t.Fatalf("finals %v, late %v, named %v", listed, late, o.Snapshots.Items)
	}
	if m := listed[0]; m.Last != w.member.revision || m.OperationID != o.OperationID || m.HashKV == nil || m.Lineage == "" {
		w.t.Errorf("manifest %+v", m)
	}
	if o.Snapshots.ThroughRevision != w.member.revision || o.Snapshots.Items[0].Version == "" {
		w.t.Errorf("set %+v", o.Snapshots)
	}
}

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
	fencedAt time.Time
	onFence  func() // nil: nothing
	backups  int    // that run
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
}

func (m *fakeMember) seen() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seen{m.fences, m.backups, m.frozen, m.fencedAt, m.locked}
}

func (m *fakeMember) Probe(fence.Process) error { return nil }

func (m *fakeMember) Running() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running, nil
}

func (m *fakeMember) Healthy(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		return errors.New("connection refused")
	}
	return nil
}

func (m *fakeMember) Fence(context.Context, []fence.Process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	if m.frozen < g {
		return errors.New("not frozen")
	}
	return nil
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
