package snapshotter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// between runs do once, right before the first call of a gRPC method after arm.
type between struct {
	mu     sync.Mutex
	method string
	do     func()
	to     string // endpoint that is called
}

func (b *between) arm(method string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.method, b.do = method, do
}

func (b *between) called(method string) (endpoint string) {
	b.mu.Lock()
	do := b.do
	if method == b.method {
		b.method, b.do = "", nil
	} else {
		do = nil
	}
	b.mu.Unlock()
	if do != nil {
		do()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimPrefix(b.to, "http://")
}

// frame passes messages on as they are.
type frame []byte

type frames struct{}

func (frames) Marshal(v any) ([]byte, error)   { return *v.(*frame), nil }
func (frames) Unmarshal(b []byte, v any) error { *v.(*frame) = append(frame{}, b...); return nil }
func (frames) Name() string                    { return "proto" }

// snapshotterThrough returns a snapshotter whose every call passes b.
func (f *fixture) snapshotterThrough(b *between) *snapshotter.Snapshotter {
	f.t.Helper()
	b.to = f.etcd.Endpoint()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodec(frames{}), grpc.UnknownServiceHandler(b.pass))
	go func() { _ = srv.Serve(l) }()
	f.t.Cleanup(srv.Stop)
	c, err := etcd.Dial(context.WithoutCancel(f.t.Context()), etcd.Config{Endpoints: []string{l.Addr().String()}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return snapshotter.New(c, f.archive)
}

func (b *between) pass(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	conn, err := grpc.NewClient(b.called(method), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	md, _ := metadata.FromIncomingContext(in.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in.Context(), md))
	defer cancel()
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodec(frames{}))
	if err != nil {
		return err
	}
	go func() {
		for {
			var m frame
			if in.RecvMsg(&m) != nil {
				_ = out.CloseSend()
				return
			}
			if out.SendMsg(&m) != nil {
				return
			}
		}
	}()
	for {
		var m frame
		if err := out.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

func TestFullDuringDeltaStaysOnTheLine(t *testing.T) {
	f := newFixture(t)
	b := &between{}
	s := f.snapshotterThrough(b)
	first := f.full(s)
	done := make(chan error, 1)
	b.arm("/etcdserverpb.Auth/AuthStatus", func() { // Delta has read the revision, and not compared it yet
		f.put("a", "b")
		go func() { _, err := s.Full(t.Context()); done <- err }()
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // Full must get as far as it can
	})
	f.delta(s)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, m := range f.manifests() {
		if m.Lineage != first.Lineage {
			t.Errorf("%s is of a new lineage, although nothing was replaced", m.Name)
		}
	}
}

func TestEtcdReplacedBeforeTheSnapshotStream(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	f.put("a")
	other.put("x", "y", "z")
	b := &between{}
	s := f.snapshotterThrough(b)
	b.arm("/etcdserverpb.Maintenance/Snapshot", func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.to = other.etcd.Endpoint()
	})
	if m, err := s.Full(t.Context()); err == nil {
		t.Errorf("the database of another cluster is stored as that of cluster %s", m.ClusterID)
	}
	if n := f.fulls(); n != 0 {
		t.Errorf("%d fulls stored", n)
	}
}

func TestEtcdReplacedBeforeTheEventStream(t *testing.T) {
	f := newFixture(t)
	b := &between{}
	s := f.snapshotterThrough(b)
	for range 200 { // raft entries that are no revisions
		if _, err := f.client.Grant(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
	}
	full := f.full(s)
	f.put("a", "b")
	replaced := make(chan struct{})
	b.arm("/etcdserverpb.Watch/Watch", func() {
		defer close(replaced)
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // Delta has asked for the revision by then
		f.etcd.Stop(t)
		f.etcd.Restart(t, etcdtest.WithDataDir(t.TempDir()))
		client := f.etcd.Client(t)
		for i := range 10 {
			if _, err := client.Put(t.Context(), fmt.Sprint("foreign", i), ""); err != nil {
				t.Error(err)
			}
		}
	})
	_, _ = s.Delta(t.Context()) // may fail: etcd was away
	<-replaced
	for _, m := range f.manifests() {
		if m.Kind == snapshot.Delta && m.Lineage == full.Lineage {
			events, _ := f.decode(m)
			t.Errorf("the old lineage goes on with %v", events)
		}
	}
}

func TestFullFromBeforeACompactionIsNoBase(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	f.put("a")
	f.delta(s)
	open := f.store.block()
	early := make(chan error, 1)
	go func() { _, err := s.Full(t.Context()); early <- err }()
	eventually(t, "the early full has been read", func() bool { return len(f.store.names()) == 5 })
	if _, err := f.client.Compact(t.Context(), f.put("b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Delta(ctx); err == nil { // sees the compaction, waits for its turn to take a full, gives up
		t.Fatal("no error")
	}
	open()
	if err := <-early; err != nil {
		t.Fatal(err)
	}
	revision := f.put("e")
	f.delta(s)
	chain, err := snapshot.Select(f.manifests(), snapshot.Target{})
	if err != nil || chain.Last() < revision {
		t.Errorf("Delta succeeded, and what can be restored ends at %d, not %d: %v", chain.Last(), revision, err)
	}
}

func TestDeltasGoOnBesideAFull(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod, s.DeltaLimit = 20*time.Millisecond, 1
	f.full(s)
	f.put("a")
	f.delta(s)
	if _, err := f.client.Compact(t.Context(), f.put("b", "c")); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	f.store.Store = &slowFulls{f.store.Store, gate}
	f.running(s)
	eventually(t, "deltas beside the full", func() bool {
		for i := range 50 { // the buffer fills in blocks
			if _, err := f.client.Put(t.Context(), "d", incompressible(i)); err != nil {
				t.Fatal(err)
			}
		}
		return len(f.manifests()) > 4
	})
	close(gate)
	eventually(t, "all restorable", func() bool {
		chain, err := snapshot.Select(f.manifests(), snapshot.Target{})
		return err == nil && len(chain.Deltas) > 0
	})
}

// slowFulls holds back fulls until the gate is closed.
type slowFulls struct {
	store.Store
	gate chan struct{}
}

func (s *slowFulls) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	if strings.Contains(name, "/full-") {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return store.Info{}, ctx.Err()
		}
	}
	return s.Store.Create(ctx, name, r)
}

func TestOneRequestOneFull(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod = 10 * time.Millisecond
	f.full(s)
	gate := make(chan struct{})
	f.store.Store = &slowFulls{f.store.Store, gate}
	if _, err := f.client.UserAddWithOptions(t.Context(), "u", "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	f.running(s)
	for range 5 { // deltas that ask for the full which is on its way
		n := len(f.manifests())
		f.put("a")
		eventually(t, "a delta", func() bool { return len(f.manifests()) > n })
	}
	close(gate)
	eventually(t, "the full", func() bool { return f.fulls() == 2 })
	n := len(f.manifests())
	f.put("b")
	eventually(t, "a delta after it", func() bool { return len(f.manifests()) > n })
	f.put("c")
	eventually(t, "another", func() bool { return len(f.manifests()) > n+1 })
	if got := f.fulls(); got != 2 {
		t.Errorf("%d fulls, want 2", got)
	}
}

func TestManyDeltasDoNotOutrunTheClock(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	for i := range 30 {
		f.put(fmt.Sprint(i))
		f.delta(s)
	}
	if m := f.full(s); time.Until(m.Time) > 2*time.Second {
		t.Errorf("a full says it is of %s, that is in %v", m.Time, time.Until(m.Time))
	}
	f.etcd.Stop(t)
	f.etcd.Restart(t, etcdtest.WithDataDir(t.TempDir()))
	var now snapshot.Manifest
	eventually(t, "an answer", func() bool { m, err := s.Delta(t.Context()); now = m; return err == nil })
	chain, err := snapshot.Select(f.manifests(), snapshot.Target{})
	if err != nil || chain.Full.Lineage != now.Lineage {
		t.Errorf("a restore would begin with %s, etcd's data is in %s: %v", chain.Full.Name, now.Name, err)
	}
	if m := f.delta(f.snapshotter()); m.Name != "" {
		t.Errorf("a new snapshotter does not find the lineage, and stores %s", m.Name)
	}
}

// asked is a schedule that never comes, and remembers what it was asked.
type asked chan time.Time

func (a asked) Next(after time.Time) time.Time {
	select {
	case a <- after:
	default:
	}
	return after.Add(24 * time.Hour)
}

func TestScheduleGoesOnFromTheStoredFull(t *testing.T) {
	f := newFixture(t)
	full := f.full(f.snapshotter())
	s := f.snapshotter()
	after := make(asked, 1)
	s.FullSchedule = after
	f.running(s)
	if got := <-after; !got.Equal(full.Time) {
		t.Errorf("the schedule was asked for the first time after %s, the last full is of %s", got, full.Time)
	}
}

func TestLimitCutsADeltaEarly(t *testing.T) {
	f := newFixture(t, etcdtest.WithoutFsync())
	s := f.snapshotter()
	s.DeltaPeriod, s.DeltaLimit, s.DeltaShare = time.Hour, 64<<10, 1000
	f.full(s)
	f.running(s)
	const n = 2000
	for i := range n {
		if _, err := f.client.Put(t.Context(), fmt.Sprint(i), incompressible(i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "most events stored long before the period is over", func() bool { events, _ := f.history(); return len(events) > n/2 })
}

func TestSharedTakeSurvivesWhoBeganIt(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	open := f.store.block()
	results := make(chan error, 2)
	go func() { _, err := s.Take(t.Context(), snapshot.Full); results <- err }()
	eventually(t, "the first upload", func() bool { return len(f.store.names()) == 3 })
	ctx, hangUp := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := s.Take(ctx, snapshot.Full); left <- err }()
	time.Sleep(50 * time.Millisecond) //nolint:forbidigo // that one is to be the first in the queue
	go func() { _, err := s.Take(t.Context(), snapshot.Full); results <- err }()
	time.Sleep(50 * time.Millisecond) //nolint:forbidigo // and this one to share it
	hangUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who hung up got %v", err)
	}
	open()
	for range 2 {
		if err := <-results; err != nil {
			t.Errorf("who did not hang up got %v", err)
		}
	}
}

// unlisted is a store whose listing never ends.
type unlisted struct{ store.Store }

func (unlisted) List(ctx context.Context, _ string) ([]store.Info, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestHangingStoreIsSaid(t *testing.T) {
	f := newFixture(t)
	f.archive = archive.New(unlisted{f.store})
	reg := prometheus.NewRegistry()
	s := f.snapshotter()
	s.Metrics = snapshotter.NewMetrics(reg)
	s.DeltaPeriod = 20 * time.Millisecond
	f.running(s)
	eventually(t, "stalled", func() bool { return gauge(t, reg, "etcd_ferry_stalled") == 1 })
	if n := gauge(t, reg, "etcd_ferry_waiting_revisions"); n != 0 {
		t.Errorf("%v revisions wait, although none was read", n)
	}
}
