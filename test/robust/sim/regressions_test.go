package sim

import "testing"

// Seeds that have found something. What they found also has a test of its own
// beside the code: a change of the simulation gives a seed another meaning.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		name string
		seed uint64
	}{} {
		t.Run(c.name, func(t *testing.T) {
			for _, l := range runSeeds(t, c.seed, 1, 1) {
				if l.Violation != "" {
					t.Errorf("seed %d: %s\n%s", l.Seed, l.Violation, l.Tell())
				}
			}
		})
	}
}
