package restorer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store"
)

func named(kind snapshot.Kind, first, last int64, minute int) snapshot.Manifest {
	s := snapshot.Snapshot{Kind: kind, First: first, Last: last, Time: noon.Add(time.Duration(minute) * time.Minute)}
	return snapshot.Manifest{
		Name: s.Name(), Kind: kind, First: first, Last: last, Time: s.Time, Events: last - first + 1,
		StoredSize: 100, PlainSize: 1000, EtcdVersion: "3.6.16", StorageVersion: "3.6.0", Lineage: "one", ClusterID: "c1",
	}
}

// listing is of a full at 10 and deltas to 20 and 30.
func listing() archive.Listing {
	full := named(snapshot.Full, 10, 10, 0)
	full.Events = 0
	return archive.Listing{Manifests: []snapshot.Manifest{
		full, named(snapshot.Delta, 11, 20, 1), named(snapshot.Delta, 21, 30, 2),
	}}
}

func stray(m snapshot.Manifest) store.Info { return store.Info{Name: m.Name, Size: 1} }

func announced(ms ...snapshot.Manifest) []archive.Announcement {
	a := archive.Announcement{From: "elsewhere"}
	for _, m := range ms {
		a.Names = append(a.Names, m.Name)
	}
	return []archive.Announcement{a}
}

func problem(m snapshot.Manifest) archive.Problem {
	return archive.Problem{Name: m.Name, Err: fmt.Errorf("%s: %w: object is missing", m.Name, archive.ErrCorrupt)}
}

func TestPlanRefusesToStopShort(t *testing.T) {
	next, farther := named(snapshot.Delta, 31, 40, 3), named(snapshot.Delta, 41, 50, 4)
	later := named(snapshot.Full, 35, 35, 3)
	for _, test := range []struct {
		name   string
		spoil  func(*archive.Listing)
		target snapshot.Target
		class  error // nil: planned, with as many warnings as are said
		says   string
		warns  int
	}{
		{
			"a stray that goes on", func(l *archive.Listing) { l.Strays = []store.Info{stray(next)} },
			snapshot.Target{},
			archive.ErrCorrupt, "its upload did not finish or its manifest was deleted; --revision 30 restores without it", 0,
		},
		{
			"a stray that overlaps and goes on", func(l *archive.Listing) { l.Strays = []store.Info{stray(named(snapshot.Delta, 15, 31, 3))} },
			snapshot.Target{},
			archive.ErrCorrupt, "--revision 30", 0,
		},
		{
			"a problem that goes on", func(l *archive.Listing) { l.Problems = []archive.Problem{problem(next)} },
			snapshot.Target{},
			archive.ErrCorrupt, next.Name + ": corrupt: object is missing; --revision 30", 0,
		},
		{
			"two that go on", func(l *archive.Listing) { l.Strays = []store.Info{stray(farther), stray(next)} },
			snapshot.Target{},
			archive.ErrCorrupt, next.Name, 0,
		},
		{
			"a later full", func(l *archive.Listing) { l.Strays = []store.Info{stray(later)} },
			snapshot.Target{},
			archive.ErrCorrupt, later.Name, 0,
		},
		{
			"a broken later full", func(l *archive.Listing) { l.Problems = []archive.Problem{problem(later)} },
			snapshot.Target{},
			archive.ErrCorrupt, later.Name, 0,
		},
		{"asked to stop there", func(l *archive.Listing) {
			l.Strays, l.Problems = []store.Info{stray(next)}, []archive.Problem{problem(later)}
		}, snapshot.Target{Revision: 30}, nil, "", 2},
		{
			"a stray from after the target time", func(l *archive.Listing) { l.Strays = []store.Info{stray(next)} },
			snapshot.Target{Time: noon.Add(2 * time.Minute)},
			nil, "", 1,
		},
		{
			"a stray from before the target time", func(l *archive.Listing) { l.Strays = []store.Info{stray(next)} },
			snapshot.Target{Time: noon.Add(3 * time.Minute)},
			archive.ErrCorrupt, next.Name, 0,
		},
		{"what adds nothing", func(l *archive.Listing) {
			l.Strays = []store.Info{stray(named(snapshot.Delta, 5, 30, 3)), stray(named(snapshot.Full, 30, 30, 3))}
			l.Problems = []archive.Problem{problem(named(snapshot.Delta, 11, 19, 3))}
		}, snapshot.Target{}, nil, "", 3},
		{"the base itself", func(l *archive.Listing) {
			l.Problems = []archive.Problem{problem(l.Manifests[0])}
			l.Manifests = l.Manifests[1:]
		}, snapshot.Target{}, archive.ErrCorrupt, "full-0000000000000010", 0},
		{"a delta in between", func(l *archive.Listing) {
			l.Problems = []archive.Problem{problem(l.Manifests[1])}
			l.Manifests = append(l.Manifests[:1:1], l.Manifests[2])
		}, snapshot.Target{}, archive.ErrCorrupt, "delta-0000000000000011", 0},
		{"a delta that the target needs", func(l *archive.Listing) {
			l.Problems = []archive.Problem{problem(l.Manifests[2])}
			l.Manifests = l.Manifests[:2]
		}, snapshot.Target{Revision: 25}, archive.ErrCorrupt, "delta-0000000000000021", 0},
		{"only strays", func(l *archive.Listing) {
			l.Strays, l.Manifests = []store.Info{stray(l.Manifests[0])}, nil
		}, snapshot.Target{}, archive.ErrCorrupt, "full-0000000000000010", 0},
		{"a copy that has not finished", func(l *archive.Listing) {
			l.Strays, l.Announcements = []store.Info{stray(next), stray(farther)}, announced(next, farther, later)
		}, snapshot.Target{}, nil, "", 1},
		{"a copy that has not finished, and a stray besides", func(l *archive.Listing) {
			l.Strays, l.Announcements = []store.Info{stray(next), stray(farther)}, announced(farther, later)
		}, snapshot.Target{}, archive.ErrCorrupt, next.Name, 0},
		{"a finished copy that is still announced", func(l *archive.Listing) {
			l.Announcements = announced(l.Manifests...)
		}, snapshot.Target{}, nil, "", 0},
		{"what a copy has not brought yet", func(l *archive.Listing) {
			l.Announcements = announced(next)
		}, snapshot.Target{Revision: 35}, archive.ErrCorrupt, "copy again", 0},
		{"a copy that has brought nothing yet", func(l *archive.Listing) {
			l.Manifests, l.Announcements = nil, announced(l.Manifests...)
		}, snapshot.Target{}, archive.ErrCorrupt, "3 of 3 snapshots are still to come", 0},
		{"nothing", func(l *archive.Listing) { *l = archive.Listing{} }, snapshot.Target{}, snapshot.ErrNothing, "", 0},
		{"another history", func(l *archive.Listing) {
			other := named(snapshot.Full, 500, 500, -60)
			other.Lineage = "two"
			l.Manifests = append(l.Manifests, other)
		}, snapshot.Target{}, nil, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := listing()
			test.spoil(&l)
			p, err := restorer.NewPlan(l, restorer.Options{Target: test.target})
			if !errors.Is(err, test.class) {
				t.Fatalf("got %v, want %v", err, test.class)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if len(p.Warnings) != test.warns {
				t.Errorf("warnings %q, want %d", p.Warnings, test.warns)
			}
		})
	}
}

