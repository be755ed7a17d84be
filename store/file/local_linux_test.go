package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/store/file"
)

func TestLocal(t *testing.T) {
	if err := file.New(filepath.Join(t.TempDir(), "not", "yet")).Local(); err != nil {
		t.Errorf("a directory for tests: %v", err)
	}
	err := file.New("/proc").Local()
	if err == nil || !strings.Contains(err.Error(), "/proc") {
		t.Errorf("/proc: %v", err)
	}
}

// asNobody runs f with the rights of nobody on files, if it has more.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread() // the rights are the thread's
	defer runtime.UnlockOSThread()
	const nobody = 65534
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer unix.Setfsuid(0)
	f()
}

// openDir returns a new directory that nobody can reach.
func openDir(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := openDir(t, 0o555)
	s := file.New(dir)
	asNobody(t, func() {
		_, createErr := s.Create(t.Context(), "dir/a", strings.NewReader("x"))
		_, swapErr := s.Swap(t.Context(), "a", "", []byte("x"))
		for _, err := range []error{createErr, swapErr} {
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), ".tmp") {
				t.Errorf("error is %v", err)
			}
		}
		if got := list(t, s); len(got) > 0 {
			t.Errorf("%q are listed", got)
		}
	})
}

// What may not be read may be there.
func TestUnreadable(t *testing.T) {
	dir := openDir(t, 0o755)
	s := file.New(dir)
	create(t, s, "closed/a", "x")
	if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "closed"), 0o700)
	asNobody(t, func() {
		_, listErr := s.List(t.Context(), "")
		_, _, openErr := s.Open(t.Context(), "closed/a")
		for _, err := range []error{listErr, openErr, s.Remove(t.Context(), "closed/a")} {
			if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error is %v", err)
			}
		}
	})
}

// The top of a volume has folders that only root may read.
func TestLostAndFound(t *testing.T) {
	dir := openDir(t, 0o777)
	for _, name := range []string{"lost+found", ".Trash"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	s := file.New(dir)
	asNobody(t, func() {
		create(t, s, "a", "x")
		if got := list(t, s); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%q are listed", got)
		}
	})
}
