package copier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func TestSourceIsReadyBeforeItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		a.initiate()
		a.answer(160)
		h := handOver("b", a.Store, b.Store)
		if h.Status().State != copier.Claiming {
			t.Errorf("status %+v", h.Status())
		}
		out := start(t.Context(), h).wait(t)
		ad := handedOver(t, a, b, out)
		if len(ad.Items) != 1 || out.Lossy || out.Forced || out.DecidedBy != "source" || out.ThroughRevision != 160 || out.Epoch != 2 || out.Err() != nil {
			t.Errorf("outcome %+v, adoption %+v", out, ad)
		}
		if s := h.Status(); s.State != copier.Finished || s.ThroughRevision != 160 {
			t.Errorf("status %+v", s)
		}
		// Only the named set came, not the latest of anything else.
		if got := listed(t, b.Store); got != "full 160" {
			t.Errorf("copied are %s", got)
		}
	})
}

// TestNewerThanWhatIsNamed: a sidecar that had stood still stores what is newer than
// the decision. It may be copied ahead, but it is not what is handed over.
func TestNewerThanWhatIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		a.initiate()
		a.answer(160)
		fill(t, archive.New(a.Store), "full 170", "delta 171-180")
		handedOver(t, a, b, start(t.Context(), handOver("b", a.Store, b.Store)).wait(t))
	})
}

func TestWaitingCopiesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		h := handOver("b", a.Store, b.Store)
		r := start(t.Context(), h)
		<-time.After(time.Minute)
		if s := h.Status(); s.State != copier.Waiting || s.WaitSeconds < 500 || s.WaitSeconds > 560 {
			t.Errorf("status %+v", s)
		}
		if got, want := listed(t, b.Store), "full 130, delta 131-140, delta 141-150"; got != want {
			t.Errorf("copied ahead are %s, want %s", got, want)
		}
		if _, err := b.adoptions().Current(); !errors.Is(err, archive.ErrAdopting) {
			t.Errorf("while copying ahead a restore is not refused: %v", err)
		}
		a.answer(160)
		out := r.wait(t)
		handedOver(t, a, b, out)
		if out.WaitedSeconds < 60 || out.WaitedSeconds > 90 {
			t.Errorf("waited %.0f s", out.WaitedSeconds)
		}
	})
}

func TestBareObjectIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		if _, err := a.Swap(t.Context(), syncobject.ObjectName, "", []byte(`{"status":"Initial","theirs":1}`)); err != nil {
			t.Fatal(err)
		}
		r := start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		a.answer(160)
		handedOver(t, a, b, r.wait(t))
		if raw := objects(t, a.Store)[syncobject.ObjectName]; !strings.Contains(string(raw), `"theirs"`) {
			t.Errorf("what is not ours is gone: %s", raw)
		}
	})
}

func TestSecondDestinationLearnsWhoIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		first := start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		late := mem.New()
		_, err := handOver("late", a.Store, late).Run(t.Context())
		if !errors.Is(err, syncobject.ErrConflict) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("the second one: %v", err)
		}
		if all := objects(t, late); len(all) > 0 {
			t.Errorf("it wrote %d objects", len(all))
		}
		a.answer(160)
		handedOver(t, a, b, first.wait(t))
		if _, err := handOver("late", a.Store, late).Run(t.Context()); !errors.Is(err, syncobject.ErrConflict) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("after it was handed over: %v", err)
		}
	})
}

func TestTwoDestinationsAtOnce(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) {
			a, _ := pair(t)
			a.held()
			sides := []*side{newSide(t, mem.New(), "b", ""), newSide(t, mem.New(), "c", "")}
			var rs []*running
			for _, s := range sides {
				rs = append(rs, start(t.Context(), handOver(s.me.ID, a.Store, s.Store)))
			}
			<-time.After(time.Minute)
			a.answer(160)
			won := 0
			for i, r := range rs {
				<-r.done
				switch {
				case r.err == nil:
					won++
					handedOver(t, a, sides[i], r.outcome)
				case !errors.Is(r.err, syncobject.ErrConflict):
					t.Errorf("seed %d: %v", seed, r.err)
				}
			}
			if won != 1 {
				t.Errorf("seed %d: %d have won", seed, won)
			}
		})
	}
}

func TestAbortWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		r := start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		a.must(func(o syncobject.Object) (syncobject.Object, error) {
			return o.Abort(o.Generation, "not today", time.Now())
		})
		<-r.done
		if !errors.Is(r.err, copier.ErrReclaimed) || !strings.Contains(r.err.Error(), "not today") {
			t.Errorf("ended with %v", r.err)
		}
		if got := b.adoptions(); len(got) != 1 || got[0].Outcome != archive.AdoptionWithdrawn {
			t.Errorf("adoptions %+v", got)
		}
		// Whatever restarts it must not undo the abort.
		_, err := handOver("b", a.Store, b.Store).Run(t.Context())
		if o := a.read(); !errors.Is(err, copier.ErrReclaimed) || !strings.Contains(err.Error(), "--again") || o.Pending() {
			t.Errorf("started again: %v, %+v", err, o)
		}
		again := handOver("b", a.Store, b.Store)
		again.Again = true
		r = start(t.Context(), again)
		<-time.After(time.Minute)
		if o := a.read(); o.Generation != 2 || !o.Pending() {
			t.Errorf("with --again: %+v", o)
		}
		a.answer(160)
		handedOver(t, a, b, r.wait(t))
	})
}

func TestReclaimBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		a.initiate()
		a.answer(160)
		reclaimed := false
		from := &onSwap{Store: a.Store}
		from.before = func(o syncobject.Object) {
			if o.Status == syncobject.Done && !reclaimed {
				reclaimed = true
				a.must(func(o syncobject.Object) (syncobject.Object, error) { return o.Reclaim(o.Generation, "b is dead") })
			}
		}
		_, err := handOver("b", from, b.Store).Run(t.Context())
		if !errors.Is(err, copier.ErrReclaimed) || !reclaimed {
			t.Errorf("ended with %v", err)
		}
		if got := b.adoptions(); len(got) != 1 || got[0].Outcome != archive.AdoptionWithdrawn {
			t.Errorf("adoptions %+v", got)
		}
		if o, err := b.tenancy.Read(t.Context()); err == nil {
			t.Errorf("the destination says that it holds its container: %+v", o)
		}
		if v := syncobject.Judge(new(a.read()), "a", 1); v != syncobject.Own {
			t.Errorf("the source is %v", v)
		}
	})
}

func TestReclaimRacingWithCommit(t *testing.T) {
	commits := 0
	for seed := range 200 {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			a.initiate()
			a.answer(160)
			operator := newSide(t, a.Store, "a", "a")
			r := start(t.Context(), handOver("b", a.Store, b.Store))
			for operator.read().Destination.ID == "" {
				<-time.After(time.Millisecond)
			}
			<-time.After(time.Duration(seed) * 11 * time.Millisecond) // the commit takes its pace
			reclaim := operator.step(func(o syncobject.Object) (syncobject.Object, error) { return o.Reclaim(o.Generation, "test") })
			<-r.done
			current, err := b.adoptions().Current()
			switch {
			case reclaim == nil && errors.Is(r.err, copier.ErrReclaimed) && err != nil:
			case errors.Is(reclaim, syncobject.ErrDecided) && r.err == nil && err == nil && current.Owner.ID == "b":
				commits++
			default:
				t.Errorf("seed %d: reclaim %v, copy %v, adopted %+v %v", seed, reclaim, r.err, current, err)
			}
		})
	}
	if commits == 0 || commits == 200 {
		t.Errorf("%d of 200 were committed: this was no race", commits)
	}
}

func TestDestinationThatIsInUse(t *testing.T) {
	for what, use := range map[string]func(t *testing.T, b *side){
		"another's": func(t *testing.T, b *side) { newSide(t, b.Store, "x", "x").held() },
		"my own, with a history of its own": func(_ *testing.T, b *side) {
			b.me.Lineage = "b"
			b.held()
		},
		"a hand-over of it is pending": func(t *testing.T, b *side) { newSide(t, b.Store, "x", "x").initiate() },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			use(t, b)
			before := len(objects(t, b.Store))
			_, err := handOver("b", a.Store, b.Store).Run(t.Context())
			if !errors.Is(err, syncobject.ErrConflict) {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := a.object.Read(t.Context()); err == nil {
				t.Errorf("%s: the source was claimed", what)
			}
			if after := len(objects(t, b.Store)); before != after {
				t.Errorf("%s: %d objects became %d", what, before, after)
			}
		})
	}
}

func TestDoneStaysDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		a.initiate()
		a.answer(160)
		first := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		// The server begins, and the copier is started again beside it.
		b.me = syncobject.Holder{ID: "b", Epoch: first.Epoch, Lineage: first.Lineage}
		b.held()
		before := a.read()
		again := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		if !again.Before || again.Lineage != first.Lineage || again.ThroughRevision != 160 {
			t.Errorf("again: %+v", again)
		}
		if after := a.read(); after.Serial != before.Serial {
			t.Errorf("the object was written: %+v", after)
		}
		if o, err := b.tenancy.Read(t.Context()); err != nil || o.State != syncobject.Held {
			t.Errorf("owner.json of a server at work: %+v, %v", o, err)
		}
		// Another container is not the one.
		if _, err := handOver("b", a.Store, mem.New()).Run(t.Context()); !errors.Is(err, syncobject.ErrConflict) {
			t.Errorf("with an empty container: %v", err)
		}
		// Its own snapshots count now, and what it was handed may be pruned.
		ad, err := b.adoptions().Current()
		if err != nil {
			t.Fatal(err)
		}
		own := b.final(170)
		if err := archive.New(b.Store).Remove(t.Context(), snapshot.Manifest{Name: ad.Items[0].Name}); err != nil {
			t.Fatal(err)
		}
		start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		if got := listed(t, b.Store); got != short(own) {
			t.Errorf("%s are there", got)
		}
		// Nor is it taken back from whom it was handed on to.
		c := newSide(t, mem.New(), "c", "")
		b.initiate()
		b.answer(180)
		start(t.Context(), handOver("c", b.Store, c.Store)).wait(t)
		start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		if o := b.read(); o.Owner.ID != "c" || o.Outcome != syncobject.Completed {
			t.Errorf("what was handed on: %+v", o)
		}
	})
}

func TestStoreThatIsAwayDoesNotEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		cut := &faulty{Store: a.Store}
		h := handOver("b", cut, b.Store)
		r := start(t.Context(), h)
		<-time.After(time.Minute)
		cut.dead.Store(true)
		<-time.After(20 * time.Minute) // longer than W: what cannot be read is not forced
		if s := h.Status(); s.State != copier.Waiting || s.Trouble == "" {
			t.Errorf("status %+v", s)
		}
		if o := a.read(); o.Status != syncobject.Initial {
			t.Errorf("object %+v", o)
		}
		cut.dead.Store(false)
		a.answer(160)
		out := r.wait(t)
		handedOver(t, a, b, out)
		if out.Lossy {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("told to stop")
		h := handOver("b", a.Store, b.Store)
		r := start(ctx, h)
		<-time.After(time.Minute)
		cancel(stopped)
		<-r.done
		if !errors.Is(r.err, stopped) || h.Status().State != copier.Failed {
			t.Errorf("%v, status %+v", r.err, h.Status())
		}
	})
}

func TestLongForcedChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		words := []string{"full 100"}
		for i := range 300 {
			words = append(words, fmt.Sprintf("delta %d-%d", 101+i, 101+i))
		}
		fill(t, archive.New(a.Store), words...)
		out := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		handedOver(t, a, b, out)
		if out.Snapshots != 301 || out.ThroughRevision != 400 {
			t.Errorf("outcome %+v", out)
		}
	})
}

// Another destination than the source may have other keys.
func TestHandOverForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		before, after := newKey(t), newKey(t)
		sealed := sealing(a.Store, before, before)
		fill(t, sealed, "full 100", "delta 101-110")
		h := copier.NewHandOver("b",
			copier.Container{Archive: sealed, Objects: a.Store},
			copier.Container{Archive: sealing(b.Store, after, after), Objects: b.Store})
		h.Log, h.Copier.Log, h.Copier.Reencrypt = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler), true
		start(t.Context(), h).wait(t)
		ad, err := b.adoptions().Current()
		if err != nil {
			t.Fatal(err)
		}
		mine := sealing(b.Store, after, after)
		chain, err := mine.AdoptedChain(t.Context(), ad)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range chain.All() {
			if !bytes.Equal(content(t, mine, m), noise(uint64(i), 10_000+i)) {
				t.Errorf("%s has another content", m.Name)
			}
		}
	})
}

// Whoever started the server too early must not make it look as if nobody served.
func TestServerThatIsStartedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		ctx, cancel := context.WithCancel(t.Context())
		r := start(ctx, handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		b.held(func(o *syncobject.Owner) { o.Lease = syncobject.Seconds(time.Hour) })
		cancel() // and the copier is started again
		<-r.done
		r = start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		a.answer(160)
		out := r.wait(t)
		o, err := b.tenancy.Read(t.Context())
		if err != nil || o.State != syncobject.Held || o.Epoch != out.Epoch || o.Lineage != out.Lineage || o.Lease.Duration() != time.Hour {
			t.Errorf("owner.json: %+v, %v", o, err)
		}
	})
}
