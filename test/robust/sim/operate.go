package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// operate is the operator: he has the etcd handed on, round after round, as long as
// it works, and does what the documentation says when it does not.
func (w *world) operate() {
	d := w.dice("operator")
	w.sleep(d.between(40*second, 3*time.Minute))
	for round := 0; round < w.plan.rounds && w.going(); round++ {
		w.round(d)
		w.sleep(d.between(20*second, 2*time.Minute))
	}
}

// round is one hand-over from whoever holds to another.
func (w *world) round(d *dice) {
	w.mu.Lock()
	from := w.holderSite()
	healing := w.healing
	w.mu.Unlock()
	if from == nil || healing {
		return
	}
	to := w.other(d, from)
	early, initiates, alone := d.chance(0.4), d.chance(0.6), d.chance(0.1) && !w.set.Quiet
	if !early && initiates {
		from.initiate()
		w.sleep(lasting(d, second, 3*time.Minute))
	}
	if alone { // nobody comes
		return
	}
	to.powerOn()
	w.adversity(d, from, to)
	j := &job{to: to, from: from}
	to.start(j)
	if w.plan.early {
		w.tasks.Go(func() {
			w.sleep(lasting(to.dice, second/50, time.Minute))
			to.startServer()
		})
	}
	if early && initiates {
		w.sleep(lasting(d, second, time.Minute))
		from.initiate()
	}
	if len(w.sites) > 2 && d.chance(0.3) { // two want it
		w.sleep(lasting(d, second/10, time.Minute))
		rival := w.sites[3-w.index(from)-w.index(to)]
		rival.powerOn()
		r := &job{to: rival, from: from}
		rival.start(r)
		w.tasks.Go(func() { w.accompany(r) })
	}
	w.accompany(j)
	if !d.chance(0.5) {
		return
	}
	w.mu.Lock()
	again := j.ended && !j.succeeded() && w.truth.holder == from.name
	w.mu.Unlock()
	if again {
		j = &job{to: to, from: from, again: true}
		to.start(j)
		w.accompany(j)
	}
}

// accompany waits until a job is done, and starts the server then.
func (w *world) accompany(j *job) {
	for w.going() {
		w.mu.Lock()
		ended, succeeded := j.ended, j.succeeded()
		w.mu.Unlock()
		switch {
		case succeeded:
			j.to.startServer()
			return
		case ended:
			return
		}
		w.sleep(3*second + j.to.dice.between(0, second))
	}
}

func (w *world) index(s *site) int {
	for i, x := range w.sites {
		if x == s {
			return i
		}
	}
	return -1
}

// other draws a site that is not s.
func (w *world) other(d *dice, s *site) *site {
	i := d.upTo(len(w.sites) - 1)
	if i >= w.index(s) {
		i++
	}
	return w.sites[i]
}

// holderSite is where the etcd may serve; nil: nowhere. The caller holds mu.
func (w *world) holderSite() *site {
	for _, s := range w.sites {
		if s.name == w.truth.holder {
			return s
		}
	}
	return nil
}

// order asks the sidecar of s for something, as copyop does.
func (s *site) order(what string, do func(context.Context, *life) (syncobject.Object, error)) {
	s.mu.Lock()
	l, alien := s.server, s.etcd.alien
	s.mu.Unlock()
	if l == nil || alien {
		return
	}
	s.tasks.Go(func() {
		if l.await() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, 30*second)
		defer cancel()
		_, err := do(ctx, l)
		if err != nil {
			s.say(s.name, "the operator's %s: %.200v", what, err)
			return
		}
		s.say(s.name, "the operator's %s: done", what)
	})
}

// initiate wants a hand-over, sometimes by a name that was used before.
func (s *site) initiate() {
	name := ""
	if s.names.chance(0.3) {
		name = fmt.Sprint("op-", s.names.upTo(3))
	}
	s.order("initiate "+name, func(ctx context.Context, l *life) (syncobject.Object, error) {
		o, _, err := l.election.Initiate(ctx, name)
		return o, err
	})
}

func (s *site) abort() {
	s.order("abort", func(ctx context.Context, l *life) (syncobject.Object, error) { return l.election.Abort(ctx) })
}

func (s *site) reclaim() {
	s.order("reclaim", func(ctx context.Context, l *life) (syncobject.Object, error) { return l.election.Reclaim(ctx) })
}
