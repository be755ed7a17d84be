package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

const (
	// overviewPause is the least time between two listings for those who only look.
	overviewPause = 10 * time.Second
	// overviewPatience bounds a listing that somebody waits for.
	overviewPatience = 3 * time.Second
)

// overview is what the archive held when it was asked last, for those who look
// often and need an answer also from a store that does not.
type overview struct {
	mu      sync.Mutex // guards what follows
	asked   time.Time  // zero: never
	asking  chan struct{}
	listing archive.Listing
	at      time.Time // of listing, zero: there is none
	err     error     // of the last question
}

// glance is a copy of an overview.
type glance struct {
	archive.Listing
	at  time.Time
	err error
}

// of asks a, unless somebody has or does just now, and returns what is known then.
func (o *overview) of(ctx context.Context, a *archive.Archive) glance {
	o.mu.Lock()
	if o.asking == nil && (o.asked.IsZero() || time.Since(o.asked) >= overviewPause) {
		o.asking = make(chan struct{})
		o.mu.Unlock()
		o.ask(ctx, a)
		return o.last()
	}
	asking, known := o.asking, !o.at.IsZero()
	o.mu.Unlock()
	if asking != nil && !known { // the first one is waited for by all
		select {
		case <-asking:
		case <-ctx.Done():
		}
	}
	return o.last()
}

func (o *overview) ask(ctx context.Context, a *archive.Archive) {
	bounded, cancel := context.WithTimeoutCause(ctx, overviewPatience, errors.New("the store has not answered in time"))
	defer cancel()
	l, err := a.List(bounded)
	if err != nil && bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.asking)
	o.asking = nil
	if ctx.Err() != nil { // whoever asked has gone; that says nothing of the store
		return
	}
	o.asked, o.err = time.Now(), err
	if err == nil {
		o.listing, o.at = l, o.asked
	}
}

func (o *overview) last() glance {
	o.mu.Lock()
	defer o.mu.Unlock()
	return glance{o.listing, o.at, o.err}
}
