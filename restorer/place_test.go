package restorer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// write makes a file with its folders.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestPlaceInVolume replaces what is in a data dir that cannot be renamed, and
// leaves the rest of the volume alone.
func TestPlaceInVolume(t *testing.T) {
	volume := t.TempDir()
	write(t, filepath.Join(volume, "member", "snap", "db"), "old")
	write(t, filepath.Join(volume, "lost+found", "x"), "x")
	s := &staging{dataDir: volume, inside: true, dir: filepath.Join(volume, stagingSuffix)}
	if err := s.acquire(); err != nil {
		t.Fatal(err)
	}
	write(t, s.db(), "new")
	j := &job{Restorer: New(nil), staging: s}
	if err := errors.Join(j.place(t.Context()), s.remove()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(volume, "member", "snap", "db")); got != "new" {
		t.Errorf("the volume holds the %s database", got)
	}
	if got := content(t, filepath.Join(j.result.MovedAside, "snap", "db")); got != "old" {
		t.Errorf("aside is the %s database", got)
	}
	if filepath.Dir(j.result.MovedAside) != volume {
		t.Errorf("moved out of the volume, to %s", j.result.MovedAside)
	}
	if got := content(t, filepath.Join(volume, "lost+found", "x")); got != "x" {
		t.Errorf("lost+found/x is %q", got)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the staging folder: %v", err)
	}
}

// TestPlace puts data dirs where there is none, an empty one, a link, and old
// ones.
func TestPlace(t *testing.T) {
	for _, test := range []struct {
		name  string
		there func(t *testing.T, dataDir string)
		aside bool
	}{
		{"nothing", func(*testing.T, string) {}, false},
		{"an empty folder", func(t *testing.T, dataDir string) {
			if err := os.MkdirAll(dataDir, 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a data dir", func(t *testing.T, dataDir string) { write(t, databasePath(dataDir), "old") }, true},
		{"a folder with something else", func(t *testing.T, dataDir string) { write(t, filepath.Join(dataDir, "x"), "x") }, true},
		{"a link to a data dir", func(t *testing.T, dataDir string) {
			elsewhere := t.TempDir()
			write(t, databasePath(filepath.Join(elsewhere, "real")), "old")
			if err := errors.Join(os.MkdirAll(filepath.Dir(dataDir), 0o700), os.Symlink(filepath.Join(elsewhere, "real"), dataDir)); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dataDir := filepath.Join(t.TempDir(), "parent", "etcd")
			test.there(t, dataDir)
			info, _ := os.Lstat(dataDir)
			for _, round := range []string{"first", "second", "third"} { // in the same second, most likely
				s, err := New(nil).newStaging(dataDir)
				if err != nil {
					t.Fatal(err)
				}
				write(t, s.db(), round)
				j := &job{Restorer: New(nil), staging: s}
				if err := errors.Join(j.place(t.Context()), s.remove()); err != nil {
					t.Fatal(err)
				}
				if got := content(t, databasePath(dataDir)); got != round {
					t.Errorf("placed the %s database, want the %s", got, round)
				}
				if moved := j.result.MovedAside != ""; moved != (test.aside || round != "first") {
					t.Errorf("%s: moved aside: %q", round, j.result.MovedAside)
				}
			}
			if after, err := os.Lstat(dataDir); err != nil || info != nil && after.Mode().Type() != info.Mode().Type() {
				t.Errorf("the data dir was %v, is %v, %v", info, after, err)
			}
		})
	}
}

// TestStaging is exclusive, and clears what a killed restore has left.
func TestStaging(t *testing.T) {
	dataDir := filepath.Join(t.TempDir(), "etcd")
	write(t, filepath.Join(dataDir+stagingSuffix, "data", "member", "junk"), "junk")
	write(t, filepath.Join(dataDir+stagingSuffix, "lock"), "")
	s, err := New(nil).newStaging(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("in the staging folder: %v, %v; want the lock only", entries, err)
	}
	if _, err := New(nil).newStaging(dataDir); !errors.Is(err, ErrBusy) {
		t.Errorf("a second restore: %v", err)
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, s.dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(elsewhere, "precious"), "precious")
	if _, err := New(nil).newStaging(dataDir); err == nil {
		t.Error("a link in the way was followed")
	}
	content(t, filepath.Join(elsewhere, "precious"))
	if err := os.Remove(s.dir); err != nil {
		t.Fatal(err)
	}
	again, err := New(nil).newStaging(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data dir: %v", err)
	}
}
