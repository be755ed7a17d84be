package fence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestStandingFence: an etcd that is started behind the fence does not serve,
// and serves when the fence is gone.
func TestStandingFence(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			f := fence.New(e.DataDir)
			if _, err := f.Hold(); !errors.Is(err, fence.ErrHeld) {
				t.Fatalf("etcd runs: %v", err)
			}
			must(t, f.Probe(fence.Process{}))
			if !serves(t, e) {
				t.Fatal("the probe has ended etcd")
			}
			lock, exit, err := f.Fence(t.Context(), fence.Process{})
			must(t, err)
			if !exit.Clean || exit.Holder.PID != e.PID() || len(exit.Killed) > 0 || alive(t, exit.Holder) {
				t.Errorf("%+v, want the clean exit of process %d", exit, e.PID())
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				e.Restart(t)
			}()
			neverServes(t, e)
			must(t, lock.Release())
			must(t, lock.Release())
			<-served
		})
	}
}

// TestEmptyDataDir: not even an etcd without any data serves behind the fence.
func TestEmptyDataDir(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.NewCluster(t, 1, etcdtest.WithVersion(version))
			e := c.Members[0]
			must(t, os.MkdirAll(e.DataDir, 0o700))
			lock, exit, err := fence.New(e.DataDir).Fence(t.Context(), fence.Process{})
			must(t, err)
			if exit.Clean || !exit.Holder.IsZero() {
				t.Errorf("there was nobody, yet %+v", exit)
			}
			etcd, out := start(t, "", etcdtest.Tool(t, version, "etcd"), "--data-dir", e.DataDir, "--log-level", "fatal",
				"--listen-client-urls", e.Endpoint(), "--advertise-client-urls", e.Endpoint(), "--listen-peer-urls", e.PeerURL,
				"--initial-advertise-peer-urls", e.PeerURL, "--initial-cluster", c.Initial())
			neverServes(t, e)
			must(t, lock.Release())
			_, _ = io.Copy(io.Discard, out) // until it has ended
			if alive(t, etcd) {
				t.Error("the etcd that waited has not ended")
			}
			if left, err := filepath.Glob(filepath.Join(e.DataDir, "member", "snap", "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			c.Start(t)
		})
	}
}

// TestStandInLeft: a sidecar that was killed leaves the file that stood in for a
// database. The next one takes it for what it is.
func TestStandInLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	first, err := fence.New(dir).Hold()
	must(t, err)
	second, err := fence.New(dir).Hold() // as if the first had been killed
	must(t, err)
	must(t, second.Release())
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	must(t, first.Release())

	lock, err := fence.New(dir).Hold()
	must(t, err)
	must(t, os.RemoveAll(filepath.Join(dir, "member"))) // a restore moves it away
	must(t, os.MkdirAll(filepath.Dir(fence.DB(dir)), 0o700))
	must(t, os.WriteFile(fence.DB(dir), []byte("restored"), 0o600))
	must(t, lock.Release())
	if got, err := os.ReadFile(fence.DB(dir)); err != nil || string(got) != "restored" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestDeaf: an etcd that does not hear SIGTERM is killed after the grace.
func TestDeaf(t *testing.T) {
	e := etcdtest.Start(t)
	e.Pause(t)
	lock, exit, err := short(e.DataDir).Fence(t.Context(), fence.Process{})
	must(t, err)
	defer lock.Release()
	if exit.Clean || !slices.Equal(exit.Killed, []fence.Process{exit.Holder}) || exit.Holder.PID != e.PID() {
		t.Errorf("%+v, want process %d killed", exit, e.PID())
	}
	if exit.Took < shortGrace {
		t.Errorf("killed after %v, the grace is %v", exit.Took, shortGrace)
	}
}

// TestNotOurs: whoever is called etcd, or has a lock on another database, is
// left alone.
func TestNotOurs(t *testing.T) {
	e := etcdtest.Start(t)
	other := etcdtest.Start(t)
	binary := filepath.Join(t.TempDir(), "etcd")
	content, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(binary, content, 0o700))
	decoy := locked(t, nil, binary, filepath.Join(t.TempDir(), "db"))
	reader, err := os.Open(fence.DB(e.DataDir)) // this process has it open, but not locked
	must(t, err)
	defer reader.Close()

	lock, exit, err := fence.New(e.DataDir).Fence(t.Context(), fence.Process{})
	must(t, err)
	defer lock.Release()
	if exit.Holder.PID != e.PID() {
		t.Errorf("%+v, want process %d", exit, e.PID())
	}
	if !alive(t, decoy) || !serves(t, other) {
		t.Error("somebody else's process was ended")
	}
	if _, err := fence.FindHolder(fence.DB(e.DataDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("behind the fence: %v", err)
	}
	if _, err := fence.FindHolder(fence.DB(t.TempDir())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database: %v", err)
	}
}

