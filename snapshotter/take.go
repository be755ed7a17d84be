package snapshotter

import (
	"context"
	"fmt"
	"sync"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// takes lets callers who ask at the same time share one snapshot.
type takes struct {
	mu     sync.Mutex
	queued map[snapshot.Kind]*take
}

// take is a snapshot that somebody waits for and that has not begun. It holds
// what is acknowledged when it begins, so whoever asks before may share it.
type take struct {
	done     chan struct{}
	manifest snapshot.Manifest
	err      error
	left     bool // whoever did it hung up: its err is nobody else's
}

func (t *takes) init() { t.queued = map[snapshot.Kind]*take{} }

// join returns the queued take of a kind and whether the caller has to do it.
func (t *takes) join(kind snapshot.Kind) (q *take, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queued[kind]; q != nil {
		return q, false
	}
	q = &take{done: make(chan struct{})}
	t.queued[kind] = q
	return q, true
}

func (t *takes) begin(kind snapshot.Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.queued, kind)
}

// Take is Full or Delta for many callers: those who ask while an earlier
// snapshot of the kind is under way share the next one.
func (s *Snapshotter) Take(ctx context.Context, kind snapshot.Kind) (snapshot.Manifest, error) {
	for {
		q, mine := s.takes.join(kind)
		if mine {
			return s.do(ctx, kind, q)
		}
		select {
		case <-q.done:
			if !q.left {
				return q.manifest, q.err
			}
		case <-ctx.Done():
			return snapshot.Manifest{}, context.Cause(ctx)
		}
	}
}

// do takes the snapshot that q stands for.
func (s *Snapshotter) do(ctx context.Context, kind snapshot.Kind, q *take) (snapshot.Manifest, error) {
	defer close(q.done)
	defer func() { q.left = q.err != nil && ctx.Err() != nil }()
	turn := s.turn(kind)
	if q.err = turn.enter(ctx); q.err != nil {
		s.takes.begin(kind)
		return q.manifest, q.err
	}
	turn.leave()
	s.takes.begin(kind)
	switch kind {
	case snapshot.Full:
		q.manifest, q.err = s.Full(ctx)
	case snapshot.Delta:
		q.manifest, q.err = s.Delta(ctx)
	default:
		q.err = fmt.Errorf("no kind of snapshot: %q", kind)
	}
	return q.manifest, q.err
}

// turn returns the step that kind waits for.
func (s *Snapshotter) turn(kind snapshot.Kind) step {
	if kind == snapshot.Full {
		return s.fulls
	}
	return s.deltas
}

// Apart calls work when no full is streamed, and keeps one from beginning meanwhile.
func (s *Snapshotter) Apart(ctx context.Context, work func(context.Context) error) error {
	if err := s.fulls.enter(ctx); err != nil {
		return err
	}
	defer s.fulls.leave()
	return work(ctx)
}
