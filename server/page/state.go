package page

import "time"

// Level says how something is to be looked at.
type Level string

// The levels: as it should be, on its way, somebody has to do something, and of
// no interest now.
const (
	Good  Level = "good"
	Wait  Level = "wait"
	Bad   Level = "bad"
	Quiet Level = "quiet"
)

// DefaultRefresh is how often a page asks again that is not told otherwise.
const DefaultRefresh = 5 * time.Second

// State is what the page shows. Parts that are nil are not shown.
type State struct {
	Now     time.Time
	Refresh time.Duration // how often the page asks again; 0: DefaultRefresh
	Version string        // of this program
	Name    string        // of what this is about
	Kind    string        // of process: server, copy, verify
	Verdict Verdict
	Notes   []Note // what needs attention, the most urgent first

	Lease        *Lease
	HandOver     *HandOver
	Backup       *Backup
	Verification *Verification
	Etcd         *Etcd
	Links        []Link // where to read on, on this server
}

// Verdict is the one thing to know.
type Verdict struct {
	Level       Level
	Title, Text string
}

// Note is something that needs attention, and what to do about it.
type Note struct {
	Level        Level
	Text, Advice string
}

// Link is a path of this server.
type Link struct{ Path, Text string }

// Lease is the right to serve.
type Lease struct {
	Role, Reason string // why etcd may not serve; empty: it may
	Remaining    time.Duration
	Length       time.Duration
	Endless      bool // etcd is not stopped when it is over
	Read         time.Duration
	Known        bool // something was read, Read ago
	Owner        string
	Epoch        int64
	Lineage      string
	Member       string
	Members      int
}

// Share is how much of the lease is left, in per cent.
func (l Lease) Share() int {
	if l.Length <= 0 {
		return 0
	}
	return int(max(0, min(100, 100*l.Remaining/l.Length)))
}

// Counts reports whether the role depends on the lease.
func (l Lease) Counts() bool { return !l.Endless && (l.Reason == "" || l.Remaining <= 0) }

// Level is how much there is to worry about: half of a lease is not renewed.
func (l Lease) Level() Level {
	switch {
	case l.Share() > 50:
		return Good
	case l.Share() > 0:
		return Wait
	default:
		return Bad
	}
}

// HandOver is the newest one of the container.
type HandOver struct {
	Title, Text string
	Level       Level
	Steps       []Step
}

// Step is one phase of a hand-over.
type Step struct {
	Title, Text string
	Stage       Stage
	At          string // RFC 3339, or empty
}

// Stage is how far a Step is.
type Stage string

// The stages of a step.
const (
	Done    Stage = "done"
	Now     Stage = "now"
	Next    Stage = "next"
	Failed  Stage = "failed"
	Skipped Stage = "skipped"
)

// Word is the stage for those who do not see its colour.
func (s Stage) Word() string {
	return map[Stage]string{Done: "done", Now: "under way", Next: "to come", Failed: "failed", Skipped: "left out"}[s]
}

// Backup is what is stored.
type Backup struct {
	Where   string
	Age     time.Duration // since the store was asked
	Error   string        // why that is no newer
	Windows []Window
	Chart   *Chart // nil: nothing is stored
	Recent  []Snapshot

	Fulls, Deltas     int
	Bytes             int64 // of all of them, stored
	Damaged           int
	Running           bool // this process backs up
	LagKnown          bool
	LagSeconds        float64
	LagRevisions      int64
	WaitingBytes      int64
	Stalled           bool
	FullDue, DeltaDue bool
}

// Window is a stretch of history that can be restored.
type Window struct {
	First, Last int64
	From, To    time.Time
	Exact       bool
	Lineage     string
}

// Snapshot is one that is stored.
type Snapshot struct {
	Kind        string
	Final       bool
	Time        time.Time
	First, Last int64
	Size        int64
}

// Verification is what the last one has found.
type Verification struct {
	Known    bool      // this process verifies
	Result   string    // of the last one: ok, invalid or error; empty: there was none yet
	At       time.Time // when one was well; zero: never
	Revision int64
	Seconds  float64
}

// Etcd is what is known of the etcd itself, from when it was asked last.
type Etcd struct {
	Endpoint string
	Revision int64 // 0: not known
	Size     int64 // of the database, bytes; 0: not known
	InUse    int64 // bytes of it
	Quota    int64 // bytes; 0: not known
	Alarms   []string
}

// Share is how much of the quota is used, in per cent.
func (e Etcd) Share() int {
	if e.Quota <= 0 {
		return 0
	}
	return int(min(100, 100*e.Size/e.Quota))
}

// Level says whether the quota will do.
func (e Etcd) Level() Level {
	switch {
	case e.Share() >= 95:
		return Bad
	case e.Share() >= 80:
		return Wait
	}
	return Good
}
