package bootstrap

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/datadir"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// handed are the facts of owner b in epoch 4, who was handed a full of epoch 3 and
// was handed another one before. The data dir is of cluster 7, at revision 100.
func handed() facts {
	old := full("old", 3, "1", 50, 60)
	return facts{
		holder: syncobject.Holder{ID: "b", Epoch: 4, Lineage: "lb"}, member: "default", members: 1, configured: 1,
		disk: disk{condition: sound, state: datadir.State{
			Info: datadir.Info{Revision: 100, ClusterID: 7}, Members: 1, AtMost: 100, LastIndex: 120,
		}},
		stored: stored{
			listing: archive.Listing{Manifests: []snapshot.Manifest{old}},
			before:  []string{"earlier"},
			adoption: &archive.Adoption{
				OperationID: "now", Time: noon, Items: []archive.AdoptedItem{archive.Item(old)},
				Owner: archive.Holder{ID: "b", Epoch: 4, Lineage: "lb"},
			},
		},
	}
}

func full(lineage string, epoch int64, cluster string, revision int64, index uint64) snapshot.Manifest {
	m := snapshot.Manifest{
		Kind: snapshot.Full, First: revision, Last: revision, RaftIndex: index, Lineage: lineage, Epoch: epoch,
		ClusterID: cluster, Time: noon.Add(time.Duration(epoch) * time.Minute),
	}
	m.Name = snapshot.Snapshot{Kind: m.Kind, First: revision, Last: revision, Time: m.Time}.Name()
	return m
}

