package restorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const scratchPrefix = "etcd-ferry-trial-"

// Trial is what a restore that was made to be checked has found.
type Trial struct {
	Result Result          `json:"result"`
	HashKV snapshot.HashKV `json:"hashKV"`
	// Compared says what HashKV was found equal to: the name of a snapshot
	// whose manifest has a hash, or the source that was asked. It is empty if
	// there was nothing to compare with.
	Compared string  `json:"compared,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// Source answers for the HashKV of the etcd that the snapshots are of, as
// etcd.Client does.
type Source interface {
	HashKV(ctx context.Context, revision int64) (snapshot.HashKV, error)
}

// Trial restores into a new folder in parent, or where the system has temporary
// files if that is empty, checks the database and computes its hash, and removes
// it all again, with what killed trials have left there. If source is not nil it
// is asked for its hash of the same revision; otherwise the newest hash in a
// manifest of the plan counts. archive.ErrCorrupt says that the snapshots cannot
// be restored or have another content.
func (r *Restorer) Trial(ctx context.Context, plan Plan, parent string, source Source) (t Trial, err error) {
	begun := time.Now()
	s, err := newScratch(parent)
	if err != nil {
		return t, fmt.Errorf("trial restore: %w", err)
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	plan.Options.BumpRevision, plan.Options.MarkCompacted = 0, false // it changes the hash
	dataDir := s.data()
	if t.Result, err = r.Do(ctx, plan, dataDir); err != nil {
		return t, err
	}
	if err := CheckDB(ctx, databasePath(dataDir)); err != nil {
		return t, fmt.Errorf("trial restore: %w", err)
	}
	if err := t.compare(ctx, plan, dataDir, source); err != nil {
		return t, fmt.Errorf("trial restore: %w", err)
	}
	t.Seconds = time.Since(begun).Seconds()
	return t, nil
}

// newScratch makes a folder for a trial. Others in parent that nobody works in
// are removed: a process that is killed again and again must not fill a disk.
func newScratch(parent string) (*staging, error) {
	parent = cmp.Or(parent, os.TempDir())
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		s := &staging{dir: filepath.Join(parent, e.Name())}
		if s.acquire() != nil { // somebody works there, or it is somebody else's
			continue
		}
		if err := s.remove(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(parent, scratchPrefix)
	if err != nil {
		return nil, err
	}
	s := &staging{dir: dir}
	return s, s.acquire()
}

func (t *Trial) compare(ctx context.Context, plan Plan, dataDir string, source Source) error {
	want, from, err := expected(ctx, plan.Chain, t.Result.Revision, source)
	if err != nil {
		return err
	}
	if t.HashKV, err = Hash(ctx, dataDir, want.Revision, want.CompactRevision); err != nil {
		return err
	}
	if from == "" {
		return nil
	}
	if t.HashKV != want {
		return fmt.Errorf("%w: hash of the keys at revision %d: %+v is restored, %s has %+v",
			archive.ErrCorrupt, want.Revision, t.HashKV, from, want)
	}
	t.Compared = from
	return nil
}

// expected returns the hash to compare with and where it is from, "" if there is
// none.
func expected(ctx context.Context, c snapshot.Chain, revision int64, source Source) (want snapshot.HashKV, from string, err error) {
	if source != nil {
		want, err = source.HashKV(ctx, revision)
		return want, "the source", err
	}
	for _, m := range c.All() {
		if m.HashKV != nil && m.HashKV.Revision <= revision {
			want, from = *m.HashKV, m.Name
		}
	}
	return want, from, nil
}
