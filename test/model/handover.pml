/*
 * The hand-over of HANDOVER.md §3-§8 as the code of server/, copier/, syncobject/
 * and pkg/gate runs it. README.md says what is abstracted, and which
 * configurations are searched; each is a set of -D defines over the bounds below.
 */

/* Times, in ticks of the clock (time.pml). */
#ifndef L
#define L 2               /* lease, from the start of a read */
#endif
#ifndef K
#define K 1               /* from the decision to kill until etcd is gone */
#endif
#ifndef G
#define G 2               /* from the sidecar's silence until the kubelet has killed etcd */
#endif
#ifndef SLOW
#define SLOW 1            /* ticks by which the sources' clocks fall behind: rho */
#endif
#define LATER (G > K -> G : K)
#ifdef W_IS_L
#define W L
#endif
#ifdef W_AT_BOUND
#define W (L + LATER + SLOW)
#endif
#ifndef W
#define W (L + LATER + SLOW + 1) /* strictly above the bound of §4; the 1 is delta */
#endif

#ifdef GEP
#define GEP_ORDER         /* seeds: 503, online snapshot, SIGTERM; and nobody asks a gate */
#endif

/* How often something may go wrong, or be asked for, in one run. */
#ifndef WRITES
#define WRITES 2          /* of clients */
#endif
#ifndef PAUSES
#define PAUSES 0          /* of a sidecar */
#endif
#ifndef CRASHES
#define CRASHES 0         /* of a sidecar */
#endif
#ifndef COPYCRASHES
#define COPYCRASHES 0     /* of a copy */
#endif
#ifndef FAULTS
#define FAULTS 0          /* writes to the store whose answer is lost or that arrive late */
#endif
#ifndef INITIATES
#define INITIATES 0       /* POST /copyop/initiate */
#endif
#ifndef TAKEBACKS
#define TAKEBACKS 0       /* abort, or reclaim */
#endif
#ifndef FAILEDFINALS
#define FAILEDFINALS 0    /* reports of SnapshotFailed */
#endif
#ifndef STOPS
#define STOPS 0           /* clean ends of a sidecar, with HIBERNATE */
#endif

#define A 0
#define B 1
#define C 2
#define NOBODY 3
#ifdef TWO
#define DEPLOYMENTS 3
#else
#define DEPLOYMENTS 2
#endif
#ifdef BACK
#define SIDECARS 2        /* B's server takes part in a hand-over of its own */
#else
#define SIDECARS 1
#endif

byte pauses = PAUSES, crashes = CRASHES, copyCrashes = COPYCRASHES, faults = FAULTS;
byte initiates = INITIATES, takeBacks = TAKEBACKS, failedFinals = FAILEDFINALS, stops = STOPS, slow = SLOW;

#include "state.pml"
#include "properties.pml"
#include "store.pml"
#include "pod.pml"
#include "source.pml"
#include "destination.pml"
#include "world.pml"
#include "time.pml"

inline begins(d) {
	pod[d].etcd = Down; dest[d].step = Claiming
}

inline emptyContainer(c) {
	object[c].status = Absent; object[c].owner = c; object[c].destination = NOBODY; object[c].by = undecided
}

inline asleep(d) { sidecar[d].role = Unknown; sidecar[d].reading = nothing; pod[d].etcd = Asking }

#ifdef LIVE
ltl I8_progress { <> serves(B) } /* whatever the source and its store do */
#endif

init {
	atomic {
		begins(A); begins(B); emptyContainer(A); emptyContainer(B); asleep(A);
		late.owner = NOBODY;
#ifdef HIBERNATE
		released = true; sidecar[A].fenced = true;
#else
		sidecar[A].alive = true; sidecar[A].role = Owner; sidecar[A].open = true; sidecar[A].held = true;
		sidecar[A].begun = true; sidecar[A].lease = L; pod[A].etcd = Up;
#endif
		run source(A); run poller(A); run etcdContainer(A); run copy(B, A);
#ifdef BACK
		asleep(B); sidecar[B].held = true; /* until something was handed over to B */
		run source(B); run poller(B); run etcdContainer(B); run copy(A, B); run trouble(B);
#else
		run destinationServer(B);
#endif
#ifdef TWO
		begins(C);
		run copy(C, A); run destinationServer(C);
#endif
		run clients(); run network(); run people(); run trouble(A); run copyTrouble(B, A); run clock();
	}
}
