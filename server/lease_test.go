package server

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestTimingIsChecked(t *testing.T) {
	if err := DefaultTiming().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Timing){
		"P + R < L/3":           func(t *Timing) { t.Poll = 35 * time.Second },
		"below the kill budget": func(t *Timing) { t.Grace = t.Kill },
		"above 0":               func(t *Timing) { t.Tick = 0 },
	} {
		timing := DefaultTiming()
		change(&timing)
		if err := timing.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestLeaseIsOverByEitherClock(t *testing.T) {
	const length = time.Minute
	for name, tc := range map[string]struct {
		boot, wall time.Duration
		valid      bool
	}{
		"both short":          {59 * time.Second, 59 * time.Second, true},
		"over":                {time.Minute, time.Minute, false},
		"asleep":              {time.Hour, 0, false},
		"paused and set":      {0, time.Hour, false},
		"set back":            {0, -time.Hour, false},
		"set back a little":   {time.Second, -30 * time.Second, true},
		"the clock is broken": {math.MaxInt64 - 2*time.Hour, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClock{began: time.Now()}
			l := lease{clock: c, length: length}
			if l.valid() {
				t.Error("valid before it began")
			}
			l.renew(now(c))
			c.jump(tc.boot, tc.wall)
			if l.valid() != tc.valid {
				t.Errorf("%s: %v remain", name, l.remaining())
			}
		})
	}
}

func TestLeaseCountsFromTheStartOfTheLatestRead(t *testing.T) {
	c := &fakeClock{began: time.Now()}
	l := lease{clock: c, length: time.Minute}
	early := now(c)
	c.jump(10*time.Second, 10*time.Second)
	l.renew(now(c))
	l.renew(early)
	if r := l.remaining(); r < 59*time.Second {
		t.Errorf("an older read has shortened it to %v", r)
	}
}

func TestSystemClock(t *testing.T) {
	a := SystemClock{}.Boot()
	b := SystemClock{}.Boot()
	if id, err := BootID(); a <= 0 || b < a || b == math.MaxInt64 || err != nil || len(id) != 36 {
		t.Errorf("%v, %v, %q, %v", a, b, id, err)
	}
}

func TestCutShorterThanTheLeaseChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.faults.set(cut)
		sleep(t.Context(), w.Timing.Lease-2*w.Timing.Poll)
		if err := w.Ready(t.Context()); err != nil || w.Status().LastError == "" {
			t.Errorf("%v, %+v", err, w.Status())
		}
		w.faults.set(nil)
		sleep(t.Context(), time.Hour)
		if err := w.Ready(t.Context()); err != nil || w.member.seen().fences != 0 {
			t.Errorf("%v, %d fences", err, w.member.seen().fences)
		}
	})
}

func TestCutLongerThanTheLeaseFencesAndReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		sleep(t.Context(), time.Hour)
		cutAt := time.Now()
		w.faults.set(cut)
		w.wait(SelfFenced)
		w.shutNow()
		dead := w.member.seen().fencedAt.Sub(cutAt)
		if low, high := w.Timing.Lease-w.Timing.Poll*11/10-w.Timing.Read, w.Timing.Lease+w.Timing.Tick; dead < low || dead > high {
			t.Errorf("etcd died %v after the cut, want between %v and %v", dead, low, high)
		}
		sleep(t.Context(), time.Hour)
		w.shutNow()
		w.faults.set(nil)
		back := time.Now()
		w.serving()
		if took := time.Since(back); took > w.Timing.Poll*13/10+w.Timing.Read {
			t.Errorf("serves again after %v", took)
		}
		if w.object().Generation != 0 {
			t.Error("there is an object now")
		}
	})
}

func TestWithoutImplicitFencingTheLeaseDoesNotMatter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.configure = func(e *Election) { e.Implicit = false }
		w.start()
		w.serving()
		w.faults.set(cut)
		sleep(t.Context(), 10*time.Hour)
		if err := w.Ready(t.Context()); err != nil || w.member.seen().fences != 0 || w.Watchdog() != nil {
			t.Errorf("%v, %d fences, watchdog %v", err, w.member.seen().fences, w.Watchdog())
		}
		o, err := syncobject.NewOwnerFile(w.store).Read(t.Context())
		if err != nil || o.ImplicitFencing {
			t.Errorf("owner.json %+v %v", o, err)
		}
		w.faults.set(nil)
		w.change(claimed)
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestSlowReadsDoNotStretchTheLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		slow := DefaultTiming().Read * 9 / 10
		w.start()
		w.serving()
		w.faults.set(func(storetest.Call) storetest.Fault { return storetest.Fault{Delay: slow} })
		for i := range 500 {
			sleep(t.Context(), 777*time.Millisecond)
			longest := w.Timing.Lease
			if i > 60 { // it is counted from a slow read by now
				longest -= slow
			}
			if r := w.Status().Remaining; r > longest {
				t.Fatalf("%v remain, it can be %v at most", r, longest)
			}
		}
		if w.member.seen().fences != 0 {
			t.Error("slow reads have ended etcd")
		}
		// The claim comes just after a read has begun: etcd is gone L later at most.
		began := time.Now()
		w.faults.set(func(storetest.Call) storetest.Fault { return storetest.Fault{Delay: 2 * w.Timing.Read} })
		w.wait(SelfFenced)
		if took := time.Since(began); took > w.Timing.Lease+w.Timing.Tick {
			t.Errorf("fenced after %v", took)
		}
	})
}

