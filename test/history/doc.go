// Package history writes down what clients of an etcd asked and were told, while
// it is handed from one owner to the next, and decides whether ONE etcd could have
// told it.
//
// Clients write and read at every owner: puts of keys that are never used twice,
// puts and compare-and-swaps of keys that all of them share, linearizable and
// serializable reads, and watches. Each call has the time that it was made and
// answered at, by one clock. Every value is written once, so that it tells who wrote
// it. After the run, or in the middle of it, History.Check asks an etcd, which is
// to be the owner now, for all that it has, and holds that against what is written
// down.
//
// # The rules
//
//	lost          an acknowledged write is not at the owner
//	vanished      what a read or a watch has shown is not at the owner
//	foreign       the owner, a read or a watch has what nobody wrote
//	twice         a write is there at two revisions
//	reused        a revision has two contents
//	two owners    an owner acknowledges what it was asked after the next owner had
//	              acknowledged a write
//	went back     a linearizable answer is older than one that was given before it
//	              was asked for; or an owner answers reads when the next one writes
//	wrong read    a read, or the compare of a swap, does not have what was there at
//	              the revision that it names
//	watch         events are not in order, or one is missing between two others
//	undecided     the owner has what was written above the revision through which
//	              it was decided to take over
//	no register   porcupine finds no order of the calls of a key in which a register
//	              could have answered them
//
// A write without an answer may have happened: it has if anybody has seen it, and
// then it is held to the same rules.
//
// porcupine (github.com/anishathalye/porcupine) looks at values and times alone, key
// by key; the other rules rely on etcd's revisions, which order all keys.
//
// Left out are deletions, leases, transactions of several keys and reads of ranges:
// that all of them reach the next owner is told by the hash of its history.
//
// # A hand-over that loses writes
//
// History.GivenUp notes that all above a revision is given up. The history has a
// fork then: what the owners before acknowledged has to be one etcd's, and so has
// what they acknowledged up to that revision together with what comes after it. No
// revision may be used on both sides of the fork.
package history
