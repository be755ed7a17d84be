package etcd_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const generation = 0x1234567

// TestRaftFence is the row of HANDOVER §1 about several members: with clients
// writing to all of them, what is read behind the fence has all that was
// acknowledged, and nothing can be written on any of them until it is lifted.
func TestRaftFence(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cluster := etcdtest.StartCluster(t, 3, etcdtest.WithVersion(version))
			ferry := dial(t, cluster.Endpoints()...)
			fenced(t, ferry, 0)
			var writers []*etcdtest.Writer
			for _, e := range cluster.Members {
				writers = append(writers, etcdtest.StartWriter(t, e.Client(t), e.Name+"/", 4))
			}
			lease, err := cluster.Members[0].Client(t).Grant(t.Context(), 3600)
			must(t, err)
			for _, w := range writers {
				w.WaitAcked(t, 100)
			}

			begun := time.Now()
			must(t, ferry.RaftFence(t.Context(), generation))
			took := time.Since(begun)
			status, err := ferry.Status(t.Context())
			must(t, err)
			for _, w := range writers {
				w.Stop()
				for _, ack := range w.Acked() {
					if ack.Revision > status.Revision {
						t.Errorf("%v was acknowledged after revision %d", ack, status.Revision)
					}
				}
			}
			t.Logf("fenced in %v at revision %d", took, status.Revision)
			must(t, ferry.RaftFence(t.Context(), generation)) // again
			allRefuse(t, cluster, lease.ID, status.Revision)
			cluster.Stop(t)
			restart(t, cluster)
			allRefuse(t, cluster, lease.ID, status.Revision)
			for i, w := range writers {
				w.Check(t, cluster.Members[(i+1)%3].Client(t))
			}

			must(t, ferry.RaftUnfence(t.Context(), generation+1)) // not this one
			fenced(t, ferry, generation)
			must(t, ferry.RaftUnfence(t.Context(), generation))
			must(t, ferry.RaftUnfence(t.Context(), generation))
			fenced(t, ferry, 0)
			for _, e := range cluster.Members {
				_, err := e.Client(t).Put(t.Context(), "lifted", e.Name)
				must(t, err)
			}
		})
	}
}

// allRefuse tries every kind of write on every member, and that reading works.
func allRefuse(t *testing.T, cluster *etcdtest.Cluster, lease clientv3.LeaseID, revision int64) {
	t.Helper()
	for _, e := range cluster.Members {
		c := e.Client(t)
		txn := func(ctx context.Context, op clientv3.Op) error { return do(c.Txn(ctx).Then(op).Commit()) }
		for name, write := range map[string]func(context.Context) error{
			"put":                func(ctx context.Context) error { return do(c.Put(ctx, "key", "value")) },
			"put with lease":     func(ctx context.Context) error { return do(c.Put(ctx, "key", "", clientv3.WithLease(lease))) },
			"delete":             func(ctx context.Context) error { return do(c.Delete(ctx, "m0/", clientv3.WithPrefix())) },
			"transaction":        func(ctx context.Context) error { return txn(ctx, clientv3.OpPut("key", "value")) },
			"delete transaction": func(ctx context.Context) error { return txn(ctx, clientv3.OpDelete("m0/", clientv3.WithPrefix())) },
			"compaction":         func(ctx context.Context) error { return do(c.Compact(ctx, revision)) },
			"grant":              func(ctx context.Context) error { return do(c.Grant(ctx, 3600)) },
			"revocation":         func(ctx context.Context) error { return do(c.Revoke(ctx, lease)) },
		} {
			if err := write(t.Context()); !errors.Is(err, rpctypes.ErrCorrupt) {
				t.Errorf("%s: %s: %v", e, name, err)
			}
		}
		ferry := dial(t, e.Endpoint())
		fenced(t, ferry, generation)
		status, err := ferry.Status(t.Context())
		must(t, err)
		if status.Revision != revision {
			t.Errorf("%s: revision %d, was %d", e, status.Revision, revision)
		}
		must(t, do(ferry.HashKV(t.Context(), 0)))
		content, err := ferry.Snapshot(t.Context())
		must(t, err)
		must(t, do(io.Copy(io.Discard, content)))
		must(t, content.Close())
	}
}

// restart starts all members at once: one alone would wait for the others.
func restart(t *testing.T, cluster *etcdtest.Cluster) {
	t.Helper()
	cluster.Start(t)
	for _, e := range cluster.Members {
		e.WaitHealthy(t)
	}
}

// TestRaftFenceGeneration: what does not fit into an alarm is no generation.
func TestRaftFenceGeneration(t *testing.T) {
	ferry := dial(t, "127.0.0.1:1") // nobody is asked
	for _, g := range []int64{-1, 0, 1 << 56} {
		if err := ferry.RaftFence(t.Context(), g); !errors.Is(err, etcd.ErrGeneration) {
			t.Errorf("fence for %d: %v", g, err)
		}
		if err := ferry.RaftUnfence(t.Context(), g); !errors.Is(err, etcd.ErrGeneration) {
			t.Errorf("lift %d: %v", g, err)
		}
	}
}

func fenced(t *testing.T, ferry *etcd.Client, want int64) {
	t.Helper()
	g, is, err := ferry.RaftFenced(t.Context())
	must(t, err)
	if g != want || is != (want > 0) {
		t.Errorf("fenced for generation %d (%t), want %d", g, is, want)
	}
}

func dial(t *testing.T, endpoints ...string) *etcd.Client {
	t.Helper()
	c, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: endpoints})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do drops the answer.
func do(_ any, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
