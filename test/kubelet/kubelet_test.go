package kubelet_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/kubelet"
)

func sh(name, script string) kubelet.Container {
	return kubelet.Container{Name: name, Command: []string{"sh", "-c", script}}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // processes have no virtual time
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
	}
}

func TestWhatEndsIsRestartedWithAllItStarted(t *testing.T) {
	p := kubelet.Run(t, sh("a", "sleep 1000 & echo up; wait"))
	eventually(t, "both processes", func() bool { return len(p.PIDs("a")) == 2 })
	p.Kill("a")
	eventually(t, "a restart", func() bool { return p.Restarts("a") > 0 && len(p.PIDs("a")) == 2 })
	p.Stop()
	if left := p.PIDs("a"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCrashIsForGood(t *testing.T) {
	p := kubelet.Run(t, sh("a", "trap '' TERM; sleep 1000 & wait; sleep 1000"))
	eventually(t, "both processes", func() bool { return len(p.PIDs("a")) == 2 })
	p.Crash()
	if left := p.PIDs("a"); len(left) > 0 || p.Restarts("a") != 0 {
		t.Errorf("left behind: %v, restarts: %d", left, p.Restarts("a"))
	}
}

func TestCrashAsksNobody(t *testing.T) {
	p := kubelet.Run(t, sh("a", "trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.01; done"))
	eventually(t, "up", func() bool { return strings.Contains(p.Log("a"), "up") })
	p.Crash()
	if strings.Contains(p.Log("a"), "asked") {
		t.Error("it was asked to end")
	}
}

func TestProbes(t *testing.T) {
	var well atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	well.Store(true)
	probe := kubelet.Probe{URL: s.URL, Period: 10 * time.Millisecond, Timeout: time.Second, Failures: 3}
	c := sh("a", "exec sleep 1000")
	c.Readiness, c.Liveness = probe, probe
	p := kubelet.Run(t, c)
	eventually(t, "ready", func() bool { return p.Ready("a") })
	well.Store(false)
	eventually(t, "not ready", func() bool { return !p.Ready("a") })
	eventually(t, "ended by the liveness probe", func() bool { return p.Restarts("a") > 0 })
	if !strings.Contains(p.Log("a"), "liveness probe failed") {
		t.Error(p.Log("a"))
	}
}
