package server

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// Presets of Timing that a destination need not know. The others are those of
// syncobject.
const (
	DefaultGrace     = 10 * time.Second
	DefaultHeartbeat = 30 * time.Second
	DefaultTick      = time.Second
	// DefaultRelease leaves some of the 30 s that Kubernetes gives a pod to end.
	DefaultRelease = 25 * time.Second
)

// Timing is how long everything about the right to serve takes.
type Timing struct {
	Poll      time.Duration // P: between two reads of the sync object, ± 10 %
	Read      time.Duration // R: bound of one read
	Lease     time.Duration // L: etcd may serve so long after the start of the last good read
	Grace     time.Duration // between SIGTERM and SIGKILL
	Kill      time.Duration // K: bound of a fence, the grace included
	Watchdog  time.Duration // G: the kubelet ends an etcd whose sidecar is silent for so long
	Heartbeat time.Duration // between two signs of life while the final snapshot is made
	Tick      time.Duration // between two looks at the lease
	Release   time.Duration // bound of what is done after the order to stop
}

// DefaultTiming returns the presets.
func DefaultTiming() Timing {
	return Timing{
		Poll: syncobject.DefaultPoll, Read: syncobject.DefaultRead, Lease: syncobject.DefaultLease,
		Kill: syncobject.DefaultKill, Watchdog: syncobject.DefaultWatchdog,
		Grace: DefaultGrace, Heartbeat: DefaultHeartbeat, Tick: DefaultTick, Release: DefaultRelease,
	}
}

// Check returns what is wrong with t, joined.
func (t Timing) Check() error {
	var errs []error
	if min(t.Lease, t.Kill, t.Watchdog, t.Grace, t.Heartbeat, t.Tick, t.Release) <= 0 {
		errs = append(errs, errors.New("every time of the hand-over must be above 0"))
	}
	bound := syncobject.Timing{Lease: t.Lease, Kill: t.Kill, Watchdog: t.Watchdog}
	errs = append(errs, bound.CheckPoll(t.Poll, t.Read))
	if t.Grace >= t.Kill {
		errs = append(errs, fmt.Errorf("the grace of %v must be below the kill budget of %v: what does not hear SIGTERM is killed then", t.Grace, t.Kill))
	}
	return errors.Join(errs...)
}

// Clock tells the time in two ways, which fail in different ways: one does not
// stand still while the machine sleeps, the other is set right after a pause
// that the machine knows nothing of.
type Clock interface {
	Boot() time.Duration // since boot, sleep included; math.MaxInt64 if it cannot tell
	Wall() time.Time
}

// instant is a moment on both clocks.
type instant struct {
	Boot time.Duration `json:"boot"`
	Wall time.Time     `json:"wall"`
}

func now(c Clock) instant { return instant{c.Boot(), c.Wall().Round(0)} } // without Go's monotonic clock

// since returns how long ago i was, by the clock that says the most.
func (i instant) since(c Clock) time.Duration {
	n := now(c)
	if n.Boot == math.MaxInt64 { // the clock is broken
		return math.MaxInt64
	}
	return max(n.Boot-i.Boot, n.Wall.Sub(i.Wall).Abs())
}

// lease is the right to serve for a length of time from the start of a read.
type lease struct {
	clock Clock

	mu     sync.Mutex // guards what follows
	length time.Duration
	start  instant // zero: there was none
}

// renew counts the lease from start, unless it is counted from later already.
func (l *lease) renew(start instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if start.Boot > l.start.Boot {
		l.start = start
	}
}

// bound makes the lease as long as length.
func (l *lease) bound(length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.length = length
}

// begun reports whether there was a lease at all.
func (l *lease) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start != instant{}
}

// remaining returns how long the lease is still valid; it is over at 0 and
// below. Without a lease it says minus the length.
func (l *lease) remaining() time.Duration {
	l.mu.Lock()
	start, length := l.start, l.length
	l.mu.Unlock()
	if start == (instant{}) {
		return -length
	}
	return length - start.since(l.clock)
}

func (l *lease) valid() bool { return l.remaining() > 0 }
