package storeservers

import (
	"os/exec"
	"runtime"
	"syscall"
)

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

// kill ends the process at once: nobody needs its data any more, and some servers
// take long to leave.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}
