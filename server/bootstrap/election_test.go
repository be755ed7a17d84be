package bootstrap_test

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// testElected has an election prepare the data dir: a missing one, and one from
// before the hand-over. The gate opens when it is restored, and an etcd starts.
func testElected(t *testing.T, p past) {
	for _, disk := range []string{"", "late", "foreign"} {
		t.Run("disk "+disk, func(t *testing.T) {
			s := newSite(t, clone(t, p.store))
			adopt(t, s.store, second, nil)
			held(t, s, second)
			s.place(t, p, disk)
			el := s.election(t)
			if disk == "foreign" {
				refusedTo(t, el)
				return
			}
			if err := el.Allowed(t.Context(), gate(t)); err != nil {
				t.Fatal(err)
			}
			e := etcdtest.Start(t, etcdtest.WithDataDir(s.dataDir), etcdtest.WithoutFsync())
			if r := e.Revision(t); r != p.last || len(s.aside(t)) != min(1, len(disk)) {
				t.Errorf("etcd starts at revision %d, was handed %d; moved aside: %v", r, p.last, s.aside(t))
			}
			e.Stop(t)
		})
	}
}

// testHandedOn wants a hand-over of a server that comes up with a disk from before
// the container was handed to it, and with no memory of its own. That disk does not
// become the final snapshot.
func testHandedOn(t *testing.T, p past) {
	s := newSite(t, clone(t, p.store))
	adopt(t, s.store, second, nil)
	held(t, s, second)
	s.place(t, p, "late")
	before := content(t, s.dataDir)
	file := syncobject.NewFile(s.store)
	_, _, err := file.Update(t.Context(), func(o syncobject.Object) (syncobject.Object, error) {
		return o.Claim(syncobject.Claim{ID: "c", Owner: second, ForceAfter: time.Hour, At: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.election(t)
	for t.Context().Err() == nil {
		o, err := file.Read(t.Context())
		if err != nil || o.Status != syncobject.Initial {
			t.Fatalf("%v, what was served until %d is handed over through %d: %+v", err, p.last, o.Snapshots.ThroughRevision, o.Decision)
		}
		if o.Source.Phase == syncobject.SnapshotFailed && strings.Contains(o.Source.Error, "before the hand-over to here") {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	if content(t, s.dataDir) != before {
		t.Error("the data dir was touched")
	}
}

// refusedTo waits until a gate is told why it has to wait.
func refusedTo(t *testing.T, el *server.Election) {
	t.Helper()
	for asking := gate(t); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := el.Allowed(ctx, asking)
		cancel()
		switch {
		case err == nil || t.Context().Err() != nil:
			t.Fatalf("let in on a data dir that nothing is known of: %+v", el.Status())
		case strings.Contains(err.Error(), "--accept-data-dir"):
			return
		}
	}
}

// gate starts a process that stands for one.
func gate(t *testing.T) fence.Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test kills it
	p, err := fence.Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// held has owner.json name h, as a hand-over leaves it.
func held(t *testing.T, s *site, h syncobject.Holder) {
	t.Helper()
	_, _, err := syncobject.NewOwnerFile(s.store).Update(t.Context(), func(o syncobject.Owner) (syncobject.Owner, error) {
		const minute = syncobject.Seconds(time.Minute)
		return o.Hold(syncobject.Owner{ID: h.ID, Epoch: h.Epoch, Lineage: h.Lineage, Lease: minute, Kill: minute, Watchdog: minute})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// election runs the election of the site until the test ends.
func (s *site) election(t *testing.T) *server.Election {
	t.Helper()
	c, err := etcd.Dial(context.WithoutCancel(t.Context()), etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	el := server.NewElection(server.NewLocalMember(s.dataDir, c, c), s.store, archive.New(s.store))
	el.ID, el.StateDir = second.ID, filepath.Join(filepath.Dir(s.dataDir), "state")
	el.Timing.Poll, el.Timing.Read, el.Timing.Release = 200*time.Millisecond, 2*time.Second, time.Second
	el.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	el.Prepare, el.Check = s.Prepare, s.Check
	ctx, cancel := context.WithCancel(t.Context())
	if err := el.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- el.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = c.Close()
	})
	return el
}
