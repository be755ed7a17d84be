// Package web is how etcd-ferry answers HTTP, whoever answers: with TLS whose files
// may change, with limits, and with room for whoever comes next.
//
// # Certificates
//
// The files of a TLS are looked at again when somebody connects, once a second at
// most. What cannot be used — half a file, a key of another certificate, a
// certificate that is not valid now — leaves the last good ones in use; log and
// metrics say so until it is better. A client's certificate is checked at each of
// its calls, not only when it connects: who is no longer trusted, or has expired, has
// lost his rights on a connection that is open, too.
//
// # Limits
//
// A request's header and body have to be there within seconds, an answer has to be
// taken within a minute from when it is written, and idle connections are closed soon.
// The work between them may take as long as it takes.
//
// Of connections a Server keeps MaxConns. One more is let in at the cost of the one
// that has been without a request for the longest; only if all have one, of the oldest
// that does not change anything. So a crowd of slow or silent callers
// disturbs itself, and neither a health probe nor the file descriptors that the
// store and etcd are reached with.
//
// # Not promised
//
// Anything about a network that is flooded, or about fairness among those who
// are many.
package web
