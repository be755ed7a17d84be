package rows

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

// TestRow34SidecarKilledAtEachPoint of a full, a delta and a pruning, again and
// again on one etcd that is written to. The next life goes on where it ended:
// nothing is missing, nothing is there twice, and what could be restored can be.
func TestRow34SidecarKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, etcdtest.WithoutFsync())
	etcd.Fill(t, 100, 4<<10)
	writer := etcdtest.StartWriter(t, etcd.Client(t), "written/", 4)
	in, x := newFolder(t), newTrap(t)
	command := slices.Concat([]string{
		"server", "--etcd-endpoints", etcd.Endpoint(), "--listen", freeAddress(t), "--delta-period=50ms", "--full-schedule=",
		"--delta-share=0.02", "--keep-last=2", "--prune-period=100ms",
	}, in.flags("store"))
	const rounds = 2
	var reached int64
	for range rounds {
		for _, p := range []crashpoint.Point{
			crashpoint.Uploading, crashpoint.FullUploaded, crashpoint.FullStored,
			crashpoint.DeltaSealed, crashpoint.DeltaUploaded, crashpoint.DeltaStored,
			crashpoint.PruneBegun, crashpoint.ManifestRemoved, crashpoint.Pruned,
		} {
			x.diesAt(p, command...)
			now := whole.Through(t, in.direct)
			if now < reached {
				t.Fatalf("%s: what can be restored went back from revision %d to %d", p, reached, now)
			}
			reached = now
		}
	}
	sidecar := x.begin(command...)
	writer.WaitAcked(t, len(writer.Acked())+100)
	writer.Stop()
	now := etcd.Revision(t)
	eventually(t, "all is backed up", func() bool { return stored(t, in) >= now })
	sidecar.process.Kill()
	if last := whole.Through(t, in.direct); last != now {
		t.Errorf("what can be restored ends at revision %d, etcd's last is %d", last, now)
	}
	dir := filepath.Join(t.TempDir(), "etcd")
	begin(t, append([]string{"restore", "--data-dir", dir}, in.flags("store")...)...).want(0)
	want, compacted := etcd.HashKV(t, now)
	if got, err := restorer.Hash(t.Context(), dir, now, compacted); err != nil || got.Hash != want {
		t.Errorf("at revision %d the hash is %+v, want %d: %v", now, got, want, err)
	}
}

// TestRestoreKilledAtEachPoint: the data dir is the old one, or there is none, or
// it is the new one; and the next restore is not in the way of what the killed
// one left.
func TestRestoreKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, etcdtest.WithoutFsync())
	etcd.Fill(t, 200, 1<<10)
	in := newFolder(t)
	take := func(kind string) {
		begin(t, slices.Concat([]string{"snapshot", kind, "--etcd-endpoints", etcd.Endpoint()}, in.flags("store"))...).want(0)
	}
	take("full")
	revision := etcd.Fill(t, 100, 100)
	take("delta")
	hash, compacted := etcd.HashKV(t, revision)
	wantNew := func(t *testing.T, dir string) {
		t.Helper()
		if got, err := restorer.Hash(t.Context(), dir, revision, compacted); err != nil || got.Hash != hash {
			t.Errorf("the hash of what was restored is %+v, want %d: %v", got, hash, err)
		}
	}
	for p, became := range map[crashpoint.Point]string{
		crashpoint.FullFetched: "old", crashpoint.Built: "old", crashpoint.MovedAside: "none", crashpoint.Placed: "new",
	} {
		for _, before := range []string{"none", "old"} {
			t.Run(string(p)+", "+before+" before", func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "etcd")
				if before == "old" {
					if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(dir, "member", "snap", "db"), []byte("old"))
				}
				x := newTrap(t)
				restore := append([]string{"restore", "--data-dir", dir}, in.flags("store")...)
				x.diesAt(p, restore...)
				switch old, err := os.ReadFile(filepath.Join(dir, "member", "snap", "db")); {
				case became == "new":
					if len(old) < 1<<12 {
						t.Errorf("the data dir is not the new one: %q, %v", old, err)
					}
				case became == "none" || before == "none":
					if exists(dir) {
						t.Errorf("there is a data dir: %q", old)
					}
				case string(old) != "old":
					t.Errorf("the old data dir is %q, %v", old, err)
				}
				begin(t, restore...).want(0)
				wantNew(t, dir)
				if left, err := filepath.Glob(dir + ".restoring*"); err != nil || len(left) > 0 {
					t.Errorf("there is %v, %v", left, err)
				}
				if before == "old" && !oldIsAside(t, dir) {
					t.Error("what was in the data dir is nowhere")
				}
			})
		}
	}
}

// oldIsAside reports whether what write made is beside the data dir.
func oldIsAside(t *testing.T, dir string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "db" {
			content, readErr := os.ReadFile(path)
			found, err = found || string(content) == "old", readErr
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// TestSidecarKilledWhileItRestores what was handed over, at each point, before its
// etcd is let in for the first time.
func TestSidecarKilledWhileItRestores(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t)).ready()
	onA := writeTo(t, a)
	onA.more(t, 300)
	b := newDeployment(t, "b", newFolder(t), 1)
	a.copyTo("b", b.Store).want(0)
	onA.refused(t)
	trapped(b)
	points := []crashpoint.Point{crashpoint.FullFetched, crashpoint.Built, crashpoint.MovedAside, crashpoint.Placed}
	b.Trap.arm(points...)
	b.start()
	b.Trap.await(points...)
	b.until(server.Owner)
	onB := writeTo(t, b.ready())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	wantBackedUp(t, b)
	onB.stop()
	whole.Through(t, b.Store.direct)
	a.wantDown()
	wantSameHistory(t, a, b)
}
