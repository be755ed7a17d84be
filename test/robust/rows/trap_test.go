package rows

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
)

// trap is where processes die, at points that are armed, each of them once. A nil
// one is for processes that live.
type trap struct {
	t   *testing.T
	dir string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	return &trap{t, t.TempDir()}
}

// program is what can be run in the trap.
func (x *trap) program() string {
	if x == nil {
		return binary
	}
	return mortal
}

// env is for who shall run in it.
func (x *trap) env() []string {
	if x == nil {
		return nil
	}
	return []string{crashpoint.Variable + "=" + x.dir}
}

// arm has the next process die that comes to one of the points. The test fails if
// none has at its end.
func (x *trap) arm(points ...crashpoint.Point) {
	x.t.Helper()
	for _, p := range points {
		touch(x.t, filepath.Join(x.dir, string(p)))
		x.t.Cleanup(func() {
			if !x.sprung(p) {
				x.t.Errorf("nobody has come to the point %s", p)
			}
		})
	}
}

// sprung reports whether somebody has died at all of the points since they were
// armed.
func (x *trap) sprung(points ...crashpoint.Point) bool {
	return !slices.ContainsFunc(points, func(p crashpoint.Point) bool { return exists(filepath.Join(x.dir, string(p))) })
}

// await returns when somebody has.
func (x *trap) await(points ...crashpoint.Point) {
	x.t.Helper()
	for _, p := range points {
		eventually(x.t, "somebody dies at "+string(p), func() bool { return x.sprung(p) })
	}
}

// begin starts a command of the program in the trap.
func (x *trap) begin(args ...string) *job {
	x.t.Helper()
	cmd := exec.Command(mortal, args...)
	cmd.Env = append(os.Environ(), x.env()...)
	return beginAs(x.t, cmd)
}

// dead waits for the end of the command, which must be a SIGKILL.
func (j *job) dead() {
	j.t.Helper()
	j.want(-1)
	if s, ok := j.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		j.t.Fatalf("etcd-ferry %s: it ended with %v", j.line, j.cmd.ProcessState)
	}
}

// diesAt runs a command in the trap until it dies there.
func (x *trap) diesAt(p crashpoint.Point, args ...string) {
	x.t.Helper()
	x.arm(p)
	x.begin(args...).dead()
	if !x.sprung(p) {
		x.t.Fatalf("it died elsewhere than at %s", p)
	}
}
