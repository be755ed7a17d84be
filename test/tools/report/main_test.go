package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   string // regular expression
		ok     bool
		strict bool
	}{
		"pass": {
			source: `func TestA(t *testing.T) { t.Log("quiet"); t.Run("sub", func(t *testing.T) {}) }`,
			want:   `^ok  \tproject\t[\d.]+s\n\n2 passed, 0 failed, 0 skipped\n$`,
			ok:     true, strict: true,
		},
		"fail": {
			source: `func TestA(t *testing.T) { t.Log("quiet") }; func TestB(t *testing.T) { t.Error("loud") }`,
			want:   `^ +main_test.go:\d+: loud\n--- FAIL: TestB \([\d.]+s\)\nFAIL\nFAIL\tproject\t[\d.]+s\n\nfailed: project TestB\n +main_test.go:\d+: loud\n\n1 passed, 1 failed, 0 skipped\n$`,
		},
		"panic": {
			source: `func TestA(t *testing.T) {}; func TestB(t *testing.T) { panic("loud") }`,
			want:   `(?s)^--- FAIL: TestB.*panic: loud.*\n\n1 passed, 1 failed, 0 skipped\n$`,
		},
		"no start": {
			source: `func TestA(t *testing.T) {}; func TestMain(m *testing.M) { os.Exit(m.Run() + 1) }`,
			want:   `^FAIL\tproject\t[\d.]+s\n\n1 passed, 1 failed, 0 skipped\n$`,
		},
		"no build": {
			source: `func TestA(t *testing.T) { undefined() }`,
			want:   `(?s)^# project.*undefined: undefined.*FAIL\tproject \[build failed\]\n\n0 passed, 1 failed, 0 skipped\n$`,
		},
		"no tests": {
			want: `\n0 passed, 0 failed, 0 skipped\n$`,
		},
		"skip": {
			source: `func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Skip("not today") }`,
			want:   `(?s)main_test.go:\d+: not today\n.*1 passed, 0 failed, 1 skipped\nskipped: project TestB\n$`,
			ok:     true,
		},
		"skip in CI": {
			source: `func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Skip("not today") }`,
			want:   `skipped: project TestB\n$`,
			strict: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			r := newReport(&got)
			if err := r.read(strings.NewReader(goTest(t, c.source))); err != nil {
				t.Fatal(err)
			}
			if ok := r.verdict(c.strict); ok != c.ok {
				t.Errorf("verdict %v, want %v", ok, c.ok)
			}
			if !regexp.MustCompile(c.want).MatchString(got.String()) {
				t.Errorf("got:\n%s\nwant: %s", got.String(), c.want)
			}
		})
	}
}

// goTest returns what "go test -json" says of a package with these tests.
func goTest(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":       "module project\n\ngo 1.26\n",
		"main_test.go": "package main\n\nimport (\"os\"; \"testing\")\n\nvar (_ = os.Exit; _ testing.TB)\n" + source,
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", ".")
	cmd.Dir = dir
	out, _ := cmd.Output() // it fails when the tests do
	return string(out)
}
