package sim

import (
	"fmt"
	"slices"
	"time"
)

// misfortune is something that goes wrong, or that somebody orders at a bad time.
type misfortune struct {
	number int
	at     time.Duration
	site   int
	what   string
	lasts  time.Duration
	to     int // the container
	how    weather
	by     time.Duration // a jump
}

func (m misfortune) String() string {
	return fmt.Sprintf("%d. %s of %c", m.number, m.what, 'a'+m.site)
}

// The misfortunes, with how often they are drawn.
var kinds = []kind{
	{"weather", 10},
	{"crash of the server", 5},
	{"crash of the copier", 5},
	{"pause of the server", 4},
	{"pause of the copier", 3},
	{"suspend", 2},
	{"freeze", 2},
	{"reboot", 2},
	{"crash of etcd", 2},
	{"wall jump", 2},
	{"slow disk", 2},
	{"deaf etcd", 2},
	{"lazy gate", 2},
	{"scale to zero", 2},
	{"abort", 2},
	{"reclaim", 2},
	{"initiate", 1},
	{"outage", 2},
	{"replacement", 2},
}

type kind struct {
	what   string
	weight int
}

// Theme is what most misfortunes of a world are about.
type Theme string

// The themes.
const (
	AnyTheme Theme = ""
	Clocks   Theme = "clocks"  // as wrong as they may be, and set by up to an hour all the time
	Sleep    Theme = "sleep"   // machines that are suspended again and again
	Gates    Theme = "gates"   // that take long to start etcd, which crashes, and so does its sidecar
	Retreat  Theme = "retreat" // hand-overs that are taken back, and copies that are not there then
)

// themes are what is drawn from instead.
var themes = map[Theme][]kind{
	AnyTheme: kinds,
	Clocks:   {{"wall jump", 5}, {"weather", 4}, {"outage", 3}},
	Sleep:    {{"suspend", 6}, {"weather", 3}, {"outage", 2}, {"crash of the server", 1}},
	Gates:    {{"crash of etcd", 6}, {"crash of the server", 6}, {"initiate", 2}, {"abort", 1}},
	Retreat:  {{"abort", 4}, {"reclaim", 5}, {"crash of the copier", 5}, {"pause of the copier", 3}, {"weather", 4}},
}

const maxMisfortunes = 12

func drawMisfortunes(d *dice, p plan, kinds []kind) []misfortune {
	var all []misfortune
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := 2 + d.upTo(maxMisfortunes-1)
	for i := range n {
		m := misfortune{number: i, at: d.between(20*second, p.length-2*time.Minute), site: d.upTo(p.sites), to: d.upTo(p.sites)}
		at := d.upTo(total)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				m.what = k.what
				break
			}
		}
		m.lasts = lasting(d, second/2, 15*time.Minute)
		m.how = weathers[d.upTo(len(weathers))]
		m.by = time.Duration((2*d.share() - 1) * float64(time.Hour))
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b misfortune) int { return int(a.at - b.at) })
	return all
}

// misfortune brings about all that is planned.
func (w *world) misfortune() {
	for _, m := range w.plan.bad {
		w.sleep(m.at - time.Since(w.began))
		w.mu.Lock()
		healing := w.healing
		w.mu.Unlock()
		if !w.going() || healing {
			return
		}
		if !w.set.Drop[m.number] {
			w.tasks.Go(func() { w.strike(m) })
		}
	}
}

// strike brings about one.
func (w *world) strike(m misfortune) {
	s := w.sites[m.site]
	w.mu.Lock()
	healing := w.healing
	w.mu.Unlock()
	lasts := min(m.lasts, w.plan.length-m.at)
	if !healing {
		w.mu.Lock()
		w.count(m.what)
		w.mu.Unlock()
	}
	if healing || lasts < time.Minute && m.number >= maxMisfortunes {
		return
	}
	for what, do := range map[string]func(){
		"weather":             func() { s.storm(m, lasts) },
		"crash of the server": func() { s.crashed(m, s.running(true), min(lasts, 5*time.Minute)) },
		"crash of the copier": func() { s.crashed(m, s.running(false), 0) },
		"pause of the server": func() { s.paused(m, s.running(true), lasts) },
		"pause of the copier": func() { s.paused(m, s.running(false), lasts) },
		"suspend":             func() { s.suspended(m, lasts, true) },
		"freeze":              func() { s.suspended(m, min(lasts, 5*time.Minute), false) },
		"reboot":              func() { s.reboot(m, min(lasts, 5*time.Minute)) },
		"crash of etcd":       func() { s.etcdCrashes(m) },
		"wall jump":           func() { s.wallJumps(m) },
		"slow disk":           func() { s.during(m, lasts, func(on bool) { s.slow = choose(on, lasts) }) },
		"deaf etcd":           func() { s.during(m, lasts, func(on bool) { s.deaf = on }) },
		"lazy gate":           func() { s.during(m, lasts, func(on bool) { s.lazy = choose(on, min(lasts, time.Minute)) }) },
		"scale to zero":       func() { s.scaledDown(m, lasts) },
		"abort":               s.abort,
		"reclaim":             s.reclaim,
		"initiate":            s.initiate,
		"outage":              func() { s.outage(m, lasts) },
		"replacement":         func() { s.replaced(m, lasts) },
	} {
		if what == m.what {
			do()
		}
	}
}

