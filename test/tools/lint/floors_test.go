// Package lint proves that the linter's configuration does what it says.
package lint

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/etcd-ferry/etcd-ferry"

type wrongImport struct{ file, imported, rule string }

// wrong are files with an import that the floors in .golangci.yml forbid.
// "./" stands for the module.
var wrong = []wrongImport{
	{"pkg/snapshot/a.go", "./store", "floor-0-snapshot"},
	{"pkg/snapshot/b.go", "golang.org/x/sync/errgroup", "floor-0-snapshot"},
	{"pkg/crashpoint/a.go", "./pkg/snapshot", "floor-0-snapshot"},
	{"store/a.go", "./pkg/snapshot", "floor-1-store"},
	{"store/b.go", "./store/mem", "floor-1-store"},
	{"store/c.go", "github.com/klauspost/compress/zstd", "floor-1-store"},
	{"store/d.go", "github.com/prometheus/client_golang/prometheus", "prometheus"},
	{"store/mem/a.go", "./pkg/snapshot", "floor-1-providers"},
	{"store/file/a.go", "./store/mem", "floor-1-providers"},
	{"store/file/b.go", "github.com/klauspost/compress/zstd", "floor-1-providers"},
	{"store/storetest/a.go", "./pkg/archive", "floor-1-providers"},
	{"store/cloud/a.go", "./store/s3", "floor-1-providers"},
	{"store/cloud/b.go", "github.com/aws/aws-sdk-go-v2/config", "aws"},
	{"store/s3/a.go", "./store/mem", "floor-1-cloud"},
	{"store/s3/b.go", "./pkg/snapshot", "floor-1-cloud"},
	{"pkg/etcd/a.go", "./store", "floor-1-etcd"},
	{"pkg/delta/a.go", "./pkg/archive", "floor-1-etcd"},
	{"pkg/delta/b.go", "go.etcd.io/etcd/client/v3", "etcd"},
	{"pkg/archive/a.go", "./syncobject", "floor-2"},
	{"pkg/archive/b.go", "./store/file", "floor-2"},
	{"syncobject/a.go", "./snapshotter", "floor-2"},
	{"snapshotter/a.go", "./restorer", "floor-3"},
	{"snapshotter/b.go", "./store/file", "floor-3"},
	{"restorer/a.go", "./copier", "floor-3"},
	{"copier/a.go", "./server", "floor-3"},
	{"server/a.go", "./cmd/etcd-ferry", "floor-4-server"},
	{"server/b.go", "./store/mem", "floor-4-server"},
	{"cmd/etcd-ferry/a.go", "./test/etcdtest", "floor-5-cmd"},
	{"newcomer/a.go", "./store", "floor-none"},
	{"pkg/newcomer/a.go", "./store", "floor-none"},

	{"server/c.go", "github.com/spf13/cobra", "cobra"},
	{"server/c_test.go", "github.com/spf13/pflag", "cobra"},
	{"store/gcs/a.go", "github.com/aws/aws-sdk-go-v2/config", "aws"},
	{"store/s3/c.go", "cloud.google.com/go/storage", "gcs"},
	{"cmd/etcd-ferry/b.go", "github.com/Azure/azure-sdk-for-go/sdk/azidentity", "azure"},
	{"snapshotter/c.go", "github.com/prometheus/client_golang/prometheus", "prometheus"},
	{"snapshotter/d.go", "go.etcd.io/etcd/client/v3", "etcd"},
	{"server/d.go", "go.etcd.io/etcd/server/v3/embed", "etcd"},
	{"cmd/etcd-ferry/c.go", "go.etcd.io/etcd/client/v3", "etcd"},
	{"cmd/etcd-ferry/d.go", "log", "everywhere"},
	{"test/bench/a.go", "math/rand", "everywhere"},
	{"restorer/b.go", "testing", "tests-only"},
}

