package copier_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// A run that is paused right before it commits, and goes on when its replacement
// has finished and the container has been handed on, changes nothing.
func TestPausedRunDoesNotTakeTheContainerBack(t *testing.T) {
	for _, at := range []string{"commit", "adopt"} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			b.must(handedAway) // so that there is an object to adopt
			a.held()
			from, to := &onSwap{Store: a.Store}, &onSwap{Store: b.Store}
			paused, resume := make(chan struct{}), make(chan struct{})
			where := map[string]*onSwap{"commit": from, "adopt": to}[at]
			where.before = func(o syncobject.Object) {
				if o.Status == syncobject.Done {
					where.before = nil
					close(paused)
					<-resume
				}
			}
			first := start(t.Context(), handOver("b", from, to))
			<-time.After(time.Minute)
			a.answer(160)
			<-paused
			out := start(t.Context(), handOver("b", a.Store, b.Store)).wait(t)
			b.me = syncobject.Holder{ID: "b", Epoch: out.Epoch, Lineage: out.Lineage}
			b.held()
			b.initiate()
			b.answer(500)
			c := newSide(t, mem.New(), "c", "")
			handedOn := start(t.Context(), handOver("c", b.Store, c.Store)).wait(t)
			before, tenancy := b.read(), must(b.tenancy.Read(t.Context()))
			close(resume)
			<-first.done
			if at == "commit" && (first.err != nil || !first.outcome.Before || first.outcome.Lineage != out.Lineage) {
				t.Errorf("%s: the paused run ends with %v, %+v", at, first.err, first.outcome)
			}
			if at == "adopt" && !errors.Is(first.err, syncobject.ErrConflict) {
				t.Errorf("%s: the paused run ends with %v", at, first.err)
			}
			if after := b.read(); after.Serial != before.Serial || after.Owner.ID != "c" || after.Owner.Epoch != handedOn.Epoch {
				t.Errorf("%s: %+v became %+v", at, before, after)
			}
			if after := must(b.tenancy.Read(t.Context())); after.Serial != tenancy.Serial {
				t.Errorf("%s: owner.json became %+v", at, after)
			}
		})
	}
}

// handedAway makes an object of a container whose owner has left it.
func handedAway(o syncobject.Object) (syncobject.Object, error) {
	o, err := o.Claim(syncobject.Claim{ID: "x", Owner: syncobject.Holder{ID: "b", Epoch: 1, Lineage: "b"}, At: time.Now()})
	if err == nil {
		o.Status = syncobject.Ready
		o, err = o.Commit(1, syncobject.Holder{ID: "x", Epoch: 2, Lineage: "x"})
	}
	return o, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What was taken back while nobody was there to see it must not keep the server
// out of what is handed over next.
func TestTakenBackWhileAway(t *testing.T) {
	for how, takeBack := range map[string]func(o syncobject.Object) (syncobject.Object, error){
		"aborted":   func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(o.Generation, "test", time.Now()) },
		"reclaimed": func(o syncobject.Object) (syncobject.Object, error) { return o.Reclaim(o.Generation, "test") },
	} {
		for _, restarted := range []bool{true, false} { // before --again is given
			synctest.Test(t, func(t *testing.T) {
				a, b := pair(t)
				a.held()
				if how == "reclaimed" {
					a.initiate()
					a.answer(150)
				}
				ctx, cancel := context.WithCancel(t.Context())
				from := &onSwap{Store: a.Store, before: func(o syncobject.Object) {
					if o.Status == syncobject.Done {
						cancel()
						<-ctx.Done()
						<-time.After(time.Hour) // the commit is not sent
					}
				}}
				if how == "aborted" {
					go func() { <-time.After(time.Minute); cancel() }()
				}
				r := start(ctx, handOver("b", from, b.Store))
				<-ctx.Done()
				a.must(takeBack)
				<-time.After(2 * time.Hour)
				<-r.done
				if how == "aborted" && b.adoptions()[0].Outcome != archive.AdoptionOpen {
					t.Fatalf("the run has seen it: %+v", b.adoptions())
				}
				if restarted {
					if _, err := handOver("b", a.Store, b.Store).Run(t.Context()); !errors.Is(err, copier.ErrReclaimed) {
						t.Errorf("%s: started again: %v", how, err)
					}
					if got := b.adoptions(); len(got) != 1 || got[0].Outcome != archive.AdoptionWithdrawn {
						t.Errorf("%s: started again: %+v", how, got)
					}
				}
				again := handOver("b", a.Store, b.Store)
				again.Again = true
				r = start(t.Context(), again)
				<-time.After(time.Minute)
				a.answer(260)
				handedOver(t, a, b, r.wait(t))
			})
		}
	}
}

