/*
 * The store: linearizable objects with conditional writes (STORES.md). An update is
 * a read, a pure step, and a swap that succeeds only if nobody has written since the
 * read; after anything else it is read again (syncobject/update.go). That versions
 * are unique (serial, writeID) makes "nobody has written" exact, so versions
 * themselves are not needed: a write makes everybody's read an old one.
 */

#define bySidecar(d) (1 << (d))
#define byCopy(d) (8 << (d))

mtype:answer = { Won, Changed, Unclear };
hidden mtype:answer answer;
hidden Object next;          /* what a swap puts there */
hidden byte lastOf;

inline assign(to, from) {
	to.status = from.status; to.generation = from.generation; to.owner = from.owner;
	to.destination = from.destination; to.by = from.by; to.lossy = from.lossy;
	to.failed = from.failed; to.set = from.set
}

inline noLate() {
	isLate = false; lateOf = 0;
	late.status = 0; late.generation = 0; late.owner = NOBODY; late.destination = 0;
	late.by = 0; late.lossy = false; late.failed = false; late.set = 0
}

/* A read at the start of an update, and whether the swap at its end would succeed. */
inline reads(c, writer) { current[c] = current[c] | (writer) }
#ifdef UNCONDITIONAL
#define stillCurrent(c, writer) true
#else
#define stillCurrent(c, writer) ((current[c] & (writer)) != 0)
#endif

inline writes(c, now) {
	transition(c, now);
	assign(object[c], now);
	current[c] = 0;
#ifndef UNCONDITIONAL
	if
	:: isLate && lateOf == c -> noLate()
	:: else
	fi
#endif
}

/* The swap of next: it answers; or it succeeds and the answer is lost; or its sender
 * gives up and it may arrive yet. One is late at a time. */
inline swap(c, writer) {
	if
	:: !stillCurrent(c, writer) -> answer = Changed
	:: stillCurrent(c, writer) -> writes(c, next); answer = Won
	:: stillCurrent(c, writer) && faults > 0 -> faults--; writes(c, next); answer = Unclear
	:: stillCurrent(c, writer) && faults > 0 && !isLate ->
		faults--; assign(late, next); lateOf = c; isLate = true; answer = Unclear
	fi;
	current[c] = current[c] & ~(writer)
}

/* Brings what is late: without a condition whatever happened meanwhile. */
proctype network() {
end:	do
	:: atomic { isLate -> assign(next, late); d_step { lastOf = lateOf; noLate() }; writes(lastOf, next); lastOf = 0 }
#ifdef HIBERNATE
	:: atomic { lateRelease -> lateRelease = false; released = true }
#endif
	od
}
