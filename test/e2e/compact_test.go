package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// compaction is what etcd-ferry compact prints as JSON.
type compaction struct {
	Snapshot manifest `json:"snapshot"`
	Merged   manifest `json:"merged"` // of a dry run
}

func TestCompact(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	k := newKeys(t)
	churn(t, source.Client(t), "before")
	takeFor(t, k, "full", store, source)
	ferry(t, "compact", store, k.identities, k.recipients).wantFailure(t, 7, "nothing to compact")
	<-time.After(time.Second) // of two snapshots of one second the older one would stay, too
	churn(t, source.Client(t), "after")
	takeFor(t, k, "delta", store, source)

	ferry(t, "compact", store, k.identities).wantFailure(t, 2, "--recipients-file")
	dry := decode[compaction](t, must(t, "compact", store, k.identities, k.recipients, "--dry-run", "-o", "json"))
	if n := len(decode[listing](t, must(t, "list", store, "-o", "json")).Snapshots); n != 2 || dry.Merged.Last != source.Revision(t) {
		t.Errorf("%d snapshots after a dry run of %+v", n, dry)
	}
	object := filepath.Join(dir, "copy-operation.json")
	if err := os.WriteFile(object, []byte(`{"status":"Initial"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ferry(t, "compact", store, k.identities, k.recipients).wantFailure(t, 3, "is being handed over")
	if err := os.WriteFile(object, []byte(`{"status":"Done","schemaVersion":1,"generation":1,"observedGeneration":1,"outcome":"Completed","owner":{"id":"B","epoch":2,"lineage":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ferry(t, "compact", store, k.identities, k.recipients).wantFailure(t, 3, "not added to")
	if err := os.Remove(object); err != nil {
		t.Fatal(err)
	}

	done := decode[compaction](t, must(t, "compact", store, k.identities, k.recipients, "--verify-against="+source.Endpoint(), "-o", "json"))
	dataDir := filepath.Join(t.TempDir(), "etcd")
	must(t, "restore", store, k.identities, "--data-dir", dataDir)
	checkSame(t, source, dataDir, source.Revision(t))
	if done.Snapshot.Last != source.Revision(t) {
		t.Errorf("stored %+v, etcd is at revision %d", done.Snapshot, source.Revision(t))
	}
	must(t, "verify", store, k.identities)
	must(t, "prune", store, "--keep-last=1", "--delta-retention=1ns")
	if left := decode[listing](t, must(t, "list", store, "-o", "json")).Snapshots; len(left) != 1 || left[0].Name != done.Snapshot.Name {
		t.Errorf("prune has left %+v", left)
	}
}
