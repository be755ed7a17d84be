package copier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// The presets of a HandOver.
const (
	DefaultMaxWait = time.Hour
	// DefaultHeartbeatTimeout is four of the source's heartbeats.
	DefaultHeartbeatTimeout = 2 * time.Minute
	DefaultPrecopy          = 30 * time.Second
	DefaultTries            = 3
)

// How a hand-over can end, besides the errors of copying. See syncobject too:
// ErrConflict says that another destination has it.
var (
	// ErrNotReady says that the source has not decided and that this destination
	// may not decide without it. The claim stays: run again to go on waiting.
	ErrNotReady = errors.New("the source is not ready")
	// ErrReclaimed says that the hand-over was aborted or reclaimed. What was
	// copied does not count, the source serves on.
	ErrReclaimed = errors.New("the hand-over was taken back")
	// ErrLossy says that all is done, but without what the source acknowledged
	// after the last revision that was copied.
	ErrLossy = errors.New("handed over with losses")
)

// Force says when a destination decides without the source.
type Force string

const (
	// ForceSafely does so when the source has surely stopped serving: after Wait,
	// if its owner.json says that it stops by itself.
	ForceSafely Force = "safely"
	// ForceNever does not.
	ForceNever Force = "never"
	// ForceAnyway does so after Wait on the operator's word that the source does
	// not serve, also if there is no owner.json or that says otherwise.
	ForceAnyway Force = "anyway"
)

// Container is one side of a hand-over.
type Container struct {
	Archive *archive.Archive
	// Objects is the same container for the sync objects: without store.Retry,
	// because one attempt is what a read of them is.
	Objects store.Store
}

// HandOver is the destination of a hand-over, HANDOVER §8: it claims the source's
// container, waits until it is decided what is handed over, copies exactly that,
// and commits. Set its fields before Run.
type HandOver struct {
	// Copier carries out the copying. Its Selection does not count.
	Copier *Copier

	Wait    time.Duration // W: from the claim until it may be forced
	MaxWait time.Duration // how long a fenced source that lives prolongs that
	// HeartbeatTimeout is for how long after a change of its heartbeat a fenced
	// source lives.
	HeartbeatTimeout time.Duration
	Poll, Read       time.Duration // P, R
	Precopy          time.Duration // between two copies of what is new, while waiting
	Slack            time.Duration // δ
	ClockError       float64       // ρ
	Force            Force
	// Again allows a new hand-over after the last one of this destination was
	// aborted or reclaimed. Without it a destination that is started again, by
	// whatever restarts it, would undo what the operator did.
	Again bool
	Tries int    // of copying a set that is found damaged
	Tool  string // version of this program

	// Progress, if set, is called when bytes begin to be copied that are waited
	// for; the report that it returns is the Copier's, and stop ends it.
	Progress func(context.Context) (report func(done, total int64), stop func())
	// Boot tells the time since boot. The preset is Go's clock, which stands still
	// while the machine sleeps: the wait is the longer for it, never the shorter.
	Boot    func() time.Duration
	Rand    func() float64 // spreads what many would do at once: in [0,1), safe for concurrent use
	Log     *slog.Logger
	Metrics *Metrics

	id       string
	from, to Container
	source   *syncobject.File[syncobject.Object]
	holder   *syncobject.File[syncobject.Owner] // of the source
	own      *syncobject.File[syncobject.Object]
	tenancy  *syncobject.File[syncobject.Owner] // of the own container
	status   published
}

// NewHandOver returns a hand-over to the deployment id with the default settings.
func NewHandOver(id string, from, to Container) *HandOver {
	began := time.Now()
	h := &HandOver{
		Copier: New(from.Archive, to.Archive),
		Wait:   syncobject.DefaultForceAfter, MaxWait: DefaultMaxWait, HeartbeatTimeout: DefaultHeartbeatTimeout,
		Poll: syncobject.DefaultPoll, Read: syncobject.DefaultRead, Precopy: DefaultPrecopy,
		Slack: syncobject.DefaultSlack, ClockError: syncobject.DefaultClockError,
		Force: ForceSafely, Tries: DefaultTries,
		Boot: func() time.Duration { return time.Since(began) }, Rand: rand.Float64, Log: slog.Default(), Metrics: NewMetrics(nil),
		id: id, from: from, to: to,
		source: syncobject.NewFile(from.Objects), holder: syncobject.NewOwnerFile(from.Objects),
		own: syncobject.NewFile(to.Objects), tenancy: syncobject.NewOwnerFile(to.Objects),
	}
	h.status.s.State = Claiming
	return h
}

