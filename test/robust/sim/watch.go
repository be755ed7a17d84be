package sim

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

type outcome = copier.Outcome

// watched is what was last seen in a container, guarded by world.mu.
type watched struct {
	object  syncobject.Object
	pending time.Time // when a hand-over was last seen to be pending
}

// observe looks at every write of a sync object, at the moment of its effect. The
// caller serialises the writes of a container.
func (w *world) observe(c *container, name string, data []byte) {
	if name != syncobject.ObjectName {
		return
	}
	o, err := syncobject.Parse(data)
	w.mu.Lock()
	defer w.mu.Unlock()
	before := c.seen.object
	c.seen.object = o
	if before.Pending() || o.Pending() {
		c.seen.pending = time.Now()
	}
	switch {
	case w.over:
	case err != nil:
		w.violated("I4", "the object of %s cannot be read: %v", c.site.name, err)
	default:
		w.compare(c, before, o)
		w.follow(c, before, o)
		w.provoke(c, o)
	}
}

// compare checks one step of an object.
func (w *world) compare(c *container, before, o syncobject.Object) {
	same := before.Generation == o.Generation
	switch {
	case o.Serial != before.Serial+1:
		w.violated("I4", "the object of %s goes from serial %d to %d", c.site.name, before.Serial, o.Serial)
	case o.Generation < before.Generation, o.ObservedGeneration < before.ObservedGeneration, o.Owner.Epoch < before.Owner.Epoch:
		w.violated("I4", "the object of %s goes back: %+v, it was %+v", c.site.name, o, before)
	case same && before.Decision.By != "" && (!reflect.DeepEqual(before.Decision, o.Decision) || !reflect.DeepEqual(before.Snapshots, o.Snapshots)):
		w.violated("I4", "generation %d of %s is decided a second time: %+v, it was %+v", o.Generation, c.site.name, o.Decision, before.Decision)
	case same && before.Outcome != "" && before.Outcome != o.Outcome && o.Outcome != syncobject.Superseded:
		w.violated("I4", "generation %d of %s was %s and is %s", o.Generation, c.site.name, before.Outcome, o.Outcome)
	}
}

// follow learns from one step of an object who may serve.
func (w *world) follow(c *container, before, o syncobject.Object) {
	t := &w.truth
	name := c.site.name
	switch {
	case o.Pending() && o.Status == syncobject.Ready && (before.Status != syncobject.Ready || before.Generation != o.Generation):
		w.decided(c, o)
	case !before.Pending() && o.Pending():
		w.note("", "a hand-over of %s is wanted, by %q", name, o.Destination.ID)
	case before.Pending() && !o.Pending() && o.Outcome == syncobject.Aborted && o.Status == syncobject.Ready:
		w.note("", "the hand-over of %s is reclaimed", name)
		w.count("reclaimed")
		t.holder, t.decision = name, nil
	case before.Pending() && !o.Pending() && o.Outcome == syncobject.Aborted:
		w.note("", "the hand-over of %s is aborted", name)
		w.count("aborted")
	case before.Pending() && !o.Pending() && o.Outcome == syncobject.Completed:
		w.completed(c, o)
	case before.Destination.ID != o.Destination.ID && o.Destination.ID != "":
		w.note("", "the hand-over of %s is claimed by %s", name, o.Destination.ID)
	case before.Source.Phase != o.Source.Phase:
		w.note("", "the source %s says %s", name, o.Source.Phase)
	}
}

// decided learns what is handed over.
func (w *world) decided(c *container, o syncobject.Object) {
	t := &w.truth
	s := c.site
	if s.etcd.alien { // another etcd is handed over
		return
	}
	d := &decision{
		operation: o.OperationID, from: s, by: o.Decision.By, forced: o.Decision.Forced, lossy: o.Decision.Lossy,
		through: o.Snapshots.ThroughRevision, ids: map[int64]bool{},
	}
	log, err := w.named(c, o.Snapshots)
	if err != nil {
		w.violated("I5", "what the object of %s names cannot be read: %v", s.name, err)
		return
	}
	for _, x := range log {
		d.ids[x.id] = true
		if _, ok := t.acked[x.id]; !ok && !t.maybe[x.id] {
			w.violated("I6", "the set of %s has write %d of revision %d, which is not of this history", s.name, x.id, x.rev)
		}
	}
	for id, rev := range t.acked {
		if !d.ids[id] {
			d.missing = append(d.missing, entry{rev, id})
		}
	}
	w.note("", "%s is decided by the %s: lossy %v, through revision %d, %d writes, %d missing", s.name, d.by, d.lossy, d.through, len(log), len(d.missing))
	w.count("decided by the " + string(d.by) + map[bool]string{true: ", forced"}[d.forced])
	w.judge(s, d)
	t.holder, t.decision = "", d
}

