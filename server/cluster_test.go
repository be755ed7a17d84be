package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// inCluster is inWorld with the first of three members.
func inCluster(t *testing.T, leader bool, test func(*testing.T, *world)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.member.members, w.member.leader = 3, leader
		w.start()
		w.serving()
		sleep(t.Context(), w.Timing.Poll) // it knows its cluster
		test(t, w)
	})
}

func TestLeaderFreezesTheCluster(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.takes = 10 * time.Minute })
		w.change(claimed)
		w.wait(Snapshotting)
		sleep(t.Context(), 5*time.Minute) // longer than a lease
		if w.member.seen().frozen != 1 || w.member.seen().fences != 0 {
			t.Errorf("frozen for %d, %d fences", w.member.seen().frozen, w.member.seen().fences)
		}
		if w.Watchdog() != nil || w.Ready(t.Context()) == nil || w.admit(myself(t)) == nil {
			t.Errorf("watchdog %v, ready %v", w.Watchdog(), w.Ready(t.Context()))
		}
		if s := w.object().Source; s.Phase != syncobject.Fenced || s.Members != 3 {
			t.Errorf("source %+v", s)
		}
		w.wait(Ceded)
		w.decidedBySource()
		w.shutNow()
	})
}

func TestOthersWaitForTheLeader(t *testing.T) {
	inCluster(t, false, func(t *testing.T, w *world) {
		if w.member.seen().backups != 0 {
			t.Error("a follower's sidecar backs up")
		}
		o := w.change(claimed)
		w.wait(Fencing)
		for range 20 { // the leader's sidecar freezes, and gives signs of life
			w.member.set(func(m *fakeMember) { m.frozen = 1 })
			w.change(func(o syncobject.Object) (syncobject.Object, error) {
				return o.Report(o.Generation, syncobject.Holder{ID: "a"}, syncobject.SourceReport{Phase: syncobject.Fenced, At: time.Now()})
			})
			sleep(t.Context(), w.Timing.Heartbeat)
		}
		if s := w.Status(); s.Role != Fencing || w.member.seen().fences != 0 || w.Watchdog() != nil {
			t.Errorf("status %+v, %d fences, watchdog %v", s, w.member.seen().fences, w.Watchdog())
		}
		w.wait(Ceded) // the leader's sidecar has gone silent
		w.decidedBySource()
		if w.object().OperationID != o.OperationID {
			t.Error("another operation")
		}
		w.shutNow()
	})
}

// A frozen member answers reads until its sidecar has seen the decision: that is soon,
// also for one that had just begun to wait for its next read, which is chance.
func TestFrozenMemberSeesTheDecisionSoon(t *testing.T) {
	for range 20 {
		inCluster(t, false, func(t *testing.T, w *world) {
			w.change(claimed)
			w.wait(Fencing)
			w.member.set(func(m *fakeMember) { m.frozen = 1 })
			sleep(t.Context(), 3*w.Timing.Poll/frozenPolls)
			w.change(forced(100))
			decided := time.Now()
			w.wait(Ceded)
			if took := time.Since(decided); took > w.Timing.Poll/frozenPolls*11/10+w.Timing.Tick {
				t.Errorf("it was seen after %v", took)
			}
			w.shutNow()
		})
	}
}

func TestAbortThawsTheCluster(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.takes = time.Hour })
		w.change(claimed)
		w.wait(Snapshotting)
		if _, err := w.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wait(Owner)
		sleep(t.Context(), time.Second)
		if w.member.seen().frozen != 0 || w.member.seen().fences != 0 || w.Ready(t.Context()) != nil {
			t.Errorf("frozen for %d, %d fences, ready %v", w.member.seen().frozen, w.member.seen().fences, w.Ready(t.Context()))
		}
	})
}

// The sidecar that froze the cluster has died, or cannot reach the store.
func TestOthersThawWhatTheyHaveNotFrozen(t *testing.T) {
	inCluster(t, false, func(t *testing.T, w *world) {
		for _, when := range []string{"before the abort was seen", "after it"} {
			w.change(claimed)
			w.change(func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(o.Generation, "test", time.Now()) })
			g := w.object().Generation
			if when == "after it" {
				sleep(t.Context(), 3*w.Timing.Poll)
			}
			w.member.set(func(m *fakeMember) { m.frozen = g })
			sleep(t.Context(), 3*w.Timing.Poll)
			if s := w.member.seen(); s.frozen != 0 || s.fences != 0 || w.Status().Role != Owner {
				t.Errorf("%s: frozen for %d, %d fences, role %s", when, s.frozen, s.fences, w.Status().Role)
			}
		}
	})
}

func TestWithoutQuorumThereIsNoFinalSnapshot(t *testing.T) {
	inCluster(t, true, func(t *testing.T, w *world) {
		w.member.set(func(m *fakeMember) { m.quorum = errors.New("no leader") })
		w.change(claimed)
		w.wait(Fencing)
		sleep(t.Context(), w.Timing.Lease/2)
		if s := w.object().Source; s.Phase != syncobject.Fencing || !strings.Contains(s.Error, "no leader") || w.member.seen().fences != 0 {
			t.Errorf("source %+v, %d fences", s, w.member.seen().fences)
		}
		sleep(t.Context(), w.Timing.Lease)
		w.shutNow()
		if s := w.object().Source; s.Phase == syncobject.SnapshotFailed {
			t.Errorf("with one of three fenced the others may serve: %+v", s)
		}
		w.change(func(o syncobject.Object) (syncobject.Object, error) { // a second sidecar
			return o.Report(o.Generation, syncobject.Holder{ID: "a"}, syncobject.SourceReport{Phase: syncobject.Fencing, Member: "m2", At: time.Now()})
		})
		sleep(t.Context(), 3*w.Timing.Heartbeat)
		if s := w.object().Source; s.Phase != syncobject.SnapshotFailed || len(s.FencedMembers) != 2 {
			t.Errorf("source %+v", s)
		}
		w.change(forced(50))
		w.wait(Ceded)
		w.shutNow()
	})
}
