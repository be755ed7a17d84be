package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store/file"
)

// What no store makes is passed by, and counted by each listing that meets it.
func TestForeignFilesAreIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := file.New(dir)
	if _, err := s.Create(t.Context(), "snapshots/x", strings.NewReader("ours")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Swap(t.Context(), "snapshots/y", "", []byte("ours")); err != nil { // and its lock
		t.Fatal(err)
	}
	foreign := []string{"a\nb", "\\..\\evil", "..evil", "é", " "}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(dir, "snapshots", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "snapshots", "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "snapshots", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= 2; n++ {
		infos, err := s.List(t.Context(), "")
		if err != nil || len(infos) != 2 {
			t.Fatalf("listed %+v, %v", infos, err)
		}
		if got, want := s.Ignored(), n*int64(len(foreign)+2); got != want {
			t.Errorf("%d are counted, want %d", got, want)
		}
	}
}
