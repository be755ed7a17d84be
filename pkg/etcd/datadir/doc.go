// Package datadir reads what an etcd that has ended left in its data dir: the
// final snapshot of a hand-over (HANDOVER §5). Nothing in the data dir is
// changed.
//
// etcd acknowledges a write when the WAL has it; the database gets it up to
// 100 ms later. So a database is complete if it has applied the last entry of
// the WAL. That is looked at, not concluded from how etcd ended: Final reads the
// database as it is if it is complete, and otherwise replays the missing entries
// on a copy.
//
// The replay feeds the WAL's entries to etcd's own applier
// (etcdserver/apply, the code that every member runs on every entry), on etcd's
// own store. No etcd is started: nobody is elected, no lease expires, no port
// and no socket is opened, and neither the cluster version nor the storage
// version moves up to that of the library. Nor is anything lost that had not
// been marked as committed, which --force-new-cluster would drop: of a cluster
// of one member, all that is in the WAL is committed. Other clusters are refused.
package datadir
