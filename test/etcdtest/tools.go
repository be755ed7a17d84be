package etcdtest

import (
	"path/filepath"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// Versions are the versions of etcd under test, oldest first.
var Versions = []string{"3.5.35", "3.6.16", "3.7.3"}

// Newest is the version that Start runs unless told otherwise.
const Newest = "3.7.3"

// Tool returns the path of the program name ("etcd", "etcdctl" or "etcdutl") of
// a version in Versions.
func Tool(t testing.TB, version, name string) string {
	t.Helper()
	return proc.Tool(t, filepath.Join("etcd-"+version, name))
}
