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
//	objects, several at a time:  read and check → create → read back and check
//	manifests, one by one:       full, its deltas in order, the next full, ...
//
// Nothing is overwritten or removed. The manifest makes a snapshot count, and is
// created only when its object is right and the manifests of what it continues
// are there. So at every moment the destination lists whole chains. A copy that
// is cut off, however that happens, is finished by doing it again: what counts
// already is recognised by its manifest, an object that waits for its manifest by
// its digest, and neither is sent again.
//
// # Not promised
//
//   - That the destination keeps what it gets: a policy that prunes there is
//     another's, and the next copy brings back what it removed.
//   - That what is stored while Do runs is copied: the next copy brings it.
//   - Secrecy of what a manifest says, see package archive.
package copier
