package restorer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Plan says what a restore will do. Nothing has been done yet.
type Plan struct {
	Options Options        `json:"options"` // with the defaults filled in
	Chain   snapshot.Chain `json:"chain"`
	// Revision at which the restored history ends. It is a lower bound unless
	// Exact: the revision of a full snapshot is known only when it is read.
	Revision int64 `json:"revision"`
	Exact    bool  `json:"exact"`
	Events   int64 `json:"events"`     // in the deltas
	Stored   int64 `json:"fetchBytes"` // bytes to fetch
	Plain    int64 `json:"plainBytes"` // the same, decompressed
	// Windows of the same lineage: what could be restored instead.
	Windows []snapshot.Window `json:"windows"`
	// Warnings tell of what is stored and left out.
	Warnings []string `json:"warnings,omitempty"`
}

// NewPlan chooses the chain that leads to the target. It refuses
//   - to stop short: if no revision is asked for, and something is stored that
//     would reach further and is broken (archive.ErrCorrupt, snapshot.ErrGap);
//     of a copy into the archive that has not finished the Warnings tell
//   - a snapshot that is too new for the etcd that will run it (ErrVersion)
//
// If nothing is stored at all the error wraps snapshot.ErrNothing.
func NewPlan(l archive.Listing, o Options) (Plan, error) {
	o, err := o.complete()
	if err != nil {
		return Plan{}, err
	}
	defects := defectsOf(l)
	chain, err := snapshot.Select(l.Manifests, o.Target)
	if err != nil {
		return Plan{}, notFound(err, defects, l.Unfinished())
	}
	if err := refuse(defects, o.Target, chain.Last()); err != nil {
		return Plan{}, err
	}
	if err := checkVersion(chain.Full, o.EtcdVersion); err != nil {
		return Plan{}, err
	}
	p := Plan{Options: o, Chain: chain}
	p.measure()
	p.Windows = windows(l.Manifests, chain.Full.Lineage)
	p.Warnings = append(warnings(l.Manifests, defects, p), l.Unfinished()...)
	if o.InitialClusterToken == "" && o.members() > 1 {
		p.Options.InitialClusterToken = tokenFor(chain, p.Revision)
	}
	return p, nil
}

func (p *Plan) measure() {
	full, t := p.Chain.Full, p.Options.Target
	p.Revision = cmp.Or(t.Revision, p.Chain.Last())
	p.Exact = t.Revision > 0 || full.Last <= p.Chain.Last()
	for _, m := range p.Chain.All() {
		p.Events += m.Events
		p.Stored += m.StoredSize
		p.Plain += m.PlainSize
	}
}

func windows(ms []snapshot.Manifest, lineage string) []snapshot.Window {
	var own []snapshot.Window
	for _, w := range snapshot.Windows(ms) {
		if w.Lineage == lineage {
			own = append(own, w)
		}
	}
	return own
}

func warnings(ms []snapshot.Manifest, defects []defect, p Plan) []string {
	var all []string
	for _, d := range defects {
		all = append(all, "left out: "+d.err.Error())
	}
	others := map[string]int{}
	for _, m := range ms {
		if m.Lineage != p.Chain.Full.Lineage {
			others[m.Lineage]++
		}
	}
	for _, lineage := range slices.Sorted(maps.Keys(others)) {
		all = append(all, fmt.Sprintf("left out: another history, %d snapshots of lineage %s", others[lineage], lineage))
	}
	if p.Options.InitialClusterToken == "" && p.Options.members() > 1 {
		all = append(all, "the members derive the cluster id from what is restored: if these snapshots were restored before, "+
			"give every member the same new --initial-cluster-token to tell the clusters apart")
	}
	return all
}

// String tells the plan to people.
func (p Plan) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	bound := ""
	if !p.Exact {
		bound = "at least "
	}
	fmt.Fprintf(w, "revision\t%s%d\n", bound, p.Revision)
	fmt.Fprintf(w, "lineage\t%s\n", p.Chain.Full.Lineage)
	fmt.Fprintf(w, "full\t%s\t%s\n", p.Chain.Full.Name, p.Chain.Full.Time.Format(time.RFC3339))
	if n := len(p.Chain.Deltas); n > 0 {
		last := p.Chain.Deltas[n-1]
		fmt.Fprintf(w, "deltas\t%d, the last %s\t%s\n", n, last.Name, last.Time.Format(time.RFC3339))
	}
	fmt.Fprintf(w, "events\t%d\n", p.Events)
	fmt.Fprintf(w, "fetch\t%d bytes\t%d decompressed\n", p.Stored, p.Plain)
	fmt.Fprintf(w, "member\t%s of %s\n", p.Options.Name, p.Options.InitialCluster)
	if p.Options.BumpRevision > 0 {
		fmt.Fprintf(w, "revision bump\t%d\n", p.Options.BumpRevision)
	}
	for _, window := range p.Windows {
		fmt.Fprintf(w, "restorable\t%s\n", window)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", warning)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}
