// Package restorer makes an etcd data dir from snapshots. It needs no etcd, and
// owns nothing: whoever calls it has decided that this data dir is to be made.
//
// NewPlan chooses, without doing anything: the full and the deltas that lead to
// the target. It refuses what would quietly restore less than is stored, or
// something that the etcd which will run it is too old for. Do carries the plan
// out:
//
//  1. etcdutl's own library restores an empty database into a staging folder
//     beside the data dir. That gives the WAL, the snap file and the members.
//  2. The full is streamed into the database file; the sha256 that etcd has
//     appended is checked and cut off. Every page of the file is looked at.
//  3. The revision of its content is read from its keys. The events of the
//     deltas that come after it are appended to bbolt's key bucket as etcd
//     writes them: at 8 bytes of revision, '_', 8 bytes of position ('t' for a
//     deletion), the KeyValue of the event, byte for byte. Keys ascend, so this
//     is as fast as the disk. While one delta is applied the next ones are
//     fetched, decompressed and decoded, a bounded number of bytes ahead.
//     Leases are written before the first event that refers to them.
//  4. Alarms that fenced a hand-over are removed, the revision is bumped if that
//     was asked for, and members and raft position of the skeleton are grafted
//     in.
//  5. Where it comes from is noted in it, see Origin. All is synced, what was in
//     the data dir is moved aside, and one rename puts the new one there.
//
// An error before the rename leaves the data dir as it was and no trace.
// The restored etcd answers with the same HashKV as its source did at the same
// revision, and a member that is alone has a new cluster id, by which later
// snapshots are known to be of another history.
//
// A mount point cannot be renamed, and beside a folder in somebody else's folder
// nothing can be made: there the staging folder is inside the data dir, and the
// folder "member" is what is moved aside and put in place.
//
// # Not promised
//
// Leases without a key, and users, roles and alarms that changed after the full,
// are those of the full. A lease that was revoked later is there again, and ends
// by itself. A lease of which nobody knew the time to live ends seconds after
// etcd starts. The owner and the group of the files are those of this process.
// Between moving aside and the rename is a moment without a data dir. After a
// crash the staging folder stays until the next restore into the same data dir.
package restorer
