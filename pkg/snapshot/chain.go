package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrGap is wrapped when revisions are missing between two snapshots.
var ErrGap = errors.New("revisions are missing")

// Chain is a full and the deltas that continue it without a gap, none of them
// superfluous.
type Chain struct {
	Full   Manifest   `json:"full"`
	Deltas []Manifest `json:"deltas"`
}

// Last returns the newest revision that the chain surely reaches.
func (c Chain) Last() int64 { return c.end().reach() }

// All returns the full and the deltas, in the order in which they are applied.
func (c Chain) All() []Manifest { return append([]Manifest{c.Full}, c.Deltas...) }

func (c Chain) end() Manifest {
	if len(c.Deltas) == 0 {
		return c.Full
	}
	return c.Deltas[len(c.Deltas)-1]
}

// reach returns the revision up to which m surely leads.
func (m Manifest) reach() int64 {
	if m.Kind == Full {
		return m.First
	}
	return m.Last
}

// Gap says that a delta is stored which nothing leads up to. It is an error
// that wraps ErrGap.
type Gap struct {
	Before, After Manifest // After is the delta
	// Bridged says that a later full leads on from there all the same. Then the
	// gap only makes some points of the past unreachable; pruning does that.
	Bridged bool
}

// Error names both sides and what is missing.
func (g Gap) Error() string {
	return fmt.Sprintf("revisions %d to %d are missing between %s and %s",
		g.Before.reach()+1, g.After.First-1, g.Before.Name, g.After.Name)
}

// Unwrap returns ErrGap.
func (g Gap) Unwrap() error { return ErrGap }

// Chains returns for each full the longest chain that begins with it, and the
// gaps. Both are sorted: lineages by age, the one that is restored by default
// last, and revisions ascending within each.
func Chains(ms []Manifest) ([]Chain, []Gap) {
	var chains []Chain
	var gaps []Gap
	for _, h := range histories(ms) {
		for _, full := range h.fulls {
			chains = append(chains, h.chain(full))
		}
		gaps = append(gaps, h.gaps()...)
	}
	return chains, gaps
}

// history is what is stored of one lineage, in order of First, Time, Name.
type history struct {
	lineage, cluster string
	epoch            int64
	fulls, deltas    []Manifest
}

// histories sorts manifests by history, and these by age: epoch, then the time
// of the snapshot that was cut last. Clusters that claim the same lineage are
// kept apart.
func histories(ms []Manifest) []history {
	byID := map[[2]string]*history{}
	for _, m := range slices.SortedFunc(slices.Values(ms), inOrder) {
		id := m.history()
		if byID[id] == nil {
			byID[id] = &history{lineage: m.Lineage, cluster: m.ClusterID}
		}
		h := byID[id]
		h.epoch = max(h.epoch, m.Epoch)
		if m.Kind == Full {
			h.fulls = append(h.fulls, m)
		} else {
			h.deltas = append(h.deltas, m)
		}
	}
	hs := make([]history, 0, len(byID))
	for _, h := range byID {
		hs = append(hs, *h)
	}
	slices.SortFunc(hs, byAge)
	return hs
}

// history identifies the one m belongs to.
func (m Manifest) history() [2]string { return [2]string{m.Lineage, m.ClusterID} }

func inOrder(a, b Manifest) int {
	return cmp.Or(cmp.Compare(a.First, b.First), a.Time.Compare(b.Time), cmp.Compare(a.Name, b.Name))
}

// byAge puts the history that is restored by default last: of those that have a
// full the one that was written to last.
func byAge(a, b history) int {
	return cmp.Or(
		cmp.Compare(a.epoch, b.epoch),
		a.ended().Compare(b.ended()),
		cmp.Compare(a.lineage, b.lineage),
		cmp.Compare(a.cluster, b.cluster),
	)
}

// ended returns when the history's last snapshot was cut, the zero time if it has
// no full to begin with.
func (h history) ended() time.Time {
	if len(h.fulls) == 0 {
		return time.Time{}
	}
	return h.youngest().Time
}

// youngest returns the snapshot that was cut last.
func (h history) youngest() Manifest {
	return slices.MaxFunc(slices.Concat(h.fulls, h.deltas), func(a, b Manifest) int { return a.Time.Compare(b.Time) })
}

// newestFull returns the one of the highest revision, a zero Manifest if there
// is none.
func (h history) newestFull() Manifest {
	if len(h.fulls) == 0 {
		return Manifest{}
	}
	return h.fulls[len(h.fulls)-1]
}

// chain follows from m, usually a full, as far as deltas lead, taking the one
// that leads furthest each time.
func (h history) chain(m Manifest) Chain {
	c := Chain{Full: m}
	reach := m.reach()
	for rest := h.deltas; ; {
		var best *Manifest
		for ; len(rest) > 0 && rest[0].First-1 <= reach; rest = rest[1:] {
			if d := &rest[0]; d.Last > reach && (best == nil || d.leadsFurther(best)) {
				best = d
			}
		}
		if best == nil {
			return c
		}
		c.Deltas, reach = append(c.Deltas, *best), best.Last
	}
}

// leadsFurther prefers, of two deltas that lead equally far, the earlier one.
func (m *Manifest) leadsFurther(than *Manifest) bool {
	return m.Last > than.Last || m.Last == than.Last && m.Time.Before(than.Time)
}

// gaps looks for deltas that neither a chain nor the deltas beyond its end lead
// up to.
func (h history) gaps() []Gap {
	var gaps []Gap
	seen := map[[2]string]bool{}
	for _, full := range h.fulls {
		g, found := h.gapAfter(h.chain(full))
		for found && !seen[[2]string{g.Before.Name, g.After.Name}] {
			seen[[2]string{g.Before.Name, g.After.Name}] = true
			gaps = append(gaps, g)
			g, found = h.gapAfter(h.chain(g.After))
		}
	}
	slices.SortStableFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.After.First, b.After.First) })
	return gaps
}

// gapAfter returns the gap at the end of a longest chain, if more is stored.
func (h history) gapAfter(c Chain) (Gap, bool) {
	end := c.end()
	i := slices.IndexFunc(h.deltas, func(d Manifest) bool { return d.Last > end.reach() })
	if i < 0 {
		return Gap{}, false
	}
	after := h.deltas[i]
	return Gap{Before: end, After: after, Bridged: h.newestFull().First >= after.First-1}, true
}
