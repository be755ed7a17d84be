package datadir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// TestReplay kills etcds in situations of which the WAL knows and the database
// does not, and compares the replay with the same etcd restarted.
func TestReplay(t *testing.T) {
	situations := map[string]struct {
		args []string
		work func(*testing.T, *etcdtest.Etcd)
	}{
		"young": {nil, func(*testing.T, *etcdtest.Etcd) {}},
		// The WAL has been cut, and begins after a raft snapshot.
		"raft snapshots": {[]string{"--snapshot-count=50"}, func(t *testing.T, e *etcdtest.Etcd) { e.Fill(t, 500, 100) }},
		"access control": {nil, func(t *testing.T, e *etcdtest.Etcd) {
			c := e.Client(t)
			must(t, do(c.RoleAdd(t.Context(), "some")))
			must(t, do(c.RoleGrantPermission(t.Context(), "some", "a", "b", clientv3.PermissionType(clientv3.PermReadWrite))))
			must(t, do(c.UserAdd(t.Context(), "user", "secret")))
			must(t, do(c.UserGrantRole(t.Context(), "user", "some")))
			e.EnableAuth(t)
			must(t, do(e.Client(t).RoleRevokePermission(t.Context(), "some", "a", "b")))
			e.Fill(t, 50, 10) // the others are in the database at once
		}},
		"quota": {[]string{"--quota-backend-bytes=1000000"}, func(t *testing.T, e *etcdtest.Etcd) {
			c, err := e.Client(t), error(nil)
			for i := 0; err == nil && i < 1000; i++ {
				err = do(c.Put(t.Context(), fmt.Sprint(i), string(make([]byte, 100_000))))
			}
			if err == nil {
				t.Fatal("the quota was not reached")
			}
			must(t, do(c.Delete(t.Context(), "0")))
		}},
		"raft fence": {nil, func(t *testing.T, e *etcdtest.Etcd) {
			e.Fill(t, 10, 10)
			c := e.Client(t)
			alarm := &etcdserverpb.AlarmRequest{
				Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_CORRUPT, MemberID: 0xFE<<56 | 7,
			}
			must(t, do(etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), alarm)))
			if do(c.Put(t.Context(), "refused", "")) == nil {
				t.Error("a put behind the fence")
			}
		}},
	}
	for name, situation := range situations {
		for _, version := range etcdtest.Versions {
			t.Run(name+"/"+version, func(t *testing.T) {
				t.Parallel()
				e := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithArgs(situation.args...))
				situation.work(t, e)
				e.Kill(t)
				lock, err := fence.New(e.DataDir).Hold()
				must(t, err)
				s := final(t, e)
				hash, err := s.HashKV(t.Context())
				must(t, errors.Join(err, s.Close(), lock.Release())) // the snapshot may have the database open
				e.Restart(t)
				if got, compact := e.HashKV(t, 0); got != hash.Hash || compact != hash.CompactRevision || e.Revision(t) != s.Revision {
					t.Errorf("the snapshot has %+v, the restarted etcd %d at revision %d after compaction to %d", hash, got, e.Revision(t), compact)
				}
				status, err := e.Client(t).AuthStatus(t.Context())
				must(t, err)
				if status.AuthRevision != s.AuthRevision || status.Header.ClusterId != s.ClusterID || status.Header.MemberId != s.MemberID {
					t.Errorf("the snapshot has %+v, the restarted etcd %v", s.Info, status)
				}
				t.Logf("%d replayed: %+v", s.Replayed, s.Info)
			})
		}
	}
}

// TestSnapshotFiles takes the same snapshot with the files that tell where to begin
// in the WAL, without them, and with one whose record never got there.
func TestSnapshotFiles(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithArgs("--snapshot-count=10"))
			e.Fill(t, 100, 10)
			e.Kill(t)
			lock, err := fence.New(e.DataDir).Hold()
			must(t, err)
			defer lock.Release()
			digest := func() string {
				s := final(t, e)
				defer s.Close()
				hash, err := s.HashKV(t.Context())
				must(t, err)
				info := s.Info
				info.Size = 0 // a replay may need a page more or less
				return fmt.Sprint(info, s.Replayed, hash)
			}
			dir := filepath.Join(e.DataDir, "member", "snap")
			named := digest()
			files, err := filepath.Glob(filepath.Join(dir, "*.snap"))
			must(t, err)
			if len(files) == 0 {
				t.Fatal("etcd has left no snapshot file")
			}
			must(t, os.WriteFile(filepath.Join(dir, "0000000000000001-0000000000000032.snap"), nil, 0o600))
			if got := digest(); got != named {
				t.Errorf("with an orphan: %s, want %s", got, named)
			}
			for _, f := range files {
				must(t, os.Remove(f))
			}
			if got := digest(); got != named {
				t.Errorf("without files: %s, want %s", got, named)
			}
		})
	}
}

