package server_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// The lock stands until Unfence: an etcd that is started meanwhile waits for it.
func TestFenceKeepsItsLock(t *testing.T) {
	e := etcdtest.Start(t)
	m := server.NewLocalMember(e.DataDir, dial(t, e.Endpoint()), dial(t, e.Endpoint()))
	if lockable(t, e.DataDir) {
		t.Fatal("etcd runs, and its database is not locked")
	}
	for range 2 { // the second changes nothing
		if err := m.Fence(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if running, err := m.Running(); err != nil || running {
			t.Errorf("running %v, %v", running, err)
		}
		if lockable(t, e.DataDir) {
			t.Error("behind the fence an etcd could serve")
		}
	}
	if err := m.Unfence(); err != nil {
		t.Fatal(err)
	}
	if !lockable(t, e.DataDir) {
		t.Error("without the fence no etcd could serve")
	}
}

// lockable reports whether an etcd would get the lock of its database.
func lockable(t *testing.T, dataDir string) bool {
	t.Helper()
	db, err := os.Open(fence.DB(dataDir))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return syscall.Flock(int(db.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
