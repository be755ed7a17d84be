//go:build !linux

package fence

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// handle is of no use here: only Linux has pidfds and /proc/locks.
type handle struct {
	Process
	ended, denied, killed bool
}

func open(p Process) (*handle, error) {
	return nil, processError(p, fmt.Errorf("owner election needs Linux: %w", errors.ErrUnsupported))
}

func (h *handle) signal(syscall.Signal) error { return errors.ErrUnsupported }

func (h *handle) close() {}

func wait([]*handle, time.Duration) error { return errors.ErrUnsupported }
