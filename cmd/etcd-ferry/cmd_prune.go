package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
)

type pruneCommand struct {
	store  storeFlags
	policy policyFlags
	output output
	dryRun bool
}

func newPruneCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "prune --store URL --keep-... N",
		Short: "Remove snapshots that a policy lets go",
		Long: `prune keeps every snapshot that at least one of the --keep flags wants, and removes
the others. It never removes the newest chain, nor a snapshot that a kept one
needs. With --dry-run it prints what it would do with each snapshot, and why.`,
		Example: `  etcd-ferry prune --store file:///var/backups/etcd --keep-last 2 --keep-daily 7 --dry-run`,
	}, &pruneCommand{})
}

func (c *pruneCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.policy.flags(fs)
	c.output.flags(fs)
	fs.BoolVar(&c.dryRun, "dry-run", false, "print the verdict on every snapshot, remove nothing")
}

func (c *pruneCommand) check() error {
	errs := []error{c.store.check(), c.policy.check(), c.output.check()}
	if c.policy.empty() {
		errs = append(errs, errors.New("nothing to do: give at least one --keep flag, or --delta-retention"))
	}
	return errors.Join(errs...)
}

func (c *pruneCommand) run(ctx context.Context, e *env) error {
	a, err := c.store.open(newMetrics())
	if err != nil {
		return err
	}
	listing, err := a.List(ctx)
	if err != nil {
		return err
	}
	plan := snapshotter.NewPrunePlan(listing, c.policy.policy, time.Now())
	if c.dryRun {
		return c.output.print(e.out, newPruneDryRun(plan))
	}
	done := pruned{Removed: []verdict{}, Strays: names(plan.Strays)}
	doErr := plan.Do(ctx, a, func(v snapshot.Verdict) {
		done.Removed = append(done.Removed, newVerdict(v))
	})
	if doErr != nil {
		done.Strays = []string{} // they come last; which ones are gone is not known
	}
	return errors.Join(c.output.print(e.out, done), doErr)
}

// verdict is what becomes of one snapshot.
type verdict struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Keep   bool      `json:"keep"`
	Reason string    `json:"reason"`
}

func newVerdict(v snapshot.Verdict) verdict {
	return verdict{v.Manifest.Name, v.Manifest.Time, v.Keep, v.Reason}
}

// pruneDryRun says what pruning would do.
type pruneDryRun struct {
	Snapshots []verdict `json:"snapshots"`
	Strays    []string  `json:"strays"` // to be removed
}

func newPruneDryRun(plan snapshotter.PrunePlan) pruneDryRun {
	d := pruneDryRun{Snapshots: []verdict{}, Strays: names(plan.Strays)}
	for _, v := range plan.Verdicts {
		d.Snapshots = append(d.Snapshots, newVerdict(v))
	}
	return d
}

func (d pruneDryRun) table(w io.Writer) {
	row(w, "VERDICT", "SNAPSHOT", "TAKEN", "REASON")
	for _, v := range d.Snapshots {
		word := "remove"
		if v.Keep {
			word = "keep"
		}
		row(w, word, v.Name, v.Time.Format(time.RFC3339), v.Reason)
	}
	for _, stray := range d.Strays {
		row(w, "remove", stray, "-", "an old object without a manifest")
	}
}

// pruned is what was removed.
type pruned struct {
	Removed []verdict `json:"removed"`
	Strays  []string  `json:"strays"`
}

func (p pruned) table(w io.Writer) {
	for _, v := range p.Removed {
		row(w, "removed", v.Name, v.Reason)
	}
	for _, stray := range p.Strays {
		row(w, "removed", stray, "an old object without a manifest")
	}
	fmt.Fprintf(w, "%d snapshots removed\n", len(p.Removed)+len(p.Strays))
}

func names(infos []store.Info) []string {
	names := []string{}
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}
