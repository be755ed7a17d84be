package main

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// found is how an etcd compares with the book of a load.
type found struct {
	keys, deleted, attached int64
	leases                  int
	lost                    int64 // writes that should be there and are not, and whatever is there and should not
}

// check compares every key and lease of an etcd with the book.
func (l *load) check(ctx context.Context, c *clientv3.Client) (found, error) {
	there, err := allKeys(ctx, c)
	if err != nil {
		return found{}, err
	}
	var f found
	byLease := map[clientv3.LeaseID]int64{}
	for key, want := range l.book {
		kv, ok := there[key]
		delete(there, key)
		switch {
		case want.revision == 0 && !ok:
			f.deleted++
		case ok && kv.ModRevision == want.revision && clientv3.LeaseID(kv.Lease) == want.lease:
			f.keys++
			byLease[want.lease]++
		default:
			f.lost++
		}
	}
	f.lost += int64(len(there))
	return f, l.checkLeases(ctx, c, byLease, &f)
}

// checkLeases compares the leases themselves, and how many keys hang on each.
func (l *load) checkLeases(ctx context.Context, c *clientv3.Client, keys map[clientv3.LeaseID]int64, f *found) error {
	for _, id := range l.leases {
		if keys[id] == 0 {
			continue // a lease without keys is no event, and not in a delta
		}
		lease, err := c.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
		if err != nil {
			return fmt.Errorf("lease %x: %w", id, err)
		}
		if lease.GrantedTTL != demoTTL || int64(len(lease.Keys)) != keys[id] {
			f.lost++
			continue
		}
		f.leases++
		f.attached += keys[id]
	}
	return nil
}

// allKeys reads etcd page by page.
func allKeys(ctx context.Context, c *clientv3.Client) (map[string]*mvccpb.KeyValue, error) {
	const page = 2000
	all := map[string]*mvccpb.KeyValue{}
	for from := "\x00"; ; {
		r, err := c.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithLimit(page))
		if err != nil {
			return nil, fmt.Errorf("read all keys: %w", err)
		}
		for _, kv := range r.Kvs {
			all[string(kv.Key)] = kv
		}
		if !r.More {
			return all, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}
