package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

const (
	demoPods    = 14_000
	demoEvents  = 6_000 // of the continuous integration, to be deleted at once
	demoWriters = 24
	demoChunk   = 50   // keys of one transaction, to begin with
	demoTTL     = 3600 // seconds, of every lease
	// demoLeaseSteps is how many steps a client does with a lease.
	demoLeaseSteps = 300
	// demoPatience is how long a client waits for an answer. An etcd that has ended
	// refuses at once; a busy one must not be asked again and again.
	demoPatience = 15 * time.Second
	eventsOfCI   = "/registry/events/ci/"
)

// errTaken ends the demo: somebody else wrote what only a writer of ours may.
var errTaken = errors.New("a key that is new exists already")

// The etcds of a load, by their place.
const (
	sourceEtcd = iota
	destinationEtcd
)

// load writes to etcd as a Kubernetes API server does, and keeps a book of what
// etcd has acknowledged. A writer that is refused goes to the other etcd and does
// there what was refused, and so on until it is done: it never stops, and at its
// end nothing is in doubt.
type load struct {
	etcds [2]*clientv3.Client

	mu     sync.Mutex
	book   map[string]entry // by key: the last acknowledged write
	leases []clientv3.LeaseID
	by     [2]acknowledged // what each etcd has
}

// acknowledged is what an etcd has acknowledged.
type acknowledged struct {
	writes      int64
	first, last time.Time
}

// entry is the state of a key; revision 0 means deleted.
type entry struct {
	revision int64
	lease    clientv3.LeaseID
}

func newLoad(source, destination *clientv3.Client) *load {
	return &load{etcds: [2]*clientv3.Client{source, destination}, book: map[string]entry{}}
}

// writer is one client.
type writer struct {
	*load
	number int
	at     int // of etcds
}

// all runs all writers at once.
func (l *load) all(ctx context.Context, work func(context.Context, *writer) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for number := range demoWriters {
		g.Go(func() error { return work(ctx, &writer{load: l, number: number}) })
	}
	return g.Wait()
}

// fill writes the keys that are there before the story begins.
func (l *load) fill(ctx context.Context) error {
	return l.all(ctx, func(ctx context.Context, w *writer) error {
		lease, err := w.grant(ctx)
		if err != nil {
			return err
		}
		var pods, events []string
		for i := w.number; i < demoPods; i += demoWriters {
			pods = append(pods, pod(i))
		}
		for i := w.number; i < demoEvents; i += demoWriters {
			events = append(events, event(i))
		}
		return errors.Join(w.putAll(ctx, pods, 0), w.putAll(ctx, events, lease))
	})
}

