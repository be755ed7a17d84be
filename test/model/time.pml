/*
 * The clock. Everything that lasts is a number of ticks: what is left until it is
 * over, or how old it is, up to where more makes no difference. A tick is atomic,
 * and it does not come while something is due: that is how "within K" and "within
 * G" are promises. Everything else may take any time.
 */

/* A sidecar that runs looks at its lease each second (Tick), far more often than a
 * tick is long; a kill ends within K; the kubelet has killed at G. */
#ifdef NO_WATCHDOG
#define killDue(d) false
#elif defined(MACHINE_SLEEPS)
#define killDue(d) (pod[d].etcd != Down && pod[d].silence >= G && !sleeps)
#else
#define killDue(d) (pod[d].etcd != Down && pod[d].silence >= G)
#endif
#define leaseDue(d) (over(d) && (in(d, Owner) || in(d, Preparing) || in(d, Unknown) && sidecar[d].begun))
#define fenceDue(d) (in(d, Fencing) && sidecar[d].kill == 0)
#define due(d) (killDue(d) || leaseDue(d) || fenceDue(d))

inline tick(d) {
#ifndef NO_WATCHDOG
	pod[d].silence = (unheard(d) -> (pod[d].silence < G -> pod[d].silence + 1 : G) : 0); /* as it was until now */
#endif
	endsIn(sidecar[d].lease);
	endsIn(sidecar[d].kill);
	endsIn(pod[d].permission);
	sidecar[d].age = ((sidecar[d].reading == asked || sidecar[d].reading == own) && sidecar[d].age < L -> sidecar[d].age + 1 : sidecar[d].age)
}

inline tickOfSources() {
	tick(A);
#ifdef BACK
	tick(B);
#endif
}

inline tickOfDestinations() {
	endsIn(dest[A].wait);
	endsIn(dest[B].wait);
#ifdef TWO
	endsIn(dest[C].wait);
#endif
}

#ifdef BACK
#define nothingDue (!due(A) && !due(B))
#else
#define nothingDue (!due(A))
#endif

proctype clock() {
	do
	:: atomic { nothingDue -> d_step { tickOfSources(); tickOfDestinations() } }
	/* The clock of a source is late against that of the destination: rho. */
	:: atomic { nothingDue && slow > 0 -> d_step { slow--; tickOfDestinations() } }
	od
}
