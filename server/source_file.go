package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// nameTries bounds how often a snapshot is stored again because something else
// has its name.
const nameTries = 3

// filing stores what a fenced etcd holds, for one operation.
type filing struct {
	archive   *archive.Archive
	operation syncobject.Object
	holder    syncobject.Holder
	tool      string
	now       time.Time
	content   func(context.Context) (*Content, error)
}

// store stores the content as the final snapshot of the operation. What an
// earlier try has stored it takes as it is; so whoever does this again, after a
// crash or beside another member, comes to the same snapshot.
func (f *filing) store(ctx context.Context) (snapshot.Manifest, error) {
	l, err := f.archive.List(ctx)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	for try := range nameTries {
		var m snapshot.Manifest
		m, err = f.create(ctx, l.Manifests, time.Duration(try)*time.Second)
		if errors.Is(err, fs.ErrExist) {
			m, err = f.adopt(ctx, m)
		}
		if !errors.Is(err, archive.ErrCorrupt) {
			return m, err
		}
	}
	return snapshot.Manifest{}, err
}

// among returns the final snapshot of the operation with the content c. Of another
// content there is one if an operation of that name was taken back before.
func (f *filing) among(stored []snapshot.Manifest, c snapshot.Manifest) (snapshot.Manifest, bool) {
	at := slices.IndexFunc(stored, func(m snapshot.Manifest) bool {
		return m.Final && m.OperationID == f.operation.OperationID &&
			m.ClusterID == c.ClusterID && m.Last == c.Last && m.AuthRevision == c.AuthRevision
	})
	if at < 0 {
		return snapshot.Manifest{}, false
	}
	return stored[at], true
}

// create stores the content under a name of its own, later by ahead, unless it is
// stored already and sound.
func (f *filing) create(ctx context.Context, stored []snapshot.Manifest, ahead time.Duration) (snapshot.Manifest, error) {
	c, err := f.content(ctx)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	defer c.Close()
	if m, ok := f.among(stored, c.Manifest); ok && ahead == 0 {
		return m, f.archive.CheckOpened(ctx, m)
	}
	m := f.describe(c.Manifest, stored)
	m.Time = m.Time.Add(ahead)
	hashing, stop := context.WithCancel(ctx)
	defer stop()
	type answer struct {
		hash *snapshot.HashKV
		err  error
	}
	hashed := make(chan answer, 1)
	go func() {
		h, err := hashOf(hashing, c)
		hashed <- answer{h, err}
	}()
	crashpoint.Here(crashpoint.BeforeUpload)
	m, err = f.archive.PutOpened(ctx, m, c)
	if err != nil {
		stop()
		<-hashed // it reads the content
		return m, err
	}
	crashpoint.Here(crashpoint.AfterUpload)
	a := <-hashed
	if a.err != nil {
		return m, a.err
	}
	m.HashKV = a.hash
	return f.commit(ctx, m)
}

// adopt makes what is stored under the name of m count, if it is the content.
func (f *filing) adopt(ctx context.Context, m snapshot.Manifest) (snapshot.Manifest, error) {
	c, err := f.content(ctx)
	if err != nil {
		return m, err
	}
	defer c.Close()
	if m.PlainSize, err = io.Copy(io.Discard, c); err != nil {
		return m, err
	}
	m.PlainSHA256 = c.SHA256()
	if m, err = f.archive.Adopt(ctx, m); err != nil {
		return m, err
	}
	if m.HashKV, err = hashOf(ctx, c); err != nil {
		return m, err
	}
	return f.commit(ctx, m)
}

func (f *filing) commit(ctx context.Context, m snapshot.Manifest) (snapshot.Manifest, error) {
	data, err := m.Encode()
	if err != nil {
		return m, err
	}
	return f.archive.Commit(ctx, data)
}

// describe completes what the content says of itself. The time, and with it the
// name, is when the operation was wanted, or just after the newest that is stored.
func (f *filing) describe(m snapshot.Manifest, stored []snapshot.Manifest) snapshot.Manifest {
	m.Kind, m.Final, m.OperationID = snapshot.Full, true, f.operation.OperationID
	m.Epoch, m.Lineage, m.Tool = f.holder.Epoch, f.holder.Lineage, f.tool
	m.Time = f.now
	if created, err := time.Parse(time.RFC3339Nano, string(f.operation.CreatedAt)); err == nil {
		m.Time = created
	}
	m.Time = m.Time.UTC().Truncate(time.Second)
	for _, s := range stored {
		if !s.Time.Before(m.Time) {
			m.Time = s.Time.Add(time.Second)
		}
		if s.ClusterID == m.ClusterID && (m.Lineage == "" || m.Lineage == s.Lineage) {
			m.Lineage, m.Parent = s.Lineage, s.Name
		}
	}
	if m.Lineage == "" {
		m.Lineage = uuid.NewString()
	}
	return m
}

// settle files what the destination did without, if it has decided for itself:
// writes after its last revision are in this data dir alone. They are kept under
// late, where nobody restores from.
func (e *Election) settle(ctx context.Context, o *syncobject.Object) {
	if o == nil || !o.Decision.Forced || o.OperationID == e.memory.get().Settled {
		return
	}
	for pause := finalRetryMin; ; pause = min(2*pause, finalRetryMax) {
		err := e.fileLate(ctx, *o)
		if err == nil {
			err = e.memory.update(func(p *persisted) { p.Settled = o.OperationID })
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		e.Log.Error("what the destination did without cannot be filed, it will be tried again", "error", err, "in", pause)
		sleep(ctx, pause)
	}
}

func (e *Election) fileLate(ctx context.Context, o syncobject.Object) error {
	c, err := e.member.Offline(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, datadir.ErrMembers) {
		e.Log.Warn("nothing to file: the data dir does not tell what was acknowledged", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	last := c.Manifest.Last
	_ = c.Close() // it was read only
	if last <= o.Snapshots.ThroughRevision {
		e.Log.Info("the destination has everything", "revision", last, "through", o.Snapshots.ThroughRevision)
		return nil
	}
	late := filing{e.late, o, e.Status().Holder, e.Tool, e.Clock.Wall(), e.member.Offline}
	m, err := late.store(ctx)
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.LateStored)
	e.Metrics.lateFiled.Inc()
	e.Log.Error("the destination was started without the newest writes, they are filed",
		"archive", e.late.String(), "snapshot", m.Name, "revision", last, "through", o.Snapshots.ThroughRevision, "destination", o.Destination.ID)
	return e.removeUnnamed(ctx, late, m)
}

// removeUnnamed removes the final snapshot that came too late to be named. It is
// under late by now.
func (e *Election) removeUnnamed(ctx context.Context, late filing, filed snapshot.Manifest) error {
	l, err := e.archive.List(ctx)
	if err != nil {
		return err
	}
	m, ok := late.among(l.Manifests, filed)
	if !ok {
		return nil
	}
	items, err := late.operation.Snapshots.Load(ctx, e.store)
	if err != nil {
		return fmt.Errorf("read what is handed over: %w", err)
	}
	if slices.ContainsFunc(items, func(i syncobject.Item) bool { return i.Name == m.Name }) {
		return nil
	}
	return e.archive.Remove(ctx, m)
}
