package rows

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const (
	// writers is how many clients write at a time: half of them on a connection
	// that they keep for as long as it lasts, half of them on a new one each time.
	writers = 16
	// putTimeout is for how long a client waits.
	putTimeout = time.Second
	// rest is how long a client waits between two writes, and idle if it has hung
	// up or failed: a connection costs more than a write.
	rest = 4 * time.Millisecond
	idle = 30 * time.Millisecond
)

// crowd is clients that write to every member of a deployment all the time,
// whatever its readiness says, and remember what was acknowledged. A key is
// never used twice: what was not acknowledged may have happened.
type crowd struct {
	prefix string
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	acks   []ack
	failed int
}

// ack is a write that a client got an OK for.
type ack struct {
	key, value     string
	revision       int64
	sent, received time.Time
}

// writeTo starts a crowd. It goes on until it is stopped, or the test ends.
func writeTo(t *testing.T, d *deployment) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{prefix: fmt.Sprintf("%s/%x/", d.ID, rand.Uint64()), cancel: cancel}
	for i := range writers {
		m := d.members[i%len(d.members)]
		c.group.Go(func() { c.write(ctx, m, fmt.Sprintf("%s%02d/", c.prefix, i), (i/len(d.members))%2 == 0) })
	}
	t.Cleanup(c.stop)
	return c
}

func (c *crowd) write(ctx context.Context, m *member, prefix string, keep bool) {
	var client *clientv3.Client
	hangUp := func() {
		if client != nil {
			_ = client.Close()
			client = nil
		}
	}
	defer hangUp()
	for i := 0; ctx.Err() == nil; i++ {
		if client == nil {
			var err error
			if client, err = m.dial(); err != nil {
				continue
			}
		}
		pause := rest
		if !c.put(ctx, client, fmt.Sprintf("%s%08d", prefix, i)) {
			pause = idle
		}
		if !keep {
			hangUp()
			pause = idle
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *crowd) put(ctx context.Context, client *clientv3.Client, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	a := ack{key: key, value: fmt.Sprintf("%064x", rand.Uint64()), sent: time.Now()}
	r, err := client.Put(ctx, key, a.value)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed++
		return false
	}
	a.revision, a.received = r.Header.Revision, time.Now()
	c.acks = append(c.acks, a)
	return true
}

// stop ends the crowd and waits for its last writes.
func (c *crowd) stop() {
	c.cancel()
	c.group.Wait()
}

func (c *crowd) acked() []ack {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.acks)
}

func (c *crowd) failures() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// more returns when n more writes have been acknowledged.
func (c *crowd) more(t *testing.T, n int) {
	t.Helper()
	before := len(c.acked())
	eventually(t, fmt.Sprintf("%d writes more than %d", n, before), func() bool { return len(c.acked()) >= before+n })
}

// refused returns when every client has failed about twice more.
func (c *crowd) refused(t *testing.T) {
	t.Helper()
	before := c.failures()
	eventually(t, "writes fail", func() bool { return c.failures() >= before+2*writers })
}

// lost returns the acknowledged writes that an etcd does not have.
func (c *crowd) lost(t *testing.T, client *clientv3.Client) []ack {
	t.Helper()
	there := map[string]string{}
	end := clientv3.GetPrefixRangeEnd(c.prefix)
	for from := c.prefix; ; {
		r, err := client.Get(t.Context(), from, clientv3.WithRange(end), clientv3.WithLimit(5_000))
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range r.Kvs {
			there[string(kv.Key)] = fmt.Sprint(kv.ModRevision, string(kv.Value))
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			break
		}
	}
	return slices.DeleteFunc(slices.Clone(c.acked()), func(a ack) bool {
		return there[a.key] == fmt.Sprint(a.revision, a.value)
	})
}

// wantKept fails unless every member of a deployment has everything that was
// acknowledged.
func (c *crowd) wantKept(t *testing.T, d *deployment) {
	t.Helper()
	c.wantKeptThrough(t, d, math.MaxInt64)
}

// wantKeptThrough is wantKept for the revisions up to r.
func (c *crowd) wantKeptThrough(t *testing.T, d *deployment, r int64) {
	t.Helper()
	for _, m := range d.members {
		client, err := m.dial()
		if err != nil {
			t.Fatal(err)
		}
		lost := slices.DeleteFunc(c.lost(t, client), func(a ack) bool { return a.revision > r })
		_ = client.Close()
		if len(lost) > 0 {
			last := slices.MaxFunc(lost, func(a, b ack) int { return int(a.revision - b.revision) })
			t.Errorf("%s lacks %d of %d acknowledged writes, up to revision %d", m.name, len(lost), len(c.acked()), last.revision)
		}
	}
}

// wantKeptIn is wantKept for a data dir.
func (c *crowd) wantKeptIn(t *testing.T, dataDir string) {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.WithDataDir(dataDir))
	if lost := c.lost(t, e.Client(t)); len(lost) > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", len(lost), len(c.acked()))
	}
}

// wantBefore fails if any write of c was acknowledged by its deployment after
// another one's had begun to acknowledge.
func (c *crowd) wantBefore(t *testing.T, next *crowd) {
	t.Helper()
	later := next.acked()
	if len(later) == 0 {
		t.Fatal("the next one has acknowledged nothing")
	}
	first := slices.MinFunc(later, func(a, b ack) int { return a.received.Compare(b.received) })
	for _, a := range c.acked() {
		if !a.sent.Before(first.received) {
			t.Errorf("%s was acknowledged %v after %s had been by the next owner", a.key, a.sent.Sub(first.received), first.key)
		}
	}
}

// wantNothingAfter fails if anything was acknowledged that was sent after a moment.
func (c *crowd) wantNothingAfter(t *testing.T, moment time.Time) {
	t.Helper()
	for _, a := range c.acked() {
		if a.sent.After(moment) {
			t.Errorf("%s was acknowledged, and sent %v too late", a.key, a.sent.Sub(moment))
		}
	}
}

func (c *crowd) String() string {
	return fmt.Sprintf("%s: %d acknowledged, %d not", strings.SplitN(c.prefix, "/", 2)[0], len(c.acked()), c.failures())
}
