package rows

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startDecoy runs a process that is named etcd and is none.
func startDecoy(t *testing.T) *proc.Process {
	t.Helper()
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Start(exec.Command(path, "gate", "--server=http://127.0.0.1:1", "--", "true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}
