package syncobject

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

var errBroken = errors.New("503 slow down")

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func claimB(o Object) (Object, error)    { return o.Claim(Claim{ID: "b", Owner: srcA, At: t0}) }
func initiateA(o Object) (Object, error) { return o.Initiate(Request{Owner: srcA, At: t0}) }

// put stores an object and returns it as stored.
func put(t *testing.T, s store.Swapper, steps ...string) Object {
	t.Helper()
	f := NewFile(s)
	f.Pace = 0
	var o Object
	for _, name := range steps {
		var err error
		o, _, err = f.Update(t.Context(), func(o Object) (Object, error) { return find(name).do(o, o.Generation) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestFileReads(t *testing.T) {
	m := mem.New()
	f := NewFile(m)
	if _, err := f.Read(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	want := put(t, m, "claim b", "report a")
	if got, err := f.Read(t.Context()); err != nil || got.WriteID != want.WriteID || got.Source.Phase != Fenced {
		t.Errorf("%v, %+v", err, got)
	}
	for text, class := range map[string]error{"<html>": ErrMalformed, `{"status":"?"}`: ErrUnknown} {
		m := mem.New()
		if _, err := m.Create(t.Context(), ObjectName, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		o, err := NewFile(m).Read(t.Context())
		if !errors.Is(err, class) || errors.Is(err, fs.ErrNotExist) || !o.Absent() {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Only the store's word is a proof of absence, and one attempt is one.
func TestFileReadsOnce(t *testing.T) {
	for _, failure := range []error{fs.ErrPermission, store.ErrNoContainer, errBroken, context.DeadlineExceeded} {
		s := storetest.NewFaulty(mem.New(), func(storetest.Call) storetest.Fault { return storetest.Fault{Err: failure} })
		_, err := NewFile(s).Read(t.Context())
		if errors.Is(err, fs.ErrNotExist) || !errors.Is(err, failure) || s.Calls(storetest.Read) != 1 {
			t.Errorf("%v: %v after %d attempts", failure, err, s.Calls(storetest.Read))
		}
		if v := JudgeRead(Object{}, err, "a", 0); v != NoVerdict {
			t.Errorf("%v: %v", failure, v)
		}
	}
}

func TestUpdateStamps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		f := NewFile(m)
		first, wrote, err := f.Update(t.Context(), claimB)
		if err != nil || !wrote || first.Serial != 1 || len(first.WriteID) != 36 || first.OperationID == "" || first.SchemaVersion != 1 {
			t.Fatalf("%v, %v, %+v", wrote, err, first)
		}
		if first.UpdatedAt != At(time.Now()) || first.CreatedAt != At(t0) {
			t.Errorf("updated %s, created %s", first.UpdatedAt, first.CreatedAt)
		}
		second, _, err := f.Update(t.Context(), func(o Object) (Object, error) { return o.Note(1, "b", Copying) })
		if err != nil || second.Serial != 2 || second.WriteID == first.WriteID || second.OperationID != first.OperationID {
			t.Errorf("%v, %+v", err, second)
		}
		if stored, err := f.Read(t.Context()); err != nil || stored.WriteID != second.WriteID || stored.Destination.Phase != Copying {
			t.Errorf("%v, %+v", err, stored)
		}
	})
}

func TestUpdateThatChangesNothing(t *testing.T) {
	m := mem.New()
	want := put(t, m, "claim b")
	s := storetest.NewFaulty(m, storetest.Script{}.Plan)
	claimAgain := func(o Object) (Object, error) { return find("claim b").do(o, o.Generation) }
	got, wrote, err := NewFile(s).Update(t.Context(), claimAgain)
	if err != nil || wrote || got.WriteID != want.WriteID || s.Calls(storetest.Swap) != 0 {
		t.Errorf("%v, %v, %d swaps", wrote, err, s.Calls(storetest.Swap))
	}
	got, wrote, err = NewFile(mem.New()).Update(t.Context(), find("adopt b").doNow)
	if err != nil || wrote || !got.Absent() {
		t.Errorf("of nothing: %v, %v, %+v", wrote, err, got)
	}
}

func (s step) doNow(o Object) (Object, error) { return s.do(o, o.Generation) }

func TestUpdateThatIsRefused(t *testing.T) {
	m := mem.New()
	want := put(t, m, "claim b")
	got, wrote, err := NewFile(m).Update(t.Context(), find("claim c").doNow)
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Who != "b" || wrote || got.WriteID != want.WriteID || errors.Is(err, ErrAmbiguous) {
		t.Errorf("%v, %+v", err, got)
	}
}

// What can happen to the answer of a swap that succeeded, that did not, or that
// may have: the object is written once, and its writer knows it (row 13, 14).
func TestLostAnswers(t *testing.T) {
	for name, swaps := range map[string][]storetest.Fault{
		"lost":                            {{Err: errBroken, Lost: true}},
		"time-out after the fact":         {{Err: context.DeadlineExceeded, Lost: true}},
		"won, repeated by the client":     {{Err: store.ErrChanged, Lost: true}},
		"won, as create":                  {{Err: fs.ErrExist, Lost: true}},
		"won, as 404":                     {{Err: fs.ErrNotExist, Lost: true}},
		"not done":                        {{Err: errBroken}},
		"twice not done":                  {{Err: errBroken}, {Err: context.DeadlineExceeded}},
		"409, nobody else there":          {{Err: store.ErrChanged}},
		"not done, then lost":             {{Err: errBroken}, {Err: errBroken, Lost: true}},
		"hangs":                           {{Delay: time.Hour}},
		"hangs after the fact, for hours": {{Delay: DefaultTimeout / 2, Err: errBroken, Lost: true}},
	} {
		for _, before := range [][]string{nil, {"claim b", "force b", "reclaim"}} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					m := mem.New()
					old := put(t, m, before...)
					s := storetest.NewFaulty(m, storetest.Script{storetest.Swap: swaps}.Plan)
					start := time.Now()
					got, wrote, err := NewFile(s).Update(t.Context(), claimB)
					if err != nil || !wrote || time.Since(start) > time.Minute {
						t.Fatalf("%v, %v after %s", wrote, err, time.Since(start))
					}
					stored, err := NewFile(m).Read(t.Context())
					if err != nil || stored.WriteID != got.WriteID || stored.Serial != old.Serial+1 || stored.Generation != old.Generation+1 {
						t.Errorf("%v, %+v", err, stored)
					}
				})
			})
		}
	}
}

// Somebody else writes in between: the step is done on what he left.
func TestUpdateAfterSomebodyElse(t *testing.T) {
	for name, swap := range map[string]storetest.Fault{
		"changed": {Err: store.ErrChanged}, "exists": {Err: fs.ErrExist}, "not done": {Err: errBroken},
	} {
		for theirs, mine := range map[string]error{"initiate a": nil, "claim b": nil, "claim c": ErrConflict} {
			t.Run(name+"/"+theirs, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					m := mem.New()
					swap.Then = func() { put(t, m, theirs) }
					s := storetest.NewFaulty(m, storetest.Script{storetest.Swap: {swap}}.Plan)
					got, wrote, err := NewFile(s).Update(t.Context(), find("claim b").doNow)
					if !errors.Is(err, mine) || wrote != (theirs == "initiate a") || errors.Is(err, ErrAmbiguous) {
						t.Fatalf("%v, %v", wrote, err)
					}
					if stored, err := NewFile(m).Read(t.Context()); err != nil || stored.WriteID != got.WriteID {
						t.Errorf("%v, %+v is not %+v", err, stored, got)
					}
				})
			})
		}
	}
}

