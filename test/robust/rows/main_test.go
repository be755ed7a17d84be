package rows

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// atOnce is how many tests run side by side unless -parallel says otherwise. They
// mostly wait.
const atOnce = 4

// binary is the program under test, and mortal the same with points at which it
// can be told to die.
var binary, mortal string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", fmt.Sprint(atOnce))
	}
	dir, err := os.MkdirTemp("", "etcd-ferry-rows-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary, mortal = filepath.Join(dir, "etcd-ferry"), filepath.Join(dir, "mortal")
	for _, args := range [][]string{{"-o", binary}, {"-tags=crashpoints", "-o", mortal}} {
		build := exec.Command("go", slices.Concat([]string{"build"}, args, []string{"../../../cmd/etcd-ferry"})...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// patience is how long anything may take that must happen in the end.
const patience = 4 * time.Minute

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not after %v: %s", patience, what)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
