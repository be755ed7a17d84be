package snapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

func TestSelect(t *testing.T) {
	type target = snapshot.Target
	base := func(revisions string) string { return story(t, revisions)[0].Name }
	for _, c := range []struct {
		name, story string
		target      target
		want        string
		err         error
		says        string // all of these words
	}{
		{name: "nothing stored", err: snapshot.ErrNothing, says: "no snapshot is stored"},
		{name: "only deltas", story: "D1-10 D11-20", err: snapshot.ErrNothing, says: "lineage a only deltas are stored (2)"},
		{
			name: "unknown lineage", story: "F1/x F2/y D3-4/x", target: target{Lineage: "z"}, err: snapshot.ErrNothing,
			says: "lineage z is stored, only of x, y",
		},

		{name: "newest", story: "F100 D101-120 F110 D121-130", want: "F110 D101-120 D121-130"},
		{name: "newest after a bridged gap", story: "F100 D105-120 F110 D121-130", want: "F110 D105-120 D121-130"},
		{
			name: "newest behind a gap", story: "F100 D101-120 D130-140 D141-150", err: snapshot.ErrGap,
			says: "newest revision cannot be restored; revisions 121 to 129 are missing; D101-120; D130-140; can be restored; revisions 100 to 120",
		},
		{name: "newest full that a gap follows", story: "F100 F110 D112-120", err: snapshot.ErrGap, says: "111 to 111; F110; D112-120"},
		{name: "newest of uncertain revision", story: "F100 D101-120 F118-125", want: "F118-125 D101-120"},

		{name: "revision in a delta", story: "F100 D101-120 D121-130", target: target{Revision: 110}, want: "F100 D101-120"},
		{name: "revision at the end of a delta", story: "F100 D101-120 D121-130", target: target{Revision: 120}, want: "F100 D101-120"},
		{name: "revision of a full", story: "F100 D101-120 F110", target: target{Revision: 110}, want: "F110"},
		{name: "not from a full that may be beyond", story: "F100 D101-120 F110-115", target: target{Revision: 112}, want: "F100 D101-120"},
		{name: "from its upper bound on", story: "F100 D101-120 F110-115", target: target{Revision: 115}, want: "F110-115 D101-120"},
		{name: "revision before a gap", story: "F100 D101-120 D130-140", target: target{Revision: 120}, want: "F100 D101-120"},
		{
			name: "revision in a gap", story: "F100 D101-120 D130-140", target: target{Revision: 125}, err: snapshot.ErrGap,
			says: "revision 125 cannot be restored; D101-120; D130-140; revisions 100 to 120",
		},
		{name: "revision behind a gap", story: "F100 D101-120 D130-140", target: target{Revision: 135}, err: snapshot.ErrGap},
		{
			name: "revision before all fulls", story: "D10-99 F100 F200", target: target{Revision: 50}, err: snapshot.ErrWindow,
			says: "revision 50 cannot be restored; revision 100; revision 200",
		},
		{
			name: "revision after all", story: "F100 D101-120", target: target{Revision: 121}, err: snapshot.ErrWindow,
			says: "ends at revision 120; revisions 100 to 120",
		},
		{
			name: "uncertain revision", story: "F100-110", target: target{Revision: 105}, err: snapshot.ErrWindow,
			says: "one revision of 100 to 110",
		},

		{name: "time between deltas", story: "F100 D101-120 . D121-130 F130", target: target{Time: at(2)}, want: "F100 D101-120"},
		{name: "time of a delta", story: "F100 D101-120 . D121-130 F130", target: target{Time: at(3)}, want: "F100 D101-120 D121-130"},
		{name: "time of a full", story: "F100 D101-120 . D121-130 F130", target: target{Time: at(4)}, want: "F130"},
		{name: "time in the future", story: "F100 D101-120", target: target{Time: at(1000)}, want: "F100 D101-120"},
		{
			name: "time before all fulls", story: "D10-99 F100", target: target{Time: at(0)}, err: snapshot.ErrWindow,
			says: "2026-11-20T00:00:00Z cannot be restored; revision 100 (time 2026-11-20T00:01:00Z)",
		},
		{
			name: "time in a gap", story: "F100 D101-120 D130-140 F135", target: target{Time: at(2)}, err: snapshot.ErrGap,
			says: "121 to 129; revisions 135 to 140",
		},
		{name: "nothing younger than the time", story: "F100 D101-110 F108-115 D101-120", target: target{Time: at(2)}, want: "F100 D101-110"},
		{name: "unless there is nothing else", story: "F108-115 D101-120", target: target{Time: at(0)}, want: "F108-115"},
		{name: "time and revision", story: "F100", target: target{Time: at(0), Revision: 100}, says: "a revision or a time, not both"},
		{name: "negative revision", story: "F100", target: target{Revision: -1}, says: "positive"},

		{name: "base", story: "F100 D101-120 F110 D121-130", target: target{Base: base("F100")}, want: "F100 D101-120 D121-130"},
		{name: "base and revision", story: "F100 D101-120 F110 D121-130", target: target{Base: base("F100"), Revision: 115}, want: "F100 D101-120"},
		{name: "base and time", story: "F100 D101-120 F110 D121-130", target: target{Base: base("F100"), Time: at(2)}, want: "F100 D101-120"},
		{name: "base that nothing continues", story: "F100 F200", target: target{Base: base("F100")}, want: "F100"},
		{name: "base that a gap follows", story: "F100 F200 D201-210", target: target{Base: base("F100")}, err: snapshot.ErrGap},
		{
			name: "base beyond the revision", story: "F100 F200", target: target{Base: base(". F200"), Revision: 150}, err: snapshot.ErrWindow,
			says: "F200; revision 100",
		},
		{name: "base beyond the time", story: "F100 F200", target: target{Base: base(". F200"), Time: at(0)}, err: snapshot.ErrWindow},
		{name: "unknown base", story: "F100", target: target{Base: base("F101")}, err: snapshot.ErrNothing, says: "F101"},
		{name: "base that is a delta", story: "D1-10 F100", target: target{Base: base("D1-10")}, err: snapshot.ErrNothing, says: "no full snapshot"},
		{
			name: "base of another lineage", story: "F100 F100/b", target: target{Base: base("F100"), Lineage: "b"}, err: snapshot.ErrLineage,
			says: "F100; lineage a; lineage b",
		},
		{name: "base says the lineage", story: "F100 D101-110 F200/b", target: target{Base: base("F100")}, want: "F100 D101-110"},

		{name: "lineage that was written to last", story: "F500 F100/b D501-600 D601-700 D101-110/b", want: "F100/b D101-110/b"},
		{name: "or rather that of them which has a full", story: "F500 D501-600 D101-110/b", want: "F500 D501-600"},
		{name: "lineage asked for", story: "F500 F100/b D501-600", target: target{Lineage: "a"}, want: "F500 D501-600"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ms := story(t, c.story)
			got, err := snapshot.Select(ms, c.target)
			if c.err == nil && c.says == "" {
				if err != nil || tell(got.All()...) != c.want {
					t.Fatalf("got %s, %v, want %s", tell(got.All()...), err, c.want)
				}
				return
			}
			if err == nil || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("got %s, %v, want %v", tell(got.All()...), err, c.err)
			}
			if errors.Is(err, snapshot.ErrGap) && errors.Is(err, snapshot.ErrWindow) {
				t.Errorf("two classes: %v", err)
			}
			message := err.Error()
			for _, m := range append(ms, story(t, "F101")...) { // names say too much
				message = strings.ReplaceAll(message, m.Name, tell(m))
			}
			for words := range strings.SplitSeq(c.says, "; ") {
				if !strings.Contains(message, words) {
					t.Errorf("got %s\nwithout %q", message, words)
				}
			}
		})
	}
}

