package copier_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestForceWhenTheWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		h := handOver("b", a.Store, b.Store)
		registry := prometheus.NewRegistry()
		h.Metrics = copier.NewMetrics(registry)
		began := time.Now()
		out := start(t.Context(), h).wait(t)
		if waited := time.Since(began); waited < h.Wait || waited > h.Wait+2*h.Poll {
			t.Errorf("forced after %v", waited)
		}
		ad := handedOver(t, a, b, out)
		if !out.Lossy || !out.Forced || out.DecidedBy != "destination" || out.ThroughRevision != 150 || !errors.Is(out.Err(), copier.ErrLossy) {
			t.Errorf("outcome %+v", out)
		}
		if !ad.Lossy || !ad.Forced || ad.Reason == "" || len(ad.Items) != 3 || ad.SourceOwner.Lineage != "a" {
			t.Errorf("adoption %+v", ad)
		}
		if d := a.read().Decision; !d.Lossy || !d.Forced || d.Reason == "" {
			t.Errorf("decision %+v", d)
		}
		want := `
# HELP etcd_ferry_copy_lossy 1 if what is handed over lacks writes that the source may have acknowledged.
# TYPE etcd_ferry_copy_lossy gauge
etcd_ferry_copy_lossy 1
# HELP etcd_ferry_copy_through_revision Last revision that is surely handed over; 0 before it is decided.
# TYPE etcd_ferry_copy_through_revision gauge
etcd_ferry_copy_through_revision 150
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "etcd_ferry_copy_lossy", "etcd_ferry_copy_through_revision"); err != nil {
			t.Error(err)
		}
		// The source comes back and learns it.
		if err := a.publish(a.final(170)); !errors.Is(err, syncobject.ErrNotPending) {
			t.Errorf("the source published: %v", err)
		}
	})
}

// W counts from the answer to the claim: a source may have read the object until
// the claim was there.
func TestSlowClaimDoesNotShortenTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		var answered, forced time.Time
		slow := storetest.NewFaulty(a.Store, func(c storetest.Call) storetest.Fault {
			switch {
			case c.Op != storetest.Swap || c.Name != syncobject.ObjectName:
				return storetest.Fault{}
			case answered.IsZero():
				return storetest.Fault{Delay: 8 * time.Second, Then: func() { answered = time.Now() }}
			}
			began := time.Now()
			return storetest.Fault{Then: func() {
				if forced.IsZero() && a.read().Decision.Forced {
					forced = began
				}
			}}
		})
		h := handOver("b", slow, b.Store)
		h.Poll = time.Second
		start(t.Context(), h).wait(t)
		if waited := forced.Sub(answered); forced.IsZero() || waited < h.Wait || waited > h.Wait+2*h.Poll {
			t.Errorf("forced %v after the claim", waited)
		}
	})
}

func TestForceRacingWithReady(t *testing.T) {
	by := map[string]int{}
	made := newSide(t, mem.New(), "a", "a")
	fill(t, archive.New(made.Store), "full 150")
	final := made.final(160)
	stored := objects(t, made.Store)
	for seed := range 1000 {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			for name, data := range stored {
				if _, err := a.Create(t.Context(), name, bytes.NewReader(data)); err != nil {
					t.Fatal(err)
				}
			}
			h := handOver("b", a.Store, b.Store)
			h.Precopy, h.Wait, h.Poll = time.Hour, 210*time.Second, 30*time.Second
			r := start(t.Context(), h)
			<-time.After(time.Minute)
			a.report(syncobject.Fenced)
			<-time.After(h.Wait - time.Minute - 15*time.Second + time.Duration(seed)*50*time.Millisecond)
			published := a.publish(final)
			out := r.wait(t)
			handedOver(t, a, b, out)
			by[out.DecidedBy]++
			if out.DecidedBy == "source" != (published == nil) || out.Lossy != (published != nil) {
				t.Errorf("seed %d: publish: %v, outcome %+v", seed, published, out)
			}
			if published != nil && !errors.Is(published, syncobject.ErrDecided) && !errors.Is(published, syncobject.ErrNotPending) {
				t.Errorf("seed %d: %v", seed, published)
			}
		})
	}
	if by["source"] == 0 || by["destination"] == 0 {
		t.Errorf("decided by %v: this was no race", by)
	}
}

func TestWhenForceIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		source func(a *side)
		force  copier.Force
		says   string // in the error; "": it is forced
	}{
		"never":                       {func(a *side) { a.held() }, copier.ForceNever, "--no-force"},
		"nobody says that he stops":   {func(*side) {}, copier.ForceSafely, "owner.json"},
		"the same, forced anyway":     {func(*side) {}, copier.ForceAnyway, ""},
		"the source does not stop":    {func(a *side) { a.held(unfencing) }, copier.ForceSafely, "implicit-fencing"},
		"the same, anyway":            {func(a *side) { a.held(unfencing) }, copier.ForceAnyway, ""},
		"it could not be stopped":     {func(a *side) { a.held(); a.initiate(); a.report(syncobject.FenceFailed) }, copier.ForceSafely, "could not stop its etcd"},
		"the same, and still, anyway": {func(a *side) { a.held(); a.initiate(); a.report(syncobject.FenceFailed) }, copier.ForceAnyway, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			c.source(a)
			fill(t, archive.New(a.Store), everyday...)
			h := handOver("b", a.Store, b.Store)
			h.Force = c.force
			r := start(t.Context(), h)
			<-r.done
			switch {
			case c.says == "" && r.err == nil:
				handedOver(t, a, b, r.outcome)
			case c.says == "":
				t.Errorf("%s: %v", what, r.err)
			case !errors.Is(r.err, copier.ErrNotReady) || !strings.Contains(r.err.Error(), c.says):
				t.Errorf("%s: %v", what, r.err)
			}
			if o := a.read(); c.says != "" && (o.Status != syncobject.Initial || o.Destination.ID != "b") {
				t.Errorf("%s: %+v", what, o)
			}
			if c.says == "" {
				return
			}
			// The claim stays: the source may still come, and the next run goes on.
			r = start(t.Context(), handOver("b", a.Store, b.Store))
			<-time.After(time.Minute)
			a.answer(160)
			handedOver(t, a, b, r.wait(t))
		})
	}
}

func TestWaitBelowTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		h := handOver("b", a.Store, b.Store)
		h.Wait = 200 * time.Second
		_, err := h.Run(t.Context())
		if !errors.Is(err, copier.ErrUnsafe) || !strings.Contains(err.Error(), "W(1−ρ) > (L + max(K, G))(1+ρ) + δ") || !strings.Contains(err.Error(), "3m26s") {
			t.Errorf("got %v", err)
		}
		if _, err := a.object.Read(t.Context()); err == nil {
			t.Error("the source was claimed")
		}
	})
}

func TestSourceRaisesItsLeaseMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		began := time.Now()
		r := start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		a.held(func(o *syncobject.Owner) { o.Lease = syncobject.Seconds(20 * time.Minute) })
		r.wait(t)
		if waited := time.Since(began); waited < 20*time.Minute {
			t.Errorf("forced after %v", waited)
		}
	})
}

func TestHeartbeatsProlongTheWait(t *testing.T) {
	for what, c := range map[string]struct {
		phase  syncobject.SourcePhase
		beats  time.Duration // for how long
		forced time.Duration // 0: the source decides
	}{
		"a long upload":         {syncobject.Snapshotting, 40 * time.Minute, 0},
		"it dies on the way":    {syncobject.Snapshotting, 20 * time.Minute, 22 * time.Minute},
		"it lives for too long": {syncobject.Snapshotting, 3 * time.Hour, time.Hour},
		"it lives and serves":   {syncobject.Fencing, time.Hour, 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			fill(t, archive.New(a.Store), everyday...)
			r := start(t.Context(), handOver("b", a.Store, b.Store))
			<-time.After(5 * time.Second)
			began := time.Now()
			for time.Since(began) < c.beats {
				err := a.step(func(o syncobject.Object) (syncobject.Object, error) {
					return o.Report(o.Generation, a.me, syncobject.SourceReport{Phase: c.phase, Members: 1, At: time.Now()})
				})
				if err != nil { // decided
					break
				}
				<-time.After(30 * time.Second)
			}
			if c.forced == 0 {
				a.answer(160)
			}
			out := r.wait(t)
			if out.Forced != (c.forced > 0) {
				t.Errorf("%s: %+v", what, out)
			}
			if waited := time.Duration(out.WaitedSeconds * float64(time.Second)); c.forced > 0 && (waited < c.forced-time.Minute || waited > c.forced+time.Minute) {
				t.Errorf("%s: forced after %v", what, waited)
			}
		})
	}
}

func TestSourceGivesUp(t *testing.T) {
	for what, c := range map[string]struct {
		fenced  []string
		members int
		atOnce  bool
	}{
		"all members are fenced": {[]string{"m"}, 1, true},
		"one of three is":        {[]string{"m"}, 3, false},
		"it does not say":        {nil, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			fill(t, archive.New(a.Store), everyday...)
			r := start(t.Context(), handOver("b", a.Store, b.Store))
			<-time.After(time.Minute)
			for _, m := range append(c.fenced, "") {
				a.must(func(o syncobject.Object) (syncobject.Object, error) {
					return o.Report(o.Generation, a.me, syncobject.SourceReport{
						Phase: syncobject.SnapshotFailed, Error: "disk full", Member: m, Members: c.members, At: time.Now(),
					})
				})
			}
			out := r.wait(t)
			handedOver(t, a, b, out)
			if atOnce := out.WaitedSeconds < 120; !out.Lossy || atOnce != c.atOnce {
				t.Errorf("%s: %+v", what, out)
			}
			if c.atOnce && !strings.Contains(out.Reason, "disk full") {
				t.Errorf("%s: reason %q", what, out.Reason)
			}
		})
	}
}

func TestReleasedSourceIsNotWaitedFor(t *testing.T) {
	for what, c := range map[string]struct {
		damage func(t *testing.T, a *side)
		lossy  bool
	}{
		"all is well": {func(*testing.T, *side) {}, false},
		"a stray leads further": {func(t *testing.T, a *side) {
			if _, err := a.Create(t.Context(), "snapshots/delta-0000000000000151-0000000000000160-20261120T130000Z.ev.zst", strings.NewReader("?")); err != nil {
				t.Fatal(err)
			}
		}, true},
		"the newest delta is damaged": {func(t *testing.T, a *side) {
			l, err := archive.New(a.Store).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			flip(t, a.Store, "snapshots/"+l.Manifests[len(l.Manifests)-1].Name)
		}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held(released)
			fill(t, archive.New(a.Store), everyday...)
			c.damage(t, a)
			out := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
			handedOver(t, a, b, out)
			if out.Lossy != c.lossy || (out.WaitedSeconds > 60) != c.lossy {
				t.Errorf("%s: %+v", what, out)
			}
		})
	}
}

// A source that wakes up says so before it looks at the object, so that one of the
// two decides.
func TestReleasedSourceWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held(released)
		fill(t, archive.New(a.Store), everyday...)
		from := &onSwap{Store: a.Store}
		from.before = func(o syncobject.Object) {
			if o.Status == syncobject.Ready {
				from.before = nil
				a.held()
				a.answer(160)
			}
		}
		out := start(t.Context(), handOver("b", from, b.Store)).wait(t)
		handedOver(t, a, b, out)
		if out.DecidedBy != "source" || out.ThroughRevision != 160 {
			t.Errorf("outcome %+v", out)
		}
	})
}
