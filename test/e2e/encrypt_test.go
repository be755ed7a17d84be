package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// keys are the files of a new key pair.
type keys struct {
	identity               *age.X25519Identity
	recipients, identities string // flags
}

func newKeys(t *testing.T) keys {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := keys{identity, filepath.Join(dir, "recipients"), filepath.Join(dir, "identities")}
	for path, text := range map[string]string{k.recipients: identity.Recipient().String(), k.identities: identity.String()} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.recipients, k.identities = "--recipients-file="+k.recipients, "--identities-file="+k.identities
	return k
}

// takeFor stores an encrypted snapshot.
func takeFor(t *testing.T, k keys, kind, store string, e *etcdtest.Etcd) manifest {
	t.Helper()
	m := decode[manifest](t, must(t, "snapshot", kind, store, endpoints(e), k.recipients, "-o", "json"))
	if !strings.HasSuffix(m.Name, ".age") {
		t.Errorf("%s is not called encrypted", m.Name)
	}
	return m
}

func TestEncryptedBackUpAndRestore(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	k, other := newKeys(t), newKeys(t)
	churn(t, source.Client(t), "SECRETKEY")
	takeFor(t, k, "full", store, source)
	churn(t, source.Client(t), "after")
	delta := takeFor(t, k, "delta", store, source)
	for name, data := range contents(t, dir) {
		if strings.Contains(data, "SECRETKEY") {
			t.Errorf("%s shows a key", name)
		}
	}

	must(t, "list", store)
	must(t, "verify", store, "--level=manifest")
	must(t, "verify", store, k.identities, endpoints(source))
	dataDir := filepath.Join(t.TempDir(), "etcd")
	ferry(t, "verify", store).wantFailure(t, 1, "--identities-file", ".age")
	ferry(t, "restore", store, "--data-dir", dataDir).wantFailure(t, 1, "--identities-file", ".age")
	ferry(t, "restore", store, "--data-dir", dataDir, other.identities).wantFailure(t, 1, "other keys", ".age")
	ferry(t, "restore", store, "--data-dir", dataDir, "--identities-file=/no/such/file").wantFailure(t, 1, "/no/such/file")
	must(t, "restore", store, "--data-dir", dataDir, k.identities)
	checkSame(t, source, dataDir, source.Revision(t))

	corrupt(t, dir, delta.Name, 0.5)
	ferry(t, "restore", store, "--data-dir", dataDir+"-2", k.identities).wantFailure(t, 8, delta.Name)
}

func TestServerEncrypts(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	_, store := newStore(t)
	k := newKeys(t)
	url, stop := serve(t, store, endpoints(source), k.recipients, "--delta-period=1h")
	ask(t, "POST", url+"/snapshot/full", 200)
	revision := source.Fill(t, 100, 100)
	ask(t, "POST", url+"/snapshot/delta", 200)
	stop()
	for _, m := range decode[listing](t, must(t, "list", store, "-o=json")).Snapshots {
		if !strings.HasSuffix(m.Name, ".age") {
			t.Errorf("%s is not encrypted", m.Name)
		}
	}
	dataDir := filepath.Join(t.TempDir(), "etcd")
	must(t, "restore", store, "--data-dir", dataDir, k.identities)
	checkSame(t, source, dataDir, revision)

	ferry(t, "server", store, endpoints(source), "--recipients-file=/no/such/file").wantFailure(t, 1, "/no/such/file")
}

// TestPlainToolsRestoreAnEncryptedFull does what a user without etcd-ferry
// would: age -d | zstd -d, etcdutl snapshot restore.
func TestPlainToolsRestoreAnEncryptedFull(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	dir, store := newStore(t)
	k := newKeys(t)
	churn(t, source.Client(t), "a")
	full := takeFor(t, k, "full", store, source)

	plain := filepath.Join(t.TempDir(), "full.db")
	decrypt(t, filepath.Join(dir, "snapshots", full.Name), plain, k.identity)
	dataDir := filepath.Join(t.TempDir(), "etcd")
	restore := exec.Command(etcdtest.Tool(t, source.Version, "etcdutl"), "snapshot", "restore", plain, "--data-dir", dataDir)
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("etcdutl: %v\n%s", err, out)
	}
	checkSame(t, source, dataDir, source.Revision(t))
}

func decrypt(t *testing.T, from, to string, key age.Identity) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zipped, err := age.Decrypt(in, key)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCopyOfEncryptedSnapshots(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	from, store := newStore(t)
	before, after := newKeys(t), newKeys(t)
	takeFor(t, before, "full", store, source)
	source.Fill(t, 50, 100)
	takeFor(t, before, "delta", store, source)

	asItIs, _ := newStore(t)
	must(t, copyArgs(from, asItIs)...)
	checkCopied(t, from, asItIs)

	to, copyFlag := newStore(t)
	ferry(t, copyArgs(from, to, "--reencrypt", after.recipients)...).wantFailure(t, 1, "--identities-file")
	reencrypt := copyArgs(from, to, "--reencrypt", after.recipients, before.identities)
	if r := decode[copied](t, must(t, reencrypt...)); r.Copied != 2 {
		t.Errorf("copied: %+v", r)
	}
	if r := decode[copied](t, must(t, reencrypt...)); r.There != 2 {
		t.Errorf("copied again: %+v", r)
	}
	dataDir := filepath.Join(t.TempDir(), "etcd")
	ferry(t, "restore", copyFlag, "--data-dir", dataDir, before.identities).wantFailure(t, 1, "other keys")
	must(t, "restore", copyFlag, "--data-dir", dataDir, after.identities)
	checkSame(t, source, dataDir, source.Revision(t))
}
