package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// kept returns what stays, in the order of ms.
func kept(p snapshot.Policy, ms []snapshot.Manifest, now time.Time) []snapshot.Manifest {
	var kept []snapshot.Manifest
	for _, v := range p.Apply(ms, now) {
		if v.Keep {
			kept = append(kept, v.Manifest)
		}
	}
	return kept
}

func TestPolicyCountsFulls(t *testing.T) {
	const hour = 60
	// A full every 8 hours from Friday 2026-11-20 00:00 to Tuesday 16:00.
	var words strings.Builder
	for revision := range 15 {
		fmt.Fprintf(&words, "F%d%s", 1+revision, strings.Repeat(" .", 8*hour-1)+" ")
	}
	ms := story(t, words.String())
	now := ms[len(ms)-1].Time.Add(time.Minute)
	for _, c := range []struct {
		name   string
		policy snapshot.Policy
		want   string
	}{
		{"no rule", snapshot.Policy{DeltaRetention: time.Hour}, "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15"},
		{"last", snapshot.Policy{KeepLast: 3}, "F13 F14 F15"},
		{"more than there are", snapshot.Policy{KeepLast: 99, KeepDaily: 99}, "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15"},
		{"hourly", snapshot.Policy{KeepHourly: 2}, "F14 F15"},
		{"daily", snapshot.Policy{KeepDaily: 3}, "F9 F12 F15"},
		{"weekly", snapshot.Policy{KeepWeekly: 2}, "F9 F15"},
		{"all of them", snapshot.Policy{KeepLast: 2, KeepDaily: 2, KeepWeekly: 2}, "F9 F12 F14 F15"},
	} {
		if got := tell(kept(c.policy, ms, now)...); got != c.want {
			t.Errorf("%s: %s stay, want %s", c.name, got, c.want)
		}
	}
}

func TestPolicyUsesUTC(t *testing.T) {
	ms := story(t, "F1 F2 F3")
	elsewhere := time.FixedZone("", -5*3600)
	for i := range ms {
		ms[i].Time = ms[i].Time.Add(-time.Minute).In(elsewhere) // 23:59, 00:00 and 00:01 UTC
	}
	if got := tell(kept(snapshot.Policy{KeepDaily: 2}, ms, at(10))...); got != "F1 F3" {
		t.Errorf("%s stay", got)
	}
}

func TestPolicyOnDeltas(t *testing.T) {
	last := snapshot.Policy{KeepLast: 2}
	for _, c := range []struct {
		name, story string
		policy      snapshot.Policy
		now         int // minute
		want        string
	}{
		{"zero policy", "D1-5 F10 D20-30 F40", snapshot.Policy{}, 9999, "D1-5 F10 D20-30 F40"},
		{"as long as their full", "F1 D2-10 F10 D11-20 F20 D21-30", last, 9999, "F10 D11-20 F20 D21-30"},
		{"also past fulls that go", "F1 D2-10 F10 D11-20 F20 D21-30", snapshot.Policy{KeepLast: 1}, 9999, "F20 D21-30"},
		{"none before the first full", "D1-5 F5 D6-10", last, 9999, "F5 D6-10"},
		{"the one that begins before its full and goes on after", "F1 D2-10 F15 D11-20 D21-30", snapshot.Policy{KeepLast: 1}, 9999, "F15 D11-20 D21-30"},
		{"old stretches go", "F1 D2-10 F10 D11-20 F20 D21-30", snapshot.Policy{KeepLast: 3, DeltaRetention: 2 * time.Minute}, 6, "F1 F10 F20 D21-30"},
		{
			"whole", "F1 D2-10 D11-20 F20 D21-30 D31-40 F40 D41-50",
			snapshot.Policy{KeepLast: 3, DeltaRetention: 3 * time.Minute},
			8, "F1 F20 D21-30 D31-40 F40 D41-50",
		},
		{
			"but only up to the last young delta", "F1 D2-10 D11-20 D21-30 F40 D41-50",
			snapshot.Policy{KeepLast: 2, DeltaRetention: 4 * time.Minute},
			6, "F1 D2-10 D11-20 D21-30 F40 D41-50",
		},
		{
			"not if none is young", "F1 D2-10 D11-20 D21-30 F40 D41-50",
			snapshot.Policy{KeepLast: 2, DeltaRetention: 2 * time.Minute},
			6, "F1 F40 D41-50",
		},
		{"the newest chain, however old", "F1 D2-10 D11-20", snapshot.Policy{KeepLast: 1, DeltaRetention: time.Minute}, 9999, "F1 D2-10 D11-20"},
		{
			"across a full that goes", "F1 D2-10 F10 D11-20 F20",
			snapshot.Policy{KeepDaily: 2, DeltaRetention: 5 * time.Minute},
			6, "F20",
		},
		{"behind a bridged gap", "F1 D2-10 D15-20 F20", last, 9999, "F1 D2-10 F20"},
		{"beyond the last gap", "F1 D2-10 D15-20 D21-30 D40-50", last, 9999, "F1 D2-10 D15-20 D21-30 D40-50"},
		{"if all fulls are lost", "D2-10 D15-20", last, 9999, "D2-10 D15-20"},
		{"of one revision", "F1 D2-2 F2 D3-3", last, 9999, "F1 D2-2 F2 D3-3"},
		{"within the bounds of their full", "F15-20 D16-20 F30", last, 9999, "F15-20 D16-20 F30"},
		{
			"not what leads to a full that the young ones begin with", "F1 D2-9 F10 D10-20 F30",
			snapshot.Policy{KeepLast: 3, DeltaRetention: 2 * time.Minute},
			5, "F1 F10 D10-20 F30",
		},
		{
			"but what leads to those that begin before it", "F1 D2-9 F12 D10-20 F30",
			snapshot.Policy{KeepLast: 3, DeltaRetention: 2 * time.Minute},
			5, "F1 D2-9 F12 D10-20 F30",
		},
		{"doubles in a kept stretch", "F1 D2-10 D3-9 D2-10 D11-20", last, 9999, "F1 D2-10 D3-9 D2-10 D11-20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tell(kept(c.policy, story(t, c.story), at(c.now))...); got != c.want {
				t.Errorf("%s stay, want %s", got, c.want)
			}
		})
	}
}

