package rows

import (
	"slices"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
)

// TestRow39PruningDuringACopy: a source that takes fulls and prunes all the time
// does neither from the fence on, however long the copy takes.
func TestRow39PruningDuringACopy(t *testing.T) {
	t.Parallel()
	net := newNetwork(t)
	in := net.bucket(t)
	a := deploy(t, "a", in.at(net.server.URL), func(d *deployment) {
		d.Flags = []string{"--full-schedule=@every 1s", "--delta-period=200ms", "--prune-period=200ms", "--keep-last=1", "--delta-retention=1ms"}
	}).ready()
	onA := writeTo(t, a)
	a.fill(1 << 10)
	eventually(t, "the first full is there", func() bool { return len(stock(t, a.Store)) > 0 })
	first := stock(t, a.Store)[0]
	eventually(t, "it was removed", func() bool { return !slices.Contains(stock(t, a.Store), first) })
	onA.more(t, 300)
	across, line := in.through()
	heal := net.slow(t, line, 50) // twenty seconds
	source := *a
	source.Store = across
	b := newDeployment(t, "b", newFolder(t), 1)
	copying := source.copyTo("b", b.Store)
	a.until(server.Ceded)
	before, named := stock(t, a.Store), a.Store.object(t).Snapshots
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); wait(t, 100*time.Millisecond) {
		if now := stock(t, a.Store); !slices.Equal(now, before) {
			t.Fatalf("while it is copied there is %v, there was %v", now, before)
		}
	}
	select {
	case <-copying.process.Ended():
		t.Error("the copy was to take longer")
	default:
	}
	heal()
	copying.want(0)
	for _, item := range named.Items {
		if !slices.Contains(stock(t, a.Store), item.Name) {
			t.Errorf("%s is gone", item.Name)
		}
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantFinalHash(t, a, b)
}

// stock are the names of all snapshots.
func stock(t *testing.T, in container) (names []string) {
	t.Helper()
	l, err := in.archive().List(t.Context())
	if err != nil {
		return nil // nothing was written yet
	}
	for _, m := range l.Manifests {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}
