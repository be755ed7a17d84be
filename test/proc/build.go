package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Build builds the program into dir under a name, with more flags of go build, and
// returns its path.
func Build(dir, name string, flags ...string) (string, error) {
	path := filepath.Join(dir, name)
	args := slices.Concat([]string{"build", "-trimpath", "-o", path}, flags, []string{"github.com/etcd-ferry/etcd-ferry/cmd/etcd-ferry"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// Main runs the tests once prepare has built what they need into a folder, which goes
// with them. It returns the exit code.
func Main(m *testing.M, prepare func(dir string) error) int {
	dir, err := os.MkdirTemp("", "etcd-ferry-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