// putAll writes keys, many in one transaction.
func (w *writer) putAll(ctx context.Context, keys []string, lease clientv3.LeaseID) error {
	for some := range slices.Chunk(keys, demoChunk) {
		err := w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
			var puts []clientv3.Op
			for _, key := range some {
				puts = append(puts, clientv3.OpPut(key, object(key), clientv3.WithLease(lease)))
			}
			r, err := c.Txn(ctx).Then(puts...).Commit()
			if err == nil {
				w.acknowledged(entry{r.Header.Revision, lease}, some...)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func event(i int) string { return fmt.Sprintf("%sbuild-%05d", eventsOfCI, i) }

func pod(i int) string { return fmt.Sprintf("/registry/pods/team-%02d/app-%05d", i%40, i) }

// run writes until stop ends; a write that was begun is brought to its end.
func (l *load) run(ctx, stop context.Context) error {
	return l.all(ctx, func(ctx context.Context, w *writer) (err error) {
		var lease clientv3.LeaseID
		for i := 0; err == nil && stop.Err() == nil; i++ {
			if i%demoLeaseSteps == 0 {
				lease, err = w.grant(ctx)
			}
			if err == nil {
				err = w.step(ctx, i, lease)
			}
		}
		return err
	})
}

// step does the i-th write. No two writers touch the same key.
func (w *writer) step(ctx context.Context, i int, lease clientv3.LeaseID) error {
	mine := pod(w.number + demoWriters*rand.N(demoPods/demoWriters))
	switch i % 8 {
	case 0:
		return w.create(ctx, fmt.Sprintf("/registry/jobs/batch/job-%02d-%06d", w.number, i))
	case 1:
		return w.put(ctx, fmt.Sprintf("/registry/events/default/node-%02d-%06d", w.number, i), lease)
	case 2:
		return w.put(ctx, fmt.Sprintf("/registry/leases/kube-node-lease/node-%02d", w.number), lease)
	case 3:
		return w.remove(ctx, mine)
	default:
		return w.put(ctx, mine, 0)
	}
}

// insist asks one etcd and the other until one does what is asked.
func (w *writer) insist(ctx context.Context, ask func(context.Context, *clientv3.Client) error) error {
	for {
		patience, cancel := context.WithTimeout(ctx, demoPatience)
		err := ask(patience, w.etcds[w.at])
		cancel()
		if err == nil || errors.Is(err, errTaken) || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
		if err := pause(ctx, demoLook); err != nil {
			return err
		}
		w.at = 1 - w.at
	}
}

func (w *writer) grant(ctx context.Context) (id clientv3.LeaseID, err error) {
	err = w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Grant(ctx, demoTTL)
		if err == nil {
			id = r.ID
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = append(w.leases, id)
	return id, err
}

func (w *writer) put(ctx context.Context, key string, lease clientv3.LeaseID) error {
	return w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Put(ctx, key, object(key), clientv3.WithLease(lease))
		if err == nil {
			w.acknowledged(entry{r.Header.Revision, lease}, key)
		}
		return err
	})
}

// create writes a key that must not exist, as the API server creates objects. One
// that exists with the same value is its own, of a try that was not answered.
func (w *writer) create(ctx context.Context, key string) error {
	absent, value := clientv3.Compare(clientv3.ModRevision(key), "=", 0), object(key)
	return w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Txn(ctx).If(absent).Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		revision := r.Header.Revision
		if !r.Succeeded {
			there := r.Responses[0].GetResponseRange().Kvs[0]
			if string(there.Value) != value {
				return fmt.Errorf("%s: %w", key, errTaken)
			}
			revision = there.ModRevision
		}
		w.acknowledged(entry{revision, 0}, key)
		return nil
	})
}

func (w *writer) remove(ctx context.Context, key string) error {
	return w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Delete(ctx, key)
		if err == nil {
			w.acknowledged(entry{}, key)
		}
		return err
	})
}

// acknowledged writes into the book what became of one key, or of several.
func (w *writer) acknowledged(e entry, keys ...string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		w.book[key] = e
	}
	w.count(w.at, int64(len(keys)), now)
}

// count counts n more writes. The caller holds mu.
func (l *load) count(at int, n int64, now time.Time) {
	a := &l.by[at]
	if a.writes == 0 {
		a.first = now
	}
	a.writes += n
	a.last = now
}

// removeEvents has the source delete thousands of keys in one revision, which it
// returns.
func (l *load) removeEvents(ctx context.Context) (revision, keys int64, err error) {
	r, err := l.etcds[sourceEtcd].Delete(ctx, eventsOfCI, clientv3.WithPrefix())
	if err != nil {
		return 0, 0, fmt.Errorf("delete a prefix: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range demoEvents {
		l.book[event(i)] = entry{}
	}
	l.count(sourceEtcd, 1, time.Now())
	return r.Header.Revision, r.Deleted, nil
}

// acknowledgedBy returns what an etcd has acknowledged so far.
func (l *load) acknowledgedBy(at int) acknowledged {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[at]
}

// object returns a value of about 800 bytes, different at every call.
func object(key string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","metadata":{"name":%q,"uid":"%016x-%016x","labels":{"app.kubernetes.io/managed-by":"demo"}},`+
		`"spec":{"containers":[{"name":"main","image":"registry.example/app@sha256:%016x%016x%016x%016x","resources":`+
		`{"limits":{"cpu":"%dm","memory":"%dMi"}}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,`+
		`"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},`+
		`"status":{"phase":"Running","podIP":"10.%d.%d.%d","conditions":[{"type":"Initialized","status":"True"},`+
		`{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"},{"type":"PodScheduled","status":"True"}]}}`,
		key, rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(), rand.Uint64(),
		rand.N(4000), rand.N(8192), rand.N(256), rand.N(256), rand.N(256))
}