// An open adoption of another container cannot be settled from here: nothing is
// claimed, since the server could not be let in.
func TestOpenAdoptionOfAnotherSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		other := archive.BegunAdoption{OperationID: "op", Generation: 1, Source: "elsewhere", Owner: "b", Time: time.Now()}
		if err := archive.New(b.Store).BeginAdoption(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		_, err := handOver("b", a.Store, b.Store).Run(t.Context())
		if !errors.Is(err, syncobject.ErrConflict) || !errors.Is(err, archive.ErrAdopting) {
			t.Errorf("got %v", err)
		}
		if _, err := a.object.Read(t.Context()); err == nil {
			t.Error("the source was claimed")
		}
	})
}

// An operation of a name that was used before would be taken for that one.
func TestOperationOfAUsedName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held()
		ask := func(name string) {
			a.must(func(o syncobject.Object) (syncobject.Object, error) {
				o.Past = nil // as another implementation leaves it
				return o.Initiate(syncobject.Request{OperationID: name, Owner: a.me, At: time.Now()})
			})
		}
		ask("tuesday")
		r := start(t.Context(), handOver("b", a.Store, b.Store))
		<-time.After(time.Minute)
		a.must(func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(1, "test", time.Now()) })
		<-r.done
		for _, name := range []string{"wednesday", "tuesday"} {
			ask(name)
			before := a.read()
			if name == "tuesday" {
				again := handOver("b", a.Store, b.Store)
				again.Again = true
				_, err := again.Run(t.Context())
				if !errors.Is(err, syncobject.ErrConflict) || !strings.Contains(err.Error(), "another name") {
					t.Errorf("got %v", err)
				}
			}
			if o := a.read(); o.Serial != before.Serial {
				t.Errorf("it was claimed: %+v", o)
			}
			a.must(func(o syncobject.Object) (syncobject.Object, error) { return o.Abort(o.Generation, "test", time.Now()) })
		}
	})
}

// marking is a store in which a server is let in just before something is created.
type marking struct {
	store.Store
	letIn func(name string)
}

func (s *marking) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	s.letIn(name)
	return s.Store.Create(ctx, name, r)
}

// A server that found its container empty, and was let in before it could see that
// a copy begins, has a history of its own: the copy takes its claim back.
func TestServerThatWasLetInMeanwhile(t *testing.T) {
	for _, decided := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t)
			a.held()
			a.initiate()
			if decided {
				a.answer(160)
			}
			to := &marking{Store: b.Store, letIn: func(name string) {
				if !strings.HasSuffix(name, "begun.json") {
					return
				}
				b.held()
				err := archive.New(b.Store).MarkServing(t.Context(), archive.Serving{
					OperationID: archive.FirstHistory, Member: "default", Owner: "b", Time: time.Now(),
				})
				if err != nil {
					t.Error(err)
				}
			}}
			_, err := handOver("b", a.Store, to).Run(t.Context())
			if !errors.Is(err, syncobject.ErrConflict) || !strings.Contains(err.Error(), "a history of its own") {
				t.Errorf("decided %v: %v", decided, err)
			}
			o := a.read()
			if decided && (o.Status != syncobject.Ready || !o.Pending() || !strings.Contains(err.Error(), "reclaim")) {
				t.Errorf("decided: %+v, %v", o, err)
			}
			if !decided && (o.Outcome != syncobject.Aborted || b.adoptions()[0].Outcome != archive.AdoptionWithdrawn) {
				t.Errorf("undecided: %+v, %+v", o, b.adoptions())
			}
		})
	}
}
