/*
 * A source of three members (HANDOVER.md §6; server/source_cluster.go and
 * source_frozen.go): its writes are fenced through raft by an alarm, and members are
 * ended only after it is decided what is handed over. Here a read of the sync object
 * is answered at once or not at all, and swaps have no faults: handover.pml has both.
 */

#ifndef L
#define L 2
#endif
#ifndef K
#define K 1
#endif
#ifndef G
#define G 2
#endif
#ifndef SLOW
#define SLOW 1
#endif
#define W (L + (G > K -> G : K) + SLOW + 1)
#ifndef WRITES
#define WRITES 2
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef ABORTS
#define ABORTS 1
#endif
#define MEMBERS 3

mtype:status = { Absent, Initial, Ready, Done, Aborted };
mtype:role = { Owner, SelfFenced, Freezing, Snapshotting, Publishing, Dissolving, Ceded };
mtype:step = { Claiming, Waiting, Copying, Finished };

/* The sync object. */
mtype:status status = Absent;
byte generation, set, fenced;  /* fenced: source.fencedMembers, a bit each */
bool lossy, failed;            /* failed: source.phase is SnapshotFailed */

typedef Member {
	mtype:role role;
	bool killing;              /* its etcd is being ended */
	bool thawed;               /* attend does not look any more: only with THAW_ONCE */
	bool up;                   /* its etcd runs */
	bool paused;
	byte lease, kill, silence;
	byte owned;                /* newest generation that was read as its own */
	byte operation;            /* generation that it hands over */
	byte final;
};

Member m[MEMBERS];
byte alarm;                    /* the generation that the cluster is frozen for; 0: it is not */

mtype:step step = Claiming;
byte wait, claimed, pauses = PAUSES, aborts = ABORTS, slow = SLOW;
byte written, acknowledged, stored;
bool taken;                    /* the destination serves */

#define quorum (m[0].up + m[1].up + m[2].up >= 2)
#define serves (quorum && alarm == 0)
#define over(i) (m[i].lease == 0)
#define sound(i) (!m[i].paused)
#ifdef LIVE
/* One sidecar loses the store for good; the others read in time, P + R < L/3. Nobody
 * claims again. With a working quorum of sidecars writes are accepted again. */
bool cut;
#define reaches(i) (sound(i) && (i != 0 || !cut))
#define readDue(i) (i != 0 && m[i].lease <= 1 && !m[i].killing && (m[i].role == Owner))
ltl I8_writes_again { (<> [] (status == Aborted)) -> ([] <> serves) }
#else
#define reaches(i) sound(i)
#define readDue(i) false
#endif
#define in(i, r) (sound(i) && !m[i].killing && m[i].role == r)
#define within(a, b) (((a) & ~(b)) == 0)
#define frozen(i) (m[i].role == Freezing || m[i].role == Snapshotting || m[i].role == Publishing)
/* A frozen etcd may run without a lease as long as its cluster proves that it is
 * frozen (source_frozen.go:lapsed). */
#ifdef FROZEN_FOREVER
#define proven(i) true
#else
#define proven(i) (quorum && alarm >= m[i].operation)
#endif
#ifdef NOT_FROZEN
#define sealed(i) true
#else
#define sealed(i) (quorum && alarm >= m[i].operation)
#endif
#ifdef THAW_ANY
#define mayThaw(i) true
#else
#define mayThaw(i) (alarm <= m[i].owned)
#endif
#define lapsed(i) (!m[i].killing && over(i) && (m[i].role == Owner || frozen(i) && !proven(i)))

hidden byte handedOver, I1_two_deployments_serve, I2_lost_by_decision_of_source, I2_lost_without_lossy, I2_acknowledged_write_is_lost;
#define must_not(P, broken) P = ((broken) -> 1 : 0); assert(!(P)); P = 0

/* An etcd begins to serve, or the cluster does again. */
inline servesNow() { must_not(I1_two_deployments_serve, taken && serves) }

hidden byte op;

inline ends(i, what) {
	m[i].role = what; m[i].thawed = false; m[i].final = 0; m[i].operation = 0;
	if
	:: m[i].up -> m[i].killing = true; m[i].kill = K
	:: else
	fi
}

inline reads(i) {
	if
	:: status == Initial ->
		if
		:: m[i].role == Ceded || m[i].role == SelfFenced || m[i].role == Owner ->
			m[i].role = Freezing; m[i].thawed = false; m[i].operation = generation
		:: (frozen(i) || m[i].role == Dissolving) && m[i].operation != generation ->
			m[i].role = Freezing; m[i].operation = generation; m[i].final = 0
		:: else
		fi
	:: status == Absent || status == Aborted -> m[i].lease = L; m[i].role = Owner; m[i].owned = generation; m[i].final = 0; m[i].operation = 0
	:: status == Ready || status == Done ->
		if :: m[i].role != Ceded -> ends(i, Ceded) :: else fi
	fi
}

