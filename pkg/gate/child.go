package gate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errLate is a permission that has grown old.
var errLate = errors.New("the permission is over")

// child is the command as it runs.
type child struct {
	pid int
}

func lookPath(command []string) (string, error) {
	if len(command) == 0 {
		return "", errors.New("no command to run")
	}
	return exec.LookPath(command[0])
}

// start starts a command in a process group of its own, if it is not later than
// until. The goroutine keeps its thread from here on: the kernel counts that
// thread's death as the gate's.
func start(path string, command []string, until time.Duration) (*child, error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	now, err := boottime()
	if err != nil {
		return nil, err
	}
	if now >= until {
		return nil, errLate
	}
	pid, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, err
	}
	return &child{pid}, nil
}

// wait passes signals on until the command and all it left behind are gone.
func (c *child) wait(signals <-chan os.Signal, grace time.Duration) (int, error) {
	ended := make(chan syscall.WaitStatus, 1) // of the command
	gone := make(chan error, 1)               // of everything
	go func() { gone <- c.reap(ended) }()
	var status syscall.WaitStatus
	var late <-chan time.Time
	for {
		select {
		case s := <-signals:
			c.pass(s)
		case status = <-ended:
			_ = syscall.Kill(-c.pid, syscall.SIGTERM) // whoever is left
			late = time.After(grace)
		case <-late:
			_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		case err := <-gone:
			select {
			case status = <-ended:
			default:
			}
			return exitStatus(status), err
		}
	}
}

// reap takes the exit status of every child until there is none.
func (c *child) reap(ended chan<- syscall.WaitStatus) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case pid == c.pid:
			ended <- status
		}
	}
}

// pass gives the command a signal that was meant for it. The others are about
// this process: its children, its pipes, its scheduler.
func (c *child) pass(s os.Signal) {
	n, ok := s.(syscall.Signal)
	switch n {
	case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
	default:
		if ok {
			_ = syscall.Kill(c.pid, n) // it may have ended just now
		}
	}
}

// exitStatus is the status as a shell has it.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
