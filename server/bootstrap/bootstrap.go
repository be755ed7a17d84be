package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const (
	// DefaultBump is added to the revision when history may have gone back: more
	// than any client can have seen beyond what is stored. It is what etcd's
	// documentation advises.
	DefaultBump = 1_000_000_000
	// DefaultRetryMin is waited after a restore that failed, and twice as long each
	// time after that.
	DefaultRetryMin = 10 * time.Second
	// DefaultRetryMax is the longest wait.
	DefaultRetryMax = 5 * time.Minute
	// DefaultProgressPeriod is the time between two lines of progress in the log.
	DefaultProgressPeriod = 10 * time.Second
)

// Bootstrap prepares one data dir. Set its fields before Prepare.
type Bootstrap struct {
	// Options say how a data dir is restored. Of them the members, the token and
	// the version of etcd are looked at.
	Options restorer.Options
	// Accept names a state of the data dir that is let in although nothing is known
	// of it, as the refusal has said it: <cluster id>@<revision>, or none@<lineage>.
	Accept string
	// Members, if set, returns how many members the cluster was last known to have,
	// 0: not known.
	Members func() int
	Bump    int64

	// Disk is the data dir; nil: the folder.
	Disk Disk

	RetryMin, RetryMax, ProgressPeriod time.Duration
	Log                                *slog.Logger
	Metrics                            *Metrics

	archive *archive.Archive
	dataDir string
	pause   time.Duration // before the next restore
}

// New returns a Bootstrap of etcd's data dir from what a holds, with the default
// settings.
func New(a *archive.Archive, dataDir string) *Bootstrap {
	return &Bootstrap{
		Bump: DefaultBump, RetryMin: DefaultRetryMin, RetryMax: DefaultRetryMax, ProgressPeriod: DefaultProgressPeriod,
		Log: slog.Default(), Metrics: NewMetrics(nil), archive: a, dataDir: dataDir,
	}
}

// Prepare makes sure that the data dir is of the history that holder has the right
// to serve. The caller holds the lock of the data dir (fence.Lock), and calls it
// from one goroutine. Have is the lineage that the data dir was last known to be
// of, empty if it is not known; the answer is the one it is of now.
//
// After an error etcd must not be let in: ErrRefused is wrapped if only somebody
// can help, whom the error tells what to do. Prepare may be called again after any
// error, and after a crash.
func (b *Bootstrap) Prepare(ctx context.Context, holder syncobject.Holder, have string) (lineage string, err error) {
	defer func() {
		if errors.Is(err, ErrRefused) {
			b.Metrics.refuse()
		}
	}()
	f, err := b.gather(ctx, holder, have)
	if err != nil {
		return "", err
	}
	d, err := f.decide()
	if err != nil {
		return "", err
	}
	if d.deed == Restore {
		if err := b.restore(ctx, f, d); err != nil {
			return "", err
		}
	} else {
		b.Log.Info("the data dir is looked at", "deed", d.deed, "reason", d.why, "revision", f.disk.state.Revision)
	}
	if err := b.mark(ctx, f); err != nil {
		return "", err
	}
	b.Metrics.done(d)
	return f.result(d), nil
}

// Check returns nil if Prepare would let etcd go on with the data dir as it is. It
// changes nothing; else it is as Prepare.
func (b *Bootstrap) Check(ctx context.Context, holder syncobject.Holder, have string) error {
	f, err := b.gather(ctx, holder, have)
	if err != nil {
		return err
	}
	d, err := f.decide()
	if err == nil && d.deed != Keep {
		err = errors.New(d.why)
	}
	return err
}

func (b *Bootstrap) gather(ctx context.Context, holder syncobject.Holder, have string) (f facts, err error) {
	f = facts{holder: holder, have: have, accept: b.Accept, member: cmp.Or(b.Options.Name, restorer.DefaultName)}
	if f.disk, err = b.lookAt(); err != nil {
		return f, fmt.Errorf("look at the data dir: %w", err)
	}
	if f.stored, err = readContainer(ctx, b.archive); err != nil {
		return f, err
	}
	if ad := f.stored.adoption; ad != nil && ad.Owner.ID == holder.ID && ad.Owner.Epoch > holder.Epoch {
		f.holder.Epoch, f.holder.Lineage = ad.Owner.Epoch, ad.Owner.Lineage // owner.json was read before
	}
	f.configured = max(1, strings.Count(b.Options.InitialCluster, "="))
	f.members = max(f.configured, f.disk.state.Members)
	if b.Members != nil {
		f.members = max(f.members, b.Members())
	}
	return f, nil
}

