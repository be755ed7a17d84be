package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// ErrNotOwner is the cause with which the context of everything ends that only
// the owner may do, and the error of whoever asks for it.
var ErrNotOwner = errors.New("this deployment is not the owner of the container now")

// Role is where a source stands (HANDOVER §8).
type Role string

// The states of a source.
const (
	Unknown      Role = "Unknown"      // nothing has been read yet; shut
	Owner        Role = "Owner"        // etcd serves and is backed up
	SelfFenced   Role = "SelfFenced"   // the lease was over; shut until the store says who is the owner
	Fencing      Role = "Fencing"      // a hand-over is wanted: etcd is being stopped
	Snapshotting Role = "Snapshotting" // etcd is fenced, the final snapshot is on its way
	Publishing   Role = "Publishing"   // the final snapshot is stored and being made known
	Ceded        Role = "Ceded"        // another deployment is the owner, or will be; shut
	Released     Role = "Released"     // stopped cleanly, everything is in the container
)

// Roles are all of them.
func Roles() []Role {
	return []Role{Unknown, Owner, SelfFenced, Fencing, Snapshotting, Publishing, Ceded, Released}
}

// Backup backs up a running etcd. A snapshotter is one.
type Backup interface {
	Run(ctx context.Context)
	Take(ctx context.Context, kind snapshot.Kind) (snapshot.Manifest, error)
}

// Election holds the right to let one etcd serve, and hands it over: it is the
// source of HANDOVER §8. Set its fields before Run.
type Election struct {
	ID     string // of the deployment, --owner-id
	Timing Timing
	// Implicit is false for an owner that goes on serving when its lease is over:
	// nobody can take over from it by force then, unless an operator says so.
	Implicit bool
	Pace     time.Duration // least time between two writes of the sync object
	StateDir string        // beside the data dir; what must survive a restart of this process
	Tool     string        // recorded in manifests: the version of this program
	Log      *slog.Logger
	Metrics  *ElectionMetrics
	Clock    Clock
	Boot     func() (string, error) // names this run of the kernel, see BootID
	// Rand spreads what many would do at once: in [0,1), safe for concurrent use.
	Rand func() float64
	// Memory keeps what must survive a restart of this process; nil: a file in
	// StateDir.
	Memory Memory
	// Backup makes what backs up etcd while this deployment is the owner; renamed
	// is told of which lineage the history turns out to be. Nil: nothing is backed
	// up.
	Backup func(owner syncobject.Holder, renamed func(lineage string)) Backup
	// Prepare, if set, is called before etcd may start, with the right to serve
	// in hand and the data dir locked: it makes sure that the data dir is of the
	// history that holder names. Etcd is not let in before it returns nil.
	//
	// Have is the lineage that the data dir was last known to be of, empty if it
	// is not known; the answer is the one it is of now.
	Prepare func(ctx context.Context, holder syncobject.Holder, have string) (lineage string, err error)

	// Check, if set, says before a final snapshot is taken of a data dir that is
	// locked why it is not of the history that holder names. What is handed over as
	// complete must be that history, not what another one has left.
	Check func(ctx context.Context, holder syncobject.Holder, have string) error

	member  Member
	store   store.Store
	archive *archive.Archive
	retry   *store.Retrier
	late    *archive.Archive // what came too late for a hand-over

	memory   memory
	inUse    *dirLock // of the state dir
	lease    lease
	object   *syncobject.File[syncobject.Object]
	tenancy  *syncobject.File[syncobject.Owner]
	asking   chan struct{} // held by whoever reads: one at a time, so that they come in order
	held     bool          // owner.json says so, this life; guarded by asking
	foreign  error         // owner.json is another's; guarded by asking
	instance string        // names this life
	implicit atomic.Bool   // Implicit, or promised to be
	// confirmed is when owner.json was last looked at, since boot; of poll.
	confirmed time.Duration
	kick      chan struct{} // asks for a read before its time
	readings  chan reading  // the newest, for the one goroutine that changes the state
	ticks     <-chan time.Time
	proven    bool // the store keeps what it promises
	backup    *ownedBackup

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	role    Role
	reason  error   // why etcd may not serve
	open    bool    // etcd may serve as long as the lease is valid
	frozen  bool    // etcd may run without being open: all writes are refused, or soon, within the lease
	refuses instant // when the cluster last said that it refuses them; zero: never
	located string  // the lineage that the backup has found, this life
	filled  bool    // there was something in the data dir since etcd was let in
	holder  syncobject.Holder
	gates   []fence.Process
	last    reading // the last that succeeded
	lastErr error   // of the last read
	// asked is when the newest read has begun, answered when the newest has begun that
	// has ended; since boot.
	asked, answered time.Duration
	owned           int64 // the generation of the newest reading that said owner
	members         int
	id              string // of the member, hexadecimal; empty: not known
}

// WorkFolder is where copies of the database are completed, relative to the state
// dir. What a run leaves there that was killed, the next one removes.
const WorkFolder = "work"

// lateFolder is where filed snapshots are, relative to the container.
const lateFolder = "late"

// NewElection returns an Election with the default settings. S is the container,
// as its provider gives it: one call is one attempt.
func NewElection(m Member, s store.Store, a *archive.Archive) *Election {
	retry := store.Retry(s)
	return &Election{
		Timing: DefaultTiming(), Implicit: true, Log: slog.Default(), Metrics: NewElectionMetrics(nil),
		Clock: SystemClock{}, Boot: BootID, Rand: rand.Float64, Pace: syncobject.DefaultPace,
		member: m, store: s, archive: a, retry: retry, late: archive.New(store.Prefix(retry, lateFolder)),
		object: syncobject.NewFile(s), tenancy: syncobject.NewOwnerFile(s),
		asking: make(chan struct{}, 1), kick: make(chan struct{}, 1), readings: make(chan reading, 1),
		changed: make(chan struct{}), role: Unknown, reason: errNotRead,
	}
}

// Status is what an Election knows, for people and for the HTTP answers of
// HANDOVER §9. It is a copy.
type Status struct {
	Role   Role
	Reason string // why etcd may not serve, for people; empty for an owner with a lease
	// Holder is this deployment with the epoch and the lineage of what it stores.
	Holder syncobject.Holder
	// Object is the sync object as it was read last; nil: it is proven absent, or
	// nothing was read yet, see Known.
	Object *syncobject.Object
	Known  bool          // something was read
	Age    time.Duration // since the start of that read
	// Remaining is how long the lease is valid still; at 0 and below it is over.
	Remaining time.Duration
	Expires   time.Time // wall clock: when the lease is over
	LastError string    // of the last read, empty if it went well
	Members   int       // of the etcd cluster, 0: not known
	Member    string    // the id of this one, hexadecimal; empty: not known
}

// Status returns what is known now.
func (e *Election) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		Role: e.role, Holder: e.holder, Members: e.members, Member: e.id, Remaining: e.lease.remaining(),
		Expires: e.Clock.Wall().Add(e.lease.remaining()),
	}
	if why := e.shut(); why != nil {
		s.Reason = why.Error()
	}
	if e.lastErr != nil {
		s.LastError = e.lastErr.Error()
	}
	if e.last.known() {
		s.Known, s.Object, s.Age = true, e.last.object, e.last.start.since(e.Clock)
	}
	return s
}
