package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server"
)

const (
	demoBefore = 6 * time.Second // of writes at A, before it is asked to hand over
	demoByHand = 4 * time.Second // for an etcd past the gate to serve, which it must not
)

// play tells the whole story. The error says what was lost, or what failed.
func (d *demo) play(ctx context.Context) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	a, err := newDeployment(ctx, "A", d.self)
	if err != nil {
		return err
	}
	defer a.client.Close()
	b, err := newDeployment(ctx, "B", d.self)
	if err != nil {
		return err
	}
	defer b.client.Close()
	d.tell("Deployments A and B, each with a container in a directory. A starts: a server, and an etcd behind its gate")
	defer a.stop()
	a.start(ctx, fail)
	if err := a.await(ctx, "/healthz"); err != nil {
		return err
	}
	defer b.stop()
	s := &story{demo: d, a: a, b: b, startB: func() { b.start(ctx, fail) }, load: newLoad(a.client, b.client)}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.ferry(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return s.compare(ctx)
}

// story is the state of a performance.
type story struct {
	*demo
	a, b   *deployment
	startB func()
	load   *load

	unready time.Time // A's readiness is not 200 any more
	read    time.Time // the first that B serves
	outcome copier.Outcome
}

// prepare fills A.
func (s *story) prepare(ctx context.Context) error {
	s.tell("A serves. It gets keys like those of a Kubernetes cluster")
	if err := s.load.fill(ctx); err != nil {
		return err
	}
	revision, keys, err := s.load.removeEvents(ctx)
	if err != nil {
		return err
	}
	s.tell("%s keys were written, and %s of them deleted in one revision", count(demoPods+demoEvents), count(keys))
	if _, err := s.a.client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// ferry hands over from A to B while clients write.
func (s *story) ferry(ctx context.Context) error {
	writing, enough := context.WithCancel(ctx)
	defer enough()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.load.run(gctx, writing) })
	g.Go(func() error {
		defer enough()
		return s.underLoad(gctx)
	})
	return g.Wait()
}

