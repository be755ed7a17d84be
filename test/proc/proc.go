// Package proc runs the programs that tests need.
package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Grace is how long a process that was asked to end may take.
const Grace = 15 * time.Second

// Process is a child that does not outlive the test binary.
type Process struct {
	pid   int
	ended chan struct{}
}

// Start starts cmd in a process group of its own, so that a Ctrl-C meant for the
// tests does not reach it before they have ended.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// Pdeathsig is about the death of the thread that started the process,
		// not of this whole process: keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is for its log to tell
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the id of the process, also when it has ended.
func (p *Process) PID() int { return p.pid }

// Ended is closed when the process is gone, for whatever reason.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal does nothing to a process that has ended.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.pid, s) // it may have ended just now
	}
}

// Stop asks the process to end and reports whether it obeyed within the grace
// period; if not, it has been killed.
func (p *Process) Stop() bool {
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT) // a paused process does not hear anything else
	select {
	case <-p.ended:
		return true
	case <-time.After(Grace):
		p.Kill()
		return false
	}
}

// Pause stops the process until Resume. All its threads stand still when it
// returns.
func (p *Process) Pause() {
	p.Signal(syscall.SIGSTOP)
	for range 1000 {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid))
		if !slices.ContainsFunc(tasks, runs) {
			return
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no virtual time
	}
}

// runs reports whether a thread is neither stopped nor gone.
func runs(statFile string) bool {
	stat, err := os.ReadFile(statFile)
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "T")
}

// Resume lets a paused process go on.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Kill ends the process at once.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Tool returns the path of a program that "make tools" has built, by its path in
// .tools. An absolute path stays as it is.
func Tool(t testing.TB, path string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(root(t), ".tools", path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	return path
}

// root returns the module's folder: the nearest one with a go.mod, starting from
// the folder of the package under test.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory: run tests inside the module")
		}
		dir = parent
	}
}
