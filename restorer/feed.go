package restorer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	// batchSize is about how many bytes of records are handed over at a time.
	// Every delta that is being fetched has up to two batches in memory.
	batchSize = 1 << 20
	// recordSize is what a record costs besides its bytes, roughly.
	recordSize = 96
)

// feed is a delta on its way from the archive.
type feed struct {
	manifest snapshot.Manifest
	batches  chan batch
}

// batch is a piece of a feed.
type batch struct {
	records []delta.Record
	size    int   // bytes of memory
	plain   int64 // bytes of the delta read for it
	last    bool  // the delta is whole and what its manifest says
}

// deltas fetches the plan's deltas, several at a time, and applies them in
// their order.
func (j *job) deltas(ctx context.Context, a *applier) error {
	feeds := make(chan *feed, j.Ahead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return j.fetch(ctx, feeds) })
	g.Go(func() error { return a.applyAll(ctx, feeds) })
	return g.Wait()
}

// fetch starts a feed for each delta as soon as there is room.
func (j *job) fetch(ctx context.Context, feeds chan<- *feed) error {
	defer close(feeds)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(j.Ahead)
	for _, m := range j.plan.Chain.Deltas {
		f := &feed{m, make(chan batch, 1)}
		select {
		case feeds <- f:
			g.Go(func() error { return f.fill(ctx, j.archive) })
		case <-ctx.Done():
			if err := g.Wait(); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
	return g.Wait()
}

// fill reads the delta to its end.
func (f *feed) fill(ctx context.Context, a *archive.Archive) error {
	defer close(f.batches)
	content, err := a.Open(ctx, f.manifest)
	if err != nil {
		return err
	}
	defer content.Close()
	var b batch
	decoder := delta.NewDecoder(&counter{content, func(n int64) { b.plain += n }})
	for {
		record, err := decoder.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f.explain(err)
		}
		b.add(record)
		if b.size < batchSize {
			continue
		}
		if err := f.send(ctx, b); err != nil {
			return err
		}
		b = batch{}
	}
	if err := f.check(decoder.Summary()); err != nil {
		return err
	}
	b.last = true
	return f.send(ctx, b)
}

func (b *batch) add(r delta.Record) {
	b.records = append(b.records, r)
	b.size += recordSize + len(r.KeyValue)
}

func (f *feed) send(ctx context.Context, b batch) error {
	select {
	case f.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explain names the delta; the archive's own errors do already.
func (f *feed) explain(err error) error {
	if errors.Is(err, delta.ErrCorrupt) || errors.Is(err, delta.ErrGap) {
		return fmt.Errorf("%s: %w", f.manifest.Name, err)
	}
	return err
}

func (f *feed) check(s delta.Summary) error {
	m := f.manifest
	if s.First != m.First || s.Last != m.Last || s.Events != m.Events {
		return fmt.Errorf("%s: %w: it holds %d events of revisions %d to %d, its manifest says %d of %d to %d",
			m.Name, archive.ErrCorrupt, s.Events, s.First, s.Last, m.Events, m.First, m.Last)
	}
	return nil
}
