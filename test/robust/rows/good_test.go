package rows

import (
	"testing"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestRow01InitiateIdle(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	crowd := writeTo(t, a)
	crowd.more(t, 1_000)
	crowd.stop()
	a.initiate()
	a.until(server.Ceded)
	o := a.Store.object(t)
	if o.Status != syncobject.Ready || o.Decision.By != syncobject.Source || o.Decision.Lossy {
		t.Fatalf("%+v", o)
	}
	b := newDeployment(t, "b", newFolder(t), 1)
	done := a.copyTo("b", b.Store).want(0).outcome()
	if o := a.Store.object(t); o.Status != syncobject.Done || o.Owner.ID != "b" || done.Lossy || done.ThroughRevision != o.Snapshots.ThroughRevision {
		t.Errorf("%+v, %+v", done, o)
	}
	b.takeOver()
	crowd.wantKept(t, b)
	wantSameHistory(t, a, b)
	a.wantDown()
}

// TestRow02WritersOnOldConnections and row 3: writers that ignore readiness, on
// connections that they keep and on new ones.
func TestRow02And03WritersThatIgnoreReadiness(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	onA := writeTo(t, a)
	onA.more(t, 2_000)
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	onA.refused(t)
	b.takeOver()
	onB := writeTo(t, b)
	onB.more(t, 500)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantSameHistory(t, a, b)
	a.wantDown()
	t.Log(onA, onB)
}