// underLoad is what happens while clients write.
func (s *story) underLoad(ctx context.Context) error {
	s.tell("%d clients write to A from now on, and never stop", demoWriters)
	if err := errors.Join(pause(ctx, demoBefore), s.backedUp(ctx)); err != nil {
		return err
	}
	s.tell("$ etcd-ferry copyop initiate --server %s", s.a.server)
	if _, err := s.self.output(ctx, "copyop", "initiate", "--server", s.a.server); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watchSource(gctx) })
	g.Go(func() error {
		if err := s.copy(gctx); err != nil {
			return err
		}
		s.tell("B starts: its server restores what was handed over, and lets etcd in")
		s.startB()
		return s.firstRead(gctx)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.tell("The clients go on at B")
	return s.byHand(ctx)
}

// backedUp tells what A's container has.
func (s *story) backedUp(ctx context.Context) error {
	l, err := s.a.stored(ctx)
	if err != nil {
		return err
	}
	var fulls, deltas, bytes int64
	for _, m := range l.Manifests {
		bytes += m.StoredSize
		if m.Kind == snapshot.Full {
			fulls++
		} else {
			deltas++
		}
	}
	s.tell("A has acknowledged %s writes. In its container are %d full and %d delta snapshots of it, together %s",
		count(s.load.acknowledgedBy(sourceEtcd).writes), fulls, deltas, bytesize(bytes))
	return nil
}

// watchSource tells what can be seen of A until it has handed over.
func (s *story) watchSource(ctx context.Context) error {
	for before := server.Owner; before != server.Ceded; {
		status, err := s.a.ask(ctx, "/healthz", nil)
		if err != nil {
			return err
		}
		if s.unready.IsZero() && status != http.StatusOK {
			s.unready = time.Now()
			s.tell("A's readiness probe answers %d", status)
		}
		role, err := s.a.role(ctx)
		if err != nil {
			return err
		}
		if role != before {
			s.tell("A is in state %s", role)
			before = role
		}
		if err := pause(ctx, demoLook); err != nil {
			return err
		}
	}
	return nil
}

// copy runs the destination's side to its end.
func (s *story) copy(ctx context.Context) error {
	s.tell("$ etcd-ferry copy --owner-id B --source-store %s --store %s", s.a.container(), s.b.container())
	said, err := s.self.output(ctx, append([]string{
		"copy", "--owner-id", s.b.name, "--source-store", s.a.container(), "--store", s.b.container(), "-o", "json",
	}, demoPolling...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(said, &s.outcome); err != nil {
		return fmt.Errorf("what copy says: %w", err)
	}
	o := s.outcome
	s.tell("Everything up to revision %s is in B's container, checked, and B the owner: %d snapshot of %s, decided by the %s",
		count(o.ThroughRevision), o.Snapshots, bytesize(o.Bytes), o.DecidedBy)
	return nil
}

// firstRead waits for the first read that B serves.
func (s *story) firstRead(ctx context.Context) error {
	for !s.b.serves(ctx) {
		if err := pause(ctx, demoLook); err != nil {
			return err
		}
	}
	s.read = time.Now()
	s.tell("B serves reads")
	return nil
}

// byHand makes sure that A does not serve again.
func (s *story) byHand(ctx context.Context) error {
	served, err := s.a.pastTheGate(ctx, demoByHand)
	if err != nil {
		return err
	}
	if served {
		return errors.New("an etcd that was started on A past the gate serves")
	}
	s.tell("Somebody has started an etcd on A by hand, past the gate: in %s it has served nobody, its database is locked", seconds(demoByHand))
	return nil
}

// compare holds what B has against what was ever acknowledged, and tells the
// figures.
func (s *story) compare(ctx context.Context) error {
	final, err := s.final(ctx)
	if err != nil {
		return err
	}
	hash, err := s.b.hash(ctx, final.HashKV.Revision)
	if err != nil {
		return err
	}
	found, err := s.load.check(ctx, s.b.client)
	if err != nil {
		return err
	}
	atA, atB := s.load.acknowledgedBy(sourceEtcd), s.load.acknowledgedBy(destinationEtcd)
	s.tell(`The clients have stopped, everything is looked at one by one

  acknowledged  %s writes: %s by A, %s by B
  restored      %s keys, %s deleted ones, %d leases with %s keys attached
  lost          %d of %s acknowledged writes
  hash          %08x at the end of A, %08x in B: of the key space at revision %s
  downtime      %s from the last write of A to the first read of B, %s from A's first 503
`,
		count(atA.writes+atB.writes), count(atA.writes), count(atB.writes),
		count(found.keys), count(found.deleted), found.leases, count(found.attached),
		found.lost, count(atA.writes+atB.writes),
		final.HashKV.Hash, hash.Hash, count(hash.Revision),
		seconds(s.read.Sub(atA.last)), seconds(s.read.Sub(s.unready)))
	switch {
	case found.lost > 0:
		return fmt.Errorf("%d acknowledged writes were lost", found.lost)
	case hash != *final.HashKV:
		return fmt.Errorf("etcd was %+v on A, it is %+v in B", *final.HashKV, hash)
	case atB.first.Before(atA.last):
		return errors.New("both served: B acknowledged a write before the last one of A")
	case s.outcome.Lossy || s.outcome.DecidedBy != "source":
		return fmt.Errorf("the hand-over was not the source's: %+v", s.outcome)
	}
	return nil
}

// final returns A's final snapshot.
func (s *story) final(ctx context.Context) (snapshot.Manifest, error) {
	l, err := s.a.stored(ctx)
	if err != nil {
		return snapshot.Manifest{}, err
	}
	for _, m := range l.Manifests {
		if m.Final && m.OperationID == s.outcome.OperationID && m.HashKV != nil {
			return m, nil
		}
	}
	return snapshot.Manifest{}, errors.New("there is no final snapshot with a hash in the container of A")
}
