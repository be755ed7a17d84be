/* All there is. A deployment, its sidecar, its pod and its container have one number. */

/* Of copy-operation.json (§7). Aborted is not pending with the old owner, also if
 * it was reclaimed. */
mtype:status = { Absent, Initial, Ready, Done, Aborted };
mtype:party = { undecided, bySource, byDestination };

typedef Object {
	mtype:status status;
	byte generation;
	byte owner;              /* owner.id */
	byte destination;        /* destination.id, or NOBODY */
	mtype:party by;          /* decision */
	bool lossy;
	bool failed;             /* source.phase is SnapshotFailed */
	byte set                 /* the writes that the named snapshots hold, a bit each */
};

Object object[2];            /* of containers CA and CB */
byte current[2];             /* who has read it and would win a swap: a bit for each writer */
Object late;                 /* a write whose sender has given up, and that may arrive yet */
bool isLate;
byte lateOf;

bool released;               /* CA's owner.json says Released */
bool lateRelease;            /* a Release is on its way */

byte stored[DEPLOYMENTS];              /* writes in the newest snapshots of a container */
byte adopted[DEPLOYMENTS];   /* the set that was copied into a container */
bool manifest[DEPLOYMENTS];  /* what is adopted is described in the container */
bool adopting[DEPLOYMENTS];  /* an adoption is open: no server restores from there */
byte epoch[DEPLOYMENTS];     /* of the container */

/* Of a source (§8). Fencing is the kill, whatever it is for. */
mtype:role = { Unknown, Preparing, Owner, SelfFenced, Fencing, Snapshotting, Publishing,
	Swapping, Rereading, Ceded, Stopping, Releasing };
mtype:verdict = { nothing, asked, own, handOver, foreign };

typedef Sidecar {
	bool alive;
	bool paused;
	mtype:role role;
	mtype:role then;         /* Fencing is for */
	bool open;               /* the gate, inside a lease */
	bool locked;             /* the flock on the database is held */
	bool held;               /* owner.json was written in this life */
	bool begun;              /* there was a lease; remembered */
	bool fenced;             /* remembered */
	byte lease;              /* ticks left; remembered, and the clock goes on (BOOTTIME) */
	byte kill;               /* ticks left of K */
	mtype:verdict reading;   /* in flight or delivered */
	byte age;                /* ticks since the reading was started */
	byte generation;         /* of the reading, if it is handOver */
	byte operation;          /* generation that is being handed over */
	byte final               /* writes in the final snapshot */
};

Sidecar sidecar[SIDECARS];

/* A container of etcd: the gate asks, has passed, or etcd runs below it. Down: there is none. */
mtype:etcd = { Down, Asking, Passed, Started, Up }; /* Started: a wrapper runs that has not come to its etcd; only with WRAPPER */

typedef Pod {
	mtype:etcd etcd;
	byte permission;         /* ticks for which the gate's permission is good */
	byte silence;            /* ticks for which the watchdog has not heard that all is well */
	byte disk;               /* writes in the data dir */
	byte epoch               /* of the history in the data dir */
};

Pod pod[DEPLOYMENTS];

/* Of a destination (§8). */
mtype:step = { Claiming, Waiting, Forcing, Deciding, Copying, Committing, Swap, Settling, Finished, Gone };

typedef Copy {
	mtype:step step;
	byte wait;               /* ticks until it may force */
	byte generation;
	byte set;
	bool whole               /* the source has released: not lossy */
};

Copy dest[DEPLOYMENTS];

/* What clients know, and nobody else. */
byte written;                /* how many writes there were */
byte acknowledged;           /* that must be there, a bit each */
byte lost;                   /* that a lossy decision has given up */
byte home = A;               /* whose history it is */

#ifdef MACHINE_SLEEPS
bool sleeps;                 /* A's machine, with etcd, sidecar and kubelet */
#else
#define sleeps false
#endif
#define writeOf(n) (1 << (n))
#define endsIn(x) x = (x > 0 -> x - 1 : 0)
#define within(a, b) (((a) & ~(b)) == 0)
#define sound(d) (sidecar[d].alive && !sidecar[d].paused)
#define over(d) (sidecar[d].lease == 0)
#ifdef BACK
#define serves(d) (pod[d].etcd == Up && !sidecar[d].locked)
#else
#define serves(d) (pod[d].etcd == Up && (d != A || !sidecar[A].locked && !sleeps))
#endif
#ifdef TWO
#define others(d) (d != A && serves(A) || d != B && serves(B) || d != C && serves(C))
#else
#define others(d) (d != A && serves(A) || d != B && serves(B))
#endif
