package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// source is an election beside a real etcd, with a real fence.
type source struct {
	*server.Election
	cutOff atomic.Bool // its store cannot be reached
	stop   func()      // as with the pod, and waits
}

func startSource(t *testing.T, e *etcdtest.Etcd, all []string, under store.Store) *source {
	t.Helper()
	src := &source{}
	s := storetest.NewFaulty(under, func(storetest.Call) storetest.Fault {
		if src.cutOff.Load() {
			return storetest.Fault{Err: errors.New("the store cannot be reached")}
		}
		return storetest.Fault{}
	})
	own, cluster := dial(t, e.Endpoint()), dial(t, all...)
	log := slog.New(slog.NewTextHandler(t.Output(), nil)).With("member", e.Name)
	m := server.NewLocalMember(e.DataDir, own, cluster)
	m.WorkDir, m.Grace, m.KillWait, m.Log = t.TempDir(), 5*time.Second, 5*time.Second, log
	a := archive.New(s)
	el := server.NewElection(m, s, a)
	el.ID, el.StateDir, el.Log = "a", t.TempDir(), log
	el.Timing = server.Timing{
		Poll: 200 * time.Millisecond, Read: 2 * time.Second, Lease: 10 * time.Second, Tick: 100 * time.Millisecond,
		Grace: 5 * time.Second, Kill: 10 * time.Second, Watchdog: 10 * time.Second, Heartbeat: time.Second, Release: time.Minute,
	}
	el.Backup = func(h syncobject.Holder, located func(string)) server.Backup {
		b := snapshotter.New(cluster, a)
		b.Log, b.Epoch, b.Lineage, b.Located = log, h.Epoch, h.Lineage, located
		b.DeltaPeriod = 200 * time.Millisecond
		return b
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	if err := el.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- el.Run(ctx) }()
	src.Election = el
	src.stop = func() {
		cancel()
		if err, ok := <-ended; ok && err != nil {
			t.Error(err)
		}
		close(ended)
		src.stop = func() {}
		_ = m.Unfence()
	}
	t.Cleanup(func() { src.stop() })
	return src
}

func dial(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.Dial(context.WithoutCancel(t.Context()), etcd.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// until waits for what happens in real time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("in vain: %s", what)
		}
	}
}

func (s *source) in(role server.Role) func() bool {
	return func() bool { return s.Status().Role == role && (role != server.Owner || s.Status().Reason == "") }
}

// claim is what a destination does.
func claim(t *testing.T, s store.Store) {
	t.Helper()
	_, _, err := syncobject.NewFile(s).Update(t.Context(), func(o syncobject.Object) (syncobject.Object, error) {
		return o.Claim(syncobject.Claim{ID: "b", ForceAfter: syncobject.DefaultForceAfter, At: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// handedOver restores exactly what was decided and checks that an etcd on it has
// everything that the writers got an acknowledgement for.
func handedOver(t *testing.T, s store.Store, version string, writers ...*etcdtest.Writer) {
	t.Helper()
	o, err := syncobject.NewFile(s).Read(t.Context())
	if err != nil || o.Status != syncobject.Ready || o.Decision.By != syncobject.Source || len(o.Snapshots.Items) != 1 {
		t.Fatalf("object %+v, %v", o, err)
	}
	a := archive.New(s)
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var named archive.Listing
	for _, m := range l.Manifests {
		if m.Name == o.Snapshots.Items[0].Name {
			named.Manifests = append(named.Manifests, m)
		}
		if m.Lineage == "" || m.Lineage != l.Manifests[0].Lineage {
			t.Errorf("%s is of lineage %q, the first of %q", m.Name, m.Lineage, l.Manifests[0].Lineage)
		}
	}
	plan, err := restorer.NewPlan(named, restorer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, dataDir := named.Manifests[0], filepath.Join(t.TempDir(), "etcd")
	result, err := restorer.New(a).Do(t.Context(), plan, dataDir)
	if err != nil {
		t.Fatal(err)
	}
	if result.Revision != o.Snapshots.ThroughRevision || !m.Final || m.OperationID != o.OperationID || m.HashKV == nil {
		t.Errorf("restored %+v, handed over %+v, manifest %+v", result, o.Snapshots, m)
	}
	there := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithDataDir(dataDir))
	if hash, _ := there.HashKV(t, m.HashKV.Revision); m.HashKV != nil && hash != m.HashKV.Hash {
		t.Errorf("hash %x at revision %d, the manifest says %x", hash, m.HashKV.Revision, m.HashKV.Hash)
	}
	for _, w := range writers {
		if len(w.Acked()) == 0 {
			t.Error("nothing was written")
		}
		w.Check(t, there.Client(t))
	}
}

// unreachable fails the test if somebody answers clients of e.
func unreachable(t *testing.T, e *etcdtest.Etcd) {
	t.Helper()
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.Endpoint(), "http://"))
	if err == nil {
		_ = c.Close()
		t.Errorf("%s answers", e)
	}
}

func TestHandOverOfARealEtcd(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			s := mem.New()
			src := startSource(t, e, []string{e.Endpoint()}, s)
			until(t, "etcd is ready", func() bool { return src.Ready(t.Context()) == nil })
			w := etcdtest.StartWriter(t, e.Client(t), "k/", 16)
			w.WaitAcked(t, 200)
			claim(t, s)
			until(t, "it is handed over", src.in(server.Ceded))
			unreachable(t, e)
			w.Stop()
			handedOver(t, s, version, w)
			src.stop()
		})
	}
}

