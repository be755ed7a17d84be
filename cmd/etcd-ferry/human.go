package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bytesize is a number of bytes that people read and write as 16MiB.
type bytesize int64

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// String writes at most one digit after the point.
func (b bytesize) String() string {
	value, unit := float64(b), 0
	for value >= 1024 && unit < len(sizeUnits)-1 {
		value /= 1024
		unit++
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + sizeUnits[unit]
}

// Set implements pflag.Value.
func (b *bytesize) Set(text string) error {
	digits := strings.TrimRight(text, "BKMGTi")
	unit := slices.Index(sizeUnits, cmp.Or(text[len(digits):], "B"))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || unit < 0 || n < 0 || n > math.MaxInt64>>(10*unit) {
		return fmt.Errorf("%q is no size, want for example 16MiB or a number of bytes", text)
	}
	*b = bytesize(n << (10 * unit))
	return nil
}

// Type implements pflag.Value.
func (b *bytesize) Type() string { return "size" }

// age writes how long ago t was, roughly.
func age(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// count writes n with a comma between thousands.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// seconds writes d to a tenth of a second.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}
