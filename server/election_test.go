package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
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

func TestAbortWhileFenced(t *testing.T) {
	abort := func(w *world) {
		if _, err := w.Abort(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	}
	for role, hold := range map[Role]func(*world){
		Fencing:      func(w *world) { w.member.set(func(m *fakeMember) { m.fenceErr = errors.New("not permitted") }) },
		Snapshotting: func(w *world) { w.member.set(func(m *fakeMember) { m.takes = time.Hour }) },
		Publishing: func(w *world) {
			w.faults.set(func(c storetest.Call) storetest.Fault {
				if c.Op == storetest.Swap && w.Status().Role == Publishing {
					return storetest.Fault{Delay: time.Minute, Err: errCut}
				}
				return storetest.Fault{}
			})
		},
	} {
		t.Run(string(role), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				hold(w)
				w.change(claimed)
				w.wait(role)
				began := time.Now()
				if role == Publishing { // somebody else's abort: this process cannot write
					w.change(func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(1, "test", time.Now()) })
				} else {
					abort(w)
				}
				w.serving()
				if took := time.Since(began); took > w.Timing.Poll*11/10+w.Timing.Read {
					t.Errorf("serves again after %v", took)
				}
				if o := w.object(); o.Status != syncobject.Initial || o.Outcome != syncobject.Aborted {
					t.Errorf("object %+v", o)
				}
				w.faults.set(nil)
				w.member.set(func(m *fakeMember) { m.takes, m.fenceErr = 0, nil })
				w.change(claimed) // the next one goes well
				w.wait(Ceded)
				if o := w.object(); o.Generation != 2 || o.Decision.By != syncobject.Source {
					t.Errorf("object %+v", o)
				}
			})
		})
	}
}

func TestLostToAForceIsFiledUnderLate(t *testing.T) {
	for name, tc := range map[string]struct {
		through int64
		late    int
		when    Role
	}{
		"while snapshotting":           {90, 1, Snapshotting},
		"while publishing":             {90, 1, Publishing},
		"but nothing is missing there": {100, 0, Snapshotting},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				if tc.when == Snapshotting {
					w.member.set(func(m *fakeMember) { m.takes = time.Minute })
				} else {
					w.faults.set(func(c storetest.Call) storetest.Fault {
						if c.Op == storetest.Swap && w.Status().Role == Publishing {
							return storetest.Fault{Delay: 10 * time.Second}
						}
						return storetest.Fault{}
					})
				}
				w.change(claimed)
				w.wait(tc.when)
				w.member.set(func(m *fakeMember) { m.takes = 0 })
				w.change(forced(tc.through))
				w.wait(Ceded)
				sleep(t.Context(), time.Minute)
				listed, late := w.finals()
				if len(listed) != 0 || len(late) != tc.late {
					t.Errorf("listed %v, late %v", listed, late)
				}
				if o := w.object(); o.Decision.By != syncobject.Destination || !o.Decision.Lossy {
					t.Errorf("object %+v", o)
				}
				w.shutNow()
				w.crash()
				w.start()
				sleep(t.Context(), time.Minute)
				if _, again := w.finals(); len(again) != tc.late {
					t.Errorf("filed again: %v", again)
				}
			})
		})
	}
}

func TestSourceThatReturnsAfterAForceFilesLate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.faults.set(cut)
		w.wait(SelfFenced)
		w.change(claimed)
		w.change(forced(42))
		sleep(t.Context(), time.Hour)
		w.shutNow()
		w.faults.set(nil)
		w.wait(Ceded)
		sleep(t.Context(), time.Minute)
		if listed, late := w.finals(); len(listed) != 0 || len(late) != 1 || late[0].Last != 100 {
			t.Errorf("listed %v, late %v", listed, late)
		}
	})
}

func TestFenceThatFailsIsNeverReady(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.fenceErr = errors.New("operation not permitted") })
		w.change(claimed)
		w.wait(Fencing)
		sleep(t.Context(), time.Hour)
		o := w.object()
		if o.Status != syncobject.Initial || o.Source.Phase != syncobject.FenceFailed || !strings.Contains(o.Source.Error, "not permitted") {
			t.Errorf("object %+v", o)
		}
		if err := w.Watchdog(); err == nil {
			t.Error("the watchdog lets etcd run on")
		}
		w.member.set(func(m *fakeMember) { m.fenceErr = nil })
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestSnapshotThatFailsSaysSoAndGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.content = errors.New("no space left on device") })
		w.change(claimed)
		w.wait(Snapshotting)
		sleep(t.Context(), 5*time.Minute)
		o := w.object()
		if o.Source.Phase != syncobject.SnapshotFailed || !strings.Contains(o.Source.Error, "no space left") {
			t.Errorf("object %+v", o.Source)
		}
		w.member.set(func(m *fakeMember) { m.content = nil })
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestHeartbeatsWhileSnapshotting(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.takes = 20 * time.Minute })
		w.change(claimed)
		w.wait(Snapshotting)
		seen := map[syncobject.Timestamp]bool{}
		for range 10 {
			sleep(t.Context(), w.Timing.Heartbeat+time.Second)
			o := w.object()
			if o.Source.Phase != syncobject.Fenced || o.Source.Members != 1 {
				t.Errorf("source %+v", o.Source)
			}
			seen[o.Source.Heartbeat] = true
		}
		if len(seen) < 9 {
			t.Errorf("%d different heartbeats in 10 periods", len(seen))
		}
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestLostAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		lost := map[storetest.Op]bool{}
		w.faults.set(func(c storetest.Call) storetest.Fault {
			if (c.Op == storetest.Swap || c.Op == storetest.Create) && !lost[c.Op] {
				lost[c.Op] = true
				return storetest.Fault{Err: errCut, Lost: true}
			}
			return storetest.Fault{}
		})
		w.change(claimed)
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
		err := <-w.ended
		if !errors.Is(err, store.ErrUnfit) || !strings.Contains(err.Error(), "step") {
			t.Errorf("got %v", err)
		}
		w.process = nil
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
