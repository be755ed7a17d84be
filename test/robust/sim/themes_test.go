package sim

import "testing"

// Rows 24 and 25: the clocks of whoever hands over run slow and those of whoever
// waits run fast, by as much as ρ allows, W is the least that is accepted, and wall
// clocks are set by up to an hour; or machines are suspended, and wake up to find
// themselves replaced. All invariants hold.
func TestClocksAndSleep(t *testing.T) {
	for _, theme := range []Theme{Clocks, Sleep} {
		t.Run(string(theme), func(t *testing.T) {
			all := runSeeds(t, 1, themeSeeds, *shardsFlag, "-theme", string(theme))
			happened, forced := 0, 0
			for _, l := range all {
				happened += l.Counts["wall jump"] + l.Counts["suspend"]
				forced += l.Lossy
				if l.Violation != "" {
					t.Errorf("seed %d: %s\n%s", l.Seed, l.Violation, l.Tell())
				}
			}
			t.Logf("%d jumps or sleeps, %d hand-overs were forced", happened, forced)
			if happened < themeSeeds || forced == 0 {
				t.Error("too little has happened")
			}
		})
	}
}

const themeSeeds = 80
