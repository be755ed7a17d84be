package datadir

import (
	"context"
	"fmt"
	"hash"
	"hash/crc32"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// HashKV returns what etcd would answer when asked for the hash of its newest
// revision, or ErrNoHash. It reads all keys, and remembers the names of those
// that have changed since the last compaction.
func (s *Snapshot) HashKV(ctx context.Context) (snapshot.HashKV, error) {
	if s.db.unfinished {
		return snapshot.HashKV{}, ErrNoHash
	}
	h := hasher{ctx: ctx, compacted: s.CompactRevision, sum: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	if err := s.db.view(h.run); err != nil {
		return snapshot.HashKV{}, fmt.Errorf("hash of the keys: %w", err)
	}
	return snapshot.HashKV{Revision: s.Revision, CompactRevision: s.CompactRevision, Hash: h.sum.Sum32()}, nil
}

// hasher computes etcd's hash of the newest revision (mvcc, hash.go). etcd takes
// from its index which revisions are the newest of a key that exists, and leaves
// out of what was compacted all others. Here what changed after the compaction
// is looked through first: a key of which there is a later change has no
// compacted revision that counts.
type hasher struct {
	ctx       context.Context
	compacted int64
	sum       hash.Hash32
	changed   map[string]bool // whether the key exists
	exists    bool            // a key does
}

func (h *hasher) run(tx *bbolt.Tx) error {
	keys := tx.Bucket(schema.Key.Name())
	h.sum.Write(schema.Key.Name())
	if keys == nil {
		return nil
	}
	h.changed = make(map[string]bool)
	if err := h.each(keys, h.look); err != nil {
		return err
	}
	for _, exists := range h.changed {
		h.exists = h.exists || exists
	}
	if err := h.each(keys, h.lookCompacted); err != nil {
		return err
	}
	return h.each(keys, h.add)
}

// change is a pair of the key bucket.
type change struct {
	id, value []byte
	main      int64
	deletes   bool
}

// each calls f for every change, or until it returns false.
func (h *hasher) each(keys *bbolt.Bucket, f func(change) (more bool, err error)) error {
	c := keys.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		deletes := len(k) == revisionSize+1 && k[revisionSize] == tombstone
		more, err := f(change{k, v, mvcc.BytesToRev(k).Main, deletes})
		if err == nil {
			err = h.ctx.Err()
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// look collects what has changed since the compaction.
func (h *hasher) look(c change) (more bool, err error) {
	if c.main <= h.compacted {
		return true, nil
	}
	key, err := c.key()
	h.changed[string(key)] = !c.deletes
	return true, err
}

// lookCompacted finds out whether a key exists that has not changed since.
func (h *hasher) lookCompacted(c change) (more bool, err error) {
	if h.exists || c.main > h.compacted {
		return false, nil
	}
	key, err := c.key()
	_, later := h.changed[string(key)]
	h.exists = !later && !c.deletes
	return true, err
}

func (h *hasher) add(c change) (more bool, err error) {
	skip, err := h.skips(c)
	if !skip {
		h.sum.Write(c.id)
		h.sum.Write(c.value)
	}
	return true, err
}

func (h *hasher) skips(c change) (bool, error) {
	if c.main > h.compacted {
		return false, nil
	}
	if c.deletes && c.main == h.compacted { // some versions of etcd keep it
		return true, nil
	}
	if !h.exists { // so does etcd: "don't skip if there isn't one"
		return false, nil
	}
	key, err := c.key()
	_, later := h.changed[string(key)]
	return later || c.deletes, err
}

const (
	// revisionSize is that of an id in the key bucket: 8 bytes, '_', 8 bytes,
	// followed by tombstone for a deletion.
	revisionSize = 8 + 1 + 8
	tombstone    = 't'
	keyField     = 1 // of mvccpb.KeyValue
)

// key returns which key has changed, without decoding the value.
func (c change) key() ([]byte, error) {
	for rest := c.value; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, fmt.Errorf("%w: revision %x", ErrBroken, c.id)
		}
		if number == keyField && kind == protowire.BytesType {
			key, n := protowire.ConsumeBytes(rest[n:])
			if n < 0 {
				return nil, fmt.Errorf("%w: revision %x", ErrBroken, c.id)
			}
			return key, nil
		}
		skip := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if skip < 0 {
			return nil, fmt.Errorf("%w: revision %x", ErrBroken, c.id)
		}
		rest = rest[n+skip:]
	}
	return nil, nil // the placeholder of a bumped revision
}
