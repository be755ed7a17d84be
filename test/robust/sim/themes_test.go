package sim

import "testing"

// Rows 24 and 25: the clocks of whoever hands over run slow and those of whoever
// waits run fast, by as much as ρ allows, W is the least that is accepted, and wall
// clocks are set by up to an hour; or machines are suspended, and wake up to find
// themselves replaced. All invariants hold.
func TestClocksAndSleep(t *testing.T) {
	of(t, Clocks, "wall jump")
	of(t, Sleep, "suspend")
}

// What few of the seeds of TestSeeds come to: an etcd that has passed its gate and
// is not there yet when it is fenced, while its sidecar crashes; and hand-overs that
// are taken back while the copy is away.
func TestGatesAndRetreat(t *testing.T) {
	of(t, Gates, "crash of etcd")
	of(t, Retreat, "reclaim")
}

// themeSeeds is how many seeds of a theme there are.
const themeSeeds = 60

// of runs seeds of a theme, in which something has to happen often enough.
func of(t *testing.T, theme Theme, what string) {
	t.Helper()
	t.Run(string(theme), func(t *testing.T) {
		happened, decided := 0, 0
		for _, l := range runSeeds(t, 1, themeSeeds, *shardsFlag, "-theme", string(theme)) {
			happened += l.Counts[what]
			decided += l.Decisions
			if l.Violation != "" {
				t.Errorf("seed %d: %s\n%s", l.Seed, l.Violation, l.Tell())
			}
		}
		t.Logf("%d times %s, %d hand-overs", happened, what, decided)
		if happened < themeSeeds || decided < themeSeeds {
			t.Error("too little has happened")
		}
	})
}
