package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// TestCrashAtEachCall ends the source at every single call of the store that a
// hand-over makes, before the call and after it. Whoever starts again on the same
// state dir comes to one decision, for one snapshot with everything.
func TestCrashAtEachCall(t *testing.T) {
	calls := countCalls(t)
	if calls < 6 {
		t.Fatalf("a hand-over makes %d calls of the store", calls)
	}
	for n := range calls {
		for _, happened := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, happened %v", n+1, happened), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.start()
					w.serving()
					w.change(claimed)
					died := w.dieAt(n+1, happened)
					select {
					case <-died:
					case <-time.After(time.Hour):
						t.Fatal("there is no such call")
					}
					w.crash()
					w.member.end() // with the pod
					sleep(t.Context(), time.Minute)
					w.start()
					w.wait(Ceded)
					w.decidedBySource()
					w.shutNow()
					if all := w.listed(w.store); len(all) != 1 {
						t.Errorf("stored %v", all)
					}
				})
			})
		}
	}
}

// ofHandOver reports whether a call is one that a hand-over makes, in an order that
// does not change. The owner's beats are not: they come beside it, or do not.
func ofHandOver(c storetest.Call) bool { return c.Name != syncobject.OwnerName }

// dieAt ends the life at the n-th call of a hand-over from now, which may happen
// still.
func (w *world) dieAt(n int, happens bool) <-chan struct{} {
	died := make(chan struct{})
	f := w.faults
	var calls atomic.Int64
	w.faults.set(func(c storetest.Call) storetest.Fault {
		if !ofHandOver(c) || calls.Add(1) != int64(n) {
			return storetest.Fault{}
		}
		f.die()
		close(died)
		return storetest.Fault{Err: errCut, Lost: happens}
	})
	return died
}

// countCalls returns how many calls of the store a hand-over makes.
func countCalls(t *testing.T) int {
	t.Helper()
	var calls atomic.Int64
	inWorld(t, func(_ *testing.T, w *world) {
		w.start()
		w.serving()
		w.change(claimed)
		w.faults.set(func(c storetest.Call) storetest.Fault {
			if ofHandOver(c) {
				calls.Add(1)
			}
			return storetest.Fault{}
		})
		w.wait(Ceded)
		w.faults.set(nil)
	})
	return int(calls.Load())
}

func TestCrashWithNothingButAStateDirIsFenced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.takes = time.Hour })
		w.change(claimed)
		w.wait(Snapshotting)
		w.crash()
		w.member.run() // by hand, past the gate
		w.startCut()
		w.shutNow()
		if w.member.seen().fences != 2 {
			t.Errorf("%d fences", w.member.seen().fences)
		}
		w.member.set(func(m *fakeMember) { m.takes = 0 })
		w.faults.set(nil)
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestDamagedStateIsNoBeginning(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.crash()
		if err := replaceFile(w.state+"/election.json", []byte("{")); err != nil {
			t.Fatal(err)
		}
		e := NewElection(w.member, w.store, nil)
		e.StateDir = w.state
		if err := e.Begin(t.Context()); err == nil || !strings.Contains(err.Error(), "remove") {
			t.Errorf("got %v", err)
		}
	})
}
