package restorer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// Level is how deep a Verifier looks. Each level includes those before it.
type Level string

const (
	// LevelManifest looks at manifests and sizes, and for gaps.
	LevelManifest Level = "manifest"
	// LevelContent reads every stored byte.
	LevelContent Level = "content"
	// LevelRestore restores the newest state into a temporary folder and
	// compares its hash.
	LevelRestore Level = "restore"
)

// Levels are all levels in order.
var Levels = []Level{LevelManifest, LevelContent, LevelRestore}

// DefaultSettle is the preset of Verifier.Settle.
const DefaultSettle = 2 * time.Second

// Verifier tells whether what is stored can be restored.
type Verifier struct {
	Level   Level
	TempDir string // of trial restores; the system's if empty
	Live    Source // asked for the hash of a trial; nil: the manifests' own counts
	// Settle is how long an object without a manifest may stay so before that
	// is a finding: a snapshotter may be about to write the manifest.
	Settle   time.Duration
	Progress func(done, total int64) // bytes read; may be nil

	archive *archive.Archive
}

// NewVerifier returns a Verifier of the deepest level.
func NewVerifier(a *archive.Archive) *Verifier {
	return &Verifier{Level: LevelRestore, Settle: DefaultSettle, archive: a}
}

// Finding names a stored object and says what is wrong with it.
type Finding struct {
	Name    string `json:"name"`
	Problem string `json:"problem"`
	err     error
}

// Report is what a verification found.
type Report struct {
	Level     Level             `json:"level"`
	Snapshots int               `json:"snapshots"` // that are sound
	Bytes     int64             `json:"bytes"`     // read, of stored content
	Windows   []snapshot.Window `json:"windows"`   // what can be restored
	Findings  []Finding         `json:"findings"`
	// Unfinished are the copies into the archive that go on or were cut off. They
	// are a finding only while nothing else is stored.
	Unfinished []string `json:"unfinished,omitempty"`
	Trial      *Trial   `json:"trial,omitempty"`
}

// Err is nil if nothing is wrong; otherwise it joins all findings, which wrap
// archive.ErrCorrupt, snapshot.ErrGap and the like.
func (r Report) Err() error {
	errs := make([]error, len(r.Findings))
	for i, f := range r.Findings {
		errs[i] = f.err
	}
	return errors.Join(errs...)
}

func (r *Report) find(name string, err error) {
	r.Findings = append(r.Findings, Finding{name, err.Error(), err})
}

// Verify looks at everything that is stored. What is wrong with it is in the
// report. The error says that one could not look, or that there is nothing to
// look at (snapshot.ErrNothing).
func (v *Verifier) Verify(ctx context.Context) (Report, error) {
	r := Report{Level: v.Level, Windows: []snapshot.Window{}, Findings: []Finding{}}
	l, err := v.settled(ctx)
	if err != nil {
		return r, err
	}
	r.Unfinished = l.Unfinished()
	if len(l.Manifests)+len(l.Problems)+len(l.Strays)+len(r.Unfinished) == 0 {
		return r, fmt.Errorf("%w: there is no snapshot in %s", snapshot.ErrNothing, v.archive)
	}
	r.Snapshots = len(l.Manifests)
	r.Windows = append(r.Windows, snapshot.Windows(l.Manifests)...)
	r.manifests(l)
	if v.Level == LevelManifest {
		return r, nil
	}
	if err := v.contents(ctx, l.Manifests, &r); err != nil {
		return r, err
	}
	if v.Level == LevelContent || len(r.Findings) > 0 { // a trial would say the same again
		return r, nil
	}
	return r, v.trial(ctx, l, &r)
}

// settled lists the archive. Of strays it leaves those that stay.
func (v *Verifier) settled(ctx context.Context) (archive.Listing, error) {
	l, err := v.archive.List(ctx)
	if err != nil || len(l.Strays) == 0 {
		return l, err
	}
	select {
	case <-time.After(v.Settle):
	case <-ctx.Done():
		return l, context.Cause(ctx)
	}
	again, err := v.archive.List(ctx)
	if err != nil {
		return l, err
	}
	again.Strays = slices.DeleteFunc(again.Strays, func(now store.Info) bool {
		return !slices.ContainsFunc(l.Strays, func(before store.Info) bool { return before.Name == now.Name })
	})
	return again, nil
}

