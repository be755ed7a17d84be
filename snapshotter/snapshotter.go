package snapshotter

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	// DefaultDeltaPeriod is the time between two deltas.
	DefaultDeltaPeriod = 20 * time.Second
	// DefaultDeltaLimit is how many packed bytes of events wait in memory.
	DefaultDeltaLimit = 16 << 20
	// DefaultDeltaShare is how many times the stored size of the last full the
	// deltas since may reach before a new full is taken. A restore reads both.
	DefaultDeltaShare = 2.0
	// DefaultPrunePeriod is the time between two prunings.
	DefaultPrunePeriod = time.Hour
	// DefaultStallAfter is how long Delta waits for the next event that etcd
	// says there is, before the event stream is opened anew.
	DefaultStallAfter = 30 * time.Second
)

// Schedule tells when the next full is due; a cron expression, for example.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Snapshotter backs up one etcd into one archive. Set its fields before the
// first call. Its methods may be called at the same time.
type Snapshotter struct {
	DeltaPeriod  time.Duration
	DeltaLimit   int // bytes; a delta is cut early when it is reached
	DeltaShare   float64
	FullSchedule Schedule // nil: only when one is needed
	Policy       snapshot.Policy
	PrunePeriod  time.Duration
	StallAfter   time.Duration
	Tool         string // recorded in manifests: the version of this program
	// Epoch is recorded in manifests: which owner of the container this is.
	Epoch int64
	// Lineage, if set, is the one that a history begins with that nothing in the
	// archive is of.
	Lineage string
	// Located, if set, is told of which lineage the history is, when that is first
	// known and when it changes.
	Located func(lineage string)
	// Progress, if set, is told how many bytes of a full have gone, and of how
	// many about.
	Progress func(done, total int64)
	Log      *slog.Logger
	Metrics  *Metrics

	etcd    *etcd.Client
	archive *archive.Archive

	fulls, deltas step // each kind of work is done by one at a time
	aligning      step
	told          string        // to Located; guarded by aligning
	located       chan struct{} // closed when line is first known
	fullDue       chan string
	deltaDue      chan struct{}
	follower      follower
	sealed        *sealed // a delta on its way to the archive; guarded by deltas
	takes         takes

	mu       sync.Mutex // guards what follows
	line     *line
	progress time.Time // when the archive was last found or brought up to date
	newest   time.Time // of all snapshots in the archive, whatever their line
}

// New returns a Snapshotter with the default settings.
func New(c *etcd.Client, a *archive.Archive) *Snapshotter {
	s := &Snapshotter{
		DeltaPeriod: DefaultDeltaPeriod,
		DeltaLimit:  DefaultDeltaLimit,
		DeltaShare:  DefaultDeltaShare,
		PrunePeriod: DefaultPrunePeriod,
		StallAfter:  DefaultStallAfter,
		Log:         slog.Default(),
		Metrics:     NewMetrics(nil),
		etcd:        c,
		archive:     a,
		fulls:       newStep(),
		deltas:      newStep(),
		aligning:    newStep(),
		located:     make(chan struct{}),
		fullDue:     make(chan string, 1),
		deltaDue:    make(chan struct{}, 1),
	}
	s.follower.init()
	s.takes.init()
	return s
}

// describe returns a manifest with what st says of the history.
func (s *Snapshotter) describe(kind snapshot.Kind, st etcd.Status, id lineID) snapshot.Manifest {
	m := snapshot.Manifest{
		Kind:           kind,
		Time:           time.Now().UTC().Truncate(time.Second),
		EtcdVersion:    st.Version,
		StorageVersion: st.StorageVersion,
		ClusterID:      id.cluster,
		MemberID:       hexID(st.MemberID),
		RaftIndex:      st.RaftIndex,
		AuthRevision:   st.AuthRevision,
		Epoch:          s.Epoch,
		Lineage:        id.lineage,
		Tool:           s.Tool,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil && s.line.lineID == id && s.line.parent != nil {
		m.Parent = s.line.parent.Name
	}
	// Whatever the clock does, a snapshot is no older than those before it, and
	// a full is younger: the youngest one's lineage is the one to restore.
	if m.Time.Before(s.newest) {
		m.Time = s.newest
	}
	if kind == snapshot.Full && m.Time.Equal(s.newest) {
		m.Time = m.Time.Add(time.Second)
	}
	return m
}

// hexID writes an id as etcdctl does.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

// step lets one caller do a kind of work at a time.
type step chan struct{}

func newStep() step { return make(step, 1) }

// enter waits for its turn; the caller must call leave if there is no error.
func (s step) enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s step) leave() { <-s }
