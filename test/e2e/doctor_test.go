package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			_, store := newStore(t)
			k := newKeys(t)
			take(t, "full", store, e)
			o := must(t, "doctor", store, endpoints(e), k.identities, k.recipients, "--data-dir", filepath.Join(t.TempDir(), "etcd"))
			for _, part := range []string{": snapshot", version, "a restore takes up to", "1 secret keys"} {
				if !strings.Contains(o.stdout, part) {
					t.Errorf("%q is missing in:\n%s", part, o.stdout)
				}
			}
			e.EnableAuth(t)
			ferry(t, "doctor", endpoints(e)).wantFailure(t, 1, "failed")
			must(t, "doctor", endpoints(e), "--etcd-user-file", e.Auth.File)
		})
	}
}
