package restorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// ErrNoDeltas is wrapped when there is nothing to make a new full of.
var ErrNoDeltas = errors.New("nothing to compact")

const (
	// compactSteps are to merge, to store, and to restore for a trial; each reads
	// about as much as the others.
	compactSteps = 3
	// nameTries bounds how often a full is stored again because something else has
	// its name, for example what a compaction has left that was killed.
	nameTries = 3
	// logRoom is what etcd preallocates for the log of a member, and a segment more,
	// in bytes.
	logRoom = 2 * 64 << 20
)

// NewCompactPlan chooses what Compact is to make one full of: the newest full and all
// deltas that continue it. ErrNoDeltas says that none does, or none beyond what the
// full may hold itself.
func NewCompactPlan(l archive.Listing) (Plan, error) {
	plan, err := NewPlan(l, Options{})
	if err == nil && (len(plan.Chain.Deltas) == 0 || !plan.Exact) {
		err = fmt.Errorf("%w: no delta leads on from %s, the newest full", ErrNoDeltas, plan.Chain.Full.Name)
	}
	return plan, err
}

// Room is how many bytes a restore takes on its way at most.
func (p Plan) Room() int64 { return p.Plain + logRoom }

// Merged returns what is known beforehand of the full that the plan's chain is merged
// to. It is as old as the last delta, so that it changes neither which history is
// the newest nor what counts as the state of an hour; and it proves of its history what
// that delta does. Users, roles and what etcd has noted of its version are the full's.
func (p Plan) Merged() snapshot.Manifest {
	chain := p.Chain.All()
	m, last := p.Chain.Full, chain[len(chain)-1]
	m.First, m.Last, m.Time, m.Parent = p.Revision, p.Revision, last.Time, last.Name
	m.Merged, m.HashKV, m.Final, m.OperationID = int64(len(p.Chain.Deltas)), nil, false, ""
	m.Name, m.Tool, m.StoredSize, m.StoredSHA256, m.PlainSize, m.PlainSHA256 = "", "", 0, "", 0, ""
	for _, d := range p.Chain.Deltas {
		m.RaftIndex, m.Epoch = max(m.RaftIndex, d.RaftIndex), max(m.Epoch, d.Epoch)
	}
	return m
}

// Compaction says how Compact is to work.
type Compaction struct {
	TempDir string // with Room for the plan; the system's if empty
	Source  Source // asked for the hash of the revision; nil: nobody
	Tool    string // recorded in the manifest
	// Permit, if set, is asked right before the new full begins to count.
	Permit func(context.Context) error
}

// Compacted says what Compact has done.
type Compacted struct {
	Snapshot snapshot.Manifest `json:"snapshot"` // that was stored
	// Trial is the restore of the new full from the archive. Its hash is that of
	// what was merged, or the source's.
	Trial   Trial   `json:"trial"`
	Events  int64   `json:"events"` // of the deltas, that are in the full now
	Seconds float64 `json:"seconds"`
}

// Compact makes one full of what the plan restores, and stores it beside what it was
// made of, which stays. First it is restored from where it was stored, and checked, as
// Trial does: archive.ErrCorrupt says that it differs from what was merged, or from the
// source, and does not count. In TempDir there is one database at a time.
func (r *Restorer) Compact(ctx context.Context, plan Plan, c Compaction) (done Compacted, err error) {
	begun := time.Now()
	if err := checkFree(cmp.Or(c.TempDir, os.TempDir()), plan.Room()); err != nil {
		return done, fmt.Errorf("compact: %w", err)
	}
	m := plan.Merged()
	m.Tool = c.Tool
	if m, done.Events, err = r.merge(ctx, plan, m, c.TempDir); err != nil {
		return done, fmt.Errorf("compact: %w", err)
	}
	alone := plan
	alone.Chain, alone.Plain, alone.Stored, alone.Events = snapshot.Chain{Full: m}, m.PlainSize, m.StoredSize, 0
	source := c.Source
	if source == nil {
		source = known(*m.HashKV)
	}
	if done.Trial, err = r.step(compactSteps-1, plan).Trial(ctx, alone, c.TempDir, source); err != nil {
		return done, fmt.Errorf("compact: %s does not count: %w", m.Name, err)
	}
	if c.Source == nil {
		done.Trial.Compared = fmt.Sprintf("what was merged of %d snapshots", len(plan.Chain.All()))
	}
	if done.Snapshot, err = r.count(ctx, m, c.Permit); err != nil {
		return done, fmt.Errorf("compact: %s does not count: %w", m.Name, err)
	}
	done.Seconds = time.Since(begun).Seconds()
	return done, nil
}