// manifests reports what the listing alone tells.
func (r *Report) manifests(l archive.Listing) {
	for _, p := range l.Problems {
		r.find(p.Name, p.Err)
	}
	for _, d := range defectsOf(archive.Listing{Strays: l.Strays, Announcements: l.Announcements}) {
		r.find(d.Name(), d.err)
	}
	if len(l.Manifests) == 0 {
		for _, copying := range r.Unfinished {
			r.find("", fmt.Errorf("%w: nothing can be restored: %s", archive.ErrCorrupt, copying))
		}
	}
	_, gaps := snapshot.Chains(l.Manifests)
	gaps = slices.DeleteFunc(gaps, func(g snapshot.Gap) bool { return g.Bridged }) // as pruning leaves them
	for _, g := range gaps {
		r.find(g.After.Name, g)
	}
	if _, err := snapshot.Select(l.Manifests, snapshot.Target{}); err != nil && len(l.Manifests) > 0 && len(gaps) == 0 {
		r.find(l.Manifests[0].Name, err)
	}
}

// contents reads every snapshot to its end.
func (v *Verifier) contents(ctx context.Context, ms []snapshot.Manifest, r *Report) error {
	var total int64
	for _, m := range ms {
		total += m.PlainSize
	}
	p := &progress{total: total, report: v.Progress}
	for _, m := range ms {
		err := v.content(ctx, m, p)
		if isCorrupt(err) {
			var pruned bool
			if pruned, err = v.pruned(ctx, m, err, r); pruned {
				continue
			}
		}
		if err != nil {
			return err
		}
		r.Bytes += m.StoredSize
	}
	return nil
}

// pruned looks again at a snapshot that seemed corrupt: retention may have
// removed it meanwhile. If not, it is reported.
func (v *Verifier) pruned(ctx context.Context, m snapshot.Manifest, found error, r *Report) (bool, error) {
	l, err := v.archive.List(ctx)
	if err != nil {
		return false, err
	}
	there := slices.ContainsFunc(l.Manifests, func(now snapshot.Manifest) bool { return now.Name == m.Name }) ||
		slices.ContainsFunc(l.Problems, func(p archive.Problem) bool { return p.Name == m.Name })
	if there {
		r.find(m.Name, found)
	}
	return !there, nil
}

// progress counts bytes for a report.
type progress struct {
	done, total int64
	report      func(done, total int64)
}

func (p *progress) advance(n int64) {
	p.done += n
	if p.report != nil {
		p.report(p.done, p.total)
	}
}

// isCorrupt reports whether err is about what is stored, not about the store.
func isCorrupt(err error) bool {
	return slices.ContainsFunc([]error{
		archive.ErrCorrupt, delta.ErrCorrupt, delta.ErrGap, snapshot.ErrGap, snapshot.ErrLineage,
	}, func(class error) bool { return errors.Is(err, class) })
}

func (v *Verifier) content(ctx context.Context, m snapshot.Manifest, p *progress) error {
	content, err := v.archive.Open(ctx, m)
	if err != nil {
		return err
	}
	defer content.Close()
	counted := &counter{content, p.advance}
	if m.Kind == snapshot.Full {
		return copyDatabase(io.Discard, counted, m)
	}
	f := feed{manifest: m}
	decoder := delta.NewDecoder(counted)
	for {
		_, err := decoder.Next()
		if errors.Is(err, io.EOF) {
			return f.check(decoder.Summary())
		}
		if err != nil {
			return f.explain(err)
		}
	}
}

// trial restores the newest state and compares it.
func (v *Verifier) trial(ctx context.Context, l archive.Listing, r *Report) error {
	plan, err := NewPlan(l, Options{})
	if err != nil {
		return err
	}
	restore := New(v.archive)
	restore.Progress = v.Progress
	t, err := restore.Trial(ctx, plan, v.TempDir, v.Live)
	if isCorrupt(err) {
		r.find(plan.Chain.All()[len(plan.Chain.Deltas)].Name, err)
		return nil
	}
	r.Trial = &t
	return err
}
