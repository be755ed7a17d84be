// Package bench measures what the README promises, each figure as a ratio to a
// yardstick of the same run on the same machine:
//
//	make bench
//
// BenchmarkFull holds a full snapshot against etcdctl snapshot save,
// BenchmarkRestore a restore of deltas against a bare append to bbolt and
// against a replay through an etcd client, BenchmarkCapture an etcd that is
// backed up against one that is not. BenchmarkTransfer and BenchmarkCopy hold our
// stores and the copy command against the SDKs of the clouds, and BenchmarkHandOver
// the downtime of a hand-over against moving the same bytes once. BenchmarkIdle tells
// what a sidecar takes beside an etcd to which nothing is written. The program under
// test and etcd run as processes of their own, stores in this one; rounds
// alternate, and medians are reported. Absolute times say something only together
// with the machine's load, which is printed with them.
package bench
