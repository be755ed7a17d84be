package fence_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
)

// TestOtherUser: a sidecar with another user id than etcd cannot end it, and
// says so at start-up already.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		foreign(t)
		return
	}
	dir := filepath.Join(public(t), "etcd")
	db := fence.DB(dir)
	must(t, os.MkdirAll(filepath.Dir(db), 0o755))
	must(t, os.WriteFile(db, make([]byte, 8192), 0o644))
	binary := filepath.Join(public(t), "program")
	content, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(binary, content, 0o755))
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}

	if got := said(t, nobody, "probe", binary, dir); got != "ok" {
		t.Errorf("without an etcd: %s", got)
	}
	holder := locked(t, nil, binary, db)
	// Its open files cannot be looked at, but device and inode are the same.
	if got := said(t, nobody, "find", binary, db); got != strconv.Itoa(holder.PID) {
		t.Errorf("%s was found, want %d", got, holder.PID)
	}
	for _, act := range []string{"probe", "fence"} {
		if got := said(t, nobody, act, binary, dir); got != "not permitted" {
			t.Errorf("%s: %s", act, got)
		}
	}
	if !alive(t, holder) {
		t.Error("it was ended nevertheless")
	}
	// A container of the same user with fewer capabilities can list etcd's open
	// files, but not look at them.
	if got := said(t, nil, "bare", binary, "find", db); got != strconv.Itoa(holder.PID) {
		t.Errorf("%s was found without capabilities, want %d", got, holder.PID)
	}
	if got := said(t, nil, "bare", binary, "probe", dir); got != "ok" {
		t.Errorf("probe without capabilities: %s", got)
	}
	// root may, as it has CAP_KILL.
	lock, exit, err := fence.New(dir).Fence(t.Context(), fence.Process{})
	must(t, err)
	must(t, lock.Release())
	if exit.Holder != holder || alive(t, holder) {
		t.Errorf("%+v, want the end of %v", exit, holder)
	}
}

// foreign is the test for those who are not root: nobody may signal the first
// process.
func foreign(t *testing.T) {
	t.Helper()
	first, err := fence.Find(1)
	must(t, err)
	if err := fence.New(t.TempDir()).Probe(first); !errors.Is(err, fence.ErrNotPermitted) && !errors.Is(err, fence.ErrGate) {
		t.Error(err)
	}
}

// public returns a new folder that everybody may enter.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fence") //nolint:usetesting // that is within a folder of mode 0700
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	return dir
}
