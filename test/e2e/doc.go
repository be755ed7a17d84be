// Package e2e runs the etcd-ferry binary as a user would, against real etcds:
// command lines in, exit codes and output out.
//
// Not tested here: what a package can prove by itself.
package e2e
