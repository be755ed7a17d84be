package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page's list of modules is that of go.mod, each with a reason.
func TestDesignPageNamesEveryDependency(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	var direct, named []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) { // others end with // indirect
		direct = append(direct, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		named = append(named, m[1])
		if len(m[2]) < 5 {
			t.Errorf("%s has no reason", m[1])
		}
	}
	slices.Sort(direct)
	if len(direct) < 30 || !slices.Equal(direct, named) {
		t.Errorf("go.mod has the direct modules\n%q\nthe page names, in order,\n%q", direct, named)
	}
	if lines := strings.Count(string(page), "\n"); lines > 200 {
		t.Errorf("the page has %d lines, who is to read that?", lines)
	}
}
