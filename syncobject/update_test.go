package syncobject

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

func TestUpdateEnds(t *testing.T) {
	changed := storetest.Fault{Err: store.ErrChanged}
	broken := storetest.Fault{Err: errBroken}
	for name, c := range map[string]struct {
		plan      func(storetest.Call) storetest.Fault
		want      error
		not       error
		maxCalls  int // of reads and swaps together: no hot loop (row 28)
		maxMillis int64
	}{
		"reads fail": {always(storetest.Read, broken), errBroken, ErrAmbiguous, 11, 30_000},
		"swaps fail": {always(storetest.Swap, broken), ErrAmbiguous, ErrContended, 26, 60_000},
		"nothing works after the swap": {func(c storetest.Call) storetest.Fault {
			if c.Op == storetest.Swap || c.N > 1 {
				return broken
			}
			return storetest.Fault{}
		}, ErrAmbiguous, ErrContended, 26, 60_000},
		"never the right version": {always(storetest.Swap, changed), ErrAmbiguous, fs.ErrNotExist, 21, 60_000},
		"reads forbidden":         {always(storetest.Read, storetest.Fault{Err: fs.ErrPermission}), fs.ErrPermission, ErrAmbiguous, 1, 0},
		"swaps forbidden":         {always(storetest.Swap, storetest.Fault{Err: fs.ErrPermission}), fs.ErrPermission, ErrAmbiguous, 2, 0},
		"swap too large":          {always(storetest.Swap, storetest.Fault{Err: fs.ErrInvalid}), fs.ErrInvalid, ErrAmbiguous, 2, 0},
		"no container":            {always(storetest.Read, storetest.Fault{Err: store.ErrNoContainer}), store.ErrNoContainer, ErrAmbiguous, 1, 0},
		"forbidden after a time-out": {func(c storetest.Call) storetest.Fault {
			switch {
			case c.Op == storetest.Swap && c.N == 1:
				return broken
			case c.Op == storetest.Swap:
				return storetest.Fault{Err: fs.ErrPermission}
			}
			return storetest.Fault{}
		}, ErrAmbiguous, ErrContended, 5, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := storetest.NewFaulty(mem.New(), c.plan)
				start := time.Now()
				_, wrote, err := NewFile(s).Update(t.Context(), claimB)
				if !errors.Is(err, c.want) || errors.Is(err, c.not) || wrote {
					t.Errorf("%v, %v", wrote, err)
				}
				if calls := s.Calls(storetest.Read) + s.Calls(storetest.Swap); calls > c.maxCalls {
					t.Errorf("%d calls", calls)
				}
				if took := time.Since(start).Milliseconds(); took > c.maxMillis {
					t.Errorf("%d ms", took)
				}
			})
		})
	}
}

func always(op storetest.Op, f storetest.Fault) func(storetest.Call) storetest.Fault {
	return func(c storetest.Call) storetest.Fault {
		if c.Op == op {
			return f
		}
		return storetest.Fault{}
	}
}

// Others are faster every time: that is no doubt about what happened.
func TestUpdateContended(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		put(t, m, "claim b")
		beat := func() { put(t, m, "beat") }
		s := storetest.NewFaulty(m, always(storetest.Swap, storetest.Fault{Err: store.ErrChanged, Then: beat}))
		_, wrote, err := NewFile(s).Update(t.Context(), find("report a").doNow)
		if !errors.Is(err, ErrContended) || errors.Is(err, ErrAmbiguous) || wrote || s.Calls(storetest.Swap) != DefaultAttempts {
			t.Errorf("%v, %d swaps", err, s.Calls(storetest.Swap))
		}
	})
}

// The end of the caller's time is no answer, and is said to be none.
func TestUpdateCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cause := errors.New("stopping")
		for name, plan := range map[string]struct {
			fault     func(storetest.Call) storetest.Fault
			ambiguous bool
		}{
			"in the read":          {always(storetest.Read, storetest.Fault{Delay: time.Hour}), false},
			"in the swap":          {always(storetest.Swap, storetest.Fault{Delay: time.Hour}), true},
			"in the pause":         {always(storetest.Swap, storetest.Fault{Err: errBroken}), true},
			"in the pause to read": {always(storetest.Read, storetest.Fault{Err: errBroken}), false},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
			start := time.Now()
			_, wrote, err := NewFile(storetest.NewFaulty(mem.New(), plan.fault)).Update(ctx, claimB)
			if wrote || err == nil || errors.Is(err, ErrAmbiguous) != plan.ambiguous || time.Since(start) != 50*time.Millisecond {
				t.Errorf("%s: %v after %s", name, err, time.Since(start))
			}
		}
	})
}

