package bootstrap

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-ferry/etcd-ferry/restorer"
)

// report logs how far r is, every ProgressPeriod, until stop has returned.
func (b *Bootstrap) report(ctx context.Context, r *restorer.Restorer) (stop func()) {
	var done, total atomic.Int64
	r.Progress = func(d, t int64) { done.Store(d); total.Store(t) }
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(b.ProgressPeriod)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				b.Log.Info("restoring", "bytes", done.Load(), "of", total.Load())
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
