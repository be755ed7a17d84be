//go:build race

package sim

import "time"

// Fewer seeds where each takes ten times as long.
const (
	defaultSeeds  = 100
	defaultBudget = time.Minute
)
