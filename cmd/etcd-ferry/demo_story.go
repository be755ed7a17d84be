package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
)

const (
	demoDeltas      = 5 // while the writers write
	demoDeltaPeriod = time.Second
)

// play tells the whole story. The error says what was lost, or what failed.
func (d *demo) play(ctx context.Context) error {
	d.tell("A real etcd starts in a process of its own, its data in %s", d.path("etcd"))
	writes, hash, err := d.live(ctx)
	if err != nil {
		return err
	}
	if err := d.restore(ctx, hash.Revision); err != nil {
		return err
	}
	return d.compare(ctx, writes, hash)
}

// running is an etcd that runs, and clients of it.
type running struct {
	*demoProcess
	ferry  *etcd.Client
	client *clientv3.Client
}

// start runs an etcd on a data dir until stop is called.
func (d *demo) start(ctx context.Context, dataDir string) (r *running, stop func(), err error) {
	p, err := startDemoEtcd(ctx, dataDir, d.path("etcd.log"))
	if err != nil {
		return nil, nil, err
	}
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{p.endpoint}, Logger: zap.NewNop()})
	if err != nil {
		p.kill()
		return nil, nil, err
	}
	ferry, err := etcd.Dial(ctx, etcd.Config{Endpoints: []string{p.endpoint}})
	if err != nil {
		p.kill()
		return nil, nil, errors.Join(err, client.Close())
	}
	d.tell("etcd answers at %s", p.endpoint)
	stop = func() {
		p.kill()
		_ = client.Close() // its etcd is gone anyway
		_ = ferry.Close()
	}
	return &running{p, ferry, client}, stop, nil
}

// live is the first life of the etcd, up to the disaster. It returns what was
// written, and the hash of what was there at the end.
func (d *demo) live(ctx context.Context) (*load, snapshot.HashKV, error) {
	r, stop, err := d.start(ctx, d.path("etcd"))
	if err != nil {
		return nil, snapshot.HashKV{}, err
	}
	defer stop()
	writes := newLoad(r.client)
	if err := writes.fill(ctx); err != nil {
		return nil, snapshot.HashKV{}, err
	}
	d.tell("%s keys are in it, like those of a Kubernetes cluster; %d clients go on writing", count(writes.count()), demoWriters)
	s := snapshotter.New(r.ferry, d.archive)
	s.Log, s.Tool = d.log, buildVersion()
	s.DeltaShare = math.Inf(1) // the story has one full
	if err := d.backUp(ctx, s, writes); err != nil {
		return nil, snapshot.HashKV{}, err
	}
	hash, err := d.hash(ctx, r.ferry)
	if err != nil {
		return nil, hash, err
	}
	d.tell("etcd is at revision %s, the hash of its key space is %08x", count(hash.Revision), hash.Hash)
	r.kill()
	if err := os.RemoveAll(d.path("etcd")); err != nil {
		return nil, hash, err
	}
	d.tell("DISASTER: etcd was killed (kill -9) and its data dir deleted")
	return writes, hash, nil
}

// backUp takes snapshots while clients write, and a last one when they have
// stopped.
func (d *demo) backUp(ctx context.Context, s *snapshotter.Snapshotter, writes *load) error {
	writing, enough := context.WithCancel(ctx)
	defer enough()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return writes.run(gctx, writing) })
	g.Go(func() error {
		defer enough()
		return d.snapshots(gctx, s, writes)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	d.tell("The clients have stopped: etcd has acknowledged %s writes", count(writes.count()))
	return d.delta(ctx, s)
}

// snapshots takes a full and some deltas, while the load does its worst.
func (d *demo) snapshots(ctx context.Context, s *snapshotter.Snapshotter, writes *load) error {
	began := time.Now()
	full, err := s.Full(ctx)
	if err != nil {
		return err
	}
	d.tell("Full snapshot, while they write: %s from etcd are %s in the store, in %s",
		bytesize(full.PlainSize), bytesize(full.StoredSize), seconds(time.Since(began)))
	tick := time.NewTicker(demoDeltaPeriod)
	defer tick.Stop()
	for i := range demoDeltas {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := d.disturb(ctx, i, full, writes); err != nil {
			return err
		}
		if err := d.delta(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// disturb does what breaks naive backups, before the i-th delta.
func (d *demo) disturb(ctx context.Context, i int, full snapshot.Manifest, writes *load) error {
	switch i {
	case 1:
		revision, keys, err := writes.removeEvents(ctx)
		if err != nil {
			return err
		}
		d.tell("A client deletes %s keys in one revision, %s", count(keys), count(revision))
	case 3:
		if err := compact(ctx, writes.etcd, full.Last); err != nil {
			return err
		}
		d.tell("etcd is compacted: it forgets what was before revision %s", count(full.Last))
	}
	return nil
}

func compact(ctx context.Context, c *clientv3.Client, revision int64) error {
	if _, err := c.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

func (d *demo) delta(ctx context.Context, s *snapshotter.Snapshotter) error {
	m, err := s.Delta(ctx)
	if err != nil {
		return err
	}
	if m.Name == "" {
		d.tell("Delta: nothing new")
		return nil
	}
	d.tell("Delta: revisions %s to %s, %s events, %s in the store", count(m.First), count(m.Last), count(m.Events), bytesize(m.StoredSize))
	return nil
}

// hash returns the hash at the newest revision.
func (d *demo) hash(ctx context.Context, c *etcd.Client) (snapshot.HashKV, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return snapshot.HashKV{}, err
	}
	return c.HashKV(ctx, st.Revision)
}

// restore brings the data dir back from the store.
func (d *demo) restore(ctx context.Context, revision int64) error {
	listing, err := d.archive.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range snapshot.Windows(listing.Manifests) {
		d.tell("What is left is the store, with %d snapshots: %s can be restored", len(listing.Manifests), w)
	}
	plan, err := restorer.NewPlan(listing, restorer.Options{})
	if err != nil {
		return err
	}
	res, err := restorer.New(d.archive).Do(ctx, plan, d.path("restored"))
	if err != nil {
		return err
	}
	d.tell("Restored revision %s in %s: the full snapshot, and %s events at %s a second", count(res.Revision),
		seconds(time.Duration(res.Seconds*float64(time.Second))), count(res.Events), count(int64(float64(res.Events)/res.DeltasSeconds)))
	if res.Revision != revision {
		return fmt.Errorf("etcd was at revision %d, %d was restored", revision, res.Revision)
	}
	return nil
}

// compare starts etcd on the restored data and checks that nothing is missing.
func (d *demo) compare(ctx context.Context, writes *load, want snapshot.HashKV) error {
	r, stop, err := d.start(ctx, d.path("restored"))
	if err != nil {
		return err
	}
	defer stop()
	// A hash covers what is above the compacted revision, so both must be
	// compacted alike to be compared.
	if err := compact(ctx, r.client, want.CompactRevision); err != nil {
		return err
	}
	got, err := d.hash(ctx, r.ferry)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("etcd was %+v, the restored one is %+v", want, got)
	}
	d.tell("It is at revision %s, the hash of its key space is %08x: the same", count(got.Revision), got.Hash)
	found, err := writes.check(ctx, r.client)
	if err != nil {
		return err
	}
	d.tell("Looked at one by one: %s keys, %s deleted ones, %d leases with %s keys attached",
		count(found.keys), count(found.deleted), found.leases, count(found.attached))
	d.tell("lost: %d of %s acknowledged writes", found.lost, count(writes.count()))
	if found.lost > 0 {
		return fmt.Errorf("%d acknowledged writes were lost", found.lost)
	}
	return nil
}
