// Package copier copies snapshots from one store to another, exactly and
// resumably.
//
// # What is copied
//
// Whatever the selection names and can be restored. Objects go as they are
// stored, compressed and perhaps encrypted, and so do manifests, byte for byte:
// a copy is the same snapshot. Only with Reencrypt the stored bytes change, and
// with them the name's ending and what the manifest says of them; the plain bytes
// and their digest stay. A delta that nothing stored leads up to cannot be
// restored and is left out. If revisions are lost by that, or something is
// damaged, the rest is copied all the same, and the error says what is missing.
//
// # How
//
// Plan compares the two stores; it reads manifests only. Do carries a plan out:
//
//	announcement:                the names of what is about to be created
//	objects, several at a time:  read and check → create → read back and check
//	manifests, one by one:       full, its deltas in order, the next full, ...
//	the announcement is removed
//
// Nothing else is removed, and nothing overwritten. The manifest makes a snapshot
// count, and is created only when its object is right and the manifests of what
// it continues are there. So at every moment the destination lists whole chains,
// and they can be restored. A copy that is cut off, however that happens, is
// finished by doing it again: what counts already is recognised by its manifest,
// an object that waits for its manifest by its digest, and neither is sent again.
//
// # Why copies are announced
//
// An object without a manifest, a stray, may be all there is of the last writes
// of an etcd whose sidecar died before it wrote the manifest. A restore does not
// pass it by in silence: it refuses if the stray would lead further than what
// counts. The stray of a copy is nothing of the kind, its original counts in the
// source; but from the object alone nobody can tell. Without announcements a copy
// that was cut off would keep its destination from being restored until it is
// finished, which may be just when the source is gone.
//
// So the copier says before it creates an object that it will. The announcement
// names snapshots one by one, and only those of which nothing was there: the
// stray of a sidecar in the same container has another name, or was there before,
// and is as doubtful as ever. It also lets a restore tell what has yet to come,
// which no listing could. What must not be relied on to be there or to be gone is
// safe either way: an announcement that is lost makes a restore refuse, one that
// stays names what counts.
//
// Other ways are worse. A folder for what is on its way takes a rename, which
// object stores lack, or a second copy. Sending one object at a time, base first,
// still leaves a stray, and is slow. Letting restores pass by strays wherever a
// copy was ever made would hide those of the sidecar that writes there next.
//
// # Handing over
//
// HandOver is the destination of a hand-over. What it writes, in order:
//
//	adoptions/…/outcome  of earlier hand-overs that were taken back while it was away
//	its claim            into the source's object: from here on the source stops
//	adoptions/…/begun    into its own container: nothing may be restored from it
//	copies               of what is stored, while the source stops
//	a decision           into the source's object, only if the source makes none
//	copies               of exactly what the decision names, every byte checked
//	adoptions/…/manifest who will serve what
//	Ready → Done         in the source's object: the commit point
//	Superseded           in its own object, if the container had been handed away
//	owner.json           of the new owner, who is not at work yet: Released
//	adoptions/…/outcome  from here on its server may restore and serve
//
// A crash anywhere is mended by running it again, also beside a run that was
// paused and wakes up when the container has been handed on: what is committed is
// only finished, and an epoch never goes back. What an operator takes back before
// the commit point never counts, whoever is started when; behind it only this side
// can go on. If a server of its own is let in on an empty container just before
// this begins, at least one of the two sees the other and yields. A destination without its source forces only if that is
// safe, or on the operator's word; it then says lossy everywhere.
//
// # Not promised
//
//   - That the destination keeps what it gets: a policy that prunes there is
//     another's, and the next copy brings back what it removed.
//   - That what is stored while Do runs is copied: the next copy brings it.
//   - That a forced hand-over has what the source acknowledged and did not store.
//   - Secrecy of what a manifest says, see package archive.
package copier
