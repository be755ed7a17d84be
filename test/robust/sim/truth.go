package sim

import (
	"time"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// truth is what an all-knowing observer knows of the one etcd that is handed
// around. It is guarded by world.mu.
type truth struct {
	holder   string    // who may acknowledge writes; empty: nobody, it is decided and not committed
	decision *decision // that is not committed yet
	acked    map[int64]int64
	maybe    map[int64]bool // applied, and not acknowledged; or acknowledged where nothing is promised
	done     map[string]*decision
	held     map[string]bool // who has ever been the holder
	excused  int             // writes acknowledged just after a machine stood still
	lastAck  time.Time
	ackedBy  string

	decisions, lossy int
}

// decision is what a sync object names.
type decision struct {
	operation string
	from      *site
	by        syncobject.Party
	forced    bool
	lossy     bool
	through   int64
	ids       map[int64]bool
	missing   []entry // acknowledged, and not in the set
}

func newTruth() truth {
	return truth{acked: map[int64]int64{}, maybe: map[int64]bool{}, done: map[string]*decision{}, held: map[string]bool{}}
}

// applied notes that etcd has a write, whose client may never hear of it. The
// caller holds mu.
func (s *site) applied(x entry) {
	if !s.etcd.alien {
		s.truth.maybe[x.id] = true
	}
}

// acknowledge notes that the client has been told OK. The caller holds mu.
func (s *site) acknowledge(x entry) {
	t := &s.truth
	if s.etcd.alien && t.holder != s.name {
		return
	}
	if t.holder != s.name || s.lapsed() {
		if s.excusable() {
			s.excuse(x)
			return
		}
		s.violated("I1", "%s acknowledges write %d at revision %d, its lease began %.1f s ago, and %s may serve",
			s.name, x.id, x.rev, time.Since(s.lastGood).Seconds(), t.whoMay())
	}
	if late := s.late(); late > 0 {
		s.violated("I1", "%s acknowledges write %d, its lease was over %.1f s ago and its sidecar does nothing", s.name, x.id, late.Seconds())
	}
	delete(t.maybe, x.id)
	t.acked[x.id] = x.rev
	t.lastAck, t.ackedBy = time.Now(), s.name
}

// excuse notes a write that I1 does not speak of. The caller holds mu.
func (s *site) excuse(x entry) {
	s.truth.excused++
	if s.truth.excused == 1 {
		s.note(s.name, "acknowledges write %d just after its machine stood still", x.id)
	}
}

func (t *truth) whoMay() string {
	switch {
	case t.holder != "":
		return "only " + t.holder
	case t.decision != nil:
		return "nobody, operation " + t.decision.operation + " is decided by the " + string(t.decision.by)
	default:
		return "nobody"
	}
}

// lapsed reports whether the lease that etcd serves under was over so long ago that
// somebody must have ended it. The caller holds mu.
func (s *site) lapsed() bool {
	if !s.plan.implicit {
		return false
	}
	t := s.plan.timing
	limit := float64(t.Lease+max(t.Kill, t.Watchdog)) * (1 + 2*s.plan.rho)
	return time.Since(s.lastGood) > time.Duration(limit)+second
}

// late returns for how long a sidecar that runs could have known that the lease is
// over, if it has not begun to end its etcd. The caller holds mu.
func (s *site) late() time.Duration {
	l, t := s.server, s.plan.timing
	if !s.plan.implicit || s.etcd.ending || l == nil || l.dead || !l.standsSince().IsZero() || s.jumped.After(s.resumed) {
		return 0
	}
	over := s.lastGood.Add(time.Duration(float64(t.Lease) * (1 + 2*s.plan.rho)))
	for _, since := range []time.Time{l.went, s.resumed} {
		if since.After(over) {
			over = since
		}
	}
	if late := time.Since(over); late > t.Tick+second {
		return late
	}
	return 0
}

// excusable reports whether the machine has only just gone on after it stood
// still: that is what I1 does not promise. The caller holds mu.
func (s *site) excusable() bool {
	if s.resumed.IsZero() {
		return false
	}
	t, since := s.plan.timing, s.resumed
	bound := t.Tick + t.Kill
	if l := s.server; l == nil || l.dead || !l.paused.IsZero() {
		bound = t.Watchdog
	} else if l.went.After(since) && l.went.Sub(since) <= t.Watchdog {
		since = l.went
	}
	if s.stolen > 0 && !s.jumped.IsZero() && s.jumped.After(s.lastGood) {
		return true // neither clock can tell
	}
	return time.Since(since) <= bound+second
}

// served checks what an etcd begins to serve. The caller holds mu.
func (s *site) served() {
	t := &s.truth
	if t.holder != s.name {
		return // its first write tells
	}
	has := map[int64]bool{}
	for _, x := range s.etcd.log {
		has[x.id] = true
		if _, ok := t.acked[x.id]; !ok && !t.maybe[x.id] {
			s.violated("I6", "%s serves write %d of revision %d, which is not of this history", s.name, x.id, x.rev)
			return
		}
	}
	for id, rev := range t.acked {
		if !has[id] {
			s.violated("I2", "%s serves without write %d, which was acknowledged at revision %d", s.name, id, rev)
			return
		}
	}
}

// restored checks what a data dir was filled with. The caller holds mu.
func (s *site) restored(log []entry, operation string) {
	s.note(s.name, "%d writes are restored", len(log))
	d := s.truth.done[operation]
	if d == nil {
		return // served tells
	}
	for _, x := range log {
		if !d.ids[x.id] {
			s.violated("I5", "%s restores write %d, which is not in the set of operation %s", s.name, x.id, operation)
			return
		}
	}
	if len(log) != len(d.ids) {
		s.violated("I5", "%s restores %d writes, the set of operation %s has %d", s.name, len(log), operation, len(d.ids))
	}
}

// fences checks that there is a reason to end an etcd. The caller holds mu.
func (m member) fences() {
	s, now := m.site, time.Now()
	o := s.box.seen
	l := float64(m.plan.timing.Lease) * (1 - 2*m.plan.rho)
	switch {
	case !m.etcd.running || s.truth.holder != s.name,
		o.object.Pending(), now.Sub(o.pending) < 10*time.Minute,
		now.Sub(s.lastGood) >= time.Duration(l)-second, now.Sub(s.goodAt) < 3*m.plan.timing.Tick, // it came too late
		s.jumped.After(s.lastGood), s.resumed.After(s.lastGood), s.still.After(s.lastGood), !s.still.IsZero():
		return
	}
	m.violated("I9", "%s ends its etcd, the lease began %.1f s ago and nobody wants a hand-over", m.what, now.Sub(s.lastGood).Seconds())
}

// claims checks what a copier says of a hand-over that it has completed. The caller
// holds mu.
func (s *site) claims(out outcome) {
	d := s.truth.done[out.OperationID]
	switch {
	case d == nil:
		s.violated("I4", "%s says that operation %s is done, and it is not", s.name, out.OperationID)
	case d.lossy && !out.Lossy, d.through != out.ThroughRevision:
		s.violated("I3", "%s says lossy %v through revision %d, decided is lossy %v through revision %d",
			s.name, out.Lossy, out.ThroughRevision, d.lossy, d.through)
	}
}
