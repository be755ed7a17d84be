package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lineageA = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa" // in epoch 1
	lineageB = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb" // in epoch 2
	lineageX = "cccccccc-cccc-4ccc-8ccc-cccccccccccc" // of nobody
)

var (
	first  = syncobject.Holder{ID: "a", Epoch: 1, Lineage: lineageA} // whose the container is
	second = syncobject.Holder{ID: "b", Epoch: 2, Lineage: lineageB} // to whom it is handed
)

// past is what an etcd and its backup have left.
type past struct {
	store   *mem.Store
	pruned  *mem.Store // the same, with nothing but a full at the end
	dirs    string     // holds data dirs by name
	cluster string
	last    int64 // stored
}

// newPast makes a history: a full, a delta, and another delta, with the data dir
// kept before the last delta (early), after it (late), and as it was when etcd was
// killed with a write that is not stored (ahead).
func newPast(t *testing.T) past {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.WithoutFsync())
	s := mem.New()
	b := backUp(t, e, s, first)
	e.Fill(t, 20, 100)
	b.full(t)
	e.Fill(t, 20, 100)
	b.delta(t)
	p := past{store: s, dirs: t.TempDir()}
	e.Stop(t)
	p.keep(t, e, "early")
	e.Restart(t)
	e.Fill(t, 20, 100)
	p.last = b.delta(t).Last
	e.Kill(t) // with writes that the database lacks
	p.keep(t, e, "late")
	e.Restart(t)
	p.pruned = clone(t, s)
	old := list(t, s).Manifests
	backUp(t, e, p.pruned, first).full(t)
	for _, m := range old {
		if err := archive.New(p.pruned).Remove(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	e.Fill(t, 5, 100)
	e.Kill(t)
	p.keep(t, e, "ahead")
	p.cluster = list(t, s).Manifests[0].ClusterID

	other := etcdtest.Start(t, etcdtest.WithoutFsync())
	other.Fill(t, 30, 100)
	other.Stop(t)
	p.keep(t, other, "foreign")
	p.spoil(t)
	return p
}

func (p past) keep(t *testing.T, e *etcdtest.Etcd, name string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(p.dirs, name), os.DirFS(e.DataDir)); err != nil {
		t.Fatal(err)
	}
}

// spoil makes broken data dirs.
func (p past) spoil(t *testing.T) {
	t.Helper()
	for name, spoil := range map[string]func(dir string) error{
		"corrupt":   func(dir string) error { return os.WriteFile(fence.DB(dir), make([]byte, 64<<10), 0o600) },
		"truncated": func(dir string) error { return os.Truncate(fence.DB(dir), 3*4096) },
		"no db":     func(dir string) error { return os.Remove(fence.DB(dir)) },
		"no wal":    func(dir string) error { return os.RemoveAll(filepath.Join(dir, "member", "wal")) },
	} {
		dir := filepath.Join(p.dirs, name)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(p.dirs, "late"))); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(p.dirs, "no wal, ahead")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(p.dirs, "ahead"))); err != nil {
		t.Fatal(err)
	}
	// As etcd leaves it when it ends by itself.
	e := etcdtest.Start(t, etcdtest.WithDataDir(dir), etcdtest.WithoutFsync())
	e.Fill(t, 5, 100)
	e.Stop(t)
	if err := os.RemoveAll(filepath.Join(dir, "member", "wal")); err != nil {
		t.Fatal(err)
	}
}

// backup backs up a running etcd.
type backup struct{ *snapshotter.Snapshotter }