// TestReusedID: a process with the id of the gate, but not its start time, is
// another one.
func TestReusedID(t *testing.T) {
	dir, db := emptyDataDir(t)
	now := locked(t, nil, "/proc/self/exe", filepath.Join(t.TempDir(), "other"))
	before := fence.Process{PID: now.PID, Start: now.Start - 1}
	if alive(t, before) {
		t.Error("a process of another time is alive")
	}
	must(t, fence.New(dir).Probe(before))
	lock, exit, err := short(dir).Fence(t.Context(), before)
	must(t, err)
	must(t, lock.Release())
	if !alive(t, now) || len(exit.Killed) > 0 {
		t.Errorf("the new process with an old id was ended: %+v", exit)
	}
	if size, err := os.Stat(db); err != nil || size.Size() != 8192 {
		t.Errorf("the database was changed: %v, %v", size, err)
	}
}

// TestGate: everything that the gate has started ends, and the gate too.
func TestGate(t *testing.T) {
	for name, test := range map[string]struct {
		act     string
		command string
		killed  bool
	}{
		"before etcd":               {"gate", "sleep 300; exec etcd", false},
		"deaf":                      {"deaf-gate", "sleep 300", true},
		"deaf wrapper":              {"gate", "trap '' TERM; while :; do sleep 0.1; done", true},
		"starts again and again":    {"deaf-gate", "trap '' TERM; while :; do sleep 0.05 & sleep 0.05; done", true},
		"left its parent":           {"gate", "(trap '' TERM; exec sleep 300) & sleep 0.2; (sleep 300 &); exec sleep 300", true},
		"ended before it was asked": {"gate", "exit 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := emptyDataDir(t)
			marker := fmt.Sprintf("%s:%d", name, time.Now().UnixNano())
			gate, _ := start(t, test.act, "/proc/self/exe", "/bin/sh", "-c", test.command, marker)
			pause(t, settle/4) // until the command has got to where it stays
			lock, exit, err := short(dir).Fence(t.Context(), gate)
			must(t, err)
			must(t, lock.Release())
			if !exit.Holder.IsZero() || exit.Clean || test.killed != (len(exit.Killed) > 0) {
				t.Errorf("%+v, killed: want %t", exit, test.killed)
			}
			if alive(t, gate) {
				t.Error("the gate is alive")
			}
			if left := mentioning(t, marker); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestGateWithEtcd: the gate and a deaf etcd behind a wrapper.
func TestGateWithEtcd(t *testing.T) {
	c := etcdtest.NewCluster(t, 1)
	e := c.Members[0]
	gate, _ := start(t, "gate", "/proc/self/exe", "/bin/sh", "-c", `"$@" & wait; wait`, "wrapper", etcdtest.Tool(t, e.Version, "etcd"),
		"--data-dir", e.DataDir, "--log-level", "fatal", "--listen-client-urls", "unix://"+socket(t), "--advertise-client-urls", "http://127.0.0.1:1",
		"--listen-peer-urls", "unix://"+socket(t))
	var holder fence.Process
	for holder.IsZero() {
		var err error
		if holder, err = fence.FindHolder(fence.DB(e.DataDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		pause(t, 10*time.Millisecond)
	}
	pause(t, settle/2)
	must(t, fence.New(e.DataDir).Probe(gate))
	lock, exit, err := fence.New(e.DataDir).Fence(t.Context(), gate)
	must(t, err)
	defer lock.Release()
	if exit.Holder != holder || !exit.Clean || len(exit.Killed) > 0 || alive(t, gate) || alive(t, holder) {
		t.Errorf("%+v, want the clean exit of %v", exit, holder)
	}
}

// TestOwnParent: a gate that has started this process is none.
func TestOwnParent(t *testing.T) {
	dir, _ := emptyDataDir(t)
	parent, err := fence.Find(os.Getppid())
	must(t, err)
	if err := fence.New(dir).Probe(parent); !errors.Is(err, fence.ErrGate) {
		t.Errorf("probe: %v", err)
	}
	if _, _, err := short(dir).Fence(t.Context(), parent); !errors.Is(err, fence.ErrGate) {
		t.Errorf("fence: %v", err)
	}
}

// TestContext: the end of the context ends the wait, but not the grace of etcd.
func TestContext(t *testing.T) {
	e := etcdtest.Start(t)
	e.Pause(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(shortGrace, func() { cancel(io.ErrNoProgress) })
	_, exit, err := fence.New(e.DataDir).Fence(ctx, fence.Process{})
	if !errors.Is(err, io.ErrNoProgress) || exit.Clean {
		t.Errorf("%+v, %v", exit, err)
	}
	if !alive(t, exit.Holder) {
		t.Error("etcd was killed within its grace")
	}
	e.Resume(t)
	<-e.Ended() // it got SIGTERM
}

// TestReaders: who only reads the database does not disturb, and is not
// disturbed.
func TestReaders(t *testing.T) {
	dir, db := emptyDataDir(t)
	reader, err := os.Open(db)
	must(t, err)
	defer reader.Close()
	must(t, unix.Flock(int(reader.Fd()), unix.LOCK_SH|unix.LOCK_NB))
	lock, _, err := fence.New(dir).Fence(t.Context(), fence.Process{})
	must(t, err)
	defer lock.Release()
	must(t, unix.Flock(int(reader.Fd()), unix.LOCK_UN))
	must(t, unix.Flock(int(reader.Fd()), unix.LOCK_SH|unix.LOCK_NB))
	if err := unix.Flock(int(reader.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("exclusive lock: %v", err)
	}
}
