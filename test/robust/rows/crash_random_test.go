package rows

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

const (
	// killsVariable says how many copies are killed, half of them; "make kills"
	// sets it.
	killsVariable = "FERRY_KILLS"
	killsPreset   = 8
	// killsOfOne is how many of them in one hand-over.
	killsOfOne = 16
)

// TestRow32CopyKilledAnywhere ends copies of hand-overs at random moments, each
// hand-over's until it was often enough, and its source's sidecar now and then.
func TestRow32CopyKilledAnywhere(t *testing.T) {
	t.Parallel()
	kills := killsPreset
	if given := os.Getenv(killsVariable); given != "" {
		var err error
		if kills, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	kills *= 2
	for round := 0; round*killsOfOne < kills; round++ {
		t.Run(strconv.Itoa(round+1), func(t *testing.T) {
			t.Parallel()
			handOverWithKills(t, min(killsOfOne, kills-round*killsOfOne))
		})
	}
}

func handOverWithKills(t *testing.T, kills int) {
	t.Helper()
	const longest = 700 * time.Millisecond // of a life: to its first look at the source it takes a tenth of that
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := deploy(t, "a", newFolder(t)).ready()
	a.fill(1 << 10)
	onA := writeTo(t, a)
	onA.more(t, 200)
	b := newDeployment(t, "b", newFolder(t), 1)
	stages, killed, sidecars := map[string]int{}, 0, 0
	for killed < kills {
		copying := a.copyTo("b", b.Store, "--bandwidth=2MiB")
		wait(t, time.Duration(rng.Int64N(int64(longest))))
		if rng.IntN(8) == 0 {
			a.members[0].Kill("sidecar")
			sidecars++
		}
		copying.process.Kill()
		if code := copying.code(); code == 0 { // it was faster
			break
		} else if code > 0 {
			copying.want(-1)
		}
		killed++
		stages[lookAtKilled(t, a, b)]++
	}
	handedOverOnce(t, a, b, a.copyTo("b", b.Store).want(0).outcome())
	goesOn(t, onA, a, b)
	wantSameHistory(t, a, b)
	t.Logf("%d copies and %d sidecars were killed, %v; %v", killed, sidecars, stages, onA)
}

// lookAtKilled looks at what a killed copy left, and says how far it was.
func lookAtKilled(t *testing.T, a, b *deployment) string {
	t.Helper()
	whole.Through(t, b.Store.direct)
	o, err := syncobject.NewFile(a.Store.direct).Read(t.Context())
	if err != nil {
		return "not claimed"
	}
	all, err := b.Store.archive().Adoptions(t.Context())
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		t.Fatal(err)
	}
	_, current := all.Current()
	switch {
	case len(all) == 0 && o.Status != syncobject.Done:
		return "claimed"
	case current == nil && o.Status == syncobject.Done:
		return "settled"
	case !errors.Is(current, archive.ErrAdopting):
		t.Errorf("adoptions %+v (%v) at %+v", all, current, o)
	case o.Status == syncobject.Done:
		return "committed"
	}
	return "begun, the object is " + string(o.Status)
}
