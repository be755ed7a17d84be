package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// Whoever asks for a fresh status, how often and for how short ever, has the store
// read a few times at most.
func TestFreshReadsAreShared(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{
		"a quick store": {}, "a slow store": {Delay: 400 * time.Millisecond}, "no store": {Err: errCut},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				sleep(t.Context(), w.Timing.Poll/2) // owner.json is written
				var reads atomic.Int64
				w.faults.set(func(c storetest.Call) storetest.Fault {
					if c.Op == storetest.Read && c.Name == syncobject.ObjectName {
						reads.Add(1)
					}
					return fault
				})
				var g errgroup.Group
				const callers = 500
				for i := range callers {
					g.Go(func() error {
						sleep(t.Context(), time.Duration(i)*10*time.Millisecond)
						limit := w.Timing.Read
						if i%2 == 0 {
							limit = time.Millisecond
						}
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						defer cancel()
						called := time.Now()
						s, err := w.Fresh(ctx)
						switch {
						case ctx.Err() != nil && i%2 == 0: // it has hung up
							return nil
						case !errors.Is(err, fault.Err):
							return err
						case err == nil && s.Age > time.Since(called):
							t.Errorf("%v old, it was asked for %v ago", s.Age, time.Since(called))
						}
						return nil
					})
				}
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
				if n := reads.Load(); n < 3 || n > 12 {
					t.Errorf("%d reads for %d callers in 5 s", n, callers)
				}
			})
		})
	}
}

func TestFreshSeesWhatWasWrittenBeforeTheCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.takes = time.Hour })
		for want := range int64(3) {
			s, err := w.Fresh(t.Context())
			if err != nil || s.Object == nil && want > 0 || s.Object != nil && s.Object.Generation != want {
				t.Errorf("%v, %+v, want generation %d", err, s.Object, want)
			}
			sleep(t.Context(), time.Millisecond) // after that read
			if _, _, err := w.Initiate(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			s, err = w.Fresh(t.Context())
			if err != nil || s.Object == nil || !s.Object.Pending() {
				t.Errorf("it was just initiated: %v, %+v", err, s.Object)
			}
			if _, err := w.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.serving()
		}
	})
}
