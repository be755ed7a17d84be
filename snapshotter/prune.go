package snapshotter

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// StrayAge is how old an object without a manifest must be before it is
// removed: no upload takes that long.
const StrayAge = 24 * time.Hour

// PrunePlan says what pruning keeps, what it removes, and why. Making it
// changes nothing.
type PrunePlan struct {
	Verdicts []snapshot.Verdict `json:"snapshots"` // every sound snapshot
	Strays   []store.Info       `json:"strays"`    // old objects without a manifest

	expired []snapshot.Manifest // in the order of removal
}

// NewPrunePlan applies a policy to a listing.
func NewPrunePlan(l archive.Listing, p snapshot.Policy, now time.Time) PrunePlan {
	plan := PrunePlan{Verdicts: p.Apply(l.Manifests, now), expired: p.Expired(l.Manifests, now)}
	for _, stray := range l.Strays {
		if p == (snapshot.Policy{}) || stray.Modified.IsZero() { // nothing is to go; or its age is not known
			continue
		}
		if now.Sub(stray.Modified) > StrayAge {
			plan.Strays = append(plan.Strays, stray)
		}
	}
	return plan
}

// Do removes what the plan says from a, and tells removed of each snapshot. It
// may be repeated.
func (p PrunePlan) Do(ctx context.Context, a *archive.Archive, removed func(snapshot.Verdict)) error {
	for _, m := range p.expired {
		crashpoint.Here(crashpoint.PruneBegun)
		if err := a.Remove(ctx, m); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		crashpoint.Here(crashpoint.Pruned)
		removed(p.verdict(m))
	}
	for _, stray := range p.Strays {
		if err := a.RemoveStray(ctx, stray.Name); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
	}
	return nil
}

func (p PrunePlan) verdict(m snapshot.Manifest) snapshot.Verdict {
	for _, v := range p.Verdicts {
		if v.Manifest.Name == m.Name {
			return v
		}
	}
	return snapshot.Verdict{Manifest: m}
}
