package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// The JSON of a copy that these tests look at.
type copied struct {
	Copied      int   `json:"copied"`
	CopiedBytes int64 `json:"copiedBytes"`
	Adopted     int   `json:"adopted"`
	ByStores    int   `json:"copiedByStores"`
	There       int   `json:"there"`
}

// copyArgs is the command line of a copy between two directories.
func copyArgs(from, to string, more ...string) []string {
	return append([]string{"copy", "--manual", "--source-store=file://" + from, "--store=file://" + to, "-o=json"}, more...)
}

// checkCopied compares all objects.
func checkCopied(t *testing.T, from, to string) {
	t.Helper()
	a, b := contents(t, from), contents(t, to)
	if !maps.Equal(a, b) {
		t.Errorf("the source holds %d objects, the copy %d, or they differ", len(a), len(b))
	}
}

// contents returns the objects in a store by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(data)
	}
	return all
}

// backUp stores n deltas after each of two fulls.
func backUp(t *testing.T, source *etcdtest.Etcd, store string, n int) {
	t.Helper()
	for range 2 {
		take(t, "full", store, source)
		for range n {
			source.Fill(t, 5, 20_000)
			take(t, "delta", store, source)
		}
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			source := etcdtest.Start(t, etcdtest.WithVersion(version))
			from, store := newStore(t)
			to, copyFlag := newStore(t)
			churn(t, source.Client(t), "a")
			backUp(t, source, store, 2)
			if r := decode[copied](t, must(t, copyArgs(from, to)...)); r.Copied != 6 {
				t.Errorf("copied: %+v", r)
			}
			checkCopied(t, from, to)
			if r := decode[copied](t, must(t, copyArgs(from, to)...)); r.Copied != 0 || r.There != 6 {
				t.Errorf("copied again: %+v", r)
			}
			must(t, "verify", copyFlag, endpoints(source))
			dataDir := filepath.Join(t.TempDir(), "etcd")
			must(t, "restore", copyFlag, "--data-dir", dataDir)
			checkSame(t, source, dataDir, source.Revision(t))
		})
	}
}

func TestCopyUsage(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	from, store := newStore(t)
	to, _ := newStore(t)
	take(t, "full", store, source)
	source.Fill(t, 5, 10)
	delta := take(t, "delta", store, source)

	ferry(t, "copy", "--source-store=file://"+from, "--store=file://"+to).wantFailure(t, 2, "--owner-id", "--manual")
	ferry(t, copyArgs(from, to, "--latest", "--since=2026-01-01T00:00:00Z")...).wantFailure(t, 2, "exclude each other")
	ferry(t, copyArgs(from, to, "--reencrypt")...).wantFailure(t, 2, "--recipients-file")
	ferry(t, copyArgs(from, from)...).wantFailure(t, 2, "are the same")
	ferry(t, copyArgs(from, to, "--lineage=unknown")...).wantFailure(t, 7, "unknown")
	ferry(t, copyArgs(from+"/missing", to)...).wantFailure(t, 1, "store does not exist")
	plan := must(t, copyArgs(from, to, "--dry-run", "-o=table")...)
	if !strings.Contains(plan.stdout, delta.Name) {
		t.Errorf("the plan does not name %s:\n%s", delta.Name, plan.stdout)
	}
	if found := files(t, to); found != "" {
		t.Errorf("the dry run stored %s", found)
	}

	corrupt(t, from, delta.Name, 0.5)
	ferry(t, copyArgs(from, to)...).wantFailure(t, 8, delta.Name)
	if found := files(t, to); strings.Contains(found, delta.Name) || !strings.Contains(found, "full") {
		t.Errorf("copied are %s", found)
	}
	corrupt(t, from, delta.Name, 0.5)
	if err := os.WriteFile(filepath.Join(to, "snapshots", delta.Name), []byte("foreign"), 0o600); err != nil {
		t.Fatal(err)
	}
	ferry(t, copyArgs(from, to)...).wantFailure(t, 1, delta.Name, "left as it is")
}
