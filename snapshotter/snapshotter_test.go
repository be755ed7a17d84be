package snapshotter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// fixture is an etcd and an archive, and a store between that can be broken.
type fixture struct {
	t       *testing.T
	etcd    *etcdtest.Etcd
	client  *clientv3.Client
	store   *switchable
	archive *archive.Archive
}

func newFixture(t *testing.T, opts ...etcdtest.Option) *fixture {
	t.Helper()
	e := etcdtest.Start(t, opts...)
	s := &switchable{Store: mem.New()}
	return &fixture{t: t, etcd: e, client: e.Client(t), store: s, archive: archive.New(s)}
}

// snapshotter returns one that has just been started, as after a crash.
func (f *fixture) snapshotter() *snapshotter.Snapshotter {
	f.t.Helper()
	c, err := etcd.Dial(context.WithoutCancel(f.t.Context()), etcd.Config{Endpoints: []string{f.etcd.Endpoint()}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	s := snapshotter.New(c, f.archive)
	s.Log = slog.New(slog.NewTextHandler(f.t.Output(), nil))
	return s
}

func (f *fixture) put(keys ...string) (revision int64) {
	f.t.Helper()
	for _, key := range keys {
		r, err := f.client.Put(f.t.Context(), key, "value of "+key)
		if err != nil {
			f.t.Fatal(err)
		}
		revision = r.Header.Revision
	}
	return revision
}

func (f *fixture) full(s *snapshotter.Snapshotter) snapshot.Manifest {
	f.t.Helper()
	m, err := s.Full(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *fixture) delta(s *snapshotter.Snapshotter) snapshot.Manifest {
	f.t.Helper()
	m, err := s.Delta(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

func (f *fixture) manifests() []snapshot.Manifest {
	f.t.Helper()
	l, err := f.archive.List(f.t.Context())
	if err != nil || len(l.Problems) > 0 {
		f.t.Fatalf("%+v, %v", l.Problems, err)
	}
	return l.Manifests
}

// history decodes the deltas that lead from the newest full to the end.
func (f *fixture) history() (events []string, leases []delta.Lease) {
	f.t.Helper()
	chain, err := snapshot.Select(f.manifests(), snapshot.Target{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range chain.Deltas {
		e, l := f.decode(m)
		events, leases = append(events, e...), append(leases, l...)
	}
	return events, leases
}

func (f *fixture) decode(m snapshot.Manifest) (events []string, leases []delta.Lease) {
	f.t.Helper()
	r, err := f.archive.Open(f.t.Context(), m)
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	for d := delta.NewDecoder(r); ; {
		switch rec, err := d.Next(); {
		case err == io.EOF:
			return events, leases
		case err != nil:
			f.t.Fatal(err)
		case rec.Lease.ID != 0:
			leases = append(leases, rec.Lease)
		case rec.Tombstone:
			events = append(events, "-"+string(rec.Key))
		default:
			events = append(events, "+"+string(rec.Key))
		}
	}
}

func (f *fixture) wantHistory(want string) {
	f.t.Helper()
	events, _ := f.history()
	if got := strings.Join(events, " "); got != want {
		f.t.Errorf("deltas hold %q, want %q", got, want)
	}
}

// switchable is a store that can be made to fail and to wait.
type switchable struct {
	store.Store
	down    atomic.Bool
	mu      sync.Mutex
	blocked chan struct{} // nil: open
	created []string
}

var errDown = errors.New("the store is down")

func (s *switchable) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	s.mu.Lock()
	blocked := s.blocked
	s.created = append(s.created, name)
	s.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
			return store.Info{}, ctx.Err()
		}
	}
	if s.down.Load() {
		return store.Info{}, errDown
	}
	return s.Store.Create(ctx, name, r)
}

// block makes Create wait until the returned function is called.
func (s *switchable) block() (open func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.blocked = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.blocked = nil
		close(c)
	}
}

func (s *switchable) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.created...)
}

// eventually waits for something that Run does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // a real etcd has no virtual time
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func TestFullThenDeltas(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, etcdtest.WithVersion(version))
			before := f.put("a", "b")
			s := f.snapshotter()
			full := f.full(s)
			if full.First < before || full.Last < full.First || full.Lineage == "" || full.EtcdVersion != version {
				t.Errorf("full is %+v", full)
			}
			f.put("c", "d")
			if _, err := f.client.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			one := f.delta(s)
			f.put("e")
			two := f.delta(s)
			f.wantHistory("+c +d -a +e")
			if one.Parent != full.Name || two.Parent != one.Name || two.First != one.Last+1 || one.Events != 3 {
				t.Errorf("deltas are %+v and %+v", one, two)
			}
			if m := f.delta(s); m.Name != "" {
				t.Errorf("a delta of nothing: %+v", m)
			}
			f.put("f") // by a new snapshotter
			f.delta(f.snapshotter())
			f.wantHistory("+c +d -a +e +f")
		})
	}
}

