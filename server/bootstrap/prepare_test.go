package bootstrap_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// containers by what is in them, all made from one past.
func containers(t *testing.T, p past) map[string]func() *mem.Store {
	with := func(change func(*mem.Store)) func() *mem.Store {
		return func() *mem.Store {
			s := clone(t, p.store)
			change(s)
			return s
		}
	}
	lossy := func(ad *archive.Adoption) { ad.Lossy = true }
	return map[string]func() *mem.Store{
		"empty":  mem.New,
		"own":    with(func(*mem.Store) {}),
		"handed": with(func(s *mem.Store) { adopt(t, s, second, nil) }),
		"lossy":  with(func(s *mem.Store) { adopt(t, s, second, lossy) }),
		"handed to another": with(func(s *mem.Store) {
			adopt(t, s, syncobject.Holder{ID: "z", Epoch: 2, Lineage: lineageX}, nil)
		}),
		"being handed": with(func(s *mem.Store) {
			if err := archive.New(s).BeginAdoption(t.Context(), archive.BegunAdoption{OperationID: "op", Owner: "b"}); err != nil {
				t.Fatal(err)
			}
		}),
		"without the full": with(func(s *mem.Store) { damage(t, s, "full-") }),
		"without a delta":  with(func(s *mem.Store) { damage(t, s, "delta-") }),
		"without the old":  func() *mem.Store { return clone(t, p.pruned) },
	}
}

