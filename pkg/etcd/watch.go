package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// ErrCompacted says that etcd no longer has the events asked for; only a full
// snapshot goes on from here.
var ErrCompacted = errors.New("etcd has compacted the revisions asked for")

// anySize lifts gRPC's limit of 4 MiB on a message. etcd may have been told to
// accept larger requests, and sends a fragment for each.
var anySize = grpc.MaxCallRecvMsgSize(math.MaxInt32)

// batchPause is how long events gather in etcd once the stream has caught up. A
// watcher that is up to date costs etcd a message for every write, on the path
// of the write; one that comes back later gets what it missed in few messages.
const batchPause = 250 * time.Millisecond

// ErrRenew asks for the stream to be opened again where it is. What etcd still has
// for a watcher when that is ended it keeps until the stream ends (v3rpc/watch.go,
// sendLoop), so a stream is used for maxPauses only.
var ErrRenew = errors.New("the stream is to be opened again")

const maxPauses = 200

// A watcher that is behind is sent at most 1,000 revisions every 100 ms (etcd,
// mvcc/watchable_store.go), so one that found busyRevisions after a pause stays
// for busyTime without another.
const (
	busyRevisions = 2_000
	busyTime      = 10 * time.Second
)

// Watch is the stream of all changes from a revision on. It is one stream to one
// etcd, on which watchers come and go.
type Watch struct {
	ClusterID uint64

	stream  etcdserverpb.Watch_WatchClient
	cancel  context.CancelFunc
	next    int64 // the first revision that has not arrived whole
	watcher int64 // id
	paused  bool  // there is no watcher
	pauses  int
	from    int64 // where the watcher began
	busy    time.Time
}

// Batch is a piece of the stream.
type Batch struct {
	Events []*mvccpb.Event
	// Whole says that the last event's revision ends with this batch. Earlier
	// revisions are whole whenever a later one begins.
	Whole bool
}

// Watch opens the stream of all changes from revision from on. Close it.
func (c *Client) Watch(ctx context.Context, from int64) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := c.watch(ctx, from)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("etcd at %s: watch from revision %d: %w", c.Endpoint(), from, err)
	}
	w.cancel = cancel
	return w, nil
}

func (c *Client) watch(ctx context.Context, from int64) (*Watch, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	stream, err := etcdserverpb.NewWatchClient(client.ActiveConnection()).Watch(ctx, anySize)
	if err != nil {
		return nil, err
	}
	w := &Watch{stream: stream, next: from}
	return w, w.create()
}

// create makes a watcher.
func (w *Watch) create() error {
	everything := []byte{0} // from the smallest key, with no end (rpc.proto, WatchCreateRequest.range_end)
	request := &etcdserverpb.WatchCreateRequest{Key: everything, RangeEnd: everything, StartRevision: w.next, Fragment: true}
	err := w.stream.Send(&etcdserverpb.WatchRequest{
		RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: request},
	})
	if err != nil {
		return err
	}
	created, err := w.stream.Recv()
	if err != nil {
		return ended(err)
	}
	w.ClusterID, w.watcher, w.paused = created.Header.GetClusterId(), created.WatchId, false
	w.from = w.next
	return w.refused(created)
}

// pause ends the watcher. What it still sends will be sent again.
func (w *Watch) pause() error {
	err := w.stream.Send(&etcdserverpb.WatchRequest{
		RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: w.watcher}},
	})
	if err != nil {
		return err
	}
	for {
		r, err := w.stream.Recv()
		if err != nil {
			return ended(err)
		}
		if r.Canceled {
			w.paused = true
			w.pauses++
			return nil
		}
	}
}

// resume lets events gather, and makes a watcher again.
func (w *Watch) resume(ctx context.Context) error {
	t := time.NewTimer(batchPause)
	defer t.Stop()
	select {
	case <-t.C:
		return w.create()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Next returns the next batch. It blocks until there is one; ctx is the one that
// the stream was opened with. An error ends the stream; ErrCompacted and
// ErrRenew are such.
func (w *Watch) Next(ctx context.Context) (Batch, error) {
	b, err := w.batch(ctx)
	if err != nil {
		return b, fmt.Errorf("watch: %w", err)
	}
	return b, nil
}

func (w *Watch) batch(ctx context.Context) (Batch, error) {
	if w.paused {
		if w.pauses >= maxPauses {
			return Batch{}, ErrRenew
		}
		if err := w.resume(ctx); err != nil {
			return Batch{}, err
		}
	}
	for {
		r, err := w.stream.Recv()
		if err != nil {
			return Batch{}, ended(err)
		}
		if err := w.refused(r); err != nil {
			return Batch{}, err
		}
		if len(r.Events) > 0 || r.Fragment {
			return Batch{Events: r.Events, Whole: !r.Fragment}, w.arrived(r)
		}
	}
}

// arrived notes where the stream is, and ends the watcher if that is the end.
func (w *Watch) arrived(r *etcdserverpb.WatchResponse) error {
	if r.Fragment || len(r.Events) == 0 {
		return nil
	}
	last := r.Events[len(r.Events)-1].Kv.ModRevision
	w.next = last + 1
	switch {
	case last < r.Header.GetRevision():
		return nil // there is more
	case last-w.from > busyRevisions:
		w.from, w.busy = last+1, time.Now()
		return nil
	case time.Since(w.busy) < busyTime:
		w.from = last + 1
		return nil
	}
	return w.pause()
}

// ended makes every end of the stream an unexpected one.
func ended(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (w *Watch) refused(r *etcdserverpb.WatchResponse) error {
	switch {
	case r.CompactRevision > 0:
		return fmt.Errorf("%w: it keeps %d and later", ErrCompacted, r.CompactRevision)
	case r.Canceled:
		return fmt.Errorf("etcd ended the watch: %s", r.CancelReason)
	}
	return nil
}

// Close ends the stream.
func (w *Watch) Close() { w.cancel() }
