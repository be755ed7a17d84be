package server

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// An operation of a name that was used before: it is refused, and if nobody
// remembers the name any more the old final snapshot is not taken for the new one.
func TestOperationOfAUsedName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		for i, name := range []string{"tuesday", "wednesday", "tuesday"} {
			w.serving()
			revision := int64(100 * (i + 1))
			w.member.set(func(m *fakeMember) { m.revision = revision })
			if i == 2 {
				if _, _, err := w.Initiate(t.Context(), name); !errors.Is(err, syncobject.ErrDecided) {
					t.Errorf("used again: %v", err)
				}
			}
			w.change(func(o syncobject.Object) (syncobject.Object, error) {
				o.Past = nil
				return o.Initiate(syncobject.Request{OperationID: name, Owner: w.Status().Holder, At: time.Now()})
			})
			w.wait(Ceded)
			o := w.object()
			if o.OperationID != name || o.Status != syncobject.Ready || o.Snapshots.ThroughRevision != revision {
				t.Errorf("%s: %s through %d, acknowledged is %d", name, o.Status, o.Snapshots.ThroughRevision, revision)
			}
			if _, err := w.Reclaim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
