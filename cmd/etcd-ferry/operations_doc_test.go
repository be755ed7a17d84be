package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const operationsPage = "../../docs/operations.md"

func readOperationsPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(operationsPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// Every command of ours on the page is one that there is, with flags that it has.
func TestOperationsPageHasRealCommands(t *testing.T) {
	page := readOperationsPage(t)
	found := 0
	for _, block := range blocks(strings.ReplaceAll(page, "\n   ", "\n"), "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " #")
			if m := regexp.MustCompile(`(?:^|[ /])etcd-ferry ([a-z].*)`).FindStringSubmatch(line); m != nil {
				checkLine(t, strings.Fields(m[1]))
				found++
			}
		}
	}
	for _, m := range regexp.MustCompile("`etcd-ferry ([^`…]+)`").FindAllStringSubmatch(page, -1) {
		checkLine(t, strings.Fields(m[1]))
		found++
	}
	if found < 14 {
		t.Errorf("only %d commands found", found)
	}
}

// Every flag that a sentence names is one of some command.
func TestOperationsPageHasRealFlags(t *testing.T) {
	known := map[string]bool{}
	for _, c := range commands(newRoot(&app{})) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		}
	}
	for _, m := range regexp.MustCompile("`(--[a-z][a-z-]+)[^`]*`").FindAllStringSubmatch(readOperationsPage(t), -1) {
		if !known[m[1]] {
			t.Errorf("no command has %s", m[1])
		}
	}
}

func TestOperationsPageHasRealMetrics(t *testing.T) { wantRealMetrics(t, readOperationsPage(t)) }

// Links of the pages for people lead somewhere: to a file, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		pages = append(pages, "../../"+name)
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^):]*)\)`).FindAllStringSubmatch(string(content), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if text, err := os.ReadFile(target); anchor != "" && (err != nil || !hasAnchor(string(text), anchor)) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

// hasAnchor reports whether a page has a heading with this anchor, as GitHub makes
// them.
func hasAnchor(page, anchor string) bool {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		made := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")
		if regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(made, "") == anchor {
			return true
		}
	}
	return false
}
