package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
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
	if !w.member.seen().locked {
		w.t.Errorf("an etcd that is started by hand may serve, the role is %s", w.Status().Role)
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
