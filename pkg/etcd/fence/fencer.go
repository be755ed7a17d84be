package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const (
	// DefaultGrace is how long a process may take to end after SIGTERM.
	DefaultGrace = 10 * time.Second
	// DefaultKillWait is how long to wait for the end of a process after
	// SIGKILL. With DefaultGrace it is the kill budget K (HANDOVER §4).
	DefaultKillWait = 5 * time.Second
)

// Fencer fences the etcd of one data dir. Set its fields before use.
type Fencer struct {
	Grace    time.Duration
	KillWait time.Duration
	Log      *slog.Logger

	dataDir string
}

// New returns a Fencer of the etcd with that --data-dir.
func New(dataDir string) *Fencer {
	return &Fencer{Grace: DefaultGrace, KillWait: DefaultKillWait, Log: slog.Default(), dataDir: dataDir}
}

// DB is the path of the database in a data dir.
func DB(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }

// Exit says how what was running came to its end.
type Exit struct {
	// Holder is the etcd that was found running, zero if there was none.
	Holder Process `json:"holder"`
	// Clean says that there was an etcd, and that it ended by itself after
	// SIGTERM, as did others that were found later. Whether its database is complete is for datadir.Dir.Final to
	// prove, however it ended.
	Clean bool `json:"clean"`
	// Killed are those that needed SIGKILL.
	Killed []Process     `json:"killed,omitempty"`
	Took   time.Duration `json:"took"` // nanoseconds
}

// Probe checks that Fence would be allowed what it has to do, without doing it:
// the holder of the database and the gate, if there are such, can be found and
// signalled. It wraps ErrNotPermitted, ErrUnknownHolder or ErrGate.
func (f *Fencer) Probe(gate Process) error {
	self, err := Find(os.Getpid())
	if err != nil {
		return err
	}
	// Whether this system can do it does not depend on what is running.
	if err := tryAll([]Process{self}); err != nil {
		return err
	}
	if _, err := readLocks(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownHolder, err)
	}
	found, _, err := f.targets(gate)
	if err != nil {
		return err
	}
	return tryAll(found)
}

func tryAll(ps []Process) error {
	var errs []error
	for _, p := range ps {
		h, err := open(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = h.signal(0)
			h.close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Fence ends the holder of the database, and the gate with all it has started
// if gate is not zero and still that process, and takes the lock. An etcd that
// started meanwhile is ended too. It returns only when all of them have ended,
// or with an error that wraps ErrNotPermitted, ErrUnknownHolder, ErrGate or
// ErrAlive: then etcd may be serving, and Fence may be called again. At the end
// of ctx it returns at once, with less done.
func (f *Fencer) Fence(ctx context.Context, gate Process) (l *Lock, e Exit, err error) {
	begun := time.Now()
	defer func() { e.Took = time.Since(begun) }()
	for ctx.Err() == nil {
		found, holder, err := f.targets(gate)
		if err != nil {
			return nil, e, fmt.Errorf("fence: %w", err)
		}
		if err := f.end(ctx, gate, found, holder, &e); err != nil {
			return nil, e, fmt.Errorf("fence: %w", err)
		}
		l, err := f.Hold()
		if !errors.Is(err, ErrHeld) {
			return l, e, err
		}
	}
	return nil, e, fmt.Errorf("fence: %w", context.Cause(ctx))
}

// targets returns who has to end: the holder of the database first, then what
// the gate has started, and the gate last. A holder that cannot be identified
// may be one of those, so it is an error only without them.
func (f *Fencer) targets(gate Process) (found []Process, holder Process, err error) {
	below, err := belowGate(gate)
	if err != nil {
		return nil, Process{}, err
	}
	holder, err = FindHolder(DB(f.dataDir))
	switch {
	case err == nil:
		return append([]Process{holder}, below...), holder, nil
	case errors.Is(err, fs.ErrNotExist):
		return below, Process{}, nil
	case errors.Is(err, ErrUnknownHolder) && len(below) > 0:
		return below, Process{}, nil
	}
	return nil, Process{}, err
}

// belowGate returns what the gate has started, and the gate. That this process
// is among it can only mean that the gate's id is from another process namespace.
func belowGate(gate Process) ([]Process, error) {
	if gate.IsZero() {
		return nil, nil
	}
	now, err := Find(gate.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now != gate {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := subtree(gate)
	if err != nil {
		return nil, err
	}
	all = append(all, gate)
	for _, p := range all {
		if p.PID == os.Getpid() {
			return nil, fmt.Errorf("%w: process %d", ErrGate, gate.PID)
		}
	}
	return all, nil
}
