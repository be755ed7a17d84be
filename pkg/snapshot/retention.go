package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// retention is a policy at work. The maps hold reasons by name.
type retention struct {
	Policy
	now         time.Time
	stays, goes map[string]string
}

// line is a history to be judged.
type line struct {
	history
	newest    Chain // from the newest full; zero if there is none
	isDefault bool
	protected bool      // newest stays
	stretches []stretch // from all fulls, in order
}

func (r *retention) lines(ms []Manifest) []line {
	var lines []line
	hs := histories(ms)
	for i, h := range hs {
		l := line{history: h, isDefault: i == len(hs)-1}
		for _, full := range h.fulls {
			l.newest = h.chain(full)
			l.stretches = append(l.stretches, stretch{full: full, reach: l.newest.Last(), through: full.First})
		}
		l.protected = l.isDefault || len(h.fulls) > 0 && r.now.Sub(l.newest.end().Time) < ForkGrace
		lines = append(lines, l)
	}
	return lines
}

// keep notes the first reason.
func (r *retention) keep(m Manifest, reason string) {
	if _, kept := r.stays[m.Name]; !kept {
		r.stays[m.Name] = reason
	}
}

func (r *retention) verdicts(ms []Manifest) []Verdict {
	verdicts := make([]Verdict, 0, len(ms))
	for _, m := range ms {
		reason, keep := r.stays[m.Name]
		if !keep {
			reason = cmp.Or(r.goes[m.Name], "no rule keeps this full")
		}
		verdicts = append(verdicts, Verdict{Manifest: m, Keep: keep, Reason: reason})
	}
	return verdicts
}

func (r *retention) keepNewest(l line) {
	if len(l.fulls) == 0 || !l.protected {
		return
	}
	reason := "newest restorable chain"
	if !l.isDefault {
		reason = fmt.Sprintf("newest restorable chain of a lineage that ended less than %s ago", short(ForkGrace))
	}
	for _, m := range l.newest.All() {
		r.keep(m, reason)
	}
}

func (r *retention) pinned(m Manifest) (reason string) {
	switch {
	case m.Final:
		return "final snapshot of a hand-over"
	case m.Time.After(r.now):
		return "its time is in the future"
	}
	return ""
}

// keepPinned keeps what is pinned, and for a delta the full that leads up to it.
func (r *retention) keepPinned(l line) {
	for _, full := range l.fulls {
		if reason := r.pinned(full); reason != "" {
			r.keep(full, reason)
		}
	}
	for _, d := range l.deltas {
		reason := r.pinned(d)
		if reason == "" {
			continue
		}
		r.keep(d, reason)
		for _, s := range slices.Backward(l.stretches) {
			if s.precedes(d) && s.reach >= d.Last {
				r.keep(s.full, "leads up to a kept delta")
				break
			}
		}
	}
}

// rule is one way to choose fulls. Fulls of equal key are alike to it.
type rule struct {
	count int
	key   func(time.Time) string
}

func (p Policy) rules() []rule {
	return []rule{
		{p.KeepHourly, func(t time.Time) string { return "hourly " + t.Format("2006-01-02T15") }},
		{p.KeepDaily, func(t time.Time) string { return "daily " + t.Format(time.DateOnly) }},
		{p.KeepWeekly, func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprintf("weekly %04d-W%02d", year, week)
		}},
	}
}

// keepFulls lets the Keep fields choose. Fulls of the future take no part.
func (r *retention) keepFulls(lines []line) {
	var fulls []Manifest
	for _, l := range lines {
		fulls = append(fulls, l.fulls...)
	}
	fulls = slices.DeleteFunc(fulls, func(m Manifest) bool { return m.Time.After(r.now) })
	slices.SortStableFunc(fulls, func(a, b Manifest) int { return cmp.Or(b.Time.Compare(a.Time), inOrder(b, a)) })
	for i, m := range fulls {
		switch {
		case max(r.KeepLast, r.KeepHourly, r.KeepDaily, r.KeepWeekly) <= 0:
			r.keep(m, "no rule limits fulls")
		case i < r.KeepLast:
			r.keep(m, fmt.Sprintf("%d of keep-last %d", i+1, r.KeepLast))
		}
	}
	for _, rule := range r.rules() {
		r.keepBuckets(fulls, rule)
	}
}

// keepBuckets applies rule to fulls, which are sorted from the newest on.
func (r *retention) keepBuckets(fulls []Manifest, rule rule) {
	bucket, buckets := "", 0
	var chosen map[[2]string]bool // histories
	for _, m := range fulls {
		if key := rule.key(m.Time.UTC()); key != bucket {
			bucket, chosen = key, map[[2]string]bool{}
			buckets++
		}
		if buckets > rule.count {
			return
		}
		if id := m.history(); !chosen[id] {
			chosen[id] = true
			r.keep(m, bucket)
		}
	}
}

// short prints a duration without the units that are zero.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
