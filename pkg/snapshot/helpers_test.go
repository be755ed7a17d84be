package snapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// dawn is when the first snapshot of a story is cut; the others follow a minute
// after each other.
var dawn = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return dawn.Add(time.Duration(minute) * time.Minute) }

// story returns the manifests that words tell of, in the order in which they
// were cut: F100 is a full at revision 100, F100-103 one between 100 and 103,
// D101-120 a delta; "/b" after that says that its lineage is b and not a. A
// word "." only lets a minute pass.
func story(t testing.TB, words string) []snapshot.Manifest {
	t.Helper()
	var ms []snapshot.Manifest
	for minute, word := range strings.Fields(words) {
		if word == "." {
			continue
		}
		what, lineage, other := strings.Cut(word, "/")
		if !other {
			lineage = "a"
		}
		first, last, isRange := strings.Cut(what[1:], "-")
		if !isRange {
			last = first
		}
		m := snapshot.Manifest{Kind: snapshot.Full, Time: at(minute), Lineage: lineage, ClusterID: "c-" + lineage}
		if what[0] == 'D' {
			m.Kind = snapshot.Delta
		}
		if _, err := fmt.Sscan(first, &m.First); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		if _, err := fmt.Sscan(last, &m.Last); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		ms = append(ms, named(m))
	}
	return ms
}

func named(m snapshot.Manifest) snapshot.Manifest {
	m.Name = snapshot.Snapshot{Kind: m.Kind, First: m.First, Last: m.Last, Time: m.Time}.Name()
	return m
}

// tell is the inverse of story, without the dots.
func tell(ms ...snapshot.Manifest) string {
	var words []string
	for _, m := range ms {
		word := fmt.Sprintf("F%d", m.First)
		if m.Kind == snapshot.Delta {
			word = fmt.Sprintf("D%d", m.First)
		}
		if m.Last != m.First || m.Kind == snapshot.Delta {
			word += fmt.Sprintf("-%d", m.Last)
		}
		if m.Lineage != "a" {
			word += "/" + m.Lineage
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// newest revision of what archives draws.
const horizon = 60

// archives draws snapshots as wild as clocks and several writers could make
// them: overlapping, with gaps, of several lineages, in no order.
var archives = rapid.Custom(func(t *rapid.T) []snapshot.Manifest {
	taken := map[string]bool{}
	var ms []snapshot.Manifest
	for range rapid.IntRange(0, 40).Draw(t, "snapshots") {
		m := snapshot.Manifest{Kind: snapshot.Delta, Lineage: "a", ClusterID: "c"}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			m.Kind = snapshot.Full
		}
		if rapid.IntRange(0, 4).Draw(t, "lineage") == 0 {
			m.Lineage = "b"
		}
		m.First = rapid.Int64Range(1, horizon-10).Draw(t, "first")
		m.Last = m.First + rapid.Int64Range(0, 10).Draw(t, "more")
		// Mostly in the order of revisions, an hour for each.
		m.Time = dawn.Add(time.Duration(m.Last)*time.Hour + time.Duration(rapid.IntRange(-300, 300).Draw(t, "skew"))*time.Minute)
		m.Final = rapid.IntRange(0, 20).Draw(t, "final") == 0
		if m = named(m); !taken[m.Name] {
			taken[m.Name] = true
			ms = append(ms, m)
		}
	}
	return ms
})

// restorable says, without thinking in chains, which revisions of a lineage can
// be had from ms: those from a full that is not beyond them, if each change after
// it is in some delta.
func restorable(ms []snapshot.Manifest, lineage string) (revisions [horizon + 1]bool) {
	var stored [horizon + 1]bool
	for _, m := range ms {
		for r := m.First; m.Kind == snapshot.Delta && m.Lineage == lineage && r <= m.Last; r++ {
			stored[r] = true
		}
	}
	for _, m := range ms {
		if m.Kind != snapshot.Full || m.Lineage != lineage {
			continue
		}
		for r := m.First; r <= horizon && (r == m.First || stored[r]); r++ {
			if r >= m.Last {
				revisions[r] = true
			}
		}
	}
	return revisions
}
