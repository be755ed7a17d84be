package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// number groups the digits of n, with spaces at which no line is broken.
func number(n int64) string {
	const group = 3
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	var s strings.Builder
	s.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%group == 0 {
			s.WriteRune('\u202f')
		}
		s.WriteRune(d)
	}
	return s.String()
}

// bytes is a size in the unit that leaves three digits or fewer.
func bytes(n int64) string {
	const kilo = 1024
	if n < kilo {
		return strconv.FormatInt(n, 10) + "\u00a0B"
	}
	size, unit := float64(n)/kilo, 0
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	for size >= kilo && unit < len(units)-1 {
		size, unit = size/kilo, unit+1
	}
	format := "%.0f"
	if size < 10 {
		format = "%.1f"
	}
	return fmt.Sprintf(format, size) + "\u00a0" + units[unit]
}

// span is a length of time in its two largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(0, d)
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d\u00a0d %d\u00a0h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d\u00a0h %d\u00a0min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d\u00a0min %d\u00a0s", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return fmt.Sprintf("%d\u00a0s", d/time.Second)
	default:
		return fmt.Sprintf("%.1f\u00a0s", d.Seconds())
	}
}

func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// moment is a time for people, who do not all live in one zone.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// day and hour are moment where something else says that it is UTC.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func hour(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

func clock(t time.Time) string { return t.UTC().Format("15:04") }

func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// told is moment for a time in RFC 3339; what is none is shown as it is.
func told(s string) string {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return moment(t)
	}
	return s
}

func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.1:
		return "less than 0.1"
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	default:
		return number(int64(perSecond))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(int64(n)) + " " + what + "s"
}

// short is enough of a UUID to tell it from another.
func short(id string) string {
	const enough = 8
	if len(id) <= enough {
		return id
	}
	return id[:enough]
}
