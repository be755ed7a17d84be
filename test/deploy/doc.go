// Package deploy holds what is in deploy/, and the Dockerfile, against the real
// thing: every kustomization is built and decoded as Kubernetes would, every command
// line in it is parsed by the real programs, the pods run as plain processes with
// their very flags, and what alerts and dashboard look at is looked for in the real
// /metrics.
//
// Not checked: what only a cluster can tell, such as whether an image starts, a
// network policy is enforced, or a volume may be written to.
package deploy
