package etcdtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fillers is how many puts Fill keeps in flight.
const fillers = 16

// Fill puts n different keys with values of size bytes that do not compress,
// one revision each, and returns the revision of the last.
func (e *Etcd) Fill(t testing.TB, n, size int) int64 {
	t.Helper()
	c := e.dial(t)
	defer c.Close()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(fillers)
	prefix := fmt.Sprintf("fill/%x/", rand.Uint64())
	for i := range n {
		g.Go(func() error { return putOnce(ctx, c, fmt.Sprintf("%s%08d", prefix, i), noise(size)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("fill %s: %v", e, err)
	}
	return e.Revision(t)
}

// putOnce puts a new key, and again if the connection broke and etcd has not got
// it.
func putOnce(ctx context.Context, c *clientv3.Client, key, value string) error {
	_, err := c.Put(ctx, key, value)
	if status.Code(err) != codes.Unavailable {
		return err
	}
	there, readErr := c.Get(ctx, key, clientv3.WithCountOnly())
	if readErr != nil || there.Count > 0 {
		return readErr
	}
	_, err = c.Put(ctx, key, value)
	return err
}

// noise returns size random bytes.
func noise(size int) string {
	b := make([]byte, 0, size+8)
	for len(b) < size {
		b = binary.NativeEndian.AppendUint64(b, rand.Uint64())
	}
	return string(b[:size])
}

// Writer puts new keys until it is stopped and remembers what etcd acknowledged.
// It goes on through errors: whether such a put has happened is not known, so
// its key is never used again and proves nothing.
type Writer struct {
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	acks   []Ack
	failed int
}

// Ack is a put that etcd said it would never lose.
type Ack struct {
	Key      string
	Value    string
	Revision int64
}

// StartWriter puts keys starting with prefix through c, from so many goroutines
// at a time, until Stop or the end of the test.
func StartWriter(t testing.TB, c *clientv3.Client, prefix string, goroutines int) *Writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &Writer{cancel: cancel}
	for g := range goroutines {
		w.group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.put(ctx, c, fmt.Sprintf("%s%d/%08d", prefix, g, i))
			}
		})
	}
	t.Cleanup(w.Stop)
	return w
}

func (w *Writer) put(ctx context.Context, c *clientv3.Client, key string) {
	// Bounded, so that an etcd that hangs does not hang the writer.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	value := noise(64)
	r, err := c.Put(ctx, key, value)
	w.mu.Lock()
	if err == nil {
		w.acks = append(w.acks, Ack{key, value, r.Header.Revision})
	} else {
		w.failed++
	}
	w.mu.Unlock()
	if err != nil {
		pause(ctx, 10*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Stop ends the writer and waits for its last put.
func (w *Writer) Stop() {
	w.cancel()
	w.group.Wait()
}

// Acked returns what has been acknowledged so far.
func (w *Writer) Acked() []Ack {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.acks) // only ever appended to
}

// Failed counts the puts without an acknowledgement so far.
func (w *Writer) Failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// WaitAcked returns when n puts have been acknowledged.
func (w *Writer) WaitAcked(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(w.Acked()) < n {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d puts acknowledged after a minute, %d failed", len(w.Acked()), n, w.Failed())
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// Check reports every acknowledged put that c's etcd does not hold at the
// revision and with the value that were acknowledged.
func (w *Writer) Check(t testing.TB, c *clientv3.Client) {
	t.Helper()
	for _, ack := range w.Acked() {
		r, err := c.Get(t.Context(), ack.Key)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Kvs) != 1 || r.Kvs[0].ModRevision != ack.Revision || string(r.Kvs[0].Value) != ack.Value {
			t.Errorf("%s was acknowledged at revision %d, now there is %v", ack.Key, ack.Revision, r.Kvs)
		}
	}
}
