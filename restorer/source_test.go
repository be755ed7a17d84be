package restorer_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// source is a running etcd and an archive of its history.
type source struct {
	*etcdtest.Etcd
	client  *clientv3.Client
	archive *archive.Archive
	at      int64 // how far the archive reaches
	saved   int
	compact int64
}

func newSource(t *testing.T, version string) *source {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithoutFsync(),
		etcdtest.WithArgs("--max-txn-ops=5000", "--snapshot-count=100000"))
	return &source{Etcd: e, client: e.Client(t), archive: archive.New(mem.New())}
}

// describe returns a manifest, each a minute later than the one before.
func (s *source) describe(kind snapshot.Kind, first, last int64) snapshot.Manifest {
	s.saved++
	return snapshot.Manifest{
		Kind: kind, First: first, Last: last, Time: noon.Add(time.Duration(s.saved) * time.Minute),
		EtcdVersion: s.Version, Lineage: "one", ClusterID: "c1",
	}
}

// full saves a full snapshot, streamed by etcd.
func (s *source) full(t *testing.T) snapshot.Manifest {
	t.Helper()
	first := s.Revision(t)
	stream, err := s.client.SnapshotWithVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Snapshot.Close()
	m := s.describe(snapshot.Full, first, s.Revision(t))
	m.StorageVersion = stream.Version
	if m, err = s.archive.Save(t.Context(), m, stream.Snapshot); err != nil {
		t.Fatal(err)
	}
	s.at = max(s.at, first)
	return m
}

// delta saves all events since the archive's end, as etcd's watch tells them.
func (s *source) delta(t *testing.T) snapshot.Manifest {
	t.Helper()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	defer cancel()
	first, last := s.at+1, s.Revision(t)
	buffer, err := archive.NewBuffer()
	if err != nil {
		t.Fatal(err)
	}
	encoder := delta.NewEncoder(buffer, first)
	known := map[int64]bool{}
	watch := s.client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(first), clientv3.WithFragment())
	for at := int64(0); at < last; {
		response, ok := <-watch
		if err := response.Err(); err != nil || !ok {
			t.Fatalf("watch: %v", err)
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision > last {
				t.Fatalf("event of revision %d after %d", event.Kv.ModRevision, last)
			}
			if id := event.Kv.Lease; id != 0 && !known[id] {
				known[id] = true
				s.lease(t, encoder, id)
			}
			if err := encoder.Event(event); err != nil {
				t.Fatal(err)
			}
			at = event.Kv.ModRevision
		}
	}
	m := s.describe(snapshot.Delta, first, last)
	s.at = last
	return s.saveDelta(t, m, encoder, buffer)
}

func (s *source) lease(t *testing.T, encoder *delta.Encoder, id int64) {
	t.Helper()
	r, err := s.client.TimeToLive(t.Context(), clientv3.LeaseID(id))
	if err == nil {
		err = encoder.Lease(delta.Lease{ID: id, TTL: max(r.GrantedTTL, 0)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *source) saveDelta(t *testing.T, m snapshot.Manifest, encoder *delta.Encoder, buffer *archive.Buffer) snapshot.Manifest {
	t.Helper()
	summary, err := encoder.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := buffer.Close(); err != nil {
		t.Fatal(err)
	}
	m.Events = summary.Events
	if m, err = s.archive.SaveBuffer(t.Context(), m, buffer); err != nil {
		t.Fatal(err)
	}
	return m
}

// plan makes a plan of what is saved.
func (s *source) plan(t *testing.T, o restorer.Options) restorer.Plan {
	t.Helper()
	return planOf(t, s.archive, o)
}

func planOf(t testing.TB, a *archive.Archive, o restorer.Options) restorer.Plan {
	t.Helper()
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := restorer.NewPlan(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hash returns the source's own hash at a revision.
func (s *source) hash(t *testing.T, revision int64) snapshot.HashKV {
	t.Helper()
	hash, compact := s.HashKV(t, revision)
	return snapshot.HashKV{Revision: revision, CompactRevision: compact, Hash: hash}
}

func (s *source) put(t *testing.T, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	r, err := s.client.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *source) txn(t *testing.T, ops ...clientv3.Op) int64 {
	t.Helper()
	r, err := s.client.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *source) grant(t *testing.T, ttl int64) clientv3.LeaseID {
	t.Helper()
	r, err := s.client.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// work does n rounds of everything that makes revisions.
func (s *source) work(t *testing.T, label string, n int) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%s/%d", label, i)
		s.put(t, key, "first")
		s.put(t, key, "second "+strconv.Itoa(i))
		s.txn(t, clientv3.OpPut(key+"/a", "1"), clientv3.OpPut(key+"/b", "2"), clientv3.OpPut(key+"/c", "3"))
		s.txn(t, clientv3.OpDelete(key+"/b"), clientv3.OpPut(key+"/d", "4"), clientv3.OpDelete(key+"/a"))
		s.put(t, key+"/b", "again")
		s.txn(t, clientv3.OpDelete(key)) // and a key with a new life
		s.put(t, key, "third")
	}
}

// many puts n keys below a prefix, 5,000 to a revision.
func (s *source) many(t *testing.T, prefix string, n int) {
	t.Helper()
	for from := 0; from < n; from += 5000 {
		var ops []clientv3.Op
		for i := from; i < min(from+5000, n); i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, i), "v"))
		}
		s.txn(t, ops...)
	}
}

func (s *source) compactTo(t *testing.T, revision int64) {
	t.Helper()
	compact(t, s.client, revision)
	s.compact = revision
}

func compact(t *testing.T, c *clientv3.Client, revision int64) {
	t.Helper()
	if _, err := c.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}
