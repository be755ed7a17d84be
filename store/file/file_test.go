package file_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return file.New(filepath.Join(t.TempDir(), "not", "yet", "there"))
	})
}

func create(t *testing.T, s store.Store, name, content string) store.Info {
	t.Helper()
	info, err := s.Create(t.Context(), name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func list(t *testing.T, s store.Store) []string {
	t.Helper()
	infos, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// Where there is no directory, nothing is known of objects.
func TestNoDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backup")
	s := file.New(dir)
	_, listErr := s.List(t.Context(), "")
	_, _, openErr := s.Open(t.Context(), "a")
	_, _, readErr := s.Read(t.Context(), "a")
	removeErr := s.Remove(t.Context(), "a")
	for _, err := range []error{listErr, openErr, readErr, removeErr} {
		if !errors.Is(err, store.ErrNoContainer) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error is %v", err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the directory: %v", err)
	}
	if _, err := s.Swap(t.Context(), "a", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after the first write %q are listed", got)
	}
}

// The directory may be a file, or one may not be let in: neither proves that an
// object is absent.
func TestNotADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := file.New(path)
	_, _, openErr := s.Open(t.Context(), "a")
	_, createErr := s.Create(t.Context(), "a", strings.NewReader("x"))
	for _, err := range []error{openErr, createErr, s.Remove(t.Context(), "a")} {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestModes(t *testing.T) {
	for _, umask := range []int{0, 0o027, 0o777} {
		dir := filepath.Join(t.TempDir(), "new", "store")
		s := file.New(dir)
		old := syscall.Umask(umask)
		_, createErr := s.Create(t.Context(), "a/b/created", strings.NewReader("x"))
		_, swapErr := s.Swap(t.Context(), "c/swapped", "", []byte("x"))
		syscall.Umask(old)
		if err := errors.Join(createErr, swapErr); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(filepath.Dir(dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if entry.IsDir() {
				want = 0o700
			}
			info, err := entry.Info()
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("with umask %03o, %s has mode %03o", umask, path, info.Mode().Perm())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFoldersAreNoObjects(t *testing.T) {
	s := file.New(t.TempDir())
	create(t, s, "a/b", "x")
	for _, name := range []string{"a", "a/b/c"} {
		_, err := s.Create(t.Context(), name, strings.NewReader("x"))
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("create %s: %v", name, err)
		}
		_, err = s.Swap(t.Context(), name, "", []byte("x"))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("swap %s: %v", name, err)
		}
		if _, _, err = s.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: %v", name, err)
		}
		if err := s.Remove(t.Context(), name); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if got := list(t, s); !slices.Equal(got, []string{"a/b"}) {
		t.Errorf("%q are left", got)
	}
}

// What others put into the directory is neither listed nor followed.
func TestForeignFiles(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := file.New(dir)
	create(t, s, "mine", "x")
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")),
		os.Symlink("mine", filepath.Join(dir, "inner")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.WriteFile(filepath.Join(dir, "with space"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q are listed", got)
	}
	for _, name := range []string{"out/secret", "link", "inner", "pipe"} {
		if body, _, err := s.Open(t.Context(), name); err == nil {
			body.Close()
			t.Errorf("%s can be opened", name)
		}
	}
	for _, name := range []string{"out/new", "out/secret", "link"} {
		if _, err := s.Create(t.Context(), name, strings.NewReader("x")); err == nil {
			t.Errorf("%s can be created", name)
		}
	}
	if err := s.Remove(t.Context(), "out/secret"); err == nil {
		t.Error("removing outside of the directory is no error")
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); string(data) != "secret" {
		t.Errorf("the file outside holds %q, %v", data, err)
	}
}

func TestVersionsNeverReturn(t *testing.T) {
	dir := t.TempDir()
	s := file.New(dir)
	var version store.Version
	var last time.Time
	for i := range 100 {
		var err error
		if version, err = s.Swap(t.Context(), "state", version, []byte("same")); err != nil {
			t.Fatal(err)
		}
		infos, err := s.List(t.Context(), "state")
		if err != nil || len(infos) != 1 || !infos[0].Modified.After(last) {
			t.Fatalf("after a write at %s: %+v, %v", last, infos, err)
		}
		last = infos[0].Modified
		if i == 50 { // from here on the clock is behind
			last = time.Now().Add(time.Hour)
			if err := os.Chtimes(filepath.Join(dir, "state"), last, last); err != nil {
				t.Fatal(err)
			}
			if _, version, err = s.Read(t.Context(), "state"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCutFileIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s := file.New(dir)
	create(t, s, "a", "0123456789")
	body, _, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if err := os.Truncate(filepath.Join(dir, "a"), 4); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "0123" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestLockedOut(t *testing.T) {
	dir := t.TempDir()
	s := file.New(dir)
	create(t, s, "a", "x")
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err = s.Swap(ctx, "state", "", []byte("x"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lock") {
		t.Errorf("swap: %v", err)
	}
	create(t, s, "b", "x") // needs no lock
	if _, _, err := s.Read(t.Context(), "a"); err != nil {
		t.Errorf("read: %v", err)
	}

	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), "state", "", []byte("x")); err != nil {
		t.Errorf("swap after the lock was freed: %v", err)
	}
}
