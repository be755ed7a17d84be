package snapshot

import (
	"slices"
	"time"
)

// ForkGrace is how long the newest chain of a lineage stays after another
// lineage has taken its place, counted from its last snapshot: it may be what
// was lost at the fork.
const ForkGrace = 7 * 24 * time.Hour

// Policy says which snapshots stay. The zero Policy keeps everything.
//
// The Keep fields choose fulls, and a full stays if any of them chooses it. If
// none is set all fulls stay. They count fulls of all lineages together, so that
// lineages which have ended grow old with the others: their fulls leave as
// newer ones come.
type Policy struct {
	// KeepLast keeps that many of the newest fulls.
	KeepLast int
	// KeepHourly, KeepDaily and KeepWeekly keep the newest full of each lineage
	// in each of the newest so many hours, days and ISO weeks (UTC) that have
	// one.
	KeepHourly, KeepDaily, KeepWeekly int
	// DeltaRetention is for how long every revision can be restored that any
	// kept full leads to. 0: as long as that full stays. Deltas past it go in
	// whole stretches between two kept fulls, so that none is left without what
	// leads up to it.
	DeltaRetention time.Duration
}

// Verdict says whether a snapshot stays, and why.
type Verdict struct {
	Manifest Manifest `json:"snapshot"`
	Keep     bool     `json:"keep"`
	Reason   string   `json:"reason"`
}

// Apply judges all snapshots of an archive, in the order of ms. Whatever the
// policy, these stay:
//   - the newest full of the lineage that is restored by default, and all deltas
//     that lead on from it; for ForkGrace also those of other lineages
//   - deltas beyond a gap at the end of that, until a full follows: a listing is
//     no single moment, and what is missing may just not have been in it
//   - final snapshots, those with a time after now, and for those of them that
//     are deltas what leads up to them
func (p Policy) Apply(ms []Manifest, now time.Time) []Verdict {
	r := retention{Policy: p, now: now, stays: map[string]string{}, goes: map[string]string{}}
	if p == (Policy{}) {
		for _, m := range ms {
			r.keep(m, "no policy is set")
		}
	}
	lines := r.lines(ms)
	for _, l := range lines {
		r.keepNewest(l)
		r.keepPinned(l)
	}
	r.keepFulls(lines)
	for _, l := range lines {
		r.judgeDeltas(l)
	}
	for _, l := range lines {
		if l.isDefault {
			r.keep(l.youngest(), "youngest snapshot: it makes its lineage the default")
		}
	}
	return r.verdicts(ms)
}

// Expired returns the snapshots that do not stay, in the order in which to
// remove them: whatever needs another one goes before it. So if removing stops
// half-way, what could be restored and is still there can be restored.
func (p Policy) Expired(ms []Manifest, now time.Time) []Manifest {
	var expired []Manifest
	for _, v := range p.Apply(ms, now) {
		if !v.Keep {
			expired = append(expired, v.Manifest)
		}
	}
	ordered := make([]Manifest, 0, len(expired))
	for _, h := range histories(expired) {
		deltas := slices.Clone(h.deltas)
		slices.Reverse(deltas)
		for _, full := range slices.Backward(h.fulls) {
			n := 0 // how many go before the full: all that may be applied to it
			for i, d := range deltas {
				if d.Last > full.First {
					n = i + 1
				}
			}
			ordered = append(append(ordered, deltas[:n]...), full)
			deltas = deltas[n:]
		}
		ordered = append(ordered, deltas...)
	}
	return ordered
}
