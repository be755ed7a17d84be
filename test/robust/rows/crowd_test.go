package rows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/history"
)

const (
	// writers is how many clients write at a time: half of them on a connection
	// that they keep for as long as it lasts, half of them on a new one each time.
	writers = 16
	// readers is how many clients read at a time, every third of them serializably.
	readers = 3
	// registers is how many keys all clients share.
	registers = 8
	// answerTimeout is for how long a client waits.
	answerTimeout = time.Second
	// rest is how long a client waits between two calls, and idle if it has hung
	// up or failed: a connection costs more than a write.
	rest = 4 * time.Millisecond
	idle = 30 * time.Millisecond
)

// crowd is clients that write to every member of a deployment all the time, read
// and watch, whatever its readiness says. All that they are told is in the history
// of the test.
type crowd struct {
	*history.History
	id      string // of the crowd
	tenancy int
	cancel  context.CancelFunc
	group   sync.WaitGroup

	mu     sync.Mutex
	acks   []history.Op // writes that were acknowledged
	failed int          // writes that were not
}

// histories has one for each test: whatever is handed around in it is one etcd.
var histories sync.Map

func historyOf(t *testing.T) *history.History {
	t.Helper()
	h, had := histories.LoadOrStore(t, history.New())
	if !had {
		t.Cleanup(func() { histories.Delete(t) })
	}
	return h.(*history.History)
}

// writeTo starts a crowd. It goes on until it is stopped, or the test ends.
func writeTo(t *testing.T, d *deployment) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := historyOf(t)
	c := &crowd{History: h, id: fmt.Sprintf("%s-%x", d.ID, rand.Uint32()), tenancy: h.Tenancy(d.ID), cancel: cancel}
	n := len(d.members)
	for i := range writers {
		w := &writer{crowd: c, name: fmt.Sprintf("%s/%02d", c.id, i), was: map[string]int64{}}
		c.group.Go(func() { c.call(ctx, d.members[i%n], (i/n)%2 == 0, w.write) })
	}
	for i := range readers {
		c.group.Go(func() {
			c.call(ctx, d.members[i%n], true, func(ctx context.Context, to history.Client) bool { return read(ctx, to, i) })
		})
	}
	for _, m := range d.members {
		c.group.Go(func() { c.watch(ctx, m) })
	}
	t.Cleanup(c.stop)
	return c
}

// call has one client call a member again and again. It reports whether it was
// answered.
func (c *crowd) call(ctx context.Context, m *member, keep bool, once func(context.Context, history.Client) bool) {
	var client *clientv3.Client
	hangUp := func() {
		if client != nil {
			_ = client.Close()
			client = nil
		}
	}
	defer hangUp()
	for ctx.Err() == nil {
		if client == nil {
			var err error
			if client, err = m.dial(); err != nil {
				continue
			}
		}
		pause := rest
		if !c.answered(ctx, once, history.Client{History: c.History, Etcd: client, Tenancy: c.tenancy, Member: m.name}) {
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

func (c *crowd) answered(ctx context.Context, once func(context.Context, history.Client) bool, to history.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return once(ctx, to)
}

// writer is one client that writes.
type writer struct {
	*crowd
	name  string
	calls int
	was   map[string]int64 // the revisions of registers, as far as it knows
}

// write puts a key that is never used again, mostly, and else changes one that all
// of them share.
func (w *writer) write(ctx context.Context, to history.Client) bool {
	w.calls++
	var o history.Op
	var err error
	key := fmt.Sprintf("w/%s/%08d", w.name, w.calls)
	switch w.calls % 8 {
	case 3:
		o, err = to.Put(ctx, register())
	case 7:
		key = register()
		o, err = to.Swap(ctx, key, w.was[key])
	default:
		o, err = to.Put(ctx, key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.failed++
		return false
	case o.Applied:
		w.acks = append(w.acks, o)
	default:
		w.was[key] = o.Modified // to be tried with the next time
	}
	return true
}

func register() string { return fmt.Sprint("r/", rand.IntN(registers)) }

// read is one call of the i-th reader.
func read(ctx context.Context, to history.Client, i int) bool {
	ask := to.Get
	if i%3 == 2 {
		ask = to.Peek
	}
	_, err := ask(ctx, register())
	return err == nil
}

// watch watches all of the history at a member, and goes on where it was
// interrupted.
func (c *crowd) watch(ctx context.Context, m *member) {
	from := int64(1)
	for ctx.Err() == nil {
		client, err := m.dial()
		if err != nil {
			continue
		}
		to := history.Client{History: c.History, Etcd: client, Tenancy: c.tenancy, Member: m.name}
		from, _ = to.Watch(ctx, from) // it has ended, why does not matter
		_ = client.Close()
		select {
		case <-ctx.Done():
		case <-time.After(idle):
		}
	}
}

// stop ends the crowd and waits for its last calls.
func (c *crowd) stop() {
	c.cancel()
	c.group.Wait()
}

func (c *crowd) acked() []history.Op {
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

// wantKept fails unless every member of a deployment has what one etcd would have
// that has told all clients of the test what they were told: see package history.
func (c *crowd) wantKept(t *testing.T, d *deployment) {
	t.Helper()
	for _, m := range d.members {
		client, err := m.dial()
		if err != nil {
			t.Fatal(err)
		}
		c.wantOneEtcd(t, m.name, client)
		_ = client.Close()
	}
}

func (c *crowd) wantOneEtcd(t *testing.T, name string, client *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	violations, err := c.Check(ctx, client)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	t.Log("the history: ", c.History)
	for _, v := range violations {
		t.Errorf("with %s this is not the history of one etcd: %s", name, v)
	}
}

// givenUp notes a decision that all is lost that c was told above a revision.
func (c *crowd) givenUp(above int64) { c.GivenUp(c.tenancy, above) }

// wantKeptThrough is wantKept after such a decision.
func (c *crowd) wantKeptThrough(t *testing.T, d *deployment, revision int64) {
	t.Helper()
	c.givenUp(revision)
	c.wantKept(t, d)
}

// wantKeptIn is wantKept for a data dir.
func (c *crowd) wantKeptIn(t *testing.T, dataDir string) {
	t.Helper()
	e := etcdtest.Start(t, etcdtest.WithDataDir(dataDir))
	c.wantOneEtcd(t, dataDir, e.Client(t))
}

// wantBefore fails unless next is a later owner's, and has been told something: only
// then wantKept can tell that c's owner has told nothing since.
func (c *crowd) wantBefore(t *testing.T, next *crowd) {
	t.Helper()
	if n := len(next.acked()); next.tenancy <= c.tenancy || n == 0 {
		t.Errorf("the next owner has acknowledged %d writes, in tenancy %d after %d", n, next.tenancy, c.tenancy)
	}
}

// wantNothingAfter fails if anything was acknowledged that was sent after a moment.
func (c *crowd) wantNothingAfter(t *testing.T, moment time.Time) {
	t.Helper()
	for _, a := range c.acked() {
		if late := a.Call - c.At(moment); late > 0 {
			t.Errorf("%s was acknowledged, and sent %v too late", a, late)
		}
	}
}

func (c *crowd) String() string {
	return fmt.Sprintf("%s: %d acknowledged, %d not", c.id, len(c.acked()), c.failures())
}
