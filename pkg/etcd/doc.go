// Package etcd is what etcd-ferry needs of a running etcd: its status, its
// snapshot stream, its event stream and its hash.
//
// A Client talks to one member at a time. That matters: a linearizable read
// answered by a member proves that this member, not just the cluster, has
// applied everything up to the revision of the answer, so a snapshot streamed
// by the same member holds at least that revision. Status moves on to the next
// endpoint when the present one does not answer.
//
// Events come from the raw watch stream (etcdserverpb.WatchClient) and not from
// clientv3's Watcher, which buffers without bound: whoever is slow to call
// Watch.Next pushes back on etcd through the flow control of HTTP/2, and etcd
// keeps nothing but the watcher's position. A watcher that has caught up is
// ended, and made again a moment later: an etcd that has to tell one of every
// write at once is measurably slower to answer it. Responses may be fragments, so that
// a revision can be larger than one message. Every revision of etcd changes at
// least one key, hence a revision missing from the stream is a lost event; the
// format in package delta refuses to hide one.
//
// The raft fence keeps all members of a cluster from applying any write, until
// it is lifted. What concerns an etcd on this machine is in package fence, which
// ends it and keeps it from serving, and in package datadir, which reads what it
// has left.
//
// Not promised: leases that never had a key attached, and changes of users,
// roles and alarms, are not in the event stream. AuthRevision in Status tells
// when a new full snapshot is due.
package etcd
