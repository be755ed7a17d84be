package restorer_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestSameAsEtcdutl restores one full with etcdutl's library and with ours: the
// databases must hold the same, bucket by bucket, and all other files must be
// the same bytes.
func TestSameAsEtcdutl(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, version)
			s.work(t, "k", 2)
			s.compactTo(t, 5)
			s.EnableAuth(t)
			s.client = s.Client(t)
			full := s.full(t)
			for _, o := range []restorer.Options{
				{Name: "alone", InitialCluster: "alone=http://10.0.0.1:2380", InitialClusterToken: "token"},
				{
					Name: "b", InitialCluster: "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380",
					InitialClusterToken: "token", BumpRevision: 1000, MarkCompacted: true,
				},
			} {
				ours, theirs := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "theirs")
				plan := s.plan(t, o)
				if _, err := restorer.New(s.archive).Do(t.Context(), plan, ours); err != nil {
					t.Fatal(err)
				}
				err := etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{
					SnapshotPath: s.file(t, full), OutputDataDir: theirs,
					Name: o.Name, InitialCluster: o.InitialCluster, InitialClusterToken: o.InitialClusterToken,
					PeerURLs: plan.Options.PeerURLs, RevisionBump: uint64(o.BumpRevision), MarkCompacted: o.MarkCompacted,
				})
				if err != nil {
					t.Fatal(err)
				}
				sameFiles(t, ours, theirs, o.Name == "alone")
				sameBuckets(t, ours, theirs)
			}
		})
	}
}

// file writes the plain bytes of a snapshot to a file.
func (s *source) file(t *testing.T, m snapshot.Manifest) string {
	t.Helper()
	r, err := s.archive.Open(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var content bytes.Buffer
	if _, err := content.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sameFiles compares the snap files only if there is one member: etcdutl writes
// several in the random order of a map.
func sameFiles(t *testing.T, ours, theirs string, snap bool) {
	t.Helper()
	got, want := files(t, ours), files(t, theirs)
	delete(got, "member/etcd-ferry.json") // the Origin
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) || len(names) < 5 {
		t.Errorf("files %q, etcdutl makes %q", names, slices.Sorted(maps.Keys(want)))
	}
	for name, content := range want {
		compared := filepath.Base(name) != "db" && (snap || filepath.Ext(name) != ".snap")
		if compared && got[name] != content {
			t.Errorf("%s differs from etcdutl's", name)
		}
	}
}

// files returns mode and content of every file, and the mode of every folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || e.IsDir() {
			found[name] = info.Mode().String()
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = info.Mode().String() + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sameBuckets(t *testing.T, ours, theirs string) {
	t.Helper()
	got, want := buckets(t, ours), buckets(t, theirs)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("bucket %s: %q, etcdutl's: %q", name, got[name], content)
		}
	}
	if len(got) != len(want) || len(want) < 10 {
		t.Errorf("%d buckets, etcdutl makes %d", len(got), len(want))
	}
}

// buckets returns everything in a database.
func buckets(t *testing.T, dataDir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	inspect(t, dataDir, func(tx *bbolt.Tx) {
		_ = tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			found[string(name)] = ""
			return b.ForEach(func(k, v []byte) error {
				found[string(name)] += fmt.Sprintf("%q=%q ", k, v)
				return nil
			})
		})
	})
	return found
}
