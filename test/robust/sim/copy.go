package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// job is a copier that the operator wants to come to an end.
type job struct {
	to, from *site
	again    bool

	outcome copier.Outcome // guarded by world.mu, as what follows
	err     error          // how the last run ended that was not killed
	runs    int            // that ended by themselves
	ended   bool           // nobody starts it again
}

// succeeded reports whether the hand-over is done. The caller holds mu.
func (j *job) succeeded() bool { return j.runs > 0 && j.err == nil }

// start has the site run a copier until it ends otherwise than by a crash.
func (s *site) start(j *job) {
	s.say(s.name, "the operator starts a copy from %s%s", j.from.name, map[bool]string{true: " --again"}[j.again])
	s.tasks.Go(func() {
		d := s.world.dice("the operator's job at " + s.name)
		for s.going() {
			s.awaitMachine()
			s.mu.Lock()
			off, busy := s.off, s.copier != nil
			s.mu.Unlock()
			if !off && !busy && s.run(j) {
				return
			}
			s.sleep(lasting(d, second, 4*time.Minute)) // what restarts it takes its time
		}
	})
}

// run is one life of a copier. It reports whether another one is of no use.
func (s *site) run(j *job) bool {
	l := s.live("copier")
	h := l.handOver(j)
	s.mu.Lock()
	over := s.over
	if !over {
		s.copier, l.job = l, j
	}
	s.mu.Unlock()
	if over {
		return true
	}
	out, err := h.Run(l.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	killed, zombie := l.dead, s.copier != l
	if !zombie {
		s.copier = nil
	}
	s.zombies = slices.DeleteFunc(s.zombies, func(z *life) bool { return z == l })
	if !l.dead {
		l.dead = true
		close(l.died)
	}
	close(l.done)
	s.broadcast()
	if killed || zombie {
		if err != nil && !killed {
			s.note(l.what, "which was replaced, exits: %.200v", err)
		}
		return zombie
	}
	j.outcome, j.err, j.runs = out, err, j.runs+1
	if err != nil {
		s.note(l.what, "exits: %.300v", err)
	} else {
		s.note(l.what, "exits: done, through revision %d, lossy %v", out.ThroughRevision, out.Lossy)
		s.claims(out)
	}
	for _, final := range []error{copier.ErrReclaimed, syncobject.ErrConflict, copier.ErrUnsafe} {
		if errors.Is(err, final) {
			j.ended = true
		}
	}
	j.ended = j.ended || err == nil
	return j.ended
}

// handOver returns the copier as its command line makes it.
func (l *life) handOver(j *job) *copier.HandOver {
	p := l.plan
	from := copier.Container{Archive: l.archive(j.from.box), Objects: &link{l, j.from.box}}
	to := copier.Container{Archive: l.archive(l.box), Objects: &link{l, l.box}}
	h := copier.NewHandOver(l.name, from, to)
	h.Wait, h.Poll, h.Read, h.Force, h.Again = p.wait, p.timing.Poll, p.timing.Read, p.force, j.again
	if l.set.Defect == ShortWait {
		h.Wait, h.Slack = p.timing.Poll, 0
	}
	h.MaxWait = max(2*p.wait, copier.DefaultMaxWait/3)
	h.Boot, h.Rand, h.Tool, h.Log = l.Boot, l.dice.share, "sim", l.logger(l)
	h.Copier.Log, h.Copier.Parallel = h.Log, 1+l.dice.upTo(4)
	return h
}
