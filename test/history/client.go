package history

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Client is a client whose calls are written down. An error of it means that it is
// not known what has become of a write.
type Client struct {
	History *History
	Etcd    *clientv3.Client
	Tenancy int
	Member  string // whom Etcd asks
}

func (c Client) op(kind Kind, key string) Op {
	return Op{Kind: kind, Tenancy: c.Tenancy, Member: c.Member, Key: c.History.Prefix + key}
}

// Put writes a new value.
func (c Client) Put(ctx context.Context, key string) (Op, error) {
	o := c.History.begin(c.op(Put, key))
	r, err := c.Etcd.Put(ctx, o.Key, o.Wrote)
	if err != nil {
		return Op{}, err
	}
	return c.History.end(o, func(o *Op) { o.Applied, o.Revision = true, r.Header.Revision }), nil
}

// Swap writes a new value if the key was last changed at revision was, 0: never.
// Otherwise it reads.
func (c Client) Swap(ctx context.Context, key string, was int64) (Op, error) {
	asked := c.op(Swap, key)
	asked.Was = was
	o := c.History.begin(asked)
	r, err := c.Etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(o.Key), "=", was)).
		Then(clientv3.OpPut(o.Key, o.Wrote)).
		Else(clientv3.OpGet(o.Key)).Commit()
	if err != nil {
		return Op{}, err
	}
	return c.History.end(o, func(o *Op) {
		o.Applied, o.Revision = r.Succeeded, r.Header.Revision
		if !r.Succeeded {
			o.found(r.Responses[0].GetResponseRange().Kvs)
		}
	}), nil
}

// Get is a linearizable read.
func (c Client) Get(ctx context.Context, key string) (Op, error) { return c.read(ctx, Get, key) }

// Peek is a serializable read: it may be old.
func (c Client) Peek(ctx context.Context, key string) (Op, error) {
	return c.read(ctx, Peek, key, clientv3.WithSerializable())
}

func (c Client) read(ctx context.Context, kind Kind, key string, how ...clientv3.OpOption) (Op, error) {
	o := c.History.begin(c.op(kind, key))
	r, err := c.Etcd.Get(ctx, o.Key, how...)
	if err != nil {
		return Op{}, err
	}
	return c.History.end(o, func(o *Op) {
		o.Revision = r.Header.Revision
		o.found(r.Kvs)
	}), nil
}

func (o *Op) found(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		o.Read, o.Modified = string(kv.Value), kv.ModRevision
	}
}

// Watch writes down all events from a revision on, until the watch breaks. It
// returns the revision that it has to go on from.
func (c Client) Watch(ctx context.Context, from int64) (next int64, err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	s := &stream{tenancy: c.Tenancy, member: c.Member, from: from}
	c.History.watch(s)
	for r := range c.Etcd.Watch(ctx, c.History.Prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		for _, e := range r.Events {
			c.History.event(s, Write{e.Kv.ModRevision, string(e.Kv.Key), string(e.Kv.Value)})
			from = e.Kv.ModRevision + 1
		}
		if err := r.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) {
				from = max(from, r.CompactRevision+1)
			}
			return from, err
		}
	}
	return from, ctx.Err()
}
