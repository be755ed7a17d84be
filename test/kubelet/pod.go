package kubelet

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Container is what a pod's manifest says of one.
type Container struct {
	Name      string
	Command   []string
	Env       []string // beside that of this process
	Readiness Probe
	Liveness  Probe
}

// Probe is an HTTP GET that has to answer 2xx or 3xx. The zero Probe is none.
type Probe struct {
	URL      string
	Period   time.Duration // between two probes
	Timeout  time.Duration // of one
	Failures int           // in a row, until it counts
}

const (
	// Grace is how long a container that was asked to end may take.
	Grace = 30 * time.Second

	firstBackOff = 50 * time.Millisecond // a real kubelet begins with 10 s
	lastBackOff  = 2 * time.Second       // and ends with 5 min
)

// Pod runs containers until it is stopped.
type Pod struct {
	containers map[string]*container
	cancel     context.CancelFunc
	done       sync.WaitGroup
}

// Run starts a pod. It is stopped when the test ends.
func Run(t testing.TB, containers ...Container) *Pod {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Pod{containers: map[string]*container{}, cancel: cancel}
	for i, spec := range containers {
		c := newContainer(t, spec, i)
		p.containers[spec.Name] = c
		p.done.Go(func() { c.run(ctx) })
		p.done.Go(func() { c.probe(ctx) })
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			p.tell(t)
		}
	})
	return p
}

// Stop asks all containers to end and returns when they have.
func (p *Pod) Stop() {
	p.cancel()
	p.done.Wait()
}

// Crash ends everything in the pod with SIGKILL, as a node does that loses power.
// The pod does not come back.
func (p *Pod) Crash() {
	for _, c := range p.containers {
		c.dead.Store(true)
	}
	var killed sync.WaitGroup
	for _, c := range p.containers {
		killed.Go(c.killAll)
	}
	killed.Wait()
	p.cancel()
	p.done.Wait()
}

// Kill ends a container with SIGKILL. It will be restarted.
func (p *Pod) Kill(name string) { p.containers[name].killAll() }

// PIDs are the processes of a container, its entry process first.
func (p *Pod) PIDs(name string) []int { return p.containers[name].pids() }

// Ready reports whether a container runs and its readiness probe succeeds.
func (p *Pod) Ready(name string) bool { return p.containers[name].ready.Load() }

// Restarts is how often a container was started again.
func (p *Pod) Restarts(name string) int { return int(p.containers[name].starts.Load()) - 1 }

// Log is what a container has said so far.
func (p *Pod) Log(name string) string { return p.containers[name].log.String() }

const tail = 8 << 10 // bytes of a log that a failed test shows

func (p *Pod) tell(t testing.TB) {
	for name, c := range p.containers {
		said := c.log.String()
		t.Logf("container %s, started %d times, ended with:\n%s", name, c.starts.Load(), said[max(0, len(said)-tail):])
	}
}

// check probes once.
func (p Probe) check(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

// watch tells changed each time that the probe's verdict has changed, and lost
// each time that it failed too often in a row.
func (p Probe) watch(ctx context.Context, ready *atomic.Bool, lost func()) {
	if p.URL == "" {
		return
	}
	tick := time.NewTicker(p.Period)
	defer tick.Stop()
	for failures := 0; ; {
		if ctx.Err() != nil {
			return
		}
		switch {
		case p.check(ctx):
			failures = 0
			ready.Store(true)
		default:
			failures++
		}
		if failures >= p.Failures {
			failures = 0
			ready.Store(false)
			lost()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
