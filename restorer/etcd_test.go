package restorer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestRestoredEtcdEqualsSource restores a history with everything in it and
// runs it under the source's version of etcd and all newer ones.
func TestRestoredEtcdEqualsSource(t *testing.T) {
	for i, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, version)
			old := s.grant(t, 4000)
			s.put(t, "leased/old", "v", clientv3.WithLease(old))
			s.work(t, "before", 5)
			s.many(t, "crowd/", 50_000)
			early := s.Revision(t) - 1 // before the full
			s.full(t)

			s.work(t, "after", 5)
			middle := s.Revision(t)
			young := s.grant(t, 5000)
			s.put(t, "leased/young", "v", clientv3.WithLease(young))
			s.put(t, "leased/twin", "v", clientv3.WithLease(young))
			s.put(t, "leased/old", "w", clientv3.WithLease(old))
			s.delta(t)
			s.txn(t, clientv3.OpDelete("crowd/", clientv3.WithPrefix())) // 50,000 tombstones in one revision
			boundary := s.delta(t).Last
			s.compactTo(t, early)
			gone := s.grant(t, 6000)
			s.put(t, "leased/gone", "v", clientv3.WithLease(gone))
			if _, err := s.client.Revoke(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			s.work(t, "last", 5)
			end := s.delta(t).Last

			for _, revision := range []int64{middle, boundary - 1, boundary, boundary + 1} {
				s.checkOffline(t, revision)
			}
			want := s.hash(t, end)
			s.Stop(t)
			for _, newer := range etcdtest.Versions[i:] {
				s.checkUnder(t, newer, want, map[clientv3.LeaseID]int64{old: 4000, young: 5000})
			}
			for _, older := range etcdtest.Versions[:i] {
				l, err := s.archive.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := restorer.NewPlan(l, restorer.Options{EtcdVersion: older}); !errors.Is(err, restorer.ErrVersion) {
					t.Errorf("a plan for etcd %s: %v", older, err)
				}
			}
		})
	}
}

// checkOffline restores to a revision and compares the hash without an etcd.
func (s *source) checkOffline(t *testing.T, revision int64) {
	t.Helper()
	want := s.hash(t, revision)
	plan := s.plan(t, restorer.Options{Target: snapshot.Target{Revision: revision}})
	dir := filepath.Join(t.TempDir(), "etcd")
	result, err := restorer.New(s.archive).Do(t.Context(), plan, dir)
	if err != nil {
		t.Fatal(err)
	}
	if result.Revision != revision {
		t.Errorf("restored to revision %d, want %d", result.Revision, revision)
	}
	got, err := restorer.Hash(t.Context(), dir, 0, s.compact)
	if err != nil || got != want {
		t.Errorf("restored: %+v, %v; source: %+v", got, err, want)
	}
}

// checkUnder restores everything and runs an etcd on it.
func (s *source) checkUnder(t *testing.T, version string, want snapshot.HashKV, leases map[clientv3.LeaseID]int64) {
	t.Helper()
	target := etcdtest.NewCluster(t, 1, etcdtest.WithVersion(version))
	e := target.Members[0]
	plan := s.plan(t, restorer.Options{Name: e.Name, InitialCluster: target.Initial(), EtcdVersion: version})
	if _, err := restorer.New(s.archive).Do(t.Context(), plan, e.DataDir); err != nil {
		t.Fatal(err)
	}
	target.Start(t)
	defer target.Stop(t)
	client := e.Client(t)
	if e.Revision(t) != want.Revision {
		t.Errorf("etcd %s starts at revision %d, want %d", version, e.Revision(t), want.Revision)
	}
	compact(t, client, want.CompactRevision)
	if hash, _ := e.HashKV(t, want.Revision); hash != want.Hash {
		t.Errorf("etcd %s: hash %d at revision %d, the source has %d", version, hash, want.Revision, want.Hash)
	}
	for id, ttl := range leases {
		checkLease(t, client, id, ttl)
	}
	if _, err := client.Put(t.Context(), "after", "restore"); err != nil {
		t.Error(err)
	}
}

func checkLease(t *testing.T, c *clientv3.Client, id clientv3.LeaseID, ttl int64) {
	t.Helper()
	r, err := c.TimeToLive(t.Context(), id, clientv3.WithAttachedKeys())
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Get(t.Context(), "leased/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, kv := range all.Kvs {
		if kv.Lease == int64(id) {
			want = append(want, string(kv.Key))
		}
	}
	for _, key := range r.Keys {
		got = append(got, string(key))
	}
	slices.Sort(got)
	if r.GrantedTTL != ttl || len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("lease %x: granted %d s, attached to %v; want %d s and %v", id, r.GrantedTTL, got, ttl, want)
	}
}