func choose(on bool, d time.Duration) time.Duration {
	if on {
		return d
	}
	return 0
}

// running returns a process of the site, nil if it does not run.
func (s *site) running(server bool) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server {
		return s.server
	}
	return s.copier
}

// during has something be so for a while.
func (s *site) during(m misfortune, lasts time.Duration, set func(on bool)) {
	s.mu.Lock()
	s.note("", "%s for %.1f s", m, lasts.Seconds())
	set(true)
	s.mu.Unlock()
	s.sleep(lasts)
	s.mu.Lock()
	defer s.mu.Unlock()
	set(false)
}

func (s *site) storm(m misfortune, lasts time.Duration) {
	to := s.sites[m.to]
	s.say("", "%d. the container of %s is %s for %s, for %.1f s", m.number, to.name, m.how, s.name, lasts.Seconds())
	s.mu.Lock()
	s.weather[to], s.since[to] = m.how, time.Now()
	s.mu.Unlock()
	s.sleep(lasts)
	s.mu.Lock()
	s.weather[to] = fine
	s.mu.Unlock()
	s.say("", "%d. is over", m.number)
}

// crashed ends a process; a server is started again later.
func (s *site) crashed(m misfortune, l *life, later time.Duration) {
	if l == nil {
		return
	}
	s.say("", "%d. %s crashes", m.number, l.what)
	l.crash()
	if l.election != nil {
		s.sleep(min(later, second) + s.dice.between(0, 5*second) + later/4)
		s.startServer()
	}
}

func (s *site) paused(m misfortune, l *life, lasts time.Duration) {
	if l == nil {
		return
	}
	s.mu.Lock()
	s.note("", "%d. %s stands still for %.1f s", m.number, l.what, lasts.Seconds())
	if l.paused.IsZero() {
		l.paused = time.Now()
	}
	s.mu.Unlock()
	s.sleep(lasts)
	l.resume()
}

func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.paused.IsZero() && !l.dead {
		l.note(l.what, "goes on")
	}
	if !l.paused.IsZero() {
		l.went = time.Now()
	}
	l.paused = time.Time{}
	l.broadcast()
}

// suspended has the machine stand still. BOOTTIME counts that only if it knows.
func (s *site) suspended(m misfortune, lasts time.Duration, known bool) {
	s.mu.Lock()
	if !s.still.IsZero() {
		s.mu.Unlock()
		return
	}
	s.note("", "%d. the machine of %s stands still for %.1f s, BOOTTIME counts it: %v", m.number, s.name, lasts.Seconds(), known)
	s.still = time.Now()
	s.mu.Unlock()
	s.sleep(lasts)
	s.wakeUp(known)
}

func (s *site) wakeUp(known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.still.IsZero() {
		return
	}
	if !known {
		s.stolen += time.Since(s.still)
	}
	s.still, s.resumed = time.Time{}, time.Now()
	s.note("", "the machine of %s goes on", s.name)
	s.broadcast()
}

// reboot ends everything on the machine at once.
func (s *site) reboot(m misfortune, lasts time.Duration) {
	s.mu.Lock()
	if !s.up || s.off {
		s.mu.Unlock()
		return
	}
	s.note("", "%d. the machine of %s reboots", m.number, s.name)
	s.off, s.still = true, time.Time{}
	s.bootID++
	s.booted, s.stolen = time.Now(), 0 // now: somebody may switch it on before it would come back by itself
	s.etcd.kill("reboot")
	s.mu.Unlock()
	for _, l := range s.processes() {
		l.crash()
	}
	s.sleep(lasts / 4)
	s.mu.Lock()
	again := s.wantsUp
	s.mu.Unlock()
	s.powerOn()
	if again {
		s.startServer()
	}
}

func (s *site) etcdCrashes(m misfortune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd.running {
		s.note("", "%s", m)
		s.etcd.kill("it crashed")
	}
}

func (s *site) wallJumps(m misfortune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("", "%s by %.1f s", m, m.by.Seconds())
	s.skew, s.jumped = m.by, time.Now()
}

// scaledDown ends etcd and its sidecar as Kubernetes ends a pod, and starts them
// again later.
func (s *site) scaledDown(m misfortune, lasts time.Duration) {
	l := s.running(true)
	if l == nil {
		return
	}
	s.mu.Lock()
	s.note("", "%d. %s is scaled to zero for %.1f s", m.number, s.name, lasts.Seconds())
	s.scaled = true
	session := s.etcd.session
	s.mu.Unlock()
	l.stop()
	s.terminate(session, s.dice.between(second/10, 5*second), "its pod ends")
	t := time.NewTimer(30 * second)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
		l.crash()
	}
	s.sleep(lasts)
	s.scaleUp()
}

func (s *site) scaleUp() {
	s.mu.Lock()
	s.scaled = false
	s.broadcast()
	s.mu.Unlock()
	s.startServer()
}
