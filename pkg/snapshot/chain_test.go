package snapshot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

func TestChains(t *testing.T) {
	for _, c := range []struct{ name, story, chains, gaps string }{
		{"nothing", "", "", ""},
		{"a full", "F100", "F100", ""},
		{"deltas", "F100 D101-120 D121-130", "F100 D101-120 D121-130", ""},
		{
			"each full has its chain", "F100 D101-120 F110 D121-130",
			"F100 D101-120 D121-130 | F110 D101-120 D121-130", "",
		},
		{
			"no delta that does not lead on", "D50-99 F100 D90-100 D101-120 D105-110 D121-121",
			"F100 D101-120 D121-121", "",
		},
		{
			"as few as possible", "F100 D101-110 D105-130 D101-120 D121-130 D131-140",
			"F100 D101-120 D105-130 D131-140", "",
		},
		{
			"of equal ones the earlier", "F100 D102-120 D101-120 D101-125 D100-125",
			"F100 D101-125", "",
		},
		{"a full counts from its lower bound", "F100-110 D111-120", "F100-110", "111: 101 to 110 after 100"},
		{"overlapping its content is fine", "F100-110 D101-105 D106-120", "F100-110 D101-105 D106-120", ""},
		{"a gap", "F100 D101-120 D130-140 D141-150", "F100 D101-120", "130: 121 to 129 after 120"},
		{
			"a gap that a full bridges", "F100 D101-120 F129 D130-140",
			"F100 D101-120 | F129 D130-140", "130: 121 to 129 after 120, bridged",
		},
		{
			"a full in a gap does not bridge it", "F100 D101-120 F125 D130-140",
			"F100 D101-120 | F125", "130: 121 to 129 after 120; 130: 126 to 129 after 125",
		},
		{
			"several gaps", "F100 D102-110 D112-120 D121-130 D132-140",
			"F100", "102: 101 to 101 after 100; 112: 111 to 111 after 110; 132: 131 to 131 after 130",
		},
		{"fulls alone have no gap", "F100 F200 F300", "F100 | F200 | F300", ""},
		{"deltas before the first full have no gap", "D10-20 D30-40 F100", "F100", ""},
		{"only deltas", "D10-20 D30-40", "", ""},
		{
			"lineages do not mix", "F100 F100/b D101-110/b D111-120 D101-105",
			"F100/b D101-110/b | F100 D101-105", "111: 106 to 110 after 105",
		},
		{"the order of arrival does not matter", "D121-130 D101-120 F100", "F100 D101-120 D121-130", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			chains, gaps := snapshot.Chains(story(t, c.story))
			if got := tellChains(chains); got != c.chains {
				t.Errorf("chains %s, want %s", got, c.chains)
			}
			if got := tellGaps(t, gaps); got != c.gaps {
				t.Errorf("gaps %s, want %s", got, c.gaps)
			}
		})
	}
}

func tellChains(chains []snapshot.Chain) string {
	var told []string
	for _, c := range chains {
		told = append(told, tell(c.All()...))
	}
	return strings.Join(told, " | ")
}

func tellGaps(t *testing.T, gaps []snapshot.Gap) string {
	var told []string
	for _, g := range gaps {
		if !errors.Is(g, snapshot.ErrGap) || !strings.Contains(g.Error(), g.Before.Name) || !strings.Contains(g.Error(), g.After.Name) {
			t.Errorf("%v", g)
		}
		missing := strings.TrimPrefix(g.Error(), "revisions ")
		missing, _, _ = strings.Cut(missing, " are missing")
		before := (snapshot.Chain{Full: g.Before}).Last()
		s := fmt.Sprintf("%d: %s after %d", g.After.First, missing, before)
		if g.Bridged {
			s += ", bridged"
		}
		told = append(told, s)
	}
	return strings.Join(told, "; ")
}

func TestClustersOfOneLineageDoNotMix(t *testing.T) {
	ms := story(t, "F100 D101-120 D121-130")
	ms[1].ClusterID = "another"
	chains, _ := snapshot.Chains(ms)
	if got := tellChains(chains); got != "F100" {
		t.Errorf("got %s", got)
	}
	_, err := snapshot.Select(ms, snapshot.Target{})
	if !errors.Is(err, snapshot.ErrLineage) || !strings.Contains(err.Error(), ms[0].Name) || !strings.Contains(err.Error(), ms[1].Name) {
		t.Errorf("got %v", err)
	}
}

func TestChainsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := archives.Draw(t, "archive")
		chains, _ := snapshot.Chains(ms)
		for _, c := range chains {
			reach := c.Full.First
			for i, d := range c.Deltas {
				if d.Kind != snapshot.Delta || d.Lineage != c.Full.Lineage || d.First > reach+1 || d.Last <= reach {
					t.Fatalf("%s does not continue %s", tell(d), tell(c.Full))
				}
				if i >= 2 && d.First <= c.Deltas[i-2].Last+1 {
					t.Fatalf("superfluous: %s", tell(c.Deltas[i-1]))
				}
				reach = d.Last
			}
			if reach != c.Last() {
				t.Fatalf("%s: Last is %d", tell(c.All()...), c.Last())
			}
			for _, d := range ms {
				if d.Kind == snapshot.Delta && d.Lineage == c.Full.Lineage && d.First <= reach+1 && d.Last > reach {
					t.Fatalf("%s ends before %s", tell(c.All()...), tell(d))
				}
			}
		}
	})
}

func TestWindows(t *testing.T) {
	for _, c := range []struct{ name, story, want string }{
		{"nothing", "", ""},
		{"only deltas", "D1-5", ""},
		{"a full", "F100", "a 100-100 0m-0m"},
		{"a chain", "F100 D101-120 D121-130", "a 100-130 0m-2m"},
		{"from the upper bound of a full on", "F100-110 D101-120", "a 110-120 0m-1m"},
		{"a full of uncertain revision", "F100-110 D101-105", "a one of 100-110 0m-1m"},
		{"which deltas pass", "F100 D101-120 F110-115 D121-130", "a 100-130 0m-3m"},
		{"or do not", "F100 D101-112 F110-115", "a 100-112 0m-1m; a one of 110-115 2m-1m"},
		{"split at a gap", "F100 D101-120 F200 D201-210 F205 F300", "a 100-120 0m-1m; a 200-210 2m-3m; a 300-300 5m-5m"},
		{"two that touch are one", "F100 D101-120 F121 D122-130", "a 100-130 0m-3m"},
		{"times of the first that gets there", "F100 D101-120 F120", "a 100-120 0m-1m"},
		{"by lineage", "F100/b F50/a D51-60/a D101-105/b", "a 50-60 1m-2m; b 100-105 0m-3m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []string
			for _, w := range snapshot.Windows(story(t, c.story)) {
				one := ""
				if !w.Exact {
					one = "one of "
				}
				told = append(told, fmt.Sprintf("%s %s%d-%d %.0fm-%.0fm", w.Lineage, one, w.First, w.Last,
					w.From.Sub(dawn).Minutes(), w.To.Sub(dawn).Minutes()))
			}
			if got := strings.Join(told, "; "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWindowsInWords(t *testing.T) {
	var told []string
	for _, w := range snapshot.Windows(story(t, "F90 F100 D101-120 F130-140")) {
		told = append(told, w.String())
	}
	want := "revision 90 (time 2026-11-20T00:00:00Z); " +
		"revisions 100 to 120 (times 2026-11-20T00:01:00Z to 2026-11-20T00:02:00Z); " +
		"one revision of 130 to 140 (time 2026-11-20T00:03:00Z)"
	if got := strings.Join(told, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A revision is in a window, can be selected, and can be had by reasoning
// without chains, or none of the three.
func TestWindowsAreWhatCanBeSelected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := archives.Draw(t, "archive")
		windows := snapshot.Windows(ms)
		for i, w := range windows[min(1, len(windows)):] {
			if before := windows[i]; w.Exact && before.Exact && w.Lineage == before.Lineage && w.First <= before.Last+1 {
				t.Fatalf("%v and %v are one", before, w)
			}
		}
		for _, lineage := range []string{"a", "b"} {
			for revision, want := range restorable(ms, lineage) {
				if revision == 0 {
					continue
				}
				revision := int64(revision)
				in := false
				for _, w := range windows {
					in = in || w.Lineage == lineage && w.Exact && w.First <= revision && revision <= w.Last
				}
				c, err := snapshot.Select(ms, snapshot.Target{Lineage: lineage, Revision: revision})
				if in != want || (err == nil) != want {
					t.Fatalf("revision %d of %s: can be restored %t, in a window %t, selected %v", revision, lineage, want, in, err)
				}
				if err == nil && (!restorable(c.All(), lineage)[revision] || len(c.Deltas) > 0 && c.Deltas[len(c.Deltas)-1].First > revision) {
					t.Fatalf("revision %d of %s: %s", revision, lineage, tell(c.All()...))
				}
			}
		}
	})
}
