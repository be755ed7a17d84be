package robust

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

const (
	// killsVariable says how many sidecars are killed; "make kills" sets it.
	killsVariable = "FERRY_KILLS"
	killsPreset   = 40
)

// TestSidecarKilledAnywhere ends the sidecar with SIGKILL at random moments
// while it is busy with everything it does: uploading fulls and deltas, writing
// manifests, pruning.
func TestSidecarKilledAnywhere(t *testing.T) {
	kills := killsPreset
	if given := os.Getenv(killsVariable); given != "" {
		var err error
		if kills, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	bin := ferry(t)
	etcd := etcdtest.Start(t, etcdtest.WithoutFsync())
	etcd.Fill(t, 5_000, 4<<10) // makes fulls last
	client := etcd.Client(t)
	container := filepath.Join(t.TempDir(), "container")
	writer := etcdtest.StartWriter(t, client, "written/", 4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var reached int64
	for i := range kills {
		sidecar := start(t, bin, "server", "--store", "file://"+container, "--etcd-endpoints", etcd.Endpoint(),
			"--listen", "127.0.0.1:0", "--delta-period", "20ms", "--full-schedule", "", "--delta-share", "0.02",
			"--keep-last", "2", "--prune-period", "50ms")
		if i == 0 {
			awaitChain(t, container)
		}
		time.Sleep(50*time.Millisecond + time.Duration(rng.Int64N(int64(400*time.Millisecond)))) //nolint:forbidigo // the moment of the blow
		if i%10 == 5 && reached > 500 {                                                          // what is compacted before it is stored would be lost, and rightly called a gap
			compact(t, client, reached-int64(rng.IntN(500)))
		}
		sidecar.kill(t)
		now := whole.Through(t, file.New(container))
		if now < reached {
			t.Fatalf("kill %d: what can be restored went back from revision %d to %d", i, reached, now)
		}
		reached = now
	}
	writer.Stop()
	run(t, bin, "snapshot", "delta", "--store", "file://"+container, "--etcd-endpoints", etcd.Endpoint())
	sameAfterRestore(t, bin, container, etcd)
	t.Logf("%d kills, %d acknowledged writes, revision %d", kills, len(writer.Acked()), etcd.Revision(t))
}

func compact(t *testing.T, client *clientv3.Client, revision int64) {
	t.Helper()
	if _, err := client.Compact(t.Context(), revision); err != nil {
		t.Logf("compact: %v", err) // an earlier one went further
	}
}

// awaitChain waits until there is something to restore.
func awaitChain(t *testing.T, container string) {
	t.Helper()
	for range 600 {
		found, err := filepath.Glob(filepath.Join(container, "snapshots", "full-*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // another process has no virtual time
	}
	t.Fatal(fmt.Errorf("no full snapshot in %s", container))
}
