package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const storesPage = "../../docs/stores.md"

func readStoresPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(storesPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The table of docs/stores.md has a row for each option that there is, and no
// other.
func TestEveryStoreOptionIsDocumented(t *testing.T) {
	var want, documented []string
	for name, scheme := range schemes {
		for _, option := range scheme.options {
			want = append(want, name+" "+option)
		}
		if len(scheme.options) == 0 {
			want = append(want, name+" none")
		}
	}
	table, _, _ := strings.Cut(readStoresPage(t), "## Credentials")
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `?(\\w+)`? \\| (.+) \\|$")
	for _, row := range rows.FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	slices.Sort(want)
	slices.Sort(documented)
	if !slices.Equal(want, documented) {
		t.Errorf("documented are %q, the options are %q", documented, want)
	}
}

// The URLs of the examples are accepted.
func TestStoreExamples(t *testing.T) {
	tried := map[string]bool{}
	for line := range strings.Lines(readStoresPage(t)) {
		for _, url := range regexp.MustCompile("(file|s3|gs|azblob)://[^\\s`\"]+").FindAllString(line, -1) {
			scheme, _, _ := strings.Cut(url, ":")
			s := storeFlags{url: url}
			if strings.Contains(line, "--store-credentials") {
				s.credentials = t.TempDir()
			}
			if err := s.check(); err != nil {
				t.Error(err)
			}
			tried[scheme] = true
		}
	}
	if len(tried) != len(schemes) {
		t.Errorf("there are examples of %v only", tried)
	}
}
