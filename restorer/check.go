package restorer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

// CheckDB reads the whole database of an etcd that is not running: every page,
// and every key of the key bucket, whose revisions must ascend and whose values
// must be what etcd writes there. What is wrong with it wraps
// archive.ErrCorrupt.
func CheckDB(ctx context.Context, path string) error {
	if err := checkPages(path); err != nil {
		return err
	}
	return guarded(func() (err error) {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, PreLoadFreelist: true})
		if err != nil {
			return opened(err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return db.View(func(tx *bbolt.Tx) error {
			return errors.Join(checkBuckets(ctx, tx), checkTree(tx))
		})
	})
}

// checkTree is bbolt's own check.
func checkTree(tx *bbolt.Tx) error {
	var found error
	for err := range tx.Check() { // to its end, or bbolt waits forever
		if found == nil {
			found = fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
		}
	}
	return found
}

func checkBuckets(ctx context.Context, tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		check := func(_, _ []byte) error { return nil }
		if bytes.Equal(name, schema.Key.Name()) {
			check = ascending()
		}
		err := b.ForEach(func(k, v []byte) error {
			if err := check(k, v); err != nil {
				return fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
			}
			return ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		return nil
	})
}

// ascending returns a check to be called with each pair of the key bucket.
func ascending() func(k, v []byte) error {
	var last revision
	return func(k, v []byte) error {
		at, tombstone, err := parseRevision(k)
		if err != nil {
			return err
		}
		if at.main < last.main || at.main == last.main && at.sub <= last.sub && last.main > 0 {
			return fmt.Errorf("revision %s comes after %s", at, last)
		}
		last = at
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(v, &kv); err != nil {
			return fmt.Errorf("revision %s: %w", at, err)
		}
		placeholder := len(v) == 0 // of a bumped revision
		if !tombstone && !placeholder && kv.ModRevision != at.main {
			return fmt.Errorf("revision %s holds a change of revision %d", at, kv.ModRevision)
		}
		return nil
	}
}

// opened classifies an error of bbolt.Open.
func opened(err error) error {
	for _, broken := range []error{bbolterrors.ErrInvalid, bbolterrors.ErrChecksum, bbolterrors.ErrVersionMismatch} {
		if errors.Is(err, broken) {
			return fmt.Errorf("%w: %w", archive.ErrCorrupt, err)
		}
	}
	return err
}

// guarded calls f and makes an error of what bbolt and etcd do when a database
// is broken: they panic, or touch memory that is not there.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: database: %v", archive.ErrCorrupt, p)
		}
	}()
	return f()
}
