package bootstrap

import (
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Deed is what becomes of a data dir.
type Deed string

// The deeds.
const (
	Begin   Deed = "begin"   // nothing is there, etcd begins a history
	Keep    Deed = "keep"    // etcd goes on with what is there
	Restore Deed = "restore" // what is stored is put there
	Refuse  Deed = "refuse"  // etcd is not let in
)

// decision says what is to be done.
type decision struct {
	deed Deed
	why  string
	// Of a restore: the set that was handed over, or else the newest of a lineage;
	// and whether clients may have seen later revisions than it ends with.
	adopted bool
	lineage string
	bump    bool
}

// decide is pure. Its errors wrap ErrRefused.
func (f facts) decide() (decision, error) {
	switch {
	case f.stored.adopting != nil:
		return f.refuse(f.stored.adopting.Error(), "")
	case f.stored.adoption != nil && f.stored.adoption.Owner.ID != f.holder.ID:
		return f.refuse(fmt.Sprintf("the container was handed to %q", f.stored.adoption.Owner.ID),
			"start this deployment with its own --store, or with that --owner-id if it is that one")
	}
	switch f.disk.condition {
	case sound:
		return f.decideSound()
	case logless:
		return f.decideLogless()
	case broken:
		return f.replace("the database cannot be read: " + f.disk.why.Error())
	default:
		return f.fill()
	}
}

func (f facts) decideSound() (decision, error) {
	if f.accepted() {
		return decision{deed: Keep, why: "it was accepted by hand"}, nil
	}
	if why, is := f.stale(); is {
		return f.replace(why)
	}
	why, known := f.known()
	if !known {
		return f.refuse(fmt.Sprintf("the data dir is of cluster %s, which is not known here", f.disk.cluster()), f.mayReplace())
	}
	behind, proof := f.behind()
	switch {
	case behind == "":
		return decision{deed: Keep, why: why}, nil
	case proof != nil:
		return f.refuse(behind+", and that it is an earlier state of the same cannot be proven: "+proof.Error(), f.mayReplace())
	}
	return f.replace(behind + ": it is an old copy")
}

// stale reports whether the disk is certainly of a history that ended before the
// present one was handed over to here.
func (f facts) stale() (string, bool) {
	s := f.stored
	if s.adoption == nil {
		return "", false
	}
	old := func(ms []snapshot.Manifest) bool {
		return len(ms) > 0 && !slices.ContainsFunc(ms, func(m snapshot.Manifest) bool { return m.Epoch >= s.epoch() })
	}
	origin := f.disk.origin
	switch {
	case origin.ClusterID != "" && origin.OperationID == s.adoption.OperationID: // whatever its snapshots say
	case old(f.own()):
		return fmt.Sprintf("the data is of cluster %s, whose snapshots are from before the hand-over to here", f.disk.cluster()), true
	case origin.ClusterID != "":
		return "the data was restored from an earlier hand-over to here", slices.Contains(s.before, origin.OperationID)
	case len(f.own()) == 0 && f.have != f.holder.Lineage && old(s.ofLineage(f.have)):
		return fmt.Sprintf("the data is of lineage %s, which ended with the hand-over to here", f.have), true
	}
	return "", false
}

// known says how it is known that the disk is of the present history. The disk is
// not stale.
func (f facts) known() (why string, is bool) {
	s, origin := f.stored, f.disk.origin
	switch {
	case len(f.own()) > 0:
		return "its snapshots are in the container", true
	case origin.ClusterID == "":
	case s.adoption != nil && origin.OperationID == s.adoption.OperationID, s.adoption != nil && origin.Epoch >= s.epoch():
		return "it was restored from what was handed over to here", true
	case s.adoption == nil && len(s.ofLineage(origin.Lineage)) > 0:
		return "it was restored from the container", true
	}
	switch {
	case s.adoption == nil && s.nothing():
		return "nothing is stored yet", true
	case f.have != "" && f.have == f.holder.Lineage && len(s.ofLineage(f.have)) == 0:
		return "it was let in before, and nothing of it is stored yet", true
	}
	return "", false
}

// behind says in what the disk is behind its own history as it is stored; empty: in
// nothing. A member of a cluster may be: the others have what it lacks. It is proven
// to be an earlier state of that history, proof is nil, if it lies on the line that
// the snapshots draw between revisions and raft indexes. A database that was
// restored by hand under its old cluster id does not: its raft index begins anew.
func (f facts) behind() (how string, proof error) {
	if f.members > 1 {
		return "", nil
	}
	d, started := f.disk.state, false
	for _, m := range f.line() {
		switch {
		case m.RaftIndex > d.LastIndex:
			how = fmt.Sprintf("the data dir ends with entry %d, and %s was taken at entry %d", d.LastIndex, m.Name, m.RaftIndex)
		case proven(m) > d.AtMost:
			how = fmt.Sprintf("the data dir ends with revision %d, and %s has revision %d", d.AtMost, m.Name, proven(m))
		default:
			started = true
			continue
		}
		if contradicts(m, d) {
			proof = fmt.Errorf("%s contradicts it, it is at entry %d and revision %d", m.Name, d.LastIndex, d.Revision)
		}
	}
	if how != "" && !started && proof == nil {
		proof = errors.New("no snapshot is stored that is as old")
	}
	return how, proof
}

// contradicts reports whether m and d, which m is ahead of, cannot be of one
// history. Of a full that etcd has streamed First was read before its raft index, and
// Last after.
func contradicts(m snapshot.Manifest, d datadir.State) bool {
	if m.Kind != snapshot.Full || m.RaftIndex == 0 || m.Merged > 0 {
		return false
	}
	if m.RaftIndex > d.LastIndex {
		return d.Revision > m.Last
	}
	return m.First > d.AtMost
}

// proven returns the revision that a snapshot proves its history to have reached.
func proven(m snapshot.Manifest) int64 {
	if m.Kind == snapshot.Full {
		return m.First
	}
	return m.Last
}

// decideLogless replaces a data dir that etcd does not start from, if its database
// holds nothing that is not stored.
func (f facts) decideLogless() (decision, error) {
	why := "etcd does not start from the data dir: " + f.disk.why.Error()
	if old, is := f.stale(); is {
		return f.replace(old)
	}
	d, err := f.replace(why)
	if err != nil {
		return d, err
	}
	ms := f.stored.ofLineage(d.lineage)
	if d.adopted {
		ms = nil
	}
	if !slices.ContainsFunc(ms, func(m snapshot.Manifest) bool { return proven(m) >= f.disk.state.Revision }) {
		return f.refuse(fmt.Sprintf("%s; its database has revision %d, and it cannot be proven that all of that is stored", why, f.disk.state.Revision),
			f.mayReplace())
	}
	return d, nil
}

// replace is fill for a data dir that has something in it.
func (f facts) replace(why string) (decision, error) {
	if f.stored.adoption == nil && f.stored.nothing() {
		return f.refuse(why+"; and nothing is stored", "repair it, or move it away to begin anew")
	}
	d, err := f.fill()
	switch {
	case err != nil:
		return d, fmt.Errorf("%s; %w", why, err)
	case d.deed == Begin: // a member that others wait for
		return f.refuse(why, rejoin)
	}
	d.why = why + "; " + d.why
	return d, nil
}

// fill decides what comes into an empty data dir.
func (f facts) fill() (decision, error) {
	s := f.stored
	switch damaged := s.damaged(); {
	case len(damaged) > 0 && len(s.present()) == 0:
		return f.refuse(fmt.Sprintf("what is stored is damaged: %v", damaged[0].Err), restoreByHand)
	case s.adoption == nil && s.nothing():
		return f.begin()
	case f.members > 1:
		return f.fillMember()
	case s.adoption != nil && len(s.present()) == 0:
		again := len(s.serving) > 0
		d := decision{deed: Restore, adopted: true, bump: s.adoption.Lossy || again, why: "the container was handed over to here"}
		if again {
			d.why = "what was handed over to here was served, and nothing is stored since: writes since then are lost"
		}
		return d, nil
	case s.adoption == nil && f.lineage() == "":
		return f.refuse("the container holds snapshots, and nothing says that they are of this deployment", restoreByHand)
	}
	return f.newest()
}

// newest restores what this deployment has stored itself.
func (f facts) newest() (decision, error) {
	d := decision{
		deed: Restore, bump: true, lineage: f.lineage(),
		why: "the data of this deployment is lost: what it acknowledged after the newest snapshot is missing",
	}
	present := f.stored.present()
	if !slices.ContainsFunc(present, func(m snapshot.Manifest) bool { return m.Lineage == d.lineage }) {
		chains, _ := snapshot.Chains(present)
		if len(chains) == 0 {
			return f.refuse("no full snapshot of the present history is stored", restoreByHand)
		}
		d.lineage = chains[len(chains)-1].Full.Lineage
	}
	return d, nil
}

// begin lets etcd begin a history, unless there was one.
func (f facts) begin() (decision, error) {
	if f.lineage() == "" || f.accepted() {
		return decision{deed: Begin, why: "nothing is stored"}, nil
	}
	return f.refuse(fmt.Sprintf("the data dir is empty and nothing is stored, but there was a history, of lineage %s: is the right volume mounted?", f.lineage()),
		"to begin anew, losing everything, start once with --accept-data-dir "+f.token())
}

// fillMember decides what comes into the empty data dir of one of several members.
func (f facts) fillMember() (decision, error) {
	s := f.stored
	switch {
	case slices.Contains(s.serving, f.member), s.adoption != nil && f.have != "" && f.have == f.holder.Lineage:
		return f.refuse(fmt.Sprintf("member %q has served before, and its data is lost: a member of a cluster that lives must not come back from a snapshot", f.member), rejoin)
	case f.configured < f.members:
		return f.refuse(fmt.Sprintf("the cluster has %d members, and --initial-cluster does not name them", f.members),
			"give --name, --initial-cluster and --initial-advertise-peer-urls as to etcd")
	case s.adoption != nil:
		return decision{deed: Restore, adopted: true, bump: s.adoption.Lossy, why: "the container was handed over to here"}, nil
	case len(s.serving) > 0:
		return decision{deed: Begin, why: "the other members have begun already"}, nil
	}
	return f.refuse(fmt.Sprintf("member %q has no data, and the container holds snapshots", f.member), rejoin)
}

// ErrRefused is wrapped if etcd is not let in, and waiting does not help.
var ErrRefused = errors.New("etcd is not let in")

const rejoin = "remove the member from its cluster and add it again (etcdctl member remove, member add), with an empty data dir and " +
	"--initial-cluster-state existing; if all members are lost, restore each with the same flags: " +
	"etcd-ferry restore --initial-cluster … --initial-cluster-token …"

const restoreByHand = "see what is stored with etcd-ferry list, and choose: etcd-ferry restore --store … --data-dir …"

func (f facts) refuse(why, advice string) (decision, error) {
	d := decision{deed: Refuse, why: why}
	if advice == "" {
		return d, fmt.Errorf("%w: %s", ErrRefused, why)
	}
	return d, fmt.Errorf("%w: %s: %s", ErrRefused, why, advice)
}

// mayReplace says how to go on with, or without, a data dir that is in doubt.
func (f facts) mayReplace() string {
	return fmt.Sprintf("if it is what shall be served, start once with --accept-data-dir %s; "+
		"otherwise move it away (mv %s %s.aside), and what is stored is restored", f.token(), f.disk.path, f.disk.path)
}