// mark makes known that this member is about to be let in. A copy into this
// container, which writes that it has begun and then looks for the mark, may have
// begun meanwhile: it is looked for after the mark, so at least one of the two
// yields.
func (b *Bootstrap) mark(ctx context.Context, f facts) error {
	if slices.Contains(f.stored.serving, f.member) {
		return nil
	}
	err := b.archive.MarkServing(ctx, archive.Serving{
		OperationID: f.stored.operation(), Member: f.member, Owner: f.holder.ID, Time: time.Now(),
	})
	if err != nil {
		return err
	}
	adoptions, err := b.archive.Adoptions(ctx)
	if err != nil {
		return err
	}
	current, err := adoptions.Current()
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.stored.adoption == nil:
		return nil
	case err != nil:
		return fmt.Errorf("the container has just begun to be handed over to here: %w", err)
	case current.OperationID != f.stored.operation():
		return fmt.Errorf("the container has just been handed over to here: %w: operation %s", archive.ErrAdopting, current.OperationID)
	}
	return nil
}

// result returns the lineage that the data dir is of after d. What the holder has
// comes first: a restore forks history, and whoever backs it up names the fork.
func (f facts) result(d decision) string {
	lineage := f.lineage()
	switch {
	case lineage != "" || d.deed == Begin:
	case d.adopted:
		lineage = f.stored.adoption.Owner.Lineage
	case d.deed == Restore:
		lineage = d.lineage
	default:
		for _, m := range f.line() {
			lineage = m.Lineage
		}
	}
	return lineage
}

// restore carries out d.
func (b *Bootstrap) restore(ctx context.Context, f facts, d decision) error {
	if err := b.patience(ctx); err != nil {
		return err
	}
	plan, err := b.plan(ctx, f, d)
	if err != nil {
		return b.failed(fmt.Errorf("%s: %w", d.why, err))
	}
	for _, warning := range plan.Warnings {
		b.Log.Warn("restoring in spite of this", "warning", warning)
	}
	level := slog.LevelWarn
	if d.bump {
		level = slog.LevelError
	}
	b.Log.Log(ctx, level, "the data dir is restored", "reason", d.why, "lossy", d.bump, "through_revision", plan.Revision,
		"snapshots", len(plan.Chain.All()), "lineage", plan.Chain.Full.Lineage, "bytes", plan.Plain)
	result, err := b.disk().Restore(ctx, plan)
	if err != nil {
		return b.failed(fmt.Errorf("%s: %w", d.why, err))
	}
	b.pause = 0
	b.Log.Log(ctx, level, "the data dir was restored", "revision", result.Revision, "current", result.Current,
		"moved_aside", result.MovedAside, "cluster", result.ClusterID, "seconds", result.Seconds, "reason", d.why)
	return nil
}

// plan says what is restored.
func (b *Bootstrap) plan(ctx context.Context, f facts, d decision) (restorer.Plan, error) {
	o, listing := b.Options, f.stored.listing
	if d.bump {
		o.BumpRevision, o.MarkCompacted = b.Bump, true
	}
	if !d.adopted {
		o.Target = snapshot.Target{Lineage: d.lineage}
		return restorer.NewPlan(listing, o)
	}
	ad := f.stored.adoption
	chain, err := b.archive.AdoptedChain(ctx, *ad)
	if err != nil {
		return restorer.Plan{}, err
	}
	o.OperationID = ad.OperationID
	if o.InitialClusterToken == "" && f.members > 1 { // all members have to come to the same
		o.InitialClusterToken = "etcd-ferry-" + ad.OperationID
	}
	return restorer.NewPlan(archive.Listing{Manifests: chain.All()}, o)
}

// patience waits after a restore that failed: it may have fetched much.
func (b *Bootstrap) patience(ctx context.Context) error {
	t := time.NewTimer(b.pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed has the next restore wait, and says what can be done about err.
func (b *Bootstrap) failed(err error) error {
	b.pause = min(max(b.RetryMin, 2*b.pause), b.RetryMax)
	for _, final := range []error{archive.ErrCorrupt, archive.ErrIdentity, snapshot.ErrGap, snapshot.ErrNothing, snapshot.ErrLineage, restorer.ErrVersion} {
		if errors.Is(err, final) {
			return fmt.Errorf("%w: %w: %s", ErrRefused, err, restoreByHand)
		}
	}
	return err
}
