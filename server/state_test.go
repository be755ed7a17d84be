package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateDirIsOfOneServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		work := filepath.Join(w.state, WorkFolder, "etcd-ferry-replay-1")
		if err := os.MkdirAll(work, 0o700); err != nil {
			t.Fatal(err)
		}
		second := NewElection(w.member, w.store, w.archive)
		second.StateDir, second.Clock, second.Boot = w.state, w.clock, w.Boot
		err := second.Begin(t.Context())
		if err == nil || !strings.Contains(err.Error(), w.state) || !strings.Contains(err.Error(), "--state-dir") {
			t.Errorf("a second server: %v", err)
		}
		if _, err := os.Stat(work); err != nil {
			t.Errorf("it has removed what the first one works with: %v", err)
		}
		w.crash()
		if err := second.Begin(t.Context()); err != nil {
			t.Errorf("after the end of the first: %v", err)
		}
		_ = second.inUse.release()
	})
}

func TestHalfWrittenStateIsRemoved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		left := []string{filepath.Join(w.state, "election.json.tmp"), filepath.Join(w.state, "election.json.42.tmp")}
		other := filepath.Join(w.state, "mine.tmp")
		for _, path := range append(left, other) {
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		for _, path := range left {
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is there still: %v", path, err)
			}
		}
		if _, err := os.Stat(other); err != nil {
			t.Error(err)
		}
	})
}

func TestStateThatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "election.json")
	if err := os.Mkdir(path, 0o700); err != nil { // a file cannot take its place
		t.Fatal(err)
	}
	if replaceFile(path, []byte("{}")) == nil {
		t.Error("no error")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// flaky is a Memory that fails while it is told to.
type flaky struct {
	err  error
	kept string
}

func (f *flaky) String() string        { return "flaky" }
func (f *flaky) Load() ([]byte, error) { return []byte(f.kept), f.err }
func (f *flaky) Replace(data []byte) error {
	if f.err == nil {
		f.kept = string(data)
	}
	return f.err
}

func TestStateThatWasNotWrittenIsWrittenAgain(t *testing.T) {
	f := &flaky{err: errors.New("the disk is full")}
	m := memory{kept: f}
	fence := func(p *persisted) { p.Fenced = true }
	if err := m.update(fence); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
	f.err = nil
	if err := m.update(fence); err != nil || !strings.Contains(f.kept, `"fenced":true`) {
		t.Errorf("kept %q, %v", f.kept, err)
	}
}