func TestPolicyOnLineages(t *testing.T) {
	const words = "F100 D101-110 F110 D111-120 F50/b D51-60/b F60/b D61-70/b"
	const week = 7 * 24 * 60
	for _, c := range []struct {
		name   string
		policy snapshot.Policy
		now    int // minute
		want   string
	}{
		{"rules count all fulls", snapshot.Policy{KeepLast: 3}, 9999, "F110 D111-120 F50/b D51-60/b F60/b D61-70/b"},
		{"the last chain before a fork has its grace", snapshot.Policy{KeepLast: 1}, week, "F110 D111-120 F60/b D61-70/b"},
		{"and then goes", snapshot.Policy{KeepLast: 1}, week + 3, "F60/b D61-70/b"},
		{"a bucket keeps one of each", snapshot.Policy{KeepDaily: 1}, week + 3, "F110 D111-120 F60/b D61-70/b"},
	} {
		if got := tell(kept(c.policy, story(t, words), at(c.now))...); got != c.want {
			t.Errorf("%s: %s stay, want %s", c.name, got, c.want)
		}
	}
}

func TestPolicyNeverTouches(t *testing.T) {
	p := snapshot.Policy{KeepLast: 1, DeltaRetention: time.Minute}
	ms := story(t, "F1 D2-10 D11-20 D21-30 F30 D31-40 F40")
	ms[0].Final = true
	if got := tell(kept(p, ms, at(9999))...); got != "F1 F40" {
		t.Errorf("a final full: %s stay", got)
	}
	ms[0].Final, ms[2].Final = false, true
	if got := tell(kept(p, ms, at(9999))...); got != "F1 D2-10 D11-20 F40" {
		t.Errorf("a final delta, and what leads up to it: %s stay", got)
	}
	ms = story(t, "F1 F5 D2-10 D11-20 F20 F40")
	ms[3].Final = true
	if got := tell(kept(p, ms, at(9999))...); got != "F5 D2-10 D11-20 F40" {
		t.Errorf("a final delta, and the nearest full that leads up to it: %s stay", got)
	}
	ms = story(t, "F1 . . . F30 F40")
	ms[1].Time = at(9999)
	if got := tell(kept(p, ms, at(10))...); got != "F30 F40" {
		t.Errorf("a full of the future, which counts for nothing: %s stay", got)
	}
}

