/*
 * The invariants of §3, checked at the steps that could break them. An assertion
 * names the one that does not hold: Spin prints "assertion violated  !(I1_…)".
 */

hidden byte I1_two_deployments_serve, I1_not_the_owner_acknowledges;
hidden byte I2_lost_by_decision_of_source, I2_acknowledged_write_is_lost, I2_lost_without_lossy;
hidden byte I3_older_than_the_named_revision, I3_given_up_writes_are_back, I4_decided_twice, I5_not_the_named_set, I5_nothing_to_serve_at_commit;

#define must_not(P, broken) P = ((broken) -> 1 : 0); assert(!(P)); P = 0

/* An etcd begins to serve. */
inline servesNow(d) {
	must_not(I1_two_deployments_serve, serves(d) && others(d));
	must_not(I2_acknowledged_write_is_lost, serves(d) && d == home && !within(acknowledged, pod[d].disk));
	must_not(I3_given_up_writes_are_back, serves(d) && d == home && (pod[d].disk & lost) != 0)
}

/* What each configuration must be able to do; with it a search has to fail. */
#ifdef WITNESS
hidden byte handedOver;
#ifdef BACK
#define witness(d) must_not(handedOver, d == A && epoch[A] > 0)
#else
#define witness(d) must_not(handedOver, d != A)
#endif
#else
#define witness(d) skip
#endif

/* A client gets OK from d. */
inline acknowledges(d) {
	must_not(I1_two_deployments_serve, others(d));
	must_not(I1_not_the_owner_acknowledges, d != home);
	must_not(I2_acknowledged_write_is_lost, !within(acknowledged, pod[d].disk));
	must_not(I3_given_up_writes_are_back, (pod[d].disk & lost) != 0);
	witness(d)
}

#define oldest(writes) ((writes) & (0 - (writes)))

/* The commit point: what is in the set is the history from here on. */
inline commits(c, now) {
	must_not(I5_nothing_to_serve_at_commit, !manifest[now.destination]);
	must_not(I5_not_the_named_set, adopted[now.destination] != now.set);
	must_not(I2_lost_without_lossy, !now.lossy && !within(acknowledged, now.set));
	/* what is given up was written after all that is named: a write is a bit, newer is higher */
	must_not(I3_older_than_the_named_revision, !within(acknowledged, now.set) && oldest(acknowledged & ~now.set) < now.set);
	lost = lost | (acknowledged & ~now.set);
	acknowledged = acknowledged & now.set;
	home = now.destination
}

/* now replaces what is in container c. */
#define decided(o) (o.status == Ready || o.status == Done)

inline transition(c, now) {
	must_not(I4_decided_twice, now.generation < object[c].generation ||
		now.generation == object[c].generation && decided(object[c]) &&
		(now.status == Initial || now.by != object[c].by || now.set != object[c].set || now.lossy != object[c].lossy ||
		 now.destination != object[c].destination && object[c].destination != NOBODY));
	must_not(I4_decided_twice, now.generation > object[c].generation && (object[c].status == Initial || object[c].status == Ready));
	if
	:: now.status == Ready && object[c].status != Ready && now.by == bySource ->
		must_not(I2_lost_by_decision_of_source, !within(acknowledged, now.set))
	:: now.status == Done && object[c].status == Ready -> commits(c, now)
	:: else
	fi
}
