package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handle is a hold on one process that no reuse of its id can divert.
type handle struct {
	Process
	fd    int
	ended bool
	// denied says that it may not be signalled.
	denied bool
	killed bool // SIGKILL was sent
}

// open wraps fs.ErrNotExist if p is gone, even if its id is in use again.
func open(p Process) (*handle, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // EINVAL: a thread, so another process
		return nil, processError(p, fs.ErrNotExist)
	case errors.Is(err, unix.ENOSYS):
		return nil, processError(p, fmt.Errorf("pidfd_open: %w: Linux 5.3 or newer is needed", err))
	case err != nil:
		return nil, processError(p, fmt.Errorf("pidfd_open: %w", err))
	}
	h := &handle{Process: p, fd: fd}
	// Only now: what has the id and the start time after the open is what was
	// opened.
	now, err := Find(p.PID)
	if err == nil && now != p {
		err = processError(p, fs.ErrNotExist)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// signal sends s; 0 only asks whether it might. That the process has ended is no
// error.
func (h *handle) signal(s syscall.Signal) error {
	err := unix.PidfdSendSignal(h.fd, s, nil, 0)
	switch {
	case err == nil:
		h.killed = h.killed || s == unix.SIGKILL
		return nil
	case errors.Is(err, unix.ESRCH):
		h.ended = true
		return nil
	case errors.Is(err, unix.EPERM):
		h.denied = true
		return processError(h.Process, ErrNotPermitted)
	}
	return processError(h.Process, fmt.Errorf("signal %d: %w", s, err))
}

func (h *handle) close() { _ = unix.Close(h.fd) }

// wait returns after d, or when at least one process has ended, and notes which.
func wait(hs []*handle, d time.Duration) error {
	var fds []unix.PollFd
	var asked []*handle
	for _, h := range hs {
		if !h.ended {
			fds = append(fds, unix.PollFd{Fd: int32(h.fd), Events: unix.POLLIN})
			asked = append(asked, h)
		}
	}
	if _, err := unix.Poll(fds, int(d.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for processes: %w", err)
	}
	for i, fd := range fds {
		asked[i].ended = fd.Revents != 0
	}
	return nil
}
