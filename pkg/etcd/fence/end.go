package fence

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"time"
)

// look is how often the gate's subtree is looked at for new processes.
const look = 100 * time.Millisecond

// ending is the end of a set of processes.
type ending struct {
	*Fencer
	gate Process
	all  []*handle
}

// end ends the processes found, and what the gate starts meanwhile: SIGTERM, and
// after the grace SIGKILL. It tells e.
func (f *Fencer) end(ctx context.Context, gate Process, found []Process, holder Process, e *Exit) error {
	s := &ending{Fencer: f, gate: gate}
	defer s.close()
	asked, err := s.add(found, syscall.SIGTERM)
	if err != nil {
		return err
	}
	if len(s.all) > 0 {
		f.Log.Info("ending etcd", "holder", holder.PID, "processes", len(s.all), "grace", f.Grace.String())
	}
	err = s.wait(ctx, f.Grace, syscall.SIGTERM, everyone)
	if !holder.IsZero() {
		byItself := s.ended(func(p Process) bool { return p == holder })
		othersToo := e.Holder.IsZero() || e.Clean
		e.Holder, e.Clean = holder, byItself && othersToo && slices.Contains(asked, holder)
	}
	if err != nil || s.ended(everyone) {
		return err
	}
	err = s.kill(ctx)
	for _, h := range s.all {
		if h.killed {
			e.Killed = append(e.Killed, h.Process)
		}
	}
	return err
}

// add opens those processes that are new and sends them sig. It returns whom it
// was sent.
func (s *ending) add(ps []Process, sig syscall.Signal) (sent []Process, err error) {
	for _, p := range ps {
		if slices.ContainsFunc(s.all, func(h *handle) bool { return h.Process == p }) {
			continue
		}
		h, err := open(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return sent, err
		}
		s.all = append(s.all, h)
		if err := h.signal(sig); err != nil && !h.denied {
			return sent, err
		}
		if !h.ended {
			sent = append(sent, p)
		}
	}
	return sent, nil
}

// wait returns when all those have ended, or after d. What the gate starts
// meanwhile is sent sig.
func (s *ending) wait(ctx context.Context, d time.Duration, sig syscall.Signal, who func(Process) bool) error {
	deadline := time.Now().Add(d)
	for ctx.Err() == nil {
		if err := wait(s.all, 0); err != nil {
			return err
		}
		below, err := belowGate(s.gate)
		if err != nil {
			return err
		}
		if _, err := s.add(below, sig); err != nil {
			return err
		}
		left := time.Until(deadline)
		if s.ended(who) || left <= 0 {
			return nil
		}
		if err := wait(s.all, min(left, look)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// kill ends by force who is still there. The gate is stopped first, so that it
// starts nothing more, and killed last, so that what it has started does not
// get out of sight. It takes at most KillWait twice, and does not stop halfway.
func (s *ending) kill(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.signal(syscall.SIGSTOP, s.isGate); err != nil {
		return err
	}
	for _, who := range []func(Process) bool{s.notGate, s.isGate} {
		err := s.signal(syscall.SIGKILL, who)
		if err == nil {
			err = s.wait(ctx, s.KillWait, syscall.SIGKILL, who)
		}
		if err != nil {
			return err
		}
	}
	return s.left()
}

func (s *ending) isGate(p Process) bool  { return p == s.gate }
func (s *ending) notGate(p Process) bool { return p != s.gate }

func everyone(Process) bool { return true }

// signal sends sig to those who are still there, and may be sent it.
func (s *ending) signal(sig syscall.Signal, who func(Process) bool) error {
	for _, h := range s.all {
		if h.ended || h.denied || !who(h.Process) {
			continue
		}
		if err := h.signal(sig); err != nil && !h.denied {
			return err
		}
	}
	return nil
}

// ended reports whether all those have ended.
func (s *ending) ended(who func(Process) bool) bool {
	return !slices.ContainsFunc(s.all, func(h *handle) bool { return !h.ended && who(h.Process) })
}

// left is an error for each that is still there.
func (s *ending) left() error {
	var errs []error
	for _, h := range s.all {
		switch {
		case h.ended:
		case h.denied:
			errs = append(errs, processError(h.Process, ErrNotPermitted))
		default:
			errs = append(errs, processError(h.Process, ErrAlive))
		}
	}
	return errors.Join(errs...)
}

func (s *ending) close() {
	for _, h := range s.all {
		h.close()
	}
}
