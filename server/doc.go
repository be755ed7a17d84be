// Package server is the daemon: a snapshotter that runs on schedule, the source of
// a hand-over, and HTTP to watch both and to ask for more.
//
//	GET  /                 the status page, see package page
//	GET  /openapi.yaml     all of this, for machines
//	GET  /healthz          200 while clients may use etcd, else 503
//	GET  /livez            200 while this process answers
//	GET  /metrics          Prometheus
//	GET  /snapshots        everything stored, and what can be restored of it
//	GET  /snapshot/latest  the chain that a restore would use now
//	POST /snapshot/full    takes a full now and answers with its manifest
//	POST /snapshot/delta   stores what is new; 204 if nothing is
//
// With an Election, and else 501:
//
//	POST /copyop/initiate  wants a hand-over: 201, or 200 if it is pending already
//	POST /copyop/abort     takes it back until it is decided, then 409
//	POST /copyop/reclaim   takes it back until it is committed, then 409
//	GET  /copyop/status    how far it is; ?fresh=true reads the store for it
//	GET  /owner            who holds the container, and until when
//	GET  /gate             200 as soon as etcd may start, 423 after 30 s
//	GET  /livez/etcd       503 while an etcd runs that must not
//
// Errors are {"error":{"code","message","operationID"}}. Who may POST is said by
// Access; each POST writes an audit line. Copy mode and verify mode answer less, see
// there. How connections are treated is told in package web.
//
// An Election is the state machine of HANDOVER §8. One goroutine changes its
// state; a state is a function, and what it began is undone when it ends. Another
// reads the sync object, and every answer looks at the lease itself: no answer
// depends on the first two being in time.
//
// What a destination relies on is kept across restarts:
//
//   - Complete is said only of the history that the container's owner has served.
//     A data dir that is not known to be of it, or that is behind what is stored, is
//     not made a final snapshot: phase SnapshotFailed, until it is aborted and etcd
//     was let in (Election.Check).
//   - Released is said only by the process that held last. Each start names itself in
//     owner.json before it reads the sync object, and an owner looks there once a
//     heartbeat: if it says Released, it says Held again.
//   - Times that were published bind. When etcd has ended, L + max(K, G) after the
//     last good read, is remembered in the state dir; a start with longer times, or
//     without implicit fencing, keeps to it until owner.json says the new ones.
//   - A state dir has one server. A second one does not begin.
//
// # Not promised
//
// That two servers of one owner id at two data dirs keep each other from serving. The
// one that was there logs, once a heartbeat, that another has begun, and goes on; of
// several members not even that, since each has written owner.json at its start. The
// newer one must not win by waiting for a lease: its data is the older, restored from
// what was stored. For the older one to win it would have to write a sign of life to
// owner.json for each member, and to stop when that cannot be written; but a lease is
// renewed by reading alone, so that a store which refuses writes ends no etcd. So an
// owner id must not run twice at a time: run it as a StatefulSet, never surge a
// Deployment, never force-delete a pod of a node that may be alive.
//
// Nor: that a snapshot which a POST started goes on when its caller
// hangs up. What was packed is kept and stored with the next delta. A reverse
// proxy on the same machine makes local peers of its clients: it must keep the
// POSTs to itself, or Access must ask for more.
package server
