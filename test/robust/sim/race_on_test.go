//go:build race

package sim

// defaultSeeds are fewer where each takes ten times as long.
const defaultSeeds = 100