func TestUpdateOfAVanishedObject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		f := NewFile(m)
		if _, _, err := f.Update(t.Context(), claimB); err != nil {
			t.Fatal(err)
		}
		if err := m.Remove(t.Context(), ObjectName); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Update(t.Context(), initiateA); !errors.Is(err, ErrVanished) {
			t.Errorf("%v", err)
		}
		if _, err := f.Read(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
	inBubble(t, func(t *testing.T) { // removed between the read and the swap (row 14: 404 on a swap)
		m := mem.New()
		put(t, m, "claim b")
		gone := storetest.Fault{Err: fs.ErrNotExist, Then: func() { m.Remove(t.Context(), ObjectName) }}
		s := storetest.NewFaulty(m, storetest.Script{storetest.Swap: {gone}}.Plan)
		_, wrote, err := NewFile(s).Update(t.Context(), find("report a").doNow)
		if !errors.Is(err, ErrVanished) || wrote || errors.Is(err, ErrAmbiguous) {
			t.Errorf("%v", err)
		}
	})
}

// GCS takes one write a second of one name.
func TestUpdatesKeepThePace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var times []time.Time
		s := storetest.NewFaulty(mem.New(), func(c storetest.Call) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if c.Op == storetest.Swap {
				times = append(times, time.Now())
			}
			if c.Op == storetest.Swap && c.N%2 == 0 {
				return storetest.Fault{Err: errBroken, Lost: true}
			}
			return storetest.Fault{}
		})
		f := NewFile(s)
		start := time.Now()
		for i, name := range []string{"claim b", "report a", "publish a", "note b", "commit b"} {
			if _, wrote, err := f.Update(t.Context(), find(name).doNow); err != nil || !wrote {
				t.Fatalf("%s: %v, %v", name, wrote, err)
			}
			if i == 0 && time.Since(start) != 0 {
				t.Error("the first has to wait")
			}
		}
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < DefaultPace {
				t.Errorf("write %d comes %s after the one before", i, gap)
			}
		}
		if len(times) != 5 || time.Since(start) > 8*time.Second {
			t.Errorf("%d swaps in %s", len(times), time.Since(start))
		}
	})
}

func TestUpdatesOfOneFileQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := storetest.NewFaulty(mem.New(), always(storetest.Swap, storetest.Fault{Delay: time.Second}))
		f := NewFile(s)
		var wg sync.WaitGroup
		var mu sync.Mutex
		written, ids := 0, map[string]bool{}
		for range 50 { // row 7
			wg.Go(func() {
				o, wrote, err := f.Update(t.Context(), initiateA)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if wrote {
					written++
				}
				ids[o.OperationID] = true
			})
		}
		wg.Wait()
		if written != 1 || len(ids) != 1 || s.Calls(storetest.Swap) != 1 {
			t.Errorf("%d created, %d operations, %d swaps", written, len(ids), s.Calls(storetest.Swap))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		hold := make(chan struct{})
		go f.Update(t.Context(), func(o Object) (Object, error) { <-hold; return o, nil })
		synctest.Wait()
		if _, _, err := f.Update(ctx, initiateA); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAmbiguous) {
			t.Error(err)
		}
		close(hold)
	})
}

// What cannot be written is not; what was there stays.
func TestUpdateThatIsTooLarge(t *testing.T) {
	m := mem.New()
	want := put(t, m, "claim b", "report a")
	_, wrote, err := NewFile(m).Update(t.Context(), func(o Object) (Object, error) {
		return o.Publish(o.Generation, srcA, longSet(400), t0)
	})
	if !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrAmbiguous) || wrote {
		t.Errorf("%v, %v", wrote, err)
	}
	if stored, err := NewFile(m).Read(t.Context()); err != nil || stored.WriteID != want.WriteID {
		t.Errorf("%v, %+v", err, stored)
	}
}

// A bare object gets what it lacks with the first write.
func TestUpdateOfABareObject(t *testing.T) {
	m := mem.New()
	if _, err := m.Swap(t.Context(), ObjectName, "", []byte(`{"status":"Initial","theirs":true}`)); err != nil {
		t.Fatal(err)
	}
	o, wrote, err := NewFile(m).Update(t.Context(), find("report a").doNow)
	if err != nil || !wrote || o.OperationID == "" || o.CreatedAt == "" || o.Serial != 1 || o.Owner.ID != "a" {
		t.Errorf("%v, %v, %+v", wrote, err, o)
	}
	wantUnknown(t, "bare", o, `"status":"Initial"`, `"theirs":true`)
}
