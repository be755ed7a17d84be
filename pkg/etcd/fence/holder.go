package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lookups is how often the holder is looked for before it is said to be unknown:
// a lock can change hands between two looks.
const lookups = 3

// FindHolder returns the process that has the file locked as an etcd has its
// database. Nobody, or no such file, is fs.ErrNotExist; ErrUnknownHolder is
// wrapped if it cannot be told.
func FindHolder(db string) (Process, error) {
	for range lookups {
		p, err := lookUp(db)
		if !errors.Is(err, errNobody) {
			return p, err
		}
		free, err := isFree(db)
		if err != nil {
			return Process{}, err
		}
		if free {
			return Process{}, fmt.Errorf("%s is not locked: %w", db, fs.ErrNotExist)
		}
	}
	return Process{}, fmt.Errorf("%s: %w", db, ErrUnknownHolder)
}

// errNobody says that no lock that can be seen is on the file.
var errNobody = errors.New("no visible lock")

func lookUp(db string) (Process, error) {
	file, err := os.Stat(db)
	if err != nil {
		return Process{}, err
	}
	entries, err := readLocks()
	if err != nil {
		return Process{}, fmt.Errorf("%w: %w", ErrUnknownHolder, err)
	}
	for _, e := range entries {
		if e.pid == os.Getpid() {
			continue // nobody is to end this process
		}
		p, err := Find(e.pid)
		if err != nil {
			continue // it has ended, and its lock with it
		}
		if holds(e, p, file) {
			return p, nil
		}
	}
	return Process{}, errNobody
}

// holds decides whether the lock e of p is on the file: see the package's
// comment.
func holds(e flockEntry, p Process, file os.FileInfo) bool {
	switch locks(p.PID, file) {
	case yes:
	case no:
		return false
	case unknown:
		if !e.on(file) {
			return false
		}
	}
	again, err := Find(p.PID) // all that was seen of p.PID was seen of p
	return err == nil && again == p
}

// isFree reports whether the lock could be had.
func isFree(db string) (bool, error) {
	f, err := os.Open(db)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = lockShared(f)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	return err == nil, err
}
