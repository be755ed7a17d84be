package rows

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// roundsVariable says how often each kind of deployment is handed over; "make
// robust" sets it.
const roundsVariable = "FERRY_ROUNDS"

// TestNothingIsLost hands deployments of every version of etcd over, of one
// member and of three, with writers on all members that ignore readiness.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	rounds := 1
	if given := os.Getenv(roundsVariable); given != "" {
		var err error
		if rounds, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	for _, members := range []int{1, 3} {
		for _, version := range etcdtest.Versions {
			for round := range rounds {
				t.Run(fmt.Sprintf("etcd %s, %d members, round %d", version, members, round+1), func(t *testing.T) {
					t.Parallel()
					handOverUnderLoad(t, version, members)
				})
			}
		}
	}
}

func TestRow35ThreeMembers(t *testing.T) {
	t.Parallel()
	a, b := handOverUnderLoad(t, etcdtest.Newest, 3)
	o := a.Store.object(t)
	if o.Source.Members != 3 || o.Decision.Lossy || o.Decision.By != "source" {
		t.Errorf("%+v", o)
	}
	for _, m := range a.members {
		if n := m.metric(t, `etcd_ferry_role{role="Ceded"}`); n != 1 {
			t.Errorf("%s is not Ceded by its metrics", m.name)
		}
	}
	if o := b.Store.owner(t); o.ID != "b" || o.Epoch <= a.Store.owner(t).Epoch {
		t.Errorf("%+v", o)
	}
}

// handOverUnderLoad hands a over to b, both of so many members, and returns them
// when b serves and nothing was lost.
func handOverUnderLoad(t *testing.T, version string, members int) (a, b *deployment) {
	t.Helper()
	a, b = newDeployment(t, "a", newFolder(t), members), newDeployment(t, "b", newFolder(t), members)
	a.Version, b.Version = version, version
	a.start()
	onA := writeTo(t, a.ready())
	onA.more(t, 1_500)
	a.copyTo("b", b.Store).want(0)
	onA.refused(t)
	if members > 1 { // TestFrozenClusterMayAnswerReads says why
		a.wantDown()
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 300)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	a.wantDown()
	wantFinalHash(t, a, b)
	counts := onA.Counts()
	for _, what := range []string{"put", "swap", "get", "peek", "event", "put without an answer"} {
		if counts[what] < 10 {
			t.Errorf("hardly anything was asked: %v", counts)
		}
	}
	t.Log(onA, onB)
	return a, b
}
