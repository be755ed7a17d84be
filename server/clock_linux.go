package server

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// SystemClock is the machine's. Go's own monotonic clock will not do: it stands
// still while the machine sleeps.
type SystemClock struct{}

// Boot implements Clock with CLOCK_BOOTTIME. Should the kernel not tell, every
// lease is over.
func (SystemClock) Boot() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return math.MaxInt64
	}
	return time.Duration(t.Nano())
}

// Wall implements Clock.
func (SystemClock) Wall() time.Time { return time.Now() }

// BootID names this run of the kernel: times of Boot compare within one only.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
