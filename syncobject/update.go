package syncobject

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// update is one call of Update.
type update[T document[T]] struct {
	*File[T]
	step func(T) (T, error)
	ids  map[string]bool // of the writes of this call that may have happened
	// open says that such a write may have happened, or may yet: until the object
	// is seen at another version than base, which it replaces.
	open bool
	base store.Version
}

func (u *update[T]) run(ctx context.Context) (T, bool, error) {
	var last error // why the last try came to nothing
	for failed := 0; ; {
		t, wrote, err := u.try(ctx, failed < u.Attempts)
		var again *unsettled
		if !errors.As(err, &again) {
			return t, wrote, u.final(err)
		}
		wait := again.wait
		if again.cause != nil {
			last, wait = again.cause, u.backOff(failed)
			failed++
		}
		if wait == 0 || failed > u.Attempts {
			return t, false, u.final(gaveUp(last))
		}
		if err := sleep(ctx, wait); err != nil {
			return t, false, u.final(errors.Join(err, last))
		}
	}
}

// try looks at the object and does the step. The error is *unsettled if that has
// to be tried again.
func (u *update[T]) try(ctx context.Context, mayWrite bool) (t T, wrote bool, err error) {
	now, version, err := u.look(ctx)
	if err == nil || errors.Is(err, ErrVanished) {
		u.open = u.open && version == u.base
	}
	switch {
	case err != nil && (ctx.Err() != nil || !transient(err)):
		return t, false, err
	case err != nil:
		return t, false, &unsettled{cause: err}
	case u.ids[now.writeID()]:
		u.open = false
		return now, true, nil
	}
	next, err := u.step(now)
	if err != nil {
		return now, false, err
	}
	if reflect.DeepEqual(now, next) {
		return now, false, nil
	}
	if !mayWrite {
		return now, false, &unsettled{}
	}
	if wait := time.Until(u.written.Add(u.Pace)); wait > 0 {
		return now, false, &unsettled{wait: wait}
	}
	return u.write(ctx, now, next, version)
}

// write swaps next in. It returns it, or what was there before.
func (u *update[T]) write(ctx context.Context, now, next T, version store.Version) (T, bool, error) {
	if ctx.Err() != nil {
		return now, false, context.Cause(ctx)
	}
	id := uuid.NewString()
	next = next.stamp(id, At(time.Now()))
	data, err := next.Encode()
	if err != nil {
		return now, false, err
	}
	err = u.swap(ctx, version, data)
	switch {
	case err == nil:
		u.open = false
		return next, true, nil
	case refused(err):
		return now, false, err
	}
	// Also a clear "changed" may be mine: clients of stores repeat what has
	// succeeded already.
	u.ids[id], u.open, u.base = true, true, version
	return now, false, &unsettled{cause: err}
}

// final returns err as the end of the update.
func (u *update[T]) final(err error) error {
	if err != nil && u.open {
		return fmt.Errorf("%w: %w", ErrAmbiguous, err)
	}
	return err
}

// transient reports whether a look that failed with err is worth another.
func transient(err error) bool {
	return !refused(err) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrVanished)
}

// gaveUp returns the error of an update whose last try failed with last.
func gaveUp(last error) error {
	if errors.Is(last, store.ErrChanged) {
		return fmt.Errorf("%w: %w", ErrContended, last)
	}
	return last
}

// unsettled asks for another try: after a failure, or after some time. The zero
// one says that there are no more.
type unsettled struct {
	cause error
	wait  time.Duration // without a cause: until the next write is due
}

func (u *unsettled) Error() string { return fmt.Sprintf("not settled: %v", u.cause) }

// backOff returns how long to wait after the try that follows failed others:
// between half and all of a bound that doubles, so that writers at odds part.
func (f *File[T]) backOff(failed int) time.Duration {
	bound := f.Pause << min(failed, 4)
	return bound/2 + time.Duration(f.Rand()*float64(bound/2))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
