package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	// ErrNothing is wrapped when there is no full snapshot to begin with.
	ErrNothing = errors.New("nothing to restore")
	// ErrLineage is wrapped when snapshots of different histories would be mixed.
	ErrLineage = errors.New("snapshots of different histories")
	// ErrWindow is wrapped when a point of history is asked for from before or
	// after what is stored. The error says what can be restored instead, as the
	// one for a point behind a gap does, which wraps ErrGap.
	ErrWindow = errors.New("cannot be restored")
)

// Target picks a point of history. Zero fields mean: the newest.
type Target struct {
	// Revision to end at, exactly.
	Revision int64 `json:"revision,omitempty"`
	// Time stands for the newest revision known to be no younger: the end of what
	// was cut at or before it. So its granularity is that of the deltas, and that
	// of the fulls where no deltas are. Not with a Revision.
	Time time.Time `json:"time,omitzero"`
	// Lineage of the history. By default it is Base's, else the one of the
	// highest epoch, else of those with a full the one written to last.
	Lineage string `json:"lineage,omitempty"`
	// Base is the name of the full to begin with. By default it is the newest
	// from which the point can be reached.
	Base string `json:"base,omitempty"`
}

// Select returns the chain that leads to the target, and no delta beyond it;
// the last delta may hold more revisions than asked for. Unless an earlier
// point is asked for, a chain that does not lead to the newest stored revision
// is an error, which wraps ErrGap and says what is missing.
func Select(ms []Manifest, t Target) (Chain, error) {
	if t.Revision < 0 {
		return Chain{}, fmt.Errorf("revision %d: choose a positive one", t.Revision)
	}
	if t.Revision > 0 && !t.Time.IsZero() {
		return Chain{}, errors.New("choose a revision or a time, not both")
	}
	h, err := historyOf(ms, t)
	if err != nil {
		return Chain{}, err
	}
	from := h.fulls
	if t.Base != "" {
		from = slices.DeleteFunc(slices.Clone(from), func(m Manifest) bool { return m.Name != t.Base })
	}
	switch {
	case t.Revision > 0:
		return h.toRevision(from, t.Revision)
	case !t.Time.IsZero():
		return h.toTime(from, t.Time)
	default:
		return h.toNewest(from)
	}
}

// historyOf returns the history that t means. It has a full.
func historyOf(ms []Manifest, t Target) (history, error) {
	hs := histories(ms)
	if len(hs) == 0 {
		return history{}, fmt.Errorf("%w: no snapshot is stored", ErrNothing)
	}
	lineage, err := lineageOf(ms, t, hs[len(hs)-1].lineage)
	if err != nil {
		return history{}, err
	}
	known := make([]string, 0, len(hs))
	var meant []history
	for _, h := range hs {
		known = append(known, h.lineage)
		if h.lineage == lineage {
			meant = append(meant, h)
		}
	}
	slices.Sort(known)
	switch {
	case len(meant) == 0:
		return history{}, fmt.Errorf("%w: no snapshot of lineage %s is stored, only of %s",
			ErrNothing, lineage, strings.Join(slices.Compact(known), ", "))
	case len(meant) > 1:
		a, b := meant[0].oldest(), meant[1].oldest()
		return history{}, fmt.Errorf("%w: %s is of cluster %s, %s is of cluster %s, and both say lineage %s",
			ErrLineage, a.Name, a.ClusterID, b.Name, b.ClusterID, lineage)
	case len(meant[0].fulls) == 0:
		return history{}, fmt.Errorf("%w: of lineage %s only deltas are stored (%d), and no full snapshot to apply them to",
			ErrNothing, lineage, len(meant[0].deltas))
	}
	return meant[0], nil
}

func lineageOf(ms []Manifest, t Target, newest string) (string, error) {
	if t.Base == "" {
		if t.Lineage == "" {
			return newest, nil
		}
		return t.Lineage, nil
	}
	i := slices.IndexFunc(ms, func(m Manifest) bool { return m.Name == t.Base && m.Kind == Full })
	if i < 0 {
		return "", fmt.Errorf("%w: no full snapshot %s is stored", ErrNothing, t.Base)
	}
	if t.Lineage != "" && t.Lineage != ms[i].Lineage {
		return "", fmt.Errorf("%w: %s is of lineage %s, not of lineage %s", ErrLineage, t.Base, ms[i].Lineage, t.Lineage)
	}
	return ms[i].Lineage, nil
}

// oldest returns the first snapshot of h, a full if there is one.
func (h history) oldest() Manifest {
	if len(h.fulls) > 0 {
		return h.fulls[0]
	}
	return h.deltas[0]
}

func (h history) toNewest(from []Manifest) (Chain, error) {
	c := h.chain(from[len(from)-1])
	if gap, found := h.gapAfter(c); found {
		return Chain{}, fmt.Errorf("the newest revision cannot be restored: %w%s", gap, h.available())
	}
	return c, nil
}

// toRevision begins with the newest full that is not beyond the revision: no
// other one's chain gets further.
func (h history) toRevision(from []Manifest, revision int64) (Chain, error) {
	for _, full := range slices.Backward(from) {
		if full.Last > revision {
			continue
		}
		c := h.chain(full)
		if c.Last() >= revision {
			return c.cut(revision), nil
		}
		if gap, found := h.gapAfter(c); found {
			return Chain{}, fmt.Errorf("revision %d cannot be restored: %w%s", revision, gap, h.available())
		}
		return Chain{}, fmt.Errorf("revision %d %w: what is stored from %s on ends at revision %d%s",
			revision, ErrWindow, full.Name, c.Last(), h.available())
	}
	return Chain{}, fmt.Errorf("revision %d %w: %s may already hold later ones%s",
		revision, ErrWindow, from[0].Name, h.available())
}

// cut drops the deltas that are not needed to reach revision.
func (c Chain) cut(revision int64) Chain {
	for i, m := range c.All() {
		if m.reach() >= revision {
			c.Deltas = c.Deltas[:i:i]
			break
		}
	}
	return c
}

// toTime leaves out what was cut later. The content of a full may be younger
// than its time, so if the deltas do not show that this one's is not, an earlier
// full and the deltas up to it are preferred.
func (h history) toTime(from []Manifest, t time.Time) (Chain, error) {
	younger := func(m Manifest) bool { return m.Time.After(t) }
	then := h
	then.deltas = slices.DeleteFunc(slices.Clone(h.deltas), younger)
	from = slices.DeleteFunc(slices.Clone(from), younger)
	when := t.Format(time.RFC3339)
	if len(from) == 0 {
		return Chain{}, fmt.Errorf("the state of %s %w: no full snapshot is that old%s", when, ErrWindow, h.available())
	}
	newest := then.chain(from[len(from)-1])
	if gap, found := then.gapAfter(newest); found {
		return Chain{}, fmt.Errorf("the state of %s cannot be restored: %w%s", when, gap, h.available())
	}
	if exact, err := then.toRevision(from, newest.Last()); err == nil {
		return exact, nil
	}
	return newest, nil
}
