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
	idle  sync.Pool     // of *part; the garbage collector takes what is not used
}

func newBudget(parts int) *budget { return &budget{parts: make(chan struct{}, max(parts, 1))} }

// part is memory for one.
type part struct {
	memory []byte
}

// take waits until there may be one more part.
func (b *budget) take(ctx context.Context) (*part, error) {
	select {
	case b.parts <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p, ok := b.idle.Get().(*part); ok {
		return p, nil
	}
	return new(part), nil
}

// give takes p back, which may be nil.
func (b *budget) give(p *part) {
	if p != nil {
		b.idle.Put(p)
		<-b.parts
	}
}

// empty returns p's memory for size bytes.
func (p *part) empty(size int64) []byte {
	p.memory = slices.Grow(p.memory[:0], int(size))
	return p.memory[:0:size]
}