// TestUnknownLeaseExpires restores a key whose lease is gone from the source, at
// a revision where the key was there: etcd will end the lease in a few seconds.
func TestUnknownLeaseExpires(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.full(t)
	lease := s.grant(t, 1000)
	there := s.put(t, "leased", "v", clientv3.WithLease(lease))
	if _, err := s.client.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	s.delta(t)
	target := etcdtest.NewCluster(t, 1)
	e := target.Members[0]
	plan := s.plan(t, restorer.Options{
		Target: snapshot.Target{Revision: there}, Name: e.Name, InitialCluster: target.Initial(),
	})
	if _, err := restorer.New(s.archive).Do(t.Context(), plan, e.DataDir); err != nil {
		t.Fatal(err)
	}
	target.Start(t)
	client := e.Client(t)
	r, err := client.TimeToLive(t.Context(), lease, clientv3.WithAttachedKeys())
	if err != nil {
		t.Fatal(err)
	}
	if r.GrantedTTL <= 0 || r.GrantedTTL > 10 || len(r.Keys) != 1 {
		t.Errorf("lease: granted %d s, %d keys; want a few seconds and the key", r.GrantedTTL, len(r.Keys))
	}
}

// TestRestoredCluster restores each of three members on its own.
func TestRestoredCluster(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.full(t)
	s.work(t, "k", 3)
	s.delta(t)
	want := s.hash(t, s.at)
	target := etcdtest.NewCluster(t, 3)
	ids := map[string]bool{}
	for _, e := range target.Members {
		plan := s.plan(t, restorer.Options{Name: e.Name, InitialCluster: target.Initial()})
		result, err := restorer.New(s.archive).Do(t.Context(), plan, e.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		ids[result.ClusterID] = true
	}
	if len(ids) != 1 {
		t.Fatalf("the members are of different clusters: %v", ids)
	}
	target.Start(t)
	for _, e := range target.Members {
		if hash, _ := e.HashKV(t, want.Revision); hash != want.Hash {
			t.Errorf("%s: hash %d, want %d", e, hash, want.Hash)
		}
	}
	members, err := target.Members[0].Client(t).MemberList(t.Context())
	if err != nil || len(members.Members) != 3 {
		t.Errorf("members: %v, %v", members, err)
	}
}

// TestBump sees what etcdutl promises of a bumped revision.
func TestBump(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.full(t)
	before := s.put(t, "k", "v")
	s.delta(t)
	target := etcdtest.NewCluster(t, 1)
	e := target.Members[0]
	plan := s.plan(t, restorer.Options{
		Name: e.Name, InitialCluster: target.Initial(), BumpRevision: 1_000_000, MarkCompacted: true,
	})
	result, err := restorer.New(s.archive).Do(t.Context(), plan, e.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	target.Start(t)
	client := e.Client(t)
	if got := e.Revision(t); got != before+1_000_000 || result.Current != got || result.Revision != before {
		t.Errorf("etcd is at revision %d, restored %+v; want %d", got, result, before+1_000_000)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response := <-client.Watch(ctx, "k", clientv3.WithRev(before))
	if response.CompactRevision != before+1_000_000 {
		t.Errorf("a watch from before the bump: %+v, want it compacted", response)
	}
	r, err := client.Get(t.Context(), "k")
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].ModRevision != before {
		t.Errorf("k is %v, %v", r, err)
	}
}

// TestRunningEtcdIsLeftAlone until it is stopped; then its data dir is moved aside.
func TestRunningEtcdIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.put(t, "k", "v")
	s.full(t)
	plan := s.plan(t, restorer.Options{})
	_, err := restorer.New(s.archive).Do(t.Context(), plan, s.DataDir)
	if !errors.Is(err, restorer.ErrBusy) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("restore into a running etcd's data dir: %v", err)
	}
	s.Stop(t)
	result, err := restorer.New(s.archive).Do(t.Context(), plan, s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(result.MovedAside, "member", "snap", "db")); err != nil {
		t.Errorf("the old data dir: %v", err)
	}
	if base := filepath.Base(result.MovedAside); !strings.HasPrefix(base, filepath.Base(s.DataDir)+".before-") {
		t.Errorf("moved aside to %s", result.MovedAside)
	}
	entries, err := os.ReadDir(filepath.Dir(s.DataDir))
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the data dir: %v, %v", entries, err)
	}
}

// TestTrial compares with the source, and finds a hash that differs.
func TestTrial(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.work(t, "a", 3)
	s.full(t)
	s.work(t, "b", 3)
	s.delta(t)
	s.compactTo(t, s.at-3)
	parent := t.TempDir()
	killed := filepath.Join(parent, "etcd-ferry-trial-1", "data", "member")
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	r, plan := restorer.New(s.archive), s.plan(t, restorer.Options{})
	trial, err := r.Trial(t.Context(), plan, parent, asked{s, t})
	if err != nil {
		t.Fatal(err)
	}
	if trial.HashKV != s.hash(t, s.at) || trial.Compared == "" || trial.Result.Revision != s.at {
		t.Errorf("trial: %+v", trial)
	}
	other := s.hash(t, s.at)
	other.Hash++
	plan.Chain.Deltas[0].HashKV = &other
	if _, err := r.Trial(t.Context(), plan, parent, nil); err == nil || !strings.Contains(err.Error(), "hash of the keys") {
		t.Errorf("trial against another hash: %v", err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// asked is a source that answers for its hash.
type asked struct {
	s *source
	t *testing.T
}

func (a asked) HashKV(_ context.Context, revision int64) (snapshot.HashKV, error) {
	return a.s.hash(a.t, revision), nil
}
