// Package rows hands real etcds over, in deployments as they are deployed: pods
// of a kubelet (test/kubelet), each with an etcd behind the gate and a sidecar
// beside it, containers on disk and on an S3 server behind lines that are cut and
// throttled, and the copy as a process of its own.
//
// A test is a row of what the product must survive; the table in test/robust
// tells which. In each of them sixteen clients write all the time, on
// connections that they keep and on new ones, and others read and watch, whatever
// the readiness says. All that they were told, at both ends, has to be what one
// etcd would have told: test/history has the rules. Nobody listens at the source
// at the end, and a plain etcd on a copy of the source's data dir has the hash that
// the destination has.
//
// Nothing here asserts that something is fast. The times of the protocol are
// seconds, and a test waits minutes for what must happen in the end. Where time is
// what the row is about, the bound that is asserted is the protocol's own.
//
// TestNothingIsLost does one round of each kind; "make robust" does ROUNDS (50).
package rows
