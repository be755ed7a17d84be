package sim

import (
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// adversity is what goes wrong just when a hand-over begins.
func (w *world) adversity(d *dice, from, to *site) {
	source := []string{"outage", "weather", "weather", "weather", "pause of the server", "suspend", "freeze", "reboot", "scale to zero", "crash of etcd", "deaf etcd", "slow disk"}
	destination := []string{"weather", "weather", "crash of the copier", "pause of the copier", "suspend", "reboot", "replacement"}
	w.mu.Lock()
	w.blows += 2
	number := maxMisfortunes + w.blows
	w.mu.Unlock()
	for i, at := range []*site{from, to} {
		likely, what := d.chance(0.5-0.2*float64(i)), source[d.upTo(len(source))]
		if i == 1 {
			what = destination[d.upTo(len(destination))]
		}
		m := misfortune{
			number: number + i, site: w.index(at), to: w.index(from), what: what, how: weathers[d.upTo(len(weathers))],
			lasts: lasting(d, w.plan.timing.Lease/3, 3*w.plan.wait),
		}
		begins := lasting(d, second/10, time.Minute)
		if likely && !w.set.Quiet && !w.set.Drop[m.number] {
			w.tasks.Go(func() {
				w.sleep(begins)
				m.at = time.Since(w.began)
				w.strike(m)
			})
		}
	}
}

// replaced has a copier stand still while another one of the same deployment does
// its work, and then go on.
func (s *site) replaced(m misfortune, lasts time.Duration) {
	l := s.running(false)
	if l == nil {
		return
	}
	s.mu.Lock()
	s.note("", "%d. %s stands still for %.1f s and is replaced", m.number, l.what, lasts.Seconds())
	s.count("a copier is replaced and goes on")
	if l.paused.IsZero() {
		l.paused = time.Now()
	}
	if s.copier == l {
		s.copier = nil
	}
	s.zombies = append(s.zombies, l)
	j := l.job
	s.mu.Unlock()
	s.start(j)
	s.sleep(lasts)
	l.resume()
}

// provoke has something go wrong just after a step of a sync object. The caller
// holds mu.
func (w *world) provoke(c *container, o syncobject.Object) {
	d := w.fate
	if w.set.Quiet || w.healing || !d.chance(0.2) {
		return
	}
	what := []string{
		"crash of the server", "crash of the copier", "weather", "pause of the server", "pause of the copier", "reboot", "suspend",
		"crash of etcd", "abort", "reclaim", "scale to zero", "replacement", "freeze",
	}[d.upTo(13)]
	if o.Status == syncobject.Ready && o.Pending() && d.chance(0.5) { // until it is committed
		what = []string{"reclaim", "reclaim", "pause of the copier", "replacement", "crash of the copier"}[d.upTo(5)]
	}
	at := c.site
	if to := w.byName(o.Destination.ID); to != nil && d.chance(0.5) {
		at = to
	}
	w.blows++
	m := misfortune{
		number: maxMisfortunes + w.blows, site: w.index(at), to: w.index(c.site), what: what, how: weathers[d.upTo(len(weathers))],
		lasts: lasting(d, second/2, 2*w.plan.wait),
	}
	begins := lasting(d, second/1000, 4*second)
	if w.set.Drop[m.number] {
		return
	}
	w.tasks.Go(func() {
		w.sleep(begins)
		m.at = time.Since(w.began)
		w.strike(m)
	})
}

// outage cuts a site off from its own container while its sidecar crashes again and
// again.
func (s *site) outage(m misfortune, lasts time.Duration) {
	m.to, m.how = m.site, cutOff
	until := time.Now().Add(lasts)
	s.tasks.Go(func() { s.storm(m, lasts) })
	for s.going() && time.Now().Before(until) {
		s.sleep(s.dice.between(s.plan.timing.Lease/8, s.plan.timing.Lease))
		if time.Now().Before(until) {
			s.crashed(m, s.running(true), 0)
		}
	}
}
