/* What people do, and what happens. */

/* The endpoints of a source (§9). Anybody's update is atomic: it is repeated until
 * it answers, and another one would see the same (update.go). */
proctype people() {
end:	do
	:: atomic { initiates > 0 && sound(A) && sidecar[A].open && !over(A) &&
		(object[A].status == Absent || object[A].status == Aborted) ->
		initiates--; assign(next, object[A]);
		next.status = Initial; next.generation = object[A].generation + 1; next.destination = NOBODY;
		next.by = undecided; next.lossy = false; next.failed = false; next.set = 0;
		writes(A, next) }
	/* abort of what is not decided, reclaim of what is; also if the operator is wrong
	 * and the destination is about to commit */
	:: atomic { takeBacks > 0 && (object[A].status == Initial || object[A].status == Ready) ->
		takeBacks--; assign(next, object[A]); next.status = Aborted; writes(A, next) }
#ifdef BACK
	:: atomic { takeBacks > 0 && (object[B].status == Initial || object[B].status == Ready) ->
		takeBacks--; assign(next, object[B]); next.status = Aborted; writes(B, next) }
#endif
	od
}

proctype trouble(byte d) {
end:	do
	:: atomic { crashes > 0 && sidecar[d].alive -> crashes--; ends(d) }
	/* It begins with what it remembers: a fence comes before anything listens. */
	:: atomic { !sidecar[d].alive && (d == A || epoch[d] > 0) -> sidecar[d].alive = true;
		if
		:: sidecar[d].fenced -> fenceFor(d, Unknown)
		:: else
		fi }
	:: atomic { pauses > 0 && sound(d) -> pauses--; sidecar[d].paused = true }
	:: atomic { sidecar[d].paused -> sidecar[d].paused = false }
#ifdef MACHINE_SLEEPS
	:: atomic { pauses > 0 && sound(d) -> pauses--; sidecar[d].paused = true; sleeps = true }
	:: atomic { sleeps -> sidecar[d].paused = false; sleeps = false; servesNow(d) }
#endif
	od
}

proctype copyTrouble(byte d; byte c) {
end:	do
	:: atomic { copyCrashes > 0 && dest[d].step != Claiming && dest[d].step != Gone && dest[d].step != Finished ->
		copyCrashes--; current[c] = current[c] & ~byCopy(d); copyEnds(d, Claiming) }
#ifdef AGAIN
	:: atomic { copyCrashes > 0 && dest[d].step == Gone -> copyCrashes--; dest[d].step = Claiming } /* copy --again */
#endif
	od
}
