package datadir_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const writers = 8

// TestTerm is the row "close gate, SIGTERM, observed exit, offline read" of
// HANDOVER §1: with clients writing all the time, the final snapshot holds every
// write that was acknowledged, and etcd's own tool restores it.
func TestTerm(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			w := etcdtest.StartWriter(t, e.Client(t), "w/", writers)
			mix(t, e.Client(t))
			w.WaitAcked(t, 500)

			lock, exit, err := fence.New(e.DataDir).Fence(t.Context(), fence.Process{})
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Release()
			if !exit.Clean || exit.Holder.PID != e.PID() {
				t.Errorf("%+v, want the clean exit of process %d", exit, e.PID())
			}
			w.Stop()
			s := final(t, e)
			t.Logf("fenced after %v; %d acknowledged, %d failed; %d replayed", exit.Took, len(w.Acked()), w.Failed(), s.Replayed)
			restored := restore(t, version, s)
			w.Check(t, restored.Client(t))
			same(t, s, restored)
			scratchGone(t, e)
		})
	}
}

// TestKill is the row "SIGKILL, WAL replayed". The same etcd restarted on its
// own data dir is the judge of the replay: revision and hash must be equal.
func TestKill(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := etcdtest.Start(t, etcdtest.WithVersion(version))
			w := etcdtest.StartWriter(t, e.Client(t), "w/", writers)
			replayed := 0
			for round := range 3 {
				mix(t, e.Client(t))
				w.WaitAcked(t, len(w.Acked())+300)
				e.Kill(t)
				before := listing(t, e.DataDir)

				lock, err := fence.New(e.DataDir).Hold()
				if err != nil {
					t.Fatal(err)
				}
				s := final(t, e)
				replayed += s.Replayed
				t.Logf("%d acknowledged, %d replayed, revision %d", len(w.Acked()), s.Replayed, s.Revision)
				acked := w.Acked()
				if last := acked[len(acked)-1].Revision; s.Revision < last {
					t.Errorf("revision %d is in the snapshot, %d was acknowledged", s.Revision, last)
				}
				if after := listing(t, e.DataDir); after != before {
					t.Errorf("the data dir was\n%s\nand is\n%s", before, after)
				}
				hash, err := s.HashKV(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if round == 0 { // the others are judged by etcd's hash
					restored := restore(t, version, s)
					w.Check(t, restored.Client(t))
					same(t, s, restored)
				}
				if err := errors.Join(s.Close(), lock.Release()); err != nil {
					t.Fatal(err)
				}
				e.Restart(t)
				if got, compact := e.HashKV(t, hash.Revision); got != hash.Hash || compact != hash.CompactRevision {
					t.Errorf("round %d: the snapshot has %+v, the restarted etcd %d after compaction to %d", round, hash, got, compact)
				}
			}
			w.Stop()
			if replayed == 0 {
				t.Error("the database was complete each time: nothing was tested")
			}
			w.Check(t, e.Client(t))
			scratchGone(t, e)
		})
	}
}

// final opens the final snapshot.
func final(t *testing.T, e *etcdtest.Etcd) *datadir.Snapshot {
	t.Helper()
	s, err := datadir.Dir{Data: e.DataDir}.Final(t.Context(), workDir(e))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func workDir(e *etcdtest.Etcd) string { return e.DataDir + ".ferry" }

func scratchGone(t *testing.T, e *etcdtest.Etcd) {
	t.Helper()
	t.Cleanup(func() { // after the snapshot's Close
		if left, err := filepath.Glob(filepath.Join(workDir(e), "*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// restore has etcdutl of that version restore s, and starts an etcd on it.
func restore(t *testing.T, version string, s *datadir.Snapshot) *etcdtest.Etcd {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot.db")
	content, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != s.Size {
		t.Errorf("%d bytes were read, %d announced", len(content), s.Size)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "etcd")
	c := etcdtest.NewCluster(t, 1, etcdtest.WithVersion(version), etcdtest.WithDataDir(data))
	cmd := exec.Command(etcdtest.Tool(t, version, "etcdutl"), "snapshot", "restore", file, "--data-dir", data,
		"--initial-cluster", c.Initial(), "--initial-advertise-peer-urls", c.Members[0].PeerURL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Start(t)
	return c.Members[0]
}

// same compares the hash of a snapshot with what an etcd restored from it says.
func same(t *testing.T, s *datadir.Snapshot, e *etcdtest.Etcd) {
	t.Helper()
	want, err := s.HashKV(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if hash, compact := e.HashKV(t, s.Revision); hash != want.Hash || compact != want.CompactRevision {
		t.Errorf("the snapshot has %+v, the restored etcd %d after compaction to %d", want, hash, compact)
	}
}

// listing names all files of a data dir with size and time of change.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out.WriteString(path + " " + info.ModTime().String() + " " + info.Mode().String() + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
