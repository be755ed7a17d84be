package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
)

type restoreCommand struct {
	store   storeFlags
	keys    identityFlags
	live    etcdFlags // to verify against
	output  output
	options restorer.Options
	dataDir string
	time    string
	dryRun  bool
}

func newRestoreCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "restore --store URL --data-dir DIR",
		Short: "Make a data dir for etcd from what is stored",
		Long: `restore writes a data dir that etcd starts from, as "etcdutl snapshot restore"
does, and brings it to the newest revision stored or to the one asked for, exactly:
revisions, versions, leases. No etcd is needed, and none may run on the data dir.
The data dir appears whole at the end; one that is there is moved aside, never
deleted. What can be restored is shown by --dry-run, and by: etcd-ferry list

Clients that have seen a later revision than the restored one, such as Kubernetes'
controllers, need --bump-revision and --mark-compacted, or a restart.`,
		Example: `  etcd-ferry restore --store file:///var/backups/etcd --data-dir /var/lib/etcd
  etcd-ferry restore --store file:///var/backups/etcd --data-dir /var/lib/etcd \
    --time 2026-11-20T23:16:00Z --bump-revision 1000000000 --mark-compacted`,
	}, &restoreCommand{live: etcdFlags{
		name:  "verify-against",
		usage: "`URLs` of the live etcd: restore into a temporary directory first, and go on only if the hash of the keys is the same",
	}})
}

func (c *restoreCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.keys.flags(fs)
	c.live.flags(fs)
	c.output.flags(fs)
	o, t := &c.options, &c.options.Target
	fs.StringVar(&c.dataDir, "data-dir", "", "`dir` to make")
	fs.Int64Var(&t.Revision, "revision", 0, "restore up to this `revision`; default: the newest")
	fs.StringVar(&c.time, "time", "", "restore the newest state stored at or before this `time`, as 2006-01-02T15:04:05Z")
	fs.StringVar(&t.Lineage, "lineage", "", "restore this `history` of those that list shows; default: the newest")
	fs.StringVar(&t.Base, "base", "", "`name` of the full snapshot to begin with; default: the newest that leads there")
	memberFlags{o}.flags(fs)
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be restored, do nothing")

	fs.Int64Var(&o.BumpRevision, "bump-revision", 0, "add `N` to the revision, so that it does not decrease for clients")
	fs.BoolVar(&o.MarkCompacted, "mark-compacted", false, "end the watches of clients with an error; needs --bump-revision")
}

func (c *restoreCommand) check() error {
	errs := []error{c.store.check(), c.live.check(), c.output.check(), c.checkTarget()}
	if c.dataDir == "" && !c.dryRun {
		errs = append(errs, errors.New("--data-dir is missing: say which directory to make"))
	}
	return errors.Join(append(errs, c.options.Validate())...)
}

