package server

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// thawed is what an operator, or another member's sidecar, does to a cluster.
func thawed(m *fakeMember) { m.frozen = 0 }

func TestThawedByOthersIsFencedWithoutALease(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.takes = 3 * time.Hour })
		w.change(claimed)
		w.wait(Snapshotting)
		w.faults.set(cut)
		cutAt := time.Now()
		sleep(t.Context(), time.Hour) // it is frozen: the lease does not matter
		if err := w.Watchdog(); err != nil || w.member.seen().fences != 0 {
			t.Fatalf("watchdog %v, %d fences", err, w.member.seen().fences)
		}
		w.change(func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(1, "test", time.Now()) })
		w.member.set(thawed)
		w.change(claimed)
		sleep(t.Context(), 2*w.Timing.Tick)
		w.shutNow()
		if s := w.Status(); s.Role != SelfFenced {
			t.Errorf("%v after the cut: %+v", time.Since(cutAt), s)
		}
		w.faults.set(nil)
		w.member.set(func(m *fakeMember) { m.takes = 0 })
		w.wait(Ceded)
		if o := w.object(); o.Generation != 2 || o.Decision.By != syncobject.Source {
			t.Errorf("object %+v", o)
		}
	})
}

// All members have ended when a hand-over is found: nobody can freeze anything, and
// what was acknowledged cannot be proven. The destination is told at once.
func TestMembersThatHaveAllEndedSayThatThereIsNoFinal(t *testing.T) {
	for name, restarted := range map[string]bool{"in one life": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, true, func(t *testing.T, w *world) {
				w.faults.set(cut)
				w.wait(SelfFenced)
				w.member.set(func(m *fakeMember) { m.quorum = errors.New("connection refused") })
				w.change(claimed)
				if restarted {
					w.crash()
					w.start()
				}
				w.faults.set(nil)
				sleep(t.Context(), 2*w.Timing.Poll)
				if s := w.object().Source; s.Phase != syncobject.Fencing || len(s.FencedMembers) != 1 || s.Members != 3 {
					t.Errorf("source %+v", s)
				}
				reads := w.calls(storetest.Read)
				sleep(t.Context(), 10*time.Minute)
				if n := w.calls(storetest.Read) - reads; n > 120 { // a poll each 10 s, a report each 30 s
					t.Errorf("%d reads in ten minutes", n)
				}
				w.endedToo("m2")
				sleep(t.Context(), w.Timing.Heartbeat+5*time.Second)
				if s := w.object().Source; s.Phase != syncobject.SnapshotFailed {
					t.Errorf("two of three have ended: %+v", s)
				}
				w.endedToo("m3")
				sleep(t.Context(), 2*w.Timing.Heartbeat)
				if s := w.object().Source; s.Phase != syncobject.SnapshotFailed || len(s.FencedMembers) != 3 {
					t.Errorf("source %+v", s)
				}
				w.change(forced(50))
				w.wait(Ceded)
				w.shutNow()
			})
		})
	}
}

// endedToo is the report of another member's sidecar.
func (w *world) endedToo(member string) {
	w.t.Helper()
	w.change(func(o syncobject.Object) (syncobject.Object, error) {
		return o.Report(o.Generation, syncobject.Holder{ID: "a"}, syncobject.SourceReport{
			Phase: syncobject.Fencing, Error: "no quorum", Member: member, Members: 3, At: time.Now(),
		})
	})
}

// A sidecar that has lost its state knows neither its lease nor that its etcd is one
// of several: the cluster is frozen before anything of it is ended.
func TestClusterOfUnknownSizeIsFrozen(t *testing.T) {
	for name, leader := range map[string]bool{"beside the leader": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.change(claimed)
				w.member.set(func(m *fakeMember) {
					m.members, m.leader, m.running = 3, leader, true
					m.onFence = func() {
						if o := w.object(); o.Status != syncobject.Ready {
							t.Errorf("a member was ended before it was decided: %+v", o)
						}
					}
				})
				w.start()
				w.wait(Ceded)
				w.decidedBySource()
				w.shutNow()
			})
		})
	}
}

func TestFrozenClusterThatCannotBeAskedIsFencedSoon(t *testing.T) {
	for name, down := range map[string]time.Duration{"an election": DefaultTiming().Read - 2*DefaultTiming().Tick, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, true, func(t *testing.T, w *world) {
				w.member.set(func(m *fakeMember) { m.takes = time.Hour })
				w.change(claimed)
				w.wait(Snapshotting)
				sleep(t.Context(), 2*w.Timing.Lease)
				w.faults.set(cut)
				w.member.set(func(m *fakeMember) { m.quorum = errors.New("no leader") })
				sleep(t.Context(), min(down, w.Timing.Read+2*w.Timing.Tick))
				w.member.set(func(m *fakeMember) { m.quorum = nil })
				if down < w.Timing.Read {
					sleep(t.Context(), time.Minute)
					if w.Watchdog() != nil || w.member.seen().fences != 0 {
						t.Errorf("watchdog %v, %d fences", w.Watchdog(), w.member.seen().fences)
					}
					return
				}
				sleep(t.Context(), w.Timing.Tick)
				w.shutNow()
			})
		})
	}
}

