package rows

import (
	"errors"
	"slices"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/robust/whole"
)

// TestRow32ForcedDestinationAndItsSourceKilled: a source that died before it had stored everything files
// what a forced destination lacks, also if it dies again on the way; and the
// destination has died before and after it decided.
func TestRow32ForcedDestinationAndItsSourceKilled(t *testing.T) {
	t.Parallel()
	a := deploy(t, "a", newFolder(t), hastily, trapped, func(d *deployment) { d.Flags = []string{"--delta-period=1h"} }).ready()
	eventually(t, "a full is stored", func() bool { return stored(t, a.Store) > 0 })
	onA := writeTo(t, a)
	onA.more(t, 300)
	a.crash()
	onA.stop()
	b := newDeployment(t, "b", newFolder(t), 1)
	b.Pace = hasty
	x := newTrap(t)
	x.diesAt(crashpoint.BeforeForce, a.copying("b", b.Store)...)
	if o := a.Store.object(t); o.Decision.By != "" {
		t.Errorf("%+v", o)
	}
	x.diesAt(crashpoint.Decided, a.copying("b", b.Store)...)
	decided := a.Store.object(t)
	done := a.copyTo("b", b.Store).want(6, "LOSSY").outcome()
	if o := a.Store.object(t); !done.Lossy || !o.Decision.Forced || o.Decision.At != decided.Decision.At ||
		o.Snapshots.ThroughRevision != decided.Snapshots.ThroughRevision || o.Owner.ID != "b" {
		t.Errorf("%+v, %+v, before %+v", done, o, decided)
	}
	a.Trap.arm(crashpoint.LateStored)
	a.start()
	a.Trap.await(crashpoint.LateStored)
	a.until(server.Ceded)
	wantLate(t, a.Store, done.ThroughRevision)
	late := archive.New(store.Prefix(a.Store.direct, "late"))
	if l, err := late.List(t.Context()); err != nil || len(l.Manifests) != 1 || len(l.Strays) > 0 {
		t.Errorf("%+v, %v", l, err)
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.wantKeptThrough(t, b, done.ThroughRevision)
	a.wantDown()
}

// TestRow32CopyKilledAtEachPoint from the claim to the end, under writers. What is
// in its container counts only when it has been started again and is done.
func TestRow32CopyKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, p := range []crashpoint.Point{
		crashpoint.BeforeClaim, crashpoint.Claimed, crashpoint.AdoptionBegun, crashpoint.CopyUploaded, crashpoint.CopyStored,
		crashpoint.BeforeAdopt, crashpoint.AdoptionWritten, crashpoint.Committed, crashpoint.Adopted, crashpoint.Held, crashpoint.Settled,
	} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			a := deploy(t, "a", newFolder(t)).ready()
			onA := writeTo(t, a)
			onA.more(t, 300)
			eventually(t, "something is stored", func() bool { return stored(t, a.Store) > 0 })
			b := newDeployment(t, "b", newFolder(t), 1)
			x := newTrap(t)
			x.diesAt(p, a.copying("b", b.Store)...)
			wantNothingToServe(t, a, b, p)
			if p == crashpoint.CopyUploaded || p == crashpoint.CopyStored { // once more, when it is decided
				a.until(server.Ceded)
				x.diesAt(p, a.copying("b", b.Store)...)
				wantNothingToServe(t, a, b, p)
			}
			done := a.copyTo("b", b.Store).want(0).outcome()
			handedOverOnce(t, a, b, done)
			goesOn(t, onA, a, b)
			wantFinalHash(t, a, b)
		})
	}
}

// wantNothingToServe looks at what a copy left that died at a point: unless all is
// said nobody restores from there, and the object is Done from the commit on.
func wantNothingToServe(t *testing.T, a, b *deployment, at crashpoint.Point) {
	t.Helper()
	last := whole.Through(t, b.Store.direct)
	dir := t.TempDir() + "/etcd"
	restore := append([]string{"restore", "--data-dir", dir}, b.Store.flags("store")...)
	all, err := b.Store.archive().Adoptions(t.Context())
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		t.Fatal(err)
	}
	switch _, err := all.Current(); at {
	case crashpoint.BeforeClaim, crashpoint.Claimed:
		if len(all) > 0 {
			t.Errorf("adoptions: %+v", all)
		}
	case crashpoint.Settled:
		if err != nil {
			t.Errorf("it has ended, and no adoption counts: %v", err)
		}
		begin(t, restore...).want(0)
	default:
		if !errors.Is(err, archive.ErrAdopting) {
			t.Errorf("it has not ended, and there are adoptions %+v, %v", all, err)
		}
		refused := begin(t, restore...)
		if code := refused.code(); code == 0 || exists(dir) {
			t.Errorf("something was restored, exit code %d", code)
		}
		if last > 0 {
			refused.want(1, archive.ErrAdopting.Error())
		}
	}
	done := slices.Contains([]crashpoint.Point{crashpoint.Committed, crashpoint.Adopted, crashpoint.Held, crashpoint.Settled}, at)
	if at == crashpoint.BeforeClaim {
		return // there is no object
	}
	if o := a.Store.object(t); o.Destination.ID != b.ID || done != (o.Status == syncobject.Done) {
		t.Errorf("%+v", o)
	}
}
