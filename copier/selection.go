package copier

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Selection says which snapshots to copy. Zero fields do not restrict it.
type Selection struct {
	Latest bool // the newest chain only
	// Since asks for what it takes to restore any state from then on: of each
	// history from the newest full cut by then. A history that ended before is
	// left out, unless it is the newest. Not with Latest.
	Since   time.Time
	Lineage string
}

// LeftOut is a stored snapshot that is not copied although it was selected.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	err    error  // nil: nothing that could be restored is lost
}

// pick returns what is selected of a listing, in the order of its commits, and
// what cannot be copied.
func (s Selection) pick(l archive.Listing) ([]snapshot.Manifest, []LeftOut, error) {
	ms := s.ofLineage(l.Manifests)
	chains, err := s.chains(ms)
	if err != nil {
		return nil, nil, err
	}
	var out []LeftOut
	if s.Latest {
		return chains[0].All(), broken(l.Problems, func(p snapshot.Snapshot) bool { return leadsBeyond(p, chains[0].Last()) }), nil
	}
	out = broken(l.Problems, func(p snapshot.Snapshot) bool { return !p.Time.Before(s.Since) })
	order := inOrder(chains, ms)
	return order, append(out, s.unreachable(ms, order)...), nil
}

func (s Selection) ofLineage(ms []snapshot.Manifest) []snapshot.Manifest {
	return slices.DeleteFunc(slices.Clone(ms), func(m snapshot.Manifest) bool {
		return s.Lineage != "" && m.Lineage != s.Lineage
	})
}

// chains returns at least one.
func (s Selection) chains(ms []snapshot.Manifest) ([]snapshot.Chain, error) {
	if s.Latest {
		c, err := snapshot.Select(ms, snapshot.Target{})
		return []snapshot.Chain{c}, err
	}
	chains, _ := snapshot.Chains(ms)
	switch {
	case len(chains) > 0:
		return since(chains, s.Since), nil
	case s.Lineage != "":
		return nil, fmt.Errorf("%w: no full snapshot of lineage %s is stored", snapshot.ErrNothing, s.Lineage)
	default:
		return nil, fmt.Errorf("%w: no full snapshot is stored", snapshot.ErrNothing)
	}
}

// since drops the chains that lead to no state from t on, or that the next one
// makes unnecessary.
func since(chains []snapshot.Chain, t time.Time) []snapshot.Chain {
	var kept []snapshot.Chain
	newest := chains[len(chains)-1]
	for i, c := range chains {
		needed := sameHistory(c, newest) || !youngest(c).Before(t)
		if i+1 < len(chains) && sameHistory(c, chains[i+1]) {
			needed = chains[i+1].Full.Time.After(t)
		}
		if needed {
			kept = append(kept, c)
		}
	}
	return kept
}

func sameHistory(a, b snapshot.Chain) bool {
	return a.Full.Lineage == b.Full.Lineage && a.Full.ClusterID == b.Full.ClusterID
}

func youngest(c snapshot.Chain) time.Time {
	all := c.All()
	return all[len(all)-1].Time
}

// inOrder returns what the chains hold, and what is in ms besides that overlaps
// them. Every beginning of it holds whole chains: a chain comes before the next
// one, which may need its last deltas, and what overlaps comes last.
func inOrder(chains []snapshot.Chain, ms []snapshot.Manifest) []snapshot.Manifest {
	var order []snapshot.Manifest
	seen := map[string]bool{}
	add := func(m snapshot.Manifest) {
		if !seen[m.Name] {
			seen[m.Name] = true
			order = append(order, m)
		}
	}
	for _, c := range chains {
		for _, m := range c.All() {
			add(m)
		}
	}
	for _, m := range ms {
		if slices.ContainsFunc(chains, func(c snapshot.Chain) bool { return overlaps(c, m) }) {
			add(m)
		}
	}
	return order
}

// overlaps reports whether the delta m tells nothing new after c.
func overlaps(c snapshot.Chain, m snapshot.Manifest) bool {
	return m.Kind == snapshot.Delta && m.Lineage == c.Full.Lineage && m.ClusterID == c.Full.ClusterID &&
		c.Full.First < m.Last && m.Last <= c.Last()
}

// unreachable returns what of ms is not in order, but for what Since excludes.
func (s Selection) unreachable(ms, order []snapshot.Manifest) []LeftOut {
	var out []LeftOut
	copied := map[string]bool{}
	for _, m := range order {
		copied[m.Name] = true
	}
	_, gaps := snapshot.Chains(ms)
	for _, m := range ms {
		gap := slices.IndexFunc(gaps, func(g snapshot.Gap) bool { return g.After.Name == m.Name && !g.Bridged })
		switch {
		case copied[m.Name]:
		case gap >= 0:
			out = append(out, LeftOut{m.Name, gaps[gap].Error(), gaps[gap]})
		case s.Since.IsZero():
			out = append(out, LeftOut{m.Name, "nothing that is stored leads up to it", nil})
		}
	}
	return out
}

// broken returns the problems that matter.
func broken(problems []archive.Problem, matters func(snapshot.Snapshot) bool) []LeftOut {
	var out []LeftOut
	for _, p := range problems {
		if s, err := snapshot.Parse(p.Name); err == nil && matters(s) {
			out = append(out, LeftOut{p.Name, p.Err.Error(), p.Err})
		}
	}
	return out
}

// leadsBeyond reports whether s, were it sound, would lead beyond reach.
func leadsBeyond(s snapshot.Snapshot, reach int64) bool {
	if s.Kind == snapshot.Full {
		return s.First > reach
	}
	return s.First <= reach+1 && s.Last > reach
}
