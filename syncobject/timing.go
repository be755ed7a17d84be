package syncobject

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// The preset times of HANDOVER §4.
const (
	DefaultPoll       = 10 * time.Second  // P: between two reads of the sync object
	DefaultRead       = 5 * time.Second   // R: time-out of one of them
	DefaultLease      = 120 * time.Second // L
	DefaultKill       = 15 * time.Second  // K: from the end of the lease until etcd is gone
	DefaultWatchdog   = 75 * time.Second  // G: from the sidecar's silence until the kubelet has killed etcd
	DefaultForceAfter = 600 * time.Second // W: from the destination's claim until it may force
	DefaultSlack      = 10 * time.Second  // δ: for the store

	DefaultClockError = 0.001 // ρ: by which share clock rates may be wrong
)

// Timing is what bounds for how long a source that cannot be reached may still
// serve.
type Timing struct {
	Lease    time.Duration // L
	Kill     time.Duration // K
	Watchdog time.Duration // G

	ClockError float64       // ρ
	Slack      time.Duration // δ
}

// DefaultTiming returns the preset times.
func DefaultTiming() Timing {
	return Timing{
		Lease: DefaultLease, Kill: DefaultKill, Watchdog: DefaultWatchdog,
		ClockError: DefaultClockError, Slack: DefaultSlack,
	}
}

// Check returns an error unless W(1−ρ) > (L + max(K, G))(1+ρ) + δ: unless every
// source that has not read the destination's claim has stopped serving before
// the destination forces, w after its claim. The error shows the inequality
// with its numbers.
func (t Timing) Check(w time.Duration) error {
	if err := t.sane(); err != nil {
		return err
	}
	if t.holds(w) {
		return nil
	}
	return fmt.Errorf("forcing after %s is not safe: W(1−ρ) > (L + max(K, G))(1+ρ) + δ does not hold: "+
		"%s × (1 − %g) = %.3f s, but (%s + max(%s, %s)) × (1 + %g) + %s = %.3f s; wait for at least %s",
		w, w, t.ClockError, t.left(w), t.Lease, t.Kill, t.Watchdog, t.ClockError, t.Slack, t.right(), t.Bound())
}

// Bound returns the shortest W, in whole seconds, that Check accepts; forever if
// it accepts none.
func (t Timing) Bound() time.Duration {
	if t.sane() != nil {
		return math.MaxInt64
	}
	w := time.Duration(math.Floor(t.right()/(1-t.ClockError))) * time.Second
	for !t.holds(w) {
		w += time.Second
	}
	return w
}

// CheckPoll returns an error unless P + R < L/3: unless a lease survives two
// reads that fail.
func (t Timing) CheckPoll(poll, read time.Duration) error {
	if poll <= 0 || read <= 0 {
		return fmt.Errorf("the poll period %s and the time-out of a read %s must be above 0", poll, read)
	}
	if poll+read < t.Lease/3 {
		return nil
	}
	return fmt.Errorf("the lease is too short for how often it is renewed: P + R < L/3 does not hold: %s + %s = %s, but %s / 3 = %s",
		poll, read, poll+read, t.Lease, t.Lease/3)
}

func (t Timing) sane() error {
	switch {
	case t.Lease <= 0, t.Kill < 0, t.Watchdog < 0, t.Slack < 0:
		return fmt.Errorf("lease %s, kill budget %s, watchdog %s or slack %s is not a time", t.Lease, t.Kill, t.Watchdog, t.Slack)
	case !(t.ClockError >= 0 && t.ClockError < 0.5):
		return fmt.Errorf("clock error %g is not a share from 0 to 0.5", t.ClockError)
	default:
		return nil
	}
}

func (t Timing) holds(w time.Duration) bool { return t.left(w) > t.right() }

func (t Timing) left(w time.Duration) float64 { return w.Seconds() * (1 - t.ClockError) }

func (t Timing) right() float64 {
	return (t.Lease.Seconds()+max(t.Kill, t.Watchdog).Seconds())*(1+t.ClockError) + t.Slack.Seconds()
}

// Seconds is a duration that JSON has as a number of seconds.
type Seconds time.Duration

// Duration returns s as a duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// MarshalJSON implements json.Marshaler. Less than a microsecond is cut off.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(s).Microseconds()) / 1e6)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	if seconds < 0 || seconds > maxSeconds {
		return errors.New("not a number of seconds")
	}
	*s = Seconds(time.Duration(math.Round(seconds*1e6)) * time.Microsecond)
	return nil
}

const maxSeconds = 100 * 365 * 24 * 60 * 60 // a century, far below the largest Duration