// damage removes an object that a manifest promises.
func damage(t *testing.T, s *mem.Store, prefix string) {
	t.Helper()
	for _, m := range list(t, s).Manifests {
		if strings.HasPrefix(m.Name, prefix) {
			if err := s.Remove(t.Context(), "snapshots/"+m.Name); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("nothing to damage")
}

// row is a rule. What is not refused is done, and done again changes nothing.
type row struct {
	disk, container string
	holder          syncobject.Holder
	have            string
	deed            bootstrap.Deed
	bump            bool
	lineage         string // the answer
	says            string // the refusal
}

var nobody = syncobject.Holder{ID: "a"} // on a container that nobody has held

var rows = []row{
	// Nothing is there.
	{"", "empty", nobody, "", bootstrap.Begin, false, "", ""},
	{"", "empty", first, "", bootstrap.Refuse, false, "", "right volume"},
	{"", "empty", nobody, lineageA, bootstrap.Refuse, false, "", "--accept-data-dir none@" + lineageA},
	{"", "handed", second, "", bootstrap.Restore, false, lineageB, ""},
	{"", "handed", syncobject.Holder{ID: "b"}, "", bootstrap.Restore, false, lineageB, ""},
	{"", "lossy", second, "", bootstrap.Restore, true, lineageB, ""},
	{"", "handed to another", second, "", bootstrap.Refuse, false, "", `handed to "z"`},
	{"", "being handed", second, "", bootstrap.Refuse, false, "", "run etcd-ferry copy"},
	{"", "own", first, "", bootstrap.Restore, true, lineageA, ""},
	{"", "own", nobody, lineageA, bootstrap.Restore, true, lineageA, ""},
	{"", "own", syncobject.Holder{ID: "a", Epoch: 1, Lineage: lineageX}, "", bootstrap.Restore, true, lineageX, ""},
	{"", "own", nobody, "", bootstrap.Refuse, false, "", "nothing says that they are of this deployment"},
	{"", "without the full", first, lineageA, bootstrap.Refuse, false, "", "etcd-ferry restore"},
	{"", "without a delta", first, lineageA, bootstrap.Refuse, false, "", "etcd-ferry restore"},

	// A sound data dir.
	{"late", "empty", nobody, "", bootstrap.Keep, false, "", ""},
	{"late", "own", first, lineageA, bootstrap.Keep, false, lineageA, ""},
	{"late", "own", nobody, "", bootstrap.Keep, false, lineageA, ""},
	{"late", "own", syncobject.Holder{ID: "a", Epoch: 1, Lineage: lineageX}, lineageA, bootstrap.Keep, false, lineageX, ""},
	{"ahead", "own", first, lineageA, bootstrap.Keep, false, lineageA, ""},
	{"late", "being handed", first, lineageA, bootstrap.Refuse, false, "", "run etcd-ferry copy"},
	{"late", "handed to another", first, lineageA, bootstrap.Refuse, false, "", `handed to "z"`},
	{"foreign", "own", first, "", bootstrap.Refuse, false, "", "--accept-data-dir"},
	{"foreign", "own", first, lineageA, bootstrap.Refuse, false, "", "mv "},
	{"foreign", "empty", nobody, "", bootstrap.Keep, false, "", ""},
	{"foreign", "handed", second, "", bootstrap.Refuse, false, "", "not known here"},

	// From before the hand-over: A→B→A.
	{"late", "handed", second, "", bootstrap.Restore, false, lineageB, ""},
	{"ahead", "handed", second, lineageA, bootstrap.Restore, false, lineageB, ""},
	{"foreign", "handed", second, lineageA, bootstrap.Restore, false, lineageB, ""},
	{"early", "lossy", second, lineageA, bootstrap.Restore, true, lineageB, ""},

	// An old copy.
	{"early", "own", first, lineageA, bootstrap.Restore, true, lineageA, ""},
	{"early", "without the old", first, lineageA, bootstrap.Refuse, false, "", "as old"},
	{"early", "without a delta", first, lineageA, bootstrap.Refuse, false, "", "etcd-ferry restore"},

	// A broken data dir.
	{"corrupt", "own", first, lineageA, bootstrap.Restore, true, lineageA, ""},
	{"truncated", "own", first, "", bootstrap.Restore, true, lineageA, ""},
	{"no db", "own", first, lineageA, bootstrap.Restore, true, lineageA, ""},
	{"corrupt", "handed", second, lineageA, bootstrap.Restore, false, lineageB, ""},
	{"corrupt", "empty", first, lineageA, bootstrap.Refuse, false, "", "nothing is stored"},
	{"corrupt", "without a delta", first, lineageA, bootstrap.Refuse, false, "", "etcd-ferry restore"},
	{"corrupt", "own", nobody, "", bootstrap.Refuse, false, "", "cannot be read"},
	{"no wal", "own", first, lineageA, bootstrap.Restore, true, lineageA, ""},
	{"no wal, ahead", "own", first, lineageA, bootstrap.Refuse, false, "", "cannot be proven"},
	{"no wal", "empty", first, lineageA, bootstrap.Refuse, false, "", "nothing is stored"},
}

// TestPast is what may be found of one history.
func TestPast(t *testing.T) {
	p := newPast(t)
	for name, test := range map[string]func(*testing.T, past){
		"rules": testRules, "disk lost": testDiskLost, "crash": testCrash, "ended": testEnded, "members": testMembers, "elected": testElected,
		"handed on": testHandedOn, "early backup": testEarlyBackup,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

func testRules(t *testing.T, p past) {
	made := containers(t, p)
	for _, r := range rows {
		name := strings.Join([]string{r.disk, r.container, r.holder.ID, r.holder.Lineage, r.have}, "/")
		t.Run(name, func(t *testing.T) {
			s := newSite(t, made[r.container]())
			s.place(t, p, r.disk)
			s.obeys(t, r, p)
		})
	}
}

func (s *site) obeys(t *testing.T, r row, p past) {
	t.Helper()
	before := content(t, s.dataDir)
	lineage, err := s.prepare(t, r.holder, r.have)
	if r.deed == bootstrap.Refuse {
		if !errors.Is(err, bootstrap.ErrRefused) || !strings.Contains(err.Error(), r.says) {
			t.Errorf("error %v, want a refusal that says %q", err, r.says)
		}
	} else if err != nil || lineage != r.lineage {
		t.Errorf("lineage %q, error %v, want %q", lineage, err, r.lineage)
	}
	if r.deed != bootstrap.Restore {
		if content(t, s.dataDir) != before || len(s.aside(t)) > 0 {
			t.Error("the data dir was touched")
		}
		return
	}
	if err != nil {
		return
	}
	s.restored(t, r.bump, p.last)
	if aside := s.aside(t); len(aside) != min(1, len(r.disk)) || len(aside) == 1 && content(t, aside[0]) != before {
		t.Errorf("moved aside: %q", aside)
	}
	restored := content(t, s.dataDir)
	again, err := s.prepare(t, r.holder, lineage)
	if err != nil || again != lineage || content(t, s.dataDir) != restored {
		t.Errorf("after it was restored: lineage %q, error %v", again, err)
	}
}

// restored checks that the data dir is a new one that ends with a revision.
func (s *site) restored(t *testing.T, bumped bool, revision int64) {
	t.Helper()
	if bumped {
		revision += bootstrap.DefaultBump
	}
	state := s.state(t)
	known := list(t, s.store).Manifests
	id := strconv.FormatUint(state.ClusterID, 16)
	if state.Revision != revision || slices.ContainsFunc(known, func(m snapshot.Manifest) bool { return m.ClusterID == id }) {
		t.Errorf("cluster %s at revision %d, want a new one at %d", id, state.Revision, revision)
	}
}