func TestWatchdogDoesNotBelieveInAFrozenClusterForEver(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.takes = time.Hour })
		w.change(claimed)
		w.wait(Snapshotting)
		w.clock.jump(w.Timing.Lease, w.Timing.Lease) // nobody has looked meanwhile
		if w.Watchdog() == nil {
			t.Error("the watchdog lets an etcd run that may be thawed")
		}
	})
}

func TestWatchdogLetsFollowersWaitForTheFreeze(t *testing.T) {
	inCluster(t, false, func(t *testing.T, w *world) {
		w.change(claimed)
		w.wait(Fencing)
		if err := w.Watchdog(); err != nil {
			t.Error(err)
		}
		if w.admit(myself(t)) == nil || w.Ready(t.Context()) == nil {
			t.Error("the gate is open")
		}
	})
}

func TestThawedBeforePublishingIsFrozenAndStoredAgain(t *testing.T) {
	for name, change := range map[string]func(*fakeMember){
		"disarmed":            thawed,
		"disarmed, and wrote": func(m *fakeMember) { m.frozen, m.revision = 0, 120 },
		"wrote, and frozen":   func(m *fakeMember) { m.revision = 120 },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, true, func(t *testing.T, w *world) {
				w.faults.set(func(c storetest.Call) storetest.Fault {
					if w.Status().Role == Publishing { // the final snapshot is stored
						w.member.set(change)
						w.faults.set(nil)
					}
					return storetest.Fault{}
				})
				w.change(claimed)
				w.wait(Ceded)
				o := w.object()
				if o.Decision.By != syncobject.Source || o.Snapshots.ThroughRevision != w.member.revision || w.member.seen().frozen != 1 {
					t.Errorf("through %d, acknowledged %d, frozen for %d: %+v",
						o.Snapshots.ThroughRevision, w.member.revision, w.member.seen().frozen, o)
				}
			})
		})
	}
}

func TestClusterThatCannotBeFrozenIsEndedWithTheLease(t *testing.T) {
	for name, leader := range map[string]bool{"beside the leader": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, leader, func(t *testing.T, w *world) {
				w.member.set(func(m *fakeMember) { m.quorum = errors.New("permission denied") })
				end := time.Now().Add(w.Status().Remaining)
				w.change(claimed)
				w.wait(Fencing)
				end = end.Add(w.Timing.Poll) // one more read may have come before the claim
				for running := true; running && time.Now().Before(end.Add(time.Hour)); {
					sleep(t.Context(), 100*time.Millisecond)
					running, _ = w.member.Running()
				}
				if late := w.member.seen().fencedAt.Sub(end); late > 3*w.Timing.Tick {
					t.Errorf("ended %v after the lease", late)
				}
				if s := w.object().Source; s.Phase != syncobject.Fencing || len(s.FencedMembers) != 1 {
					t.Errorf("source %+v", s)
				}
			})
		})
	}
}

func TestMemberThatWasAddedIsFrozenToo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		sleep(t.Context(), w.Timing.Poll)
		w.member.set(func(m *fakeMember) {
			m.content, m.takes = &datadir.MembersError{Members: 3}, time.Second // and nobody has noticed
		})
		w.change(claimed)
		w.wait(Snapshotting)
		w.member.set(func(m *fakeMember) { m.quorum = errors.New("not yet") })
		w.wait(Fencing)
		sleep(t.Context(), 2*w.Timing.Heartbeat)
		if s := w.object().Source; s.Phase == syncobject.SnapshotFailed || w.Status().Members != 3 {
			t.Errorf("%d members are known, source %+v", w.Status().Members, s)
		}
		w.member.set(func(m *fakeMember) { m.quorum, m.content, m.takes = nil, nil, 0 })
		w.wait(Ceded)
		w.decidedBySource()
	})
}

func TestThawLeavesWhatHasBegunSince(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.takes = time.Hour })
		w.change(claimed)
		w.wait(Snapshotting)
		if _, err := w.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wait(Owner)
		w.learn(reading{object: &syncobject.Object{Generation: 2}}) // the next one, which it has not followed yet
		w.member.set(func(m *fakeMember) { m.frozen = 2 })          // another sidecar has
		w.thaw(t.Context())
		if w.member.seen().frozen != 2 {
			t.Error("a fence was lifted that another hand-over needs")
		}
		w.member.set(func(m *fakeMember) { m.frozen = 1 })
		w.thaw(t.Context())
		if w.member.seen().frozen != 0 {
			t.Error("the fence of the aborted hand-over is left")
		}
	})
}
