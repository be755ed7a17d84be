//go:build !linux

package server

import (
	"errors"
	"math"
	"time"
)

// SystemClock is the machine's. No lease lasts here: only Linux is known to have
// a clock that goes on while the machine sleeps.
type SystemClock struct{}

// Boot implements Clock.
func (SystemClock) Boot() time.Duration { return math.MaxInt64 }

// Wall implements Clock.
func (SystemClock) Wall() time.Time { return time.Now() }

// BootID returns an error, see SystemClock.
func BootID() (string, error) { return "", errors.New("owner election needs Linux") }
