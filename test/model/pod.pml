/* The container of etcd as the kubelet keeps it, and who writes to etcd. */

/* The container ends with all that is in it, and is started again at once. */
inline down(d) { pod[d].etcd = Asking; pod[d].permission = 0; pod[d].silence = 0 }

/* §4: the liveness probe of etcd's container is answered by the sidecar, with 503
 * while an etcd runs that must not (election_api.go:Watchdog). */
#ifdef ONLY_ETCD_IS_SEEN
#define mustEnd(d) (pod[d].etcd == Up)
#else
#define mustEnd(d) (pod[d].etcd == Up || pod[d].etcd == Started || pod[d].etcd == Passed)
#endif
#define unheard(d) (pod[d].etcd != Asking && pod[d].etcd != Down && (!sound(d) || mustEnd(d) && (over(d) || sidecar[d].role == Fencing)))

#ifdef GATE_UNBOUND
#define GATE_LATE
#define inLease(d) true
#else
#define inLease(d) (!over(d))
#endif

proctype etcdContainer(byte d) {
end:	do
	/* The sidecar remembers who asks before it answers; the answer is good for what is
	 * left of the lease, counted from before the question (pkg/gate/ask.go). */
	:: atomic { pod[d].etcd == Asking && sound(d) && sidecar[d].open && inLease(d) ->
		pod[d].etcd = Passed; pod[d].permission = sidecar[d].lease }
#ifdef GATE_LATE
	:: atomic { pod[d].etcd == Passed -> /* however old the answer is */
#else
	:: pod[d].etcd == Passed && pod[d].permission == 0 -> pod[d].etcd = Asking /* too late, it asks again */
	:: atomic { pod[d].etcd == Passed && pod[d].permission > 0 ->
#endif
#ifdef WRAPPER
		pod[d].etcd = Started; pod[d].permission = 0 }
	:: atomic { pod[d].etcd == Started -> pod[d].etcd = Up; servesNow(d) }
#else
		pod[d].etcd = Up; pod[d].permission = 0; servesNow(d) }
#endif
	:: atomic { pod[d].etcd == Up -> down(d) } /* it dies by itself */
#ifdef BYHAND
	:: atomic { pod[d].etcd == Asking -> pod[d].etcd = Up; servesNow(d) } /* somebody starts it past the gate */
#endif
#ifdef GEP
	:: atomic { pod[d].etcd == Asking -> pod[d].etcd = Up; servesNow(d) } /* nobody asks */
#endif
	/* The kubelet: what has not been heard of for G is killed, with all in the container. */
	:: atomic { pod[d].etcd != Down && pod[d].silence >= G -> down(d) }
	/* The snapshotter of an owner. It is waited for at a fence. */
	:: atomic { sound(d) && sidecar[d].open && pod[d].etcd == Up && stored[d] != pod[d].disk -> stored[d] = pod[d].disk }
	od
}

inline isWritten(d) {
	acknowledges(d);
	pod[d].disk = pod[d].disk | writeOf(written);
	acknowledged = acknowledged | writeOf(written);
	written++
}

/* On connections that they keep: whatever readiness says. */
proctype clients() {
end:	do
	:: atomic { written < WRITES && serves(A) -> isWritten(A) }
	:: atomic { written < WRITES && serves(B) -> isWritten(B) }
#ifdef TWO
	:: atomic { written < WRITES && serves(C) -> isWritten(C) }
#endif
	od
}
