package sim

import "testing"

// Seeds that find a mutant of the product or a defect that it once had, which each
// is named after: with that code they broke an invariant. A change of the simulation gives a seed another
// meaning, so what they stand for also has tests of its own beside the code.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		name  string
		seed  uint64
		theme Theme
	}{
		{"403 counts as a proven absence", 1, AnyTheme},
		{"a restart counts the lease from now", 10, AnyTheme},
		{"a copier that does not look again for a server", 18, AnyTheme},
		{"the destination decides after the source", 59, AnyTheme},
		{"settled before the commit point", 64, AnyTheme},
		{"a final snapshot of data that nothing is known of", 137, AnyTheme},
		{"a commit after a reclaim", 174, AnyTheme},
		{"the wall clock is ignored", 190, AnyTheme},
		{"a server that is stopping does not end etcd with its lease", 362, AnyTheme},
		{"a claim on a container that is just being handed over", 1_002_001, AnyTheme},
		{"a fence that is not told who has passed the gate", 60, Gates},
		{"a dead adoption that is not withdrawn", 54, Retreat},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, l := range runSeeds(t, c.seed, 1, 1, "-theme", string(c.theme)) {
				if l.Violation != "" {
					t.Errorf("seed %d: %s\n%s", l.Seed, l.Violation, l.Tell())
				}
			}
		})
	}
}
