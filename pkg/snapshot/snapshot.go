package snapshot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind tells a base from an increment.
type Kind string

const (
	// Full is the whole database at one revision.
	Full Kind = "full"
	// Delta is every change of a closed range of revisions.
	Delta Kind = "delta"
)

// ErrName is wrapped by every error of Parse.
var ErrName = errors.New("not a snapshot name")

const (
	timeLayout   = "20060102T150405Z"
	fullSuffix   = ".db.zst"
	deltaSuffix  = ".ev.zst"
	cipherSuffix = ".age"
)

// Snapshot identifies one stored snapshot; it is what the name says.
type Snapshot struct {
	Kind Kind
	// First and Last are revisions. A delta holds every change from First to
	// Last, both included. A full holds at least all changes up to First, read
	// before its stream was opened; in a name its Last equals First, and the
	// manifest knows more.
	First, Last int64
	// Time is when it was cut, UTC, in whole seconds. It tells snapshots of the
	// same range apart and speaks to people; revisions give the order.
	Time      time.Time
	Encrypted bool
}

// Name returns the object name, relative to the snapshots' folder:
//
//	full-<revision>-<time>.db.zst[.age]
//	delta-<first>-<last>-<time>.ev.zst[.age]
func (s Snapshot) Name() string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	fmt.Fprintf(&b, "-%016d", s.First)
	suffix := fullSuffix
	if s.Kind == Delta {
		fmt.Fprintf(&b, "-%016d", s.Last)
		suffix = deltaSuffix
	}
	b.WriteString("-" + s.Time.UTC().Format(timeLayout) + suffix)
	if s.Encrypted {
		b.WriteString(cipherSuffix)
	}
	return b.String()
}

// String returns the name.
func (s Snapshot) String() string { return s.Name() }

// Parse is the inverse of Name. It accepts exactly what Name produces.
func Parse(name string) (Snapshot, error) {
	s, ok := parse(name)
	if !ok || s.Name() != name {
		return Snapshot{}, fmt.Errorf("%.80q: %w", name, ErrName)
	}
	return s, nil
}

func parse(name string) (s Snapshot, ok bool) {
	name, s.Encrypted = strings.CutSuffix(name, cipherSuffix)
	if stem, isFull := strings.CutSuffix(name, fullSuffix); isFull {
		s.Kind, name = Full, stem
	} else if stem, isDelta := strings.CutSuffix(name, deltaSuffix); isDelta {
		s.Kind, name = Delta, stem
	}
	fields := strings.Split(name, "-")
	if len(fields) < 3 || fields[0] != string(s.Kind) {
		return s, false
	}
	s.First, ok = parseRevision(fields[1])
	s.Last = s.First
	rest := fields[2:]
	if s.Kind == Delta && ok {
		s.Last, ok = parseRevision(rest[0])
		rest = rest[1:]
	}
	if !ok || len(rest) != 1 || s.Last < s.First {
		return s, false
	}
	t, err := time.Parse(timeLayout, rest[0])
	s.Time = t
	return s, err == nil
}

// parseRevision wants the 16 digits of Name, or more if the number needs them.
func parseRevision(digits string) (int64, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0 && len(digits) >= 16
}