func TestReasons(t *testing.T) {
	const day = 24 * 60
	pause := strings.Repeat(" .", day-1) + " "
	ms := story(t, "D1-2 F9"+pause+"F10 D11-20 D25-30 F30"+pause+"F40 D41-45 F50 D51-60 F60 D61-70 D90-99")
	ms[1].Final = true
	now := ms[len(ms)-1].Time
	p := snapshot.Policy{KeepLast: 2, KeepHourly: 2, KeepDaily: 2, KeepWeekly: 2, DeltaRetention: 36 * time.Hour}
	var got []string
	for _, v := range p.Apply(ms, now.Add(time.Hour)) {
		got = append(got, fmt.Sprintf("%s %t %s", tell(v.Manifest), v.Keep, v.Reason))
	}
	want := []string{
		"D1-2 false no kept full before the delta",
		"F9 true final snapshot of a hand-over",
		"F10 false no rule keeps this full",
		"D11-20 false a gap separates the delta from the kept full before it",
		"D25-30 false a gap separates the delta from the kept full before it",
		"F30 true hourly 2026-11-21T00",
		"F40 false no rule keeps this full",
		"D41-45 false a gap separates the delta from the kept full before it",
		"F50 true 2 of keep-last 2",
		"D51-60 true delta continues a kept full",
		"F60 true newest restorable chain",
		"D61-70 true newest restorable chain",
		"D90-99 true delta beyond a gap, until a full follows",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	got = nil
	for _, v := range (snapshot.Policy{KeepDaily: 1, KeepWeekly: 2, DeltaRetention: 90 * time.Minute}).Apply(
		story(t, "F1 D2-3 D3-3"+strings.Repeat(pause, 8)+"F5-7 D6-7 F8"), at(9*day)) {
		got = append(got, fmt.Sprintf("%s %t %s", tell(v.Manifest), v.Keep, v.Reason))
	}
	want = []string{
		"F1 true weekly 2026-W47", "D2-3 false delta older than 1h30m", "D3-3 false delta older than 1h30m",
		"F5-7 false no rule keeps this full", "D6-7 false a gap separates the delta from the kept full before it",
		"F8 true newest restorable chain",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExpiredOrder(t *testing.T) {
	for _, c := range []struct{ name, story, want string }{
		{"what needs another goes before it", "F1 D2-10 D11-20 F20 D21-30 F99", "D21-30 F20 D11-20 D2-10 F1"},
		{"a delta over its full", "F1 D2-10 F15 D11-20 D21-30 F99", "D21-30 D11-20 F15 D2-10 F1"},
		{"a long delta over its full", "F1 F15 D2-40 D16-20 F99", "D16-20 D2-40 F15 F1"},
		{"the older lineage first", "F1/x D2-3/x F10 D11-12 F99", "D2-3/x F1/x D11-12 F10"},
	} {
		p := snapshot.Policy{KeepLast: 1}
		if got := tell(p.Expired(story(t, c.story), at(99999))...); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

var policies = rapid.Custom(func(t *rapid.T) snapshot.Policy {
	return snapshot.Policy{
		KeepLast: rapid.IntRange(0, 4).Draw(t, "last"), KeepHourly: rapid.IntRange(0, 4).Draw(t, "hourly"),
		KeepDaily: rapid.IntRange(0, 4).Draw(t, "daily"), KeepWeekly: rapid.IntRange(0, 2).Draw(t, "weekly"),
		DeltaRetention: time.Duration(rapid.IntRange(0, 60).Draw(t, "deltas")) * time.Hour,
	}
})

func drawNow(t *rapid.T) time.Time {
	return dawn.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "now")) * time.Hour)
}

func without(ms, gone []snapshot.Manifest) []snapshot.Manifest {
	return slices.DeleteFunc(slices.Clone(ms), func(m snapshot.Manifest) bool {
		return slices.ContainsFunc(gone, func(g snapshot.Manifest) bool { return g.Name == m.Name })
	})
}

func TestExpiredIsWhatApplyLetsGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, p, now := archives.Draw(t, "archive"), policies.Draw(t, "policy"), drawNow(t)
		expired := p.Expired(ms, now)
		verdicts := p.Apply(ms, now)
		if len(verdicts) != len(ms) || len(without(ms, expired))+len(expired) != len(ms) {
			t.Fatalf("%d snapshots, %d verdicts, %d expired", len(ms), len(verdicts), len(expired))
		}
		if got, want := tell(kept(p, ms, now)...), tell(without(ms, expired)...); got != want {
			t.Fatalf("%s stay, and %s do not expire", got, want)
		}
		for i, v := range verdicts {
			if v.Reason == "" || v.Manifest.Name != ms[i].Name {
				t.Fatalf("%+v", v)
			}
		}
	})
}

func TestPruningIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, p, now := archives.Draw(t, "archive"), policies.Draw(t, "policy"), drawNow(t)
		rest := kept(p, ms, now)
		if again := p.Expired(rest, now); len(again) > 0 {
			t.Fatalf("of %s stay %s, and then %s go", tell(ms...), tell(rest...), tell(again...))
		}
	})
}

