package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// archive is a container as a process uses it for snapshots.
func (l *life) archive(c *container) *archive.Archive {
	r := store.Retry(&link{l, c})
	r.Rand = l.dice.share
	return archive.New(r)
}

// startServer starts the sidecar, unless it runs.
func (s *site) startServer() {
	s.mu.Lock()
	s.wantsUp = true
	busy := s.server != nil || s.off || s.scaled
	s.mu.Unlock()
	if busy || !s.going() {
		return
	}
	l := s.live("server")
	a := l.archive(s.box)
	e := server.NewElection(member{disk{l}}, &link{l, s.box}, a)
	e.ID, e.Timing, e.Clock, e.Rand, e.Memory = s.name, s.plan.timing, l, l.dice.share, memory{l}
	e.Implicit, e.Metrics = s.plan.implicit, server.NewElectionMetrics(nil)
	e.StateDir, e.Tool, e.Log = s.set.Dir, "sim", s.logger(l)
	e.Boot = func() (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprint("boot ", s.bootID), l.alive()
	}
	b := bootstrap.New(a, "/data of "+s.name)
	b.Disk, b.Log = disk{l}, e.Log
	b.Members = func() int { return e.Status().Members }
	e.Prepare, e.Check = b.Prepare, b.Check
	e.Backup = func(h syncobject.Holder, located func(string)) server.Backup {
		return &backup{life: l, archive: a, holder: h, located: located, turn: make(chan struct{}, 1)}
	}
	l.election = e
	s.mu.Lock()
	busy = s.over || s.server != nil
	if !busy {
		s.server = l
	}
	s.mu.Unlock()
	if busy {
		return
	}
	s.tasks.Go(func() { l.serve(e) })
}

// alive is await for those who hold mu.
func (l *life) alive() error {
	if l.dead {
		return errDead
	}
	return nil
}

// serve is the life of a sidecar.
func (l *life) serve(e *server.Election) {
	defer close(l.done)
	err := e.Begin(l.ctx)
	if err == nil {
		err = e.Run(l.ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !l.dead {
		l.note(l.what, "has ended: %v", err)
		l.tasks.Go(func() { // the kubelet starts it again
			l.sleep(10*second + l.dice.between(0, second))
			l.startServer()
		})
	}
	l.etcd.orphaned(l)
	if l.server == l {
		l.server = nil
	}
	if !l.dead {
		l.dead = true
		close(l.died)
	}
	l.broadcast()
}

// logger tells the story what matters, or all.
func (s *site) logger(l *life) *slog.Logger { return slog.New(&teller{life: l}) }

// teller is a slog.Handler.
type teller struct {
	*life
	attrs string
}

// Enabled implements slog.Handler.
func (h *teller) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h *teller) Handle(_ context.Context, r slog.Record) error {
	told := map[string]bool{"role": true, "hand-over": true}
	if !h.set.Log && !told[r.Message] && r.Level < slog.LevelError {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if (a.Key != "object" && a.Key != "in") || h.set.Log {
			text += fmt.Sprintf(" %s=%.160v", a.Key, a.Value)
		}
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if text == h.told && !h.set.Log { // again and again
		return nil
	}
	h.told = text
	h.note(h.what, "%s%s", text, h.attrs)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *teller) WithAttrs(as []slog.Attr) slog.Handler {
	with := *h
	with.attrs += fmt.Sprint(as)
	return &with
}

// WithGroup implements slog.Handler.
func (h *teller) WithGroup(string) slog.Handler { return h }

// backup stores the history of a running etcd, as a snapshotter does: a full, and
// deltas. It uses the real archive.
type backup struct {
	*life
	archive *archive.Archive
	holder  syncobject.Holder
	located func(string)

	turn    chan struct{} // held by whoever stores something
	lineage string
	next    int64 // the first revision that nothing stored holds; 0: a full is next
	newest  time.Time
}

// Run implements server.Backup.
func (b *backup) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.once(ctx); err != nil {
			pause(ctx, b.dice.between(2*second, 10*second))
			continue
		}
		pause(ctx, b.dice.between(25*second, 90*second))
	}
}

