package store

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Permanent marks an error that trying again cannot mend, for providers that
// know more than the sentinels say. errors.Is and errors.As see through it.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// IsPermanent reports whether trying again is pointless or wrong: the error is
// an answer, a refusal, a cancellation, or marked as Permanent.
//
// context.DeadlineExceeded is not among them: time-outs of dialling and of
// HTTP look the same, and those are worth another try. Whether the caller's own
// time is over, only the caller's context can tell.
func IsPermanent(err error) bool {
	if errors.As(err, new(permanent)) {
		return true
	}
	return slices.ContainsFunc([]error{
		fs.ErrNotExist, fs.ErrExist, ErrChanged,
		fs.ErrPermission, fs.ErrInvalid, ErrNoContainer,
		context.Canceled,
	}, func(target error) bool { return errors.Is(err, target) })
}

// Later marks an error with which a store asked to be left alone for some time.
// errors.Is and errors.As see through it. Retry waits that long, within reason.
func Later(err error, wait time.Duration) error {
	if err == nil || wait <= 0 {
		return err
	}
	return later{err, wait}
}

type later struct {
	error
	wait time.Duration
}

func (l later) Unwrap() error { return l.error }

// askedFor returns how long a store that failed with err asked to be left alone.
func askedFor(err error) time.Duration {
	var l later
	errors.As(err, &l)
	return l.wait
}
