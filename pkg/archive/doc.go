// Package archive keeps snapshots in a store.
//
// A snapshot is two objects in the folder "snapshots/": its content, compressed
// with zstd and, if there are recipients, encrypted with age; and a manifest.
// Saving goes
//
//	compress → encrypt → digest → create → read back → create the manifest
//
// and nothing counts before its last step: a crash at any point leaves at most
// a stray, an object without a manifest, which listing reports, nobody
// restores, and pruning removes after a day. Removing goes the other way, the
// manifest first. Objects are created and never changed, so a manifest that was
// read once stays true and is remembered.
//
// A stray may hold what nothing else does: the last writes of an etcd whose
// sidecar died. So nobody restores past one in silence, unless an object
// "incoming-….json" says that it is a copy on its way: see Announce.
//
// Reading checks everything the manifest says of the bytes, stored and plain.
// The checks are complete when the reader says io.EOF, and only then: a consumer
// must not act on what it read before it saw that.
//
// # Encryption
//
// "age -d | zstd -d" gives the plain bytes of an encrypted snapshot. Its digests
// and sizes are those of what is stored and of what is plain, so that reading
// back, copying and checking what is stored need no secret key, and neither does
// whoever stores. The keys of recipients and identities are asked for anew for
// each snapshot: the recipients can be replaced at any time, and old identities
// open old snapshots for as long as they are kept. Age is randomised: the same
// snapshot encrypted twice is two objects, so a Buffer is encrypted only once.
//
// Manifests are in the clear. Whoever can read the store, and has no key, learns
// names, times, revisions, numbers of events, sizes, ids and versions, and the
// sha256 of the plain bytes, by which he can recognise a snapshot that he has;
// nothing of keys and values. Encryption does not tell who wrote a snapshot:
// anybody can encrypt for a recipient. Access to the store must be restricted
// all the same.
//
// Not promised: that an object which was right when it was read back is right
// today (see the levels of verification in package restorer), or that two
// writers do not store the same revisions twice. Overlap is harmless.
package archive
