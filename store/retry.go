package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Presets of a Retrier.
const (
	DefaultAttempts    = 5
	DefaultBase        = 200 * time.Millisecond
	DefaultMax         = 10 * time.Second
	DefaultMaxAsked    = time.Minute
	DefaultTimeout     = 30 * time.Second
	DefaultListTimeout = 5 * time.Minute
)

// Retrier is a store that repeats what failed, if and as far as that is safe,
// until it has an answer. Set its fields before the first call.
//
//   - List, Open, Read and Remove are repeated as they are. Content that breaks
//     off is opened again and read on from the same byte, unless the object has
//     changed (ErrChanged).
//   - Create is repeated if its source is an io.Seeker. A name found taken after
//     an attempt of unknown outcome is compared with the source: equal bytes
//     mean that the attempt had succeeded.
//   - Swap is repeated after reading what is there. If that is the data, the
//     attempt had succeeded; if it is the old version, it is tried again. So the
//     data must hold something unique, or somebody else's equal bytes are taken
//     for one's own. A swap that succeeded, and was replaced before it could be
//     read, is reported as ErrChanged.
//
// Permanent errors (see IsPermanent) are returned at once. After an error other
// than fs.ErrExist and ErrChanged, a write may still have happened.
type Retrier struct {
	Attempts int           // of one call, the first included
	Base     time.Duration // bound of the pause after the first failure, doubled by each further one
	Max      time.Duration // bound of every pause
	MaxAsked time.Duration // bound of every pause that the store asked for, see Later
	// Timeout bounds an attempt of Read, Swap and Remove, and ListTimeout one of
	// List, which may take many requests, so that a connection which is dead does
	// not cost all the time there is. Open and Create have no bound: there it is
	// for the provider to notice that nothing moves.
	Timeout, ListTimeout time.Duration

	Rand func() float64 // in [0,1): the share of its bound that a pause takes; safe for concurrent use

	store Store
}

// Retry returns s with the preset knobs.
func Retry(s Store) *Retrier {
	return &Retrier{
		Attempts: DefaultAttempts, Base: DefaultBase, Max: DefaultMax, MaxAsked: DefaultMaxAsked,
		Timeout: DefaultTimeout, ListTimeout: DefaultListTimeout,
		Rand: rand.Float64, store: s,
	}
}

func (r *Retrier) String() string { return r.store.String() }

// Unwrap returns the store below.
func (r *Retrier) Unwrap() Store { return r.store }

// do calls attempt until it succeeds or trying again is pointless.
func (r *Retrier) do(ctx context.Context, attempt func() error) error {
	for failures := 1; ; failures++ {
		err := attempt()
		if err == nil {
			return nil
		}
		if err := r.pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

// within returns attempt with its own time. That it is over is worth another
// attempt, unless ctx has ended too.
func within(ctx context.Context, timeout time.Duration, attempt func(context.Context) error) func() error {
	return func() error {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := attempt(bounded)
		if errors.Is(err, context.DeadlineExceeded) && bounded.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("no answer within %v: %w", timeout, err)
		}
		return err
	}
}

// pause waits before the attempt that follows the given number of failures. If
// there is to be no such attempt it returns an error, which wraps err.
func (r *Retrier) pause(ctx context.Context, failures int, err error) error {
	if IsPermanent(err) {
		return err
	}
	if failures >= r.Attempts {
		return fmt.Errorf("gave up after %d attempts: %w", failures, err)
	}
	wait := time.Duration(r.Rand() * float64(r.bound(failures)))
	select {
	case <-time.After(max(wait, min(askedFor(err), r.MaxAsked))):
	case <-ctx.Done():
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w before another attempt after: %w", ended, err)
	}
	return nil
}

func (r *Retrier) bound(failures int) time.Duration {
	bound := r.Base
	for range failures - 1 {
		if bound >= r.Max {
			break
		}
		bound *= 2
	}
	return min(bound, r.Max)
}

// List implements Reader.
func (r *Retrier) List(ctx context.Context, prefix string) (infos []Info, err error) {
	err = r.do(ctx, within(ctx, r.ListTimeout, func(ctx context.Context) error {
		infos, err = r.store.List(ctx, prefix)
		return err
	}))
	return infos, err
}

// Open implements Reader.
func (r *Retrier) Open(ctx context.Context, name string) (io.ReadCloser, Info, error) {
	b := &resumed{ctx: ctx, retrier: r}
	err := r.do(ctx, func() (err error) {
		b.body, b.info, err = r.store.Open(ctx, name)
		return err
	})
	if err != nil {
		return nil, Info{}, err
	}
	return b, b.info, nil
}

// Remove implements Writer.
func (r *Retrier) Remove(ctx context.Context, name string) error {
	return r.do(ctx, within(ctx, r.Timeout, func(ctx context.Context) error { return r.store.Remove(ctx, name) }))
}

// Read implements Swapper.
func (r *Retrier) Read(ctx context.Context, name string) (data []byte, version Version, err error) {
	err = r.do(ctx, within(ctx, r.Timeout, func(ctx context.Context) error {
		data, version, err = r.store.Read(ctx, name)
		return err
	}))
	return data, version, err
}