func backUp(t *testing.T, e *etcdtest.Etcd, s store.Store, h syncobject.Holder) backup {
	t.Helper()
	c, err := etcd.Dial(context.WithoutCancel(t.Context()), etcd.Config{Endpoints: []string{e.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b := snapshotter.New(c, archive.New(s))
	b.Epoch, b.Lineage, b.Log = h.Epoch, h.Lineage, slog.New(slog.DiscardHandler)
	return backup{b}
}

func (b backup) full(t *testing.T) snapshot.Manifest {
	t.Helper()
	m, err := b.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (b backup) delta(t *testing.T) snapshot.Manifest {
	t.Helper()
	m, err := b.Delta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func list(t *testing.T, s store.Store) archive.Listing {
	t.Helper()
	l, err := archive.New(s).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// clone returns a store with the same objects.
func clone(t *testing.T, s *mem.Store) *mem.Store {
	t.Helper()
	to := mem.New()
	infos, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		r, _, err := s.Open(t.Context(), info.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Create(t.Context(), info.Name, r); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	}
	return to
}

// adopt hands all that is stored to an owner.
func adopt(t *testing.T, s store.Store, h syncobject.Holder, change func(*archive.Adoption)) {
	t.Helper()
	a := archive.New(s)
	chain, err := snapshot.Select(list(t, s).Manifests, snapshot.Target{})
	if err != nil {
		t.Fatal(err)
	}
	ad := archive.Adoption{
		OperationID: "operation-" + h.ID, Generation: 1, Source: "mem:", ThroughRevision: chain.Last(), Final: true,
		Owner: archive.Holder{ID: h.ID, Epoch: h.Epoch, Lineage: h.Lineage}, Time: time.Now(), Tool: "test",
	}
	for _, m := range chain.All() {
		ad.Items = append(ad.Items, archive.Item(m))
	}
	if change != nil {
		change(&ad)
	}
	if _, err := a.PrepareAdoption(t.Context(), ad); err != nil {
		t.Fatal(err)
	}
	if err := a.SettleAdoption(t.Context(), ad.OperationID, archive.AdoptionCommitted); err != nil {
		t.Fatal(err)
	}
}

// site is a data dir and a container.
type site struct {
	*bootstrap.Bootstrap
	store   store.Store
	dataDir string
}

func newSite(t *testing.T, s store.Store) *site {
	t.Helper()
	return siteAt(t, s, filepath.Join(t.TempDir(), "etcd"))
}

func siteAt(t *testing.T, s store.Store, dataDir string) *site {
	t.Helper()
	b := bootstrap.New(archive.New(s), dataDir)
	b.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	b.RetryMin, b.RetryMax = time.Millisecond, time.Millisecond
	return &site{Bootstrap: b, store: s, dataDir: dataDir}
}

// prepare calls Prepare as an Election does: with the lock held.
func (s *site) prepare(t *testing.T, h syncobject.Holder, have string) (string, error) {
	t.Helper()
	lock, err := fence.New(s.dataDir).Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}()
	return s.Prepare(t.Context(), h, have)
}

// prepared is prepare that must not fail.
func (s *site) prepared(t *testing.T, h syncobject.Holder, have string) string {
	t.Helper()
	lineage, err := s.prepare(t, h, have)
	if err != nil {
		t.Fatal(err)
	}
	return lineage
}

func (s *site) state(t *testing.T) datadir.State {
	t.Helper()
	state, err := datadir.Dir{Data: s.dataDir}.Look()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// aside are the data dirs that were moved aside.
func (s *site) aside(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(s.dataDir + ".before-*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// start runs an etcd on the data dir.
func (s *site) start(t *testing.T) (*etcdtest.Etcd, *clientv3.Client) {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.WithDataDir(s.dataDir), etcdtest.WithoutFsync())
	return e, e.Client(t)
}

// place puts the data dir of that name where the site's is.
func (s *site) place(t *testing.T, p past, name string) {
	t.Helper()
	if name == "" {
		return
	}
	from := filepath.Join(p.dirs, name)
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		to := filepath.Join(s.dataDir, strings.TrimPrefix(path, from))
		if err == nil && e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		return errors.Join(err, os.Link(path, to)) // nobody writes to it
	})
	if err != nil {
		t.Fatal(err)
	}
}

// content tells the files below dir apart from all others, but for what stands in
// for a database, which comes and goes.
func content(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > 0 {
			inode := info.Sys().(*syscall.Stat_t).Ino
			fmt.Fprintln(&all, strings.TrimPrefix(path, dir), inode, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all.String()
}
