package defrag

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
)

const (
	// DefaultShare of a database must be free for a defragmentation to be worth it.
	DefaultShare = 0.5
	// DefaultMinSize in bytes is of a database that is not worth it below.
	DefaultMinSize = 100 << 20
	// DefaultTimeout bounds the defragmentation of one member.
	DefaultTimeout = 10 * time.Minute
	// DefaultSettle bounds the wait, after one, until all is well again.
	DefaultSettle = time.Minute
	// lookPeriod is the time between two looks during Settle.
	lookPeriod = 500 * time.Millisecond
	// maxBehind is how many entries of the log a member may have yet to apply.
	maxBehind = 1000
)

var (
	// ErrUnwell is wrapped when the cluster is not so well that a member could be done
	// without. Nothing was begun, or no further member.
	ErrUnwell = errors.New("the cluster is not well")
	// errElsewhere says that another sidecar does it.
	errElsewhere = errors.New("another member leads")
)

// Schedule tells when it is time; a cron expression, for example.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Defragmenter defragments one cluster. Set its fields before Run.
type Defragmenter struct {
	Share   float64 // of the database that must be free, from 0 to 1
	MinSize int64   // bytes
	Timeout time.Duration
	Settle  time.Duration
	// Hold calls work when nothing goes on that a defragmentation would get into the
	// way of, and keeps it from beginning meanwhile. Preset to call it at once.
	Hold    func(ctx context.Context, work func(context.Context) error) error
	Log     *slog.Logger
	Metrics *Metrics

	etcd *etcd.Client
}

// New returns a Defragmenter with the default settings. The first endpoint of c is that
// of the member beside this process.
func New(c *etcd.Client) *Defragmenter {
	return &Defragmenter{
		Share: DefaultShare, MinSize: DefaultMinSize, Timeout: DefaultTimeout, Settle: DefaultSettle,
		Hold: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) },
		Log:  slog.Default(), Metrics: NewMetrics(nil), etcd: c,
	}
}

// Run calls Once whenever it is time, until ctx ends. What was missed is not made up
// for: the time was chosen for its quiet.
func (d *Defragmenter) Run(ctx context.Context, at Schedule) {
	for {
		t := time.NewTimer(time.Until(at.Next(time.Now())))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if _, err := d.Once(ctx); err != nil && ctx.Err() == nil {
			d.Log.Warn("defragmentation was given up until the next time", "error", err)
		}
	}
}

// Done says what became of one member.
type Done struct {
	Member        string
	Before, After int64 // bytes of its database
}

// Once defragments every member for which it is worth it, one at a time, if the one
// beside this process leads. The error may come after some are done.
func (d *Defragmenter) Once(ctx context.Context) (done []Done, err error) {
	members, err := d.members(ctx)
	if errors.Is(err, errElsewhere) {
		d.Log.Debug("defragmentation is left to the sidecar beside the leader")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, m := range d.worthIt(members) {
		one, err := d.one(ctx, m)
		d.Metrics.observe(one, err)
		if err != nil {
			return done, fmt.Errorf("member %s: %w", m.Name, err)
		}
		done = append(done, one)
		d.Log.Info("member defragmented", "member", m.Name, "before", one.Before, "after", one.After)
	}
	return done, nil
}

// worthIt returns the members to be defragmented, the leader last.
func (d *Defragmenter) worthIt(members []etcd.Member) []etcd.Member {
	wasteful := slices.DeleteFunc(slices.Clone(members), func(m etcd.Member) bool {
		return m.DBSize < d.MinSize || float64(m.Free()) < d.Share*float64(m.DBSize)
	})
	slices.SortStableFunc(wasteful, func(a, b etcd.Member) int { return order(a) - order(b) })
	return wasteful
}

func order(m etcd.Member) int {
	if m.Leader {
		return 1
	}
	return 0
}

// one defragments a member, if all of them are well now, and waits until they are
// again.
func (d *Defragmenter) one(ctx context.Context, m etcd.Member) (done Done, err error) {
	done = Done{Member: m.Name, Before: m.DBSize, After: m.DBSize}
	err = d.Hold(ctx, func(ctx context.Context) error {
		if _, err := d.members(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		return d.etcd.Defragment(ctx, m.Endpoint)
	})
	if err != nil {
		return done, err
	}
	now, err := d.settled(ctx)
	for _, other := range now {
		if other.ID == m.ID {
			done.After = other.DBSize
		}
	}
	return done, err
}

// settled waits until all are well again. Who leads may have changed.
func (d *Defragmenter) settled(ctx context.Context) ([]etcd.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Settle)
	defer cancel()
	for {
		members, err := d.members(ctx)
		if err == nil || errors.Is(err, errElsewhere) {
			return members, nil
		}
		t := time.NewTimer(lookPeriod)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// members returns all members if they are well. errElsewhere comes with them.
func (d *Defragmenter) members(ctx context.Context) ([]etcd.Member, error) {
	all, err := d.etcd.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnwell, err)
	}
	if err := unwell(all); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(m etcd.Member) bool { return m.Beside && m.Leader }) {
		return all, errElsewhere
	}
	return all, nil
}

// unwell says why no member can be done without.
func unwell(all []etcd.Member) error {
	var applied uint64
	for _, m := range all {
		applied = max(applied, m.Applied)
	}
	for _, m := range all {
		switch {
		case m.Alarms.Fenced:
			return fmt.Errorf("%w: it is fenced for a hand-over", ErrUnwell)
		case m.Alarms.Corrupt:
			return fmt.Errorf("%w: its alarm CORRUPT is raised", ErrUnwell)
		case m.LeaderID != all[0].LeaderID:
			return fmt.Errorf("%w: %s and %s follow different leaders", ErrUnwell, m.Name, all[0].Name)
		case applied-m.Applied > maxBehind:
			return fmt.Errorf("%w: %s is %s entries behind", ErrUnwell, m.Name, strconv.FormatUint(applied-m.Applied, 10))
		}
	}
	return nil
}
