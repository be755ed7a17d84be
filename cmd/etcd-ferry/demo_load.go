package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	demoTTL     = 3600 // seconds, of every lease
	// demoLeaseSteps is how many steps a client does with a lease.
	demoLeaseSteps = 300
	// demoPatience is how long a client waits for an answer.
	demoPatience = time.Second
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
		for i := w.number; err == nil && i < demoPods; i += demoWriters {
			err = w.put(ctx, pod(i), 0)
		}
		for i := w.number; err == nil && i < demoEvents; i += demoWriters {
			err = w.put(ctx, fmt.Sprintf("%sbuild-%05d", eventsOfCI, i), lease)
		}
		return err
	})
}

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
			w.acknowledged(key, entry{r.Header.Revision, lease})
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
		w.acknowledged(key, entry{revision, 0})
		return nil
	})
}

func (w *writer) remove(ctx context.Context, key string) error {
	return w.insist(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Delete(ctx, key)
		if err == nil {
			w.acknowledged(key, entry{})
		}
		return err
	})
}

func (w *writer) acknowledged(key string, e entry) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book[key] = e
	w.count(w.at, now)
}

// count counts one more write. The caller holds mu.
func (l *load) count(at int, now time.Time) {
	a := &l.by[at]
	if a.writes == 0 {
		a.first = now
	}
	a.writes++
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
		l.book[fmt.Sprintf("%sbuild-%05d", eventsOfCI, i)] = entry{}
	}
	l.count(sourceEtcd, time.Now())
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