func TestRevisionsLargerThanAMessage(t *testing.T) {
	f := newFixture(t, etcdtest.WithArgs("--max-request-bytes=20000000", "--max-txn-ops=60000"))
	s := f.snapshotter()
	f.full(s)
	ops := make([]clientv3.Op, 10)
	for i := range ops {
		ops[i] = clientv3.OpPut(fmt.Sprintf("big/%d", i), strings.Repeat("x", 1<<20))
	}
	client := bigClient(t, f.etcd)
	if _, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
		t.Fatal(err)
	}
	many := make([]clientv3.Op, 50_000)
	for i := range many {
		many[i] = clientv3.OpPut(fmt.Sprintf("many/%05d", i), "")
	}
	if _, err := client.Txn(t.Context()).Then(many...).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Delete(t.Context(), "many/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	m := f.delta(s)
	if m.Events != 10+50_000+50_000 || m.Last-m.First != 2 {
		t.Errorf("%d events in revisions %d to %d", m.Events, m.First, m.Last)
	}
}

// bigClient may send what the etcd was told to accept.
func bigClient(t *testing.T, e *etcdtest.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, MaxCallSendMsgSize: 20_000_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestLeasesAreRecordedInEveryDelta(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	lease, err := f.client.Grant(t.Context(), 1234)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, key := range []string{"x", "y"} {
			if _, err := f.client.Put(t.Context(), key, "", clientv3.WithLease(lease.ID)); err != nil {
				t.Fatal(err)
			}
		}
		_, leases := f.decode(f.delta(s))
		if want := (delta.Lease{ID: int64(lease.ID), TTL: 1234}); len(leases) != 1 || leases[0] != want {
			t.Errorf("delta tells of %v, want %v", leases, want)
		}
	}
}

