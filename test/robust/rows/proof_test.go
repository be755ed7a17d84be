package rows

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// takeOver starts a deployment that something was handed to, and returns when it
// serves.
func (d *deployment) takeOver() *deployment {
	d.t.Helper()
	d.start()
	return d.ready()
}

// wantDown waits until no etcd of the deployment runs, nobody answers its clients
// and its readiness probes fail.
func (d *deployment) wantDown() {
	d.t.Helper()
	for _, m := range d.members {
		eventually(d.t, m.name+" is down", func() bool { return m.etcd() == 0 && !m.listens() && !m.Ready("etcd") })
	}
}

// etcd is the process id of the member's etcd, 0 if it does not run.
func (m *member) etcd() int {
	for _, pid := range m.PIDs("etcd") {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == "etcd" {
			return pid
		}
	}
	return 0
}

// wantSameHistory fails unless dest holds the history that is on the disk of
// source, which must be down: a plain etcd on a copy of the source's data dir is
// asked for the hash.
func wantSameHistory(t *testing.T, source, dest *deployment) {
	t.Helper()
	m := source.members[0]
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.CopyFS(dir, os.DirFS(m.dataDir)); err != nil {
		t.Fatal(err)
	}
	plain := etcdtest.Start(t, etcdtest.WithVersion(source.Version), etcdtest.WithDataDir(dir))
	revision := plain.Revision(t)
	want, compacted := plain.HashKV(t, revision)
	plain.Stop(t)
	for _, m := range dest.members {
		if got := m.hash(t, revision); got.Hash != want || got.CompactRevision != compacted {
			t.Errorf("at revision %d %s has the hash %d (compacted %d), %s has %d (compacted %d)",
				revision, m.name, got.Hash, got.CompactRevision, source.ID, want, compacted)
		}
	}
}

// revision is the newest one.
func (d *deployment) revision(t *testing.T) int64 {
	t.Helper()
	c, err := d.members[0].dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Get(t.Context(), "any", clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func (m *member) hash(t *testing.T, revision int64) *clientv3.HashKVResponse {
	t.Helper()
	c, err := m.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.HashKV(t.Context(), "http://"+m.client, revision)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantFinalHash fails unless dest has, at the revision of what source handed over
// by itself, the hash that was taken of it.
func wantFinalHash(t *testing.T, source, dest *deployment) {
	t.Helper()
	o := source.Store.object(t)
	l, err := source.Store.archive().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(l.Manifests, func(m snapshot.Manifest) bool { return m.Final && m.OperationID == o.OperationID })
	if i < 0 || l.Manifests[i].HashKV == nil {
		t.Fatalf("no final snapshot with a hash of operation %s", o.OperationID)
	}
	want := l.Manifests[i].HashKV
	for _, m := range dest.members {
		if got := m.hash(t, want.Revision); got.Hash != want.Hash || got.CompactRevision != want.CompactRevision {
			t.Errorf("at revision %d %s has the hash %d (compacted %d), the final snapshot %d (compacted %d)",
				want.Revision, m.name, got.Hash, got.CompactRevision, want.Hash, want.CompactRevision)
		}
	}
}
