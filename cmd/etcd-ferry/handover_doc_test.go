package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

func readHandOverPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/handover.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// blocks returns the code blocks of a page that are in a language.
func blocks(page, language string) (all []string) {
	for _, b := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		all = append(all, b[1])
	}
	return all
}

// checkLine parses a command line without running it.
func checkLine(t *testing.T, words []string) {
	t.Helper()
	c, rest, err := newRoot(&app{}).Find(words)
	if err != nil || c.Name() == "etcd-ferry" {
		t.Errorf("%q: no such command (%v)", words, err)
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", words, err)
		return
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("%q: %v", words, err)
	}
}

// Every command of the page, in a block or in a sentence, is one that there is, with
// flags that it has. Those in blocks are complete: begun with a context that has
// ended, they complain of that and not of wrong usage.
func TestHandOverPageHasRealCommands(t *testing.T) {
	page := readHandOverPage(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	complete := 0
	for _, block := range blocks(page, "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, " #")
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "etcd-ferry" {
				continue
			}
			complete++
			if got := runLine(ended, words[1:]...); got.code != codeFailed {
				t.Errorf("%q: exit code %d: %s", line, got.code, got.stderr)
			}
		}
	}
	inline := regexp.MustCompile("`etcd-ferry ([^`]+)`").FindAllStringSubmatch(page, -1)
	for _, m := range inline {
		checkLine(t, strings.Fields(m[1]))
	}
	if complete < 12 || len(inline) < 8 {
		t.Errorf("only %d and %d commands found", complete, len(inline))
	}
}

// Every flag that the page names is one of some command.
func TestHandOverPageHasRealFlags(t *testing.T) {
	etcds := []string{"--listen-client-urls", "--advertise-client-urls", "--previous"} // of etcd and kubectl
	known := map[string]string{}
	for _, c := range commands(newRoot(&app{})) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = f.DefValue })
	}
	page := readHandOverPage(t)
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(page, -1) {
		if _, ok := known[flag]; !ok && !slices.Contains(etcds, flag) {
			t.Errorf("no command has %s", flag)
		}
	}
	presets := regexp.MustCompile("(?m)^\\| `(--[a-z-]+)` \\| \\S* ?\\| (\\S+) \\|").FindAllStringSubmatch(page, -1)
	if len(presets) != 9 {
		t.Errorf("%d presets found, want 9", len(presets))
	}
	for _, row := range presets {
		if known[row[1]] != row[2] {
			t.Errorf("the preset of %s is %s, documented is %s", row[1], known[row[1]], row[2])
		}
	}
}

func TestHandOverPageHasAllExitCodes(t *testing.T) {
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) \| `).FindAllStringSubmatch(readHandOverPage(t), -1) {
		documented = append(documented, row[1])
	}
	var want []string
	for _, e := range exits {
		want = append(want, strconv.Itoa(e.code))
	}
	if !slices.Equal(documented, want) {
		t.Errorf("documented are %v, there are %v", documented, want)
	}
}

func TestHandOverPageHasRealMetrics(t *testing.T) { wantRealMetrics(t, readHandOverPage(t)) }

// wantRealMetrics fails the test for what a page names and no command exports.
func wantRealMetrics(t *testing.T, page string) {
	t.Helper()
	m := newMetrics()
	m.election()
	m.bootstrap()
	m.handOver()
	m.snapshotter()
	m.etcd()
	m.defrag()
	m.verification()
	m.web()
	m.store("destination", nil)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range families {
		known[f.GetName()] = true
	}
	for _, name := range regexp.MustCompile(`etcd_ferry_\w+`).FindAllString(page, -1) {
		if !known[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// The YAML is YAML, and what its containers run are commands that there are.
func TestHandOverPageHasRealManifests(t *testing.T) {
	ran := 0
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if words, ok := inner.([]any); ok && (key == "command" || key == "args") {
					if line := ferryWords(words); line != nil {
						ran++
						checkLine(t, line)
					}
				}
				look(inner)
			}
		case []any:
			for _, inner := range v {
				look(inner)
			}
		}
	}
	for _, block := range blocks(readHandOverPage(t), "yaml") {
		var v any
		if err := yaml.UnmarshalStrict([]byte(block), &v); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
		look(v)
	}
	if ran != 4 {
		t.Errorf("%d command lines found, want 4", ran)
	}
}

// ferryWords returns the words of a command line of ours, else nil.
func ferryWords(words []any) (line []string) {
	for _, w := range words {
		s, ok := w.(string)
		if !ok {
			return nil
		}
		line = append(line, s)
	}
	switch {
	case line[0] == "/ferry/etcd-ferry":
		return line[1:]
	case strings.HasPrefix(line[0], "-"): // etcd's
		return nil
	}
	return line
}
