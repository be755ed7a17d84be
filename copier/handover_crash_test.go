package copier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A crash at every write, before and after it is done, and the loss of every
// answer: the next run, or the same, comes to the same end.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, story := range []struct {
		name   string
		source func(a *side) // before the claim
		lossy  bool
	}{
		{"ready", func(a *side) { a.held(); a.initiate(); a.answer(160) }, false},
		{"forced", func(a *side) { a.held() }, true},
		{"released", func(a *side) { a.held(released) }, false},
	} {
		for _, side := range []string{"source", "destination"} {
			for _, how := range []string{"crash before", "crash after", "answer lost", "not done"} {
				t.Run(story.name+", "+side+", "+how, func(t *testing.T) {
					t.Parallel()
					for at := 1; ; at++ {
						if at > 100 {
							t.Fatal("this does not end")
						}
						if !faultAt(t, story.source, story.lossy, side, how, at) {
							return
						}
					}
				})
			}
		}
	}
}

// faultAt makes one write go wrong, and reports whether there was such a write.
func faultAt(t *testing.T, source func(*side), lossy bool, where, how string, at int) (hit bool) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		fill(t, archive.New(a.Store), "full 100", "delta 101-110")
		source(a)
		from, to := &faulty{Store: a.Store}, &faulty{Store: b.Store}
		f := from
		if where == "destination" {
			f = to
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		f.at, f.lost = at, strings.HasSuffix(how, "after") || strings.HasSuffix(how, "lost")
		if strings.HasPrefix(how, "crash") {
			f.crash = func(err error) { from.dead.Store(true); to.dead.Store(true); cancel(err) }
		}
		r := start(ctx, handOver("b", from, to))
		<-r.done
		hit = len(f.names) >= at
		object, err := b.object.Read(t.Context())
		if r.err != nil && err == nil && object.Owner.ID == "b" {
			t.Error("the destination says that it is the owner, and copying has failed")
		}
		again := start(t.Context(), handOver("b", a.Store, b.Store)) // a new process
		out := again.wait(t)
		handedOver(t, a, b, out)
		if out.Lossy != lossy {
			t.Errorf("write %d: %+v", at, out)
		}
		if r.err == nil && r.outcome.Lineage != out.Lineage {
			t.Errorf("write %d: lineage %s became %s", at, r.outcome.Lineage, out.Lineage)
		}
		if n := a.read().Generation; n != 1 {
			t.Errorf("write %d: generation %d", at, n)
		}
		if n := len(b.adoptions()); n != 1 {
			t.Errorf("write %d: %d adoptions", at, n)
		}
	})
	return hit
}

// Until the commit point no server of the destination may restore, and after a
// crash behind it only when the copier has finished.
func TestNothingIsRestorableBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		a.initiate()
		a.answer(160)
		to := newHooked()
		to.Store = b.Store
		var seen []string
		to.after = func(name string) {
			_, err := b.adoptions().Current()
			done := strings.HasSuffix(name, "outcome.json")
			if (err == nil) != done || err != nil && !errors.Is(err, archive.ErrAdopting) && strings.HasPrefix(name, "adoptions/") {
				t.Errorf("after %s: %v", name, err)
			}
			if done && a.read().Status != syncobject.Done {
				t.Errorf("settled before the commit point")
			}
			seen = append(seen, name)
		}
		start(t.Context(), handOver("b", a.Store, to)).wait(t)
		if !slices.ContainsFunc(seen, func(name string) bool { return strings.HasSuffix(name, "outcome.json") }) {
			t.Errorf("written was %v", seen)
		}
	})
}

