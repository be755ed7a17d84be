package defrag_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/server/defrag"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// beside returns a Defragmenter of the sidecar of the member i.
func beside(t *testing.T, c *etcdtest.Cluster, i int) *defrag.Defragmenter {
	t.Helper()
	d := defrag.New(client(t, c, i))
	d.MinSize, d.Log = 1<<20, slog.New(slog.NewTextHandler(t.Output(), nil))
	return d
}

func client(t *testing.T, c *etcdtest.Cluster, i int) *etcd.Client {
	t.Helper()
	// What the other members advertise is enough.
	client, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{c.Members[i].Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// waste fills the databases, and then deletes and compacts what is in them.
func waste(t *testing.T, c *etcdtest.Cluster) {
	t.Helper()
	e := c.Members[0]
	e.Fill(t, 1000, 8<<10)
	own := e.Client(t)
	r, err := own.Delete(t.Context(), "", clientv3.WithPrefix())
	if err == nil {
		_, err = own.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leader returns the index of the leader, when all members know it and none is wasteful
// only because it has yet to compact.
func leader(t *testing.T, c *etcdtest.Cluster) int {
	t.Helper()
	for ; ; <-time.After(20 * time.Millisecond) {
		members, err := client(t, c, 0).Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ready := !slices.ContainsFunc(members, func(m etcd.Member) bool { return m.Free() < m.DBSize*9/10 })
		at := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Leader })
		if ready && at >= 0 {
			return slices.IndexFunc(c.Members, func(e *etcdtest.Etcd) bool { return e.Name == members[at].Name })
		}
	}
}

func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 3, etcdtest.WithoutFsync())
	waste(t, c)
	lead := leader(t, c)
	d := beside(t, c, lead)
	next := (lead + 1) % 3

	if done, err := beside(t, c, next).Once(t.Context()); err != nil || len(done) > 0 {
		t.Errorf("a sidecar that is not beside the leader has done %v, %v", done, err)
	}
	own := client(t, c, lead)
	if err := own.RaftFence(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wantUnwell(t, d, "a cluster that is fenced")
	if err := own.RaftUnfence(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.Members[next].Pause(t)
	wantUnwell(t, d, "a cluster with a member that does not answer")
	c.Members[next].Resume(t)
	lead = leader(t, c) // the pause may have moved it
	d = beside(t, c, lead)

	tooSmall := beside(t, c, lead)
	tooSmall.MinSize = 1 << 30
	if done, err := tooSmall.Once(t.Context()); err != nil || len(done) > 0 {
		t.Errorf("of databases that are too small: %v, %v", done, err)
	}
	var inside atomic.Int32
	d.Hold = func(ctx context.Context, work func(context.Context) error) error {
		if inside.Add(1) > 1 {
			t.Error("two members at a time")
		}
		defer inside.Add(-1)
		return work(ctx)
	}
	done, err := d.Once(t.Context())
	if err != nil || len(done) != 3 || done[2].Member != c.Members[lead].Name {
		t.Fatalf("done %+v, %v; the leader is %s", done, err, c.Members[lead].Name)
	}
	for _, m := range done {
		if m.After > m.Before/4 {
			t.Errorf("%s had %d bytes, and has %d", m.Member, m.Before, m.After)
		}
	}
	if again, err := d.Once(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("again: %v, %v", again, err)
	}
}

func wantUnwell(t *testing.T, d *defrag.Defragmenter, what string) {
	t.Helper()
	if done, err := d.Once(t.Context()); !errors.Is(err, defrag.ErrUnwell) || len(done) > 0 {
		t.Errorf("%s: done %v, %v", what, done, err)
	}
}

// soon is always about to come.
type soon struct{}

func (soon) Next(after time.Time) time.Time { return after.Add(10 * time.Millisecond) }

func TestRunDefragmentsWhenItIsTime(t *testing.T) {
	t.Parallel()
	c := etcdtest.StartCluster(t, 1, etcdtest.WithoutFsync())
	waste(t, c)
	d := beside(t, c, leader(t, c))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx, soon{})
	}()
	own := client(t, c, 0)
	for smaller := false; !smaller; <-time.After(20 * time.Millisecond) {
		members, err := own.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		smaller = members[0].DBSize < 1<<20
	}
	cancel()
	<-ended
}