// TestNothingIsNotCorrupt: the two have different exit codes.
func TestNothingIsNotCorrupt(t *testing.T) {
	_, err := restorer.NewPlan(archive.Listing{}, restorer.Options{})
	if errors.Is(err, archive.ErrCorrupt) {
		t.Errorf("an empty archive: %v", err)
	}
	l := archive.Listing{Strays: []store.Info{stray(named(snapshot.Full, 1, 1, 0))}}
	if _, err := restorer.NewPlan(l, restorer.Options{}); errors.Is(err, snapshot.ErrNothing) {
		t.Errorf("an archive with a stray: %v", err)
	}
}

func TestPlanTells(t *testing.T) {
	p, err := restorer.NewPlan(listing(), restorer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Revision != 30 || !p.Exact || p.Events != 20 || p.Stored != 300 || p.Plain != 3000 || len(p.Windows) != 1 {
		t.Errorf("plan %+v", p)
	}
	if o := p.Options; o.Name != "default" || o.InitialCluster != "default=http://localhost:2380" ||
		len(o.PeerURLs) != 1 || o.PeerURLs[0] != "http://localhost:2380" || o.InitialClusterToken != "" {
		t.Errorf("options %+v", o)
	}
	for _, want := range []string{"revision", "30", "full-0000000000000010", "2, the last delta-0000000000000021", "300 bytes"} {
		if !strings.Contains(p.String(), want) {
			t.Errorf("%q is not in\n%s", want, p)
		}
	}
	var back restorer.Plan
	data, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || back.String() != p.String() {
		t.Errorf("as JSON it became\n%s%v", back, err)
	}
	only := listing()
	only.Manifests = only.Manifests[:1]
	only.Manifests[0].Last = 12
	p, err = restorer.NewPlan(only, restorer.Options{})
	if err != nil || p.Exact || !strings.Contains(p.String(), "at least 10") {
		t.Errorf("a full alone: %v\n%s", err, p)
	}
}

func TestPlanVersions(t *testing.T) {
	for _, test := range []struct {
		etcd, storage, target string
		refused               bool
	}{
		{"3.6.16", "3.6.0", "3.5.35", true},
		{"3.6.16", "3.6.0", "3.6", false},
		{"3.6.16", "3.6.0", "3.7.3", false},
		{"3.7.3", "3.7.0", "3.6.16", true},
		{"3.7.3", "3.6.0", "3.6.16", false}, // in the middle of an upgrade
		{"3.6.16", "", "3.5", true},         // too young to say
		{"3.5.35", "", "3.5.0", false},
		{"3.10.0", "", "3.9", true},
		{"4.0.0", "4.0.0", "3.7", true},
		{"3.7.3", "3.7.0", "", false},
	} {
		l := listing()
		l.Manifests[0].EtcdVersion, l.Manifests[0].StorageVersion = test.etcd, test.storage
		_, err := restorer.NewPlan(l, restorer.Options{EtcdVersion: test.target})
		if errors.Is(err, restorer.ErrVersion) != test.refused || err != nil != test.refused {
			t.Errorf("%+v: %v", test, err)
		}
		if test.refused && !strings.Contains(err.Error(), l.Manifests[0].Name) {
			t.Errorf("%q does not name the snapshot", err)
		}
	}
}

func TestOptions(t *testing.T) {
	three := "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://10.0.0.3:2380"
	for _, test := range []struct {
		name    string
		options restorer.Options
		says    []string
	}{
		{"a member of three", restorer.Options{Name: "b", InitialCluster: three}, nil},
		{"two URLs", restorer.Options{Name: "a", InitialCluster: "a=http://x:1,a=http://y:2", PeerURLs: []string{"http://y:2", "http://x:1"}}, nil},
		{"a bump", restorer.Options{BumpRevision: 5, MarkCompacted: true}, nil},
		{"an unknown name", restorer.Options{Name: "d", InitialCluster: three}, []string{`--name "d"`, "a, b, c"}},
		{"no URL", restorer.Options{InitialCluster: "default=x"}, []string{"--initial-cluster"}},
		{
			"other peer URLs",
			restorer.Options{Name: "a", InitialCluster: three, PeerURLs: []string{"http://10.0.0.2:2380"}},
			[]string{"--initial-advertise-peer-urls is http://10.0.0.2:2380", "http://10.0.0.1:2380"},
		},
		{"bad peer URLs", restorer.Options{PeerURLs: []string{"http://x"}}, []string{"--initial-advertise-peer-urls"}},
		{"the same URL twice", restorer.Options{Name: "a", InitialCluster: "a=http://x:1,b=http://x:1"}, []string{"twice"}},
		{
			"everything wrong",
			restorer.Options{Name: "d", InitialCluster: three, BumpRevision: -1, EtcdVersion: "new"},
			[]string{"--name", "--bump-revision", `"new"`},
		},
		{"half a bump", restorer.Options{BumpRevision: 1}, []string{"go together"}},
		{"the other half", restorer.Options{MarkCompacted: true}, []string{"go together"}},
	} {
		err := test.options.Validate()
		if (err != nil) != (test.says != nil) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, want := range test.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", test.name, err, want)
			}
		}
	}
}

// TestToken is the same for all members, and another for another history.
func TestToken(t *testing.T) {
	token := func(name string, l archive.Listing, target int64) string {
		t.Helper()
		p, err := restorer.NewPlan(l, restorer.Options{
			Name: name, InitialCluster: "a=http://x:1,b=http://y:1", Target: snapshot.Target{Revision: target},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Options.InitialClusterToken
	}
	forked := listing()
	for i := range forked.Manifests {
		forked.Manifests[i].Lineage = "two"
	}
	a := token("a", listing(), 0)
	if a == "" || a != token("b", listing(), 0) {
		t.Errorf("the members derive %q and %q", a, token("b", listing(), 0))
	}
	if a == token("a", listing(), 29) || a == token("a", forked, 0) {
		t.Errorf("other histories have the same token %q", a)
	}
}
