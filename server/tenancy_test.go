package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const (
	lineageLocated = "11111111-1111-4111-8111-111111111111" // as fakeBackup says
	lineageBefore  = "22222222-2222-4222-8222-222222222222"
	lineageHanded  = "55555555-5555-4555-8555-555555555555"
)

// tenancy reads owner.json past all faults, after change as somebody else.
func (w *world) tenancy(change func(syncobject.Owner) (syncobject.Owner, error)) syncobject.Owner {
	w.t.Helper()
	o, _, err := syncobject.NewOwnerFile(w.store).Update(w.t.Context(), func(o syncobject.Owner) (syncobject.Owner, error) {
		if change == nil {
			return o, nil
		}
		return change(o)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// A destination may skip its wait if it reads Released after its claim: so who wakes
// up says Held before it looks whether there is a claim.
func TestOwnerHoldsBeforeItReads(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.startCut()
		var mu sync.Mutex
		var calls []string
		w.faults.set(func(c storetest.Call) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, string(c.Op)+" "+c.Name)
			return storetest.Fault{}
		})
		w.serving()
		mu.Lock()
		defer mu.Unlock()
		held, read := slices.Index(calls, "swap "+syncobject.OwnerName), slices.Index(calls, "read "+syncobject.ObjectName)
		if held < 0 || read < held {
			t.Errorf("the calls were %q", calls)
		}
	})
}

func TestOwnerDoesNotStayReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		first := w.tenancy(nil)
		sleep(t.Context(), time.Minute)
		w.tenancy(func(o syncobject.Owner) (syncobject.Owner, error) { return o.Release(o) }) //nolint:gocritic // the same is not shorter
		sleep(t.Context(), w.Timing.Heartbeat+2*w.Timing.Poll)
		if o := w.tenancy(nil); o.State != syncobject.Held || w.Status().Role != Owner {
			t.Errorf("role %s, owner.json %+v", w.Status().Role, o)
		}
		w.crash()
		w.start()
		w.serving()
		if o := w.tenancy(nil); o.Instance == first.Instance {
			t.Error("a new life has not written owner.json, so a Release of the one before would still be valid")
		}
		_, err := w.tenancy(nil).Release(first)
		if !errors.Is(err, syncobject.ErrConflict) {
			t.Errorf("a Release of the life before: %v", err)
		}
	})
}

func TestSecondServerOfAnOwnerIsLogged(t *testing.T) {
	for _, members := range []int{1, 3} {
		inWorld(t, func(t *testing.T, w *world) {
			var log lines
			w.configure = func(e *Election) { e.Log = slog.New(slog.NewTextHandler(&log, nil)) }
			w.member.members = members
			w.start()
			w.serving()
			sleep(t.Context(), 10*time.Minute)
			before := log.with("another server")
			w.tenancy(func(o syncobject.Owner) (syncobject.Owner, error) {
				o.Instance = "another"
				return o, nil
			})
			sleep(t.Context(), w.Timing.Heartbeat+2*w.Timing.Poll)
			after := log.with("another server")
			if before != 0 || (after > 0) != (members == 1) || w.Ready(t.Context()) != nil {
				t.Errorf("%d members: logged %d times before and %d after, ready %v", members, before, after, w.Ready(t.Context()))
			}
			if o := w.tenancy(nil); o.Instance != "another" {
				t.Errorf("owner.json %+v", o)
			}
		})
	}
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// with counts the lines that contain part.
func (l *lines) with(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), part)
}

// A lineage that is found after the container was read is no other history: a
// restart goes on with it, and hands it over, wherever the note of it was cut off.
func TestRenamedHistoryIsNotStale(t *testing.T) {
	for name, cutOff := range map[string]bool{"noted": false, "not noted": true} {
		for _, pending := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.configure = func(e *Election) {
						e.Prepare = func(_ context.Context, _ syncobject.Holder, have string) (string, error) { return have, nil }
					}
					w.tenancy(func(o syncobject.Owner) (syncobject.Owner, error) {
						return o.Hold(syncobject.Owner{ID: "a", Epoch: 1, Lineage: lineageBefore, Lease: syncobject.Seconds(time.Minute)})
					})
					w.start()
					w.wait(Owner)
					if cutOff {
						w.faults.set(cut)
					}
					w.serving()
					sleep(t.Context(), 2*w.Timing.Tick)
					o, have := w.tenancy(nil), w.memory.get().Lineage
					if want := map[bool]string{true: lineageBefore, false: lineageLocated}[cutOff]; o.Lineage != want {
						t.Fatalf("owner.json has lineage %q", o.Lineage)
					}
					if have == lineageLocated && o.Lineage != have {
						t.Error("what is remembered is ahead of owner.json")
					}
					w.crash()
					if pending {
						w.change(claimed)
					}
					w.start()
					if pending {
						w.wait(Ceded)
						w.decidedBySource()
						return
					}
					w.wait(Owner)
					sleep(t.Context(), time.Minute)
					if n := w.member.seen().fences; n != 0 || w.Ready(t.Context()) != nil {
						t.Errorf("%d fences, ready %v", n, w.Ready(t.Context()))
					}
				})
			})
		}
	}
}

