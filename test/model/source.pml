/*
 * The source, server/election_run.go and source_*.go: one process changes the
 * state, another reads the sync object. A crash puts the first back to Unknown at
 * any step, since each step is an iteration of its loop (trouble in world.pml).
 */

/* Verdict of the sync object (§7, syncobject/verdict.go) at the moment of the read.
 * Pending with another owner.id, Ready, Done for another: foreign. */
inline judge(d) {
	sidecar[d].generation = 0;
	if
	:: object[d].status == Absent || (object[d].status == Aborted || object[d].status == Done) && object[d].owner == d ->
		sidecar[d].reading = own
	:: object[d].status == Initial && object[d].owner == d ->
		sidecar[d].reading = handOver; sidecar[d].generation = object[d].generation; sidecar[d].age = 0
	:: else -> sidecar[d].reading = foreign; sidecar[d].age = 0
	fi
}

inline forget(d) { sidecar[d].reading = nothing; sidecar[d].age = 0; sidecar[d].generation = 0 }

/* The sidecar's process is gone: so is its lock, and what it only knew. */
inline ends(d) {
	sidecar[d].alive = false; sidecar[d].paused = false; sidecar[d].open = false; sidecar[d].locked = false;
	sidecar[d].role = Unknown; sidecar[d].then = 0; sidecar[d].kill = 0; sidecar[d].operation = 0; sidecar[d].final = 0;
	forget(d); current[d] = current[d] & ~bySidecar(d);
#ifdef HIBERNATE
	sidecar[d].held = false;
#endif
	servesNow(d)
}

#ifdef HELD_LATE
#define mayRead(d) true
#else
#define mayRead(d) sidecar[d].held
#endif

/* The poll. A read counts from before the request; any time may pass until the store
 * looks, and until the answer is delivered. A read that fails is one that is given
 * up and begun anew, a store that cannot be reached is one that never looks. */
proctype poller(byte d) {
end:	do
#ifdef HIBERNATE
	/* §8: Held comes before the first read of a life (election_read.go:ask). Always a
	 * write, so that a Release that is late comes to nothing (owner.go:Hold). */
	:: atomic { sound(d) && !sidecar[d].held ->
		sidecar[d].held = true;
#ifdef HOLD_CHANGES_NOTHING
		if :: released -> released = false; lateRelease = false :: else fi
#else
		released = false; lateRelease = false
#endif
	}
#endif
	:: atomic { sound(d) && mayRead(d) && sidecar[d].reading != asked ->
		sidecar[d].reading = asked; sidecar[d].age = 0; sidecar[d].generation = 0 }
	:: atomic { sidecar[d].reading == asked -> judge(d) }
#ifdef FAILURE_RENEWS
	:: atomic { sidecar[d].reading == asked -> sidecar[d].reading = own }
#else
	:: atomic { sound(d) && sidecar[d].reading == asked -> forget(d) }
#endif
	od
}

/* §5: shut the gate, remember, kill, take the lock. With the lock in its place
 * there is nothing to end. */
inline fenceFor(d, what) {
	sidecar[d].open = false; sidecar[d].fenced = true;
	if
	:: sidecar[d].locked -> sidecar[d].role = what
	:: else -> sidecar[d].role = Fencing; sidecar[d].then = what; sidecar[d].kill = K
	fi
}

/* Who is ended: etcd, and a gate that was let pass and has not come to its etcd. */
inline kills(d) {
#ifdef ONLY_ETCD
	if :: pod[d].etcd == Up -> pod[d].etcd = Passed; pod[d].permission = 1 :: else fi; /* the wrapper starts it again */
#else
#ifdef GATE_FORGOTTEN
	if :: pod[d].etcd == Up -> down(d) :: else fi;
#else
	if :: pod[d].etcd == Up || pod[d].etcd == Started || pod[d].etcd == Passed -> down(d) :: else fi;
#endif
#ifndef NO_LOCK
	sidecar[d].locked = true;
#endif
#endif
	sidecar[d].kill = 0; sidecar[d].role = sidecar[d].then; sidecar[d].then = 0
}

inline renew(d) {
	sidecar[d].begun = true;
#ifdef LEASE_FROM_ANSWER
	sidecar[d].lease = L;
#else
	if
	:: L - sidecar[d].age > sidecar[d].lease -> sidecar[d].lease = L - sidecar[d].age
	:: else
	fi;
#endif
	forget(d)
}

/* election_run.go:follow */
inline follow(d) {
	if
	:: sidecar[d].reading == own -> sidecar[d].open = false; sidecar[d].role = Preparing; renew(d)
	:: sidecar[d].reading == handOver ->
		sidecar[d].operation = sidecar[d].generation; forget(d);
#ifdef GEP_ORDER
		sidecar[d].role = Snapshotting /* 503, online snapshot, SIGTERM */
#else
#ifdef PUBLISH_EARLY
		sidecar[d].open = false; sidecar[d].role = Snapshotting
#else
		fenceFor(d, Snapshotting)
#endif
#endif
	:: sidecar[d].reading == foreign -> forget(d); fenceFor(d, Ceded)
	fi
}