// known is the Source of what was hashed before.
type known snapshot.HashKV

// HashKV implements Source.
func (k known) HashKV(_ context.Context, revision int64) (snapshot.HashKV, error) {
	if revision != k.Revision {
		return snapshot.HashKV{}, fmt.Errorf("%w: it ends with revision %d, what was merged with %d", archive.ErrCorrupt, revision, k.Revision)
	}
	return snapshot.HashKV(k), nil
}

// count makes the stored full m count.
func (r *Restorer) count(ctx context.Context, m snapshot.Manifest, permit func(context.Context) error) (snapshot.Manifest, error) {
	if permit != nil {
		if err := permit(ctx); err != nil {
			return m, err
		}
	}
	data, err := m.Encode()
	if err != nil {
		return m, err
	}
	return r.archive.Commit(ctx, data)
}

// step returns a Restorer whose progress is that of the step n of a compaction.
func (r *Restorer) step(n int64, plan Plan) *Restorer {
	s := &Restorer{Ahead: r.Ahead, TxSize: r.TxSize, archive: r.archive}
	if r.Progress != nil {
		s.Progress = func(done, _ int64) { r.Progress(n*plan.Plain+min(done, plan.Plain), compactSteps*plan.Plain) }
	}
	return s
}

// merge makes the database in a folder of its own, and stores it as the full m, which
// does not count yet.
func (r *Restorer) merge(ctx context.Context, plan Plan, m snapshot.Manifest, parent string) (_ snapshot.Manifest, events int64, err error) {
	s, err := newScratch(parent)
	if err != nil {
		return m, 0, err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := os.MkdirAll(filepath.Dir(s.db()), 0o700); err != nil {
		return m, 0, err
	}
	j := &job{Restorer: r.step(0, plan), plan: plan, staging: s}
	if err := j.full(ctx); err != nil {
		return m, 0, err
	}
	if err := j.extend(ctx, nil); err != nil {
		return m, 0, err
	}
	if m, err = r.step(1, plan).put(ctx, m, s.db()); err != nil {
		return m, 0, err
	}
	hash, err := Hash(ctx, s.data(), 0, 0) // it writes to the database, so it is last
	m.HashKV = &hash
	return m, j.result.Events, err
}

// put stores a database as the content of m, as etcd streams it.
func (r *Restorer) put(ctx context.Context, m snapshot.Manifest, db string) (snapshot.Manifest, error) {
	var err error
	for try := range nameTries {
		var stored snapshot.Manifest
		stored, err = r.putOnce(ctx, m, db, time.Duration(try)*time.Second)
		if !errors.Is(err, fs.ErrExist) {
			return stored, err
		}
	}
	return m, err
}

func (r *Restorer) putOnce(ctx context.Context, m snapshot.Manifest, db string, later time.Duration) (_ snapshot.Manifest, err error) {
	content, err := datadir.Stream(ctx, db)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if content.Revision != m.First {
		return m, fmt.Errorf("%w: what was merged is at revision %d, it should be at %d", archive.ErrCorrupt, content.Revision, m.First)
	}
	if r.Progress != nil {
		content.Progress = func(done int64) { r.Progress(done, content.Size) }
	}
	m.Time = m.Time.Add(later)
	return r.archive.Put(ctx, m, content)
}

// checkFree makes sure that there is room in dir.
func checkFree(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the filesystem of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < need { //nolint:unconvert // on other systems it is one
		return fmt.Errorf("%d bytes are free in %s, up to %d are needed: name another folder with --temp-dir", free, dir, need)
	}
	return nil
}
