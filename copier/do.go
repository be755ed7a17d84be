package copier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Result says what a copy did.
type Result struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Copied were sent, Adopted were there without a manifest, and There counted
	// already. Bytes are as they are stored in the source.
	Copied       int   `json:"copied"`
	CopiedBytes  int64 `json:"copiedBytes"`
	Adopted      int   `json:"adopted"`
	AdoptedBytes int64 `json:"adoptedBytes"`
	There        int   `json:"there"`
	ThereBytes   int64 `json:"thereBytes"`
	// ByStores is how many of Copied the stores copied between themselves.
	ByStores int       `json:"copiedByStores"`
	LeftOut  []LeftOut `json:"leftOut"`
	Seconds  float64   `json:"seconds"`
}

// Do carries out a plan. It may be repeated after any error, with the same plan
// or a new one; the result says what was done until then. What can be copied is
// copied even if something is left out or found damaged on the way: then the
// error names that and wraps archive.ErrCorrupt or snapshot.ErrGap.
func (c *Copier) Do(ctx context.Context, p Plan) (Result, error) {
	began := time.Now()
	j := &job{
		Copier: c, total: p.MissingBytes + p.UploadedBytes, ready: map[string][]byte{},
		result: Result{
			From: p.From, To: p.To, There: p.Count(There), ThereBytes: p.ThereBytes, LeftOut: append([]LeftOut{}, p.LeftOut...),
		},
	}
	if c.Bandwidth > 0 {
		j.limiter = rate.NewLimiter(rate.Limit(c.Bandwidth), int(min(c.Bandwidth, burst)))
	}
	err := j.announced(ctx, p)
	j.result.Seconds = time.Since(began).Seconds()
	if err != nil {
		return j.result, fmt.Errorf("copy to %s: %w", c.to, err)
	}
	return j.result, lost(j.result.LeftOut)
}

// job is one copy.
type job struct {
	*Copier
	limiter *rate.Limiter // nil: unlimited
	total   int64

	mu     sync.Mutex        // guards what follows
	halves int64             // of bytes that are copied, see advanceHalf
	ready  map[string][]byte // manifests to commit, by name in the source
	result Result
}

// run copies items. One that is found damaged is left out, with what needs it,
// and the rest is put in order again.
func (j *job) run(ctx context.Context, items []Item) error {
	for {
		err := j.pass(ctx, items)
		bad := new(damaged)
		if !errors.As(err, &bad) {
			return err
		}
		j.Log.Error("a stored snapshot is damaged, it is not copied", "snapshot", bad.name, "error", bad.err)
		items = j.without(items, bad)
	}
}

// damaged says that a snapshot in the source is not what its manifest says.
type damaged struct {
	name string
	err  error
}

func (d *damaged) Error() string { return d.err.Error() }

func (d *damaged) Unwrap() error { return d.err }

// without returns what can still be copied, in order.
func (j *job) without(items []Item, bad *damaged) []Item {
	states := map[string]State{}
	var rest []snapshot.Manifest
	for _, it := range items {
		states[it.Manifest.Name] = it.State
		if it.Manifest.Name != bad.name {
			rest = append(rest, it.Manifest)
		}
	}
	chains, _ := snapshot.Chains(rest)
	var left []Item
	for _, m := range inOrder(chains, rest) {
		left = append(left, Item{states[m.Name], m})
		delete(states, m.Name)
	}
	delete(states, bad.name)
	j.result.LeftOut = append(j.result.LeftOut, LeftOut{bad.name, bad.err.Error(), bad.err})
	for _, m := range rest {
		if state, out := states[m.Name]; out && state != There {
			j.result.LeftOut = append(j.result.LeftOut, LeftOut{m.Name, "it continues " + bad.name + ", which is damaged", nil})
		}
	}
	return left
}

// transfer is an object on its way; its manifest is committed after those of the
// transfers before it.
type transfer struct {
	item Item
	done chan error
}

// pass copies items until one of them fails. What others were doing meanwhile is
// finished if that one is damaged, and cancelled otherwise.
func (j *job) pass(ctx context.Context, items []Item) error {
	var bad atomic.Pointer[damaged]
	queue := make(chan transfer, ahead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return j.send(ctx, items, queue, &bad) })
	g.Go(func() error { return j.commitAll(ctx, queue) })
	if err := g.Wait(); err != nil {
		return err
	}
	if found := bad.Load(); found != nil {
		return found
	}
	return nil
}

// send starts the transfers of items, in order, until it finds a bad one.
func (j *job) send(ctx context.Context, items []Item, queue chan<- transfer, bad *atomic.Pointer[damaged]) error {
	defer close(queue)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(j.Parallel, 1))
	for _, it := range items {
		if it.State == There || bad.Load() != nil {
			continue
		}
		t := transfer{it, make(chan error, 1)}
		select {
		case queue <- t:
		case <-ctx.Done():
			if err := g.Wait(); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
		g.Go(func() error {
			err := j.transfer(ctx, it)
			t.done <- err
			if found := new(damaged); errors.As(err, &found) {
				bad.CompareAndSwap(nil, found) // another one will be found again
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// commitAll commits what has been transferred, in order, up to the first that
// failed. Why it did send knows.
func (j *job) commitAll(ctx context.Context, queue <-chan transfer) error {
	failed := false
	for t := range queue {
		failed = <-t.done != nil || failed
		if failed {
			continue
		}
		if err := j.commit(ctx, t.item.Manifest); err != nil {
			return err
		}
	}
	return nil
}

// commit makes a copied snapshot count.
func (j *job) commit(ctx context.Context, m snapshot.Manifest) error {
	manifest, _ := j.isReady(m.Name)
	if manifest == nil { // committed in an earlier pass
		return nil
	}
	_, err := j.to.Commit(ctx, manifest)
	if errors.Is(err, fs.ErrExist) {
		return j.taken(j.target(m).Name, "another manifest has appeared")
	}
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.CopyStored)
	j.Log.Debug("snapshot copied", "snapshot", m.Name, "bytes", m.StoredSize)
	j.setReady(m.Name, nil)
	return nil
}

// isReady returns the manifest to commit when an object is right where it
// belongs; nil if that is done.
func (j *job) isReady(name string) (manifest []byte, ready bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	manifest, ready = j.ready[name]
	return manifest, ready
}

func (j *job) setReady(name string, manifest []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ready[name] = manifest
}

// advance counts n more bytes that are copied and were read back.
func (j *job) advance(n int64) { j.advanceHalf(2 * n) }

// advanceHalf counts n more bytes that were read on one of the two sides: an
// object that is sent is half done, and done when it was read back.
func (j *job) advanceHalf(n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.halves += n
	if j.Progress != nil {
		done := j.halves / 2
		j.Progress(done, max(done, j.total))
	}
}