// My write was done, its answer lost, and somebody has gone on from it: then the
// step has nothing left to do.
func TestLostAnswerThenSomebodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		then := func() { put(t, m, "report a") }
		s := storetest.NewFaulty(m, storetest.Script{storetest.Swap: {{Err: errBroken, Lost: true, Then: then}}}.Plan)
		got, _, err := NewFile(s).Update(t.Context(), claimB)
		if err != nil || got.Destination.ID != "b" || got.Source.Phase != Fenced || got.Serial != 2 {
			t.Errorf("%v, %+v", err, got)
		}
	})
}

// A swap that timed out and arrives later than the next try cannot do harm: only
// one of them can win.
func TestLateSwap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		late := &lateStore{Store: m}
		got, wrote, err := NewFile(late).Update(t.Context(), claimB)
		if err != nil || !wrote || late.swaps != 2 || late.err == nil {
			t.Fatalf("%v, %v, %d swaps, the late one: %v", wrote, err, late.swaps, late.err)
		}
		if stored, err := NewFile(m).Read(t.Context()); err != nil || stored.WriteID != got.WriteID || stored.Serial != 1 {
			t.Errorf("%v, %+v", err, stored)
		}
	})
}

// lateStore does its first swap only after the second.
type lateStore struct {
	store.Store
	swaps int
	first func() error
	err   error
}

func (l *lateStore) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	l.swaps++
	if l.swaps == 1 {
		l.first = func() error {
			_, err := l.Store.Swap(context.WithoutCancel(ctx), name, old, data)
			return err
		}
		return "", context.DeadlineExceeded
	}
	v, err := l.Store.Swap(ctx, name, old, data)
	l.err = l.first()
	return v, err
}

// As above, but the late swap comes before the next one, and is recognised.
func TestLateSwapThatWins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		early := &earlyStore{lateStore{Store: m}}
		got, wrote, err := NewFile(early).Update(t.Context(), claimB)
		if err != nil || !wrote || early.swaps != 2 || early.err != nil {
			t.Fatalf("%v, %v, %d swaps, the late one: %v", wrote, err, early.swaps, early.err)
		}
		if stored, err := NewFile(m).Read(t.Context()); err != nil || stored.WriteID != got.WriteID || stored.Serial != 1 {
			t.Errorf("%v, %+v", err, stored)
		}
	})
}

// earlyStore does its first swap right before the second.
type earlyStore struct{ lateStore }

func (e *earlyStore) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	if e.swaps == 1 {
		e.swaps++
		e.err = e.first()
		return e.Store.Swap(ctx, name, old, data)
	}
	return e.lateStore.Swap(ctx, name, old, data)
}
