package cloud

import (
	"context"
	"slices"
	"sync"
)

// budget is the memory for parts on their way, of all creates of a store
// together: there are never more parts than may be, whatever goes on at once.
// Nobody can wait for ever: a create that has a part sends it, and has none while
// it waits for the next.
type budget struct {
	parts chan struct{} // one for each part that there is

	mu      sync.Mutex
	creates int
	idle    []*part // nothing when there is no create
}

func newBudget(parts int) *budget { return &budget{parts: make(chan struct{}, max(parts, 1))} }

// part is memory for one.
type part struct{ memory []byte }

func (b *budget) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creates++
}

// leave ends what enter began; the last one frees the memory.
func (b *budget) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.creates--
	if b.creates == 0 {
		b.idle = nil
	}
}

// take waits until there may be one more part.
func (b *budget) take(ctx context.Context) (*part, error) {
	select {
	case b.parts <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 {
		return new(part), nil
	}
	last := len(b.idle) - 1
	p := b.idle[last]
	b.idle = b.idle[:last]
	return p, nil
}

// give takes p back, which may be nil.
func (b *budget) give(p *part) {
	if p == nil {
		return
	}
	b.mu.Lock()
	b.idle = append(b.idle, p)
	b.mu.Unlock()
	<-b.parts
}

// empty returns p's memory for size bytes.
func (p *part) empty(size int64) []byte {
	p.memory = slices.Grow(p.memory[:0], int(size))
	return p.memory[:0:size]
}
