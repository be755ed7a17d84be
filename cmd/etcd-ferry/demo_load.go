package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

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
	eventsOfCI     = "/registry/events/ci/"
)

// load writes to etcd as a Kubernetes API server does, and keeps a book of what
// etcd has acknowledged.
type load struct {
	etcd *clientv3.Client

	mu     sync.Mutex
	book   map[string]entry // by key: the last acknowledged write
	leases []clientv3.LeaseID
	writes int // acknowledged
}

// entry is the state of a key; revision 0 means deleted.
type entry struct {
	revision int64
	lease    clientv3.LeaseID
}

func newLoad(c *clientv3.Client) *load { return &load{etcd: c, book: map[string]entry{}} }

// fill writes the keys that are there before the first snapshot.
func (l *load) fill(ctx context.Context) error {
	lease, err := l.grant(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for w := range demoWriters {
		g.Go(func() error {
			for i := w; i < demoPods; i += demoWriters {
				if err := l.put(ctx, pod(i), 0); err != nil {
					return err
				}
			}
			for i := w; i < demoEvents; i += demoWriters {
				if err := l.put(ctx, fmt.Sprintf("%sbuild-%05d", eventsOfCI, i), lease); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func pod(i int) string { return fmt.Sprintf("/registry/pods/team-%02d/app-%05d", i%40, i) }

// run writes until stop ends; a write that was begun is brought to its end.
func (l *load) run(ctx, stop context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for w := range demoWriters {
		g.Go(func() error {
			var lease clientv3.LeaseID
			var err error
			for i := 0; err == nil && stop.Err() == nil; i++ {
				if i%demoLeaseSteps == 0 {
					lease, err = l.grant(ctx)
				}
				if err == nil {
					err = l.step(ctx, w, i, lease)
				}
			}
			return err
		})
	}
	return g.Wait()
}

// step does the i-th write of a writer. No two writers touch the same key.
func (l *load) step(ctx context.Context, writer, i int, lease clientv3.LeaseID) error {
	mine := pod(writer + demoWriters*rand.N(demoPods/demoWriters))
	switch i % 8 {
	case 0:
		return l.create(ctx, fmt.Sprintf("/registry/jobs/batch/job-%02d-%06d", writer, i))
	case 1:
		return l.put(ctx, fmt.Sprintf("/registry/events/default/node-%02d-%06d", writer, i), lease)
	case 2:
		return l.put(ctx, fmt.Sprintf("/registry/leases/kube-node-lease/node-%02d", writer), lease)
	case 3:
		return l.remove(ctx, mine)
	default:
		return l.put(ctx, mine, 0)
	}
}

func (l *load) grant(ctx context.Context) (clientv3.LeaseID, error) {
	r, err := l.etcd.Grant(ctx, demoTTL)
	if err != nil {
		return 0, fmt.Errorf("grant a lease: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = append(l.leases, r.ID)
	return r.ID, nil
}

func (l *load) put(ctx context.Context, key string, lease clientv3.LeaseID) error {
	r, err := l.etcd.Put(ctx, key, object(key), clientv3.WithLease(lease))
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	l.acknowledged(key, entry{r.Header.Revision, lease})
	return nil
}

// create writes a key that must not exist, as the API server creates objects.
func (l *load) create(ctx context.Context, key string) error {
	absent := clientv3.Compare(clientv3.ModRevision(key), "=", 0)
	r, err := l.etcd.Txn(ctx).If(absent).Then(clientv3.OpPut(key, object(key))).Commit()
	if err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	if !r.Succeeded {
		return errors.New("transaction: a new key exists already: " + key)
	}
	l.acknowledged(key, entry{r.Header.Revision, 0})
	return nil
}

func (l *load) remove(ctx context.Context, key string) error {
	if _, err := l.etcd.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	l.acknowledged(key, entry{})
	return nil
}

// removeEvents deletes thousands of keys in one revision, which it returns.
func (l *load) removeEvents(ctx context.Context) (revision, keys int64, err error) {
	r, err := l.etcd.Delete(ctx, eventsOfCI, clientv3.WithPrefix())
	if err != nil {
		return 0, 0, fmt.Errorf("delete a prefix: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range demoEvents {
		l.book[fmt.Sprintf("%sbuild-%05d", eventsOfCI, i)] = entry{}
	}
	l.writes++
	return r.Header.Revision, r.Deleted, nil
}

func (l *load) acknowledged(key string, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book[key] = e
	l.writes++
}

// count returns how many writes were acknowledged so far.
func (l *load) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.writes)
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