func TestDecide(t *testing.T) {
	store := func(ms ...snapshot.Manifest) func(*facts) {
		return func(f *facts) { f.stored.listing.Manifests = append(f.stored.listing.Manifests, ms...) }
	}
	origin := func(o restorer.Origin) func(*facts) {
		return func(f *facts) { o.ClusterID = "7"; f.disk.origin = o }
	}
	gone := func(f *facts) { f.disk = disk{} }
	for name, test := range map[string]struct {
		changes []func(*facts)
		want    decision // without why
	}{
		"restored from what was handed, whatever is remembered": {
			[]func(*facts){origin(restorer.Origin{OperationID: "now", Epoch: 3}), func(f *facts) { f.have = "another" }},
			decision{deed: Keep},
		},
		"restored from the newest since": {[]func(*facts){origin(restorer.Origin{Epoch: 4})}, decision{deed: Keep}},
		"restored from an earlier hand-over": {
			[]func(*facts){origin(restorer.Origin{OperationID: "earlier", Epoch: 1})},
			decision{deed: Restore, adopted: true},
		},
		"restored by hand from before":                {[]func(*facts){origin(restorer.Origin{Epoch: 3})}, decision{deed: Refuse}},
		"let in before, and nothing of it stored":     {[]func(*facts){func(f *facts) { f.have = "lb" }}, decision{deed: Keep}},
		"let in before, and another cluster's stored": {[]func(*facts){func(f *facts) { f.have = "lb" }, store(full("lb", 4, "8", 70, 80))}, decision{deed: Refuse}},
		"stored since":                           {[]func(*facts){store(full("lb", 4, "7", 90, 110))}, decision{deed: Keep}},
		"stored before and since":                {[]func(*facts){store(full("x", 2, "7", 80, 90), full("lb", 4, "7", 90, 110))}, decision{deed: Keep}},
		"an old copy":                            {[]func(*facts){store(full("lb", 4, "7", 90, 110), full("lb", 4, "7", 130, 150))}, decision{deed: Restore, lineage: "lb", bump: true}},
		"behind, from before the first snapshot": {[]func(*facts){store(full("lb", 4, "7", 130, 150))}, decision{deed: Refuse}},
		"behind in entries, not in revisions":    {[]func(*facts){store(full("lb", 4, "7", 60, 70), full("lb", 4, "7", 90, 150))}, decision{deed: Refuse}},
		"behind in revisions, not in entries":    {[]func(*facts){store(full("lb", 4, "7", 60, 70), full("lb", 4, "7", 130, 110))}, decision{deed: Refuse}},
		"a member may be behind": {
			[]func(*facts){func(f *facts) { f.members, f.configured = 3, 3 }, store(full("lb", 4, "7", 130, 150))},
			decision{deed: Keep},
		},
		"gone, after it has served a fork": {
			[]func(*facts){gone, store(full("lb", 4, "8", 90, 110), full("fork", 4, "9", 90, 10)), func(f *facts) { f.holder.Lineage = "unstored" }},
			decision{deed: Restore, lineage: "lb", bump: true},
		},
		"gone, and what was stored since is damaged": {
			[]func(*facts){gone, func(f *facts) {
				f.stored.listing.Problems = []archive.Problem{{Name: full("lb", 5, "8", 90, 1).Name, Err: errors.New("damaged")}}
			}},
			decision{deed: Refuse},
		},
		"gone, and something old is damaged": {
			[]func(*facts){gone, func(f *facts) {
				f.stored.listing.Problems = []archive.Problem{{Name: full("x", -5, "8", 40, 1).Name, Err: errors.New("damaged")}}
			}},
			decision{deed: Restore, adopted: true},
		},
		"gone, and let in before": {
			[]func(*facts){gone, func(f *facts) { f.stored.serving = []string{"default"} }},
			decision{deed: Restore, adopted: true, bump: true},
		},
		"a member's gone, the others have stored": {
			[]func(*facts){gone, store(full("lb", 4, "8", 90, 110)), func(f *facts) { f.members, f.configured, f.stored.serving = 3, 3, []string{"m2", "m3"} }},
			decision{deed: Restore, adopted: true},
		},
		"a cluster whose members are not named": {[]func(*facts){gone, func(f *facts) { f.members = 3 }}, decision{deed: Refuse}},
	} {
		t.Run(name, func(t *testing.T) {
			f := handed()
			for _, change := range test.changes {
				change(&f)
			}
			got, err := f.decide()
			why := got.why
			got.why = ""
			if got != test.want || errors.Is(err, ErrRefused) != (got.deed == Refuse) {
				t.Errorf("%+v because %s, %v; want %+v", got, why, err, test.want)
			}
			if got.deed != Refuse && (why == "" || err != nil) {
				t.Errorf("no reason, or %v", err)
			}
		})
	}
}

// TestDecideIsTotal calls it with everything that can come together: whatever it
// says is done, or refused with a reason, and never begun where there is data.
func TestDecideIsTotal(t *testing.T) {
	stores := [][]snapshot.Manifest{nil, {full("la", 3, "7", 50, 60)}, {full("lb", 4, "8", 90, 9)}}
	for _, c := range []condition{missing, sound, logless, broken} {
		for _, ms := range stores {
			for _, lineage := range []string{"", "la", "lb"} {
				for n := range 16 {
					f := handed()
					f.disk.condition, f.disk.why = c, fmt.Errorf("test")
					f.stored.listing.Manifests, f.have = ms, lineage
					if n&1 > 0 {
						f.stored.adoption = nil
					}
					if n&2 > 0 {
						f.members, f.configured = 3, 3
					}
					if n&4 > 0 {
						f.stored.serving = []string{"default"}
					}
					if n&8 > 0 {
						f.holder.Lineage = ""
					}
					d, err := f.decide()
					switch {
					case (err != nil) != (d.deed == Refuse), d.why == "", d.deed == Begin && c != missing, d.deed == Keep && c != sound:
						t.Fatalf("%+v, %v of %+v", d, err, f)
					case d.deed == Restore && !d.adopted && (d.lineage == "" || !d.bump), d.adopted && f.stored.adoption == nil:
						t.Fatalf("%+v of %+v", d, f)
					}
				}
			}
		}
	}
}
