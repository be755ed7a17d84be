// Package kubelet is as much of a kubelet as a hand-over depends on: it runs the
// containers of a pod with a shared PID namespace, probes them, restarts what
// ended with a growing back-off, and ends a pod in order.
//
// A container is an entry process and everything that it has started; a mark in
// the environment tells whose a process is, as a cgroup does for a container
// runtime. When the entry process ends, so does the rest of its container.
//
// Left out: images, mounts, limits, init containers, exec probes.
package kubelet
