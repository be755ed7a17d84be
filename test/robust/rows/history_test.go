package rows

import (
	"testing"

	"github.com/etcd-ferry/etcd-ferry/server"
)

// TestRow40BackAndForth hands one etcd back and forth between two deployments that
// stay where they are. One round is forced: the owner dies.
func TestRow40BackAndForth(t *testing.T) {
	t.Parallel()
	const rounds, forced = 5, 3
	a, b := newDeployment(t, "a", newFolder(t), 1), newDeployment(t, "b", newFolder(t), 1)
	a.Pace, b.Pace = hasty, hasty
	a.start()
	owner, next := a.ready(), b
	started := map[*deployment]bool{a: true}
	for round := 1; round <= rounds; round++ {
		now := writeTo(t, owner)
		now.more(t, 500)
		if round == forced {
			owner.crash()
			now.givenUp(owner.copyTo(next.ID, next.Store).want(6).outcome().ThroughRevision)
			owner.start()
		} else {
			owner.copyTo(next.ID, next.Store, "--wait=100s").want(0)
		}
		if !started[next] {
			next.start()
			started[next] = true
		}
		next.until(server.Owner)
		next.ready()
		check := writeTo(t, next)
		check.more(t, 100)
		now.stop()
		check.stop()
		owner.until(server.Ceded)
		owner.wantDown()
		now.wantBefore(t, check)
		now.wantKept(t, next) // all of before too
		t.Logf("round %d: %s, %s", round, now, check)
		owner, next = next, owner
	}
}

// crash ends everything at once.
func (d *deployment) crash() {
	for _, m := range d.members {
		m.Crash()
	}
}
