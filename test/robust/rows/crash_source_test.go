package rows

import (
	"slices"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

func trapped(d *deployment) { d.Trap = newTrap(d.t) }

// TestRow29SidecarKilledAtEachPoint of Fencing, Snapshotting and Publishing, under
// writers. The kubelet starts it again, and it comes to the one decision for the
// one snapshot.
func TestRow29SidecarKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, p := range []crashpoint.Point{
		crashpoint.FenceBegun, crashpoint.Fenced, crashpoint.BeforeUpload, crashpoint.Uploading, crashpoint.AfterUpload,
		crashpoint.FinalStored, crashpoint.BeforePublish, crashpoint.Published,
	} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			a := deploy(t, "a", newFolder(t), trapped).ready()
			onA := writeTo(t, a)
			onA.more(t, 300)
			eventually(t, "something is stored", func() bool { return stored(t, a.Store) > 0 })
			b := newDeployment(t, "b", newFolder(t), 1)
			a.Trap.arm(p)
			copying := a.copyTo("b", b.Store)
			a.Trap.await(p)
			handedOverOnce(t, a, b, copying.want(0).outcome())
			if n := a.members[0].Restarts("sidecar"); n != 1 {
				t.Errorf("the sidecar was started again %d times", n)
			}
			goesOn(t, onA, a, b)
			wantSameHistory(t, a, b)
		})
	}
}

// TestRow29SidecarsOfAClusterKilled: three members, whose sidecars die one after
// the other.
func TestRow29SidecarsOfAClusterKilled(t *testing.T) {
	t.Parallel()
	a, b := newDeployment(t, "a", newFolder(t), 3), newDeployment(t, "b", newFolder(t), 3)
	trapped(a)
	a.start()
	onA := writeTo(t, a.ready())
	onA.more(t, 500)
	points := []crashpoint.Point{crashpoint.Frozen, crashpoint.AfterUpload, crashpoint.BeforePublish, crashpoint.Published}
	a.Trap.arm(points...)
	copying := a.copyTo("b", b.Store)
	a.Trap.await(points...)
	handedOverOnce(t, a, b, copying.want(0).outcome())
	goesOn(t, onA, a, b)
	wantFinalHash(t, a, b)
}

// handedOverOnce looks that the source has decided, for one final snapshot, that
// the destination has adopted just that, and that a copy that is run again finds
// it done.
func handedOverOnce(t *testing.T, a, b *deployment, done copier.Outcome) {
	t.Helper()
	o := a.Store.object(t)
	if o.Status != syncobject.Done || o.Outcome != syncobject.Completed || o.Owner.ID != b.ID || o.Generation != 1 ||
		o.Decision.By != syncobject.Source || o.Decision.Lossy || done.Lossy || !o.Snapshots.Final || len(o.Snapshots.Items) != 1 {
		t.Errorf("%+v, %+v", o, done)
	}
	whole.Through(t, a.Store.direct)
	if last := whole.Through(t, b.Store.direct); last != o.Snapshots.ThroughRevision {
		t.Errorf("the destination has a history up to revision %d, the object says %d", last, o.Snapshots.ThroughRevision)
	}
	wantOneFinal(t, a, o)
	all, err := b.Store.archive().Adoptions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ad, err := all.Current()
	if err != nil || len(all) != 1 || len(ad.Items) != 1 || ad.Items[0].Name != o.Snapshots.Items[0].Name || ad.Lossy || ad.Owner.Epoch != o.Owner.Epoch {
		t.Errorf("%d adoptions, of which counts %+v, %v", len(all), ad, err)
	}
	if again := a.copyTo(b.ID, b.Store).want(0).outcome(); !again.Before || again.OperationID != o.OperationID || again.Epoch != o.Owner.Epoch {
		t.Errorf("a copy once more: %+v", again)
	}
	if now := a.Store.object(t); now.Serial != o.Serial {
		t.Errorf("the object was written again: %+v", now)
	}
}

// wantOneFinal fails unless the final snapshot of o is the only one, and whoever
// has died before it counted was to give it the same name. Of a cluster another
// member may have stored a delta meanwhile, which it has to be later than.
func wantOneFinal(t *testing.T, a *deployment, o syncobject.Object) {
	t.Helper()
	l, err := a.Store.archive().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	finals := slices.DeleteFunc(slices.Clone(l.Manifests), func(m snapshot.Manifest) bool { return !m.Final })
	if len(finals) != 1 || finals[0].Name != o.Snapshots.Items[0].Name || finals[0].OperationID != o.OperationID {
		t.Errorf("%d final snapshots: %+v", len(finals), finals)
	}
	for _, stray := range l.Strays {
		s, err := snapshot.Parse(stray.Name)
		final := s.Kind == snapshot.Full && s.Last == o.Snapshots.ThroughRevision // another may have been cut off by the fence
		if err != nil || final && len(a.members) == 1 {
			t.Errorf("%s is there without a manifest", stray.Name)
		}
	}
}

// goesOn starts what was handed over, and looks that nothing was lost and that it
// is backed up where the history ended. The writers on a go on beside those on b.
func goesOn(t *testing.T, onA *crowd, a, b *deployment) {
	t.Helper()
	a.wantDown() // until then members of a cluster answer reads
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantBackedUp(t, b)
	onB.stop()
	a.wantDown()
	whole.Through(t, b.Store.direct)
}

// wantBackedUp waits until all that d has now is stored.
func wantBackedUp(t *testing.T, d *deployment) {
	t.Helper()
	now := d.revision(t)
	eventually(t, d.ID+" is backed up", func() bool { return stored(t, d.Store) >= now })
}