func TestSelectPrefersTheHigherEpoch(t *testing.T) {
	ms := story(t, "F100 F50/b F60/b D101-110")
	ms[0].Epoch, ms[3].Epoch, ms[1].Epoch, ms[2].Epoch = 3, 3, 2, 2
	if c, err := snapshot.Select(ms, snapshot.Target{}); err != nil || tell(c.All()...) != "F100 D101-110" {
		t.Errorf("got %s, %v", tell(c.All()...), err)
	}
	// That its fulls are lost is no reason to go back to an older epoch.
	if c, err := snapshot.Select(ms[1:], snapshot.Target{}); !errors.Is(err, snapshot.ErrNothing) {
		t.Errorf("got %s, %v", tell(c.All()...), err)
	}
}

func TestErrorsShowFewWindows(t *testing.T) {
	for words, want := range map[string]string{
		"F10 F20 F30 F40 F50 F60 F70": "can be restored: 2 earlier ones, revision 30 ",
		"F30 F40 F50 F60 F70":         "can be restored: revision 30 ",
	} {
		if _, err := snapshot.Select(story(t, words), snapshot.Target{Revision: 5}); !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Whatever is selected for a time consists of what was cut by then, and nothing
// cut by then and restorable is newer.
func TestSelectByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := archives.Draw(t, "archive")
		when := dawn.Add(time.Duration(rapid.IntRange(0, 80).Draw(t, "hour")) * time.Hour)
		c, err := snapshot.Select(ms, snapshot.Target{Lineage: "a", Time: when})
		if err != nil {
			return
		}
		var then []snapshot.Manifest
		for _, m := range ms {
			if !m.Time.After(when) {
				then = append(then, m)
			}
		}
		for _, m := range c.All() {
			if m.Time.After(when) {
				t.Fatalf("%s is younger", tell(m))
			}
		}
		for revision, stored := range restorable(then, "a") {
			if stored && int64(revision) > max(c.Last(), c.Full.Last) {
				t.Fatalf("%s, but revision %d was stored", tell(c.All()...), revision)
			}
		}
	})
}
