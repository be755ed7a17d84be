package syncobject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// A badStore delays and fails calls at random, before or after the fact, also
// with the answer of a client that repeats what it has done already.
func badStore(m *mem.Store, seed uint64) *storetest.Faulty {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	return storetest.NewFaulty(m, func(c storetest.Call) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		f := storetest.Fault{Delay: time.Duration(r.IntN(5)) * time.Millisecond}
		if r.IntN(3) == 0 {
			f.Err, f.Lost = errBroken, r.IntN(2) == 0
		}
		if c.Op == storetest.Swap && f.Err != nil && r.IntN(3) == 0 {
			f.Err = store.ErrChanged
		}
		return f
	})
}

func fileOn(m *mem.Store, seed uint64) *File[Object] {
	f := NewFile(badStore(m, seed))
	f.Attempts = 60 // one call in three fails: this is never too few
	return f
}

// settle is Update, which with these many attempts knows what has happened.
func settle(t *testing.T, f *File[Object], do func(Object) (Object, error)) (Object, error) {
	t.Helper()
	o, _, err := f.Update(t.Context(), do)
	var refusal *Refusal
	if err != nil && !errors.As(err, &refusal) {
		t.Errorf("neither done nor refused: %v", err)
	}
	return o, err
}

// Row 12: the source publishes and the destination forces at the same instant.
// Exactly one decides, and both find out who, and what is handed over.
func TestPublishAgainstForce(t *testing.T) {
	won := map[Party]int{}
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(1000) {
			m := mem.New()
			put(t, m, "claim b", "report a")
			var source, destination Object
			var refused [2]error
			var wg sync.WaitGroup
			wg.Go(func() { source, refused[0] = settle(t, fileOn(m, 2*seed), find("publish a").doNow) })
			wg.Go(func() { destination, refused[1] = settle(t, fileOn(m, 2*seed+1), find("force b").doNow) })
			wg.Wait()
			stored, err := NewFile(m).Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			by, right := stored.Decision.By, errors.Is(refused[0], ErrDecided) && refused[1] == nil
			if by == Source {
				right = refused[0] == nil && errors.Is(refused[1], ErrDecided)
			}
			if !right || stored.Serial != 3 || source.WriteID != stored.WriteID || destination.WriteID != stored.WriteID {
				t.Fatalf("seed %d, decided by %q: %v\n%+v", seed, by, refused, stored)
			}
			if want := map[Party]int64{Source: 100, Destination: 90}[by]; stored.Snapshots.ThroughRevision != want {
				t.Fatalf("seed %d: %+v", seed, stored.Snapshots)
			}
			won[by]++
		}
	})
	if won[Source] < 100 || won[Destination] < 100 {
		t.Errorf("one of them hardly ever wins: %v", won)
	}
}

// Row 17: an operator reclaims and the destination commits at the same instant.
func TestReclaimAgainstCommit(t *testing.T) {
	won := map[Outcome]int{}
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(500) {
			m := mem.New()
			put(t, m, "claim b", "report a", "publish a")
			var reclaimed, committed error
			var wg sync.WaitGroup
			wg.Go(func() { _, reclaimed = settle(t, fileOn(m, 2*seed), find("reclaim").doNow) })
			wg.Go(func() { _, committed = settle(t, fileOn(m, 2*seed+1), find("commit b").doNow) })
			wg.Wait()
			stored, err := NewFile(m).Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			right := reclaimed == nil && errors.Is(committed, ErrReclaimed) && Judge(&stored, "a", 1) == Own
			if stored.Outcome == Completed {
				right = committed == nil && errors.Is(reclaimed, ErrDecided) && Judge(&stored, "a", 1) == Ceded
			}
			if !right || stored.Pending() {
				t.Fatalf("seed %d: reclaim %v, commit %v\n%+v", seed, reclaimed, committed, stored)
			}
			won[stored.Outcome]++
		}
	})
	if won[Completed] < 50 || won[Aborted] < 50 {
		t.Errorf("one of them hardly ever wins: %v", won)
	}
}

// Row 15: several destinations claim an absent object. One has it, the others
// learn its id.
func TestClaimsOfMany(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(100) {
			m := mem.New()
			claimants := [5]Object{}
			errs := [5]error{}
			var wg sync.WaitGroup
			for i := range claimants {
				wg.Go(func() {
					claim := Claim{ID: fmt.Sprint("destination-", i), Owner: srcA, At: t0}
					claimants[i], errs[i] = settle(t, fileOn(m, 5*seed+uint64(i)), func(o Object) (Object, error) { return o.Claim(claim) })
				})
			}
			wg.Wait()
			stored, err := NewFile(m).Read(t.Context())
			if err != nil || stored.Serial != 1 {
				t.Fatalf("%v, %+v", err, stored)
			}
			for i, err := range errs {
				mine := stored.Destination.ID == fmt.Sprint("destination-", i)
				var refusal *Refusal
				if mine != (err == nil) || !mine && (!errors.As(err, &refusal) || refusal.Who != stored.Destination.ID) {
					t.Fatalf("seed %d, %d: %v, claimed by %s", seed, i, err, stored.Destination.ID)
				}
			}
		}
	})
}

// Two writers who do not exclude each other lose no write of the other, and the
// serial counts them all.
func TestTwoWriters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for seed := range uint64(20) {
			m := mem.New()
			put(t, m, "claim b")
			const each = 10
			var wg sync.WaitGroup
			for writer := range 2 {
				f := fileOn(m, 2*seed+uint64(writer))
				wg.Go(func() {
					for i := range each {
						member := fmt.Sprintf("%d-%d", writer, i)
						settle(t, f, func(o Object) (Object, error) { return o.Report(1, srcA, SourceReport{Member: member}) })
					}
				})
			}
			wg.Wait()
			stored, err := NewFile(m).Read(t.Context())
			if err != nil || stored.Serial != 1+2*each || len(stored.Source.FencedMembers) != 2*each {
				t.Fatalf("seed %d: %v, serial %d, %v", seed, err, stored.Serial, stored.Source.FencedMembers)
			}
		}
	})
}