func TestFailedUploadIsRepeatedUnderTheSameName(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	f.put("a")
	f.store.down.Store(true)
	for range 2 {
		if _, err := s.Delta(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
		f.put("b")
	}
	f.store.down.Store(false)
	f.delta(s)
	f.wantHistory("+a +b +b")
	names := f.store.names()[2:] // after the full and its manifest
	if names[0] != names[1] || names[0] != names[2] {
		t.Errorf("the tries were %v", names)
	}
}

func TestOwnerIsInEveryManifest(t *testing.T) {
	const lineage = "11111111-1111-4111-8111-111111111111"
	f := newFixture(t)
	owned := func() *snapshotter.Snapshotter {
		s := f.snapshotter()
		s.Epoch, s.Lineage = 7, lineage
		return s
	}
	var located []string
	s := owned()
	s.Located = func(lineage string) { located = append(located, lineage) }
	full := f.full(s)
	f.put("a")
	delta := f.delta(s)
	for _, m := range []snapshot.Manifest{full, delta} {
		if m.Epoch != 7 || m.Lineage != lineage {
			t.Errorf("manifest %+v", m)
		}
	}
	if len(located) != 1 || located[0] != lineage {
		t.Errorf("located %v", located)
	}
	other := etcdtest.Start(t) // its history is not that of the lineage
	f.etcd, f.client = other, other.Client(t)
	if m := f.full(owned()); m.Lineage == lineage || m.Lineage == "" {
		t.Errorf("another history with lineage %s", m.Lineage)
	}
}

func TestFullAfterCompaction(t *testing.T) {
	f := newFixture(t)
	first := f.full(f.snapshotter())
	revision := f.put("a", "b", "c")
	if _, err := f.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	s := f.snapshotter()
	m := f.delta(s)
	if m.Kind != snapshot.Full || m.Lineage != first.Lineage || m.First < revision {
		t.Errorf("after a compaction: %+v", m)
	}
	f.put("d")
	f.delta(s)
	f.wantHistory("+d")
}

func TestOtherDataBeginsANewLineage(t *testing.T) {
	f := newFixture(t)
	f.put("a", "b", "c")
	running := f.snapshotter()
	first := f.full(running)
	other := newFixture(t) // of another cluster id
	other.store, other.archive = f.store, f.archive
	foreign := other.delta(other.snapshotter())

	// The same name and address, hence the same cluster id, but a new data dir.
	f.etcd.Stop(t)
	f.etcd.Restart(t, etcdtest.WithDataDir(t.TempDir()))
	var replaced snapshot.Manifest
	eventually(t, "connected again", func() (ok bool) {
		var err error
		replaced, err = running.Delta(t.Context())
		return err == nil
	})
	afterwards := f.delta(f.snapshotter())

	lineages := map[string]bool{first.Lineage: true, foreign.Lineage: true, replaced.Lineage: true}
	if len(lineages) != 3 || foreign.Kind != snapshot.Full || replaced.Kind != snapshot.Full {
		t.Errorf("lineages: %s, on another cluster %s, on a new data dir %s", first.Lineage, foreign.Lineage, replaced.Lineage)
	}
	if first.ClusterID != replaced.ClusterID || foreign.ClusterID == first.ClusterID {
		t.Errorf("the test is not about what it says: cluster ids %s, %s, %s", first.ClusterID, foreign.ClusterID, replaced.ClusterID)
	}
	if afterwards.Name != "" {
		t.Errorf("a new snapshotter does not find the new lineage: %+v", afterwards)
	}
}

func TestAuthChangeAsksForAFull(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod = 50 * time.Millisecond
	f.full(s)
	if _, err := f.client.UserAddWithOptions(t.Context(), "u", "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	f.running(s)
	eventually(t, "two fulls", func() bool { return f.fulls() == 2 })
}

// running runs s until the test ends.
// running runs s until the test ends, or stop is called.
func (f *fixture) running(s *snapshotter.Snapshotter) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) fulls() (n int) {
	for _, m := range f.manifests() {
		if m.Kind == snapshot.Full {
			n++
		}
	}
	return n
}

func TestBlockedStoreBoundsMemoryAndLosesNothing(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod, s.DeltaLimit = 20*time.Millisecond, 256<<10
	f.full(s)
	f.running(s)
	open := f.store.block()
	const n = 3000
	for i := range n {
		if _, err := f.client.Put(t.Context(), fmt.Sprintf("k%d", i), incompressible(i)); err != nil {
			t.Fatal(err)
		}
	}
	open()
	eventually(t, "all events stored", func() bool { events, _ := f.history(); return len(events) == n })
	for _, m := range f.manifests() {
		if m.Kind == snapshot.Delta && m.StoredSize > 2<<20 {
			t.Errorf("%s has %d bytes", m.Name, m.StoredSize)
		}
	}
}

// TestFullBufferIsStoredBeforeItsTime has a period that never ends.
func TestFullBufferIsStoredBeforeItsTime(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod, s.DeltaLimit = time.Hour, 256<<10
	f.full(s)
	f.running(s)
	for i := range 1000 {
		if _, err := f.client.Put(t.Context(), fmt.Sprintf("k%d", i), incompressible(i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a delta", func() bool { events, _ := f.history(); return len(events) > 0 })
}

func incompressible(seed int) string {
	var b strings.Builder
	for x := uint64(seed + 1); b.Len() < 1000; x = x*6364136223846793005 + 1442695040888963407 {
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()
}

func TestRestartedEtcdIsFollowedAgain(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	s.DeltaPeriod = 50 * time.Millisecond
	f.full(s)
	f.running(s)
	f.put("a")
	eventually(t, "the first event", func() bool { e, _ := f.history(); return len(e) == 1 })
	f.etcd.Restart(t)
	f.put("b")
	eventually(t, "the event after the restart", func() bool { e, _ := f.history(); return len(e) == 2 })
	f.wantHistory("+a +b")
}

func TestNoProgressIsSaid(t *testing.T) {
	f := newFixture(t)
	reg := prometheus.NewRegistry()
	s := f.snapshotter()
	s.Metrics = snapshotter.NewMetrics(reg)
	s.DeltaPeriod = 20 * time.Millisecond
	f.store.down.Store(true)
	f.running(s)
	eventually(t, "stalled", func() bool { return gauge(t, reg, "etcd_ferry_stalled") == 1 })
	f.store.down.Store(false)
	eventually(t, "going on", func() bool { return gauge(t, reg, "etcd_ferry_stalled") == 0 })
}

// What is behind is told while it is, and by nobody who does not back up.
func TestLagIsTold(t *testing.T) {
	f := newFixture(t)
	reg := prometheus.NewRegistry()
	s := f.snapshotter()
	s.Metrics = snapshotter.NewMetrics(reg)
	s.DeltaPeriod = 20 * time.Millisecond
	is := func(name string, holds func(float64) bool) {
		t.Helper()
		eventually(t, name, func() bool { return holds(gauge(t, reg, "etcd_ferry_"+name)) })
	}
	zero, more := func(v float64) bool { return v == 0 }, func(v float64) bool { return v > 0 }
	f.put("a")
	stop := f.running(s)
	is("backup_running", more)
	eventually(t, "a full", func() bool { return f.fulls() == 1 })
	is("snapshot_required/full", zero)
	is("lag_revisions", zero)
	f.store.down.Store(true)
	f.put("b")
	for _, name := range []string{"lag_revisions", "lag_seconds", "snapshot_required/delta"} {
		is(name, more)
	}
	f.store.down.Store(false)
	for _, name := range []string{"lag_revisions", "snapshot_required/delta"} {
		is(name, zero)
	}
	f.store.down.Store(true)
	f.put("c")
	is("lag_revisions", more)
	stop()
	for _, name := range []string{"backup_running", "lag_revisions", "lag_seconds", "snapshot_required/delta", "snapshot_required/full", "stalled"} {
		if v := gauge(t, reg, "etcd_ferry_"+name); v != 0 {
			t.Errorf("%s is %v with nobody who backs up", name, v)
		}
	}
	// Whoever comes next finds what is stored.
	f.store.down.Store(false)
	reg = prometheus.NewRegistry()
	s = f.snapshotter()
	s.Metrics, s.DeltaPeriod = snapshotter.NewMetrics(reg), time.Hour
	f.running(s)
	is("snapshot_last_revision/full", more)
	is("snapshot_last_timestamp_seconds/full", more)
}

// gauge returns a metric, NAME or NAME/KIND.
func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	name, kind, _ := strings.Cut(name, "/")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == name && (len(m.Label) == 0 || m.Label[0].GetValue() == kind) {
				return m.Gauge.GetValue()
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestCallersShareATake(t *testing.T) {
	f := newFixture(t)
	s := f.snapshotter()
	f.full(s)
	open := f.store.block()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Take(t.Context(), snapshot.Full); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "the first upload", func() bool { return len(f.store.names()) == 3 })
	open()
	wg.Wait()
	if n := f.fulls(); n > 4 { // the first, one that began at once, one for those who waited
		t.Errorf("%d fulls for 20 callers", n)
	}
}
