package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

type listCommand struct {
	store  storeFlags
	output output
}

func newListCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "list --store URL",
		Short: "List what is stored and what can be restored",
		Long: `list prints the stored snapshots, the ranges of revisions that can be restored, and
whatever is wrong: damaged snapshots, gaps, and objects without a manifest, which
are uploads that go on now or were cut off. It reads manifests only; the content
is checked by: etcd-ferry verify`,
	}, &listCommand{})
}

func (c *listCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.output.flags(fs)
}

func (c *listCommand) check() error { return errors.Join(c.store.check(), c.output.check()) }

func (c *listCommand) run(ctx context.Context, e *env) error {
	a, err := c.store.open(newMetrics())
	if err != nil {
		return err
	}
	listing, err := a.List(ctx)
	if err != nil {
		return err
	}
	return c.output.print(e.out, newListed(listing))
}

// listed is what a store holds.
type listed struct {
	Snapshots []snapshot.Manifest `json:"snapshots"`
	Chains    []chain             `json:"chains"`
	Windows   []snapshot.Window   `json:"windows"` // what can be restored
	Problems  []problem           `json:"problems"`
	Strays    []string            `json:"strays"`  // objects without a manifest
	Foreign   int                 `json:"foreign"` // objects that are no snapshots
	// Unfinished are copies into the store that go on or were cut off.
	Unfinished []string `json:"unfinished"`
}

// chain names a full and the deltas that continue it.
type chain struct {
	Full   string   `json:"full"`
	Deltas []string `json:"deltas"`
	Last   int64    `json:"lastRevision"`
}

// problem is something that is wrong with what is stored.
type problem struct {
	Name    string `json:"name"` // of the snapshot
	Message string `json:"message"`
}

func newListed(l archive.Listing) listed {
	chains, gaps := snapshot.Chains(l.Manifests)
	// Empty lists rather than null, for programs that iterate.
	listed := listed{
		Snapshots: append([]snapshot.Manifest{}, l.Manifests...),
		Chains:    []chain{},
		Windows:   append([]snapshot.Window{}, snapshot.Windows(l.Manifests)...),
		Problems:  []problem{},
		Strays:    names(l.Strays),
		Foreign:   l.Foreign,

		Unfinished: append([]string{}, l.Unfinished()...),
	}
	for _, c := range chains {
		listed.Chains = append(listed.Chains, newChain(c))
	}
	for _, p := range l.Problems {
		listed.Problems = append(listed.Problems, problem{p.Name, p.Err.Error()})
	}
	for _, g := range gaps {
		if !g.Bridged { // those that pruning leaves show in the windows
			listed.Problems = append(listed.Problems, problem{g.After.Name, g.Error()})
		}
	}
	return listed
}

func newChain(c snapshot.Chain) chain {
	named := chain{Full: c.Full.Name, Deltas: []string{}, Last: c.Last()}
	for _, d := range c.Deltas {
		named.Deltas = append(named.Deltas, d.Name)
	}
	return named
}

func (l listed) table(w io.Writer) {
	if len(l.Snapshots) > 0 {
		row(w, "SNAPSHOT", "REVISIONS", "EVENTS", "STORED", "PLAIN", "AGE", "ETCD", "LINEAGE")
	}
	for _, m := range l.Snapshots {
		row(w, m.Name, revisions(m), events(m), bytesize(m.StoredSize), bytesize(m.PlainSize),
			age(m.Time, time.Now()), m.EtcdVersion, fmt.Sprintf("%.8s", m.Lineage))
	}
	if len(l.Windows) == 0 {
		fmt.Fprintln(w, "nothing can be restored: there is no full snapshot")
	}
	for _, window := range l.Windows {
		fmt.Fprintf(w, "can be restored: %s of lineage %s\n", window, window.Lineage)
	}
	for _, p := range l.Problems {
		fmt.Fprintf(w, "problem: %s\n", p.Message)
	}
	for _, stray := range l.Strays {
		fmt.Fprintf(w, "stray: %s has no manifest: its upload goes on now, or was cut off\n", stray)
	}
	for _, copying := range l.Unfinished {
		fmt.Fprintf(w, "unfinished: %s\n", copying)
	}
	if l.Foreign > 0 {
		fmt.Fprintf(w, "foreign: %d objects are not snapshots, and left alone\n", l.Foreign)
	}
}
