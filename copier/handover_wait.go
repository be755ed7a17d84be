package copier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// waiting waits until it is decided what is handed over, and copies meanwhile
// what is stored already.
func (r *handing) waiting(ctx context.Context) (state, error) {
	r.enter(Waiting)
	g, gctx := errgroup.WithContext(ctx)
	precopy, stop := context.WithCancel(gctx)
	g.Go(func() error { r.precopy(precopy); return nil })
	var next state
	g.Go(func() (err error) {
		defer stop()
		next, err = r.poll(gctx)
		return err
	})
	err := g.Wait()
	r.outcome.WaitedSeconds = r.waited().Seconds()
	r.Metrics.waiting(0)
	return next, r.withdrawn(ctx, err)
}

// poll reads the object until something follows from it.
func (r *handing) poll(ctx context.Context) (state, error) {
	r.generous = r.began
	for {
		next, err := r.look(ctx)
		period := r.period()
		if err != nil && !final(err) && ctx.Err() == nil {
			r.trouble("wait", err)
			period, err = r.Poll, nil
		}
		if next != nil || err != nil {
			return next, err
		}
		if err := r.pause(ctx, period); err != nil {
			return nil, err
		}
	}
}

// period is the time to the next read. Nobody may be serving until this destination
// sees that the source is done, so at first it reads often; and it adds no more than
// a tenth to any wait.
func (r *handing) period() time.Duration {
	return min(max(r.waited(), r.Poll)/10, r.Poll)
}

// look is one read of all there is to see of the source.
func (r *handing) look(ctx context.Context) (state, error) {
	before := r.object.Source
	o, err := readOr(ctx, r.Read, r.source)
	if err == nil {
		err = r.ours(o)
	}
	if err != nil {
		return r.after(ctx, err)
	}
	r.object = o
	if o.Source.Phase != before.Phase {
		r.Log.Info("the source goes on", "object", o, "error", o.Source.Error)
	}
	if o.Source.Heartbeat != before.Heartbeat && o.Source.Phase.Closed() {
		r.generous = r.Boot() + r.HeartbeatTimeout
	}
	if o.Status != syncobject.Initial {
		return r.copying, nil
	}
	return r.after(ctx, nil)
}

// after says what follows if nothing is decided. That the object could not be
// read, for whatever reason, does not stop the clock.
func (r *handing) after(ctx context.Context, readErr error) (state, error) {
	if readErr != nil && final(readErr) {
		return nil, readErr
	}
	holder, err := readOr(ctx, r.Read, r.holder)
	if err := errors.Join(readErr, err); err != nil {
		return nil, err
	}
	if holder.State == syncobject.Released && !r.unsound { // read after the claim was written
		r.Log.Info("the source has released its container, there is nothing to wait for", "owner", holder.ID)
		return r.taking, nil
	}
	left := r.left()
	if r.Boot()-r.told >= time.Minute {
		r.told = r.Boot()
		r.Log.Info("waiting for the source", "remaining", left.Round(time.Second).String(), "source_phase", string(r.object.Source.Phase))
	}
	r.publish(func(s *Status) { s.WaitSeconds = left.Seconds() })
	r.Metrics.waiting(left.Seconds())
	switch {
	case r.gaveUp():
		return r.force(holder, "the source is fenced and cannot make a final snapshot: "+r.object.Source.Error)
	case left > 0:
		return nil, nil
	default:
		return r.force(holder, fmt.Sprintf("the source has not decided within %s", r.waited().Round(time.Second)))
	}
}

// waited returns for how long the claim has been written, sleep of the machine
// included.
func (r *handing) waited() time.Duration { return r.Boot() - r.began }

// left returns how long to go on waiting: W, or for as long as the source is
// fenced and lives, within bounds.
func (r *handing) left() time.Duration {
	end := max(r.began+r.Wait, min(r.generous, r.began+r.MaxWait))
	return max(0, end-r.Boot())
}

// gaveUp reports whether the source says that there will be no final snapshot.
// All its members must have stopped, not only the one that says so.
func (r *handing) gaveUp() bool {
	s := r.object.Source
	return s.Phase == syncobject.SnapshotFailed && s.Members > 0 && len(s.FencedMembers) >= s.Members && r.Force != ForceNever
}

// force decides whether this destination may decide.
func (r *handing) force(holder syncobject.Owner, reason string) (state, error) {
	refused := r.refused(holder)
	unsafe := r.timing(holder).Check(r.waited())
	switch {
	case refused != "":
		return nil, fmt.Errorf("%w: %s, and deciding without the source was refused: %s", ErrNotReady, reason, refused)
	case unsafe != nil && !r.gaveUp() && !r.onWord(holder): // the source has raised its times meanwhile
		r.trouble("wait longer", unsafe)
		return nil, nil
	}
	return func(ctx context.Context) (state, error) { return r.forcing(ctx, reason) }, nil
}

// refused says why this destination may not decide, or "".
func (r *handing) refused(holder syncobject.Owner) string {
	switch {
	case r.Force == ForceNever:
		return "by --no-force"
	case r.Force == ForceAnyway, r.gaveUp():
		return ""
	case holder.Absent():
		return "there is no " + syncobject.OwnerName + " that says when the source stops by itself; if it surely does not serve, give --force"
	case !holder.ImplicitFencing:
		return fmt.Sprintf("%q does not stop by itself (--implicit-fencing=false); if it surely does not serve, give --force", holder.ID)
	case r.object.Source.Phase == syncobject.FenceFailed:
		return fmt.Sprintf("%q says that it could not stop its etcd: %s; stop it and give --force", holder.ID, r.object.Source.Error)
	}
	return ""
}

// precopy copies what is stored of the source's history, again and again, so that
// less is left to do when it is decided. Trouble with it is none of the
// hand-over's.
func (r *handing) precopy(ctx context.Context) {
	for {
		if err := r.precopyOnce(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("copying ahead failed, trying again later", "error", err)
		}
		if sleep(ctx, r.Precopy) != nil {
			return
		}
	}
}

func (r *handing) precopyOnce(ctx context.Context) error {
	c, err := r.newest(ctx, nil)
	if err != nil {
		return err
	}
	_, err = r.bring(ctx, c.All(), shallow)
	return err
}
