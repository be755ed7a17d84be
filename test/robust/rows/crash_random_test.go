package rows

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
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
	killsOfOne int64 = 16
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
	var killed atomic.Int64
	for lane := range 1 + kills/50 {
		t.Run(fmt.Sprint("lane ", lane+1), func(t *testing.T) {
			t.Parallel()
			for round := 1; killed.Load() < int64(kills) && !t.Failed(); round++ {
				t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
					killed.Add(handOverWithKills(t, min(killsOfOne, int64(kills)-killed.Load())))
				})
			}
		})
	}
	t.Cleanup(func() { t.Logf("%d copies were killed", killed.Load()) })
}

// handOverWithKills kills copies until it was often enough, or one was faster, and
// returns how many it has killed.
func handOverWithKills(t *testing.T, most int64) (killed int64) {
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
	bandwidth := fmt.Sprintf("--bandwidth=%dMiB", 1<<rng.IntN(5))
	stages, sidecars := map[string]int{}, 0
	for killed < most {
		copying := a.copyTo("b", b.Store, bandwidth)
		wait(t, time.Duration(rng.Int64N(int64(longest))))
		if rng.IntN(8) == 0 {
			a.members[0].Kill("sidecar")
			sidecars++
		}
		copying.process.Kill()
		if code := copying.code(); code == 0 {
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
	return killed
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
