package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

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

// The fence has begun, for the end of the lease, before there was anybody to tell.
func TestFenceThatFailsIsToldWhoeverClaimsLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.fenceErr = errors.New("operation not permitted") })
		w.faults.set(cut)
		w.wait(SelfFenced)
		w.change(claimed)
		w.faults.set(nil)
		sleep(t.Context(), time.Minute)
		o := w.object()
		if o.Source.Phase != syncobject.FenceFailed || !strings.Contains(o.Source.Error, "not permitted") {
			t.Errorf("source %+v", o.Source)
		}
		if _, err := forced(90)(o); !errors.Is(err, syncobject.ErrNotFenced) {
			t.Errorf("a force while etcd runs: %v", err)
		}
		w.member.set(func(m *fakeMember) { m.fenceErr = nil })
		w.wait(Ceded)
		w.decidedBySource()
	})
}

// What lies in the data dir is not what the container's owner has served: a
// hand-over that was wanted before the server came up must not make it final.
func TestDataOfAnotherHistoryIsNotHandedOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		wrong := errors.New("the data is of another cluster")
		var asked syncobject.Holder
		w.configure = func(e *Election) {
			e.Check = func(_ context.Context, h syncobject.Holder, _ string) error {
				mu.Lock()
				defer mu.Unlock()
				asked = h
				return wrong
			}
		}
		w.tenancy(func(o syncobject.Owner) (syncobject.Owner, error) {
			return o.Hold(syncobject.Owner{ID: "a", Epoch: 3, Lineage: lineageHanded, Lease: syncobject.Seconds(time.Minute)})
		})
		w.change(claimed)
		w.start()
		sleep(t.Context(), 10*time.Minute)
		o := w.object()
		listed, _ := w.finals()
		if o.Status != syncobject.Initial || o.Source.Phase != syncobject.SnapshotFailed || len(listed) != 0 || !strings.Contains(o.Source.Error, "abort") {
			t.Errorf("finals %v, object %+v", listed, o)
		}
		mu.Lock()
		if asked.Epoch != 3 || asked.Lineage != lineageHanded {
			t.Errorf("compared with the history of %+v", asked)
		}
		wrong = nil
		mu.Unlock()
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
