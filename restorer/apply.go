package restorer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// fillPercent of the pages of the key bucket. Nothing is ever inserted between
// two keys, so room in a page would stay unused.
const fillPercent = 1.0

// minTTL stands for a time to live that nobody knows, in seconds. etcd raises it
// to the least that it allows.
const minTTL = 1

// applier appends events to a database, as etcd would have when they happened.
type applier struct {
	db      *bbolt.DB
	txSize  int
	advance func(plain int64)

	tx          *bbolt.Tx // nil between transactions
	keyBucket   *bbolt.Bucket
	leaseBucket *bbolt.Bucket
	pending     int // bytes in tx

	after string // the snapshot that brought the history to at
	at    revision
	until int64 // the last revision to apply
	known int64 // revisions up to here were there before the present delta

	owed []delta.Lease // mentioned, and to be written before the next event

	events, leases int64 // applied
}

func (j *job) newApplier(db *bbolt.DB, at int64) *applier {
	a := &applier{
		db: db, txSize: j.TxSize, advance: j.advance,
		after: j.plan.Chain.Full.Name,
		at:    revision{main: at},
		until: math.MaxInt64,
	}
	if t := j.plan.Options.Target.Revision; t > 0 {
		a.until = t
	}
	return a
}

// applyAll applies feeds until there are no more.
func (a *applier) applyAll(ctx context.Context, feeds <-chan *feed) (err error) {
	defer func() { err = errors.Join(err, a.end(err == nil)) }()
	for f := range feeds {
		if err := a.applyFeed(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// applyFeed applies a delta. What it has written is proven only when it returns
// nil.
func (a *applier) applyFeed(ctx context.Context, f *feed) error {
	a.known = a.at.main
	whole := false
	for b := range f.batches {
		for _, r := range b.records {
			if err := a.apply(r); err != nil {
				return fmt.Errorf("%s: %w", f.manifest.Name, err)
			}
		}
		a.advance(b.plain)
		whole = b.last
	}
	if !whole { // whoever fills the feed has an error to return, which ends ctx
		<-ctx.Done()
		return context.Cause(ctx)
	}
	a.after = f.manifest.Name
	return nil
}

func (a *applier) apply(r delta.Record) error {
	if r.Lease.ID != 0 {
		a.owed = append(a.owed, r.Lease)
		return nil
	}
	if r.Revision <= a.known || r.Revision > a.until {
		return nil
	}
	if err := a.begin(); err != nil {
		return err
	}
	for _, l := range a.owed {
		if err := a.lease(l); err != nil {
			return err
		}
	}
	a.owed = a.owed[:0]
	if err := a.event(r); err != nil {
		return err
	}
	if a.pending >= a.txSize {
		return a.end(true)
	}
	return nil
}

func (a *applier) event(r delta.Record) error {
	next := revision{r.Revision, r.Sub}
	if !next.follows(a.at) {
		return fmt.Errorf("%w: it goes on with revision %s, %s ended with %s", snapshot.ErrGap, next, a.after, a.at)
	}
	a.at = next
	var scratch [revisionKeySize]byte // bbolt keeps a copy of the key, and the value until the commit
	value := r.KeyValue
	if r.Tombstone {
		var err error
		if value, err = proto.Marshal(&mvccpb.KeyValue{Key: r.Key}); err != nil {
			return err
		}
	}
	a.events++
	a.pending += len(value)
	return a.keyBucket.Put(next.appendKey(scratch[:0], r.Tombstone), value)
}

// lease writes a lease unless the database knows it as well or better.
func (a *applier) lease(l delta.Lease) error {
	key := binary.BigEndian.AppendUint64(nil, uint64(l.ID))
	if there := a.leaseBucket.Get(key); there != nil {
		var known leasepb.Lease
		if err := proto.Unmarshal(there, &known); err != nil {
			return fmt.Errorf("lease %x: %w", l.ID, err)
		}
		if l.TTL == 0 || l.TTL == known.TTL {
			return nil
		}
	}
	value, err := proto.Marshal(&leasepb.Lease{ID: l.ID, TTL: max(l.TTL, minTTL)})
	if err != nil {
		return err
	}
	a.leases++
	a.pending += len(value)
	return a.leaseBucket.Put(key, value)
}

// begin opens a transaction unless one is open.
func (a *applier) begin() (err error) {
	if a.tx != nil {
		return nil
	}
	if a.tx, err = a.db.Begin(true); err != nil {
		return err
	}
	if a.keyBucket, err = a.tx.CreateBucketIfNotExists(schema.Key.Name()); err != nil {
		return err
	}
	a.keyBucket.FillPercent = fillPercent
	a.leaseBucket, err = a.tx.CreateBucketIfNotExists(schema.Lease.Name())
	return err
}

// end commits the transaction, if one is open, or gives it up.
func (a *applier) end(commit bool) error {
	tx := a.tx
	if tx == nil {
		return nil
	}
	a.tx, a.pending = nil, 0
	if commit {
		return tx.Commit()
	}
	return tx.Rollback()
}
