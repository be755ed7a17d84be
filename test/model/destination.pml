/*
 * The destination d of a hand-over of container c, copier/handover*.go, and the
 * server that serves from what it has copied.
 */

#define claimedBy(c, d) (object[c].generation == dest[d].generation && object[c].destination == d)
#ifdef NEVER_FORCED
#define mayForce(c, d) false
#else
#define mayForce(c, d) (dest[d].wait == 0 || object[c].failed)
#endif

inline claims(c, d) {
	assign(next, object[c]);
	if
	:: object[c].status == Initial || object[c].status == Ready
	:: else -> /* a new generation, with the owner of before */
		next.status = Initial; next.generation = object[c].generation + 1; next.by = undecided;
		next.lossy = false; next.failed = false; next.set = 0
	fi;
	next.destination = d
}

inline waits(c, d) { dest[d].generation = object[c].generation; dest[d].wait = W; adopting[d] = true; dest[d].step = Waiting }

inline copyEnds(d, how) {
	dest[d].step = how; dest[d].wait = 0; dest[d].generation = 0; dest[d].set = 0; dest[d].whole = false
}

/* Taken back: what was copied does not count (handover_past.go:withdrawDead). */
inline withdrawn(c, d) {
	adopting[d] = false; manifest[d] = false; adopted[d] = (epoch[d] > 0 -> adopted[d] : 0);
	current[c] = current[c] & ~byCopy(d); copyEnds(d, Gone)
}

proctype copy(byte d; byte c) {
#ifdef BACK
	(d == B || epoch[B] > 0); /* B hands back what it has got */
#endif
end:	do
	/* Claim: read, and swap it in. It is counted from the return of the swap. */
	:: atomic { dest[d].step == Claiming && object[c].status == Done && object[c].destination == d && object[c].owner == d ->
		dest[d].generation = object[c].generation; dest[d].step = Settling }
	:: atomic { dest[d].step == Claiming && (object[c].status == Initial || object[c].status == Ready) ->
		if
		:: object[c].destination == d -> waits(c, d)
		:: object[c].destination == NOBODY -> reads(c, byCopy(d)); dest[d].step = Swap
		:: else -> copyEnds(d, Gone) /* exit 3 */
		fi }
	:: atomic { dest[d].step == Claiming && (object[c].status == Absent || object[c].status == Aborted || object[c].status == Done) &&
		object[c].owner != d ->
		if
		:: object[c].status == Done && object[c].owner != c -> copyEnds(d, Gone) /* another has it */
#ifndef AGAIN
		:: object[c].status == Aborted && object[c].destination == d -> copyEnds(d, Gone) /* exit 5, without --again */
#endif
		:: else -> reads(c, byCopy(d)); dest[d].step = Swap
		fi }
	:: atomic { dest[d].step == Swap && dest[d].generation == 0 ->
		claims(c, d); swap(c, byCopy(d));
		if
		:: answer == Won -> waits(c, d)
		:: else -> dest[d].step = Claiming
		fi }

	/* Waiting. */
	:: atomic { dest[d].step == Waiting && (!claimedBy(c, d) || object[c].status == Aborted) -> withdrawn(c, d) }
	:: atomic { dest[d].step == Waiting && claimedBy(c, d) && decided(object[c]) ->
		dest[d].set = object[c].set; dest[d].wait = 0; dest[d].step = Copying }
	:: atomic { dest[d].step == Waiting && claimedBy(c, d) && object[c].status == Initial && mayForce(c, d) -> dest[d].step = Forcing }
#ifdef HIBERNATE
	/* Released, read after the claim was written: nothing to wait for. */
	:: atomic { dest[d].step == Waiting && released -> dest[d].whole = true; dest[d].step = Forcing }
#endif
	/* The newest chain, copied and verified, before it is decided. */
	:: atomic { dest[d].step == Forcing -> dest[d].set = stored[c]; dest[d].wait = 0;
		if
		:: !claimedBy(c, d) || object[c].status == Aborted -> withdrawn(c, d)
		:: claimedBy(c, d) && object[c].status == Initial -> reads(c, byCopy(d)); dest[d].step = Deciding
		:: claimedBy(c, d) && object[c].status != Initial && object[c].status != Aborted -> dest[d].whole = false; dest[d].step = Waiting
		fi }
	:: atomic { dest[d].step == Deciding ->
		assign(next, object[c]);
		next.status = Ready; next.by = byDestination; next.set = dest[d].set; next.lossy = !dest[d].whole; next.destination = d;
		next.generation = dest[d].generation; swap(c, byCopy(d));
		dest[d].whole = (answer == Won -> false : dest[d].whole);
		dest[d].step = (answer == Won -> Copying : Forcing) }

	/* Exactly the named set, and what is adopted, before the commit point. */
	:: atomic { dest[d].step == Copying -> adopted[d] = dest[d].set;
#ifndef ADOPT_AFTER_DONE
		manifest[d] = true;
#endif
#ifdef ADOPT_BEFORE_DONE
		adopting[d] = false; epoch[d]++;
#endif
		dest[d].step = Committing }
	:: atomic { dest[d].step == Committing ->
		if
		:: claimedBy(c, d) && object[c].status == Ready -> reads(c, byCopy(d)); dest[d].step = Swap
		:: claimedBy(c, d) && object[c].status == Done && object[c].owner == d -> dest[d].step = Settling
		:: else -> withdrawn(c, d) /* reclaimed, exit 5 */
		fi }
	:: atomic { dest[d].step == Swap && dest[d].generation != 0 ->
		assign(next, object[c]);
		next.status = Done; next.owner = d; next.destination = d; next.generation = dest[d].generation; swap(c, byCopy(d));
		dest[d].step = (answer == Won -> Settling : Committing) }

	/* After the commit point: one's own container is this history's from now on. A
	 * server that waited for this may begin. */
	:: atomic { dest[d].step == Settling ->
		manifest[d] = true;
		if :: adopting[d] -> adopting[d] = false; epoch[d]++; stored[d] = adopted[d] :: else fi;
#ifdef BACK
		if
		:: d == A -> /* Adopt: Superseded, read and written as any update */
			assign(next, object[A]); next.owner = A; writes(A, next)
		:: else
		fi;
#endif
		copyEnds(d, Finished) }
	od
}

/* B's server where it hands nothing over itself. With BACK it is a source. */
proctype destinationServer(byte d) {
end:	do
	:: atomic { epoch[d] > 0 && !adopting[d] && pod[d].etcd == Down ->
		if
		:: pod[d].epoch < epoch[d] -> pod[d].disk = adopted[d]; pod[d].epoch = epoch[d]
		:: else
		fi;
		pod[d].etcd = Up; servesNow(d) }
	od
}
