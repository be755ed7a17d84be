//go:build !race

package sim

import "time"

const (
	defaultSeeds  = 2000
	defaultBudget = 170 * time.Second
)
