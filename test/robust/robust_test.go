package robust

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// ferry builds the program and returns its path.
func ferry(t *testing.T) string {
	t.Helper()
	bin, err := proc.Build(t.TempDir(), "etcd-ferry")
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// run runs a command of the program to its end.
func run(t *testing.T, bin string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("etcd-ferry %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// process is a command of the program that goes on.
type process struct {
	cmd *exec.Cmd
	log strings.Builder
}

func start(t *testing.T, bin string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), bin, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// kill ends the process with SIGKILL; it must not have ended before.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("it ended by itself: %v\n%s", err, p.log.String())
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("it ended by itself: %v\n%s", err, p.log.String())
	}
}

// sameAfterRestore restores the newest state of a container, runs an etcd on it
// and compares its hash with the source's at the same revision.
func sameAfterRestore(t *testing.T, bin, container string, source *etcdtest.Etcd) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	run(t, bin, "restore", "--store", "file://"+container, "--data-dir", dir)
	restored := etcdtest.Start(t, etcdtest.WithVersion(source.Version), etcdtest.WithDataDir(dir))
	revision := restored.Revision(t)
	if now := source.Revision(t); now != revision {
		t.Fatalf("restored to revision %d, the source is at %d", revision, now)
	}
	want, compacted := source.HashKV(t, revision)
	if compacted > 0 {
		if _, err := restored.Client(t).Compact(t.Context(), compacted); err != nil && !strings.Contains(err.Error(), "has been compacted") {
			t.Fatal(err)
		}
	}
	if got, c := restored.HashKV(t, revision); got != want || c != compacted {
		t.Errorf("at revision %d the restored hash is %d (compacted %d), the source's %d (compacted %d)", revision, got, c, want, compacted)
	}
}
