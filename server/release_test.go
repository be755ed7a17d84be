package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// A sidecar that is told to stop when the store has been away for nearly a lease.
func TestLeaseThatEndsWhileStoppingEndsEtcd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.faults.set(cut)
		sleep(t.Context(), w.lease.remaining()-time.Second)
		tick, began := w.Timing.Tick, time.Now()
		w.stop()
		if running, _ := w.member.Running(); running {
			t.Errorf("etcd runs %v after the lease was over", time.Since(began)-time.Second)
		}
		if late := w.member.seen().fencedAt.Sub(began); late > time.Second+tick {
			t.Errorf("etcd was ended %v after the order to stop, the lease had one second", late)
		}
	})
}

func TestRelease(t *testing.T) {
	tenancy := func(w *world) syncobject.Owner {
		o, err := syncobject.NewOwnerFile(w.store).Read(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return o
	}
	t.Run("with etcd", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start()
			w.serving()
			time.AfterFunc(2*time.Second, w.member.end)
			w.stop()
			if o := tenancy(w); o.State != syncobject.Released {
				t.Errorf("owner.json %+v", o)
			}
			if all := w.listed(w.store); len(all) != 1 || all[0].Final || all[0].Last != 100 {
				t.Errorf("stored %v", all)
			}
			var order []string
			w.configure = func(e *Election) {
				e.tenancy = syncobject.NewOwnerFile(storetest.NewFaulty(w.store, func(c storetest.Call) storetest.Fault {
					order = append(order, string(c.Op)+" "+c.Name)
					return storetest.Fault{}
				}))
				e.object = syncobject.NewFile(storetest.NewFaulty(w.store, func(c storetest.Call) storetest.Fault {
					order = append(order, string(c.Op)+" "+c.Name)
					return storetest.Fault{}
				}))
			}
			w.start()
			w.serving()
			if got := strings.Join(order[:3], ", "); got != "read owner.json, swap owner.json, read copy-operation.json" {
				t.Errorf("order on waking: %s", got)
			}
			if o := tenancy(w); o.State != syncobject.Held {
				t.Errorf("owner.json after waking %+v", o)
			}
		})
	})
	t.Run("without etcd", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start()
			w.serving()
			w.stop()
			if o := tenancy(w); o.State != syncobject.Held {
				t.Errorf("owner.json %+v", o)
			}
			if running, _ := w.member.Running(); !running {
				t.Error("etcd was ended")
			}
			w.start()
			synctest.Wait()
			w.wait(Owner)
			if err := w.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			if w.member.seen().fences != 0 {
				t.Error("a restart of the sidecar has ended etcd")
			}
		})
	})
}

func TestOnlyTheOwnHistoryCovers(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	full := func(lineage string, hours int, revision int64) snapshot.Manifest {
		return snapshot.Manifest{
			Name: lineage, Kind: snapshot.Full, Lineage: lineage, ClusterID: "c", First: revision, Last: revision,
			Time: began.Add(time.Duration(hours) * time.Hour),
		}
	}
	forked := []snapshot.Manifest{full("old", 1, 10_000), full("new", 2, 6000)}
	for _, tc := range []struct {
		lineage  string
		revision int64
		want     bool
	}{
		{"new", 6000, true}, {"new", 6001, false}, {"old", 10_000, true}, {"", 6000, true}, {"", 6001, false}, {"other", 1, false},
	} {
		if got := covers(forked, full("", 0, tc.revision), tc.lineage); got != tc.want {
			t.Errorf("revision %d of lineage %q: %v", tc.revision, tc.lineage, got)
		}
	}
}
