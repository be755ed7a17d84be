package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

var (
	errHandedHere = errors.New("the container was handed over to here meanwhile")
	errVanished   = errors.New("what was in the data dir is gone")
	errNotRead    = errors.New("it is not known yet who is the owner")
	errLeaseOver  = errors.New("the lease is over: the store has not been read for too long")
)

// shut says why etcd may not serve; nil: it may. The caller holds mu.
func (e *Election) shut() error {
	switch {
	case !e.open:
		return e.reason
	case e.over():
		return errLeaseOver
	default:
		return nil
	}
}

// may is shut for those who do not hold mu.
func (e *Election) may() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shut()
}

// freshPause is the least time between two reads that are made for Fresh.
const freshPause = time.Second

// Fresh returns the Status with a read of the sync object that has begun since the
// call. All who wait share the next read, so however many ask, and hang up, the store
// is asked about once in freshPause. The error is that of the read.
func (e *Election) Fresh(ctx context.Context) (Status, error) {
	called := e.Clock.Boot()
	for {
		e.mu.Lock()
		changed, asked, answered, err := e.changed, e.asked, e.answered, e.lastErr
		e.mu.Unlock()
		var due <-chan time.Time
		switch wait := asked + freshPause - e.Clock.Boot(); {
		case answered >= called:
			return e.Status(), err
		case asked >= called: // it is on its way
		case wait > 0:
			due = time.After(wait)
		default:
			e.askNow()
		}
		select {
		case <-changed:
		case <-due:
		case <-ctx.Done():
			s, err := e.Status(), fmt.Errorf("the store has not answered yet: %w", context.Cause(ctx))
			s.LastError = err.Error()
			return s, err
		}
	}
}

// Allowed waits until etcd may be started by the gate that asks, remembers that
// gate so that it can be ended whatever it does next, and returns nil. If ctx
// ends before, the error says why etcd may not start, for people.
func (e *Election) Allowed(ctx context.Context, gate fence.Process) error {
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		err := e.admit(gate)
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}

// admit is Allowed without waiting. A fence that begins at any moment either
// closes the gate before the answer, or finds the gate among those to be ended.
func (e *Election) admit(gate fence.Process) error {
	if err := e.may(); err != nil {
		return err
	}
	if err := e.vanished(); err != nil {
		e.doubt(err)
		return err
	}
	if alive, err := gate.Alive(); err != nil || !alive {
		return fmt.Errorf("there is no process %d that started at %d: "+
			"let the containers share the process namespace (shareProcessNamespace: true)", gate.PID, gate.Start)
	}
	if err := e.member.Probe(gate); err != nil {
		return err
	}
	e.mu.Lock()
	e.gates = slices.DeleteFunc(e.gates, func(g fence.Process) bool { alive, err := g.Alive(); return err == nil && !alive })
	if !slices.Contains(e.gates, gate) {
		e.gates = append(e.gates, gate)
	}
	gates := slices.Clone(e.gates)
	e.mu.Unlock()
	if err := e.memory.update(func(p *persisted) { p.Gates = gates }); err != nil {
		return err
	}
	return e.may() // the disk may have taken its time
}

// vanished says so if etcd would begin with nothing where there was something.
func (e *Election) vanished() error {
	running, err := e.member.Running()
	if err != nil || running {
		return err
	}
	empty, err := e.member.Empty()
	if err != nil {
		return fmt.Errorf("look at the data dir: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if empty && e.filled {
		return errVanished
	}
	e.filled = !empty
	return nil
}

// Watchdog returns nil unless an etcd runs, or may start, that must not, which is what the
// liveness probe of etcd's container asks (HANDOVER §4).
func (e *Election) Watchdog() error {
	e.mu.Lock()
	why := e.shut()
	// What ran before a restart of this process may go on with the lease.
	undecided := e.role == Unknown || e.role == Owner
	tolerated := e.tolerates() || undecided && !e.over()
	e.mu.Unlock()
	if why == nil || tolerated {
		return nil
	}
	running, err := e.member.Running()
	if err != nil {
		return fmt.Errorf("whether etcd runs cannot be told: %w", err)
	}
	if running {
		return fmt.Errorf("etcd runs and must not: %w", why)
	}
	for _, gate := range e.passed() { // what is below it may come to its etcd at any time
		alive, err := gate.Alive()
		if err != nil {
			return fmt.Errorf("whether a gate that has passed has ended cannot be told: %w", err)
		}
		if alive {
			return fmt.Errorf("process %d was let pass, has not ended, and must not start etcd: %w", gate.PID, why)
		}
	}
	return nil
}

// Ready returns nil if clients may use etcd: this deployment is the owner, its
// lease is valid, and etcd answers.
func (e *Election) Ready(ctx context.Context) error {
	if err := e.may(); err != nil {
		return err
	}
	if err := e.member.Healthy(ctx); err != nil {
		return err
	}
	return e.may() // etcd may have taken its time
}

// Initiate wants a hand-over of this container, durably. The operation's id may
// be empty. Created is false if it was pending already. Errors: ErrNotOwner,
// *syncobject.Refusal (409), syncobject.ErrAmbiguous and those of the store
// (503, repeat it).
func (e *Election) Initiate(ctx context.Context, operationID string) (o syncobject.Object, created bool, err error) {
	o, created, err = e.object.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		if !o.Pending() { // what is pending already may be asked for by anybody
			if err := e.may(); err != nil {
				return o, fmt.Errorf("%w: %w", ErrNotOwner, err)
			}
		}
		return o.Initiate(syncobject.Request{OperationID: operationID, Owner: e.Status().Holder, At: e.Clock.Wall()})
	})
	e.askNow()
	return o, created, err
}

// Abort takes the newest hand-over back, which must not be decided. Repeating it
// changes nothing.
func (e *Election) Abort(ctx context.Context) (syncobject.Object, error) {
	return e.resolve(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		return o.Abort(o.Generation, "by "+e.ID, e.Clock.Wall())
	})
}

// Reclaim takes the newest hand-over back, which must be decided and not
// completed: the operator says that the destination does not serve.
func (e *Election) Reclaim(ctx context.Context) (syncobject.Object, error) {
	return e.resolve(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		return o.Reclaim(o.Generation, "by "+e.ID)
	})
}

func (e *Election) resolve(ctx context.Context, step func(syncobject.Object) (syncobject.Object, error)) (syncobject.Object, error) {
	o, _, err := e.object.Update(ctx, func(o syncobject.Object) (syncobject.Object, error) {
		if o.Owner.ID != "" && o.Owner.ID != e.ID {
			return o, fmt.Errorf("%w: it is %q", ErrNotOwner, o.Owner.ID)
		}
		return step(o)
	})
	e.askNow()
	return o, err
}

// Take takes a snapshot now, if this deployment is the owner. It ends when that
// does.
func (e *Election) Take(ctx context.Context, kind snapshot.Kind) (snapshot.Manifest, error) {
	e.mu.Lock()
	b := e.backup
	e.mu.Unlock()
	if b == nil {
		return snapshot.Manifest{}, ErrNotOwner
	}
	return b.take(ctx, kind)
}
