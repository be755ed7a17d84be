package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const (
	// probeReads bounds the probe of the store, in read timeouts: it makes about
	// as many calls.
	probeReads = 12
	// cededPolls is how many poll periods lie between two reads when there is
	// nothing to lose.
	cededPolls = 3
	// frozenPolls is how many reads there are in a poll period while etcd refuses
	// writes, and answers reads until the decision is seen.
	frozenPolls = 10
)

// state is a state of HANDOVER §8. It returns the next one when it is left, nil
// when ctx has ended.
type state func(ctx context.Context) state

// Begin remembers what was before, finds out whether a fence would be permitted,
// and restores the fence if there was one. It comes before anything listens.
//
// It takes the state dir, if that is its Memory, until Run ends, and is refused if
// another process has it.
func (e *Election) Begin(ctx context.Context) error {
	if err := errors.Join(e.Timing.Check(), os.MkdirAll(e.StateDir, 0o700)); err != nil {
		return err
	}
	if e.Memory == nil {
		lock, err := lockDir(e.StateDir)
		if err != nil {
			return err
		}
		e.inUse = lock
	}
	if err := e.begin(ctx); err != nil {
		return errors.Join(err, e.inUse.release())
	}
	return nil
}

// begin is Begin with the state dir locked.
func (e *Election) begin(ctx context.Context) error {
	if err := errors.Join(datadir.Sweep(filepath.Join(e.StateDir, WorkFolder)), removeTemps(e.StateDir)); err != nil {
		return fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	if e.memory.kept = e.Memory; e.Memory == nil {
		e.memory.kept = stateFile(filepath.Join(e.StateDir, "election.json"))
	}
	if err := e.memory.load(); err != nil {
		return err
	}
	boot, err := e.Boot()
	if err != nil {
		return err
	}
	e.object.Pace, e.late.Recipients = e.Pace, e.archive.Recipients
	e.object.Rand, e.tenancy.Rand, e.retry.Rand = e.Rand, e.Rand, e.Rand
	e.lease.clock, e.instance = e.Clock, uuid.NewString()
	if e.memory.get().BootID != boot { // times and processes of another run mean nothing
		err := e.memory.update(func(p *persisted) { p.BootID, p.Lease, p.Gates = boot, instant{}, nil })
		if err != nil {
			return err
		}
	}
	p := e.memory.get()
	e.bind(p.Promise)
	e.lease.renew(p.Lease)
	e.gates, e.members, e.id = p.Gates, p.Members, p.Member
	if err := e.member.Probe(fence.Process{}); err != nil {
		return fmt.Errorf("owner election is refused: %w", err)
	}
	if p.Fenced {
		e.Log.Info("etcd was fenced when this process ended, and is again")
		return e.member.Fence(ctx, p.Gates)
	}
	return nil
}

// Run is the source of a hand-over until ctx ends; then it releases the container
// if etcd ends too. Begin comes before. The error says why this deployment cannot
// take part in an election.
func (e *Election) Run(ctx context.Context) error {
	defer func() { _ = e.inUse.release() }() // nobody is left who remembers anything
	ticker := time.NewTicker(e.Timing.Tick)
	defer ticker.Stop()
	e.ticks = ticker.C
	g, ctx := errgroup.WithContext(ctx)
	polling, stop := context.WithCancel(ctx)
	g.Go(func() error { return e.poll(polling) })
	g.Go(func() error {
		defer stop()
		for s := e.unknown(); s != nil; {
			s = s(ctx)
		}
		e.endBackup()
		return nil
	})
	return g.Wait()
}

// poll reads the sync object every period ± 10 %, and whenever it is asked to,
// until ctx ends. The error says that the store cannot be relied on.
func (e *Election) poll(ctx context.Context) error {
	for ctx.Err() == nil {
		switch r := e.look(ctx); {
		case errors.Is(r.err, store.ErrUnfit):
			return fmt.Errorf("owner election is refused: %w", r.err)
		case r.err == nil:
			e.confirm(ctx)
		}
		e.pause(ctx)
	}
	return nil
}

// pause waits for the next read.
func (e *Election) pause(ctx context.Context) {
	period := e.Timing.Poll
	e.mu.Lock()
	switch {
	case e.role == Ceded:
		period *= cededPolls
	case e.frozen:
		period /= frozenPolls
	}
	e.mu.Unlock()
	t := time.NewTimer(period*9/10 + time.Duration(e.Rand()*float64(period/5)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.kick:
	case <-ctx.Done():
	}
}

// prove makes sure, once, that the store can be relied on. The caller holds
// asking.
func (e *Election) prove(ctx context.Context) error {
	if e.proven {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeReads*e.Timing.Read)
	defer cancel()
	report, err := store.Probe(ctx, e.store)
	if report.Left != nil {
		e.Log.Warn("the object that the store was probed with cannot be removed", "object", report.Object, "error", report.Left)
	}
	if e.proven = err == nil; e.proven {
		return e.memory.update(func(p *persisted) { p.Proven = e.store.String() })
	}
	if errors.Is(err, fs.ErrPermission) && e.memory.get().Proven == e.store.String() {
		// It was fit: what is refused now is about the credentials, and passes.
		return fmt.Errorf("the store refuses what it permitted before: %w: %s", fs.ErrPermission, err.Error())
	}
	return err
}

// askNow has poll read before its time.
func (e *Election) askNow() {
	select {
	case e.kick <- struct{}{}:
	default: // asked for already
	}
}

// event is what a state waits for.
type event struct {
	reading reading
	read    bool // there is a reading
	done    bool // the work is done, with err
	err     error
}

// next waits for the next event; the end of ctx is one, without anything in it.
func (e *Election) next(ctx context.Context, work <-chan error) event {
	select {
	case r := <-e.readings:
		e.learn(r)
		return event{reading: r, read: r.verdict != syncobject.NoVerdict}
	case <-e.ticks:
		e.Metrics.lease(e.lease.remaining())
		return event{}
	case err := <-work:
		return event{done: true, err: err}
	case <-ctx.Done():
		return event{}
	}
}

// learn remembers how far the sync object has come, before anything follows
// from it.
func (e *Election) learn(r reading) {
	if r.object == nil {
		return
	}
	e.Metrics.object(*r.object)
	err := e.memory.update(func(p *persisted) { p.Generation = max(p.Generation, r.object.Generation) })
	if err != nil {
		e.Log.Error("the state of the election cannot be written", "error", err)
	}
}

// during does work until it is done, or watch, which is called for every event,
// says where to go instead. Then, and when ctx ends, work is told by its context
// to stop, and is waited for. Next is nil if it was done or ctx has ended.
func (e *Election) during(ctx context.Context, work func(context.Context) error, watch func(event) state) (next state, err error) {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan error, 1)
	go func() { done <- work(working) }()
	for {
		ev := e.next(ctx, done)
		switch {
		case ev.done:
			return nil, ev.err
		case ctx.Err() != nil:
			return nil, <-done
		}
		if s := watch(ev); s != nil {
			stop(ErrNotOwner)
			if err := <-done; err != nil {
				e.Log.Debug("what was under way has stopped", "error", err)
			}
			return s, nil
		}
	}
}

// enter makes role known, in which etcd may not serve, and why.
func (e *Election) enter(role Role, reason error) { e.become(role, reason, false) }

// become is enter for an etcd that may run on if frozen.
func (e *Election) become(role Role, reason error, frozen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.role != role {
		e.Log.Info("role", "role", role, "before", e.role, "reason", reason)
	}
	if frozen && !e.frozen {
		e.askNow() // and soon again, see pause
	}
	e.role, e.reason, e.open, e.frozen = role, reason, false, frozen
	e.Metrics.role(role)
	e.broadcast()
}

// broadcast wakes those who wait for a change. The caller holds mu.
func (e *Election) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// follow returns the state that a reading leads to.
func (e *Election) follow(r reading) state {
	switch r.verdict {
	case syncobject.Own:
		return e.owner(r)
	case syncobject.HandOver:
		if e.Status().Members > 1 {
			return e.freezing(r)
		}
		return e.fencing(r)
	default:
		return e.ceded(r)
	}
}
