package copier_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// toB writes that something is being handed over to b, and is not there yet.
func toB(t *testing.T, b *side) {
	t.Helper()
	err := archive.New(b.Store).BeginAdoption(t.Context(), archive.BegunAdoption{
		OperationID: "to-b", Generation: 1, Source: "elsewhere", Owner: "b", Time: time.Now(),
	})
	if err != nil {
		t.Error(err)
	}
}

// claiming is a store in which something happens just before the sync object is
// written for the first time, or just after it.
type claiming struct {
	store.Store
	before, after func()
}

func (s *claiming) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	mine := name == syncobject.ObjectName
	call := func(f *func()) {
		if mine && *f != nil {
			happens := *f
			*f = nil
			happens()
		}
	}
	call(&s.before)
	v, err := s.Store.Swap(ctx, name, old, data)
	call(&s.after)
	return v, err
}

// A claim on a container that is just being handed over would keep its new owner from
// it for ever (seed 1002001 of the simulation): it is not made, or taken back.
func TestClaimOfWhatIsBeingHandedOver(t *testing.T) {
	wants := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, syncobject.ErrConflict) || !errors.Is(err, archive.ErrAdopting) || !strings.Contains(err.Error(), "to-b") {
			t.Errorf("got %v", err)
		}
	}
	t.Run("begun before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := pair(t)
			toB(t, b)
			_, err := handOver("c", b.Store, c.Store).Run(t.Context())
			wants(t, err)
			if _, err := b.object.Read(t.Context()); err == nil {
				t.Error("it was claimed")
			}
		})
	})
	t.Run("begun meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := pair(t)
			from := &claiming{Store: b.Store, before: func() { toB(t, b) }}
			_, err := handOver("c", from, c.Store).Run(t.Context())
			wants(t, err)
			if o := b.read(); o.Outcome != syncobject.Aborted || c.adoptions()[0].Outcome != archive.AdoptionWithdrawn {
				t.Errorf("%+v, %+v", o, c.adoptions())
			}
		})
	})
	t.Run("and crashed after the claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := pair(t)
			ctx, crash := context.WithCancel(t.Context())
			from := &claiming{Store: b.Store, before: func() { toB(t, b) }, after: crash}
			if _, err := handOver("c", from, c.Store).Run(ctx); err == nil || !b.read().Pending() {
				t.Fatalf("%v, %+v", err, b.read())
			}
			_, err := handOver("c", b.Store, c.Store).Run(t.Context())
			wants(t, err)
			if o := b.read(); o.Outcome != syncobject.Aborted {
				t.Errorf("%+v", o)
			}
		})
	})
}

// The other one of the two: its own container is claimed just before it has written
// that it begins.
func TestOwnContainerIsClaimedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		to := &marking{Store: b.Store, letIn: func(name string) {
			if strings.HasSuffix(name, "begun.json") {
				b.must(func(o syncobject.Object) (syncobject.Object, error) {
					return o.Claim(syncobject.Claim{ID: "c", ForceAfter: syncobject.DefaultForceAfter, At: time.Now()})
				})
			}
		}}
		_, err := handOver("b", a.Store, to).Run(t.Context())
		if !errors.Is(err, syncobject.ErrConflict) || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("got %v", err)
		}
		if o := a.read(); o.Outcome != syncobject.Aborted {
			t.Errorf("%+v", o)
		}
	})
}
