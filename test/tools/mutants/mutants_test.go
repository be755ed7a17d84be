package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The list must not rot: what is to be replaced is there, and so are the tests.
func TestListIsUpToDate(t *testing.T) {
	var names []string
	tests := map[string][]string{}
	for _, m := range all() {
		if slices.Contains(names, m.name) || m.danger == "" || len(m.edits) == 0 || len(m.tests) == 0 {
			t.Errorf("%s: twice, or incomplete", m.name)
		}
		names = append(names, m.name)
		content, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := m.apply(string(content))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, 0); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if tests[m.pkg] == nil {
			tests[m.pkg] = testsOf(t, filepath.Join(root, m.pkg))
		}
		for _, name := range m.tests {
			if !slices.Contains(tests[m.pkg], name) {
				t.Errorf("%s: there is no %s in %s", m.name, name, m.pkg)
			}
		}
	}
}

func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

func TestTextThatIsNotThereOnce(t *testing.T) {
	m := mutant{file: "a.go", edits: []edit{{"b", "c"}}}
	for _, content := range []string{"a", "b b"} {
		if got, err := m.apply(content); err == nil {
			t.Errorf("%q became %q", content, got)
		}
	}
	if got, err := m.apply("abd"); err != nil || got != "acd" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOutcome(t *testing.T) {
	const (
		failed  = `{"Action":"fail","Test":"TestA"}`
		passed  = `{"Action":"pass","Test":"TestA"}`
		part    = `{"Action":"fail","Test":"TestA/b"}`
		noTests = `{"Action":"output","Output":"testing: warning: no tests to run\n"}`
		built   = `{"ImportPath":"p","Action":"build-fail"}`
	)
	for _, c := range []struct {
		said   []string
		failed bool
		caught int
		err    error
	}{
		{[]string{part, failed, `{"Action":"fail"}`}, true, 1, nil},
		{[]string{passed, `{"Action":"pass"}`}, false, 0, errSurvived},
		{[]string{passed, `{"Action":"fail"}`}, true, 0, errSurvived},
		{[]string{`{"Action":"build-output","Output":"x.go:1: no\n"}`, built, `{"Action":"fail","FailedBuild":"p"}`}, true, 0, errBuild},
		{[]string{noTests, `{"Action":"pass"}`}, false, 0, errNoTests},
		{[]string{"go: no such package"}, true, 0, errNoTests},
	} {
		caught, err := outcome([]byte(strings.Join(c.said, "\n")), c.failed)
		if len(caught) != c.caught || !errors.Is(err, c.err) {
			t.Errorf("%v: caught %v, %v", c.said, caught, err)
		}
	}
}
