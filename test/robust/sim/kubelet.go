package sim

import (
	"context"
	"os"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
)

// awaitMachine returns when the machine runs.
func (s *site) awaitMachine() {
	for s.going() {
		s.mu.Lock()
		runs, changed := s.still.IsZero(), s.changed
		s.mu.Unlock()
		if runs {
			return
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
		}
	}
}

// powerOn lets the machine run: a kubelet with the container of etcd.
func (s *site) powerOn() {
	s.mu.Lock()
	s.off = false
	s.broadcast()
	s.mu.Unlock()
	if !s.begun() {
		s.tasks.Go(s.container)
		s.tasks.Go(s.probe)
		s.tasks.Go(s.clients)
	}
}

// begun notes that the machine's processes have been begun once.
func (s *site) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.up
	s.up = true
	return before
}

// container runs the container of etcd, again and again: a gate that asks, and
// etcd.
func (s *site) container() {
	d := s.world.dice("the etcd container of " + s.name)
	for s.going() {
		s.sleep(d.between(second/2, 5*second))
		s.awaitMachine()
		s.mu.Lock()
		off := s.off || s.scaled
		s.mu.Unlock()
		if !off && s.passGate(d) {
			s.runEtcd()
		}
	}
}

// passGate asks the sidecar until it permits etcd to start, as package gate does.
// It reports whether etcd has started.
func (s *site) passGate(d *dice) bool {
	s.mu.Lock()
	l, defective := s.server, s.set.Defect == OpenGate && s.wantsUp
	s.mu.Unlock()
	if defective {
		return s.startEtcd()
	}
	if l == nil || l.election == nil {
		return false
	}
	good, permitted := s.ask(l)
	if !permitted {
		return false
	}
	s.mu.Lock()
	s.etcd.passed = true
	s.etcd.session++
	ended, lazy := s.etcd.ended, s.lazy
	s.mu.Unlock()
	t := time.NewTimer(lazy + d.between(second/100, second/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended: // the fence has found the gate
		return false
	case <-s.ctx.Done():
		return false
	}
	s.awaitMachine()
	s.mu.Lock()
	late := s.bootAt(time.Now()) >= good
	if late && s.etcd.passed {
		s.etcd.kill("the gate's permission is over")
	}
	s.mu.Unlock()
	return !late && s.startEtcd()
}

// ask asks a sidecar for permission. It is good until some moment on BOOTTIME.
func (s *site) ask(l *life) (good time.Duration, permitted bool) {
	asked := l.Boot()
	ctx, cancel := context.WithTimeout(s.ctx, 30*second)
	defer cancel()
	type answer struct {
		remaining time.Duration
		err       error
	}
	answers := make(chan answer, 1)
	s.tasks.Go(func() {
		err := l.election.Allowed(ctx, gate())
		a := answer{l.election.Status().Remaining, err}
		if dead := l.await(); dead == nil {
			answers <- a
		}
	})
	t := time.NewTimer(40 * second)
	defer t.Stop()
	select {
	case a := <-answers:
		return asked + a.remaining, a.err == nil
	case <-t.C:
	case <-l.died:
	case <-s.ctx.Done():
	}
	return 0, false
}

// gate is the process that asks: any that lives.
func gate() fence.Process {
	p, err := fence.Find(os.Getpid())
	if err != nil {
		panic(err) // there is a process
	}
	return p
}

// startEtcd starts etcd, which waits for its lock; false: it was ended before.
func (s *site) startEtcd() bool {
	for s.going() {
		s.mu.Lock()
		if !s.etcd.passed && s.set.Defect != OpenGate || s.off || s.scaled {
			s.mu.Unlock()
			return false
		}
		if s.etcd.lock == nil {
			s.etcd.start()
			s.mu.Unlock()
			return true
		}
		changed, ended := s.changed, s.etcd.ended
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ended:
		case <-s.ctx.Done():
		}
	}
	return false
}

// runEtcd returns when etcd has ended.
func (s *site) runEtcd() {
	s.mu.Lock()
	ended, running := s.etcd.ended, s.etcd.running
	s.mu.Unlock()
	if !running {
		return
	}
	select {
	case <-ended:
	case <-s.ctx.Done():
	}
}

// probe is the liveness probe of etcd's container: it ends it within G of the
// sidecar's silence.
func (s *site) probe() {
	d := s.world.dice("the kubelet of " + s.name)
	g := s.plan.timing.Watchdog
	period, timeout := g/8, g/40
	failed := 0
	for s.going() {
		s.sleep(period)
		s.awaitMachine()
		if s.healthy(timeout) {
			failed = 0
			continue
		}
		failed++
		if failed < 3 || s.set.Defect == NoWatchdog {
			continue
		}
		failed = 0
		s.mu.Lock()
		session := s.etcd.session
		s.mu.Unlock()
		s.terminate(session, d.between(second/10, g*2/5), "the kubelet has ended its container")
	}
}

// healthy asks the sidecar once.
func (s *site) healthy(timeout time.Duration) bool {
	s.mu.Lock()
	l, idle := s.server, !s.etcd.running && !s.etcd.passed
	s.mu.Unlock()
	if idle {
		return true
	}
	if l == nil || l.election == nil {
		return false
	}
	answers := make(chan bool, 1)
	s.tasks.Go(func() {
		if l.await() == nil {
			answers <- l.election.Watchdog() == nil
		}
	})
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case ok := <-answers:
		return ok
	case <-t.C:
		return false
	}
}
