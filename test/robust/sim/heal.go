package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// care is what an operator does to bring things in order.
type care struct {
	*world
	jobs  map[*site]*job
	began time.Time
}

// heal ends all misfortunes, and checks that somebody serves after a bounded time:
// the operator does no more than what the documentation tells him to.
func (w *world) heal() {
	w.mu.Lock()
	w.healing = true
	w.note("", "all misfortunes end")
	for _, s := range w.sites {
		s.slow, s.deaf, s.lazy = 0, false, 0
		for to := range s.weather {
			s.weather[to] = fine
		}
	}
	w.mu.Unlock()
	for _, s := range w.sites {
		s.mended()
	}
	c := care{world: w, jobs: map[*site]*job{}, began: time.Now()}
	// Waiting for a lively source, its late answer, and a force after that; then a
	// restore.
	bound := 2*max(2*w.plan.wait, copier.DefaultMaxWait/3) + 20*time.Minute
	for w.going() && !c.well() {
		if time.Since(c.began) > bound {
			w.mu.Lock()
			w.violated("I8", "nobody has served for %.0f s since all misfortunes have ended", bound.Seconds())
			w.mu.Unlock()
			return
		}
		c.round()
		w.sleep(5 * second)
	}
	if w.going() {
		c.onceMore()
	}
	if w.going() {
		w.inventory()
	}
}

// onceMore hands over once more, now that nothing goes wrong: that has to work,
// whatever earlier hand-overs have left.
func (c *care) onceMore() {
	c.mu.Lock()
	from := c.holderSite()
	c.mu.Unlock()
	to := c.other(c.fate, from)
	c.mu.Lock()
	usable := !c.plan.early || c.truth.held[to.name] // else its server may have begun an etcd of its own
	before := c.truth.decisions
	c.mu.Unlock()
	if !usable {
		return
	}
	to.powerOn()
	j := &job{to: to, from: from, again: true}
	to.start(j)
	c.tasks.Go(func() { c.accompany(j) })
	bound := c.plan.wait + 10*time.Minute
	for began := time.Now(); c.going(); c.sleep(5 * second) {
		c.mu.Lock()
		t := &c.truth
		well := t.decisions > before && t.ackedBy == to.name && t.holder == to.name
		if time.Since(began) > bound {
			c.violated("I8", "%s cannot take over from %s although nothing goes wrong: %v", to.name, from.name, j.err)
		}
		c.mu.Unlock()
		if well {
			return
		}
	}
}

// mended lets a machine and its processes go on.
func (s *site) mended() {
	s.wakeUp(true)
	for _, l := range s.processes() {
		l.resume()
	}
	s.mu.Lock()
	started, again, off := s.up, s.wantsUp, s.off
	s.mu.Unlock()
	if !started {
		return
	}
	if off {
		s.powerOn()
	}
	if again {
		s.scaleUp()
	}
}

// well reports whether a write was acknowledged lately, and nothing is pending.
func (c *care) well() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.holderSite()
	if s == nil || s.box.seen.object.Pending() || c.truth.ackedBy != s.name {
		return false
	}
	return time.Since(c.began) > 2*time.Minute && time.Since(c.truth.lastAck) < 20*second && c.idle()
}

// idle reports whether no copier runs. The caller holds mu.
func (c *care) idle() bool {
	for _, s := range c.sites {
		if s.copier != nil {
			return false
		}
	}
	return true
}

// round looks at every container once.
func (c *care) round() {
	for _, s := range c.sites {
		c.mu.Lock()
		o, up, wants := s.box.seen.object, s.up, s.wantsUp
		runs := s.copier != nil
		holder := c.truth.holder == s.name
		c.mu.Unlock()
		if !up {
			continue
		}
		if wants || holder && !runs {
			s.mended()
		}
		switch {
		case o.Pending():
			c.resolve(s, o)
		case holder && !runs:
			c.settle(s)
		}
	}
}

// resolve brings a pending hand-over to an end.
func (c *care) resolve(from *site, o syncobject.Object) {
	to := c.byName(o.Destination.ID)
	j := c.jobs[to]
	switch {
	case o.Status == syncobject.Initial && strings.Contains(o.Source.Error, "abort the hand-over"): // it says what to do
		from.abort()
	case to != nil && j == nil:
		c.mu.Lock()
		busy := to.copier != nil
		c.mu.Unlock()
		if !busy {
			j = &job{to: to, from: from}
			c.jobs[to] = j
			to.start(j)
		}
	case to != nil && !c.finished(j):
	case o.Status == syncobject.Initial:
		from.abort()
	default:
		from.reclaim()
	}
}

func (c *care) finished(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return j.ended || errors.Is(j.err, copier.ErrNotReady)
}

// settle finishes what a copier has left open at its site, and starts the server.
func (c *care) settle(s *site) {
	adoptions, err := archive.New(s.box.Store).Adoptions(c.t.Context())
	if err != nil {
		return
	}
	if _, err := adoptions.Current(); !errors.Is(err, archive.ErrAdopting) {
		s.startServer()
		return
	}
	for _, a := range adoptions {
		if a.Outcome != archive.AdoptionOpen || a.Begun == nil {
			continue
		}
		for _, from := range c.sites {
			if from.box.String() == a.Begun.Source && (c.jobs[s] == nil || c.finished(c.jobs[s])) {
				c.jobs[s] = &job{to: s, from: from}
				s.start(c.jobs[s])
			}
		}
	}
}

func (w *world) byName(name string) *site {
	for _, s := range w.sites {
		if s.name == name {
			return s
		}
	}
	return nil
}

// inventory checks at the end that what lossy hand-overs have left behind is kept:
// under late, or on the disk that it was written to.
func (w *world) inventory() {
	w.sleep(2 * time.Minute) // a source that has just come back files it
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.truth.done {
		kept := map[int64]bool{}
		for _, log := range append(d.from.etcd.aside, d.from.etcd.log) {
			for _, x := range log {
				kept[x.id] = true
			}
		}
		late := archive.New(store.Prefix(d.from.box.Store, "late"))
		l, err := late.List(w.t.Context())
		if err != nil {
			w.violated("I3", "late of %s: %v", d.from.name, err)
			return
		}
		filed := 0
		for _, m := range l.Manifests {
			_, log, err := replay(w.t.Context(), late, snapshot.Chain{Full: m})
			if err != nil {
				w.violated("I3", "late of %s: %v", d.from.name, err)
			}
			for _, x := range log {
				kept[x.id] = true
				filed++
			}
		}
		for _, x := range d.missing {
			if !kept[x.id] {
				w.violated("I3", "write %d of revision %d was lost by operation %s, and is nowhere", x.id, x.rev, d.operation)
				return
			}
		}
	}
}

// watch checks, for as long as the world lasts, what no single step shows.
func (w *world) watch() {
	d := w.dice("watch")
	for w.going() {
		w.sleep(d.between(second, 4*second))
		w.mu.Lock()
		serving := 0
		for _, s := range w.sites {
			if s.serves() && !s.excusable() && !s.etcd.alien {
				serving++
			}
		}
		if serving > 1 {
			w.violated("I1", "%d sites serve", serving)
		}
		w.mu.Unlock()
	}
}
