package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestNothingStored(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	dataDir := filepath.Join(t.TempDir(), "etcd")
	ferry(t, "restore", store, "--data-dir", dataDir).wantFailure(t, 7, "nothing to restore")
	ferry(t, "verify", store).wantFailure(t, 7, "nothing to restore")
	if o := must(t, "list", store); !strings.Contains(o.stdout, "nothing can be restored") {
		t.Errorf("the list of an empty store is:\n%s", o.stdout)
	}
}

func TestNoSuchStore(t *testing.T) {
	t.Parallel()
	missing := "--store=file://" + filepath.Join(t.TempDir(), "missing")
	for _, line := range [][]string{
		{"list", missing},
		{"verify", missing},
		{"restore", missing, "--data-dir", filepath.Join(t.TempDir(), "etcd")},
		{"prune", missing, "--keep-last", "1"},
	} {
		ferry(t, line...).wantFailure(t, 1, "store does not exist")
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	ferry(t, "restor").wantFailure(t, 2, "restore")
	ferry(t, "snapshot", "full", "--store", "s3://id:SECRET@bucket").wantFailure(t, 2, "s3://bucket: a URL has no user or password")
}

// corrupt changes the byte at a share of a stored object. Twice is not at all.
func corrupt(t *testing.T, store, name string, share float64) {
	t.Helper()
	path := filepath.Join(store, "snapshots", name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[int(share*float64(len(data)))] ^= 0x20
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCorruptSnapshots(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	for _, kind := range []string{"full", "delta"} {
		t.Run(kind, func(t *testing.T) {
			dir, store := newStore(t)
			stored := map[string]manifest{"full": take(t, "full", store, source)}
			source.Fill(t, 20, 100)
			stored["delta"] = take(t, "delta", store, source)
			name := stored[kind].Name
			for share := 0.0; share < 1; share += 0.1 {
				corrupt(t, dir, name, share)
				checkFound(t, name, ferry(t, "verify", store, "--level", "content"))
				corrupt(t, dir, name, share)
			}
			corrupt(t, dir, name, 0.5)
			must(t, "verify", store, "--level", "manifest")
			checkFound(t, name, ferry(t, "verify", store, "--level", "restore"))
			dataDir := filepath.Join(t.TempDir(), "etcd")
			ferry(t, "restore", store, "--data-dir", dataDir).wantFailure(t, 8, name)
			if left, err := os.ReadDir(filepath.Dir(dataDir)); err != nil || len(left) > 0 {
				t.Errorf("a failed restore left %v (%v)", left, err)
			}
		})
	}
}

// checkFound wants a verification to have found one problem, of the snapshot name.
func checkFound(t *testing.T, name string, o outcome) {
	t.Helper()
	o.wantFailure(t, 8, "found 1 problem")
	if !strings.Contains(o.stdout, name) {
		t.Errorf("the report does not name %s:\n%s", name, o.stdout)
	}
}

func TestCorruptManifest(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	take(t, "full", store, source)
	source.Fill(t, 20, 100)
	name := take(t, "delta", store, source).Name
	corrupt(t, dir, name+".json", 0.5)
	ferry(t, "verify", store, "--level", "manifest").wantFailure(t, 8)
	ferry(t, "restore", store, "--data-dir", filepath.Join(t.TempDir(), "etcd")).wantFailure(t, 8, name)
	if l := decode[listing](t, must(t, "list", store, "-o", "json")); len(l.Problems) != 1 || l.Problems[0].Name != name {
		t.Errorf("the problems are %+v, want one of %s", l.Problems, name)
	}
}

func TestGap(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	full := take(t, "full", store, source)
	var deltas []manifest
	for range 3 {
		source.Fill(t, 5, 10)
		deltas = append(deltas, take(t, "delta", store, source))
	}
	for _, suffix := range []string{"", ".json"} {
		if err := os.Remove(filepath.Join(dir, "snapshots", deltas[1].Name+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	ferry(t, "restore", store, "--data-dir", filepath.Join(t.TempDir(), "etcd")).
		wantFailure(t, 8, deltas[0].Name, deltas[2].Name, fmt.Sprintf("revisions %d to %d", full.Last, deltas[0].Last))
	ferry(t, "verify", store, "--level", "manifest").wantFailure(t, 8)
	done := decode[restored](t, must(t, "restore", store, "--data-dir", filepath.Join(t.TempDir(), "etcd"),
		"--revision", fmt.Sprint(deltas[0].Last), "--base", full.Name, "-o", "json"))
	if done.Revision != deltas[0].Last {
		t.Errorf("revision %d was restored, want %d", done.Revision, deltas[0].Last)
	}
}

func TestEtcdThatCannotBeReached(t *testing.T) {
	t.Parallel()
	_, store := newStore(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, endpoint := range map[string]string{
		"nobody listens": "http://127.0.0.1:1",
		"no answer":      "http://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			ferry(t, "snapshot", "full", store, "--etcd-endpoints", endpoint).wantFailure(t, 1, "etcd at "+endpoint)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s to say so", took)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	secure := etcdtest.Start(t, etcdtest.WithTLS())
	stranger := etcdtest.Start(t, etcdtest.WithTLS())
	_, store := newStore(t)
	full := []string{"snapshot", "full", store, endpoints(secure)}
	certificate := []string{"--etcd-cert", secure.TLS.CertFile, "--etcd-key", secure.TLS.KeyFile}

	must(t, append(append(slices.Clip(full), "--etcd-cacert", secure.TLS.CAFile), certificate...)...)
	for name, flags := range map[string][]string{
		"unknown authority":      certificate,
		"another authority":      append([]string{"--etcd-cacert", stranger.TLS.CAFile}, certificate...),
		"no client certificate":  {"--etcd-cacert", secure.TLS.CAFile},
		"stranger's certificate": {"--etcd-cacert", secure.TLS.CAFile, "--etcd-cert", stranger.TLS.CertFile, "--etcd-key", stranger.TLS.KeyFile},
		"no such file":           {"--etcd-cacert", "/no/such/file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ferry(t, append(slices.Clip(full), flags...)...).wantFailure(t, 1, "etcd")
		})
	}
}

func TestUserAndPassword(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	e.EnableAuth(t)
	_, store := newStore(t)
	must(t, "snapshot", "full", store, endpoints(e), "--etcd-user-file", e.Auth.File)

	wrong := filepath.Join(t.TempDir(), "user")
	if err := os.WriteFile(wrong, []byte("root:SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	ferry(t, "snapshot", "full", store, endpoints(e)).wantFailure(t, 1, "user name is empty")
	o := ferry(t, "snapshot", "full", store, endpoints(e), "--etcd-user-file", wrong)
	o.wantFailure(t, 1, "invalid user ID or password")
	if strings.Contains(o.stderr, "SECRET") {
		t.Errorf("the password is shown:\n%s", o.stderr)
	}
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	source.Fill(t, 10, 10)
	take(t, "full", store, source)
	before := source.Revision(t)
	ferry(t, "restore", store, "--data-dir", source.DataDir).wantFailure(t, 1, source.DataDir)
	source.Restart(t)
	if after := source.Revision(t); after != before {
		t.Errorf("revision %d before, %d after", before, after)
	}
}
