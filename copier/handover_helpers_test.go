package copier_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// side is a container and who holds it.
type side struct {
	t *testing.T
	store.Store
	me      syncobject.Holder
	object  *syncobject.File[syncobject.Object]
	tenancy *syncobject.File[syncobject.Owner]
}

func newSide(t *testing.T, s store.Store, id, lineage string) *side {
	return &side{
		t: t, Store: s, me: syncobject.Holder{ID: id, Epoch: 1, Lineage: lineage},
		object: syncobject.NewFile(s), tenancy: syncobject.NewOwnerFile(s),
	}
}

// held makes the side's owner publish its owner.json.
func (s *side) held(change ...func(*syncobject.Owner)) *side {
	s.t.Helper()
	timing := syncobject.DefaultTiming()
	_, _, err := s.tenancy.Update(s.t.Context(), func(o syncobject.Owner) (syncobject.Owner, error) {
		o, err := o.Hold(syncobject.Owner{
			ID: s.me.ID, Epoch: s.me.Epoch, Lineage: s.me.Lineage, ImplicitFencing: true,
			Lease: syncobject.Seconds(timing.Lease), Kill: syncobject.Seconds(timing.Kill), Watchdog: syncobject.Seconds(timing.Watchdog),
		})
		for _, c := range change {
			c(&o)
		}
		return o, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s
}

func released(o *syncobject.Owner) { o.State = syncobject.Released }

func unfencing(o *syncobject.Owner) { o.ImplicitFencing = false }

// step changes the side's object.
func (s *side) step(f func(o syncobject.Object) (syncobject.Object, error)) error {
	_, _, err := s.object.Update(s.t.Context(), f)
	return err
}

func (s *side) must(f func(o syncobject.Object) (syncobject.Object, error)) {
	s.t.Helper()
	if err := s.step(f); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) initiate() {
	s.t.Helper()
	s.must(func(o syncobject.Object) (syncobject.Object, error) {
		return o.Initiate(syncobject.Request{Owner: s.me, At: time.Now()})
	})
}

func (s *side) report(phase syncobject.SourcePhase, fenced ...string) {
	s.t.Helper()
	for _, member := range append([]string{""}, fenced...) {
		s.must(func(o syncobject.Object) (syncobject.Object, error) {
			return o.Report(o.Generation, s.me, syncobject.SourceReport{Phase: phase, Member: member, Members: 1, At: time.Now()})
		})
	}
}

// final stores the last snapshot.
func (s *side) final(revision int64) snapshot.Manifest {
	s.t.Helper()
	m := snapshot.Manifest{
		Kind: snapshot.Full, First: revision, Last: revision, Time: time.Now(), Lineage: s.me.Lineage, ClusterID: "c", Final: true, Epoch: s.me.Epoch,
	}
	m.Time = m.Time.Truncate(time.Second).UTC()
	m, err := archive.New(s.Store).Save(s.t.Context(), m, bytes.NewReader(noise(uint64(revision), 20_000)))
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// publish names ms.
func (s *side) publish(ms ...snapshot.Manifest) error {
	return s.step(func(o syncobject.Object) (syncobject.Object, error) {
		return o.Publish(o.Generation, s.me, setOf(ms...), time.Now())
	})
}

func setOf(ms ...snapshot.Manifest) syncobject.Set {
	set := syncobject.Set{ThroughRevision: ms[len(ms)-1].Last, Final: true}
	for _, m := range ms {
		set.Items = append(set.Items, syncobject.Item{
			Name: m.Name, Kind: m.Kind, Size: m.StoredSize, SHA256: m.StoredSHA256, Revision: m.Last,
		})
	}
	return set
}

// answer is a source that finds the claim and does what it should.
func (s *side) answer(revision int64) snapshot.Manifest {
	s.t.Helper()
	s.report(syncobject.Fenced, "m")
	m := s.final(revision)
	if err := s.publish(m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *side) read() syncobject.Object {
	s.t.Helper()
	o, err := s.object.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

func (s *side) adoptions() archive.Adoptions {
	s.t.Helper()
	all, err := archive.New(s.Store).Adoptions(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func handOver(id string, from, to store.Store) *copier.HandOver {
	h := copier.NewHandOver(id,
		copier.Container{Archive: archive.New(from), Objects: from}, copier.Container{Archive: archive.New(to), Objects: to})
	h.Log = slog.New(slog.DiscardHandler)
	h.Copier.Log = h.Log
	return h
}

// running is a hand-over that goes on.
type running struct {
	done    chan struct{}
	outcome copier.Outcome
	err     error
}

func start(ctx context.Context, h *copier.HandOver) *running {
	r := &running{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.outcome, r.err = h.Run(ctx)
	}()
	return r
}

func (r *running) wait(t *testing.T) copier.Outcome {
	t.Helper()
	<-r.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.outcome
}

// handedOver fails unless to is b's, and serves exactly the named set of from.
func handedOver(t *testing.T, from, to *side, out copier.Outcome) archive.Adoption {
	t.Helper()
	ctx := t.Context()
	o := from.read()
	if o.Status != syncobject.Done || o.Outcome != syncobject.Completed || o.Owner.ID != out.Owner || o.Owner.Epoch != out.Epoch || o.Owner.Lineage != out.Lineage {
		t.Errorf("object of the source: %+v, outcome %+v", o, out)
	}
	ad, err := to.adoptions().Current()
	if err != nil {
		t.Fatal(err)
	}
	items, err := o.Snapshots.Load(ctx, from.Store)
	if err != nil {
		t.Fatal(err)
	}
	same := len(items) == len(ad.Items)
	for i := 0; same && i < len(items); i++ {
		same = items[i].Name == ad.Items[i].Name && items[i].SHA256 == ad.Items[i].SHA256
	}
	if !same || ad.OperationID != o.OperationID || ad.Owner.Lineage != out.Lineage || ad.ThroughRevision != o.Snapshots.ThroughRevision {
		t.Errorf("named are %+v, adopted is %+v", items, ad)
	}
	a := archive.New(to.Store)
	chain, err := a.AdoptedChain(ctx, ad)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range chain.All() {
		r, err := a.OpenStored(ctx, m)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			t.Errorf("adopted %s: %v", m.Name, err)
		}
	}
	tenancy, err := to.tenancy.Read(ctx)
	state := syncobject.Released
	if to.me.Lineage != "" && to.me.ID == out.Owner { // has been at work here
		state = syncobject.Held
	}
	if err != nil || tenancy.ID != out.Owner || tenancy.State != state || tenancy.Lineage != out.Lineage || tenancy.Epoch != out.Epoch {
		t.Errorf("owner.json of the destination: %+v, %v", tenancy, err)
	}
	return ad
}

// faulty is a store whose nth write, of those that match, goes wrong.
type faulty struct {
	store.Store
	mu     sync.Mutex
	writes int
	at     int
	lost   bool                    // it is done and its answer lost; else it is not done
	crash  context.CancelCauseFunc // nothing works after it; nil: all else works
	dead   atomic.Bool
	names  []string // written
}

var errFault = errors.New("connection lost")

// fault reports whether a write is to be done, and how it ends.
func (f *faulty) fault(name string) (do bool, err error) {
	if f.dead.Load() {
		return false, errFault
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, name)
	f.writes++
	if f.writes != f.at {
		return true, nil
	}
	if f.crash != nil {
		defer f.crash(errFault)
	}
	return f.lost, errFault
}

func (f *faulty) Create(ctx context.Context, name string, r io.Reader) (info store.Info, err error) {
	do, fault := f.fault(name)
	if do {
		info, err = f.Store.Create(context.WithoutCancel(ctx), name, r)
	}
	return info, errors.Join(fault, err)
}

func (f *faulty) Swap(ctx context.Context, name string, old store.Version, data []byte) (v store.Version, err error) {
	do, fault := f.fault(name)
	if do {
		v, err = f.Store.Swap(context.WithoutCancel(ctx), name, old, data)
	}
	if fault != nil {
		return "", fault
	}
	return v, err
}

func (f *faulty) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	if f.dead.Load() {
		return nil, "", errFault
	}
	return f.Store.Read(ctx, name)
}

// onSwap is a store that does something before or after a swap of the sync object.
type onSwap struct {
	store.Store
	before func(o syncobject.Object)
}

func (s *onSwap) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	if o, err := syncobject.Parse(data); name == syncobject.ObjectName && err == nil && s.before != nil {
		s.before(o)
	}
	return s.Store.Swap(ctx, name, old, data)
}

func flip(t *testing.T, s store.Store, name string) {
	t.Helper()
	data := bytes.Clone(objects(t, s)[name])
	data[len(data)/2] ^= 1
	put(t, s, name, data)
}

func names(ms []snapshot.Manifest) string {
	var all []string
	for _, m := range ms {
		all = append(all, short(m))
	}
	return strings.Join(all, ", ")
}

func pair(t *testing.T) (a, b *side) {
	return newSide(t, mem.New(), "a", "a"), newSide(t, mem.New(), "b", "")
}
