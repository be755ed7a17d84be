package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/reliability.md says which test shows what, and how many mutants there are.
func TestReliabilityPageIsUpToDate(t *testing.T) {
	page := namesTestsThatExist(t, "docs/reliability.md")
	if count := fmt.Sprintf("| %d, each caught", len(all())); !strings.Contains(page, count) {
		t.Errorf("there are %d mutants, the page says something else", len(all()))
	}
}

// The table of test/robust says which test is of which row.
func TestRowsAreUpToDate(t *testing.T) { namesTestsThatExist(t, "test/robust/doc.go") }

// root is the folder of the module.
var root = filepath.Join("..", "..", "..")

// namesTestsThatExist returns a page whose every word that may be the name of a
// test is one.
func namesTestsThatExist(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	there := testsOfModule(t)
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(page), -1)
	if len(named) == 0 {
		t.Error("the page names no test")
	}
	for _, name := range named {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
	return string(page)
}

func testsOfModule(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		for _, found := range function.FindAllSubmatch(data, -1) {
			there[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
