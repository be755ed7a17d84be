package restorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

const (
	// DefaultAhead is how many deltas are fetched and decoded at a time.
	DefaultAhead = 8
	// DefaultTxSize is how many bytes of events go into one transaction of the
	// database.
	DefaultTxSize = 4 << 20
)

// Restorer restores from one archive. Set its fields before the first call. Its
// methods may be called at the same time, for different data dirs.
type Restorer struct {
	Ahead  int
	TxSize int
	// Progress, if set, is told how many decompressed bytes are restored, and
	// of how many.
	Progress func(done, total int64)
	// Locked says that the caller holds the lock of the data dir (fence.Lock) until
	// Do has returned. Otherwise Do makes sure that no etcd runs there.
	Locked bool

	archive *archive.Archive
}

// New returns a Restorer with the default settings.
func New(a *archive.Archive) *Restorer {
	return &Restorer{Ahead: DefaultAhead, TxSize: DefaultTxSize, archive: a}
}

// Result says what a restore did.
type Result struct {
	DataDir string `json:"dataDir"`
	// Revision at which the restored history ends, and Current, the one that
	// etcd will start with: higher if it was bumped.
	Revision int64 `json:"revision"`
	Current  int64 `json:"currentRevision"`
	Events   int64 `json:"events"` // applied from deltas
	Leases   int64 `json:"leases"` // added or changed by deltas
	Bytes    int64 `json:"bytes"`  // decompressed
	// MovedAside is where the former content of the data dir is now, empty if
	// there was none.
	MovedAside string `json:"movedAside,omitempty"`
	ClusterID  string `json:"clusterID"` // hexadecimal, as etcdctl prints it
	MemberID   string `json:"memberID"`

	FullSeconds   float64 `json:"fullSeconds"`
	DeltasSeconds float64 `json:"deltasSeconds"`
	Seconds       float64 `json:"seconds"` // in all
}

// Do carries out a plan. dataDir appears whole, by one rename at the end, and
// what was there before is moved aside. After an error dataDir is as it was,
// and nothing is left of the attempt. ErrBusy says that an etcd runs on dataDir
// or another restore into it goes on; archive.ErrCorrupt, delta.ErrCorrupt and
// snapshot.ErrGap say that the snapshots do not hold what they should.
func (r *Restorer) Do(ctx context.Context, plan Plan, dataDir string) (res Result, err error) {
	begun := time.Now()
	s, err := r.newStaging(dataDir)
	if err != nil {
		return res, fmt.Errorf("restore into %s: %w", dataDir, err)
	}
	j := &job{Restorer: r, plan: plan, staging: s}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := j.run(ctx); err != nil {
		return res, fmt.Errorf("restore into %s: %w", dataDir, err)
	}
	j.result.DataDir, j.result.Seconds = s.dataDir, time.Since(begun).Seconds()
	return j.result, nil
}

// job is one restore.
type job struct {
	*Restorer
	plan    Plan
	staging *staging
	result  Result
}

func (j *job) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{j.skeleton, j.full, j.database, j.place} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// database makes the database of the full that of the restored member, at the end
// of the plan.
func (j *job) database(ctx context.Context) error { return j.extend(ctx, j.finish) }

// extend brings the database of the full to the end of the plan, has finish, which may
// be nil, change it, and closes it.
func (j *job) extend(ctx context.Context, finish func(*bbolt.DB) error) (err error) {
	begun := time.Now()
	db, at, err := j.openFull()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a := j.newApplier(db, at)
	if err := j.deltas(ctx, a); err != nil {
		return err
	}
	if err := j.ended(a); err != nil {
		return err
	}
	if finish != nil {
		if err := finish(db); err != nil {
			return err
		}
	}
	j.result.DeltasSeconds = time.Since(begun).Seconds()
	return db.Sync()
}

// advance counts n more restored bytes.
func (j *job) advance(n int64) {
	j.result.Bytes += n
	if j.Progress != nil {
		j.Progress(j.result.Bytes, max(j.result.Bytes, j.plan.Plain))
	}
}
