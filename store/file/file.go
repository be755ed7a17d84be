package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// DefaultTempAge is the preset of Store.TempAge.
const DefaultTempAge = time.Hour

// Store is a store in a directory. Use New. It holds nothing open between
// calls, and any number of stores and processes may share a directory.
type Store struct {
	// TempAge is how long a temp file must have been left alone by a writer
	// that is gone before a create removes it.
	TempAge time.Duration

	dir     string
	ignored atomic.Int64
}

// New returns the store in dir, without looking whether it exists.
func New(dir string) *Store { return &Store{TempAge: DefaultTempAge, dir: dir} }

func (s *Store) String() string { return "file://" + s.dir }

// List implements store.Reader.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Info, error) {
	root, err := s.open(ctx)
	if err != nil {
		return nil, s.explain("list", prefix, err)
	}
	defer root.Close()
	folder := path.Dir(prefix)
	if folder != "." && store.CheckName(folder) != nil {
		return nil, nil // no object has such a name
	}
	w := walk{ctx: ctx, prefix: prefix}
	if err := fs.WalkDir(root.FS(), folder, w.visit); err != nil {
		return nil, s.explain("list", prefix, err)
	}
	s.ignored.Add(w.ignored)
	slices.SortFunc(w.infos, func(a, b store.Info) int { return strings.Compare(a.Name, b.Name) })
	return w.infos, nil
}

// walk collects objects.
type walk struct {
	ctx    context.Context
	prefix string
	infos  []store.Info
	// ignored counts what is called as no object is.
	ignored int64
}

func (w *walk) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case err != nil:
		return tolerate(name, err)
	case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
		return fs.SkipDir
	case !w.wants(name, entry):
		return nil
	}
	stat, err := entry.Info()
	if err != nil {
		return tolerate(name, err)
	}
	w.infos = append(w.infos, infoOf(name, stat))
	return nil
}

func (w *walk) wants(name string, entry fs.DirEntry) bool {
	if entry.IsDir() || !strings.HasPrefix(name, w.prefix) {
		return false
	}
	foreign := !entry.Type().IsRegular() || store.CheckName(name) != nil
	if foreign && !own(name) {
		w.ignored++
	}
	return !foreign
}

// own reports whether a file is the store's own, beside the objects.
func own(name string) bool { return name == lockFile }

// tolerate returns err unless a listing is complete without what failed: it has
// vanished, or is the folder at the top of a volume that only root may read.
func tolerate(name string, err error) error {
	if absent(err) || name == "lost+found" {
		return nil
	}
	return err
}

// Ignored implements store.Ignorer.
func (s *Store) Ignored() int64 { return s.ignored.Load() }

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, store.Info, error) {
	f, info, err := s.openObject(ctx, name)
	if err != nil {
		return nil, store.Info{}, s.explain("open", name, err)
	}
	return store.Exact(ctx, f, info), info, nil
}

func (s *Store) openObject(ctx context.Context, name string) (*os.File, store.Info, error) {
	if err := store.CheckName(name); err != nil {
		return nil, store.Info{}, err
	}
	root, err := s.open(ctx)
	if err != nil {
		return nil, store.Info{}, err
	}
	defer root.Close()
	if _, err := stat(root, name); err != nil {
		return nil, store.Info{}, err
	}
	// Without blocking: should the file have become a pipe, nobody need write.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, store.Info{}, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, store.Info{}, err
	}
	return f, infoOf(name, info), nil
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, name string) error {
	err := s.remove(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return s.explain("remove", name, err)
}

func (s *Store) remove(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	root, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := stat(root, name); err != nil { // also keeps it from removing an empty folder
		return err
	}
	unlock, err := lock(ctx, root)
	if err != nil {
		return err
	}
	defer unlock()
	if err := root.Remove(name); err != nil {
		return err
	}
	return syncDir(root, path.Dir(name))
}

// stat describes an object; anything else than a regular file is absent.
func stat(root *os.Root, name string) (store.Info, error) {
	info, err := root.Lstat(name)
	if absent(err) || err == nil && !info.Mode().IsRegular() {
		return store.Info{}, fs.ErrNotExist
	}
	if err != nil {
		return store.Info{}, err
	}
	return infoOf(name, info), nil
}

func infoOf(name string, stat fs.FileInfo) store.Info {
	return store.Info{
		Name:     name,
		Size:     stat.Size(),
		Modified: stat.ModTime(),
		Version:  store.Version(fmt.Sprintf("%x-%x", stat.ModTime().UnixNano(), stat.Size())),
	}
}

// absent reports whether err proves that there is no such file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
