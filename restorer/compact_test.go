package restorer_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// sourceOf asks the source itself.
type sourceOf struct{ *source }

func (l sourceOf) HashKV(ctx context.Context, revision int64) (snapshot.HashKV, error) {
	r, err := l.client.HashKV(ctx, l.Endpoint(), revision)
	if err != nil {
		return snapshot.HashKV{}, err
	}
	return snapshot.HashKV{Revision: revision, CompactRevision: r.CompactRevision, Hash: r.Hash}, nil
}

// encrypted has the archive encrypt from now on.
func encrypted(t *testing.T, a *archive.Archive) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	a.Recipients = func() ([]age.Recipient, error) { return []age.Recipient{key.Recipient()}, nil }
	a.Identities = func() ([]age.Identity, error) { return []age.Identity{key}, nil }
}

func (s *source) compactPlan(t *testing.T) restorer.Plan {
	t.Helper()
	p, err := restorer.NewCompactPlan(s.list(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *source) list(t *testing.T) archive.Listing {
	t.Helper()
	l, err := s.archive.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCompactedFullIsItsChain merges a history with leases, deletions and a
// compaction, goes on from there, and runs an etcd on what comes of it.
func TestCompactedFullIsItsChain(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, version)
			if version != etcdtest.Newest {
				encrypted(t, s.archive)
			}
			old := s.grant(t, 4000)
			s.put(t, "leased/old", "v", clientv3.WithLease(old))
			s.work(t, "before", 3)
			s.many(t, "crowd/", 5_000)
			s.full(t)
			s.work(t, "after", 3)
			middle := s.Revision(t)
			young := s.grant(t, 5000)
			s.put(t, "leased/young", "v", clientv3.WithLease(young))
			s.delta(t)
			s.txn(t, clientv3.OpDelete("crowd/", clientv3.WithPrefix()))
			s.delta(t)
			s.compactTo(t, middle)
			s.work(t, "last", 3)
			end := s.delta(t)

			before := s.list(t)
			plan := s.compactPlan(t)
			done, err := restorer.New(s.archive).Compact(t.Context(), plan, restorer.Compaction{TempDir: t.TempDir(), Source: sourceOf{s}, Tool: "test"})
			if err != nil {
				t.Fatal(err)
			}
			checkCompacted(t, done, plan, end)
			for _, m := range before.Manifests {
				if !slices.ContainsFunc(s.list(t).Manifests, func(now snapshot.Manifest) bool { return now.Name == m.Name }) {
					t.Errorf("%s is gone", m.Name)
				}
			}
			alone := s.plan(t, restorer.Options{})
			if alone.Chain.Full.Name != done.Snapshot.Name || len(alone.Chain.Deltas) != 0 {
				t.Errorf("restored would be %v", alone)
			}
			for _, revision := range []int64{middle + 1, end.Last} {
				s.checkOffline(t, revision)
			}
			s.work(t, "later", 2)
			last := s.delta(t).Last
			want := s.hash(t, last)
			s.Stop(t)
			s.checkUnder(t, version, want, map[clientv3.LeaseID]int64{old: 4000, young: 5000})
		})
	}
}

// checkCompacted looks at what is said of a new full.
func checkCompacted(t *testing.T, done restorer.Compacted, plan restorer.Plan, end snapshot.Manifest) {
	t.Helper()
	m, full := done.Snapshot, plan.Chain.Full
	if m.Kind != snapshot.Full || m.First != end.Last || m.Last != end.Last || m.Merged != int64(len(plan.Chain.Deltas)) || m.Parent != end.Name {
		t.Errorf("it is %+v, made of what ends with %s", m, end.Name)
	}
	if m.Lineage != full.Lineage || m.ClusterID != full.ClusterID || m.StorageVersion != full.StorageVersion || !m.Time.Equal(end.Time) || m.Tool != "test" {
		t.Errorf("it is %+v, the full before was %+v", m, full)
	}
	if m.HashKV == nil || m.HashKV.Revision != end.Last || done.Trial.Compared != "the source" || done.Events != plan.Events {
		t.Errorf("hash %v, trial %+v, %d events of %d", m.HashKV, done.Trial, done.Events, plan.Events)
	}
}

// wrong answers with a hash that nothing has.
type wrong struct{}

func (wrong) HashKV(_ context.Context, revision int64) (snapshot.HashKV, error) {
	return snapshot.HashKV{Revision: revision, CompactRevision: -1, Hash: 1}, nil
}

func TestCompactionThatIsRefusedDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newSource(t, etcdtest.Newest)
	s.work(t, "before", 1)
	s.full(t)
	if _, err := restorer.NewCompactPlan(s.list(t)); !errors.Is(err, restorer.ErrNoDeltas) {
		t.Errorf("without deltas: %v", err)
	}
	s.work(t, "after", 1)
	s.delta(t)
	plan := s.compactPlan(t)
	forbidden := errors.New("a hand-over has begun")
	huge := plan
	huge.Plain = 1 << 60
	dir := t.TempDir()
	for _, c := range []struct {
		plan restorer.Plan
		how  restorer.Compaction
		want string
	}{
		{huge, restorer.Compaction{}, "are needed"},
		{plan, restorer.Compaction{Source: wrong{}}, "hash of the keys"},
		{plan, restorer.Compaction{Permit: func(context.Context) error { return forbidden }}, forbidden.Error()},
	} {
		c.how.TempDir = dir
		if _, err := restorer.New(s.archive).Compact(t.Context(), c.plan, c.how); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if n := len(s.list(t).Manifests); n != 2 {
			t.Errorf("%d snapshots count after %q", n, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	// What these have left has the name; the next one is beside it.
	done, err := restorer.New(s.archive).Compact(t.Context(), plan, restorer.Compaction{TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if strays := s.list(t).Strays; len(strays) != 2 || done.Snapshot.Merged != 1 {
		t.Errorf("strays %v, stored %+v", strays, done.Snapshot)
	}
	if _, err := restorer.NewCompactPlan(s.list(t)); !errors.Is(err, restorer.ErrNoDeltas) {
		t.Errorf("a second time: %v", err)
	}
}
