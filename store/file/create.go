package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/store"
)

const (
	tempDir    = ".tmp"
	bufferSize = 1 << 20
)

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	info, err := s.create(ctx, name, r)
	if err != nil {
		return store.Info{}, s.explain("create", name, err)
	}
	return info, nil
}

func (s *Store) create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	if err := store.CheckName(name); err != nil {
		return store.Info{}, err
	}
	root, err := s.openToWrite(ctx)
	if err != nil {
		return store.Info{}, err
	}
	defer root.Close()
	if err := free(root, name); err != nil { // before it reads gigabytes in vain
		return store.Info{}, err
	}
	s.sweep(root)
	t, err := newTemp(root)
	if err != nil {
		return store.Info{}, err
	}
	defer t.discard()
	if err := t.fill(ctx, r); err != nil {
		return store.Info{}, err
	}
	info, err := t.seal(name, time.Time{})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = t.link(name)
	}
	return info, err
}

// free returns nil if an object of that name can be made.
func free(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	}
	return fs.ErrExist
}

// temp is a file that is becoming an object.
type temp struct {
	*os.File
	root *os.Root
	name string
}

func newTemp(root *os.Root) (*temp, error) {
	if err := makeFolder(root, tempDir); err != nil {
		return nil, err
	}
	name := path.Join(tempDir, rand.Text())
	f, err := openOwn(root, name, os.O_EXCL)
	if err != nil {
		return nil, err
	}
	t := &temp{f, root, name}
	if err := tryLock(f); err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// openOwn opens a file for writing, making it for its owner alone.
func openOwn(root *os.Root, name string, flag int) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil { // the umask may have taken from it
		f.Close()
		return nil, err
	}
	return f, nil
}

// discard ends the writing; an object that was made is not touched.
func (t *temp) discard() {
	_ = t.root.Remove(t.name) // what cannot be removed now is swept later
	t.Close()
}

func (t *temp) fill(ctx context.Context, r io.Reader) error {
	// Only a Writer: File.ReadFrom would copy in pieces of 32 KiB.
	_, err := io.CopyBuffer(struct{ io.Writer }{t.File}, store.Bound(ctx, r), make([]byte, bufferSize))
	return err
}

// seal gives the content its version, later than the time before, and makes it
// durable. The answer tells what it will be under its name.
func (t *temp) seal(name string, before time.Time) (store.Info, error) {
	// Not every filesystem keeps nanoseconds.
	for _, step := range []time.Duration{time.Nanosecond, time.Microsecond, 2 * time.Second} {
		at := time.Now()
		if next := before.Add(step); next.After(at) {
			at = next
		}
		if err := t.root.Chtimes(t.name, at, at); err != nil {
			return store.Info{}, err
		}
		stat, err := t.Stat()
		if err != nil {
			return store.Info{}, err
		}
		if stat.ModTime().After(before) {
			return infoOf(name, stat), t.Sync()
		}
	}
	return store.Info{}, errors.New("the filesystem does not keep modification times")
}

// link gives the content a name, unless the name is taken.
func (t *temp) link(name string) error {
	folder := path.Dir(name)
	if err := makeFolder(t.root, folder); err != nil {
		return err
	}
	if err := t.root.Link(t.name, name); err != nil {
		return err
	}
	return syncPath(t.root, folder)
}

// sweep removes the temp files that crashes left, as far as it can.
func (s *Store) sweep(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), tempDir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > s.TempAge {
			removeDead(root, path.Join(tempDir, entry.Name()))
		}
	}
}

// removeDead removes a temp file unless its writer lives.
func removeDead(root *os.Root, name string) {
	f, err := root.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if tryLock(f) == nil {
		_ = root.Remove(name) // the next create tries again
	}
}

// tryLock locks f until it is closed, also by the end of the process. It fails
// with EWOULDBLOCK if f is locked.
func tryLock(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
