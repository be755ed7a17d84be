// Package robust breaks things while real etcds are written to, and then looks
// whether anything was lost: the sidecar is killed at random moments, the store
// fails, etcd restarts. What must hold is checked after every blow, and at the
// end a restore must have the hash of the etcd it came from.
package robust
