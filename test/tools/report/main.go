// Report reads the output of "go test -json" and prints what people want to
// know of it: the line of each package, all that a failed test has said, the
// skipped tests, and last the counts, subtests included. It exits with 1 if a
// test has failed, if none has run, or if one was skipped while the environment
// variable CI is set: a test that does not run proves nothing.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	r := newReport(os.Stdout)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	if !r.verdict(os.Getenv("CI") != "") {
		os.Exit(1)
	}
}

// event is a line of "go test -json", see "go doc test2json". Without a Test it
// is about the package.
type event struct {
	Action, Package, Test, Output string
}

type report struct {
	out      io.Writer
	words    map[string]*words // by package, until it ends
	passed   int
	failed   int
	failures []string // in short
	skipped  []string
}

// words are what a package and those of its tests have said that have not
// passed, in the order of their first words.
type words struct {
	tests  []string
	said   map[string]string
	failed bool // a test; the package has no failure of its own to count
}

func newReport(out io.Writer) *report {
	return &report{out: out, words: map[string]*words{}}
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text()) // go itself has something to say
			continue
		}
		r.add(e)
	}
	return lines.Err()
}

func (r *report) add(e event) {
	w := r.words[e.Package]
	if w == nil {
		w = &words{said: map[string]string{}}
		r.words[e.Package] = w
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output":
		w.add(e.Test, e.Output)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		r.endPackage(w, e)
	case e.Action == "pass":
		r.passed++
		delete(w.said, e.Test)
	case e.Action == "fail":
		r.failed++
		w.failed = true
		r.failures = append(r.failures, e.Package+" "+e.Test+complaints(w.said[e.Test]))
	case e.Action == "skip":
		r.skipped = append(r.skipped, e.Package+" "+e.Test)
	}
}

func (w *words) add(test, line string) {
	if strings.HasPrefix(line, "=== ") || line == "PASS\n" {
		return // said by the testing package to itself
	}
	if _, ok := w.said[test]; !ok {
		w.tests = append(w.tests, test)
	}
	w.said[test] += line
}

// complaints are the lines that a test has logged itself. What the servers it
// started had to say is often a thousand times longer.
func complaints(said string) string {
	lines := regexp.MustCompile(`(?m)^ +\w+\.go:\d+: .{0,400}`).FindAllString(said, -1)
	const most = 10
	lines = lines[max(0, len(lines)-most):]
	return "\n" + strings.Join(lines, "\n")
}

// endPackage prints the package's own words last: they end with its result.
func (r *report) endPackage(w *words, e event) {
	if e.Action == "fail" && !w.failed {
		r.failed++ // it did not build, or died
	}
	for _, test := range w.tests {
		if test != "" {
			fmt.Fprint(r.out, w.said[test])
		}
	}
	fmt.Fprint(r.out, w.said[""])
	delete(r.words, e.Package)
}

// verdict prints the counts and reports whether all is well.
func (r *report) verdict(strict bool) bool {
	for _, failure := range r.failures {
		fmt.Fprintln(r.out, "\nfailed:", failure)
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skipped))
	for _, test := range r.skipped {
		fmt.Fprintln(r.out, "skipped:", test)
	}
	return r.failed == 0 && r.passed > 0 && (len(r.skipped) == 0 || !strict)
}
