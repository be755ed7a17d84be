package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// open opens the directory for a call that needs it to exist.
func (s *Store) open(ctx context.Context) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no such directory: is the path right, and the volume mounted? The first backup makes it", store.ErrNoContainer)
	}
	return root, err
}

// openToWrite opens the directory and makes it if needed.
func (s *Store) openToWrite(ctx context.Context) (*os.Root, error) {
	root, err := s.open(ctx)
	if !errors.Is(err, store.ErrNoContainer) {
		return root, err
	}
	if err := makeDir(filepath.Clean(s.dir)); err != nil {
		return nil, err
	}
	return s.open(ctx)
}

// makeDir makes dir and its parents, for good.
func makeDir(dir string) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { // the umask may have taken from it
		return err
	}
	return syncAndClose(os.Open(parent))
}

// makeFolder makes a folder of objects and its parents.
func makeFolder(root *os.Root, folder string) error {
	if folder == "." {
		return nil
	}
	err := root.Mkdir(folder, 0o700)
	if absent(err) {
		if err := makeFolder(root, path.Dir(folder)); err != nil {
			return err
		}
		err = root.Mkdir(folder, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(folder, 0o700)
}

// syncPath makes the entries of folder and those leading to it durable. It starts
// at the top of the store, since another writer may have made a folder on the
// way and not yet synced it.
func syncPath(root *os.Root, folder string) error {
	if folder != "." {
		if err := syncPath(root, path.Dir(folder)); err != nil {
			return err
		}
	}
	return syncDir(root, folder)
}

func syncDir(root *os.Root, folder string) error { return syncAndClose(root.Open(folder)) }

func syncAndClose(dir *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// explain says what was being done to which object, in place of the paths that
// os names, and gives errnos the classes of the port.
func (s *Store) explain(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENAMETOOLONG):
		err = fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	case errors.Is(err, syscall.EROFS):
		err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w for uid %d, which must be able to read and write all of the directory", err, os.Geteuid())
	}
	return fmt.Errorf("%s %.80q in %s: %w", verb, name, s, err)
}
