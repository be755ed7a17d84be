// Package delta reads and writes the file that holds every change etcd made in
// a closed range of revisions.
//
//	"EFDELTA" 0x01                           magic and version
//	uvarint n > 0, n bytes                   a record, any number of them
//	uvarint 0                                the end of the records
//	first, last, events, leases, sha256      the trailer
//
// A record is a kind byte and a protobuf message: 'e' and etcd's own
// mvccpb.Event without prev_kv, or 'l' and a lease {1: id, 2: granted TTL}. The
// trailer's numbers take 8 bytes each, the high one first; the sha256 is of all
// bytes before it, and nothing follows it. docs/format.md has the details.
//
// Every revision of etcd changes at least one key, so the events of a range
// name every revision in it: a missing one is a lost event. Encoder and Decoder
// both insist on that. Within a revision the order of the events is etcd's, and
// an event's place in it is its sub revision, which is therefore not stored.
//
// The events are those of a watch, and a KeyValue in them is, byte for byte,
// what etcd keeps in its database (fields in number order, defaults left out),
// except that etcd keeps only the key of a deleted one. Decoder hands out these
// bytes as they are, carved from chunks that it does not touch again: a record
// costs no copy and no allocation of its own. Keeping one slice keeps its chunk
// of 1 MiB.
//
// Not promised: that a lease was alive when its event happened, or that the
// events are those of the cluster one believes (the manifest says whose they
// are). A Decoder has read a whole and intact file when it says io.EOF and not
// before, so whoever acts on records must be able to take it back.
package delta
