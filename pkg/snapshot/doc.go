// Package snapshot says what a snapshot is: its kinds, its name, its manifest;
// which snapshots make a chain that can be restored; and which may be removed.
// It is pure: no clock, no store, no etcd.
//
// History is a line of revisions. A full holds the whole database at one of
// them, a delta every change of a range of them:
//
//	revision   100         120    131        150  155            180
//	full        ■ 100                         [■] 150…155
//	delta        [101───────120]
//	delta                  [118────131]
//	delta                           [132────────155][156──────────180]
//
// The exact revision of a full is known only from its content. The manifest
// bounds it: it is at least First, so deltas must continue from there, and at
// most Last, so an earlier point of history needs an earlier full. Overlap is
// harmless, since whoever applies a delta skips what he has. Missing revisions
// are not: a chain ends where the next one is in no delta, and what is stored
// beyond is a Gap. Deltas from before the oldest full are no gap, they only have
// lost what they could be applied to.
//
// A lineage is one such line. Restoring, losing data or handing over forks
// history, and the same revision then means different things on both sides;
// chains never cross from one lineage to another.
//
// Removing follows from that. Policy decides which fulls stay, and a delta stays
// as long as it is young enough and leads on from a full that stays, together
// with all that lies between them. The newest chain always stays.
//
// Not promised: that a snapshot is intact (packages archive and restorer know
// that), and that two fulls of the same lineage agree.
package snapshot
