package sim

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server"
)

// entry is one write: what it wrote is its id.
type entry struct{ rev, id int64 }

// etcd is the data dir of a site, and the one process that may run on it. All of
// it is guarded by world.mu.
type etcd struct {
	site *site

	exists  bool
	cluster uint64
	log     []entry
	rev     int64
	raft    uint64
	origin  restorer.Origin
	aside   [][]entry // the logs of data dirs that were moved aside
	alien   bool      // it is another etcd, begun with nothing, not the one that is handed around

	lock    *life // whose sidecar holds it
	passed  bool  // the gate has let it pass, and it may start
	running bool  // it answers clients
	ending  bool  // it was told to end
	session int   // counts the gates that have passed
	ended   chan struct{}
}

func newEtcd(s *site) *etcd { return &etcd{site: s, ended: make(chan struct{})} }

// start lets etcd serve. The caller holds mu.
func (e *etcd) start() {
	s := e.site
	if !e.exists {
		e.exists, e.cluster, e.rev = true, s.dice64(), 1
		e.alien = len(s.truth.acked) > 0 || s.truth.holder != s.name
	}
	e.raft += 4 // an election, and the membership
	if !e.passed {
		e.session++
	}
	e.running, e.passed, e.ending = true, false, false
	if e.alien {
		s.count("another etcd is begun at a destination")
		s.note(s.name, "an etcd of its own serves, revision %d", e.rev)
	} else {
		s.note(s.name, "etcd serves, revision %d", e.rev)
	}
	s.served()
}

// kill ends etcd, and the gate's process if it has not begun yet. The caller holds
// mu.
func (e *etcd) kill(why string) {
	if e.running {
		e.site.note(e.site.name, "etcd has ended at revision %d: %s", e.rev, why)
	}
	if e.running || e.passed {
		close(e.ended)
		e.ended = make(chan struct{})
	}
	e.running, e.passed = false, false
}

// orphaned releases the lock of a process that has ended. The caller holds mu.
func (e *etcd) orphaned(l *life) {
	if e.lock == l {
		e.lock = nil
		e.site.broadcast()
	}
}

// append applies a write. The caller holds mu.
func (e *etcd) append(id int64) entry {
	e.rev++
	e.raft++
	e.log = append(e.log, entry{e.rev, id})
	return e.log[len(e.log)-1]
}

// from returns the writes of revisions from first on. The caller holds mu.
func (e *etcd) from(first int64) []entry {
	at, _ := slices.BinarySearchFunc(e.log, first, func(x entry, rev int64) int { return int(x.rev - rev) })
	return e.log[at:len(e.log):len(e.log)]
}

// manifest says what is known of a snapshot from first on. The caller holds mu.
func (e *etcd) manifest(kind snapshot.Kind, first int64) snapshot.Manifest {
	return snapshot.Manifest{
		Kind: kind, First: first, Last: e.rev, EtcdVersion: "3.7.3", ClusterID: hex64(e.cluster), MemberID: "m" + e.site.name,
		RaftIndex: e.raft,
	}
}

func hex64(n uint64) string { return strconv.FormatUint(n, 16) }

// encode writes a history as a snapshot has it.
func encode(rev int64, log []entry) []byte {
	b := fmt.Appendf(nil, "%d\n", rev)
	for _, x := range log {
		b = strconv.AppendInt(b, x.rev, 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, x.id, 10)
		b = append(b, '\n')
	}
	return b
}

func decode(r io.Reader) (rev int64, log []entry, err error) {
	lines := bufio.NewScanner(r)
	if lines.Scan() {
		rev, err = strconv.ParseInt(lines.Text(), 10, 64)
	}
	for err == nil && lines.Scan() {
		var x entry
		a, b, _ := bytes.Cut(lines.Bytes(), []byte{' '})
		x.rev, err = strconv.ParseInt(string(a), 10, 64)
		if err == nil {
			x.id, err = strconv.ParseInt(string(b), 10, 64)
		}
		log = append(log, x)
	}
	return rev, log, errors.Join(err, lines.Err())
}

