package snapshotter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
)

const (
	// After a broken stream the follower waits between reconnectMin and
	// reconnectMax, twice as long each time.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
	// leaseParallel is how many leases are looked up at once.
	leaseParallel = 16
)

var (
	errMoved   = errors.New("the follower was sent elsewhere")
	errStalled = errors.New("etcd does not send the events it has")
)

// lineID names a line: its lineage and the cluster that etcd must be.
type lineID struct{ lineage, cluster string }

// follower is where the event stream stands and what is packed of it.
type follower struct {
	mu      sync.Mutex
	changed chan struct{} // closed when anything below changes
	line    lineID        // zero until begin
	segment *segment
	broken  error // why the stream cannot go on from here
	leave   context.CancelFunc

	using   sync.Mutex // guards what follows
	users   int
	end     context.CancelFunc
	reading sync.WaitGroup
}

func (f *follower) init() { f.changed = make(chan struct{}) }

// wake must be called with mu held.
func (f *follower) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// begin sends the follower to revision next of a line, and drops what it holds.
func (f *follower) begin(next int64, line lineID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line, f.segment, f.broken = line, newSegment(next, line), nil
	if f.leave != nil {
		f.leave()
	}
	f.wake()
}

// reopen leaves the stream for a new one at the same place.
func (f *follower) reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leave != nil {
		f.leave()
	}
}

// wait returns as soon as ok does, which is called with mu held, or ctx ends.
func (f *follower) wait(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, changed := ok(), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add packs r, waiting while limit bytes are packed already, of which it tells
// full.
func (f *follower) add(ctx context.Context, r revisions, limit int, full func()) error {
	err := f.wait(ctx, func() bool {
		if f.segment.size() < limit {
			return true
		}
		full()
		return false
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil { // begin came between
		return errMoved
	}
	err = f.segment.add(r)
	f.wake()
	return err
}

// take seals what is packed as soon as it reaches revision through, is as much
// as may wait, or is all there will be. It returns nil if through was taken
// before.
func (f *follower) take(ctx context.Context, id lineID, through int64, limit int) (*segment, error) {
	var taken *segment
	var broken error
	err := f.wait(ctx, func() bool {
		s := f.segment
		switch {
		case f.line != id:
			broken = errMoved
		case s.whole < through && s.size() < limit && f.broken == nil:
			return false
		case !s.empty():
			taken, f.segment = s, newSegment(s.whole+1, s.line)
			f.wake()
		case s.whole < through:
			broken = f.broken
		}
		return true
	})
	if err != nil || broken != nil {
		return nil, errors.Join(err, broken)
	}
	return taken, nil
}

// hasFilled reports whether as much as may wait does.
func (f *follower) hasFilled(limit int) bool {
	_, _, size := f.at()
	return size >= limit
}

// at returns the first revision of the segment, the last one packed, and the
// bytes that wait.
func (f *follower) at() (first, whole int64, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.segment == nil {
		return 0, -1, 0
	}
	return f.segment.first, f.segment.whole, f.segment.size()
}

// following makes sure that the event stream is read until the returned
// function is called. Whoever calls it last ends the reading.
func (s *Snapshotter) following(ctx context.Context) (stop func()) {
	f := &s.follower
	f.using.Lock()
	defer f.using.Unlock()
	f.users++
	if f.users == 1 {
		ctx, f.end = context.WithCancel(context.WithoutCancel(ctx))
		f.reading.Go(func() { s.follow(ctx) })
	}
	return func() {
		f.using.Lock()
		defer f.using.Unlock()
		f.users--
		if f.users == 0 {
			f.end()
			f.reading.Wait()
		}
	}
}

// follow reads the event stream until ctx ends.
func (s *Snapshotter) follow(ctx context.Context) {
	pause := reconnectMin
	for ctx.Err() == nil {
		began := time.Now()
		err := s.followOnce(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errMoved), errors.Is(err, etcd.ErrRenew):
			continue
		case errors.Is(err, etcd.ErrCompacted):
			s.follower.fail(err)
			continue
		}
		if time.Since(began) > reconnectMax {
			pause = reconnectMin
		}
		s.Log.Warn("the event stream broke, it will be opened again", "error", err, "pause", pause)
		sleep(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, reconnectMax)
	}
}

// fail says that the stream cannot go on before begin is called again.
func (f *follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
	f.wake()
}

// followOnce opens the stream where it was left and reads it until it breaks.
func (s *Snapshotter) followOnce(ctx context.Context) error {
	f := &s.follower
	if err := f.wait(ctx, func() bool { return f.segment != nil && f.broken == nil }); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	from, id := f.segment.whole+1, f.line
	f.leave = func() { cancel(errMoved) }
	f.mu.Unlock()

	w, err := s.etcd.Watch(ctx, from)
	if err != nil {
		return moved(ctx, err)
	}
	defer w.Close()
	// Only now, when the etcd at the other end of the stream cannot change any
	// more, its answer is about the events to come.
	_, l, err := s.position(ctx)
	switch {
	case err != nil:
		return moved(ctx, err)
	case l.lineID != id:
		return errMoved
	case hexID(w.ClusterID) != id.cluster:
		return errReplaced
	}
	return moved(ctx, s.read(ctx, w))
}

// moved tells a stream that was left from one that broke.
func moved(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errMoved) {
		return errMoved
	}
	return err
}

// read packs what w sends, revision by revision.
func (s *Snapshotter) read(ctx context.Context, w *etcd.Watch) error {
	var held []*mvccpb.Event // the newest revision's, which may go on in the next batch
	leases := leaseCache{ttl: map[int64]int64{}}
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return err
		}
		var whole []*mvccpb.Event
		whole, held = split(append(held, b.Events...), b.Whole)
		if len(whole) == 0 {
			continue
		}
		first, _, _ := s.follower.at()
		leases.renew(first)
		if err := s.lookUp(ctx, whole, leases.ttl); err != nil {
			return err
		}
		if err := s.follower.add(ctx, revisions{whole, leases.ttl}, s.DeltaLimit, s.requestDelta); err != nil {
			return err
		}
	}
}

// split divides events into those of whole revisions and the others.
func split(events []*mvccpb.Event, allWhole bool) (whole, rest []*mvccpb.Event) {
	end := len(events)
	if !allWhole && end > 0 {
		newest := events[end-1].Kv.ModRevision
		for end > 0 && events[end-1].Kv.ModRevision == newest {
			end--
		}
	}
	return events[:end:end], events[end:]
}

// leaseCache remembers granted TTLs, in seconds, while one segment is filled. A
// client may choose an id again, with another TTL.
type leaseCache struct {
	ttl     map[int64]int64
	segment int64 // its first revision
}

func (c *leaseCache) renew(segment int64) {
	if c.segment != segment {
		clear(c.ttl)
		c.segment = segment
	}
}

// lookUp adds to ttl the leases of events, now: a lease of a few seconds may be
// gone when the delta is cut.
func (s *Snapshotter) lookUp(ctx context.Context, events []*mvccpb.Event, ttl map[int64]int64) error {
	var mu sync.Mutex // guards ttl
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(leaseParallel)
	for _, id := range unknownLeases(events, ttl) {
		g.Go(func() error {
			granted, err := s.etcd.GrantedTTL(gctx, id)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			ttl[id] = granted
			return nil
		})
	}
	return g.Wait()
}

func unknownLeases(events []*mvccpb.Event, ttl map[int64]int64) []int64 {
	var ids []int64
	asked := map[int64]bool{0: true}
	for _, e := range events {
		id := e.Kv.Lease
		if _, known := ttl[id]; !known && !asked[id] {
			asked[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
