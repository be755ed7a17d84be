package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
)

// gateWait is for how long a gate waits for one answer.
const gateWait = 30 * time.Second

// permission is the answer of an open gate, see package gate.
type permission struct {
	Allowed               bool    `json:"allowed"`
	LeaseRemainingSeconds float64 `json:"leaseRemainingSeconds"`
}

// gate answers 200 as soon as etcd may start, else 423 after a while. The process
// that asks is ended when etcd must not serve any more, so only one of the same
// machine can ask.
func (d *Daemon) gate(w http.ResponseWriter, r *http.Request) {
	if !isLocal(r) {
		fail(w, http.StatusForbidden, "forbidden", errNotLocal)
		return
	}
	process, err := gateOf(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "bad_request", err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), gateWait)
	defer cancel()
	if err := d.Election.Allowed(ctx, process); err != nil {
		fail(w, http.StatusLocked, "shut", err)
		return
	}
	remaining := d.Election.Status().Remaining
	if !d.Election.Implicit {
		remaining = gateWait // there is no lease to lose
	}
	reply(w, http.StatusOK, permission{true, max(0, remaining).Seconds()})
}

func gateOf(r *http.Request) (fence.Process, error) {
	query := r.URL.Query()
	pid, pidErr := strconv.Atoi(query.Get("pid"))
	start, startErr := strconv.ParseUint(query.Get("start"), 10, 64)
	switch err := errors.Join(pidErr, startErr); {
	case err != nil:
		return fence.Process{}, fmt.Errorf("want pid and start of the gate, as in /proc/PID/stat: %w", err)
	case pid <= 1:
		return fence.Process{}, errors.New("the gate is process 1, which it cannot be here: " +
			"let the containers share the process namespace (shareProcessNamespace: true)")
	}
	return fence.Process{PID: pid, Start: start}, nil
}

// watchdog answers the liveness probe of etcd's container.
func (d *Daemon) watchdog(w http.ResponseWriter, _ *http.Request) {
	if d.Election != nil {
		if err := d.Election.Watchdog(); err != nil {
			fail(w, http.StatusServiceUnavailable, "must_not_run", err)
			return
		}
	}
	reply(w, http.StatusOK, ok)
}
