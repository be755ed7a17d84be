// Package store is the port to object storage: what etcd-ferry asks of a
// container of objects, and nothing more. The providers are its subfolders;
// storetest holds the one suite that all of them pass.
//
// # The model
//
// An object is a name, bytes and a version. There are two ways to write one,
// and neither can overwrite blindly:
//
//   - Create writes an object of any size if its name is free. Of any number of
//     writers of one name exactly one wins. Snapshots are written this way and
//     never change.
//   - Swap replaces a small object if it is still at the version its writer has
//     read. Of any number of swaps of one version exactly one wins. The sync
//     object is written this way.
//
// Both are all or nothing, and durable when they have returned. A reader sees
// every write that ended before it began (read after write), for List as for
// Open and Read; of writes and removals that run meanwhile, List may show any
// part, but never part of an object.
//
// # Errors
//
// fs.ErrNotExist, fs.ErrExist and ErrChanged are answers: the store is sure.
// fs.ErrPermission, fs.ErrInvalid and ErrNoContainer are refusals: nothing was
// done and trying again does not help. The error of a context that ended, and
// every other error, is ambiguous: a write may or may not have happened. Retry
// knows how to find out.
//
// # Wrappers
//
//	Prefix(Retry(Metrics(provider, role, registerer)), prefix)
//
// Metrics belongs under Retry, so that every attempt is counted.
//
// # Not promised
//
//   - That a version never returns. Where it is a hash of the content (S3), equal
//     bytes have equal versions, and a stale swap can win: writers put something
//     unique into each write.
//   - That "a" and "a/b" can both exist; in a directory they cannot.
//   - An order of Info.Modified, or that it agrees with anybody's clock.
//   - That Create ends while its source blocks: a source must obey the context
//     too.
//   - Protection from others with access to the container.
package store