proctype sidecar(byte i) {
end:	do
	:: atomic { reaches(i) && !m[i].killing && !lapsed(i) -> reads(i) }
	:: atomic { sound(i) && lapsed(i) -> ends(i, SelfFenced) }
	:: atomic { sound(i) && m[i].killing -> m[i].up = false; m[i].killing = false; m[i].kill = 0; m[i].silence = 0; servesNow() }
#ifdef NOT_FROZEN
	:: atomic { in(i, Freezing) -> m[i].role = Snapshotting }
#else
	:: atomic { in(i, Freezing) && quorum -> if :: alarm < m[i].operation -> alarm = m[i].operation :: else fi; m[i].role = Snapshotting }
#endif
	/* It cannot be frozen: this member is ended, and says so. */
	:: atomic { in(i, Freezing) && !quorum -> op = m[i].operation; ends(i, Dissolving); m[i].operation = op }
	:: atomic { in(i, Dissolving) && !m[i].up && status == Initial && m[i].operation == generation ->
		fenced = fenced | (1 << i); failed = (fenced == 3 || fenced >= 5) }
	/* Online: a linearizable read, and the snapshot of a cluster that refuses writes. */
#ifdef NOT_FROZEN
	:: atomic { in(i, Snapshotting) -> m[i].final = acknowledged; m[i].role = Publishing }
#else
	:: atomic { in(i, Snapshotting) && quorum && alarm >= m[i].operation -> m[i].final = acknowledged; m[i].role = Publishing }
	:: atomic { in(i, Publishing) && alarm < m[i].operation -> m[i].role = Freezing; m[i].final = 0 } /* errThawed */
#endif
	/* sealed, then the swap: it succeeds only if the generation is still undecided. */
	:: atomic { in(i, Publishing) && status == Initial && generation == m[i].operation && sealed(i) ->
		must_not(I2_lost_by_decision_of_source, !within(acknowledged, m[i].final));
		status = Ready; set = m[i].final; lossy = false; ends(i, Ceded) }
	od
}

/* source_backup.go:attend, as long as the sidecar is the owner. A fence that an aborted
 * hand-over has left is lifted, never a newer one; again and again, since a sidecar that
 * has not seen the abort may set it late. */
proctype attend(byte i) {
end:	do
	:: atomic { in(i, Owner) && !over(i) && quorum && alarm != 0 && mayThaw(i) && !m[i].thawed -> alarm = 0; servesNow() }
#ifdef THAW_ONCE
	:: atomic { in(i, Owner) && !over(i) && quorum && (alarm == 0 || !mayThaw(i)) -> m[i].thawed = true }
#endif
	:: atomic { in(i, Owner) && !over(i) && serves && stored != acknowledged -> stored = acknowledged }
	od
}

/* The container of a member's etcd: the gate lets it in, the watchdog ends it. */
proctype etcd(byte i) {
end:	do
	:: atomic { in(i, Owner) && !over(i) && !m[i].up -> m[i].up = true; servesNow() }
	:: atomic { m[i].silence >= G -> m[i].up = false; m[i].silence = 0 }
	od
}

proctype clients() {
end:	do
	:: atomic { written < WRITES && serves ->
		must_not(I1_two_deployments_serve, taken);
		acknowledged = acknowledged | (1 << written); written++ }
	od
}

proctype destination() {
end:	do
	:: atomic { step == Claiming && (status == Absent || status == Aborted) && generation <= ABORTS ->
		generation++; status = Initial; failed = false; fenced = 0; claimed = generation; wait = W; step = Waiting }
#ifndef LIVE
	:: atomic { step == Waiting && status == Aborted -> step = Claiming; wait = 0 } /* copy --again */
#endif
	:: atomic { step == Waiting && status == Ready -> wait = 0; step = Copying }
	:: atomic { step == Waiting && status == Initial && (wait == 0 || failed && fenced == 7) ->
		status = Ready; lossy = true; set = stored; wait = 0; step = Copying }
	:: atomic { step == Copying && status == Ready ->
		must_not(I2_lost_without_lossy, !lossy && !within(acknowledged, set));
		acknowledged = acknowledged & set; status = Done; step = Finished }
	:: atomic { step == Finished && !taken ->
		taken = true;
#ifdef WITNESS
		must_not(handedOver, true);
#endif
		must_not(I1_two_deployments_serve, serves);
		must_not(I2_acknowledged_write_is_lost, !within(acknowledged, set)) }
	od
}

proctype people() {
end:	do
	:: atomic { aborts > 0 && status == Initial -> aborts--; status = Aborted }
	:: atomic { pauses > 0 && !m[0].paused -> pauses--; m[0].paused = true }
	:: atomic { m[0].paused -> m[0].paused = false }
#ifdef LIVE
	:: !cut -> cut = true
#endif
	od
}

#define endsIn(x) x = (x > 0 -> x - 1 : 0)
#define due(i) (m[i].silence >= G || readDue(i) || sound(i) && (lapsed(i) || m[i].killing && m[i].kill == 0))
#define unheard(i) (m[i].up && (m[i].paused || m[i].killing || lapsed(i)))

inline tick(i) {
	m[i].silence = (unheard(i) -> m[i].silence + 1 : 0);
	endsIn(m[i].lease); endsIn(m[i].kill)
}

proctype clock() {
	do
	:: atomic { !due(0) && !due(1) && !due(2) -> d_step { tick(0); tick(1); tick(2); endsIn(wait) } }
	:: atomic { !due(0) && !due(1) && !due(2) && slow > 0 -> d_step { slow--; endsIn(wait) } }
	od
}

init {
	atomic {
		byte i;
		for (i : 0 .. MEMBERS - 1) { m[i].role = Owner; m[i].up = true; m[i].lease = L }
		run sidecar(0); run sidecar(1); run sidecar(2);
		run attend(0); run attend(1); run attend(2);
		run etcd(0); run etcd(1); run etcd(2); run clients(); run destination(); run people(); run clock()
	}
}