// checkTarget also reads the time.
func (c *restoreCommand) checkTarget() error {
	t := &c.options.Target
	if t.Revision < 0 {
		return errors.New("--revision must not be below 0")
	}
	if c.time == "" {
		return nil
	}
	if t.Revision > 0 {
		return errors.New("--revision and --time exclude each other: give one")
	}
	var err error
	if t.Time, err = time.Parse(time.RFC3339, c.time); err != nil {
		return fmt.Errorf("--time %q: want for example %s", c.time, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

func (c *restoreCommand) run(ctx context.Context, e *env) error {
	a, err := c.store.open(newMetrics())
	if err != nil {
		return err
	}
	if err := c.keys.apply(a); err != nil {
		return err
	}
	listing, err := a.List(ctx)
	if err != nil {
		return err
	}
	plan, err := restorer.NewPlan(listing, c.options)
	if err != nil {
		return unsound(err)
	}
	if c.dryRun {
		return c.output.print(e.out, planned{plan})
	}
	if err := adopted(ctx, a); err != nil {
		return err
	}
	for _, warning := range plan.Warnings {
		e.log.Warn("restoring in spite of this", "warning", warning)
	}
	done, err := c.restore(ctx, e, restorer.New(a), plan)
	if err != nil {
		return err
	}
	return c.output.print(e.out, done)
}

// adopted refuses a store that is being handed an etcd.
func adopted(ctx context.Context, a *archive.Archive) error {
	all, err := a.Adoptions(ctx)
	if err != nil {
		return err
	}
	if _, err := all.Current(); errors.Is(err, archive.ErrAdopting) {
		return err
	}
	return nil
}

// restore carries out the plan, after a trial if one is asked for.
func (c *restoreCommand) restore(ctx context.Context, e *env, r *restorer.Restorer, plan restorer.Plan) (done restored, err error) {
	if c.live.given() {
		if done.HashKV, err = c.tryFirst(ctx, e, r, plan); err != nil {
			return done, err
		}
	}
	report, stop := e.progress(ctx, "restore")
	defer stop()
	r.Progress = report
	done.Result, err = r.Do(ctx, plan, c.dataDir)
	done.Start = startLine(done.DataDir, plan.Options)
	return done, err
}

// tryFirst compares what will be restored with the live etcd. The trial is made
// beside the data dir, where there must be room anyway.
func (c *restoreCommand) tryFirst(ctx context.Context, e *env, r *restorer.Restorer, plan restorer.Plan) (*snapshot.HashKV, error) {
	client, err := c.live.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	report, stop := e.progress(ctx, "trial")
	defer stop()
	r.Progress = report
	trial, err := r.Trial(ctx, plan, filepath.Dir(filepath.Clean(c.dataDir)), client)
	if err != nil {
		return nil, c.live.explain(ctx, err)
	}
	return &trial.HashKV, nil
}

// planned is what a dry run found.
type planned struct{ restorer.Plan }

func (p planned) table(w io.Writer) { fmt.Fprint(w, p.Plan) }

// restored is what was done.
type restored struct {
	restorer.Result
	HashKV *snapshot.HashKV `json:"hashKV,omitempty"` // the same as of the live etcd
	Start  string           `json:"start"`            // the command line
}

func (r restored) table(w io.Writer) {
	row(w, "data dir", r.DataDir)
	row(w, "revision", r.Revision)
	if r.Current != r.Revision {
		row(w, "bumped to", r.Current)
	}
	row(w, "events", fmt.Sprintf("%s from deltas, with %s leases", count(r.Events), count(r.Leases)))
	row(w, "bytes", bytesize(r.Bytes))
	row(w, "seconds", fmt.Sprintf("%.1f, of which %.1f for the full and %.1f for the deltas", r.Seconds, r.FullSeconds, r.DeltasSeconds))
	row(w, "cluster id", r.ClusterID)
	if r.HashKV != nil {
		row(w, "verified", fmt.Sprintf("hash %08x at revision %d, as in the live etcd", r.HashKV.Hash, r.HashKV.Revision))
	}
	if r.MovedAside != "" {
		row(w, "was there", "moved to "+r.MovedAside)
	}
	row(w, "start it", r.Start)
}

// startLine is the command line for the restored member, without the flags that
// a restore does not decide.
func startLine(dataDir string, o restorer.Options) string {
	words := []string{"etcd", "--data-dir", dataDir, "--name", o.Name}
	if o.InitialCluster != restorer.DefaultName+"="+restorer.DefaultPeerURL {
		words = append(words, "--initial-cluster", o.InitialCluster, "--initial-advertise-peer-urls", strings.Join(o.PeerURLs, ","))
	}
	for i, word := range words {
		if strings.ContainsAny(word, " \t'\"\\$`&;()<>|*?#~!") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// unsound says where to look when err is that nothing sound is stored.
func unsound(err error) error {
	if errors.Is(err, archive.ErrCorrupt) {
		err = fmt.Errorf("%w: nothing was done; see what is stored, and what is wrong with it: etcd-ferry verify", err)
	}
	return err
}
