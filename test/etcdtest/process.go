package etcdtest

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// grace is how long a process that was asked to end may take.
const grace = 15 * time.Second

// process is a child that does not outlive the test binary.
type process struct {
	pid   int
	ended chan struct{} // closed when the process is gone
}

// run starts cmd in a process group of its own, so that a Ctrl-C meant for the
// tests does not reach it before they have ended.
func run(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{ended: make(chan struct{})}
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

// signal does nothing to a process that has ended.
func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.pid, s) // it may have ended just now
	}
}

// stop asks the process to end and reports whether it obeyed within the grace
// period; if not, it has been killed.
func (p *process) stop() bool {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // a paused process does not hear anything else
	select {
	case <-p.ended:
		return true
	case <-time.After(grace):
		p.kill()
		return false
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}
