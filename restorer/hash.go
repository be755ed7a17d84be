package restorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Hash computes, with etcd's own code, what an etcd on dataDir would answer when
// asked for its HashKV at a revision, 0 for the newest. If compactRevision is
// higher than what dataDir is compacted to, it is compacted to there first:
// hashes can be compared only of what is compacted alike. So dataDir is written
// to, and should be a throw-away. Memory is needed for every key, as by etcd.
//
// The CompactRevision of the answer is higher than asked for if dataDir was
// compacted further already.
func Hash(ctx context.Context, dataDir string, revision, compactRevision int64) (h snapshot.HashKV, err error) {
	err = guarded(func() error {
		if err := compactTo(ctx, dataDir, compactRevision); err != nil {
			return err
		}
		// Opened anew, because a store that has compacted answers for the
		// compacted revision with what it computed on the way.
		h, err = hashAt(dataDir, revision)
		return err
	})
	return h, err
}

func hashAt(dataDir string, revision int64) (h snapshot.HashKV, err error) {
	kv := openStore(dataDir)
	defer func() { err = errors.Join(err, kv.Close()) }()
	hash, current, err := kv.HashStorage().HashByRev(revision)
	if err != nil {
		return h, fmt.Errorf("hash at revision %d of %d: %w", revision, current, err)
	}
	if revision == 0 {
		revision = current
	}
	return snapshot.HashKV{Revision: revision, CompactRevision: hash.CompactRevision, Hash: hash.Hash}, nil
}

func compactTo(ctx context.Context, dataDir string, revision int64) (err error) {
	if revision <= 0 {
		return nil
	}
	kv := openStore(dataDir)
	defer func() { err = errors.Join(err, kv.Close()) }()
	if revision <= kv.FirstRev() {
		return nil
	}
	done, err := kv.Compact(traceutil.TODO(), revision)
	if err != nil {
		return fmt.Errorf("compact to revision %d of %d: %w", revision, kv.Rev(), err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keyStore is etcd's store of keys and the database below it.
type keyStore struct {
	mvcc.KV
	backend backend.Backend
}

// openStore panics if the database is broken, see guarded.
func openStore(dataDir string) keyStore {
	config := backend.DefaultBackendConfig(quiet())
	config.Path, config.Timeout, config.UnsafeNoFsync = databasePath(dataDir), lockTimeout, true
	b := backend.New(config)
	kv := mvcc.NewStore(quiet(), b, &lease.FakeLessor{}, mvcc.StoreConfig{
		CompactionBatchLimit:    100_000, // nobody waits for the database meanwhile
		CompactionSleepInterval: time.Microsecond,
	})
	return keyStore{kv, b}
}

func (s keyStore) Close() error { return errors.Join(s.KV.Close(), s.backend.Close()) }

// quiet returns a logger for etcd's code: what matters comes back as an error,
// and what etcd would end the process for becomes a panic.
func quiet() *zap.Logger {
	return zap.New(zapcore.NewNopCore(), zap.WithFatalHook(zapcore.WriteThenPanic))
}