// judge checks a decision.
func (w *world) judge(s *site, d *decision) {
	switch {
	case w.truth.holder != s.name:
		w.violated("I4", "%s is handed over, and %s may serve", s.name, w.truth.whoMay())
	case len(d.missing) > 0 && !d.lossy:
		w.violated("I2", "%s is handed over by the %s without %d acknowledged writes, the first of revision %d",
			s.name, d.by, len(d.missing), d.missing[0].rev)
	case s.serves() && !s.excusable():
		w.violated("I1", "%s is handed over by the %s while its etcd serves", s.name, d.by)
	case d.forced != d.lossy, d.lossy && d.by != syncobject.Destination:
		w.violated("I3", "%s is handed over by the %s, forced %v, lossy %v", s.name, d.by, d.forced, d.lossy)
	}
	for _, x := range d.missing {
		if x.rev <= d.through {
			w.violated("I3", "%s is handed over through revision %d, and write %d of revision %d is missing", s.name, d.through, x.id, x.rev)
			return
		}
	}
}

// named reads a set past all faults.
func (w *world) named(c *container, set syncobject.Set) ([]entry, error) {
	ctx := w.t.Context()
	items, err := set.Load(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	pins := make([]archive.AdoptedItem, len(items))
	for i, it := range items {
		pins[i] = archive.AdoptedItem{Name: it.Name, Kind: it.Kind, Size: it.Size, SHA256: it.SHA256, Revision: it.Revision}
	}
	a := archive.New(c.Store)
	chain, err := a.PinnedChain(ctx, pins)
	if err != nil {
		return nil, err
	}
	_, log, err := replay(ctx, a, chain)
	return log, err
}

// completed learns that the destination has taken over.
func (w *world) completed(c *container, o syncobject.Object) {
	t := &w.truth
	if c.site.etcd.alien {
		return
	}
	if t.decision == nil || t.decision.operation != o.OperationID {
		w.violated("I4", "operation %s of %s is completed, and was not decided", o.OperationID, c.site.name)
		return
	}
	d := t.decision
	for _, x := range d.missing {
		delete(t.acked, x.id)
	}
	t.holder, t.decision = o.Owner.ID, nil
	t.done[d.operation] = d
	t.held[o.Owner.ID] = true
	t.decisions++
	if d.lossy {
		t.lossy++
	}
	w.note("", "%s is handed over to %s, epoch %d", c.site.name, o.Owner.ID, o.Owner.Epoch)
}

// readBy notes a read of the sync object by a sidecar.
func (k *link) readBy(asked time.Time, name string, err error) {
	if name != syncobject.ObjectName || k.to != k.box || k.election == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if asked.After(k.lastGood) {
		k.lastGood, k.goodAt = asked, time.Now()
	}
}

// removes checks that nothing goes that could be restored. Who is right is told by
// what is left at the end.
func (w *world) removes(c *container, who, name string) {
	snap, isManifest := strings.CutSuffix(strings.TrimPrefix(name, "snapshots/"), snapshot.ManifestSuffix)
	if _, err := snapshot.Parse(snap); err != nil || !isManifest || !strings.HasPrefix(name, "snapshots/") {
		return
	}
	m, err := archive.New(c.Store).Manifest(w.t.Context(), snap)
	if err != nil {
		return // gone already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !m.Final || !c.seen.object.Decision.Forced {
		w.violated("lost", "%s removes %s of %s", who, snap, c.site.name)
	}
}

// doctored is what a process reads; with a defect it is something else.
func (k *link) doctored(name string, data []byte) []byte {
	if k.set.Defect != ShortWait || name != syncobject.OwnerName || k.election != nil {
		return data
	}
	o, err := syncobject.ParseOwner(data)
	if err != nil {
		return data
	}
	o.Lease, o.Kill, o.Watchdog = syncobject.Seconds(second/10), syncobject.Seconds(second/10), syncobject.Seconds(second/10)
	changed, err := o.Encode()
	if err != nil {
		return data
	}
	return changed
}

var _ store.Store = (*link)(nil)
