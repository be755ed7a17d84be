// Package bootstrap makes sure, before etcd starts, that its data dir is of the
// history that this deployment has the right to serve. It is asked with that right
// in hand, the data dir locked, and no etcd running.
//
// What it may find, and what it does then:
//
//	nothing, nothing is stored either        lets etcd begin a new history
//	nothing, this deployment was handed      restores exactly the named set
//	  a container and has not served it
//	nothing, and it has served before        restores the newest of its own history,
//	                                         and bumps the revision: writes may be lost
//	data of the stored history               lets etcd go on
//	data from before the hand-over to here   moves it aside, and restores
//	data that is behind what is stored       moves it aside, and restores, if it is
//	                                         proven to be an earlier state of the same
//	a database that cannot be read           moves it aside, and restores
//	data that nothing is known of            refuses
//
// Whose a data dir is, is told by its cluster id, which every snapshot names, and
// by what a restore writes into it (restorer.Origin), before what was remembered
// of it elsewhere. Whatever cannot be proven is refused: the gate stays shut, and
// the reason says what to do. The way out that always works is Accept, which names
// one state of one data dir.
//
// # Several members
//
// Each restores the set that was handed over, with the same members and the same
// cluster id, once: that is safe for a member that was never let in on this
// history, whenever it comes. A member whose data is lost later must not come back
// from a snapshot, since it has voted: it is removed from its cluster and added
// again. A member is noted in the container before it is let in
// (archive.MarkServing).
//
// # Not promised
//
// That a database which is let in is sound to its last page: that takes reading all
// of it. That a data dir which is taken away from a running etcd is noticed before
// that etcd ends: the gate looks for it whenever it is asked, and then this package is
// asked again; an etcd that something else starts is not seen.
package bootstrap
