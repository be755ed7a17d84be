package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// lockTimeout is for others that only read; etcd has ended.
const lockTimeout = 5 * time.Second

// database is etcd's database file, open for reading.
type database struct {
	Info
	file       *bbolt.DB
	members    []uint64
	unfinished bool   // a compaction is
	scratch    string // a folder that goes with the database
}

// openDatabase reads what Info says but for the cluster's and the member's id,
// which only the WAL knows.
func openDatabase(path string) (d *database, err error) {
	file, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, NoStatistics: true})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	d = &database{file: file}
	if err := d.view(d.read); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return d, nil
}

// view calls f with a transaction of its own.
func (d *database) view(f func(*bbolt.Tx) error) error {
	return guarded(func() error { return d.file.View(f) })
}

func (d *database) close() error { return errors.Join(d.file.Close(), os.RemoveAll(d.scratch)) }

func (d *database) read(bolt *bbolt.Tx) error {
	tx := reader{bolt}
	d.RaftIndex, d.RaftTerm = schema.UnsafeReadConsistentIndex(tx)
	finished, found := mvcc.UnsafeReadFinishedCompact(tx)
	d.CompactRevision = finished
	if !found {
		d.CompactRevision = -1
	}
	scheduled, found := mvcc.UnsafeReadScheduledCompact(tx)
	d.unfinished = found && scheduled != finished
	d.Revision = max(1, finished, scheduled, tx.lastKey())
	if v := schema.ReadStorageVersionFromSnapshot(bolt); v != nil {
		d.StorageVersion = v.String()
	}
	d.Size = bolt.Size() + trailerSize
	// Of these etcd's code would want to be given a whole backend.
	if v := tx.get(schema.Auth, schema.AuthRevisionKeyName); v != nil {
		d.AuthRevision = binary.BigEndian.Uint64(v)
	}
	d.ClusterVersion = string(tx.get(schema.Cluster, schema.ClusterClusterVersionKeyName))
	return tx.UnsafeForEach(schema.Members, func(id, _ []byte) error {
		member, err := strconv.ParseUint(string(id), 16, 64)
		d.members = append(d.members, member)
		return err
	})
}

// reader lets etcd's code read a database that is not in use by an etcd.
type reader struct{ tx *bbolt.Tx }

var _ backend.UnsafeReader = reader{}

// lastKey returns the revision of the last change, which may have been compacted
// away.
func (r reader) lastKey() int64 {
	keys := r.tx.Bucket(schema.Key.Name())
	if keys == nil {
		return 0
	}
	last, _ := keys.Cursor().Last()
	if last == nil {
		return 0
	}
	return mvcc.BytesToRev(last).Main
}

func (r reader) get(bucket backend.Bucket, key []byte) []byte {
	b := r.tx.Bucket(bucket.Name())
	if b == nil {
		return nil
	}
	return slices.Clone(b.Get(key))
}

// UnsafeRange returns the value of one key, which is all that is asked for here.
func (r reader) UnsafeRange(bucket backend.Bucket, key, _ []byte, _ int64) (keys, values [][]byte) {
	if v := r.get(bucket, key); v != nil {
		return [][]byte{key}, [][]byte{v}
	}
	return nil, nil
}

// UnsafeForEach visits all keys of a bucket.
func (r reader) UnsafeForEach(bucket backend.Bucket, visit func(k, v []byte) error) error {
	if b := r.tx.Bucket(bucket.Name()); b != nil {
		return b.ForEach(visit)
	}
	return nil
}

// quiet returns a logger for etcd's code: what matters comes back as an error,
// and what etcd would end the process for becomes a panic.
func quiet() *zap.Logger {
	return zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))
}

// guarded calls f and makes an error of what bbolt and etcd do when a database
// is broken: they panic, or touch memory that is not there.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrBroken, p)
		}
	}()
	return f()
}
