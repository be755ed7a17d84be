// Package syncobject is the paper on which two deployments that share nothing but
// object storage agree who serves an etcd: the sync object of a container,
// copy-operation.json, and beside it owner.json. It follows GEP-7's CopyOperation
// and HANDOVER §7; docs/format.md describes the bytes.
//
// # The object
//
// An Object is a value and its steps are pure: they return what the object has to
// become, or a *Refusal that says who is in the way. A step that was done already
// returns the object unchanged, so everybody can repeat his own after a crash or
// a lost answer. A step of a pending hand-over takes the generation it means, so
// that a late one cannot strike the next hand-over.
//
//	                  Initiate, Claim
//	absent, resolved ─────────────────▶ Initial ──Publish─────────▶ Ready ──Commit──▶ Done, Completed
//	                                       │       Force, Take        │
//	                                     Abort                     Reclaim
//	                                       ▼                          ▼
//	                                Initial, Aborted           Ready, Aborted
//
// Report and Note say how far the source and the destination are, and decide
// nothing. Adopt turns the container that was handed over earlier, and is now
// handed back, into its new owner's: Done, Superseded.
//
// A generation is decided once, by the step that leaves Initial, and resolved
// once, by Commit, Abort or Reclaim. All go through compare-and-swap of one small
// object, so of any number of deciders exactly one wins, and the others find out
// who.
//
// Judge says what an object means for a sidecar. It is closed: what is not
// provably mine is not mine. Timing.Check says for how long a destination has to
// wait for a source that it cannot reach.
//
// # The file
//
// File.Update reads, does the step, stamps serial, write id and time, and swaps.
// The answer to a swap can be lost, be a time-out, or be "changed" although it
// succeeded, where a client repeats what it had done. So after anything but a
// plain success the object is read again:
//
//	its write id is one of this call's     the swap succeeded
//	it is at another version               the swap has not happened and never will,
//	                                       or somebody has gone on from it: the step
//	                                       is tried on what is there, and if it had
//	                                       been done it changes nothing
//	it is at the version as before         the swap may be on its way still: another
//	                                       with the same condition, at most one wins
//	it cannot be read                      again, with pauses; at the end ErrAmbiguous
//
// The write id makes the bytes of every write unique, because the version of an
// object can be a hash of its content: equal bytes would let a stale swap win.
// There is no blind write, and nothing is removed. An object that was there once
// and is absent now is ErrVanished; nothing is created in its place.
//
// Content that is no object is ErrMalformed: the read failed, and nothing follows
// from it. A newer version or an unknown status is ErrUnknown, which fences.
// Members that this code does not know survive its writes, at every level, for as
// long as what they are about: a new generation begins with a blank source,
// destination, decision and set.
//
// # Not promised
//
//   - Anything, of a store that does not honour its conditions. That is what the
//     start-up probe is for.
//   - That times in the objects are right or in order. They are for people, and
//     nothing here reads them.
//   - That who writes a name is who he says: whoever can write to the container
//     can take part. Access to it must be restricted.
//   - That a GEP-7 implementation which writes blindly leaves our members there.
//     What it writes reads as a bare object: Initial of generation 1 as a new
//     hand-over, if no later generation has been seen; anything else fences.
//   - That a deployment whose verdict is Own has the right data: the verdict says
//     who, the lineage says which history.
package syncobject
