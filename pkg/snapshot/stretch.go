package snapshot

import "slices"

// stretch is a full and how far deltas lead on from it.
type stretch struct {
	full  Manifest
	reach int64 // how far they do
	// through is how far they must when the policy has been applied.
	through int64
}

// precedes reports whether d can lead from the full to d's last revision.
func (s stretch) precedes(d Manifest) bool {
	return s.full.Last <= d.Last && s.full.First < d.Last
}

// needs reports whether d leads from the full to where the stretch must go.
func (s stretch) needs(d Manifest) bool {
	return d.Last > s.full.First && d.First <= s.through
}

// judgeDeltas decides on the deltas of l after its fulls. Of a delta that is
// young enough every revision that can be restored now, from a full that stays,
// can be restored afterwards. So a stretch stays whole up to its last young
// delta, however old its beginning is; and what no stretch needs goes.
func (r *retention) judgeDeltas(l line) {
	kept := r.keptStretches(l)
	end := int64(0) // of the newest chain
	if n := len(kept); n > 0 && l.protected {
		end = kept[n-1].reach // the newest full was kept first
		kept[n-1].through = end
	}
	for _, d := range l.deltas {
		if r.young(d) {
			lead(kept, d)
		}
	}
	for _, d := range l.deltas {
		switch {
		case slices.ContainsFunc(kept, func(s stretch) bool { return s.needs(d) }):
			r.keep(d, "delta continues a kept full")
		case l.protected && d.Last > end:
			r.keep(d, "delta beyond a gap, until a full follows")
		default:
			r.goes[d.Name] = r.whyGone(kept, d)
		}
	}
}

func (r *retention) keptStretches(l line) []stretch {
	return slices.DeleteFunc(slices.Clone(l.stretches), func(s stretch) bool {
		_, kept := r.stays[s.full.Name]
		return !kept
	})
}

func (r *retention) young(d Manifest) bool {
	return r.DeltaRetention <= 0 || r.now.Sub(d.Time) <= r.DeltaRetention || r.pinned(d) != ""
}

// lead extends the stretches from which revisions of d are restored: that of the
// newest full that is not beyond d's first revision, and those that begin in d.
func lead(stretches []stretch, d Manifest) {
	for i := range slices.Backward(stretches) {
		s := &stretches[i]
		if !s.precedes(d) {
			continue
		}
		if d.Last <= s.reach {
			s.through = max(s.through, d.Last)
		}
		if s.full.Last <= d.First {
			return
		}
	}
}

func (r *retention) whyGone(kept []stretch, d Manifest) string {
	for _, s := range slices.Backward(kept) {
		switch {
		case !s.precedes(d):
			continue
		case d.Last > s.reach:
			return "a gap separates the delta from the kept full before it"
		}
		return "delta older than " + short(r.DeltaRetention)
	}
	return "no kept full before the delta"
}