func TestServerThatStartsBeforeItsCopyHasSettled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		settled := make(chan struct{})
		var backed syncobject.Holder
		w.configure = func(e *Election) {
			e.ID = "b"
			e.Prepare = func(context.Context, syncobject.Holder, string) (string, error) {
				select {
				case <-settled:
					return lineageHanded, nil
				default:
					return "", archive.ErrAdopting
				}
			}
			backup := e.Backup
			e.Backup = func(h syncobject.Holder, located func(string)) Backup {
				backed = h
				return backup(h, located)
			}
		}
		w.start()
		sleep(t.Context(), time.Minute)
		w.tenancy(func(o syncobject.Owner) (syncobject.Owner, error) { // as copier.settle
			o.Epoch, o.Lineage = 5, lineageHanded
			return o, nil
		})
		close(settled)
		w.serving()
		if want := (syncobject.Holder{ID: "b", Epoch: 5, Lineage: lineageHanded}); backed.ID != want.ID || backed.Epoch != 5 || backed.Lineage != want.Lineage {
			t.Errorf("backed up as %+v, want %+v", backed, want)
		}
	})
}

// What owner.json promises binds a restart that cannot write another promise.
func TestPromiseBindsUntilOwnerJSONSaysOtherwise(t *testing.T) {
	for name, configure := range map[string]func(*Election){
		"a longer lease":       func(e *Election) { e.Timing.Lease = 30 * time.Minute },
		"no implicit fencing":  func(e *Election) { e.Implicit = false },
		"a longer kill budget": func(e *Election) { e.Timing.Kill = 2 * time.Minute },
		"a later watchdog":     func(e *Election) { e.Timing.Watchdog = 150 * time.Second },
		"no time for the lease": func(e *Election) {
			e.Timing.Lease, e.Timing.Watchdog = time.Hour, time.Hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start()
				w.serving()
				sleep(t.Context(), time.Minute)
				promised := w.tenancy(nil).Timing()
				bound, read := promised.Bound(), w.memory.get().Lease.Wall
				w.crash()
				w.cutOff, w.configure = true, configure
				restarted := time.Now()
				w.start()
				sleep(t.Context(), bound)
				w.shutNow()
				after := max(w.Timing.Kill, w.Timing.Watchdog) // it may take so long from now on
				late := w.member.seen().fencedAt.Add(after).Sub(read) - promised.Lease - max(promised.Kill, promised.Watchdog)
				if least := w.member.seen().fencedAt.Sub(restarted); late > w.Timing.Tick && least > w.Timing.Tick {
					t.Errorf("etcd may have run on for %v", late)
				}
				w.faults.set(nil)
				w.serving()
				if o := w.tenancy(nil); o.Lease.Duration() != w.Timing.Lease || o.ImplicitFencing != w.Implicit {
					t.Errorf("owner.json %+v", o)
				}
				w.faults.set(cut)
				sleep(t.Context(), w.Timing.Lease-time.Minute)
				if err := w.Watchdog(); err != nil {
					t.Errorf("within the new promise: %v", err)
				}
			})
		})
	}
}

func TestDataThatVanishesIsNotServedEmpty(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		prepared := 0
		w.configure = func(e *Election) {
			e.Prepare = func(context.Context, syncobject.Holder, string) (string, error) {
				prepared++
				w.member.set(func(m *fakeMember) { m.empty = false })
				return lineageLocated, nil
			}
		}
		w.start()
		w.serving()
		w.member.end()
		w.member.set(func(m *fakeMember) { m.empty = true })
		if err := w.admit(myself(t)); !errors.Is(err, errVanished) {
			t.Errorf("let in on nothing: %v", err)
		}
		if err := w.may(); err == nil {
			t.Error("the gate is open")
		}
		w.serving()
		if prepared != 2 || w.Ready(t.Context()) != nil {
			t.Errorf("prepared %d times, ready %v", prepared, w.Ready(t.Context()))
		}
	})
}