/* Prepare: what etcd is let in on (server/bootstrap). A disk of a history from before
 * the adoption is moved aside, the named set is restored; etcd has ended before. */
inline prepare(d) {
	if
	:: pod[d].epoch < epoch[d] ->
		if :: pod[d].etcd != Asking -> down(d) :: else fi;
#ifndef STALE_DISK
		pod[d].disk = adopted[d];
#endif
		pod[d].epoch = epoch[d]
	:: else
	fi
}

#define delivered(d) (sidecar[d].reading != nothing && sidecar[d].reading != asked)
#define isPending(d) (sidecar[d].reading == handOver && sidecar[d].generation == sidecar[d].operation)
#define in(d, r) (sound(d) && sidecar[d].role == r)
#define working(d) (in(d, Snapshotting) || in(d, Publishing) || in(d, Swapping) || in(d, Rereading))
#define isMine(d) (object[d].generation == sidecar[d].operation && object[d].owner == d)

inline handed(d) { sidecar[d].final = 0; sidecar[d].operation = 0; fenceFor(d, Ceded) }

#ifdef UNCHECKED_DISK
#define ofThisHistory(d) true
#else
#define ofThisHistory(d) (pod[d].epoch == epoch[d])
#endif

proctype source(byte d) {
end:	do
	/* A lease that was over when an event came was over, whatever the event is. */
	:: atomic { (in(d, Owner) || in(d, Preparing) || in(d, Unknown) && sidecar[d].begun) && over(d) -> fenceFor(d, SelfFenced) }
	:: atomic { in(d, Unknown) && delivered(d) && !(sidecar[d].begun && over(d)) -> follow(d) }
	:: atomic { (in(d, Owner) || in(d, Preparing)) && delivered(d) && !over(d) ->
		if
		:: sidecar[d].reading == own -> renew(d)
		:: else -> follow(d)
		fi }
	/* The lease is looked at again when the data dir is ready: it may have taken long. */
#ifdef LET_IN_LATE
	:: atomic { in(d, Preparing) && !adopting[d] ->
#else
	:: atomic { in(d, Preparing) && !adopting[d] && !over(d) ->
#endif
		prepare(d); sidecar[d].fenced = false; sidecar[d].locked = false;
		sidecar[d].open = true; sidecar[d].role = Owner; servesNow(d) }
	:: atomic { in(d, SelfFenced) && delivered(d) -> follow(d) }

	/* The kill; §5. That it works within K is an assumption, see time.pml. */
	:: atomic { in(d, Fencing) -> kills(d) }

	/* The final snapshot of a fenced etcd, stored and read back; not of a data dir that is
	 * of another history (source_final.go:checkData). */
	:: atomic { in(d, Snapshotting) && ofThisHistory(d) -> sidecar[d].final = pod[d].disk;
#ifdef GEP_ORDER
		down(d);
#endif
		sidecar[d].role = Publishing }
	:: atomic { in(d, Snapshotting) && (failedFinals > 0 || !ofThisHistory(d)) &&
		isMine(d) && object[d].status == Initial && !object[d].failed ->
		endsIn(failedFinals); assign(next, object[d]); next.failed = true; writes(d, next) }
	:: atomic { in(d, Publishing) ->
		if
		:: isMine(d) && object[d].status == Initial -> reads(d, bySidecar(d)); sidecar[d].role = Swapping
		:: isMine(d) && object[d].status == Ready && object[d].by == bySource -> handed(d)
		:: else -> sidecar[d].final = 0; sidecar[d].role = Rereading
		fi }
	:: atomic { in(d, Swapping) ->
		assign(next, object[d]);
		next.status = Ready; next.by = bySource; next.set = sidecar[d].final; next.generation = sidecar[d].operation;
		next.lossy = false; swap(d, bySidecar(d));
		if
		:: answer == Won -> handed(d)
		:: else -> sidecar[d].role = Publishing
		fi }
	/* whilePending: aborted, or decided without this source */
	:: atomic { working(d) && delivered(d) ->
		if
		:: isPending(d) -> forget(d)
		:: else -> sidecar[d].final = 0; sidecar[d].operation = 0; current[d] = current[d] & ~bySidecar(d); follow(d)
		fi }

	:: atomic { in(d, Ceded) && delivered(d) ->
		if
		:: sidecar[d].reading == foreign -> forget(d)
		:: else -> follow(d)
		fi }
#ifdef HIBERNATE
	/* source_release.go: told to stop. Etcd ends by itself, or goes on; then nothing is
	 * released, and the watchdog sees to it. */
	:: atomic { in(d, Owner) && stops > 0 -> stops--; sidecar[d].open = false; sidecar[d].role = Stopping }
	:: atomic { in(d, Stopping) && pod[d].etcd == Asking ->
		sidecar[d].fenced = true; sidecar[d].locked = true; stored[d] = pod[d].disk; sidecar[d].role = Releasing }
	:: atomic { in(d, Stopping) -> ends(d) }
	:: atomic { in(d, Releasing) -> released = true; ends(d) }
	:: atomic { in(d, Releasing) && faults > 0 -> faults--; lateRelease = true; ends(d) }
#endif
	od
}
