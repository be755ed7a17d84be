package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrNotPermitted is wrapped if a process may not be signalled.
	ErrNotPermitted = errors.New("not permitted to signal etcd: " +
		"run etcd-ferry with the same user id as etcd (runAsUser), or give it the capability CAP_KILL")
	// ErrUnknownHolder is wrapped if the database is locked, and by whom cannot
	// be told for sure.
	ErrUnknownHolder = errors.New("the database is locked by a process that cannot be identified: " +
		"let the containers share the process namespace (shareProcessNamespace: true), and run both with the same user id")
	// ErrGate is wrapped if the gate's process id cannot be meant as it was given.
	ErrGate = errors.New("the gate's process id is that of a parent of etcd-ferry: " +
		"let the containers share the process namespace (shareProcessNamespace: true)")
	// ErrHeld is wrapped if the lock is not to be had because a process that
	// writes has it.
	ErrHeld = errors.New("the database is locked by another process")
	// ErrAlive is wrapped if a process is still there after SIGKILL, which
	// happens while the kernel waits for a disk.
	ErrAlive = errors.New("still there after SIGKILL, is its disk hanging?")
)

// processError names the process that err is about.
func processError(p Process, err error) error { return fmt.Errorf("process %d: %w", p.PID, err) }