// do drops the answer.
func do(_ any, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefused looks at data dirs from which no final snapshot can be taken.
func TestRefused(t *testing.T) {
	e := etcdtest.Start(t)
	e.Fill(t, 10, 10)
	e.Kill(t)
	member := func(name ...string) string { return filepath.Join(append([]string{e.DataDir, "member"}, name...)...) }
	final := func(ctx context.Context) error {
		s, err := datadir.Dir{Data: e.DataDir}.Final(ctx, workDir(e))
		if err == nil {
			_, err = io.Copy(io.Discard, s)
			err = errors.Join(err, s.Close())
		}
		return err
	}
	must(t, final(t.Context()))

	ended, end := context.WithCancelCause(t.Context())
	end(io.ErrNoProgress)
	if err := final(ended); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("context ended: %v", err)
	}
	must(t, os.Rename(member("wal"), member("away")))
	if err := final(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no WAL: %v", err)
	}
	s, err := datadir.Dir{Data: e.DataDir, WAL: member("away")}.Final(t.Context(), workDir(e))
	must(t, err)
	must(t, s.Close())

	other := etcdtest.Start(t)
	other.Fill(t, 100, 10)
	other.Stop(t)
	must(t, os.Rename(filepath.Join(other.DataDir, "member", "wal"), member("wal")))
	segments, err := filepath.Glob(member("wal", "*.wal"))
	must(t, err)
	must(t, os.Truncate(segments[0], 10))
	if err := final(t.Context()); err == nil {
		t.Error("a WAL that is cut off at its beginning")
	}
	must(t, os.RemoveAll(member("wal")))
	must(t, os.Rename(member("away"), member("wal")))

	db, err := os.ReadFile(member("snap", "db"))
	must(t, err)
	for i := range db[:len(db)/2] { // all but the end, so that the file has its size
		db[i] ^= 0x55
	}
	must(t, os.WriteFile(member("snap", "db"), db, 0o600))
	if err := final(t.Context()); err == nil {
		t.Error("a broken database")
	}
	must(t, os.Remove(member("snap", "db")))
	if err := final(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no database: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(workDir(e), "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMembers: one of several members does not know what the others have
// acknowledged.
func TestMembers(t *testing.T) {
	c := etcdtest.StartCluster(t, 3)
	c.Members[0].Fill(t, 10, 10)
	for _, e := range c.Members {
		e.Kill(t)
		if _, err := (datadir.Dir{Data: e.DataDir}).Final(t.Context(), workDir(e)); !errors.Is(err, datadir.ErrMembers) {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// TestEmpty goes through the life of a data dir.
func TestEmpty(t *testing.T) {
	dir := datadir.Dir{Data: filepath.Join(t.TempDir(), "etcd")}
	check := func(when string, want bool) {
		t.Helper()
		if empty, err := dir.Empty(); err != nil || empty != want {
			t.Errorf("%s: empty: %t, %v", when, empty, err)
		}
	}
	check("missing", true)
	must(t, os.Mkdir(dir.Data, 0o700))
	check("new", true)
	lock, err := fence.New(dir.Data).Hold()
	must(t, err)
	check("fenced", true)
	must(t, lock.Release())
	check("released", true)
	e := etcdtest.Start(t, etcdtest.WithDataDir(dir.Data))
	check("in use", false)
	e.Stop(t)
	check("used", false)
	must(t, os.RemoveAll(filepath.Join(dir.Data, "member", "wal")))
	check("without its WAL", false)
	must(t, os.RemoveAll(filepath.Join(dir.Data, "member", "snap")))
	check("without its database", true)
}
