// Package server is the daemon: a snapshotter that runs on schedule, and HTTP
// to watch it and to ask it for more.
//
//	GET  /healthz          200 while etcd answers a linearizable read, else 503
//	GET  /livez            200 while this process answers
//	GET  /metrics          Prometheus
//	GET  /snapshots        everything stored, and what can be restored of it
//	GET  /snapshot/latest  the chain that a restore would use now
//	POST /snapshot/full    takes a full now and answers with its manifest
//	POST /snapshot/delta   stores what is new; 204 if nothing is
//
// Errors are {"error":{"code","message"}}. The POSTs are for callers on the
// same machine: they are refused unless the peer is a loopback address.
//
// Not promised: that a snapshot which a POST started goes on when its caller
// hangs up. What was packed is kept and stored with the next delta. A reverse
// proxy on the same machine makes loopback peers of its clients: it must keep the
// POSTs to itself.
package server
