package datadir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/api"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3alarm"
	"go.etcd.io/etcd/server/v3/etcdserver/apply"
	"go.etcd.io/etcd/server/v3/etcdserver/cindex"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// minLeaseTTL is the shortest time to live that etcd grants, in seconds, with
// its default --election-timeout (etcdserver, NewServer).
const minLeaseTTL = 2

// bcryptCost is etcd's default. Passwords come hashed with the request.
const bcryptCost = 10

// machine is the part of an etcd that applies committed entries to its database,
// put together as etcdserver.NewServer does. Nothing in it acts by itself: the
// lessor is not primary, so it ends no lease.
type machine struct {
	backend backend.Backend
	index   cindex.ConsistentIndexer
	lessor  lease.Lessor
	kv      mvcc.WatchableKV
	auth    auth.AuthStore
	applier apply.UberApplier
}

// newMachine panics if the database is broken, see guarded.
func newMachine(path string) (*machine, error) {
	log := quiet()
	m := &machine{index: cindex.NewConsistentIndex(nil)}
	config := backend.DefaultBackendConfig(log)
	config.Path, config.Timeout, config.UnsafeNoFsync = path, lockTimeout, true
	config.Hooks = storage.NewBackendHooks(log, m.index) // saves the index with every commit
	m.backend = backend.New(config)
	m.index.SetBackend(m.backend)
	cluster := membership.NewCluster(log)
	cluster.SetBackend(schema.NewMembershipBackend(log, m.backend))
	cluster.Recover(api.UpdateCapability)
	// The lessor comes before the keys, which are attached to their leases when
	// they are read.
	m.lessor = lease.NewLessor(log, m.backend, cluster, lease.LessorConfig{MinLeaseTTL: minLeaseTTL})
	m.kv = mvcc.New(log, m.backend, m.lessor, mvcc.StoreConfig{
		CompactionBatchLimit:    100_000, // nobody waits for the database meanwhile
		CompactionSleepInterval: time.Microsecond,
	})
	tokens, err := auth.NewTokenProvider(log, "", nil, 0) // nobody logs in
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.auth = auth.NewAuthStore(log, schema.NewAuthBackend(log, m.backend), tokens, bcryptCost)
	alarms, err := v3alarm.NewAlarmStore(log, schema.NewAlarmBackend(log, m.backend))
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	m.applier = apply.NewUberApplier(apply.ApplierOptions{
		Logger:                       log,
		KV:                           m.kv,
		AlarmStore:                   alarms,
		AuthStore:                    m.auth,
		Lessor:                       m.lessor,
		Cluster:                      cluster,
		RaftStatus:                   alone{},
		SnapshotServer:               alone{},
		ConsistentIndex:              m.index,
		TxnModeWriteWithSharedBuffer: true, // etcd's default
		Backend:                      m.backend,
		QuotaBackendBytesCfg:         -1, // none: exceeding it only raises an alarm, by another entry
	})
	return m, nil
}

// apply applies one entry of the WAL (etcdserver, applyEntryNormal).
func (m *machine) apply(ctx context.Context, e *raftpb.Entry) error {
	m.index.SetConsistentIndex(e.GetIndex(), e.GetTerm())
	// Members are none of a snapshot's: a restore makes its own. A new leader's
	// first entry is empty.
	if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 || isV2(e.Data) {
		return ctx.Err()
	}
	var r etcdserverpb.InternalRaftRequest
	if err := proto.Unmarshal(e.Data, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if r.ClusterMemberAttrSet != nil {
		return ctx.Err()
	}
	// Its own error is what the client was told, if it was.
	result := m.applier.Apply(&apply.InternalRaftRequestWrapper{
		InternalRaftRequest: &r,
		SkipRangeExecution:  r.Txn != nil,
	}, membership.ApplyBoth)
	if result == nil || result.Physc == nil {
		return ctx.Err()
	}
	select { // a compaction
	case <-result.Physc:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isV2 reports whether an entry is a request to the key space of API version 2:
// etcd 3.5 still keeps the members and their names there. etcd 3.7 cannot read
// such entries. They have a field 2, as a request of their own (Request.Method)
// or within an InternalRaftRequest (V2), and no others have.
func isV2(entry []byte) bool {
	for len(entry) > 0 {
		number, _, n := protowire.ConsumeField(entry)
		if n < 0 || number == 2 {
			return n > 0
		}
		entry = entry[n:]
	}
	return false
}

func (m *machine) close() error {
	var errs []error
	if m.auth != nil {
		errs = append(errs, m.auth.Close())
	}
	m.kv.Commit()
	errs = append(errs, m.kv.Close())
	m.lessor.Stop()
	return errors.Join(append(errs, m.backend.Close())...)
}

// alone is what the applier wants to know of raft.
type alone struct{}

func (alone) MemberID() types.ID     { return 0 }
func (alone) Leader() types.ID       { return 0 }
func (alone) CommittedIndex() uint64 { return 0 }
func (alone) AppliedIndex() uint64   { return 0 }
func (alone) Term() uint64           { return 0 }
func (alone) ForceSnapshot()         {}
