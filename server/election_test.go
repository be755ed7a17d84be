package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestFirstStartOwnsAnUnclaimedContainer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		if err := w.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		o, err := syncobject.NewOwnerFile(w.store).Read(t.Context())
		if err != nil || o.ID != "a" || o.State != syncobject.Held || o.Lease.Duration() != w.Timing.Lease || !o.ImplicitFencing {
			t.Errorf("owner.json %+v %v", o, err)
		}
		if m, err := w.Take(t.Context(), "full"); err != nil || m.Name != "taken" {
			t.Errorf("snapshot %v %v", m, err)
		}
		sleep(t.Context(), 2*w.Timing.Poll) // the backup has found its lineage, and that is written down
		o, err = syncobject.NewOwnerFile(w.store).Read(t.Context())
		if err != nil || o.Lineage == "" || o.Lineage != w.Status().Holder.Lineage {
			t.Errorf("owner.json %+v %v, status %+v", o, err, w.Status().Holder)
		}
	})
}

func TestHandOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.change(claimed)
		w.wait(Ceded)
		w.decidedBySource()
		w.shutNow()
		if w.member.seen().backups != 0 {
			t.Error("the backup runs on")
		}
		if _, err := w.Take(t.Context(), "full"); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a snapshot after the hand-over: %v", err)
		}
		w.change(func(o syncobject.Object) (syncobject.Object, error) {
			return o.Commit(o.Generation, syncobject.Holder{ID: "b", Epoch: 1, Lineage: o.Lineage()})
		})
		sleep(t.Context(), time.Hour)
		if s := w.Status(); s.Role != Ceded || !strings.Contains(s.Reason, `"b"`) {
			t.Errorf("status %+v", s)
		}
		w.crash()
		w.start() // fenced before anything listens
		if !w.member.seen().locked {
			t.Error("a restart lets etcd start")
		}
		w.wait(Ceded)
		w.decidedBySourceOnce()
	})
}

// decidedBySourceOnce is decidedBySource for what is Done.
func (w *world) decidedBySourceOnce() {
	w.t.Helper()
	if listed, late := w.finals(); len(listed) != 1 || len(late) != 0 || w.object().Status != syncobject.Done {
		w.t.Errorf("finals %v, late %v", listed, late)
	}
}

func TestInitiateIsOneOperation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		if _, _, err := w.Initiate(t.Context(), ""); !errors.Is(err, ErrNotOwner) {
			t.Errorf("before the first read: %v", err)
		}
		w.serving()
		o, created, err := w.Initiate(t.Context(), "")
		if err != nil || !created || o.Owner.ID != "a" || o.Generation != 1 {
			t.Fatalf("%+v %v %v", o, created, err)
		}
		again, created, err := w.Initiate(t.Context(), "")
		if err != nil || created || again.OperationID != o.OperationID {
			t.Errorf("again: %+v %v %v", again, created, err)
		}
		w.wait(Ceded)
		w.decidedBySource()
		if _, _, err := w.Initiate(t.Context(), ""); !errors.Is(err, syncobject.ErrDecided) {
			t.Errorf("after the decision: %v", err)
		}
		if _, err := w.Abort(t.Context()); !errors.Is(err, syncobject.ErrDecided) {
			t.Errorf("abort after the decision: %v", err)
		}
		if _, err := w.Reclaim(t.Context()); err != nil {
			t.Error(err)
		}
		w.serving()
	})
}

func TestBareObjectIsAHandOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.store.Create(t.Context(), syncobject.ObjectName, strings.NewReader(`{"status":"Initial"}`)); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestReclaimAndReturn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.change(claimed)
		w.wait(Ceded)
		w.change(func(o syncobject.Object) (syncobject.Object, error) { return o.Reclaim(o.Generation, "test") })
		w.serving()
		if w.member.seen().locked {
			t.Error("the lock is held")
		}
	})
}

func TestBackAgainWithAStaleDataDir(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var have, want string
		w.configure = func(e *Election) {
			e.Prepare = func(_ context.Context, h syncobject.Holder, lineage string) (string, error) {
				if running, _ := w.member.Running(); running || !w.member.seen().locked {
					t.Error("the data dir is prepared while etcd may run")
				}
				have, want = lineage, h.Lineage
				return h.Lineage, nil
			}
		}
		w.start()
		w.serving()
		w.change(claimed)
		w.wait(Ceded)
		lineage := w.memory.get().Lineage
		w.change(func(o syncobject.Object) (syncobject.Object, error) {
			return o.Commit(o.Generation, syncobject.Holder{ID: "b", Epoch: 1, Lineage: o.Lineage()})
		})
		sleep(t.Context(), time.Hour)
		w.change(func(o syncobject.Object) (syncobject.Object, error) {
			return o.Adopt(syncobject.Holder{ID: "a", Epoch: 2, Lineage: "22222222-2222-4222-8222-222222222222"})
		})
		w.wait(Owner)
		sleep(t.Context(), time.Second)
		if have != lineage || want != "22222222-2222-4222-8222-222222222222" {
			t.Errorf("prepared from %q, which was %q, to %q", have, lineage, want)
		}
		if h := w.Status().Holder; h.Epoch != 2 || h.Lineage != want {
			t.Errorf("holder %+v", h)
		}
		o, err := syncobject.NewOwnerFile(w.store).Read(t.Context())
		if err != nil || o.Epoch != 2 || o.Lineage != want {
			t.Errorf("owner.json %+v %v", o, err)
		}
		w.serving()
	})
}

func TestContainerOfAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, err := syncobject.NewOwnerFile(w.store).Update(t.Context(), func(o syncobject.Owner) (syncobject.Owner, error) {
			return o.Hold(syncobject.Owner{ID: "somebody", Lease: syncobject.Seconds(time.Minute)})
		})
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		w.wait(Ceded)
		if s := w.Status(); !strings.Contains(s.Reason, "somebody") {
			t.Errorf("reason %q", s.Reason)
		}
		sleep(t.Context(), time.Hour)
		w.shutNow()
	})
}

func TestVanishedObjectIsAnAnomaly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.change(claimed)
		w.wait(Ceded)
		w.change(func(o syncobject.Object) (syncobject.Object, error) { return o.Reclaim(o.Generation, "test") })
		w.serving()
		if err := w.store.Remove(t.Context(), syncobject.ObjectName); err != nil {
			t.Fatal(err)
		}
		w.wait(Ceded)
		w.shutNow()
		if s := w.Status(); !strings.Contains(s.Reason, "gone") {
			t.Errorf("reason %q", s.Reason)
		}
	})
}

func TestWhatIsNoAbsenceRenewsNothing(t *testing.T) {
	for name, content := range map[string]string{
		"HTML":      "<html><body>moved</body></html>",
		"truncated": `{"status":"Init`,
		"too large": `{"status":"Initial","x":"` + strings.Repeat("x", store.MaxSwap) + `"}`,
		"empty":     "",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				if _, err := w.store.Create(t.Context(), syncobject.ObjectName, strings.NewReader(content)); err != nil {
					t.Fatal(err)
				}
				w.wait(SelfFenced)
				w.shutNow()
			})
		})
	}
	t.Run("unknown status", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start()
			w.serving()
			if _, err := w.store.Create(t.Context(), syncobject.ObjectName, strings.NewReader(`{"status":"Perhaps"}`)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			w.wait(Ceded)
			if time.Since(began) > 2*w.Timing.Poll {
				t.Error("it was not fenced at once")
			}
			w.shutNow()
		})
	})
}

// forgetful is a store that ignores the conditions of swaps.
type forgetful struct{ store.Store }

func (s forgetful) Swap(ctx context.Context, name string, _ store.Version, data []byte) (store.Version, error) {
	_, v, err := s.Read(ctx, name)
	if err != nil {
		v = ""
	}
	return s.Store.Swap(ctx, name, v, data)
}

func TestStoreWithoutConditionsIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.configure = func(e *Election) { e.store = forgetful{e.store} }
		w.start()
		select {
		case err := <-w.ended:
			if !errors.Is(err, store.ErrUnfit) || !strings.Contains(err.Error(), "step") {
				t.Errorf("got %v", err)
			}
			w.process = nil
		case <-time.After(time.Hour):
			t.Error("it goes on")
		}
	})
}

func TestGateIsRememberedBeforeItPasses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		asked := make(chan error, 1)
		go func() { asked <- w.Allowed(t.Context(), myself(t)) }()
		w.wait(Owner)
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
		if g := w.memory.get().Gates; len(g) != 1 || g[0] != myself(t) {
			t.Errorf("remembered %v", g)
		}
		unknown := myself(t)
		unknown.Start++
		soon, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := w.Allowed(soon, unknown); err == nil || !strings.Contains(err.Error(), "process namespace") {
			t.Errorf("a process that is not there: %v", err)
		}
		w.change(claimed)
		w.wait(Ceded)
		later, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := w.Allowed(later, myself(t)); err == nil || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("after the hand-over: %v", err)
		}
	})
}

// TestFenceIsToldWhoHasPassedTheGate: also by whoever comes after a crash.
func TestFenceIsToldWhoHasPassedTheGate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.change(claimed)
		w.wait(Ceded)
		w.crash()
		w.start()
		w.wait(Ceded)
		told := w.member.seen().gates
		if len(told) < 2 {
			t.Errorf("%d fences", len(told))
		}
		for i, gates := range told {
			if len(gates) != 1 || gates[0] != myself(t) {
				t.Errorf("fence %d was told of %v", i+1, gates)
			}
		}
	})
}
