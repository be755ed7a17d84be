package model

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryLimit of one search, in MiB. Two run at a time.
const memoryLimit = 2900

// search is one run of Spin over the whole state space of a model.
type search struct {
	name    string
	model   string // file
	defines string // of the bounds, and of what is broken
	fair    bool   // looks for cycles that a fair scheduler can stay in, too
	// hasty saves the compiler's time: something will be found soon.
	hasty bool
	// shortest looks at nearer states first, and stops at the first that breaks a
	// property.
	shortest bool
}

// result is what a search has found.
type result struct {
	broken      string // the property that does not hold; empty: all hold
	depth       int
	states      float64
	transitions float64
	memory      float64 // MiB
	took        time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("%11.0f states %11.0f transitions  depth %7d  %6.0f MiB  %5.1f s", r.states, r.transitions, r.depth, r.memory, r.took.Seconds())
}

// run searches. Everything it makes is in a temporary folder.
func (s search) run(t *testing.T) result {
	t.Helper()
	model, err := filepath.Abs(s.model)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	generate, compile, run := "-a", "-O1 -DSAFETY", "-m2000000 -w24"
	switch {
	case s.fair:
		compile, run = "-O1 -DNFAIR=5", "-a -f -m2000000 -w24"
	case s.hasty:
		compile = "-O0 -DSAFETY"
	case s.shortest: // Spin does not search so with hidden variables
		generate, compile, run = "-a -Dhidden=", "-O0 -DSAFETY -DBFS", "-m2000000 -w22"
	}
	s.tool(t, dir, "spin", append(strings.Fields(generate+" "+s.defines), model)...)
	s.tool(t, dir, "gcc", strings.Fields(fmt.Sprintf("-w %s -DMEMLIM=%d -o pan pan.c", compile, memoryLimit))...)
	begun := time.Now()
	out := s.tool(t, dir, filepath.Join(dir, "pan"), strings.Fields(run)...)
	r, err := understand(out)
	if err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, out)
	}
	r.took = time.Since(begun)
	return r
}

func (s search) tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v (make model installs what is needed)\n%s", s.name, cmd, err, out)
	}
	if name == "spin" && strings.Contains(string(out), "rror") {
		t.Fatalf("%s: %s:\n%s", s.name, cmd, out)
	}
	return string(out)
}

var (
	// What Spin says of a search that has not seen everything it was to see.
	incomplete = regexp.MustCompile(`(?i)search not completed|max search depth too small|out of memory|memlim|aborting|bit-?state|hash-compact|unknown option`)
	full       = regexp.MustCompile(`(?m)^Full statespace search for:\n\s+never claim\s+(?:- \(none specified\)|\+ \(\w+\))\n\s+assertion violations\s+\+`)
	endStates  = regexp.MustCompile(`(?m)^\s+(?:invalid end states\s+\+|acceptance\s+cycles\s+\+ \(fairness enabled\))`)
	counts     = regexp.MustCompile(`State-vector \d+ byte, depth reached (\d+), errors: (\d+)`)
	states     = regexp.MustCompile(`(?m)^\s*([\d.e+]+) states, stored`)
	moves      = regexp.MustCompile(`(?m)^\s*([\d.e+]+) transitions`)
	memory     = regexp.MustCompile(`(?m)^\s*([\d.]+)\s+total actual memory usage`)
	violation  = regexp.MustCompile(`(?m)^pan:\d+: (?:assertion violated +!\(\(?(\w+)\)?\)|(acceptance cycle|invalid end state))`)
)

// understand reads the output of a search. The error says why it proves nothing.
func understand(out string) (r result, err error) {
	found := counts.FindStringSubmatch(out)
	if found == nil {
		return r, fmt.Errorf("no verdict")
	}
	r.depth, _ = strconv.Atoi(found[1])
	r.states, r.transitions, r.memory = number(states, out), number(moves, out), number(memory, out)
	if v := violation.FindStringSubmatch(out); v != nil {
		r.broken = v[1] + v[2]
	}
	switch {
	case (found[2] != "0") != (r.broken != ""):
		return r, fmt.Errorf("%s errors, and %q is broken", found[2], r.broken)
	case r.broken != "":
		return r, nil // the rest of the states need not be seen
	case incomplete.MatchString(out):
		return r, fmt.Errorf("the search was not complete: %q", incomplete.FindString(out))
	case !full.MatchString(out) || !endStates.MatchString(out):
		return r, fmt.Errorf("not a full search for assertions and end states")
	case r.states == 0 || r.transitions == 0 || r.memory == 0:
		return r, fmt.Errorf("no counts")
	}
	return r, nil
}

func number(what *regexp.Regexp, out string) float64 {
	m := what.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return n
}
