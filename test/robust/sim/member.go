package sim

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server"
)

var errNoAnswer = errors.New("connection refused")

// member is the etcd of a site as one sidecar sees it.
type member struct{ disk }

// Probe implements server.Member.
func (m member) Probe(fence.Process) error { return m.await() }

// Running implements server.Member.
func (m member) Running() (bool, error) {
	if err := m.await(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcd.running, nil
}

// Healthy implements server.Member.
func (m member) Healthy(context.Context) error {
	running, err := m.Running()
	if err == nil && !running {
		err = errNoAnswer
	}
	return err
}

// Fence implements server.Member: etcd gets SIGTERM, and ends in its own time,
// which is below the kill budget, whether or not the sidecar is still there.
func (m member) Fence(_ context.Context, gates []fence.Process) error {
	if err := m.await(); err != nil {
		return err
	}
	takes := m.dice.between(second/50, second)
	m.mu.Lock()
	e := m.etcd
	if e.lock == m.life {
		m.mu.Unlock()
		return nil
	}
	if m.deaf {
		takes = m.plan.timing.Grace + takes
	}
	m.fences()
	if e.running {
		m.count("etcd is fenced")
	}
	if m.set.Defect == LyingFence && e.running {
		e.lock = m.life
		m.mu.Unlock()
		return nil
	}
	session, busy := e.session, e.running || e.passed && len(gates) > 0
	e.ending = e.ending || busy
	m.mu.Unlock()
	if busy {
		ended := make(chan struct{})
		m.tasks.Go(func() { m.terminate(session, takes, "fenced"); close(ended) })
		select {
		case <-ended:
		case <-m.died:
		}
	}
	if err := m.await(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.running { // started meanwhile
		return errors.New("another etcd has the lock")
	}
	e.lock = m.life
	return nil
}

// terminate lets etcd end after some time, if it is the one of that session.
func (s *site) terminate(session int, after time.Duration, why string) {
	s.sleep(after)
	s.awaitMachine()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd.session == session && (s.etcd.running || s.etcd.passed) {
		s.lastWrites()
		s.etcd.kill(why)
	}
}

// Unfence implements server.Member.
func (m member) Unfence() error {
	if err := m.await(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.etcd.orphaned(m.life)
	return nil
}

// Offline implements server.Member.
func (m member) Offline(ctx context.Context) (*server.Content, error) {
	m.mu.Lock()
	takes := m.slow
	m.mu.Unlock()
	pause(ctx, takes+m.dice.between(second/20, 2*second))
	if err := errors.Join(m.await(), ctx.Err()); err != nil {
		return nil, err
	}
	if m.dice.chance(0.03) {
		return nil, errors.New("input/output error")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.etcd
	switch {
	case e.lock != m.life || e.running && m.set.Defect != LyingFence:
		m.violated("model", "%s reads a data dir that is not locked", m.what)
	case !e.exists:
		return nil, fs.ErrNotExist
	}
	log := slices.Clone(e.log)
	if m.set.Defect == StaleFinal && len(log) > 0 {
		log = log[:len(log)-1]
	}
	return content(e.manifest(snapshot.Full, e.rev), encode(e.rev, log)), nil
}

// Standing implements server.Cluster.
func (m member) Standing(ctx context.Context) (server.Standing, error) {
	if err := m.Healthy(ctx); err != nil {
		return server.Standing{}, err
	}
	return server.Standing{Members: 1, Leader: true, Member: "m" + m.name}, nil
}

var errAlone = errors.New("there is one member only")

// Freeze implements server.Cluster.
func (m member) Freeze(context.Context, int64) error { return errAlone }

// Frozen implements server.Cluster.
func (m member) Frozen(context.Context, int64) error { return errAlone }

// Thaw implements server.Cluster.
func (m member) Thaw(context.Context, int64) error { return m.await() }

// Revision implements server.Cluster.
func (m member) Revision(context.Context) (int64, error) { return 0, errAlone }

// Online implements server.Cluster.
func (m member) Online(context.Context) (*server.Content, error) { return nil, errAlone }
