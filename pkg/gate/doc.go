// Package gate is the entrypoint of the etcd container: it waits until the
// sidecar permits etcd to run, runs it, and ends as it ended.
//
//  1. Ask GET /gate of the sidecar, with our own pid and start time. The sidecar
//     writes these down before it says yes: from then on it can end everything
//     that we start, also a wrapper that has not come to its etcd yet.
//  2. While the answer is no, or nobody answers, ask again. Nothing is started and
//     nothing ends: a gate that is shut is not a crash loop.
//  3. Start the command, unless the permission grew old meanwhile. Signals go on to
//     it. What its children leave behind becomes ours (PR_SET_CHILD_SUBREAPER), is
//     reaped, and is ended with it.
//  4. End with the command's exit status, or 128 + the signal that ended it.
//
// Everything the command starts dies with the gate: the kernel kills the command
// (PR_SET_PDEATHSIG), the container runtime the rest of the container.
//
// Not promised: safety by itself. The gate keeps a restarted etcd from
// serving; what keeps one out that is started past it is the lock that the sidecar
// holds on the database, HANDOVER §5.
package gate
