package rows

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// atOnce is how many tests run side by side unless -parallel says otherwise. They
// mostly wait.
const atOnce = 4

// binary is the program under test, and mortal the same with points at which it
// can be told to die.
var binary, mortal string

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", fmt.Sprint(atOnce))
	}
	os.Exit(proc.Main(m, func(dir string) (err error) {
		if binary, err = proc.Build(dir, "etcd-ferry"); err == nil {
			mortal, err = proc.Build(dir, "mortal", "-tags=crashpoints")
		}
		return err
	}))
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