// A wrapper that has passed the gate may come to its etcd at any time: the kubelet
// counts from the end of the lease, also if the sidecar dies during the fence.
func TestWatchdogSeesAGateThatHasPassed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.end()
		if err := w.Watchdog(); err != nil {
			t.Errorf("inside the lease: %v", err)
		}
		w.faults.set(cut)
		w.wait(SelfFenced)
		if w.Watchdog() == nil {
			t.Error("the watchdog does not see the gate")
		}
	})
}

// The lock on the database is released inside a lease only: an etcd that was
// started past the gate may be waiting for it.
func TestSleepWhileTheDataDirIsPreparedKeepsItLocked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var prepared, released int
		w.configure = func(e *Election) {
			e.Prepare = func(context.Context, syncobject.Holder, string) (string, error) {
				prepared++
				if prepared == 1 {
					w.clock.jump(time.Hour, time.Hour)
				}
				return "", nil
			}
		}
		w.member.onUnfence = func() {
			released++
			if !w.lease.valid() {
				t.Error("the lock was released without a lease")
			}
		}
		w.start()
		w.serving()
		if prepared != 2 || released != 1 {
			t.Errorf("prepared %d times, released %d times", prepared, released)
		}
	})
}

func TestSleepOfTheMachineIsFencedBeforeAnythingElse(t *testing.T) {
	for name, jump := range map[string][2]time.Duration{
		"suspend":         {time.Hour, time.Hour},
		"wall clock +1 h": {0, time.Hour},
		"wall clock -1 h": {0, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				sleep(t.Context(), w.Timing.Poll/2)
				reads := w.calls(storetest.Read)
				w.member.set(func(m *fakeMember) {
					m.onFence = func() {
						if w.calls(storetest.Read) != reads {
							t.Error("the store was read before etcd was fenced")
						}
					}
				})
				w.clock.jump(jump[0], jump[1])
				if err := w.Ready(t.Context()); err == nil {
					t.Error("ready without a lease")
				}
				if err := w.Watchdog(); err == nil {
					t.Error("the watchdog does not see it")
				}
				sleep(t.Context(), w.Timing.Tick+time.Millisecond)
				synctest.Wait()
				if w.member.seen().fences != 1 {
					t.Errorf("%d fences", w.member.seen().fences)
				}
				w.serving() // nothing was claimed
			})
		})
	}
}

// The first that comes after a sleep may be a reading, not a tick.
func TestReadAfterASleepDoesNotRenewWhatWasOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.clock.jump(time.Hour, time.Hour)
		w.askNow()
		synctest.Wait()
		if n := w.member.seen().fences; n != 1 {
			t.Errorf("%d fences", n)
		}
		w.serving() // nothing was claimed
	})
}

func TestRestartContinuesUntilTheDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		sleep(t.Context(), time.Minute)
		deadline := time.Now().Add(w.Status().Remaining)
		w.crash()
		if running, _ := w.member.Running(); !running {
			t.Fatal("the end of the sidecar has ended etcd")
		}
		sleep(t.Context(), 10*time.Second)
		w.startCut()
		synctest.Wait()
		if s := w.Status(); s.Role != Unknown || w.Ready(t.Context()) == nil || w.admit(myself(t)) == nil || w.Watchdog() != nil {
			t.Errorf("after the restart: %+v, watchdog %v", s, w.Watchdog())
		}
		w.wait(SelfFenced)
		if late := w.member.seen().fencedAt.Sub(deadline); late < 0 || late > w.Timing.Tick {
			t.Errorf("fenced %v after the deadline", late)
		}
		w.shutNow()
		w.faults.set(nil)
		w.serving()
	})
}

func TestRebootVoidsTheLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.crash()
		w.member.end()
		w.boot = "second boot"
		w.startCut()
		sleep(t.Context(), time.Second)
		if w.Status().Remaining > 0 || len(w.memory.get().Gates) != 0 {
			t.Errorf("status %+v, gates %v", w.Status(), w.memory.get().Gates)
		}
		w.shutNow()
		w.faults.set(nil)
		w.serving()
	})
}

func TestClaimDuringACut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.faults.set(cut)
		w.wait(SelfFenced)
		w.change(claimed)
		sleep(t.Context(), time.Minute)
		w.faults.set(nil) // just before W
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestRefusalByAStoreThatWasFitChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.crash()
		w.startCut()
		w.faults.set(func(c storetest.Call) storetest.Fault {
			if c.Op == storetest.Swap {
				return storetest.Fault{Err: fs.ErrPermission}
			}
			return storetest.Fault{}
		})
		sleep(t.Context(), w.Timing.Lease/2)
		if err := w.Watchdog(); err != nil || w.member.seen().fences != 0 || !strings.Contains(w.Status().LastError, "permitted before") {
			t.Errorf("watchdog %v, %d fences, status %+v", err, w.member.seen().fences, w.Status())
		}
		select {
		case err := <-w.ended:
			t.Fatalf("the process has ended: %v", err)
		default:
		}
		w.faults.set(nil)
		w.wait(Owner)
		if w.member.seen().fences != 0 {
			t.Error("etcd was ended")
		}
	})
}

func TestCopiesOfAKilledRunAreRemoved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		left, other := filepath.Join(w.state, WorkFolder, "etcd-ferry-replay-1"), filepath.Join(w.state, WorkFolder, "other")
		if err := errors.Join(os.MkdirAll(filepath.Join(left, "db"), 0o700), os.MkdirAll(other, 0o700)); err != nil {
			t.Fatal(err)
		}
		w.start()
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there still: %v", err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Error(err)
		}
	})
}

// startCut is start with a store that cannot be reached.
func (w *world) startCut() {
	w.t.Helper()
	w.cutOff = true
	w.start()
	w.cutOff = false
}
