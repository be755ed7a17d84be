package server

import (
	"context"
	"sync"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// ownedBackup is a backup, and whoever asked it for a snapshot, as long as this
// deployment is the owner.
type ownedBackup struct {
	backup Backup
	ctx    context.Context //nolint:containedctx // it is the ownership itself
	end    context.CancelCauseFunc

	mu     sync.Mutex // guards closed, so that nobody comes in after the wait has begun
	closed bool
	work   sync.WaitGroup

	located chan struct{} // there is news of the lineage
}

// pause waits for d, for news of the lineage, or for the end.
func (b *ownedBackup) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.located:
	case <-b.ctx.Done():
	}
}

// do calls work under ctx and the ownership.
func (b *ownedBackup) do(ctx context.Context, work func(context.Context)) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrNotOwner
	}
	b.work.Add(1)
	b.mu.Unlock()
	defer b.work.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.ctx, func() { cancel(context.Cause(b.ctx)) })() //nolint:contextcheck // two contexts end the work
	work(ctx)
	return nil
}

func (b *ownedBackup) take(ctx context.Context, kind snapshot.Kind) (m snapshot.Manifest, err error) {
	if ended := b.do(ctx, func(ctx context.Context) { m, err = b.backup.Take(ctx, kind) }); ended != nil {
		return m, ended
	}
	return m, err
}

func (b *ownedBackup) dismiss() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.end(ErrNotOwner)
}

// beginBackup makes a backup and attends to it until dismissBackup. The caller
// holds mu.
func (e *Election) beginBackup(ctx context.Context) {
	if e.Backup == nil {
		return
	}
	b := &ownedBackup{located: make(chan struct{}, 1)}
	b.backup = e.Backup(e.holder, func(lineage string) { e.renamed(b, lineage) })
	b.ctx, b.end = context.WithCancelCause(context.WithoutCancel(ctx))
	e.backup = b
	b.work.Go(func() { e.attend(b) }) //nolint:contextcheck // b.ctx is what it runs under
}

// dismissBackup tells the backup to stop, with the cause ErrNotOwner.
func (e *Election) dismissBackup() {
	if b := e.currentBackup(); b != nil {
		b.dismiss()
	}
}

// endBackup dismisses the backup and waits until it has stopped.
func (e *Election) endBackup() {
	b := e.currentBackup()
	if b == nil {
		return
	}
	b.dismiss()
	b.work.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.backup = nil
}

func (e *Election) currentBackup() *ownedBackup {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.backup
}

// attend runs the backup beside the leader of the cluster, and only there: of
// several sidecars one backs up. At a change of leader two may for a moment,
// which costs nothing but storage. It also lifts a fence that an aborted hand-over
// has left; again and again, since the sidecar of another member, which has not seen
// the abort yet, may set it at any time, and be cut off then for long.
func (e *Election) attend(b *ownedBackup) {
	var running *ownedRun
	defer func() { running.stop() }()
	known := false
	for b.ctx.Err() == nil {
		s, err := e.standing(b.ctx)
		known = known || err == nil
		switch lead := err == nil && (s.Members == 1 || s.Leader); {
		case lead && running == nil:
			running = startRun(b)
		case err == nil && !lead:
			running.stop()
			running = nil
		}
		if err == nil {
			e.thaw(b.ctx)
		}
		e.noteLineage(b.ctx)
		pause := e.Timing.Poll
		if !known {
			pause = e.Timing.Tick
		}
		b.pause(pause)
	}
}

// standing asks where the member is in its cluster, and remembers it.
func (e *Election) standing(ctx context.Context) (Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timing.Read)
	defer cancel()
	s, err := e.member.Standing(ctx)
	if err != nil {
		return s, err
	}
	e.mu.Lock()
	e.members, e.id = s.Members, s.Member
	e.mu.Unlock()
	if err := e.memory.update(func(p *persisted) { p.Members, p.Member = s.Members, s.Member }); err != nil {
		e.Log.Error("the state of the election cannot be written", "error", err)
	}
	return s, nil
}

// thaw lets the cluster accept writes again, if a hand-over that was aborted has
// left it frozen.
func (e *Election) thaw(ctx context.Context) {
	e.mu.Lock()
	g := e.owned // one that was seen since may be what the cluster is being frozen for
	e.mu.Unlock()
	if g == 0 {
		return
	}
	if err := e.member.Thaw(ctx, g); err != nil && ctx.Err() == nil {
		e.Log.Warn("the cluster may refuse writes still, it will be tried again", "error", err)
	}
}

// ownedRun is a running backup.
type ownedRun struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startRun(b *ownedBackup) *ownedRun {
	ctx, cancel := context.WithCancel(b.ctx)
	r := &ownedRun{cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		b.backup.Run(ctx)
	}()
	return r
}

// stop ends the run and waits for it; a nil one has.
func (r *ownedRun) stop() {
	if r == nil {
		return
	}
	r.cancel()
	<-r.done
}

// renamed is told of which lineage the history is that is backed up.
func (e *Election) renamed(b *ownedBackup, lineage string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder.Lineage, e.located = lineage, lineage
	select {
	case b.located <- struct{}{}:
	default: // told already
	}
}

// noteLineage writes down what renamed was told, until it has succeeded: in
// owner.json first, so that what this process remembers of the data dir is never
// ahead of what the container says.
func (e *Election) noteLineage(ctx context.Context) {
	e.mu.Lock()
	mine, located := e.holder, e.located
	e.mu.Unlock()
	p := e.memory.get()
	if located == "" || located != mine.Lineage || located == p.Lineage && mine.Epoch == p.Epoch {
		return
	}
	err := e.write(ctx, mine)
	if err == nil {
		err = e.memory.update(func(p *persisted) { p.Lineage, p.Epoch = located, mine.Epoch })
	}
	if err != nil && ctx.Err() == nil {
		e.Log.Error("the lineage cannot be written down, it will be tried again", "lineage", located, "error", err)
	}
}
