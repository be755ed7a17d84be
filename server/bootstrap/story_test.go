package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// testDiskLost is a destination that serves what it was handed and loses its disk:
// before it has stored anything of its own, and after.
func testDiskLost(t *testing.T, p past) {
	s := newSite(t, clone(t, p.store))
	adopt(t, s.store, second, nil)
	reg := prometheus.NewRegistry()
	s.Metrics = bootstrap.NewMetrics(reg)

	s.prepared(t, second, "")
	e, _ := s.start(t)
	if r := e.Revision(t); r != p.last {
		t.Errorf("etcd starts at revision %d, was handed %d", r, p.last)
	}
	e.Fill(t, 10, 10) // and nobody stores it
	seen := e.Revision(t)
	e.Stop(t)
	s.loseDisk(t)

	s.prepared(t, second, "")
	e, c := s.start(t)
	if r := e.Revision(t); r <= seen {
		t.Errorf("after clients have seen revision %d, etcd starts at %d", seen, r)
	}
	if err := watchFrom(t, c, seen); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("a watch that goes on: %v", err)
	}
	b := backUp(t, e, s.store, second)
	full := b.full(t)
	if full.Lineage != lineageB || full.Epoch != second.Epoch {
		t.Errorf("the new history is lineage %s in epoch %d", full.Lineage, full.Epoch)
	}
	if _, err := c.Put(t.Context(), "served", "by b"); err != nil {
		t.Fatal(err)
	}
	last := b.delta(t).Last
	e.Stop(t)
	s.loseDisk(t)

	s.prepared(t, second, lineageB)
	e, c = s.start(t)
	r, err := c.Get(t.Context(), "served")
	if err != nil || len(r.Kvs) != 1 || r.Header.Revision != last+bootstrap.DefaultBump {
		t.Errorf("%v at revision %v, %v; stored was %d", r.Kvs, r.Header, err, last)
	}
	e.Stop(t)
	want := `# HELP etcd_ferry_bootstrap_lossy_restores_total Restores before etcd was let in that may lack acknowledged writes; the revision was bumped.
# TYPE etcd_ferry_bootstrap_lossy_restores_total counter
etcd_ferry_bootstrap_lossy_restores_total 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "etcd_ferry_bootstrap_lossy_restores_total"); err != nil {
		t.Error(err)
	}
}

// testEarlyBackup is a server that was started beside its copy and has backed up as
// it was before: in epoch 0. Its disk is nevertheless of what was handed over.
func testEarlyBackup(t *testing.T, p past) {
	s := newSite(t, clone(t, p.store))
	adopt(t, s.store, second, nil)
	early := syncobject.Holder{ID: second.ID}
	s.prepared(t, early, "")
	e, c := s.start(t)
	b := backUp(t, e, s.store, early)
	full := b.full(t)
	if _, err := c.Put(t.Context(), "served", "by b"); err != nil {
		t.Fatal(err)
	}
	b.delta(t)
	e.Stop(t)
	before := content(t, s.dataDir)
	s.prepared(t, syncobject.Holder{ID: second.ID, Epoch: second.Epoch, Lineage: full.Lineage}, full.Lineage)
	if content(t, s.dataDir) != before || len(s.aside(t)) != 0 {
		t.Errorf("what was served is not kept; moved aside: %v", s.aside(t))
	}
}

// TestCopyThatBeginsMeanwhileIsSeen has a copy into the container begin just before
// a member is noted as let in, and just after.
func TestCopyThatBeginsMeanwhileIsSeen(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after %v", after), func(t *testing.T) {
			objects := mem.New()
			a := archive.New(objects)
			begin := func() {
				if err := a.BeginAdoption(t.Context(), archive.BegunAdoption{OperationID: "op", Owner: "a"}); err != nil {
					t.Error(err)
				}
			}
			s := newSite(t, storetest.NewFaulty(objects, func(c storetest.Call) storetest.Fault {
				switch {
				case c.Op != storetest.Create:
				case after:
					return storetest.Fault{Then: begin}
				default:
					begin()
				}
				return storetest.Fault{}
			}))
			if _, err := s.prepare(t, nobody, ""); !errors.Is(err, archive.ErrAdopting) {
				t.Errorf("let in beside a copy: %v", err)
			}
			if err := a.SettleAdoption(t.Context(), "op", archive.AdoptionWithdrawn); err != nil {
				t.Fatal(err)
			}
			s.prepared(t, nobody, "")
		})
	}
}

func (s *site) loseDisk(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(s.dataDir); err != nil {
		t.Fatal(err)
	}
}

func watchFrom(t *testing.T, c *clientv3.Client, revision int64) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for r := range c.Watch(ctx, "k", clientv3.WithRev(revision)) {
		return r.Err()
	}
	return errors.New("the watch has just ended")
}

// testCrash lets every call to the store fail in turn, and what follows it, as if
// the process had ended there; then it is tried again.
func testCrash(t *testing.T, p past) {
	for _, disk := range []string{"", "late"} {
		t.Run("disk "+disk, func(t *testing.T) {
			n := 0
			for crashes(t, p, disk, n) {
				n++
			}
			if n < 5 {
				t.Errorf("only %d calls", n)
			}
		})
	}
}

// crashes lets n calls to the store pass, and reports whether there were more.
func crashes(t *testing.T, p past, disk string, n int) bool {
	t.Helper()
	objects := clone(t, p.store)
	adopt(t, objects, second, nil)
	var calls atomic.Int64
	faulty := storetest.NewFaulty(objects, func(storetest.Call) storetest.Fault {
		if calls.Add(1) > int64(n) {
			return storetest.Fault{Err: errors.New("cut")}
		}
		return storetest.Fault{}
	})
	s := newSite(t, faulty)
	s.place(t, p, disk)
	before := content(t, s.dataDir)
	_, err := s.prepare(t, second, "")
	s.store = objects
	if there := content(t, s.dataDir); err != nil && there != before {
		s.restored(t, false, p.last) // whole, it just does not count yet
	} else if err == nil && there == before {
		t.Error("nothing was restored")
	}
	again := siteAt(t, objects, s.dataDir)
	if lineage := again.prepared(t, second, ""); lineage != lineageB {
		t.Errorf("lineage %q", lineage)
	}
	again.restored(t, false, p.last) // nobody has been let in, so no write is lost
	if left, _ := filepath.Glob(filepath.Dir(s.dataDir) + "/*.restoring"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if aside := again.aside(t); len(aside) != min(1, len(disk)) {
		t.Errorf("moved aside: %v", aside)
	}
	return err != nil
}

// testEnded is a restore that is told to stop: the data dir stays as it was.
func testEnded(t *testing.T, p past) {
	s := newSite(t, clone(t, p.store))
	adopt(t, s.store, second, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("not the owner any more")
	cancel(why)
	if _, err := s.Prepare(ctx, second, ""); err == nil {
		t.Fatal("no error")
	}
	if content(t, s.dataDir) != "" {
		t.Error("something was made")
	}
}

// TestAccept lets in a data dir that is in doubt, and only in the state that was
// named: one that was restored in place by etcd's own tool, under its old cluster
// id, looks like an old copy and is none.
func TestAccept(t *testing.T) {
	const token = "--initial-cluster-token=etcd-cluster"
	e := etcdtest.Start(t)
	s := newSite(t, mem.New())
	b := backUp(t, e, s.store, first)
	e.Fill(t, 20, 100)
	early := b.full(t)
	e.Fill(t, 20, 100)
	b.delta(t)
	e.Stop(t)

	file := filepath.Join(t.TempDir(), "db")
	plain, err := archive.New(s.store).Open(t.Context(), early)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(plain); err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(plain.Close(), f.Close())
	out, err := exec.CommandContext(t.Context(), etcdtest.Tool(t, etcdtest.Newest, "etcdutl"), "snapshot", "restore", file, "--data-dir", s.dataDir,
		"--name", e.Name, "--initial-cluster", e.Name+"="+e.PeerURL, "--initial-advertise-peer-urls", e.PeerURL, token).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := content(t, s.dataDir)
	_, err = s.prepare(t, first, lineageA)
	if !errors.Is(err, bootstrap.ErrRefused) || content(t, s.dataDir) != before {
		t.Fatalf("error %v, or the data dir was touched", err)
	}
	_, after, found := strings.Cut(err.Error(), "--accept-data-dir ")
	if !found {
		t.Fatalf("it does not say what to give: %v", err)
	}
	s.Accept, _, _ = strings.Cut(after, ";")
	if lineage := s.prepared(t, first, lineageA); lineage != lineageA || content(t, s.dataDir) != before {
		t.Errorf("lineage %q, or the data dir was touched", lineage)
	}
	s.Accept += "0"
	if _, err := s.prepare(t, first, lineageA); !errors.Is(err, bootstrap.ErrRefused) {
		t.Errorf("another state: %v", err)
	}
}

// testMembers hands a container to a cluster of three. Each is restored once; one
// that loses its disk later must not come back that way.
func testMembers(t *testing.T, p past) {
	objects := clone(t, p.store)
	adopt(t, objects, second, nil)
	cluster := etcdtest.NewCluster(t, 3)
	var sites []*site
	for _, m := range cluster.Members {
		s := siteAt(t, objects, m.DataDir)
		s.Options.Name, s.Options.InitialCluster = m.Name, cluster.Initial()
		s.prepared(t, second, "")
		s.prepared(t, second, lineageB) // as after a restart
		sites = append(sites, s)
	}
	cluster.Start(t)
	for _, m := range cluster.Members {
		if r := m.Revision(t); r != p.last {
			t.Errorf("%s starts at revision %d, was handed %d", m.Name, r, p.last)
		}
	}
	backUp(t, cluster.Members[0], objects, second).full(t)
	cluster.Stop(t)

	for _, s := range sites { // a member may be behind
		if lineage := s.prepared(t, second, lineageB); lineage != lineageB {
			t.Errorf("lineage %q", lineage)
		}
	}
	lost := sites[2]
	lost.loseDisk(t)
	for _, have := range []string{"", lineageB} {
		if _, err := lost.prepare(t, second, have); !errors.Is(err, bootstrap.ErrRefused) || !strings.Contains(err.Error(), "member remove") {
			t.Errorf("a member that has voted: %v", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(fence.DB(lost.dataDir)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fence.DB(lost.dataDir), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.prepare(t, second, ""); !errors.Is(err, bootstrap.ErrRefused) {
		t.Errorf("a member whose database is broken: %v", err)
	}
}

// TestNewCluster begins a cluster of three, whose members come one after the other.
func TestNewCluster(t *testing.T) {
	objects := mem.New()
	cluster := etcdtest.NewCluster(t, 3)
	at := func(i int) *site {
		m := cluster.Members[i]
		s := siteAt(t, objects, m.DataDir)
		s.Options.Name, s.Options.InitialCluster = m.Name, cluster.Initial()
		return s
	}
	for i := range 2 {
		at(i).prepared(t, nobody, "")
	}
	cluster.Start(t)
	backUp(t, cluster.Members[0], objects, first).full(t)
	cluster.Stop(t)
	late := at(2)
	late.loseDisk(t) // as if it had not begun yet
	late.prepared(t, first, "")
	if _, err := late.prepare(t, first, ""); !errors.Is(err, bootstrap.ErrRefused) {
		t.Errorf("twice: %v", err)
	}

	known := at(0)
	known.loseDisk(t)
	known.Options.InitialCluster, known.Members = "", func() int { return 3 }
	known.Options.Name = "another"
	if _, err := known.prepare(t, first, ""); err == nil || !strings.Contains(err.Error(), "does not name them") {
		t.Errorf("a cluster of which only its size is known: %v", err)
	}
}
