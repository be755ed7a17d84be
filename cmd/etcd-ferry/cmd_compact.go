package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

type compactCommand struct {
	store      storeFlags
	recipients recipientFlags
	identities identityFlags
	live       etcdFlags
	output     output
	tempDir    string
	dryRun     bool
}

func newCompactCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "compact --store URL",
		Short: "Merge the newest full snapshot and its deltas into a new full one",
		Long: `compact makes one full snapshot of the newest full and all deltas that continue it,
without an etcd, so that a restore reads less. The new full is restored from the store
for a trial before it counts, and what it was made of stays: prune removes that, if the
policy lets it go. Users, roles and permissions are those of the former full.

It refuses while the store's etcd is being handed over, or belongs to somebody else.
A running server needs none of this: it takes a full itself, see its --delta-share.`,
		Example: `  etcd-ferry compact --store file:///var/backups/etcd --dry-run
  etcd-ferry compact --store file:///var/backups/etcd --temp-dir /var/tmp`,
	}, &compactCommand{live: etcdFlags{
		name: "verify-against", usage: "`URLs` of the live etcd, to compare the hash of the keys with; default: none is asked",
	}})
}

func (c *compactCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.recipients.flags(fs)
	c.identities.flags(fs)
	c.live.flags(fs)
	c.output.flags(fs)
	fs.StringVar(&c.tempDir, "temp-dir", "", "`dir` to work in, with room for the database; default: the system's")
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be merged, store nothing")
}

func (c *compactCommand) check() error {
	return errors.Join(c.store.check(), c.live.check(), c.output.check())
}

func (c *compactCommand) run(ctx context.Context, e *env) error {
	wrapped, err := c.store.wrapped(newMetrics())
	if err != nil {
		return err
	}
	a := archive.New(wrapped)
	if err := errors.Join(c.recipients.apply(a), c.identities.apply(a)); err != nil {
		return err
	}
	permit := func(ctx context.Context) error { return mayCompact(ctx, wrapped, a) }
	if err := permit(ctx); err != nil {
		return err
	}
	listing, err := a.List(ctx)
	if err != nil {
		return err
	}
	plan, err := restorer.NewCompactPlan(listing)
	if err != nil {
		return unsound(err)
	}
	if err := c.checkSecrecy(plan.Chain); err != nil {
		return err
	}
	if c.dryRun {
		return c.output.print(e.out, newCompactDryRun(plan))
	}
	for _, warning := range plan.Warnings {
		e.log.Warn("compacting in spite of this", "warning", warning)
	}
	return c.compact(ctx, e, restorer.New(a), plan, restorer.Compaction{TempDir: c.tempDir, Tool: buildVersion(), Permit: permit})
}

func (c *compactCommand) compact(ctx context.Context, e *env, r *restorer.Restorer, plan restorer.Plan, how restorer.Compaction) error {
	if c.live.given() {
		client, err := c.live.dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		how.Source = client
	}
	report, stop := e.progress(ctx, "compact")
	r.Progress = report
	done, err := r.Compact(ctx, plan, how)
	stop()
	if err != nil {
		return c.live.explain(ctx, err)
	}
	return c.output.print(e.out, compacted{done})
}

// checkSecrecy refuses to store in the clear what is encrypted.
func (c *compactCommand) checkSecrecy(chain snapshot.Chain) error {
	encrypted := slices.ContainsFunc(chain.All(), func(m snapshot.Manifest) bool {
		s, err := m.Snapshot()
		return err == nil && s.Encrypted
	})
	if encrypted && c.recipients.file == "" {
		return usageError{errors.New("the snapshots are encrypted, and the new one would not be: name for whom it is with --recipients-file")}
	}
	return nil
}

// mayCompact returns nil if nobody forbids to add to what is stored: neither a
// hand-over, to here or from here, nor an owner that is another one than the store's.
func mayCompact(ctx context.Context, s store.Store, a *archive.Archive) error {
	if err := adopted(ctx, a); err != nil {
		return err
	}
	owner, err := syncobject.NewOwnerFile(s).Read(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	object, err := syncobject.NewFile(s).Read(ctx)
	switch verdict := syncobject.JudgeRead(object, err, owner.ID, 0); verdict {
	case syncobject.Own:
		return nil
	case syncobject.NoVerdict:
		return err
	case syncobject.HandOver:
		return fmt.Errorf("%w: its etcd is being handed over: wait until that is over, see etcd-ferry copyop status", syncobject.ErrConflict)
	default:
		return fmt.Errorf("%w: its etcd is not, or not for long, that of %q, says %s: its snapshots are not added to (%s)",
			syncobject.ErrConflict, owner.ID, syncobject.ObjectName, verdict)
	}
}

// compactDryRun says what would be merged.
type compactDryRun struct {
	Full     snapshot.Manifest   `json:"full"`
	Deltas   []snapshot.Manifest `json:"deltas"`
	Merged   snapshot.Manifest   `json:"merged"` // but for sizes, digests and the hash
	Fetch    int64               `json:"fetchBytes"`
	Room     int64               `json:"roomBytes"` // needed in the temporary directory
	Warnings []string            `json:"warnings,omitempty"`
}

func newCompactDryRun(p restorer.Plan) compactDryRun {
	return compactDryRun{p.Chain.Full, p.Chain.Deltas, p.Merged(), p.Stored, p.Room(), p.Warnings}
}

func (d compactDryRun) table(w io.Writer) {
	row(w, "full", d.Full.Name)
	row(w, "deltas", fmt.Sprintf("%d, the last %s", len(d.Deltas), d.Deltas[len(d.Deltas)-1].Name))
	row(w, "merged to", fmt.Sprintf("a full of revision %d, as of %s", d.Merged.First, d.Merged.Time.Format(time.RFC3339)))
	row(w, "fetch", bytesize(d.Fetch))
	row(w, "room", fmt.Sprintf("%s in the temporary directory at most", bytesize(d.Room)))
	for _, warning := range d.Warnings {
		row(w, "warning", warning)
	}
}

// compacted is what was done.
type compacted struct{ restorer.Compacted }

func (c compacted) table(w io.Writer) {
	m := c.Snapshot
	row(w, "stored", fmt.Sprintf("%s, %s", m.Name, bytesize(m.StoredSize)))
	row(w, "merged", fmt.Sprintf("a full and %s deltas, with %s events", count(m.Merged), count(c.Events)))
	row(w, "revision", m.First)
	row(w, "trial restore", fmt.Sprintf("hash %08x, the same as of %s", c.Trial.HashKV.Hash, c.Trial.Compared))
	row(w, "seconds", fmt.Sprintf("%.1f", c.Seconds))
	row(w, "kept", "what it was made of, until etcd-ferry prune lets it go")
}