// Take implements server.Backup.
func (b *backup) Take(ctx context.Context, _ snapshot.Kind) (snapshot.Manifest, error) {
	return snapshot.Manifest{}, b.once(ctx)
}

// once stores what is new.
func (b *backup) once(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.lineage == "" {
		if err := b.locate(ctx); err != nil {
			return err
		}
		b.located(b.lineage)
	}
	m, data, err := b.look()
	if err != nil || m.Kind == snapshot.Delta && m.First > m.Last {
		return err
	}
	m.Time = b.Wall().UTC().Truncate(second)
	if !m.Time.After(b.newest) {
		m.Time = b.newest.Add(second)
	}
	buffer, err := archive.NewBuffer()
	if err != nil {
		return err
	}
	_, err = buffer.Write(data)
	if err := errors.Join(err, buffer.Close()); err != nil {
		return err
	}
	m, err = b.archive.SaveBuffer(ctx, m, buffer)
	if errors.Is(err, fs.ErrExist) {
		b.newest = b.newest.Add(second)
	}
	if err != nil {
		return err
	}
	b.newest, b.next = m.Time, m.Last+1
	return nil
}

// look takes a snapshot of what etcd holds now.
func (b *backup) look() (snapshot.Manifest, []byte, error) {
	if err := b.await(); err != nil {
		return snapshot.Manifest{}, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.etcd
	if !b.serves() {
		return snapshot.Manifest{}, nil, errNoAnswer
	}
	kind, first, log := snapshot.Full, e.rev, e.log
	if b.next > 0 {
		kind, first, log = snapshot.Delta, b.next, e.from(b.next)
	}
	m := e.manifest(kind, first)
	m.Epoch, m.Lineage, m.Tool, m.Events = b.holder.Epoch, b.lineage, "sim", int64(len(log))
	if kind == snapshot.Full {
		m.Events = 0
	}
	return m, encode(e.rev, log), nil
}

// locate finds the history that etcd has in the archive, as a snapshotter does.
func (b *backup) locate(ctx context.Context) error {
	l, err := b.archive.List(ctx)
	if err != nil {
		return err
	}
	if err := b.await(); err != nil {
		return err
	}
	b.mu.Lock()
	cluster, rev, serves := hex64(b.etcd.cluster), b.etcd.rev, b.serves()
	b.mu.Unlock()
	if !serves {
		return errNoAnswer
	}
	taken := false
	for _, m := range l.Manifests {
		if m.Time.After(b.newest) {
			b.newest = m.Time
		}
		taken = taken || m.Lineage == b.holder.Lineage
	}
	lineage, reach := lineIn(l.Manifests, cluster)
	switch {
	case lineage != "" && reach <= rev:
		b.lineage, b.next = lineage, reach+1
	case taken || b.holder.Lineage == "":
		b.lineage = uuid.NewString()
	default:
		b.lineage = b.holder.Lineage
	}
	return nil
}

// lineIn returns the lineage of the newest snapshot of a cluster, and how far its
// newest chain reaches.
func lineIn(all []snapshot.Manifest, cluster string) (lineage string, reach int64) {
	var newest time.Time
	for _, m := range all {
		if m.ClusterID == cluster && !m.Time.Before(newest) {
			newest, lineage = m.Time, m.Lineage
		}
	}
	var own []snapshot.Manifest
	for _, m := range all {
		if m.Lineage == lineage && m.ClusterID == cluster {
			own = append(own, m)
		}
	}
	chains, _ := snapshot.Chains(own)
	if lineage == "" || len(chains) == 0 {
		return "", 0
	}
	return lineage, chains[len(chains)-1].Last()
}

// replay reads what a chain holds.
func replay(ctx context.Context, a *archive.Archive, c snapshot.Chain) (rev int64, log []entry, err error) {
	for _, m := range c.All() {
		r, err := a.Open(ctx, m)
		if err != nil {
			return 0, nil, err
		}
		to, part, err := decode(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return 0, nil, err
		}
		for _, x := range part {
			if x.rev > rev || m.Kind == snapshot.Full {
				log = append(log, x)
			}
		}
		rev = max(rev, to)
	}
	return rev, log, nil
}
