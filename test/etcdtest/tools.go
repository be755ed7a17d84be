package etcdtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Versions are the versions of etcd under test, oldest first.
var Versions = []string{"3.5.35", "3.6.16", "3.7.3"}

// Newest is the version that Start runs unless told otherwise.
const Newest = "3.7.3"

// Tool returns the path of the program name ("etcd", "etcdctl" or "etcdutl") of
// a version in Versions.
func Tool(t testing.TB, version, name string) string {
	t.Helper()
	path := filepath.Join(root(t), ".tools", "etcd-"+version, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	return path
}

// root returns the module's folder: the nearest one with a go.mod, starting from
// the folder of the package under test.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory: run tests inside the module")
		}
		dir = parent
	}
}