func TestDamagedCopyIsMadeAgain(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, b *side, ms []snapshot.Manifest){
		"one bit": func(t *testing.T, b *side, ms []snapshot.Manifest) { flip(t, b.Store, "snapshots/"+ms[1].Name) },
		"truncated": func(t *testing.T, b *side, ms []snapshot.Manifest) {
			name := "snapshots/" + ms[0].Name
			put(t, b.Store, name, objects(t, b.Store)[name][:100])
		},
		"swapped": func(t *testing.T, b *side, ms []snapshot.Manifest) {
			x, y := "snapshots/"+ms[1].Name, "snapshots/"+ms[2].Name
			all := objects(t, b.Store)
			put(t, b.Store, x, all[y])
			put(t, b.Store, y, all[x])
		},
		"missing": func(t *testing.T, b *side, ms []snapshot.Manifest) {
			if err := b.Remove(t.Context(), "snapshots/"+ms[2].Name); err != nil {
				t.Fatal(err)
			}
		},
		"its manifest": func(t *testing.T, b *side, ms []snapshot.Manifest) { flip(t, b.Store, "snapshots/"+ms[2].Name+".json") },
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			ms := fill(t, archive.New(a.Store), "full 100", "delta 101-110", "delta 111-120")
			r := start(t.Context(), handOver("b", a.Store, b.Store))
			<-time.After(time.Minute)
			if got := listed(t, b.Store); got != names(ms) {
				t.Fatalf("%s: copied ahead are %s", what, got)
			}
			damage(t, b, ms)
			a.report(syncobject.Fenced)
			if err := a.publish(ms...); err != nil {
				t.Fatal(err)
			}
			out := r.wait(t)
			handedOver(t, a, b, out)
			if out.Snapshots != 3 || out.Lossy {
				t.Errorf("%s: %+v", what, out)
			}
		})
	}
}

func TestDamagedSetIsNeverCommitted(t *testing.T) {
	for what, damage := range map[string]func(t *testing.T, a *side, ms []snapshot.Manifest) syncobject.Set{
		"one bit of the source": func(t *testing.T, a *side, ms []snapshot.Manifest) syncobject.Set {
			flip(t, a.Store, "snapshots/"+ms[1].Name)
			return setOf(ms...)
		},
		"another digest is named": func(_ *testing.T, _ *side, ms []snapshot.Manifest) syncobject.Set {
			set := setOf(ms...)
			set.Items[1].SHA256 = strings.Repeat("0", 64)
			return set
		},
		"one is missing in the middle": func(_ *testing.T, _ *side, ms []snapshot.Manifest) syncobject.Set {
			return setOf(ms[0], ms[2])
		},
		"it is named further than it reaches": func(_ *testing.T, _ *side, ms []snapshot.Manifest) syncobject.Set {
			set := setOf(ms...)
			set.ThroughRevision++
			return set
		},
		"one is of another lineage": func(t *testing.T, a *side, ms []snapshot.Manifest) syncobject.Set {
			m := described(t, 9, "delta 121-130 of foreign")
			m, err := archive.New(a.Store).Save(t.Context(), m, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			return setOf(append(ms, m)...)
		},
		"none is named": func(*testing.T, *side, []snapshot.Manifest) syncobject.Set { return syncobject.Set{} },
		"one was removed": func(t *testing.T, a *side, ms []snapshot.Manifest) syncobject.Set {
			if err := archive.New(a.Store).Remove(t.Context(), ms[2]); err != nil {
				t.Fatal(err)
			}
			return setOf(ms...)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			ms := fill(t, archive.New(a.Store), "full 100", "delta 101-110", "delta 111-120")
			a.initiate()
			a.report(syncobject.Fenced)
			set := damage(t, a, ms)
			a.must(func(o syncobject.Object) (syncobject.Object, error) {
				if len(set.Items) == 0 { // as others do
					o.Status = syncobject.Ready
					return o, nil
				}
				return o.Publish(1, a.me, set, time.Now())
			})
			began := time.Now()
			_, err := handOver("b", a.Store, b.Store).Run(t.Context())
			if !errors.Is(err, archive.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
			if time.Since(began) < 15*time.Second {
				t.Errorf("%s: given up after %v without trying again", what, time.Since(began))
			}
			if o := a.read(); o.Status != syncobject.Ready || !o.Pending() {
				t.Errorf("%s: %+v", what, o)
			}
			if _, err := b.adoptions().Current(); !errors.Is(err, archive.ErrAdopting) {
				t.Errorf("%s: a restore would be allowed: %v", what, err)
			}
		})
	}
}

func TestForcePassesByWhatIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		ms := fill(t, archive.New(a.Store), everyday...)
		flip(t, a.Store, "snapshots/"+ms[6].Name) // delta 141-150
		flip(t, a.Store, "snapshots/"+ms[4].Name) // full 130
		out := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		ad := handedOver(t, a, b, out)
		if out.ThroughRevision != 140 || len(ad.Items) != 5 {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestForceWithNothingToRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		_, err := handOver("b", a.Store, b.Store).Run(t.Context())
		if !errors.Is(err, snapshot.ErrNothing) || a.read().Status != syncobject.Initial {
			t.Errorf("got %v", err)
		}
	})
}

func TestForeignLineageIsNotForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), "full 100", "delta 101-110", "full 500 of foreign", "delta 501-510 of foreign")
		out := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		ad := handedOver(t, a, b, out)
		if out.ThroughRevision != 110 || ad.SourceOwner.Lineage != "a" {
			t.Errorf("outcome %+v", out)
		}
		if got := listed(t, b.Store); strings.Contains(got, "foreign") {
			t.Errorf("copied are %s", got)
		}
	})
}

// The history goes from one container to the other and back; nothing is deleted,
// and each time only what the last owner has stored is handed over.
func TestBackAndForth(t *testing.T) {
	for _, same := range []bool{true, false} { // the same two owner ids, or new ones each time
		synctest.Test(t, func(t *testing.T) {
			here, there := newSide(t, mem.New(), "a", "a"), newSide(t, mem.New(), "", "")
			here.held()
			fill(t, archive.New(here.Store), everyday...)
			revision := int64(150)
			var previous []syncobject.Holder
			for round := range 6 {
				id := string(rune('a' + (round+1)%2))
				if !same {
					id = fmt.Sprintf("owner-%d", round)
				}
				forced := round == 3
				r := start(t.Context(), handOver(id, here.Store, there.Store))
				<-time.After(time.Minute)
				if !forced {
					revision += 100
					here.answer(revision)
				}
				out := r.wait(t)
				ad := handedOver(t, here, there, out)
				if out.Lossy != forced || out.ThroughRevision != revision || ad.SourceOwner.ID != here.me.ID || ad.SourceOwner.Lineage != here.me.Lineage {
					t.Fatalf("round %d: revision %d, outcome %+v, adoption %+v", round, revision, out, ad)
				}
				if out.Epoch != int64(round+2) {
					t.Errorf("round %d: epoch %d", round, out.Epoch)
				}
				for _, h := range append(previous, here.me) {
					if same && h.ID != here.me.ID { // its container is the other one
						continue
					}
					if v := syncobject.Judge(new(here.read()), h.ID, 0); v != syncobject.Ceded {
						t.Errorf("round %d: %s is %v in the old container", round, h.ID, v)
					}
				}
				previous = append(previous, here.me)
				here, there = there, here
				here.me = syncobject.Holder{ID: out.Owner, Epoch: out.Epoch, Lineage: out.Lineage}
				if o, err := here.object.Read(t.Context()); err == nil && syncobject.Judge(&o, out.Owner, 0) != syncobject.Own {
					t.Errorf("round %d: the new owner is not: %+v", round, o)
				}
				// The new owner serves, and stores.
				here.held()
				m := snapshot.Manifest{
					Kind: snapshot.Full, First: revision, Last: revision, Time: time.Now().Truncate(time.Second).UTC(),
					Lineage: here.me.Lineage, ClusterID: "c" + out.Lineage, Epoch: out.Epoch,
				}
				if _, err := archive.New(here.Store).Save(t.Context(), m, strings.NewReader("own")); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// An owner that never stored anything hands on what it was handed, and that it
// came with losses.
func TestHandedOnUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		fill(t, archive.New(a.Store), everyday...)
		start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
		c := newSide(t, mem.New(), "c", "")
		out := start(t.Context(), handOver("c", b.Store, c.Store)).wait(t)
		ad := handedOver(t, b, c, out)
		if out.WaitedSeconds > 60 || out.Forced || !ad.Lossy || out.ThroughRevision != 150 || out.Epoch != 3 || !errors.Is(out.Err(), copier.ErrLossy) {
			t.Errorf("outcome %+v", out)
		}
	})
}