// right are files with an import that looks like one of those, and is allowed.
var right = []struct{ file, imported string }{
	{"pkg/snapshot/ok_test.go", "pgregory.net/rapid"},
	{"store/metrics.go", "github.com/prometheus/client_golang/prometheus"},
	{"store/ok_test.go", "./store/mem"},
	{"store/file/ok.go", "golang.org/x/sys/unix"},
	{"store/file/ok2.go", "./store"},
	{"store/storetest/ok.go", "testing"},
	{"store/s3/ok.go", "github.com/aws/aws-sdk-go-v2/config"},
	{"store/s3/ok2.go", "./store/cloud"},
	{"store/gcs/ok.go", "cloud.google.com/go/storage"},
	{"store/azure/ok.go", "github.com/Azure/azure-sdk-for-go/sdk/azidentity"},
	{"pkg/etcd/ok.go", "go.etcd.io/etcd/client/v3"},
	{"pkg/delta/ok.go", "go.etcd.io/etcd/api/v3/mvccpb"},
	{"pkg/archive/ok.go", "./store"},
	{"pkg/archive/ok2.go", "./pkg/crashpoint"},
	{"snapshotter/ok.go", "./pkg/archive"},
	{"snapshotter/ok_test.go", "./test/etcdtest"},
	{"restorer/ok.go", "go.etcd.io/etcd/server/v3/storage/schema"},
	{"copier/ok.go", "./syncobject"},
	{"server/ok.go", "./snapshotter"},
	{"cmd/etcd-ferry/ok.go", "./store/file"},
	{"cmd/etcd-ferry/ok2.go", "github.com/spf13/cobra"},
	{"cmd/etcd-ferry/demo_ok.go", "go.etcd.io/etcd/server/v3/embed"},
	{"test/etcdtest/ok.go", "go.etcd.io/etcd/client/v3"},
	{"syncobject/ok.go", "./store"},
}

func TestWrongImportsAreFound(t *testing.T) {
	for _, c := range wrong {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			if got := broken(t, c.file, c.imported); !slices.Contains(got, c.rule) {
				t.Errorf("rule %s does not mind the import of %s; rules that do: %v", c.rule, c.imported, got)
			}
		})
	}
}

func TestRightImportsPass(t *testing.T) {
	for _, c := range right {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			if got := broken(t, c.file, c.imported); len(got) > 0 {
				t.Errorf("the import of %s breaks %v", c.imported, got)
			}
		})
	}
}

// TestEveryRuleIsProven fails when a rule is added without a case above.
func TestEveryRuleIsProven(t *testing.T) {
	config := read(t, "../../../.golangci.yml")
	_, config, _ = strings.Cut(config, "\n      rules:\n")
	config, _, _ = strings.Cut(config, "\n    errcheck:")
	rules := regexp.MustCompile(`(?m)^        ([a-z0-9-]+):`).FindAllStringSubmatch(config, -1)
	if len(rules) == 0 {
		t.Fatal("no rules in .golangci.yml")
	}
	for _, rule := range rules {
		if !slices.ContainsFunc(wrong, func(w wrongImport) bool { return w.rule == rule[1] }) {
			t.Errorf("no wrong import proves the rule %s", rule[1])
		}
	}
}

// broken returns the depguard rules that a file breaks by an import, in a module
// of its own: together the wrong imports would be circular.
func broken(t *testing.T, file, imported string) []string {
	t.Helper()
	if path, ok := strings.CutPrefix(imported, "."); ok {
		imported = module + path
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module "+module+"\n\ngo 1.26\n")
	write(t, filepath.Join(dir, ".golangci.yml"), read(t, "../../../.golangci.yml"))
	write(t, filepath.Join(dir, file), fmt.Sprintf("package any\n\nimport _ %q\n", imported))
	return depguard(t, dir)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// depguard runs the linter and returns the rules of the issues that it finds.
func depguard(t *testing.T, dir string) []string {
	t.Helper()
	tool, err := filepath.Abs("../../../.tools/golangci-lint")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "run", "--enable-only=depguard", "--allow-parallel-runners",
		"--output.json.path=stdout", "--output.text.path=", "--show-stats=false")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output() // it fails also when it finds something
	var result struct {
		Issues []struct{ FromLinter, Text string }
	}
	if json.Unmarshal(out, &result) != nil {
		t.Fatalf("golangci-lint: %v\n%s\n%s", err, out, &stderr)
	}
	var rules []string
	for _, issue := range result.Issues {
		found := regexp.MustCompile(`not allowed from list '(.*?)'`).FindStringSubmatch(issue.Text)
		if found == nil {
			t.Fatalf("not an issue of depguard: %s: %s", issue.FromLinter, issue.Text)
		}
		rules = append(rules, found[1])
	}
	return rules
}
