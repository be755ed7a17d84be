package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	dirMode  = 0o700 // as etcd's
	fileMode = 0o600
	// spoiled becomes the content of a file that stood in for a database, when
	// it is taken away: an etcd that has it open shall fail, and not use it.
	spoiled = "fenced by etcd-ferry, not a database\n"
)

// Lock keeps any etcd from serving a data dir, see the package's comment.
type Lock struct {
	path string
	file *os.File
	// standIn says that there was no database.
	standIn bool
}

// Hold takes the lock of the data dir at once, and ends nobody. It wraps ErrHeld
// if an etcd has it.
func (f *Fencer) Hold() (*Lock, error) {
	path := DB(f.dataDir)
	for range lookups {
		file, err := openOrMake(path)
		if err != nil {
			return nil, fmt.Errorf("fence: %w", err)
		}
		l := &Lock{path: path, file: file}
		err = l.take()
		if err == nil {
			return l, nil
		}
		_ = file.Close()
		if !errors.Is(err, errReplaced) {
			return nil, fmt.Errorf("fence: %s: %w", path, err)
		}
	}
	return nil, fmt.Errorf("fence: %s: %w", path, ErrHeld) // somebody is busy there
}

// errReplaced says that the file is not the one that etcd would open, as after
// its defragmentation.
var errReplaced = errors.New("replaced")

func (l *Lock) take() error {
	if err := lockShared(l.file); err != nil {
		return err
	}
	locked, err := l.file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(locked, named) {
		return errReplaced
	}
	l.standIn = isStandIn(locked)
	return err
}

// isStandIn reports whether a file in the place of etcd's database only stands
// in for one: a Lock made it, or etcd was interrupted before it wrote to it.
func isStandIn(file os.FileInfo) bool { return file.Size() <= int64(len(spoiled)) }

// openOrMake opens the database, or an empty file where there is none.
func openOrMake(path string) (*os.File, error) {
	file, err := os.Open(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDONLY|os.O_CREATE, fileMode)
}

// lockShared wraps ErrHeld.
func lockShared(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("flock: %w", err)
		}
		return nil
	}
}

// Release lets etcd serve again. A second call does nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	var err error
	if l.standIn {
		err = l.removeStandIn()
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	if err != nil {
		return fmt.Errorf("release the fence: %w", err)
	}
	return nil
}

// removeStandIn leaves no trace, so that etcd finds the data dir as empty as it
// was. What has been put in its place meanwhile stays.
func (l *Lock) removeStandIn() error {
	ours, err := l.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !os.SameFile(ours, there) {
		return err
	}
	if err := os.WriteFile(l.path, []byte(spoiled), fileMode); err != nil {
		return err
	}
	if err := os.Remove(l.path); err != nil {
		return err
	}
	snap := filepath.Dir(l.path)
	if os.Remove(snap) == nil { // unless there is more in it
		_ = os.Remove(filepath.Dir(snap))
	}
	return nil
}
