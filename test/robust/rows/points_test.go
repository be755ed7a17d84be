package rows

import (
	"bytes"
	"debug/elf"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/crashpoint"
)

const root = "../../.."

// TestEveryPointIsPassedAndDriven: the list of points, the code and the tests are
// of one mind. That somebody dies at a point that a test arms the test looks at.
func TestEveryPointIsPassedAndDriven(t *testing.T) {
	t.Parallel()
	passed, driven := map[string]int{}, map[string]int{}
	visit := func(path string, tests bool) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch name := pointIn(n); {
			case name == "" || name == "Here" || name == "Point" || name == "Variable":
			case tests:
				driven[name]++
			default:
				passed[name]++
			}
			return true
		})
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(root, "test")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			visit(path, false)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range here {
		visit(path, true)
	}
	points := listOfPoints(t)
	for name := range points {
		if passed[name] != 1 {
			t.Errorf("%d lines of the code pass the point %s, want 1", passed[name], name)
		}
		if driven[name] == 0 {
			t.Errorf("no test drives the point %s", name)
		}
	}
	for name := range passed {
		if points[name] == "" {
			t.Errorf("the code passes %s, which is not in the list", name)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), fmt.Sprintf("| %d points,", len(points))) {
		t.Errorf("there are %d points, docs/reliability.md says something else", len(points))
	}
}

// pointIn returns the name of what is used of package crashpoint, or "".
func pointIn(n ast.Node) string {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if of, ok := s.X.(*ast.Ident); !ok || of.Name != "crashpoint" {
		return ""
	}
	return s.Sel.Name
}

// listOfPoints returns the points by the names of their constants.
func listOfPoints(t *testing.T) map[string]crashpoint.Point {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pkg", "crashpoint", "points.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	points, names := map[string]crashpoint.Point{}, map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.Ident); !ok || of.Name != "Point" {
			return true
		}
		name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil || names[name] {
			t.Errorf("%s: %q, %v, or it is there twice", v.Names[0].Name, name, err)
		}
		points[v.Names[0].Name], names[name] = crashpoint.Point(name), true
		return true
	})
	if len(points) < 30 {
		t.Fatalf("there are %d points", len(points))
	}
	return points
}

// TestNothingOfItIsReleased: a program that is built without the tag has no code of
// package crashpoint in it, since an empty function is inlined wherever it is
// called, and no name of a point or of the variable.
func TestNothingOfItIsReleased(t *testing.T) {
	t.Parallel()
	for program, released := range map[string]bool{binary: true, mortal: false} {
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		words := []string{crashpoint.Variable}
		for _, p := range listOfPoints(t) {
			words = append(words, string(p))
		}
		for _, word := range words {
			if bytes.Contains(content, []byte(word)) == released {
				t.Errorf("%s: %q is in it: %v", filepath.Base(program), word, released)
			}
		}
		if size := codeSize(t, content, "pkg/crashpoint."); (size == 0) != released {
			t.Errorf("%s: it has %d bytes of code of package crashpoint", filepath.Base(program), size)
		}
	}
}

// codeSize returns the bytes of a package's functions.
func codeSize(t *testing.T, program []byte, pkg string) (size uint64) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil || len(symbols) < 10_000 {
		t.Fatalf("%d symbols, %v", len(symbols), err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && strings.Contains(s.Name, pkg) {
			size += s.Size
		}
	}
	return size
}