// Whenever removing stops, the newest chain is what it was, and what could be
// restored of the deltas that are still to go still can be.
func TestPruningMayStopAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, p, now := archives.Draw(t, "archive"), policies.Draw(t, "policy"), drawNow(t)
		newest, newestErr := snapshot.Select(ms, snapshot.Target{})
		before := map[string][horizon + 1]bool{"a": restorable(ms, "a"), "b": restorable(ms, "b")}
		rest := ms
		expired := p.Expired(ms, now)
		for i, gone := range expired {
			rest = without(rest, []snapshot.Manifest{gone})
			got, err := snapshot.Select(rest, snapshot.Target{})
			if (err == nil) != (newestErr == nil) || tell(got.All()...) != tell(newest.All()...) {
				t.Fatalf("the newest chain was %s (%v), after %s went it is %s (%v)",
					tell(newest.All()...), newestErr, tell(gone), tell(got.All()...), err)
			}
			after := map[string][horizon + 1]bool{"a": restorable(rest, "a"), "b": restorable(rest, "b")}
			for _, d := range expired[i+1:] {
				for r := d.First; d.Kind == snapshot.Delta && r <= d.Last; r++ {
					if before[d.Lineage][r] && !after[d.Lineage][r] && !isFullAt(ms, d.Lineage, r) {
						t.Fatalf("%s is there, but after %s went revision %d cannot be restored", tell(d), tell(gone), r)
					}
				}
			}
		}
	})
}

// isFullAt reports whether a revision can be had without a delta.
func isFullAt(ms []snapshot.Manifest, lineage string, revision int64) bool {
	return slices.ContainsFunc(ms, func(m snapshot.Manifest) bool {
		return m.Kind == snapshot.Full && m.Lineage == lineage && m.First == revision && m.Last == revision
	})
}

// What the policy promises: each revision in a delta that is young enough, and
// that the kept fulls lead to; and no delta that nothing leads up to.
func TestPruningKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, p, now := archives.Draw(t, "archive"), policies.Draw(t, "policy"), drawNow(t)
		rest := kept(p, ms, now)
		fullsThatGo := slices.DeleteFunc(without(ms, rest), func(m snapshot.Manifest) bool { return m.Kind == snapshot.Delta })
		possible := without(ms, fullsThatGo)
		for _, d := range ms {
			if d.Kind == snapshot.Full {
				continue
			}
			possible, actual := restorable(possible, d.Lineage), restorable(rest, d.Lineage)
			young := p.DeltaRetention == 0 || now.Sub(d.Time) <= p.DeltaRetention
			for r := d.First; young && r <= d.Last; r++ {
				if possible[r] && !actual[r] {
					t.Fatalf("of %s stay %s, and revision %d of young %s is lost", tell(ms...), tell(rest...), r, tell(d))
				}
			}
			pinned := d.Final || d.Time.After(now)
			stays := slices.ContainsFunc(rest, func(m snapshot.Manifest) bool { return m.Name == d.Name })
			if stays && leads(ms, d, pinned) && !leads(rest, d, pinned) {
				t.Fatalf("of %s stay %s, and nothing leads to %s", tell(ms...), tell(rest...), tell(d))
			}
		}
	})
}

// leads reports whether a full and deltas lead through d; or, exactly, to its
// last revision.
func leads(ms []snapshot.Manifest, d snapshot.Manifest, exactly bool) bool {
	chains, _ := snapshot.Chains(ms)
	return slices.ContainsFunc(chains, func(c snapshot.Chain) bool {
		return c.Full.Lineage == d.Lineage && c.Full.First < d.Last && d.Last <= c.Last() && (!exactly || c.Full.Last <= d.Last)
	})
}

// The zero policy keeps everything, and KeepLast the newest fulls.
func TestNewestFullsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, now := archives.Draw(t, "archive"), dawn.Add(1000*time.Hour)
		if got := kept(snapshot.Policy{}, ms, now); len(got) != len(ms) {
			t.Fatalf("the zero policy keeps %d of %d", len(got), len(ms))
		}
		n := rapid.IntRange(1, 5).Draw(t, "n")
		fulls := slices.DeleteFunc(slices.Clone(ms), func(m snapshot.Manifest) bool { return m.Kind == snapshot.Delta })
		got := kept(snapshot.Policy{KeepLast: n}, fulls, now)
		slices.SortStableFunc(fulls, func(a, b snapshot.Manifest) int { return b.Time.Compare(a.Time) })
		for _, m := range fulls[:min(n, len(fulls))] {
			oldest := fulls[min(n, len(fulls))-1].Time
			if m.Time.After(oldest) && !slices.ContainsFunc(got, func(g snapshot.Manifest) bool { return g.Name == m.Name }) {
				t.Fatalf("%s is one of the last %d and goes", tell(m), n)
			}
		}
	})
}