// content is what a fenced member holds.
func content(m snapshot.Manifest, data []byte) *server.Content {
	sum := sha256.Sum256(data)
	return &server.Content{
		ReadCloser: io.NopCloser(bytes.NewReader(data)),
		SHA256:     func() string { return hex.EncodeToString(sum[:]) },
		HashKV: func(context.Context) (snapshot.HashKV, error) {
			return snapshot.HashKV{Revision: m.Last, CompactRevision: -1, Hash: 7}, nil
		},
		Manifest: m,
	}
}

// clients write to the etcd of a site for as long as the world lasts.
func (s *site) clients() {
	d := s.world.dice("clients of " + s.name)
	for s.going() {
		s.sleep(d.between(second/10, 6*second))
		s.write(d)
	}
}

// write is one write: it is applied, and acknowledged a little later if etcd is
// still there to do it.
func (s *site) write(d *dice) {
	takes := d.between(second/1000, second/100)
	s.mu.Lock()
	serves, session := s.serves(), s.etcd.session
	var x entry
	if serves {
		s.writes++
		x = s.etcd.append(s.writes)
		s.applied(x)
	}
	s.mu.Unlock()
	if !serves {
		return
	}
	s.sleep(takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serves() && s.etcd.session == session {
		s.acknowledge(x)
	}
}

// lastWrites are acknowledged just before etcd ends. The caller holds mu.
func (s *site) lastWrites() {
	if s.serves() {
		s.writes++
		x := s.etcd.append(s.writes)
		s.applied(x)
		s.acknowledge(x)
	}
}

// serves reports whether etcd can answer a client at this moment. The caller holds
// mu.
func (s *site) serves() bool { return s.etcd.running && s.still.IsZero() }

func (s *site) dice64() uint64 { return uint64(s.dice.share()*(1<<52)) + 1 }

// disk is the data dir for Bootstrap.
type disk struct{ *life }

// Empty implements bootstrap.Disk and server.Member.
func (d disk) Empty() (bool, error) {
	if err := d.await(); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.etcd.exists, nil
}

// Look implements bootstrap.Disk.
func (d disk) Look() (datadir.State, error) {
	if err := d.await(); err != nil {
		return datadir.State{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.etcd
	return datadir.State{
		Info:    datadir.Info{Revision: e.rev, CompactRevision: -1, ClusterID: e.cluster, MemberID: 1, RaftIndex: e.raft},
		Members: 1, LastIndex: e.raft, AtMost: e.rev,
	}, nil
}

// Origin implements bootstrap.Disk.
func (d disk) Origin() (restorer.Origin, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.etcd.origin.ClusterID == "" {
		return restorer.Origin{}, errors.New("not restored")
	}
	return d.etcd.origin, nil
}

// Restore implements bootstrap.Disk.
func (d disk) Restore(ctx context.Context, p restorer.Plan) (r restorer.Result, err error) {
	rev, log, err := replay(ctx, d.archive(d.box), p.Chain)
	if err != nil {
		return r, err
	}
	pause(ctx, d.dice.between(second/10, 5*second))
	if err := errors.Join(d.await(), ctx.Err()); err != nil {
		return r, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.etcd
	if e.running || e.lock != d.life {
		d.violated("model", "%s restores a data dir that is not locked", d.what)
	}
	if e.exists {
		e.aside = append(e.aside, e.log)
	}
	last := p.Chain.All()[len(p.Chain.All())-1]
	e.exists, e.cluster, e.raft = true, d.dice64(), 5
	e.log, e.rev, e.alien = log, rev+p.Options.BumpRevision, false
	e.origin = restorer.Origin{
		ClusterID: hex64(e.cluster), Lineage: last.Lineage, Epoch: last.Epoch, Snapshot: last.Name, Revision: rev,
		Bumped: p.Options.BumpRevision, OperationID: p.Options.OperationID, Time: time.Now(),
	}
	d.restored(log, p.Options.OperationID)
	return restorer.Result{Revision: rev, Current: e.rev, ClusterID: e.origin.ClusterID}, nil
}
