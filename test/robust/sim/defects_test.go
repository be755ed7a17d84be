package sim

import (
	"strings"
	"testing"
)

// A simulator that finds nothing has to be seen to find something. Each defect is
// put in on purpose; the invariant that it breaks has to be found broken.
func TestDefectsAreFound(t *testing.T) {
	for _, c := range []struct {
		defect Defect
		finds  string // one of these invariants
		within int    // seeds
	}{
		{IgnoresConditions, "I1 I2 I4", 60},
		{ShortWait, "I1 I2 I3 I4", 60},
		{NoWatchdog, "I1", 200},
		{LyingFence, "I1 I2", 20},
		{OpenGate, "I1", 20},
		{StaleFinal, "I2", 20},
		{SlowClock, "I1 I2 I4", 60},
	} {
		t.Run(string(c.defect), func(t *testing.T) {
			for from := 0; from < c.within; from += *shardsFlag * 5 {
				for _, l := range runSeeds(t, uint64(from)+1, *shardsFlag*5, *shardsFlag, "-defect", string(c.defect)) {
					invariant, _, _ := strings.Cut(l.Violation, ":")
					if l.Violation != "" && strings.Contains(c.finds, invariant) {
						t.Logf("seed %d: %s", l.Seed, l.Violation)
						return
					}
				}
			}
			t.Errorf("not found within %d seeds", c.within)
		})
	}
}

// Without misfortunes everything goes well.
func TestNothingGoesWrongByItself(t *testing.T) {
	for _, l := range runSeeds(t, 1, 10, *shardsFlag, "-quiet") {
		if l.Violation != "" || l.Decisions == 0 {
			t.Errorf("seed %d: %d hand-overs, %s\n%s", l.Seed, l.Decisions, l.Violation, l.Tell())
		}
	}
}

// A seed that is run again tells the same story, up to what doc.go says.
func TestSeedsTellTheSameStory(t *testing.T) {
	const n = 16
	first, second := runSeeds(t, 1, n, *shardsFlag), runSeeds(t, 1, n, *shardsFlag)
	same := 0
	for i := range min(len(first), len(second)) {
		if first[i].Hash == second[i].Hash {
			same++
		}
	}
	t.Logf("%d of %d seeds told the same story twice", same, n)
	if same < n*3/4 {
		t.Errorf("%d of %d seeds told the same story twice", same, n)
	}
}
