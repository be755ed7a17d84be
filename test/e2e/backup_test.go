package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// churn writes all kinds of changes: new keys, new versions, deletions, leases,
// and a transaction of many keys in one revision.
func churn(t *testing.T, c *clientv3.Client, prefix string) {
	t.Helper()
	ctx := t.Context()
	lease, err := c.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	var batch []clientv3.Op
	for i := range 100 {
		batch = append(batch, clientv3.OpPut(fmt.Sprintf("%s/txn/%03d", prefix, i), "at once", clientv3.WithLease(lease.ID)))
	}
	if _, err := c.Txn(ctx).Then(batch...).Commit(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := c.Put(ctx, fmt.Sprintf("%s/put/%d", prefix, i%50), fmt.Sprintf("version %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Delete(ctx, prefix+"/put/1", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

func TestBackUpAndRestore(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			source := etcdtest.Start(t, etcdtest.WithVersion(version))
			_, store := newStore(t)
			churn(t, source.Client(t), "before")
			full := take(t, "full", store, source)
			churn(t, source.Client(t), "after")
			delta := take(t, "delta", store, source)
			if again := take(t, "delta", store, source); again.Name != "" {
				t.Errorf("a delta of nothing is %s", again.Name)
			}

			revision := source.Revision(t)
			checkList(t, store, full, delta, revision)
			for _, level := range []string{"manifest", "content", "restore"} {
				must(t, "verify", store, "--level", level)
			}
			must(t, "verify", store, endpoints(source))

			dataDir := filepath.Join(t.TempDir(), "etcd")
			done := decode[restored](t, must(t, "restore", store, "--data-dir", dataDir, "--verify-against", source.Endpoint(), "-o", "json"))
			if done.Revision != revision {
				t.Errorf("revision %d was restored, etcd is at %d", done.Revision, revision)
			}
			checkSame(t, source, dataDir, revision)
		})
	}
}

func checkList(t *testing.T, store string, full, delta manifest, revision int64) {
	t.Helper()
	l := decode[listing](t, must(t, "list", store, "-o", "json"))
	if len(l.Snapshots) != 2 || l.Snapshots[0] != full || l.Snapshots[1] != delta {
		t.Errorf("listed are %+v, want %+v and %+v", l.Snapshots, full, delta)
	}
	if want := (window{full.Last, revision}); len(l.Windows) != 1 || l.Windows[0] != want {
		t.Errorf("the windows are %+v, want one %+v", l.Windows, want)
	}
	if len(l.Problems)+len(l.Strays) > 0 {
		t.Errorf("problems %+v, strays %v", l.Problems, l.Strays)
	}
}

// checkSame runs an etcd of the same version on a restored data dir and compares
// its history up to a revision.
func checkSame(t *testing.T, source *etcdtest.Etcd, dataDir string, revision int64) {
	t.Helper()
	copied := etcdtest.Start(t, etcdtest.WithVersion(source.Version), etcdtest.WithDataDir(dataDir))
	want, wantCompacted := source.HashKV(t, revision)
	got, gotCompacted := copied.HashKV(t, revision)
	if got != want || gotCompacted != wantCompacted {
		t.Errorf("at revision %d the hash is %x from %d on, want %x from %d on", revision, got, gotCompacted, want, wantCompacted)
	}
	if now := copied.Revision(t); now != revision {
		t.Errorf("etcd starts at revision %d, want %d", now, revision)
	}
}

func TestRestoreToAPointInThePast(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	take(t, "full", store, source)
	source.Fill(t, 50, 10)
	middle := source.Revision(t)
	source.Fill(t, 50, 10)
	take(t, "delta", store, source)

	dataDir := filepath.Join(t.TempDir(), "etcd")
	must(t, "restore", store, "--data-dir", dataDir, "--revision", fmt.Sprint(middle))
	checkSame(t, source, dataDir, middle)
}

func TestRestoreWithABump(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	source.Fill(t, 10, 10)
	take(t, "full", store, source)

	dataDir := filepath.Join(t.TempDir(), "etcd")
	done := decode[restored](t, must(t, "restore", store, "--data-dir", dataDir, "--bump-revision", "1000000", "--mark-compacted", "-o", "json"))
	if done.Current < 1_000_000 {
		t.Errorf("the revision is bumped to %d", done.Current)
	}
	if now := etcdtest.Start(t, etcdtest.WithDataDir(dataDir)).Revision(t); now != done.Current {
		t.Errorf("etcd starts at revision %d, want %d", now, done.Current)
	}
}

func TestRestoreMovesTheFormerDataDirAside(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	take(t, "full", store, source)

	dataDir := filepath.Join(t.TempDir(), "etcd")
	if err := os.MkdirAll(filepath.Join(dataDir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dataDir, "member", "precious"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := decode[restored](t, must(t, "restore", store, "--data-dir", dataDir, "-o", "json"))
	found, err := filepath.Glob(filepath.Join(filepath.Dir(dataDir), "*", "member", "precious"))
	if err != nil || done.MovedAside == "" || len(found) != 1 || !strings.HasPrefix(found[0], done.MovedAside) {
		t.Errorf("moved to %q; the former data is in %v (%v)", done.MovedAside, found, err)
	}
}

func TestDryRunsDoNothing(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	for range 3 {
		source.Fill(t, 5, 10)
		take(t, "full", store, source)
	}
	before := files(t, dir)

	dataDir := filepath.Join(t.TempDir(), "etcd")
	plan := must(t, "restore", store, "--data-dir", dataDir, "--dry-run")
	if !strings.Contains(plan.stdout, fmt.Sprint(source.Revision(t))) {
		t.Errorf("revision %d is missing in the plan:\n%s", source.Revision(t), plan.stdout)
	}
	if _, err := os.Stat(dataDir); !os.IsNotExist(err) {
		t.Errorf("the dry run of a restore made a data dir (%v)", err)
	}
	// Names have whole seconds and must differ, so for a moment the newest
	// snapshots are of the future, and judged otherwise.
	verdicts := outcome{}
	for began := time.Now(); strings.Count(verdicts.stdout, "remove ") != 2; {
		if verdicts = must(t, "prune", store, "--keep-last", "1", "--dry-run"); time.Since(began) > 10*time.Second {
			t.Fatalf("want one snapshot kept and two removed:\n%s", verdicts.stdout)
		}
	}
	if after := files(t, dir); after != before {
		t.Errorf("the dry run of pruning changed the store from\n%s to\n%s", before, after)
	}

	must(t, "prune", store, "--keep-last", "1")
	if l := decode[listing](t, must(t, "list", store, "-o", "json")); len(l.Snapshots) != 1 {
		t.Errorf("pruning left %+v", l.Snapshots)
	}
	must(t, "verify", store)
}

// files lists everything below dir that is not hidden.
func files(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

func TestSettingsFromFileAndEnvironment(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("store: %s\netcd-endpoints:\n- http://127.0.0.1:1\n- %s\nfull-schedule: 0 0 * * *\n",
		strings.TrimPrefix(store, "--store="), source.Endpoint())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "snapshot", "full", "--config", config)
	if l := decode[listing](t, must(t, "list", "--config", config, "-o", "json")); len(l.Snapshots) != 1 {
		t.Errorf("listed are %+v", l.Snapshots)
	}
	o := ferryWith(t, []string{"ETCD_FERRY_CONFIG=" + config, "ETCD_FERRY_OUTPUT=json"}, "list").wantSuccess(t)
	decode[listing](t, o)
}