func TestDeafEtcdIsKilledAndLosesNothing(t *testing.T) {
	e := etcdtest.Start(t)
	s := mem.New()
	src := startSource(t, e, []string{e.Endpoint()}, s)
	until(t, "etcd is ready", func() bool { return src.Ready(t.Context()) == nil })
	w := etcdtest.StartWriter(t, e.Client(t), "k/", 16)
	w.WaitAcked(t, 200)
	e.Pause(t) // it does not hear SIGTERM
	claim(t, s)
	until(t, "it is handed over", src.in(server.Ceded))
	w.Stop()
	handedOver(t, s, e.Version, w)
}

func TestCutOfARealEtcdFencesAndReturns(t *testing.T) {
	e := etcdtest.Start(t)
	s := mem.New()
	src := startSource(t, e, []string{e.Endpoint()}, s)
	until(t, "etcd is ready", func() bool { return src.Ready(t.Context()) == nil })
	w := etcdtest.StartWriter(t, e.Client(t), "k/", 2)
	w.WaitAcked(t, 20)
	src.cutOff.Store(true)
	until(t, "the lease is over", src.in(server.SelfFenced))
	<-e.Ended()
	w.Stop()
	src.cutOff.Store(false)
	until(t, "it is the owner again", src.in(server.Owner))
	e.Restart(t)
	w.Check(t, e.Client(t))
	if err := src.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReleaseOfARealEtcd(t *testing.T) {
	e := etcdtest.Start(t)
	s := mem.New()
	src := startSource(t, e, []string{e.Endpoint()}, s)
	until(t, "etcd is ready", func() bool { return src.Ready(t.Context()) == nil })
	w := etcdtest.StartWriter(t, e.Client(t), "k/", 4)
	w.WaitAcked(t, 100)
	e.Stop(t)
	w.Stop()
	src.stop()
	o, err := syncobject.NewOwnerFile(s).Read(t.Context())
	if err != nil || o.State != syncobject.Released {
		t.Fatalf("owner.json %+v, %v", o, err)
	}
	a := archive.New(s)
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := restorer.NewPlan(l, restorer.Options{Target: snapshot.Target{}})
	if err != nil {
		t.Fatal(err)
	}
	dataDir := filepath.Join(t.TempDir(), "etcd")
	if _, err := restorer.New(a).Do(t.Context(), plan, dataDir); err != nil {
		t.Fatal(err)
	}
	w.Check(t, etcdtest.Start(t, etcdtest.WithDataDir(dataDir)).Client(t))
}

func TestHandOverOfARealCluster(t *testing.T) {
	c := etcdtest.StartCluster(t, 3)
	s := mem.New()
	var sources []*source
	var writers []*etcdtest.Writer
	for i, e := range c.Members {
		src := startSource(t, e, append([]string{e.Endpoint()}, c.Endpoints()...), s)
		until(t, "etcd is ready", func() bool { return src.Ready(t.Context()) == nil && src.Status().Members == 3 })
		sources = append(sources, src)
		writers = append(writers, etcdtest.StartWriter(t, e.Client(t), string(rune('a'+i))+"/", 4))
	}
	for _, w := range writers {
		w.WaitAcked(t, 50)
	}
	claim(t, s)
	for i, src := range sources {
		until(t, "each has ended its member", src.in(server.Ceded))
		<-c.Members[i].Ended()
	}
	for _, w := range writers {
		w.Stop()
	}
	handedOver(t, s, c.Members[0].Version, writers...)
}
