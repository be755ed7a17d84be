package sim

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

var (
	errOver   = errors.New("the world has ended")
	errDead   = errors.New("this process has crashed")
	errCut    = errors.New("connection reset")
	errDenied = errors.New("403")
)

// site is a deployment: a container, and a machine with an etcd, its sidecar, and
// sometimes a copier.
type site struct {
	*world
	name string
	box  *container
	dice *dice
	etcd *etcd

	// What follows is guarded by world.mu.
	changed  chan struct{} // closed and made again when something below changes
	off      bool          // powered down
	scaled   bool          // to zero: the pod of etcd and its sidecar is not there
	still    time.Time     // since when the whole machine stands still; zero: it runs
	resumed  time.Time     // when it last went on
	booted   time.Time
	bootID   int
	stolen   time.Duration // of BOOTTIME, since booted
	skew     time.Duration // of the wall clock
	jumped   time.Time     // when that was last changed
	rate     float64       // of both clocks
	kept     []byte        // what the sidecar remembers, nil: nothing
	weather  map[*site]weather
	since    map[*site]time.Time // when it became so
	server   *life
	copier   *life
	up       bool          // the machine has been switched on once
	zombies  []*life       // copiers that were replaced and have not ended
	wantsUp  bool          // the operator has started the server once
	lastGood time.Time     // start of the last good read of the sync object by a sidecar
	goodAt   time.Time     // when that was answered
	slow     time.Duration // how long a final snapshot takes to be read
	deaf     bool          // etcd does not hear SIGTERM
	lazy     time.Duration // how long the gate takes to start etcd
}

// container is an object store of one deployment.
type container struct {
	*mem.Store
	site  *site
	seen  watched
	order sync.Mutex // held over a write and the look at it
}

func (c *container) String() string { return "mem:" + c.site.name }

func newSite(w *world, name string) *site {
	s := &site{
		world: w, name: name, dice: w.dice(name), changed: make(chan struct{}), off: true,
		weather: map[*site]weather{}, since: map[*site]time.Time{}, booted: w.began.Add(-time.Hour),
	}
	s.rate = 1 + w.plan.rho*(2*s.dice.share()-1)
	switch first := len(w.sites) == 0; {
	case first && w.set.Defect == SlowClock:
		s.rate = 0.5
	case w.set.Theme == Clocks && first:
		s.rate = 1 - w.plan.rho // its lease lasts long
	case w.set.Theme == Clocks:
		s.rate = 1 + w.plan.rho // and others wait for a short time
	}
	if w.set.Theme == Gates {
		s.lazy = 20 * second
	}
	s.box = &container{Store: mem.New(), site: s}
	s.etcd = newEtcd(s)
	return s
}

// broadcast wakes who waits for a change. The caller holds mu.
func (s *site) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// life is one process.
type life struct {
	*site
	what string
	dice *dice
	ctx  context.Context
	stop context.CancelFunc // asks it to end
	died chan struct{}
	done chan struct{}

	// What follows is guarded by world.mu.
	dead   bool
	paused time.Time // since when it stands still; zero: it runs
	told   string    // the last that it has logged
	job    *job      // of a copier
	went   time.Time // when it began, or last went on

	election *server.Election
}

// live begins a process.
func (s *site) live(what string) *life {
	l := &life{site: s, what: s.name + "'s " + what, died: make(chan struct{}), done: make(chan struct{}), went: time.Now()}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(s.ctx))
	l.dice = s.world.dice(l.what + time.Since(s.began).String())
	return l
}

// standsSince returns since when the process stands still; zero: it runs. The
// caller holds mu.
func (l *life) standsSince() time.Time {
	switch {
	case l.still.IsZero():
		return l.paused
	case l.paused.IsZero() || l.still.Before(l.paused):
		return l.still
	default:
		return l.paused
	}
}

// await returns when the process runs; errDead if it never will again. What stands
// still notices nothing, not even the end of a context.
func (l *life) await() error {
	for {
		l.mu.Lock()
		dead, still, changed := l.dead, !l.standsSince().IsZero(), l.changed
		l.mu.Unlock()
		switch {
		case dead:
			return errDead
		case !still:
			return nil
		}
		select {
		case <-changed:
		case <-l.died:
		}
	}
}

// crash ends a process without a trace, at once; wait for done.
func (l *life) crash() {
	l.mu.Lock()
	if !l.dead {
		l.dead = true
		close(l.died)
		l.etcd.orphaned(l)
		l.broadcast()
	}
	l.mu.Unlock()
	l.stop()
	<-l.done
}

// Boot implements server.Clock.
func (l *life) Boot() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bootAt(l.notices())
}

// Wall implements server.Clock.
func (l *life) Wall() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.notices()
	return at.Add(l.skew + time.Duration(float64(at.Sub(l.began))*(l.rate-1)))
}

// notices returns the moment that the process lives in. The caller holds mu.
func (l *life) notices() time.Time {
	if since := l.standsSince(); !since.IsZero() {
		return since
	}
	return time.Now()
}

func (s *site) bootAt(at time.Time) time.Duration {
	return 30*second + time.Duration(float64(at.Sub(s.booted)-s.stolen)*s.rate)
}

// memory is what a life has of the sidecar's state.
type memory struct{ *life }

func (m memory) String() string { return "the state of " + m.what }

func (m memory) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		return nil, fs.ErrNotExist
	}
	return m.kept, nil
}

func (m memory) Replace(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	m.kept = data
	return nil
}

// processes are those that run.
func (s *site) processes() []*life {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*life
	for _, l := range append([]*life{s.server, s.copier}, s.zombies...) {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}
