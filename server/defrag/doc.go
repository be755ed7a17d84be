// Package defrag has the members of an etcd cluster give back the room that is not in
// use, one after the other.
//
// A member that defragments writes its database anew and answers nothing meanwhile. So
// Once does it only as long as all is well: every member, learners too, answers, knows
// the same leader and has applied nearly all of the log, and no alarm is raised but
// NOSPACE, which is what one defragments for. That is looked at before each member; the
// leader comes last. It is done only where it is worth it.
//
// Several sidecars need no lock: the one whose own member leads does it for all. At a
// change of leader two may be at it for a moment; the second finds a member that does
// not answer, and leaves the rest for the next time.
//
// Whoever runs it decides when not to: the server runs it beside the backup, which ends
// before a hand-over begins, and Hold keeps it apart from full snapshots, which would
// make a member that defragments wait for their end.
//
// # Not promised
//
// A call that was begun is gone through with by etcd, whatever becomes of the caller. A
// snapshot that somebody else takes is not seen. The alarm NOSPACE stays raised: to lift
// it is for people, who know what has filled the database.
package defrag
