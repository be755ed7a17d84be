package snapshotter

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

const (
	// After a failed full Run waits between fullRetryMin and fullRetryMax, twice
	// as long each time.
	fullRetryMin = 5 * time.Second
	fullRetryMax = 5 * time.Minute
	// stallPeriods is how many delta periods may pass without success before
	// that is called an error.
	stallPeriods = 3
)

// Run takes deltas and fulls and prunes, each in its time, until ctx ends, and
// returns when all of that has stopped. Failures are logged, counted and tried
// again; they never end Run.
func (s *Snapshotter) Run(ctx context.Context) {
	defer s.following(ctx)()
	s.Metrics.begun()
	defer s.Metrics.ended()
	var g errgroup.Group
	g.Go(func() error { s.runDeltas(ctx); return nil })
	g.Go(func() error { s.runFulls(ctx); return nil })
	g.Go(func() error { s.runPruning(ctx); return nil })
	g.Go(func() error { s.watchProgress(ctx); return nil })
	_ = g.Wait()
}

func (s *Snapshotter) runDeltas(ctx context.Context) {
	every(ctx, s.DeltaPeriod, s.deltaDue, func() {
		switch _, err := s.delta(ctx); {
		case errors.Is(err, errFullDue):
			s.requestFull(err.Error()) // beside the deltas, which go on
		case err != nil && ctx.Err() == nil:
			s.Log.Warn("delta snapshot failed, it will be tried again", "error", err, "in", s.DeltaPeriod)
		}
	})
}

// requestFull has Run take a full.
func (s *Snapshotter) requestFull(why string) {
	select {
	case s.fullDue <- why:
	default: // asked for already
	}
}

// requestDelta has Run take a delta before its time.
func (s *Snapshotter) requestDelta() {
	select {
	case s.deltaDue <- struct{}{}:
	default: // asked for already
	}
}

// every calls do now and then once a period, and when due says so, until ctx
// ends.
func every(ctx context.Context, period time.Duration, due <-chan struct{}, do func()) {
	t := time.NewTicker(period)
	defer t.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-t.C:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// runFulls takes a full when the schedule or Delta says so.
func (s *Snapshotter) runFulls(ctx context.Context) {
	for {
		why, ok := s.nextFull(ctx)
		if !ok {
			return
		}
		s.Log.Info("a full snapshot is due", "why", why)
		s.Metrics.due(snapshot.Full, true)
		pause := fullRetryMin
		for ctx.Err() == nil {
			_, err := s.Full(ctx)
			if err == nil || ctx.Err() != nil {
				s.Metrics.due(snapshot.Full, err != nil)
				s.forgetRequest() // it came before the full; if it still holds it comes again
				break
			}
			s.Log.Error("full snapshot failed, it will be tried again", "error", err, "in", pause)
			sleep(ctx, pause/2+rand.N(pause/2))
			pause = min(2*pause, fullRetryMax)
		}
	}
}

// nextFull waits until a full is due and says why. A full that was missed while
// nobody ran is due at once.
func (s *Snapshotter) nextFull(ctx context.Context) (why string, ok bool) {
	select {
	case <-s.located:
	case why := <-s.fullDue:
		return why, true
	case <-ctx.Done():
		return "", false
	}
	var scheduled <-chan time.Time
	if s.FullSchedule != nil {
		t := time.NewTimer(time.Until(s.FullSchedule.Next(s.lastFull())))
		defer t.Stop()
		scheduled = t.C
	}
	select {
	case <-scheduled:
		return "schedule", true
	case why := <-s.fullDue:
		return why, true
	case <-ctx.Done():
		return "", false
	}
}

func (s *Snapshotter) forgetRequest() {
	select {
	case <-s.fullDue:
	default:
	}
}

// lastFull returns when the newest full was taken, now if there is none.
func (s *Snapshotter) lastFull() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.full == nil {
		return time.Now()
	}
	return s.line.full.Time
}

func (s *Snapshotter) runPruning(ctx context.Context) {
	every(ctx, s.PrunePeriod, nil, func() {
		if err := s.Prune(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("pruning failed, it will be tried again", "error", err, "in", s.PrunePeriod)
		}
	})
}

// Prune removes what the Policy lets go.
func (s *Snapshotter) Prune(ctx context.Context) error {
	reached := s.reach()
	listing, err := s.list(ctx)
	if err != nil {
		return err
	}
	s.compare(listing, reached)
	plan := NewPrunePlan(listing, s.Policy, time.Now())
	return plan.Do(ctx, s.archive, func(v snapshot.Verdict) {
		s.Metrics.pruned.Inc()
		s.Log.Info("snapshot pruned", "snapshot", v.Manifest.Name, "why", v.Reason)
	})
}

// reach returns the line and how far its deltas went.
func (s *Snapshotter) reach() line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		return line{}
	}
	return *s.line
}

// compare takes a full if what is listed does not lead to where the line was
// before: something was removed or damaged behind our back.
func (s *Snapshotter) compare(l archive.Listing, before line) {
	if before.full == nil {
		return
	}
	for _, p := range l.Problems {
		s.Log.Error("a stored snapshot is damaged", "snapshot", p.Name, "error", p.Err)
	}
	chains, _ := snapshot.Chains(l.Manifests)
	for _, c := range chains {
		if c.Full.Lineage == before.lineage && c.Last() >= before.next-1 {
			return
		}
	}
	s.Log.Error("what is stored does not lead up to what was stored last", "revision", before.next-1)
	s.requestFull("what is stored is not whole any more")
}

// progressed notes that the archive is up to date, unless err says otherwise.
func (s *Snapshotter) progressed(err error) {
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = time.Now()
}

// watchProgress speaks up when the archive has not been up to date for
// stallPeriods.
func (s *Snapshotter) watchProgress(ctx context.Context) {
	s.progressed(nil)
	every(ctx, s.DeltaPeriod, nil, func() {
		first, whole, size := s.follower.at()
		s.Metrics.waiting(whole-first+1, size)
		s.mu.Lock()
		quiet := time.Since(s.progress)
		s.mu.Unlock()
		stalled := quiet > stallPeriods*s.DeltaPeriod
		s.Metrics.quiet(quiet, stalled)
		if !stalled {
			return
		}
		s.Log.Error("backup makes no progress", "for", quiet.Round(time.Second),
			"waiting_revisions", whole-first+1, "waiting_bytes", size)
	})
}