// Outcome says what a hand-over has brought.
type Outcome struct {
	From            string `json:"from"`
	To              string `json:"to"`
	OperationID     string `json:"operationID"`
	Generation      int64  `json:"generation"`
	Owner           string `json:"owner"`
	Epoch           int64  `json:"epoch"`
	Lineage         string `json:"lineage"`
	DecidedBy       string `json:"decidedBy"` // source or destination
	Forced          bool   `json:"forced"`
	Lossy           bool   `json:"lossy"`
	Reason          string `json:"reason,omitempty"`
	ThroughRevision int64  `json:"throughRevision"`
	Snapshots       int    `json:"snapshots"`
	Bytes           int64  `json:"bytes"`
	// Before says that another run has committed it.
	Before        bool    `json:"doneBefore"`
	WaitedSeconds float64 `json:"waitedSeconds"`
	CopySeconds   float64 `json:"copySeconds"`
}

// Err is ErrLossy if writes may be missing.
func (o Outcome) Err() error {
	if !o.Lossy {
		return nil
	}
	return fmt.Errorf("%w: writes after revision %d may be missing (%s): whatever the source still has of them it files under late/ in %s",
		ErrLossy, o.ThroughRevision, o.Reason, o.From)
}

// handing is one run of a HandOver.
type handing struct {
	*HandOver
	began    time.Duration // when the claim was known to be written, of Boot
	generous time.Duration // what the source prolonged the wait to, of Boot
	told     time.Duration // when the wait was logged last, of Boot
	unsound  bool          // not all that a source has released can be taken
	away     bool          // one's own container was handed away before
	object   syncobject.Object
	outcome  Outcome
}

// state is one state of HANDOVER §8: it does its work and says what follows; nil
// is the end.
type state func(context.Context) (state, error)

// Run hands over. It may be repeated after any error and after a crash at any
// moment: it goes on where it was. What it copied counts, for this container's
// server, only when it has returned without an error.
func (h *HandOver) Run(ctx context.Context) (Outcome, error) {
	h.source.Rand, h.own.Rand, h.tenancy.Rand = h.Rand, h.Rand, h.Rand
	r := &handing{HandOver: h, outcome: Outcome{From: h.from.Archive.String(), To: h.to.Archive.String(), Owner: h.id}}
	var err error
	for next := state(r.claim); next != nil && err == nil; {
		next, err = next(ctx)
	}
	if err != nil {
		r.fail(err)
	}
	return r.outcome, err
}

// persist repeats step until it is done or trying again is of no use. Trouble
// with a store never ends a hand-over that has been claimed: credentials rotate,
// and stores come back.
func (h *HandOver) persist(ctx context.Context, what string, step func(context.Context) error) error {
	for {
		err := step(ctx)
		if err == nil || final(err) {
			return err
		}
		h.trouble(what, err)
		if waitErr := h.pause(ctx, h.Poll); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// final reports whether an error says something that trying again cannot change.
func final(err error) bool {
	for _, e := range []error{
		syncobject.ErrConflict, syncobject.ErrDecided, syncobject.ErrNotPending, syncobject.ErrNotReady, syncobject.ErrNotFenced,
		syncobject.ErrReclaimed, syncobject.ErrInvalid, syncobject.ErrUnknown, syncobject.ErrVanished, syncobject.ErrTooLarge,
		ErrNotReady, ErrReclaimed, ErrTaken, archive.ErrCorrupt, archive.ErrIdentity, archive.ErrSettled, store.ErrUnfit,
		errRefused, ErrUnsafe, snapshot.ErrNothing, snapshot.ErrGap, snapshot.ErrLineage,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
